package online

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
)

// Observable is a policy whose state people can inspect. The returned values share no
// memory with the policy.
type Observable interface {
	// Status is the state as a whole, in O(jobs + types).
	Status() Status
	// Explain describes one active job, in O(jobs). It returns false where no active
	// job has that ID.
	Explain(job string) (JobStatus, bool)
	// Rows are the active jobs, those that wait in the order in which the policy looks at them.
	Rows() []JobRow
}

var (
	_ Observable = (*HLAS)(nil)
	_ Observable = (*FIFO)(nil)
)

// Status is what a session looks like after its last event.
type Status struct {
	Policy string `json:"policy"`
	NowUs  int64  `json:"now_us"`
	Jobs   int    `json:"jobs"`
	// WaitingTasks counts the tasks that would start now if there were GPUs.
	WaitingTasks int64 `json:"waiting_tasks"`
	// RunningTasks counts the tasks that hold a GPU or synchronise.
	RunningTasks int64         `json:"running_tasks"`
	Queues       []QueueStatus `json:"queues"`
	GPUs         []TypeStatus  `json:"gpus"`
	// WakeUs is when an event tick would let the policy decide, if nothing happens before. It is left out
	// where the policy wants no tick.
	WakeUs int64 `json:"wake_us,omitempty"`
} //	@name	SessionStatus

// QueueStatus is one queue. The queue that is served first stands first.
type QueueStatus struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
	// Waiting counts the jobs of which no task runs.
	Waiting int `json:"waiting"`
	// ThresholdUs is the attained service after which jobs leave the queue, in
	// microseconds of a GPU of the reference type. The last queue has none.
	ThresholdUs int64 `json:"threshold_us,omitempty"`
} //	@name	QueueStatus

// TypeStatus is one GPU type.
type TypeStatus struct {
	Type      string `json:"type"`
	InService int64  `json:"in_service"`
	// Free counts the free GPUs that are kept for no gang.
	Free int64 `json:"free"`
	// Gathered counts the free GPUs that are kept for the gang that gathered_for names.
	Gathered int64 `json:"gathered"`
	Held     int64 `json:"held"`
	// GatheredFor is the gang for which the type is gathered; empty means none.
	GatheredFor string `json:"gathered_for,omitempty"`
} //	@name	TypeStatus

// JobStatus is one active job: its state, and why it waits.
type JobStatus struct {
	Job   string `json:"job"`
	Sync  string `json:"sync" enums:"relaxed,gang,rigid"`
	State string `json:"state" enums:"waiting,gathering,running"`
	Round int64  `json:"round"`
	Tasks int64  `json:"tasks"`
	// TasksReady counts the tasks that could start now.
	TasksReady  int64 `json:"tasks_ready"`
	TasksActive int64 `json:"tasks_running"`
	// TasksEnded counts the tasks of the round that have ended.
	TasksEnded int64 `json:"tasks_ended"`
	ArrivedUs  int64 `json:"arrived_us"`
	// StartedUs is the time of the first start, −1 before it.
	StartedUs int64  `json:"started_us"`
	Queue     string `json:"queue"`
	// AttainedUs is the service since the arrival, in microseconds of a GPU of the
	// reference type.
	AttainedUs int64 `json:"attained_us"`
	// CountedUs is the service since the starvation guard last acted, which decides
	// the queue.
	CountedUs  int64 `json:"counted_us"`
	ExecutedUs int64 `json:"executed_us"`
	WaitedUs   int64 `json:"waited_us"`
	// GuardUs is the time at which the starvation guard acts if the job waits until
	// then; −1 means that the guard does not apply.
	GuardUs int64 `json:"guard_us"`
	// JobsAhead counts the jobs that stand before this one and may use a type that
	// this one may use.
	JobsAhead int `json:"jobs_ahead"`
	// GPUType is the type on which the next task would start if all GPUs were free;
	// empty means that no GPU in service can run it.
	GPUType string          `json:"gpu_type"`
	Speeds  []SpeedEstimate `json:"speeds"`
	// Why says why the job runs or waits, and what would let it start.
	Why string `json:"why"`
	// Reason says the same for lists; it is empty where the job runs.
	Reason Reason `json:"-"`
} //	@name	SessionJob

// SpeedEstimate is the estimated compute time of a job's task on a type.
type SpeedEstimate struct {
	Type string `json:"type"`
	// ComputeUs is a time in microseconds. Where source is prior for every type of the
	// job, only the ratios between the types have a meaning.
	ComputeUs int64  `json:"compute_us"`
	Source    string `json:"source" enums:"given,measured,prior"`
} //	@name	SpeedGuess

// Status is Observable.Status.
func (h *HLAS) Status() Status { return h.c.status() }

// Explain is Observable.Explain.
func (h *HLAS) Explain(job string) (JobStatus, bool) { return h.c.explain(job) }

// Status is Observable.Status.
func (f *FIFO) Status() Status { return f.c.status() }

// Explain is Observable.Explain.
func (f *FIFO) Explain(job string) (JobStatus, bool) { return f.c.explain(job) }

func (c *core) queueName(q int32) string {
	switch {
	case len(c.thresholds) == 0:
		return "all"
	case q == 0:
		return "first"
	case int(q) == len(c.thresholds):
		return "last"
	}
	return fmt.Sprint(q + 1)
}

func (c *core) status() Status {
	s := Status{Policy: c.policy, NowUs: c.nowUs, Jobs: len(c.jobOf), GPUs: []TypeStatus{}}
	for q := range len(c.thresholds) + 1 {
		x := QueueStatus{Name: c.queueName(int32(q))}
		if q < len(c.thresholds) {
			x.ThresholdUs = c.thresholds[q]
		}
		s.Queues = append(s.Queues, x)
	}
	for i := range c.jobs {
		j := &c.jobs[i]
		if !j.alive {
			continue
		}
		s.Queues[j.queue].Jobs++
		if j.active == 0 {
			s.Queues[j.queue].Waiting++
		}
		s.WaitingTasks = saturating.Add(s.WaitingTasks, j.ready())
		s.RunningTasks += c.running(j)
	}
	for k := range c.types {
		t := &c.types[k]
		if t.total == 0 && t.owner == none {
			continue
		}
		x := TypeStatus{Type: t.name, InService: t.total, Free: int64(t.free.n), Held: t.total - int64(t.free.n)}
		if t.owner != none {
			x.Free, x.Gathered, x.GatheredFor = 0, x.Free, c.jobs[t.owner].id
		}
		s.GPUs = append(s.GPUs, x)
	}
	slices.SortFunc(s.GPUs, func(a, b TypeStatus) int { return strings.Compare(a.Type, b.Type) })
	return s
}

// running counts the started tasks that have not ended.
func (c *core) running(j *job) int64 {
	if j.sync == hare.Relaxed || j.active == 0 {
		return j.active
	}
	return j.tasks - j.ended
}

func (c *core) explain(id string) (JobStatus, bool) {
	ji, ok := c.jobOf[id]
	if !ok {
		return JobStatus{}, false
	}
	j := &c.jobs[ji]
	s := JobStatus{
		Job: j.id, Sync: j.sync.String(), Round: j.round, Tasks: j.tasks,
		TasksReady: j.ready(), TasksActive: c.running(j), TasksEnded: j.ended,
		ArrivedUs: j.arrivedUs, StartedUs: j.startedUs, Queue: c.queueName(j.queue),
		AttainedUs: j.attainedUs, CountedUs: j.attained, ExecutedUs: j.executedUs, WaitedUs: j.waitedUs, GuardUs: -1,
	}
	if s.State = c.stateOf(j); s.State == "running" {
		s.ExecutedUs += c.nowUs - j.stateUs
	}
	if j.active == 0 && j.queue > 0 && !j.heldBack {
		s.WaitedUs += c.nowUs - j.stateUs
		s.GuardUs = c.dueUs(j)
	}
	for i := range c.jobs {
		o := &c.jobs[i]
		if o.alive && o != j && o.ready() > 0 && o.mask&j.mask != 0 && (o.owns != 0 || o.order() < j.order()) {
			s.JobsAhead++
		}
	}
	for i := range j.on {
		p := &j.on[i]
		g := SpeedEstimate{c.types[p.kind].name, c.estimate(j, p), "prior"}
		if p.given {
			g.Source = "given"
		} else if p.count > 0 {
			g.Source = "measured"
		}
		s.Speeds = append(s.Speeds, g)
	}
	s.GPUType = c.preferredType(j)
	s.Why, s.Reason = c.why(j, &s), c.reason(j, &s)
	return s, true
}

// preferredType is the type on which j computes fastest among those with enough
// GPUs in service.
func (c *core) preferredType(j *job) string {
	best := none
	var bestUs int64
	for m := c.classes[j.class].fits; m != 0; m &= m - 1 {
		k := int32(bits.TrailingZeros64(m))
		if c.types[k].total == 0 {
			continue
		}
		for i := range j.on {
			if p := &j.on[i]; p.kind == k {
				if us := c.estimate(j, p); best == none || us < bestUs {
					best, bestUs = k, us
				}
			}
		}
	}
	if best == none {
		return ""
	}
	return c.types[best].name
}

// why says in one or two sentences why a job runs or waits and what would let it
// start.
func (c *core) why(j *job, s *JobStatus) string {
	total := c.inService(j.mask)
	switch {
	case s.State == "running" && s.TasksReady == 0 && j.sync == hare.Rigid:
		return fmt.Sprintf("Its round %d runs on %s, which it keeps until the job ends.", s.Round,
			count(j.held, "GPU", "GPUs"))
	case s.State == "running" && s.TasksReady == 0:
		return fmt.Sprintf("Its round %d runs (tasks on GPUs: %d of %d). The next round starts when all have ended.",
			s.Round, s.TasksActive, s.Tasks)
	case total == 0:
		return "No GPU of a type that it has a profile for is in service. One that joins would let it start."
	case s.GPUType == "" || j.mix && total < j.tasks:
		return fmt.Sprintf("It needs %s at once, and no type that it may use has that many in service. GPUs that "+
			"join would let it start.", count(s.Tasks, "GPU", "GPUs"))
	case c.nodes != nil && !c.fitsNodes(j):
		return "No nodes in service that it may use have room for it, even if all of their GPUs were free. Nodes that " +
			"join would let it start."
	case s.State == "waiting" && c.nodes != nil && len(c.lacking(j)) > 0:
		return fmt.Sprintf("%s, and it needs %s at once. It may start when one of these jobs has ended.",
			c.nodes.QuotaText(c.lacking(j)[0]), count(j.atOnce()*j.taskGPUs, "GPU", "GPUs"))
	case s.State == "gathering" && c.nodes != nil:
		return fmt.Sprintf("It stands first and needs %s at once: %s kept for it. It starts when what runs there has "+
			"ended.", count(s.Tasks*j.taskGPUs, "GPU", "GPUs"), nodesAre(c.nodeNames()))
	case s.State == "gathering":
		free := c.freeOf(j.owns)
		return fmt.Sprintf("It stands first and needs %s at once: %s free and kept for it. It starts when %s "+
			"released.",
			count(s.Tasks, "GPU", "GPUs"), count(free, "is", "are"), count(j.tasks-free, "more is", "more are"))
	}
	what := "No GPU that it may use is free"
	if c.nodes != nil {
		what = "No nodes that it may use have room for it, or they are kept for another job"
	}
	if c.freeOf(j.mask) > 0 && c.nodes == nil {
		what = "The free GPUs that it may use are being gathered for a gang"
	}
	text := fmt.Sprintf("%s, and %s before it.", what, count(int64(s.JobsAhead), "job stands", "jobs stand"))
	if s.GuardUs >= 0 {
		return text + fmt.Sprintf(" It moves up as they are served; in %s at the latest the starvation guard returns it "+
			"to the first queue.", RoundedUp(s.GuardUs-c.nowUs))
	}
	return text + " It moves up as they are served; a GPU that joins or a job that ends would let it start earlier."
}

// RoundedUp says for people how long a time is, in whole seconds, minutes, hours or days and rounded up.
func RoundedUp(us int64) string {
	const second = int64(1e6)
	for _, u := range []struct {
		us, below int64
		name      string
	}{{second, 120 * second, "s"}, {60 * second, 7200 * second, "min"}, {3600 * second, 48 * 3600 * second, "h"}} {
		if us <= u.below {
			return fmt.Sprintf("%d %s", (us+u.us-1)/u.us, u.name)
		}
	}
	return fmt.Sprintf("%d days", (us+86400*second-1)/(86400*second))
}

func nodesAre(names string) string {
	if strings.ContainsAny(names, ", ") {
		return "nodes " + names + " are"
	}
	return "node " + names + " is"
}

// count writes a number with one in the singular, with more otherwise.
func count(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
