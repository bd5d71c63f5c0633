package sessions

import (
	"math"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
)

// The bytes that a loaded session takes, as measured with the policies of package sim/policies.
const (
	sessionBytes = 32 << 10 // of a session without GPUs and jobs
	gpuBytes     = 200
	nodeBytes    = 100
	jobBytes     = 2 << 10
	profileBytes = 100 // of a type of GPU on which a job may run
	stateBytes   = 70  // of a GPU in a snapshot
	stateFactor  = 4   // bytes in memory, for each byte of jobs in a snapshot
)

// memory counts the estimated bytes of the sessions that are loaded or being made. Safe for concurrent use.
type memory struct {
	limit int64 // of all; 0 means none
	share int64 // of one tenant

	mu     sync.Mutex
	used   int64
	owners map[string]int64 // without those that use nothing
}

// newMemory has no limit where limit is 0, and gives a tenant half of it where there are tenants.
func newMemory(limit int64, tenants bool) *memory {
	m := &memory{limit: limit, share: math.MaxInt64, owners: map[string]int64{}}
	if m.limit > 0 && tenants {
		m.share = m.limit / 2
	}
	return m
}

// add counts bytes of a tenant, also beyond the limits; bytes may be negative.
func (m *memory) add(tenant string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(tenant, bytes)
}

func (m *memory) count(tenant string, bytes int64) {
	m.used += bytes
	if m.owners[tenant] += bytes; m.owners[tenant] == 0 {
		delete(m.owners, tenant)
	}
}

// claim counts bytes of a tenant if there is room. Otherwise it returns how many bytes of the tenant, or of anybody,
// must be given back first. What is larger than a limit has room where nothing else counts against that limit.
func (m *memory) claim(tenant string, bytes int64) (own, all int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := func(used, limit int64) int64 { return max(0, min(used, bytes-(limit-used))) }
	if m.limit > 0 {
		own, all = missing(m.owners[tenant], m.share), missing(m.used, m.limit)
	}
	if own == 0 && all == 0 {
		m.count(tenant, bytes)
	}
	return own, all
}

// freeGPUs are the GPUs of a session that count for nothing in what is stored.
const freeGPUs = 1000

// snapshotBytes is what counts as stored for the GPUs in the snapshots of a session, of which the store keeps three.
func snapshotBytes(c *hare.Cluster) int64 {
	return 3 * stateBytes * max(0, admission.GPUsOf(c)-freeGPUs)
}

// clusterBytes estimates what the GPUs of a session take in memory.
func clusterBytes(c *hare.Cluster) int64 {
	return sessionBytes + nodeBytes*int64(len(c.Nodes)) + gpuBytes*admission.GPUsOf(c)
}

// eventBytes estimates what an event adds to the memory of its session, or takes from it, where jobs jobs take bytes.
func eventBytes(e *hare.Event, jobs, bytes int64) int64 {
	switch e.Type {
	case hare.EventJobArrived:
		return jobBytes + profileBytes*int64(len(e.Arrived.On))
	case hare.EventJobEnded, hare.EventJobCancelled:
		return -bytes / max(1, jobs)
	case hare.EventGPUJoined:
		return gpuBytes
	case hare.EventGPULeft:
		return -gpuBytes
	}
	return 0
}

// stateExtra estimates what the jobs of a session take in memory, and the GPUs that joined, by its
// snapshot.
func stateExtra(c *hare.Cluster, state []byte) int64 {
	return stateFactor * max(0, int64(len(state))-stateBytes*admission.GPUsOf(c))
}

func jobChange(t hare.EventType) int64 {
	switch t {
	case hare.EventJobArrived:
		return 1
	case hare.EventJobEnded, hare.EventJobCancelled:
		return -1
	}
	return 0
}
