package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/residency"
)

// Job is a round job.
type Job struct {
	ID string
	// Module is the name of the user's Python module, and Directory the folder that has it.
	Module, Directory string
	// Tasks is the number K of tasks of a round.
	Tasks int
	// Seed is the seed of the initial parameters and of every task.
	Seed int64
	// Environment is what the module finds in its environment besides that of the worker, as NAME=value.
	Environment []string
}

func (j *Job) equal(o *Job) bool {
	return j.ID == o.ID && j.Module == o.Module && j.Directory == o.Directory && j.Tasks == o.Tasks && j.Seed == o.Seed &&
		slices.Equal(j.Environment, o.Environment)
}

func (j *Job) validate() error {
	switch {
	case j.ID == "" || len(j.ID) > 256:
		return &hare.InvalidError{Pointer: "/id", Code: "out_of_range", Detail: "must have 1 to 256 bytes"}
	case j.Module == "" || len(j.Module) > 256:
		return &hare.InvalidError{Pointer: "/module", Code: "out_of_range", Detail: "must have 1 to 256 bytes"}
	case !filepath.IsAbs(j.Directory) || len(j.Directory) > 4096:
		return &hare.InvalidError{Pointer: "/directory", Code: "malformed", Detail: "must be an absolute path"}
	case j.Tasks < 1 || j.Tasks > 1<<20:
		return &hare.InvalidError{Pointer: "/tasks", Code: "out_of_range", Detail: "must be from 1 to 1048576"}
	case j.Seed < -(1<<53) || j.Seed > 1<<53:
		return &hare.InvalidError{Pointer: "/seed", Code: "out_of_range", Detail: "must be from −2^53 to 2^53"}
	}
	return nil
}

// Task names a task of a round job. Rounds and tasks count from 0.
type Task struct {
	Job   string
	Round int64
	Task  int
}

// Result is what a task gave besides its gradient.
type Result struct {
	// Loss is nil where it was infinite or not a number.
	Loss     *float64
	ComputeS float64
}

// ErrUnknownJob says that the node has no such job.
var ErrUnknownJob = errors.New("worker: the node has no such job")

// StaleError says that a task or step is not of the round that the job is in.
type StaleError struct {
	Job            string
	Round, Current int64
	// Missing is how many tasks of the current round have no gradient yet.
	Missing int
}

func (e *StaleError) Error() string {
	if e.Round == e.Current {
		return fmt.Sprintf("worker: round %d of job %.60s lacks the gradients of %d tasks", e.Round, e.Job, e.Missing)
	}
	return fmt.Sprintf("worker: job %.60s is in round %d, not in round %d", e.Job, e.Current, e.Round)
}

// Node runs round jobs on the devices of one machine. Its methods may be called by several
// goroutines; calls for one device are done one after another.
type Node struct {
	cfg     Config
	devices []*device

	mu     sync.Mutex
	epoch  int64
	jobs   map[string]*job
	closed bool
}

// job is the state of a Job.
type job struct {
	Job
	segment *segment

	// copying is held for reading while a worker may read the state or write a gradient,
	// and for writing during a step, which replaces both.
	copying sync.RWMutex

	mu          sync.Mutex
	initialised bool // the shared memory has version 0
	removed     bool
	adopted     bool  // the state came from another node
	version     int64 // the committed version, which is the number of rounds done
	done        []*Result
}

// NewNode returns a node without jobs. Workers are started when they are needed.
func NewNode(cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, jobs: map[string]*job{}}
	for i := range cfg.Devices {
		cache, err := residency.New(cfg.MemoryBytes, cfg.Residency)
		if err != nil {
			return nil, err
		}
		n.devices = append(n.devices, &device{node: n, index: i, cache: cache})
	}
	return n, nil
}

// Add adds a job, whose module a worker of the device imports at once. A job that was added
// already is left as it is.
func (n *Node) Add(ctx context.Context, device int, j Job) error {
	return n.add(ctx, device, j, func(*job) error { return nil })
}

// add adds a job when begin has set its state.
func (n *Node) add(ctx context.Context, device int, j Job, begin func(*job) error) error {
	if err := j.validate(); err != nil {
		return err
	}
	n.mu.Lock()
	was, ok := n.jobs[j.ID]
	n.mu.Unlock()
	if ok && was.equal(&j) {
		return nil
	}
	if ok {
		return &hare.InvalidError{Pointer: "/id", Code: "duplicate", Detail: fmt.Sprintf("job %.60q was added "+
			"with other settings", j.ID)}
	}
	d, err := n.device(device)
	if err != nil {
		return err
	}
	added := &job{Job: j, done: make([]*Result, j.Tasks)}
	meanwhile := &hare.InvalidError{Pointer: "/id", Code: "duplicate", Detail: fmt.Sprintf("job %.60q was added "+
		"meanwhile", j.ID)}
	err = d.do(ctx, func(p *process) error {
		if _, err := n.job(j.ID); err == nil {
			return meanwhile
		}
		if err := d.attach(ctx, p, added); err != nil {
			return err
		}
		err := begin(added)
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, ok := n.jobs[j.ID]; err == nil && (ok || n.closed) {
			err = meanwhile
		}
		if err != nil {
			d.detach(p, added)
			return err
		}
		n.jobs[j.ID] = added
		return nil
	})
	if err != nil && added.segment != nil {
		_ = added.segment.close()
	}
	return err
}

func (n *Node) device(i int) (*device, error) {
	if i < 0 || i >= len(n.devices) {
		return nil, &hare.InvalidError{Pointer: "/device", Code: "out_of_range",
			Detail: fmt.Sprintf("the node has %d devices", len(n.devices))}
	}
	return n.devices[i], nil
}

func (n *Node) job(id string) (*job, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	j, ok := n.jobs[id]
	if !ok {
		return nil, fmt.Errorf("%w: %.60q", ErrUnknownJob, id)
	}
	return j, nil
}

// Version returns the committed version of a job, which is the number of its rounds that are
// done, and the tasks of the current round that still lack a gradient.
func (n *Node) Version(id string) (version int64, missing []int, err error) {
	j, err := n.job(id)
	if err != nil {
		return 0, nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, r := range j.done {
		if r == nil {
			missing = append(missing, i)
		}
	}
	return j.version, missing, nil
}

// State returns a copy of a job's committed state, and its version. The state is the job's parameters, then what its
// optimiser remembers, as the backend of the job lays them out.
func (n *Node) State(id string) ([]byte, int64, error) {
	j, err := n.job(id)
	if err != nil {
		return nil, 0, err
	}
	return j.copyState()
}

// copyState returns a copy of the committed state and its version.
func (j *job) copyState() ([]byte, int64, error) {
	j.copying.RLock()
	defer j.copying.RUnlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.removed {
		return nil, 0, fmt.Errorf("%w: %.60q", ErrUnknownJob, j.ID)
	}
	return j.segment.state(j.version), j.version, nil
}

func (j *job) committed() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.version
}

// Run computes the gradient of a task on a device. next are the jobs whose tasks are expected
// there afterwards, the soonest first: the state of the first is copied to the device after
// the task, without waiting. A task that was computed already gives the earlier result.
//
// Run returns a *CrashError where the worker died: the task may be run again at once, on this
// device or another. A task that runs out of memory is run once more when all models are
// evicted that no next task needs; then Run returns a *FaultError.
func (n *Node) Run(ctx context.Context, device int, t Task, next []string) (Result, error) {
	d, err := n.device(device)
	if err != nil {
		return Result{}, err
	}
	j, err := n.job(t.Job)
	if err != nil {
		return Result{}, err
	}
	var result Result
	err = d.do(ctx, func(p *process) error {
		j.copying.RLock()
		defer j.copying.RUnlock()
		earlier, err := j.check(t)
		if err != nil || earlier != nil {
			if earlier != nil {
				result = *earlier
			}
			return err
		}
		result, err = d.run(ctx, p, j, t, next)
		if err == nil {
			j.mu.Lock()
			j.done[t.Task] = &result
			j.mu.Unlock()
		}
		return err
	})
	return result, err
}

// check reports whether a task may run now, and returns its result where it has run.
func (j *job) check(t Task) (*Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.removed {
		return nil, fmt.Errorf("%w: %.60q", ErrUnknownJob, j.ID)
	}
	if t.Task < 0 || t.Task >= j.Tasks {
		return nil, &hare.InvalidError{Pointer: "/task", Code: "out_of_range",
			Detail: fmt.Sprintf("job %.60q has %d tasks a round", j.ID, j.Tasks)}
	}
	if t.Round != j.version {
		return nil, &StaleError{Job: j.ID, Round: t.Round, Current: j.version}
	}
	return j.done[t.Task], nil
}

// Step sums the gradients of a round in the order of the tasks and makes one step of the
// optimiser, on a device. It returns the new version. Where the worker dies, the old version
// stays, and Step may be called again on any device.
func (n *Node) Step(ctx context.Context, device int, id string, round int64) (int64, error) {
	d, err := n.device(device)
	if err != nil {
		return 0, err
	}
	j, err := n.job(id)
	if err != nil {
		return 0, err
	}
	var version int64
	err = d.do(ctx, func(p *process) error {
		j.copying.Lock()
		defer j.copying.Unlock()
		j.mu.Lock()
		missing, removed := 0, j.removed
		for _, r := range j.done {
			if r == nil {
				missing++
			}
		}
		current := j.version
		j.mu.Unlock()
		if removed {
			return fmt.Errorf("%w: %.60q", ErrUnknownJob, id)
		}
		if err := d.attach(ctx, p, j); err != nil {
			return err
		}
		if current != round || missing > 0 {
			return &StaleError{Job: id, Round: round, Current: current, Missing: missing}
		}
		before, _, err := d.room(j, current, nil)
		if err != nil {
			return err
		}
		d.order(p, before[:max(0, len(before)-1)])
		m, err := p.call(ctx, &Message{Type: Step, Job: id, Version: current}, nil)
		if err != nil {
			return err
		}
		if m.Version != current+1 {
			p.kill()
			return &CrashError{Reason: fmt.Sprintf("the step from version %d gave version %d", current, m.Version)}
		}
		j.mu.Lock()
		j.version = m.Version
		clear(j.done)
		j.mu.Unlock()
		d.cache.Committed(id, m.Version)
		version = m.Version
		return nil
	})
	return version, err
}

// Remove forgets a job and frees its memory. It waits for nothing: where a task of the job runs, or a device computes
// for another job, memory is freed after that.
func (n *Node) Remove(id string) error {
	n.mu.Lock()
	j, ok := n.jobs[id]
	delete(n.jobs, id)
	n.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: %.60q", ErrUnknownJob, id)
	}
	j.mu.Lock()
	j.removed = true
	j.mu.Unlock()
	for _, d := range n.devices {
		d.forget(j)
	}
	if !j.copying.TryLock() {
		go func() {
			j.copying.Lock()
			defer j.copying.Unlock()
			_ = j.segment.close()
		}()
		return nil
	}
	defer j.copying.Unlock()
	return j.segment.close()
}

// Kill ends the worker of a device at once. A task that it computes fails with a *CrashError.
func (n *Node) Kill(device int) error {
	d, err := n.device(device)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process != nil {
		d.process.kill()
	}
	return nil
}

// Release ends the worker of a device, so that nothing of the worker is in the device's memory any more, and returns
// when the worker has ended. What it computes fails with a *CrashError. The next call for the device starts another.
func (n *Node) Release(device int) error {
	d, err := n.device(device)
	if err != nil {
		return err
	}
	d.release()
	return nil
}

// Counts returns what the memory of a device held and copied.
func (n *Node) Counts(device int) (residency.Counts, error) {
	d, err := n.device(device)
	if err != nil {
		return residency.Counts{}, err
	}
	d.turn.Lock()
	defer d.turn.Unlock()
	return d.cache.Counts(), nil
}

// Close ends all workers and frees the memory of all jobs. Nothing may be called afterwards.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	for _, d := range n.devices {
		d.close()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, id := range sortedKeys(n.jobs) {
		errs = append(errs, n.jobs[id].segment.close())
	}
	n.jobs = map[string]*job{}
	return errors.Join(errs...)
}

func sortedKeys(jobs map[string]*job) []string {
	ids := make([]string, 0, len(jobs))
	for id := range jobs {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, strings.Compare)
	return ids
}
