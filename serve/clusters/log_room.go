package clusters

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
)

// ErrLogRemoved says that the outputs of a job were removed to make room for those of later jobs.
var ErrLogRemoved = errors.New("clusters: the outputs of the job were removed")

// removedFile is in the directory of a job whose outputs were removed.
const removedFile = "removed"

// roomWait is how long outputs are not stored before it is looked again whether others can be removed.
const roomWait = 10 * time.Second

// reserve makes room for n more bytes, among the outputs of the cluster and in the quota of its tenant: it removes
// the outputs of the jobs that ended first. It says whether there is room.
func (c *Cluster) reserve(ctx context.Context, n int64) (bool, error) {
	r := &c.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.counted {
		bytes, err := directoryBytes(c.logDir())
		if err != nil {
			return false, fmt.Errorf("%w: %w", store.ErrStorage, err)
		}
		r.bytes, r.counted = bytes, true
	}
	most := c.parent.cfg.MaxLogs
	fits := func() bool { return r.bytes+n <= most && c.storeWithin(n) }
	ok := fits()
	if now := c.parent.cfg.Now(); !ok && now.Sub(r.looked) >= roomWait {
		r.looked = now
		left := most - max(n, most/10)
		if r.bytes+n <= most {
			left = r.bytes - max(n, r.bytes/10) // it is the quota that is used up
		}
		if err := c.removeLogs(ctx, left); err != nil {
			return false, err
		}
		ok = fits()
	}
	if ok {
		r.bytes += n
	}
	return ok, nil
}

// unused gives back bytes that were reserved and not written.
func (c *Cluster) unused(n int64) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	c.room.bytes -= n
	c.countStored(-n)
}

// removeLogs removes outputs of jobs that have ended, the oldest jobs first, until at most most bytes are left. The
// caller holds the lock of the room.
func (c *Cluster) removeLogs(ctx context.Context, most int64) error {
	entries, err := os.ReadDir(c.logDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	var jobs []string
	for _, e := range entries {
		jobs = append(jobs, e.Name())
	}
	number := func(id string) int { n, _ := strconv.Atoi(strings.TrimPrefix(id, "j")); return n }
	slices.SortFunc(jobs, func(a, b string) int { return number(a) - number(b) })
	final := map[string]bool{}
	if err := c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		for _, id := range jobs {
			final[id] = l.Final(id)
		}
		return nil, nil
	}}); err != nil {
		return err
	}
	for _, id := range jobs {
		if c.room.bytes <= most {
			return nil
		}
		dir := filepath.Join(c.logDir(), id)
		bytes, err := directoryBytes(dir)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrStorage, err)
		}
		if !final[id] || bytes == 0 {
			continue
		}
		err = errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700),
			os.WriteFile(filepath.Join(dir, removedFile), nil, 0o600))
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrStorage, err)
		}
		c.room.bytes -= bytes
		c.countStored(-bytes)
		c.parent.counts.logsRemoved.Add(1)
	}
	return nil
}
