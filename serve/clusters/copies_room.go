package clusters

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// makeRoom sees that the copy that is to be brought fits besides all others and the one that it replaces. A part
// that is there already, with the bytes that it has, has its room, unless the server has started again or another
// size was said.
func (c *Cluster) makeRoom(ctx context.Context, at *clusterdoc.CheckpointChunk, there bool, have int64) error {
	c.copies.mu.Lock()
	defer c.copies.mu.Unlock()
	if there && c.copies.parts[at.Job] == at.Bytes {
		return nil
	}
	most := c.parent.cfg.MaxCheckpoints
	used, err := c.copiesUse(at.Job)
	if err == nil && at.Bytes > most-used {
		c.copies.mu.Unlock()
		err = c.removeCopies(ctx, 0)
		c.copies.mu.Lock()
		if err == nil {
			used, err = c.copiesUse(at.Job)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	if at.Bytes > most-used {
		return &ledger.Conflict{Code: "checkpoint_too_large", Detail: fmt.Sprintf("the checkpoint has %s, and %s are used "+
			"of the %s for checkpoints of the cluster, where the last one stays until the next one is there: raise hare "+
			"serve --checkpoints", mebibytes(at.Bytes), mebibytes(used), mebibytes(most))}
	}
	quotas, tenant := c.parent.cfg.Quotas, c.cfg.Tenant
	if at.Bytes-have > quotas.Of(tenant).StoredBytes-quotas.Usage(tenant).StoredBytes {
		return c.overQuota(at)
	}
	c.copies.parts[at.Job] = at.Bytes
	return nil
}

// overQuota refuses a copy for which the quota of the tenant has no room.
func (c *Cluster) overQuota(at *clusterdoc.CheckpointChunk) error {
	return &ledger.Conflict{Code: "quota_stored_bytes", Detail: fmt.Sprintf("the checkpoint has %s, and the tenant may "+
		"store %s in all, of which less is left: remove solves, sessions or clusters, or raise its quota",
		mebibytes(at.Bytes), mebibytes(c.parent.cfg.Quotas.Of(c.cfg.Tenant).StoredBytes))}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// copiesUse adds up the bytes of all copies, and of those that are being brought, but for that of a job: the size
// that they will have, or after a restart the bytes that are there. The caller has the lock.
func (c *Cluster) copiesUse(job string) (used int64, err error) {
	for id, bytes := range c.copies.parts {
		if id != job {
			used += bytes
		}
	}
	err = filepath.WalkDir(c.copyDir(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasSuffix(path, partSuffix) {
			id := filepath.Base(filepath.Dir(path))
			if _, counted := c.copies.parts[id]; counted || id == job {
				return nil
			}
		}
		size, err := sizeOf(d)
		used += size
		return err
	})
	return used, err
}

// sizeOf is the size of a file; 0 where it was renamed or removed after its directory was read.
func sizeOf(d fs.DirEntry) (int64, error) {
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// removeCopies removes the copies of jobs that have ended for some time.
func (c *Cluster) removeCopies(ctx context.Context, ended time.Duration) error {
	entries, err := os.ReadDir(c.copyDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	old := map[string]bool{}
	if err == nil && len(entries) > 0 {
		err = c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
			for _, e := range entries {
				d := l.Job(e.Name(), false)
				old[e.Name()] = d == nil || d.Ended != nil && c.parent.cfg.Now().Sub(*d.Ended) >= ended
			}
			return nil, nil
		}})
	}
	for _, e := range entries {
		if err == nil && old[e.Name()] {
			err = os.RemoveAll(filepath.Join(c.copyDir(), e.Name()))
			c.copies.mu.Lock()
			delete(c.copies.parts, e.Name())
			delete(c.copies.problems, e.Name())
			c.copies.mu.Unlock()
		}
	}
	return errors.Join(err, c.countCopies())
}
