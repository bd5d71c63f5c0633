package regret

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
)

// Figures are of the jobs that a report counts.
type Figures struct {
	// WeightedJCT is Σ w (C − a), as Report.Achieved.
	WeightedJCT hare.Amount
	MeanJCTS    float64
	// P99Slowdown is the 99th percentile, by nearest rank, of (C − a) / (R τ), where τ is
	// the time of the job's fastest task: of the least times for which the bound holds.
	P99Slowdown float64
}

// Replay is what another policy would have done with the jobs and GPUs of a session.
type Replay struct {
	Policy string
	// Figures are of the replay, and Session those of what happened. Figures are zero where
	// Stalled is not 0.
	Figures, Session Figures
	// Stalled counts the jobs of the report that wait for ever in the replay, because GPUs
	// left before they could run.
	Stalled int
	// Beyond says that the bound does not hold for the replay.
	Beyond bool
	Notes  []string
}

// replayHolds says what a replay assumes.
const replayHolds = "a replay in the simulator, to the end of all jobs, of the arrivals, the rounds that jobs " +
	"turned " +
	"out to have, the GPUs as they joined and left, and the failures of tasks; a task takes as long as in the session " +
	"where it runs on the GPU type on which it ran there, otherwise as long as the mean of its job's tasks on the " +
	"type, or where none ran there, the times of the job's profile, and longer than it was there before it was lost " +
	"with its GPU; a task that failed in the session fails " +
	"as often, after as long; a job does not run on types of which no time is known; plans that a policy makes aside " +
	"are there at the next event"

// ErrReplayObjective says that replays are compared by the weighted completion time alone.
var ErrReplayObjective = errors.New("regret: another policy is compared by weighted_jct alone")

// PolicyFunc makes a policy for a session, as policies.OpenSession does.
type PolicyFunc func(name string, cluster *hare.Cluster, parameters []byte) (online.Durable, error)

// Against replays the log under another policy and adds the result to a report of the
// whole log. Errors are those of open, of the policy and of ctx. The cost is that of a
// simulation of the session.
func (r *Report) Against(ctx context.Context, h *Hindsight, name string, parameters []byte, open PolicyFunc) error {
	if r.Objective != hare.ObjectiveWeightedJCT {
		return ErrReplayObjective
	}
	rp, err := newReplay(h)
	if err != nil {
		return err
	}
	p, err := open(name, sim.Cluster(rp.inst), parameters)
	if err != nil {
		return err
	}
	out := &Replay{Policy: name, Notes: rp.notes}
	r.Replay = out
	var ends []int64
	for _, j := range rp.jobs {
		ends = append(ends, j.endUs)
	}
	out.Session = rp.figures(ends)
	// A plan that is made aside is there at the next event after this microsecond.
	o, err := sim.Run(ctx, rp.inst, rp.learning(p), sim.Config{Name: name, NoSchedule: true, Faults: rp.faults,
		Times: rp.times, PlanLatencyUs: 1})
	switch {
	case errors.Is(err, sim.ErrStalled):
		for _, j := range rp.jobs {
			if j.counted && !j.over {
				out.Stalled++
			}
		}
		out.Notes = append(out.Notes, words.Count(out.Stalled, "job")+" would wait for ever in the replay: the "+
			"GPUs to use had left before the start")
		if out.Stalled > 0 {
			return nil
		}
		return fmt.Errorf("regret: %w", err)
	case err != nil:
		return fmt.Errorf("regret: %w", err)
	}
	ends = ends[:0]
	for _, j := range o.Jobs {
		ends = append(ends, j.EndUs)
	}
	out.Figures = rp.figures(ends)
	if out.Beyond = len(o.Moved) > 0; out.Beyond {
		out.Notes = append(out.Notes, fmt.Sprintf("%d rigid jobs lost GPUs in the replay and went on elsewhere, which no "+
			"plan of the bound does: the bound says nothing of the replay", len(o.Moved)))
	}
	return nil
}

// replay is a session as input of the simulator.
type replay struct {
	inst   *hare.Instance
	faults []sim.Fault
	jobs   []replayJob // of inst
	jobOf  map[string]int
	gpus   []pastGPU
	notes  []string
}

type replayJob struct {
	past    *pastJob
	on      []hare.Profile // those of the session, on types of which a time is known
	kinds   []string       // of the GPUs, by task of the whole rounds
	tasks   []taskRun      // of the whole rounds
	mean    map[string]sim.TaskTimes
	failed  map[[2]int64]int // the failures in the replay, by round and task
	fastUs  int64            // R τ
	endUs   int64            // in the session
	counted bool
	over    bool // whether the job has ended in the replay
}

// newReplay returns the session up to the last record. Jobs that were cancelled or have
// not ended take part with the whole rounds that they have had.
func newReplay(h *Hindsight) (*replay, error) {
	if err := h.checkNodes(); err != nil {
		return nil, err
	}
	rp := &replay{inst: &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: h.cluster},
		jobOf: map[string]int{}, gpus: h.gpus}
	rp.inst.Cluster.Nodes = slices.Clone(rp.inst.Cluster.Nodes)
	h.replayGPUs(rp)
	if h.quotaChanged {
		return nil, &hare.InvalidError{Pointer: "/quota", Code: "not_supported",
			Detail: "a replay does not know quotas that are set while tasks run: leave against out"}
	}
	rp.inst.Quota = h.limits()
	cut := 0
	for _, j := range h.jobs {
		tasks, rounds := j.completeRounds()
		if rounds == 0 || slices.ContainsFunc(tasks, func(t taskRun) bool { return t.instant() }) {
			continue
		}
		on, _ := h.times(j)
		spec := *j.job
		spec.Rounds, spec.ReleaseUs, spec.On = j.first+rounds, j.arrivedUs, on
		spec.Progress = h.progressOf(j, tasks, on, j.job.Sync)
		for n := 2; rp.has(spec.ID); n++ {
			spec.ID = fmt.Sprintf("%s (%d)", j.job.ID, n) // an earlier job had the same id
		}
		rp.jobOf[spec.ID] = len(rp.jobs)
		x := replayJob{past: j, on: known(j.job.On, on), tasks: tasks, failed: map[[2]int64]int{},
			counted: j.ended && !j.cancelled && !endsAtStart(&spec)}
		if !x.counted {
			cut++
		}
		for i := range tasks {
			x.kinds = append(x.kinds, h.gpus[tasks[i].gpu].kind)
			x.endUs = max(x.endUs, tasks[i].endsAt)
		}
		x.mean = h.meanTimes(j)
		least := int64(math.MaxInt64)
		for _, p := range on {
			least = min(least, p.DurationUs())
		}
		x.fastUs = rounds * least
		rp.inst.Jobs = append(rp.inst.Jobs, spec)
		rp.jobs = append(rp.jobs, x)
	}
	if cut > 0 {
		rp.notes = append(rp.notes, words.Count(cut,
			"job")+", cancelled or not ended: in the replay with the whole rounds "+
			"that were done, and not counted")
	}
	h.settle(rp.inst)
	if err := rp.inst.Validate(); err != nil && len(rp.jobs) > 0 {
		return nil, fmt.Errorf("regret: %w", err)
	}
	return rp, nil
}

func (rp *replay) has(id string) bool {
	_, has := rp.jobOf[id]
	return has
}

// replayGPUs adds the GPUs that joined later, and the times at which GPUs were away.
func (h *Hindsight) replayGPUs(rp *replay) {
	used := map[string]bool{}
	first := 0
	for _, n := range h.cluster.Nodes {
		used[n.Name] = true
		for _, g := range n.GPUs {
			first += g.Count
		}
	}
	for i, g := range h.gpus {
		if i >= first {
			at := strings.LastIndexByte(g.name, '/')
			name := g.name[:at] + ":" + g.name[at+1:] // as in realisedCluster
			for used[name] {
				name += "'"
			}
			used[name] = true
			if len(g.windows) > 0 {
				rp.inst.Cluster.Nodes = append(rp.inst.Cluster.Nodes, hare.Node{Name: name,
					GPUs: []hare.TypeCount{{Type: g.kind, Count: 1}}, Windows: slices.Clone(g.windows)})
			}
			continue
		}
		from := int64(0)
		for _, w := range g.windows {
			if w.StartUs > from {
				rp.faults = append(rp.faults, sim.Fault{GPU: g.name, FromUs: from, UntilUs: w.StartUs})
			}
			from = w.EndUs
		}
		if from != hare.Forever {
			rp.faults = append(rp.faults, sim.Fault{GPU: g.name, FromUs: from, UntilUs: hare.Forever})
		}
	}
}

// stayed is how long a task was on its GPU and how long it synchronised, of all of its
// stay: with what the client needed beside.
func (t *taskRun) stayed(sync hare.Sync) sim.TaskTimes {
	stayUs, computeUs := t.endsAt-t.startUs, t.computeUs
	if sync == hare.Relaxed {
		if computeUs = stayUs; t.computeEnd != unknownTime {
			computeUs = t.computeEnd - t.startUs
		}
	}
	computeUs = max(1, min(computeUs, stayUs))
	return sim.TaskTimes{ComputeUs: computeUs, SyncUs: max(0, stayUs-computeUs)}
}

// meanTimes are the mean times of a job's tasks by the type on which they ran, rounded up.
func (h *Hindsight) meanTimes(j *pastJob) map[string]sim.TaskTimes {
	type sums struct {
		compute, sync hare.Amount
		n             int64
	}
	all := map[string]sums{}
	for i := range j.done {
		t := &j.done[i]
		x, s := t.stayed(j.job.Sync), all[h.gpus[t.gpu].kind]
		s.compute, s.sync = s.compute.Add(hare.Product(1, x.ComputeUs)), s.sync.Add(hare.Product(1, x.SyncUs))
		s.n++
		all[h.gpus[t.gpu].kind] = s
	}
	out := map[string]sim.TaskTimes{}
	for kind, s := range all {
		out[kind] = sim.TaskTimes{ComputeUs: mean(s.compute, s.n), SyncUs: mean(s.sync, s.n)}
	}
	return out
}

// mean is a sum of n products of 1 with a time, divided by n and rounded up.
func mean(sum hare.Amount, n int64) int64 {
	v := sum.Big()
	v.Add(v, big.NewInt(n-1))
	return v.Div(v, big.NewInt(n)).Int64()
}

// times is sim.Config.Times.
func (rp *replay) times(job int, round, task int64, kind string) sim.TaskTimes {
	j := &rp.jobs[job]
	i := (round-j.past.first)*j.past.job.Tasks + task
	out, ran := j.mean[kind]
	switch {
	case j.kinds[i] == kind:
		out = j.tasks[i].stayed(j.past.job.Sync)
	case !ran:
		for _, p := range j.past.job.On {
			if p.Type == kind {
				out = sim.TaskTimes{ComputeUs: p.ComputeUs, SyncUs: p.SyncUs}
			}
		}
	}
	key := [2]int64{round, task}
	for _, x := range j.past.lost[key] {
		if rp.gpus[x.gpu].kind != kind || out.ComputeUs+out.SyncUs > x.us {
			continue
		}
		if x.syncing {
			out.SyncUs = x.us + 1 - out.ComputeUs
		} else {
			out.ComputeUs = x.us + 1
		}
	}
	if failures := j.past.failed[key]; j.failed[key] < len(failures) {
		out.FailsAfterUs = max(1, min(failures[j.failed[key]], out.ComputeUs+out.SyncUs))
	}
	return out
}

// figures computes the figures of the jobs that are counted, by the ends of all jobs.
func (rp *replay) figures(ends []int64) (f Figures) {
	var slowdowns []float64
	var sum hare.Amount
	for i := range rp.jobs {
		j := &rp.jobs[i]
		if !j.counted {
			continue
		}
		us := ends[i] - j.past.arrivedUs
		f.WeightedJCT = f.WeightedJCT.Add(hare.Product(j.past.job.WeightMicro, us))
		sum = sum.Add(hare.Product(1e6, us))
		slowdowns = append(slowdowns, float64(us)/float64(j.fastUs))
	}
	if n := len(slowdowns); n > 0 {
		slices.Sort(slowdowns)
		f.MeanJCTS = sum.Float() / float64(n)
		f.P99Slowdown = slowdowns[(99*n+99)/100-1]
	}
	return f
}
