package rolling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/sim"
)

// gangsOn are jobs of one task that arrive one after another on some GPUs.
func gangsOn(gpus, jobs int, seed uint64) *hare.Instance {
	rng := rand.New(rand.NewPCG(seed, 15))
	lines := fmt.Sprintf("nodes n=%dV100", gpus)
	for i := range jobs {
		lines += fmt.Sprintf("\njobs j%d gang %dx%d V100:2+0.1 at=%d", i, 1+rng.Int64N(12), 1+rng.Int64N(2), 3*i)
	}
	return transcript.Instance(lines)
}

// What a switch takes is learned exactly where it is always the same, and is nothing where
// it takes no time. A policy that learns does about as well as one that is told at first, and
// makes far fewer switches than one that is told that they take no time.
func TestSwitchesAreLearned(t *testing.T) {
	for _, switchUs := range []int64{0, 1500e3} {
		const learns, ignores = 0, -1
		switches, values := map[int64]int64{}, map[int64]float64{}
		for _, told := range []int64{learns, ignores, 1500e3} {
			if told > 0 && switchUs == 0 {
				continue
			}
			for seed := range uint64(3) {
				inst := gangsOn(4, 40, seed)
				p := New(&inst.Cluster, Config{SwitchUs: told, Work: planner.Work{Moves: -1}})
				out, err := sim.Run(t.Context(), inst, p, sim.Config{SwitchUs: switchUs})
				if err != nil {
					t.Fatal(err)
				}
				switches[told] += out.Switches
				values[told] += out.Value.Float()
				if us := p.SwitchUs(); told == learns && us != switchUs || told == ignores && us != 0 {
					t.Errorf("switches of %d µs: %d µs are learned", switchUs, us)
				}
			}
		}
		if switchUs == 0 {
			if switches[learns] != switches[ignores] || values[learns] != values[ignores] {
				t.Errorf("switches that take no time: %d, value %v; where they are not known %d, value %v", switches[learns],
					values[learns], switches[ignores], values[ignores])
			}
			continue
		}
		if 100*switches[learns] > 93*switches[ignores] || 100*switches[learns] > 102*switches[switchUs] ||
			values[learns] > 0.985*values[ignores] || values[learns] > 1.01*values[switchUs] {
			t.Errorf("switches and values of policies that learn, ignore and know: %v %v", switches, values)
		}
	}
}

// twoJobs is a scheduler with one GPU on which job a runs its first round of 2 s, and job b
// waits. Switches take 1 s.
func twoJobs(t *testing.T) *Policy {
	inst := gangsOn(1, 0, 0)
	p := New(&inst.Cluster, Config{SwitchUs: 1e6, Aside: true, MaxAgeUs: hare.MaxExact})
	for _, id := range []string{"a", "b"} {
		_, e := transcript.Event([]string{"0", "job_arrived", id, "gang", "x1", "V100:2"})
		if _, err := p.Step(0, []hare.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// A plan charges a waiting job its switch, spread over its rounds, and a running job none.
func TestPlansChargeSwitches(t *testing.T) {
	p := twoJobs(t)
	q := p.rolling.question(p.Scheduler)
	for i, extraUs := range []int64{0, 1e6 / list.FirstRounds} {
		if job := &q.ask.Jobs[i]; job.On[0].DurationUs != 2e6+extraUs {
			t.Errorf("job %s takes %d µs a round in the plan, want %d more than 2 s", q.jobs[i].id, job.On[0].DurationUs,
				extraUs)
		}
	}
	a, b := p.Active()[0], p.Active()[1]
	p.rolling.l = p.Scheduler
	row := []planner.TypeCount{{Type: 0, Count: 1}}
	if endA, endB := p.rolling.endUs(a, row), p.rolling.endUs(b, row); endA != 2e6 || endB != 3e6 {
		t.Errorf("rounds that start now end at %d and %d µs", endA, endB)
	}
}

// A job that can go on gives its GPUs to another only where the other's turn is more than
// switchesAhead switches before its own.
func TestGainBelowASwitchTakesNoGPUs(t *testing.T) {
	for _, c := range []struct {
		aheadUs int64
		next    string
	}{{0, "a"}, {9_900_000, "a"}, {10_100_000, "b"}} {
		p := twoJobs(t)
		l, r := p.Scheduler, p.rolling
		plan := &madePlan{followedPlan: followedPlan{number: r.changes, arrivals: int64(l.Arrivals())}}
		for i, startUs := range []int64{c.aheadUs, 0} {
			row := planner.Row{Round: int64(1 - i), Rounds: 8, StartUs: startUs, PeriodUs: 2e6,
				Types: []planner.TypeCount{{Type: 0, Count: 1}}}
			plan.jobs = append(plan.jobs, plannedJob{id: l.Active()[i].Spec().ID, arrival: int64(i), rounds: 8,
				rows: []planner.Row{row}})
		}
		r.follow(l, plan)
		out, err := p.Step(2e6, []hare.Event{{Type: hare.EventTaskEnded, Job: "a", GPU: "n/0", ComputeUs: 2e6}})
		if err != nil || len(out) != 1 || out[0].Job != c.next {
			t.Errorf("%d µs ahead: %v, %v; want a start of %s", c.aheadUs, out, err, c.next)
		}
		if startsUs := l.RoundEndUs(l.Job(c.next)) - 4e6; startsUs != map[string]int64{"a": 0, "b": 1e6}[c.next] {
			t.Errorf("the round of %s is expected to begin %d µs after its start", c.next, startsUs)
		}
	}
}

// A snapshot that contradicts itself is refused.
func TestRestoreSetup(t *testing.T) {
	broken := list.SetupSnapshot{Users: []int{0}}
	broken.SwitchedLost.Oldest = -1
	for _, s := range []list.SetupSnapshot{{Users: nil}, {Users: []int{2}}, {Users: []int{-2}},
		{Users: []int{0}, Switched: []int{1}}, {Users: []int{0}, Switched: []int{-1}},
		broken} {
		if twoJobs(t).RestoreSetup(&s) {
			t.Errorf("%+v is restored", s)
		}
	}
	if s := (list.SetupSnapshot{Users: []int{1}, Switched: []int{0}}); !twoJobs(t).RestoreSetup(&s) {
		t.Error("a good snapshot is refused")
	}
}
