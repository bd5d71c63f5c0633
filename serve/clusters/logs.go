package clusters

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// PutLog stores a piece of an output of a task at its offset. Bytes that are stored already are not stored again;
// a piece behind a gap is not stored. The answer says where to go on.
func (c *Cluster) PutLog(ctx context.Context, agent string, at *clusterdoc.LogChunk, body io.Reader) (
	*clusterdoc.LogStored, error) {
	if _, err := c.present(agent, at.Epoch, at.Secret); err != nil {
		return nil, err
	}
	if err := c.checkTask(ctx, at.TaskID, agent); err != nil {
		return nil, err
	}
	path := c.logPath(at.TaskID, at.Stream)
	unlock := c.lockLog(path)
	defer unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	stored := &clusterdoc.LogStored{Next: size}
	limit := c.parent.cfg.LogLimit + logSlack
	if at.Offset <= size && size < limit {
		if _, err := io.CopyN(io.Discard, body, size-at.Offset); err == nil {
			if err := c.extendLog(ctx, f, io.LimitReader(body, limit-size), stored); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	stored.Full = stored.Full || stored.Next >= limit
	return stored, nil
}

// extendLog writes to the end of an output, piece by piece, as far as there is room.
func (c *Cluster) extendLog(ctx context.Context, f *os.File, body io.Reader, stored *clusterdoc.LogStored) error {
	piece := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(body, piece)
		if n > 0 {
			ok, bad := c.reserve(ctx, int64(n))
			if bad != nil {
				return bad
			}
			if !ok {
				stored.Full = true
				return nil
			}
			written, bad := f.Write(piece[:n])
			stored.Next += int64(written)
			c.parent.counts.logBytes.Add(int64(written))
			if bad != nil {
				c.unused(int64(n - written))
				return fmt.Errorf("%w: %w", store.ErrStorage, bad)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// logSlack is room beyond the limit of an output for the line that says what was dropped.
const logSlack = 4096

// checkTask says why an output is not that of a task of the agent.
func (c *Cluster) checkTask(ctx context.Context, id clusterdoc.TaskID, agent string) error {
	return c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		if name, ok := l.HasTask(id); !ok || agent != "" && name != agent {
			return nil, ErrNoJob
		}
		return nil, nil
	}})
}

func (c *Cluster) logPath(id clusterdoc.TaskID, stream string) string {
	return filepath.Join(c.logDir(), id.Job, fmt.Sprintf("%d.%d.%s", id.Attempt, id.Task, stream))
}

// lockLog lets one writer at a time have an output.
func (c *Cluster) lockLog(path string) (unlock func()) {
	h := fnv.New32a()
	_, _ = io.WriteString(h, path)
	m := &c.logs[h.Sum32()%uint32(len(c.logs))]
	m.Lock()
	return m.Unlock
}

// LastAttempt is the number of the last attempt of a job; 0 where it has not started.
func (c *Cluster) LastAttempt(ctx context.Context, job string) (attempt int64, err error) {
	err = c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		d := l.Job(job, false)
		if d == nil {
			return nil, ErrNoJob
		}
		if n := len(d.Attempts); n > 0 {
			attempt = d.Attempts[n-1].Attempt
		}
		return nil, nil
	}})
	return attempt, err
}

// LogSize is how many bytes of an output are stored.
func (c *Cluster) LogSize(id clusterdoc.TaskID, stream string) int64 {
	st, err := os.Stat(c.logPath(id, stream))
	if err != nil {
		return 0
	}
	return st.Size()
}

// CopyLog hands an output of a task from an offset on to write, piece by piece, and returns the number of bytes.
// ended says that nothing follows. An output of which nothing is stored is empty.
func (c *Cluster) CopyLog(ctx context.Context, id clusterdoc.TaskID, stream string, offset int64,
	write func(piece []byte) error) (n int64, ended bool, err error) {
	err = c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		if _, ok := l.HasTask(id); !ok {
			return nil, ErrNoJob
		}
		ended = l.Closed(id)
		return nil, nil
	}})
	if err != nil {
		return 0, false, err
	}
	f, err := os.Open(c.logPath(id, stream))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(c.logDir(), id.Job, removedFile)); err == nil {
			return 0, true, ErrLogRemoved
		}
		return 0, ended, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, false, err
	}
	piece := make([]byte, 64<<10)
	for {
		k, err := f.Read(piece)
		if k > 0 {
			if err := write(piece[:k]); err != nil {
				return n, false, err
			}
			n += int64(k)
		}
		if errors.Is(err, io.EOF) {
			return n, ended, nil
		}
		if err != nil {
			return n, false, err
		}
	}
}
