// Package residency decides which models stay in the memory of one GPU, which model is
// copied there before its task begins, and which are evicted to make room. The package is
// pure: a Cache learns which task begins and which tasks are expected next, and returns
// what to do. Copies are made by others.
//
// A model is the state of one job: parameters and the state of the optimiser. While a task
// computes, its model must be in memory.
package residency

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// Model names the state of a job that a task needs.
type Model struct {
	Job string
	// Version rises with each step of the job's optimiser. A copy with another version
	// cannot be used, but its memory can.
	Version int64
	// Bytes is the size in the GPU's memory.
	Bytes int64
}

// ActionType says what to do with the copy of a model.
type ActionType string

// The actions that a Cache returns.
const (
	// Evict frees the memory of a copy.
	Evict ActionType = "evict"
	// Load copies a model into memory; the task that begins waits for the copy.
	Load ActionType = "load"
	// Prefetch copies a model into memory while the task that begins computes.
	Prefetch ActionType = "prefetch"
	// Refresh replaces the copy of an older version, in the same memory.
	Refresh ActionType = "refresh"
)

// Action is one thing to do. Actions are done in the order in which they were returned.
type Action struct {
	Type    ActionType
	Job     string
	Version int64
	// WriteBack is set where the copy that is evicted has changes which are nowhere
	// else: they must be copied to the host first.
	WriteBack bool
}

// Candidate is a model in memory that may be evicted.
type Candidate struct {
	Job   string
	Bytes int64
	// Ended numbers the last task of the job that ran on this GPU: tasks are numbered from
	// 1 in the order in which they begin. Zero means that no task has run since the copy
	// was made.
	Ended int64
	// Loaded is the number of the task at whose begin the copy was made.
	Loaded int64
	// Next is the position of the job's next task among the expected ones, from 0, or −1
	// where none is expected.
	Next int
}

// Policy decides which model leaves first.
type Policy interface {
	// Ahead is how many models of the expected tasks, other than the running one, the
	// policy looks at; −1 means all of them.
	Ahead() int
	// Victim returns the index of the candidate that is evicted first. There is at least
	// one candidate, and they are in the order of their jobs' names.
	Victim(candidates []Candidate) int
	// Prefetch reports whether the next expected model is copied while a task computes.
	Prefetch() bool
}

// TooBigError says that a model does not fit into the memory even alone.
type TooBigError struct {
	Job             string
	Bytes, Capacity int64
}

func (e *TooBigError) Error() string {
	return fmt.Sprintf("residency: the model of job %.60q takes %d bytes, and the memory for models has %d",
		e.Job, e.Bytes, e.Capacity)
}

// resident is a model in memory.
type resident struct {
	Model
	ended, loaded int64
	dirty         bool
}

// Counts are what happened since the Cache was made.
type Counts struct {
	Tasks int64
	// Hits are tasks that found their model in memory, Misses those that waited for it.
	Hits, Misses int64
	// Prefetches are copies made ahead, so that Misses + Prefetches is the number of copies
	// that took memory. Refreshes are copies of newer versions into memory that was held.
	Prefetches, Refreshes, Evictions int64
	// CopiedBytes counts all copies to the GPU.
	CopiedBytes int64
}

// Cache is the memory for models of one GPU. It is not safe for use by several goroutines.
type Cache struct {
	capacity int64
	policy   Policy
	used     int64
	models   []resident // sorted by job
	running  string
	counts   Counts
}

// New returns an empty memory of capacity bytes.
func New(capacity int64, p Policy) (*Cache, error) {
	if capacity <= 0 {
		return nil, &hare.InvalidError{Pointer: "/capacity", Code: "out_of_range", Detail: "must be positive"}
	}
	return &Cache{capacity: capacity, policy: p}, nil
}

// Counts returns what happened since the Cache was made.
func (c *Cache) Counts() Counts { return c.counts }

// UsedBytes is the sum of the sizes of the models in memory, at most the capacity.
func (c *Cache) UsedBytes() int64 { return c.used }

// Resident returns the models in memory, in the order of their jobs' names.
func (c *Cache) Resident() []Model {
	models := make([]Model, len(c.models))
	for i := range c.models {
		models[i] = c.models[i].Model
	}
	return models
}

func (c *Cache) find(job string) (int, bool) {
	return slices.BinarySearchFunc(c.models, job, func(r resident, job string) int {
		switch {
		case r.Job < job:
			return -1
		case r.Job > job:
			return 1
		}
		return 0
	})
}

// Run says that a task of m begins, now that the task before it has ended, and that next are
// the tasks expected after it, the soonest first. The task may compute when all actions
// but a Prefetch are done. Nothing changes where Run returns an error.
func (c *Cache) Run(m Model, next []Model) ([]Action, error) {
	if m.Bytes <= 0 {
		return nil, &hare.InvalidError{Pointer: "/bytes", Code: "out_of_range", Detail: "must be positive"}
	}
	if m.Bytes > c.capacity {
		return nil, &TooBigError{Job: m.Job, Bytes: m.Bytes, Capacity: c.capacity}
	}
	next = c.ahead(m.Job, next)
	if i, ok := c.find(c.running); ok {
		c.models[i].ended = c.counts.Tasks
	}
	c.running = m.Job
	c.counts.Tasks++
	actions := c.bring(nil, m, Load, next)
	if c.policy.Prefetch() {
		for _, n := range next {
			if n.Job != m.Job {
				return c.bring(actions, n, Prefetch, next), nil
			}
		}
	}
	return actions, nil
}

// ahead returns the expected tasks up to the first one of a model that the policy does not
// look at. One after another, many tasks are of one job, so that models are counted.
func (c *Cache) ahead(running string, next []Model) []Model {
	k := c.policy.Ahead()
	if k < 0 {
		return next
	}
	for i, m := range next {
		seen := m.Job == running ||
			slices.ContainsFunc(next[:i], func(n Model) bool { return n.Job == m.Job })
		if seen {
			continue
		}
		if k == 0 {
			return next[:i]
		}
		k--
	}
	return next
}

// bring makes m resident where possible. A Load always is possible; a Prefetch is given up where
// m does not fit next to the running model.
func (c *Cache) bring(actions []Action, m Model, how ActionType, next []Model) []Action {
	i, ok := c.find(m.Job)
	switch {
	case ok && c.models[i].Bytes == m.Bytes && c.models[i].Version == m.Version:
		if how == Load {
			c.counts.Hits++
		}
		return actions
	case ok && c.models[i].Bytes == m.Bytes:
		if how == Load {
			c.counts.Hits++
		}
		c.models[i].Version, c.models[i].dirty = m.Version, false
		c.counts.Refreshes++
		c.counts.CopiedBytes += m.Bytes
		return append(actions, Action{Type: Refresh, Job: m.Job, Version: m.Version})
	case ok: // The job's state has another size now.
		actions = append(actions, c.evict(m.Job))
	}
	victims, ok := c.victims(m, next)
	if !ok {
		return actions
	}
	for _, v := range victims {
		actions = append(actions, c.evict(v))
	}
	i, _ = c.find(m.Job)
	c.models = slices.Insert(c.models, i, resident{Model: m, loaded: c.counts.Tasks})
	c.used += m.Bytes
	c.counts.CopiedBytes += m.Bytes
	if how == Load {
		c.counts.Misses++
	} else {
		c.counts.Prefetches++
	}
	return append(actions, Action{Type: how, Job: m.Job, Version: m.Version})
}

// victims returns the jobs whose models leave so that m fits. The policy names them one
// after another until m fits; then those named last are kept where there is room for
// them after all, as there is where a large model was named after small ones.
func (c *Cache) victims(m Model, next []Model) ([]string, bool) {
	free := c.capacity - c.used
	if free >= m.Bytes {
		return nil, true
	}
	candidates := make([]Candidate, 0, len(c.models))
	for _, r := range c.models {
		if r.Job == c.running {
			continue
		}
		at := slices.IndexFunc(next, func(n Model) bool { return n.Job == r.Job })
		candidates = append(candidates,
			Candidate{Job: r.Job, Bytes: r.Bytes, Ended: r.ended, Loaded: r.loaded, Next: at})
	}
	var named []Candidate
	for free < m.Bytes {
		if len(candidates) == 0 {
			return nil, false
		}
		v := c.policy.Victim(candidates)
		free += candidates[v].Bytes
		named = append(named, candidates[v])
		candidates = slices.Delete(candidates, v, v+1)
	}
	var jobs []string
	for i := len(named) - 1; i >= 0; i-- {
		if free-named[i].Bytes >= m.Bytes {
			free -= named[i].Bytes
			continue
		}
		jobs = append(jobs, named[i].Job)
	}
	slices.Reverse(jobs)
	return jobs, true
}

func (c *Cache) evict(job string) Action {
	i, _ := c.find(job)
	a := Action{Type: Evict, Job: job, Version: c.models[i].Version, WriteBack: c.models[i].dirty}
	c.used -= c.models[i].Bytes
	c.models = slices.Delete(c.models, i, i+1)
	c.counts.Evictions++
	return a
}

// Changed says that the copy of job has version now, and that the host has not.
func (c *Cache) Changed(job string, version int64) {
	if i, ok := c.find(job); ok {
		c.models[i].Version, c.models[i].dirty = version, true
	}
}

// Committed says that the copy of job and the host have version.
func (c *Cache) Committed(job string, version int64) {
	if i, ok := c.find(job); ok {
		c.models[i].Version, c.models[i].dirty = version, false
	}
}

// Forget says that the copy of job is gone: the job has ended, or the copy failed.
func (c *Cache) Forget(job string) {
	if i, ok := c.find(job); ok {
		c.used -= c.models[i].Bytes
		c.models = slices.Delete(c.models, i, i+1)
	}
}

// Lost says that all copies are gone: the process that held them has ended.
func (c *Cache) Lost() {
	c.models, c.used, c.running = c.models[:0], 0, ""
}

// MakeRoom answers a task of job that ran out of memory: it evicts every model but the
// job's own and those of the next tasks that the policy looks at. Where there is no other
// model, MakeRoom returns nothing, and the task must fail.
func (c *Cache) MakeRoom(job string, next []Model) []Action {
	next = c.ahead(job, next)
	var actions []Action
	for i := len(c.models) - 1; i >= 0; i-- {
		name := c.models[i].Job
		expected := slices.ContainsFunc(next, func(n Model) bool { return n.Job == name })
		if name != job && !expected {
			actions = append(actions, c.evict(name))
		}
	}
	return actions
}
