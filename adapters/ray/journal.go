package ray

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// The files of a directory.
const (
	journalFile = "journal.ndjson"
	journalLock = "journal.lock" // is held while a process appends
	leaderLock  = "leader.lock"  // is held by the process that leads, until its end
)

// compactBytes is how long a journal may become before jobs that ended long ago leave it.
const compactBytes = 4 << 20

// Journal is the queue in a directory: one file to which processes append under a lock, one JSON object
// a line. What is in it is on disk. A Journal is not safe for concurrent use; several processes and
// several Journals may use one directory.
type Journal struct {
	Queue Queue

	dir     string
	read    os.FileInfo // the file that was read
	offset  int64       // up to where
	line    int
	compact int64 // the length after which the journal is made shorter
	// crash is called at points where a process may be killed; tests set it.
	crash func(string)
}

// OpenJournal reads the queue in a directory, which it makes where it is not there.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, compact: compactBytes, crash: func(string) {}}
	return j, j.Refresh()
}

// Refresh reads what others appended. A line at the end that is not whole is not read: its writer is at
// work, or was killed before it said that the line stands.
func (j *Journal) Refresh() error {
	f, err := os.Open(filepath.Join(j.dir, journalFile))
	if errors.Is(err, os.ErrNotExist) {
		j.Queue, j.read, j.offset, j.line = Queue{}, nil, 0, 0
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return j.readOn(f)
}

// readOn reads whole lines from where the last reading ended.
func (j *Journal) readOn(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if j.read == nil || !os.SameFile(j.read, info) || info.Size() < j.offset {
		j.Queue, j.offset, j.line = Queue{}, 0, 0
	}
	j.read = info
	if info.Size() == j.offset {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(f, j.offset, info.Size()-j.offset))
	if err != nil {
		return err
	}
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return nil
		}
		var r Record
		err := json.Unmarshal(text[:end], &r)
		if err == nil {
			err = j.Queue.apply(&r)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: is not a line of a queue of hare ray: %w; mend or remove the line, with all hare ray "+
				"run of this directory ended", filepath.Join(j.dir, journalFile), j.line+1, err)
		}
		j.line++
		j.offset += int64(end + 1)
		text = text[end+1:]
	}
}

// errFenced says that another process leads.
var errFenced = errors.New("ray: another process leads now")

// Update appends what change returns for the queue as it is, while nobody else appends, and returns
// when this is on disk. An epoch above 0 is the one in which this process leads: where another leads,
// nothing is appended, and the error says so.
func (j *Journal) Update(ctx context.Context, epoch int64, now time.Time,
	change func(*Queue) ([]Record, error),
) error {
	unlock, err := lockFile(ctx, filepath.Join(j.dir, journalLock), fileMode(j.dir))
	if err != nil {
		return err
	}
	defer unlock()
	f, err := os.OpenFile(filepath.Join(j.dir, journalFile), os.O_RDWR|os.O_CREATE, fileMode(j.dir))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := j.readOn(f); err != nil {
		return err
	}
	if epoch > 0 && j.Queue.Epoch != epoch {
		return errFenced
	}
	records, err := change(&j.Queue)
	if err != nil || len(records) == 0 {
		return err
	}
	var b bytes.Buffer
	for i := range records {
		r := &records[i]
		r.At, r.Epoch = now.UTC().Format("2006-01-02T15:04:05.000000Z"), max(r.Epoch, epoch)
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	j.crash("before append")
	err = f.Truncate(j.offset) // a line that a kill cut off
	if err == nil {
		_, err = f.WriteAt(b.Bytes(), j.offset)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil && j.offset == 0 {
		err = atomicfile.SyncDir(j.dir)
	}
	if err != nil {
		_ = f.Truncate(j.offset) // what is not said to stand must not
		return fmt.Errorf("journal: %w", err)
	}
	j.crash("after append")
	return j.readOn(f)
}

// Compact leaves out of the journal, where it is long, the jobs that ended before a time. The file is
// replaced as a whole, and processes that read it begin again.
func (j *Journal) Compact(ctx context.Context, epoch, beforeUs int64, now time.Time) error {
	if j.offset < j.compact {
		return nil
	}
	return j.Update(ctx, epoch, now, func(q *Queue) ([]Record, error) {
		at := now.UTC().Format("2006-01-02T15:04:05.000000Z")
		records := []Record{{At: at, Event: eventLead, Epoch: q.Epoch}}
		for _, e := range q.Entries {
			if !e.State.Ended() || e.EndUs >= beforeUs {
				records = append(records, Record{At: at, Event: eventKept, Entry: e})
			}
		}
		var b bytes.Buffer
		for i := range records {
			line, err := json.Marshal(&records[i])
			if err != nil {
				return nil, err
			}
			b.Write(append(line, '\n'))
		}
		next, err := atomicfile.Create(filepath.Join(j.dir, journalFile), fileMode(j.dir))
		if err != nil {
			return nil, err
		}
		defer next.Discard()
		if _, err := next.Write(b.Bytes()); err != nil {
			return nil, err
		}
		j.crash("before rename")
		if err := next.Commit(); err != nil {
			return nil, err
		}
		j.compact = 2*int64(b.Len()) + compactBytes
		return nil, nil
	})
}
