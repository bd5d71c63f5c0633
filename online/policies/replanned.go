package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/relax"
)

// replanned orders the jobs that are there by a relaxation of them alone, which is made
// again at each arrival, end of a job and change of the GPUs. It is what a policy that
// follows the relaxation of all jobs does in a session, where jobs to come are not known.
//
// [I] A job's size is what is believed; what jobs hold is not taken from the capacity;
// relaxed jobs count as gangs. Jobs that the relaxation has no place for come last, by
// arrival.
type replanned struct {
	averaged bool // whether all GPUs count as alike
	due      bool
}

// hareInSessions is the rule of hare_paper for sessions: algorithm 1, which takes tasks in
// the order of the relaxation, each to the GPU that is free first, fastest types first.
func hareInSessions() list.Rule { return (&replanned{}).rule("hare_paper", hare.Relaxed) }

// schedHomoInSessions is the rule of sched_homo for sessions.
func schedHomoInSessions() list.Rule {
	r := (&replanned{averaged: true}).rule("sched_homo", hare.Rigid)
	r.TypesByName = true
	return r
}

func (rp *replanned) rule(name string, hold hare.Sync) list.Rule {
	return list.Rule{
		Name: name, Hold: hold, LearnSizes: true,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return rankOf(j) },
		Prepare:  rp.prepare,
		Left:     func(*list.Scheduler, *list.JobState, bool) { rp.due = true },
		Resized:  func(*list.Scheduler) { rp.due = true },
		State:    rp.encode, Restore: rp.decode,
	}
}

// Limits of a relaxation in a session.
const (
	// maxReplanned is the most jobs of one relaxation: the first by weighted shortest time.
	maxReplanned = 200
	// unplanned is the rank of jobs without a place. Jobs beyond maxReplanned come
	// before them.
	unplanned = math.MaxFloat64
)

// prepare orders the jobs where something has changed.
func (rp *replanned) prepare(l *list.Scheduler) {
	if !rp.due {
		return
	}
	rp.due = false
	jobs := slices.Clone(l.Active())
	for _, j := range jobs {
		j.Own = unplanned / 2 * (1 - float64(j.Spec().WeightMicro)/(float64(j.Spec().WeightMicro)+
			float64(j.RoundsLeft())*float64(l.RoundUs(j))*float64(j.Spec().Tasks)))
	}
	slices.SortStableFunc(jobs, func(a, b *list.JobState) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	if len(jobs) > maxReplanned {
		jobs = jobs[:maxReplanned]
	}
	for _, j := range jobs {
		j.Own = unplanned
	}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for t, n := range l.InService() {
		if n > 0 {
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: strconv.Itoa(t),
				GPUs: []hare.TypeCount{{Type: l.Types()[t], Count: n}}})
		}
	}
	var placed []*list.JobState
	for _, j := range jobs {
		if spec, ok := relaxable(l, j); ok {
			inst.Jobs, placed = append(inst.Jobs, spec), append(placed, j)
		}
	}
	if rp.averaged {
		inst = averaged(inst)
	}
	if len(placed) == 0 || inst.Validate() != nil {
		return
	}
	m := model.New(inst)
	rel, err := relax.Run(context.Background(), m, relax.Config{Workers: 1, MaxLPs: -1, Cells: 24, Effort: 0.3})
	if err != nil {
		return
	}
	sums, items := make([]float64, len(placed)), make([]float64, len(placed))
	for _, it := range greedy.Order(m, rel, "relaxation") {
		sums[it.Job] += it.Key
		items[it.Job]++
	}
	for i, j := range placed {
		if items[i] > 0 {
			j.Own = sums[i] / items[i]
		}
	}
}

// relaxable is a job as a relaxation has it; false where no GPUs in service of known
// speed are enough for a round.
func relaxable(l *list.Scheduler, j *list.JobState) (hare.Job, bool) {
	_, mix := l.Holding(j)
	out := hare.Job{ID: strconv.Itoa(j.Number()), WeightMicro: j.Spec().WeightMicro, Tasks: j.Spec().Tasks,
		Sync: max(hare.Gang, j.Spec().Sync), Rounds: j.RoundsLeft()}
	out.Mix = mix && out.Sync == hare.Gang
	all, widest := int64(0), int64(0)
	for _, m := range j.Modes() {
		if n := int64(l.InService()[m.Type]); n > 0 && m.DurationUs > 0 {
			all, widest = all+n, max(widest, n)
			out.On = append(out.On, hare.Profile{Type: l.Types()[m.Type], ComputeUs: m.DurationUs})
		}
	}
	return out, widest >= out.Tasks || out.Mix && all >= out.Tasks
}

// replannedSnapshot is the state of replanned. Keys are the ranks of the jobs in
// the order of arrival.
type replannedSnapshot struct {
	Due  bool      `json:"due"`
	Keys []float64 `json:"keys"`
}

func (rp *replanned) encode(l *list.Scheduler) any {
	s := replannedSnapshot{Due: rp.due}
	for _, j := range l.Active() {
		s.Keys = append(s.Keys, rankOf(j))
	}
	return s
}

func (rp *replanned) decode(l *list.Scheduler, state json.RawMessage) bool {
	var s replannedSnapshot
	if list.DecodeState(state, &s) != nil || len(s.Keys) != len(l.Active()) {
		return false
	}
	rp.due = s.Due
	for i, j := range l.Active() {
		j.Own = s.Keys[i]
	}
	return true
}
