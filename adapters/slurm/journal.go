package slurm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// firstFreeWait is how long an entry that was freed gets no other constraint; each further time doubles it, up to
// lastFreeWait.
const (
	firstFreeWait = 10 * time.Minute
	lastFreeWait  = 24 * time.Hour
)

// Journal is the file in which every write is before it is made, one JSON object a line. A
// helper that begins again knows by it what it has written.
type Journal struct {
	file    *os.File
	entries map[journalKey]*journalEntry
}

type journalKey struct {
	job, submitS int64
	field        string
}

type journalEntry struct {
	own, last, before string
	frees             int // how often the entry was freed of it
	barred            time.Time
}

// journalLine is one line of the journal.
type journalLine struct {
	Time  string `json:"time"`
	Event string `json:"event"` // write, free, failed or reset
	Update
	Own   string `json:"own"` // the user's value
	Error string `json:"error,omitempty"`
}

// OpenJournal reads a journal and goes on with it; an empty path means a journal in memory. A line
// that a crash cut off at the end of the file is left out.
func OpenJournal(path string) (*Journal, error) {
	j := &Journal{entries: map[journalKey]*journalEntry{}}
	if path == "" {
		return j, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(f)
	good := int64(0)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		var l journalLine
		if err := json.Unmarshal(line, &l); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("%s:%d: is not a line of a journal of hare slurm: %w", path, number, err)
		}
		good += int64(len(line))
		j.take(&l)
	}
	if err := f.Truncate(good); err != nil {
		_ = f.Close()
		return nil, err
	}
	if _, err := f.Seek(good, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, err
	}
	j.file = f
	return j, nil
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

func (j *Journal) take(l *journalLine) {
	key := journalKey{l.Job, l.SubmitS, l.Field}
	switch l.Event {
	case "write", "free":
		next := &journalEntry{own: l.Own, last: l.New, before: l.Old}
		if e := j.entries[key]; e != nil {
			if e.last != l.Old {
				next.before = e.before
			}
			next.frees, next.barred = e.frees, e.barred
			if l.Event == "free" && e.last == l.New && e.frees > 0 {
				break // is written again, since scontrol failed
			}
		}
		if l.Event == "free" {
			next.frees++
			at, _ := time.Parse(time.RFC3339Nano, l.Time)
			next.barred = at.Add(min(lastFreeWait, firstFreeWait<<min(next.frees-1, 10)))
		}
		j.entries[key] = next
	case "reset":
		delete(j.entries, key)
	}
}

// record appends lines and waits until they are on disk.
func (j *Journal) record(event string, updates []Update, fault error, now time.Time) error {
	var b bytes.Buffer
	for _, u := range updates {
		l := journalLine{Time: now.UTC().Format(time.RFC3339Nano), Event: event, Update: u, Own: u.own}
		if fault != nil {
			l.Error = fault.Error()
		}
		text, err := json.Marshal(&l)
		if err != nil {
			return err
		}
		b.Write(append(text, '\n'))
		j.take(&l)
	}
	if j.file == nil || b.Len() == 0 {
		return nil
	}
	if _, err := j.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return j.file.Sync()
}

// own returns the user's value of a field, where what Slurm has is what the helper wrote, or what it wrote
// before where Slurm did not take the last value.
func (j *Journal) own(r *Record, field, stands string) (string, bool) {
	e := j.entries[journalKey{r.ID, r.SubmitS, field}]
	if e == nil || e.last != stands && e.before != stands {
		return "", false
	}
	return e.own, true
}

// freeing reports whether the journal has already that the user's value was given back.
func (j *Journal) freeing(r *Record, field string) bool {
	e := j.entries[journalKey{r.ID, r.SubmitS, field}]
	return e != nil && e.frees > 0 && e.last == e.own
}

// barred reports whether an entry gets no constraint, since one kept it from starting a while ago.
func (j *Journal) barred(r *Record, field string, now time.Time) bool {
	e := j.entries[journalKey{r.ID, r.SubmitS, field}]
	return e != nil && now.Before(e.barred)
}

// foreign reports whether somebody else has set the value by which the helper would order an entry:
// the helper leaves such an entry alone.
func (j *Journal) foreign(r *Record, order Order) bool {
	field, stands := "SiteFactor", strconv.FormatInt(r.Site, 10)
	switch order {
	case OrderNice, OrderNiceUser:
		field, stands = "Nice", strconv.FormatInt(r.Nice, 10)
	case OrderNone:
		return false
	}
	e := j.entries[journalKey{r.ID, r.SubmitS, field}]
	if e == nil {
		return field == "SiteFactor" && r.Site != 0
	}
	return stands != e.last && stands != e.before && stands != e.own
}

// Update is one value that the helper writes, or would write.
type Update struct {
	Job     int64  `json:"job"`
	SubmitS int64  `json:"submit"`
	Field   string `json:"field"` // SiteFactor, Nice, Features, Prefer or Comment
	Old     string `json:"old"`
	New     string `json:"new"`
	Reason  string `json:"reason"`
	// own is the user's value of the field, which --reset writes.
	own string
}

// script writes updates as commands for scontrol's standard input, one line a job, and another for its
// comment, so that a comment that Slurm refuses costs nothing else.
func script(updates []Update) []byte {
	var b []byte
	for i, u := range updates {
		if i == 0 || updates[i-1].Job != u.Job || u.Field == "Comment" {
			if i > 0 {
				b = append(b, '\n')
			}
			b = append(b, "update JobId="+strconv.FormatInt(u.Job, 10)...)
		}
		b = append(b, " "+u.Field+"="+u.New...)
	}
	if len(b) > 0 {
		b = append(b, '\n')
	}
	return b
}
