package rolling

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/sim"
)

// watched checks that a gang that waits for GPUs of a type, and that no other job goes
// before, starts no later than when the others are expected to have left enough of them.
type watched struct {
	*Policy
	rng     *rand.Rand
	jobs    int // that are to arrive
	promise map[string]int64
	kept    int // promises that were kept
	broken  error
}

func (wa *watched) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	decisions, err := wa.Policy.Step(nowUs, events)
	for _, d := range decisions {
		if byUs, ok := wa.promise[d.Job]; ok && d.Type == hare.DecisionStart {
			delete(wa.promise, d.Job)
			wa.kept++
			if nowUs > byUs {
				wa.broken = fmt.Errorf("job %s starts at %d, and was expected to at %d", d.Job, nowUs, byUs)
			}
		}
	}
	if events[0].Type == hare.EventJobArrived {
		if wa.jobs--; wa.jobs == 0 {
			wa.plan(nowUs)
		}
		return decisions, err
	}
	wa.promises()
	return decisions, err
}

// plan draws the plan that is followed from now on: all rounds of each job on one type, in
// any order.
func (wa *watched) plan(nowUs int64) {
	l := wa.Scheduler
	p := &madePlan{followedPlan: followedPlan{number: wa.rolling.changes, madeUs: nowUs, arrivals: int64(l.Arrivals())}}
	for _, j := range l.Active() {
		var wide []list.Mode
		for _, m := range j.Modes() {
			if int64(l.InService()[m.Type]) >= j.Spec().Tasks {
				wide = append(wide, m)
			}
		}
		m := wide[wa.rng.IntN(len(wide))]
		p.jobs = append(p.jobs, plannedJob{id: j.Spec().ID, arrival: int64(j.Number()),
			rows: []planner.Row{{Round: nextRound(j),
				Rounds: max(1, j.RoundsLeft()+j.Round()-nextRound(j)), StartUs: nowUs + wa.rng.Int64N(1000),
				PeriodUs: m.DurationUs,
				Types:    []planner.TypeCount{{Type: m.Type, Count: j.Spec().Tasks}}}}})
	}
	wa.rolling.follow(l, p)
}

// promises notes, for each type, when the first job in the plan's order that waits for
// GPUs of the type will have them, if jobs that go before it keep theirs to the end, and
// the others to the end of their rounds.
func (wa *watched) promises() {
	l := wa.Scheduler
	order := slices.DeleteFunc(slices.Clone(l.Active()), func(j *list.JobState) bool { return planOf(j).claim == nil })
	slices.SortStableFunc(order, func(a, b *list.JobState) int {
		return cmp.Compare(nextRow(a).StartUs, nextRow(b).StartUs)
	})
	taken := map[int]bool{}
	for at, j := range order {
		need := nextRow(j).Types[0]
		if taken[need.Type] || len(j.GPUs()) > 0 && l.Slots()[j.GPUs()[0]].Type == need.Type {
			continue
		}
		taken[need.Type] = true
		if len(j.GPUs()) > 0 || j.Finished() {
			continue
		}
		var ends []int64
		for range l.Free()[need.Type] {
			ends = append(ends, l.NowUs())
		}
		for i, o := range order {
			if len(o.GPUs()) == 0 || l.Slots()[o.GPUs()[0]].Type != need.Type {
				continue
			}
			endUs := l.RoundEndUs(o)
			if i < at {
				endUs += (o.RoundsLeft() - 1) * o.DurationUs(need.Type)
			}
			for range o.GPUs() {
				ends = append(ends, endUs)
			}
		}
		slices.Sort(ends)
		byUs := ends[need.Count-1]
		if old, ok := wa.promise[j.Spec().ID]; !ok || byUs < old {
			wa.promise[j.Spec().ID] = byUs
		}
	}
}

// A plan never starts what a gang that is due needs, whatever order the plan has.
func TestGangsThatAreDueAreNotDelayed(t *testing.T) {
	kept := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 8))
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 2 + rng.IntN(4)}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 2 + rng.IntN(4)}}},
		}}}
		sizes := map[string]int64{}
		for i := range 3 + rng.IntN(8) {
			j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, Rounds: 1 + rng.Int64N(5), Tasks: 1 + rng.Int64N(3),
				Sync: hare.Gang, On: []hare.Profile{{Type: "A", ComputeUs: (1 + rng.Int64N(9)) * 1e6},
					{Type: "B", ComputeUs: (1 + rng.Int64N(9)) * 1e6}}}
			if j.Tasks > int64(min(inst.Cluster.Nodes[0].GPUs[0].Count, inst.Cluster.Nodes[1].GPUs[0].Count)) {
				j.Tasks = 2
			}
			sizes[j.ID] = j.Rounds
			inst.Jobs = append(inst.Jobs, j)
		}
		wa := &watched{Policy: New(&inst.Cluster, Config{Rounds: sizes, Aside: true,
			MaxAgeUs: hare.MaxExact}), rng: rng, jobs: len(inst.Jobs), promise: map[string]int64{}}
		if _, err := sim.Run(t.Context(), inst, wa, sim.Config{}); err != nil || wa.broken != nil {
			t.Fatalf("seed %d: %v, %v", seed, err, wa.broken)
		}
		kept += wa.kept
	}
	if kept < 300 {
		t.Errorf("%d gangs waited: the streams show little", kept)
	}
}

// The times of changes are those that were added, or those of changes before them, in
// bounded memory.
func TestChangeTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	var ct changeTimes
	var all []int64 // the time of each change, from number 1 on
	seen := int64(0)
	for range 20_000 {
		if n := int64(len(all)); n > seen && rng.IntN(2000) == 0 {
			seen += rng.Int64N(n-seen) + 1
			ct.see(seen, n)
		} else {
			last := int64(0)
			if n > 0 {
				last = all[n-1]
			}
			all = append(all, last+rng.Int64N(3))
			ct.add(n+1, all[n])
		}
		last := int64(len(all))
		if !ct.valid(seen, last, all[last-1]) {
			t.Fatalf("%d to %d: %v", seen, last, ct)
		}
		if first, ok := ct.firstUs(); ok != (seen < last) || ok && first > all[seen] {
			t.Fatalf("%d to %d: since %d, %v", seen, last, first, ok)
		}
	}
}
