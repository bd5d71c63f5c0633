package clusters

import (
	"fmt"

	"github.com/hare-sched/hare/serve/store"
)

// countStored counts bytes that the cluster stores more, or less, for its tenant.
func (c *Cluster) countStored(bytes int64) {
	c.stored.Add(bytes)
	c.parent.cfg.Quotas.Stored(c.cfg.Tenant, bytes)
}

// storeWithin counts bytes that the cluster is about to store, unless the quota of its tenant has no room for them.
func (c *Cluster) storeWithin(bytes int64) bool {
	if !c.parent.cfg.Quotas.StoreWithin(c.cfg.Tenant, bytes) {
		return false
	}
	c.stored.Add(bytes)
	return true
}

// countFiles counts the outputs and the copies of checkpoints that are on the disk when the cluster is opened.
func (c *Cluster) countFiles() error {
	logs, err := directoryBytes(c.logDir())
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	c.room.bytes, c.room.counted = logs, true
	c.countStored(logs)
	return c.countCopies()
}

// countCopies counts the copies of checkpoints again, after some were removed. A copy that another call writes
// meanwhile may be counted twice until countCopies is called again.
func (c *Cluster) countCopies() error {
	if c.parent.cfg.Quotas == nil {
		return nil
	}
	bytes, err := directoryBytes(c.copyDir())
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	c.countStored(bytes - c.copies.bytes.Swap(bytes))
	return nil
}
