package policies

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/sim"
)

// speedsOf is a scheduler of rolling with two types.
func speedsOf(t *testing.T, jobs ...[]hare.Profile) *list.Scheduler {
	p := NewRolling(&hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 1},
		{Type: "B", Count: 1}}}}}, RollingConfig{Aside: true})
	for i, on := range jobs {
		id := string(rune('a' + i))
		if _, err := p.Step(0, []hare.Event{{Type: hare.EventJobArrived, Job: id,
			Arrived: &hare.Job{ID: id, WeightMicro: 1e6, Tasks: 1, Sync: hare.Gang, On: on}}}); err != nil {
			t.Fatal(err)
		}
	}
	return p.Scheduler
}

// Where a profile is empty, a round is expected to take as long as the types' speeds for other
// jobs say, and then as long as was measured.
func TestEmptyProfilesAreLearned(t *testing.T) {
	both := []hare.Profile{{Type: "A", ComputeUs: 1e6}, {Type: "B", ComputeUs: 4e6}}
	l := speedsOf(t, both, []hare.Profile{{Type: "A", ComputeUs: 3e6}, {Type: "B"}},
		[]hare.Profile{{Type: "A"}, {Type: "B"}})
	for i, want := range [][2]int64{{1e6, 4e6}, {3e6, 12e6}, {1e6, 4e6}} {
		if j := l.Active()[i]; j.DurationUs(0) != want[0] || j.DurationUs(1) != want[1] {
			t.Errorf("job %s is expected to take %d and %d µs, want %v", j.Spec().ID, j.DurationUs(0), j.DurationUs(1), want)
		}
	}
	j := l.Active()[2]
	l.observeSpeed(j, &hare.Event{GPU: "n/1", ComputeUs: 9e6, SyncUs: 1e6})
	if j.DurationUs(1) != 10e6 || j.DurationUs(0) != 25e5 || j.Modes()[0].Type != 0 {
		t.Errorf("after a round of 10 s on B: %d and %d µs", j.DurationUs(0), j.DurationUs(1))
	}
	if other := l.Active()[0]; other.DurationUs(0) != 1e6 || other.DurationUs(1) != 4e6 {
		t.Error("the times of another job have changed")
	}
}

// The median of rounds replaces a profile once there are three of them, and one round that
// takes long changes nothing.
func TestMeasuredTimesReplaceProfiles(t *testing.T) {
	l := speedsOf(t, []hare.Profile{{Type: "A", ComputeUs: 1e6}, {Type: "B", ComputeUs: 4e6}})
	j := l.Active()[0]
	for i, c := range []struct{ us, want int64 }{{5e6, 1e6}, {1e6, 1e6}, {1e6, 1e6}, {5e6, 1e6}, {5e6, 5e6}} {
		l.observeSpeed(j, &hare.Event{GPU: "n/0", ComputeUs: c.us})
		if j.DurationUs(0) != c.want {
			t.Errorf("after %d rounds: %d µs, want %d", i+1, j.DurationUs(0), c.want)
		}
	}
	if j.Modes()[0].Type != 1 {
		t.Error("type B is the fastest now, and does not stand first")
	}
	if us := l.rule.Speeds.of(0); us != 800_000 {
		t.Errorf("type A has %d millionths of the speed of the best type", us)
	}
}

// With empty profiles, rolling that learns speeds does as well as with complete profiles, and
// far better than rolling that does not.
func TestEmptyProfilesInSimulations(t *testing.T) {
	var learned, ignorant, complete float64
	for seed := uint64(1); seed <= 3; seed++ {
		inst := gangsOn(3, 30, seed)
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: "slow",
			GPUs: []hare.TypeCount{{Type: "K80", Count: 3}}})
		for i := range inst.Jobs {
			inst.Jobs[i].On = append([]hare.Profile{{Type: "K80", ComputeUs: 20e6}}, inst.Jobs[i].On...)
		}
		value := func(p online.Policy) float64 {
			out, err := sim.Run(t.Context(), inst, p, sim.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return out.Value.Float()
		}
		learned += value(&emptied{NewRolling(&inst.Cluster, RollingConfig{})})
		complete += value(NewRolling(&inst.Cluster, RollingConfig{}))
		unable := NewRolling(&inst.Cluster, RollingConfig{})
		unable.rule.Speeds = nil
		ignorant += value(&emptied{unable})
	}
	if learned > 1.01*complete || learned > 0.92*ignorant {
		t.Errorf("with speeds that are learned the value is %v, %v with complete profiles, and %v without speeds",
			learned, complete, ignorant)
	}
}

// emptied hides the times of every second job on V100.
type emptied struct{ *Rolling }

func (em *emptied) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	e := events[0]
	if e.Arrived != nil && e.Arrived.ID[len(e.Arrived.ID)-1]%2 == 1 {
		j := *e.Arrived
		j.On = nil
		for _, p := range e.Arrived.On {
			if p.Type == "V100" {
				p = hare.Profile{Type: p.Type}
			}
			j.On = append(j.On, p)
		}
		e.Arrived = &j
	}
	return em.Rolling.Step(nowUs, []hare.Event{e})
}

// A snapshot of speeds that contradicts itself is refused.
func TestRestoreSpeeds(t *testing.T) {
	one := []list.speedSnapshot{{}}
	for _, s := range []list.SpeedsSnapshot{{}, {Of: one, Jobs: -1}, {Of: one, Types: make([]list.typeSpeed, 3)},
		{Of: one, Types: []list.typeSpeed{{Sum: -1}}}, {Of: one, Rounds: list.medianSnapshot{Oldest: 5}},
		{Of: []list.speedSnapshot{{Measured: []list.measuredTimes{{Type: 2, Us: []int64{1}}}}}},
		{Of: []list.speedSnapshot{{Measured: []list.measuredTimes{{Type: 0}}}}},
		{Of: []list.speedSnapshot{{Measured: []list.measuredTimes{{Type: 0, Us: []int64{0}}}}}},
		{Of: []list.speedSnapshot{{Modes: []list.modeSnapshot{{Type: 1, DurationUs: 1}}}}},
		{Of: []list.speedSnapshot{{Modes: []list.modeSnapshot{{Type: 0}}}}}} {
		if speedsOf(t, []hare.Profile{{Type: "A", ComputeUs: 1}}).RestoreSpeeds(&s) {
			t.Errorf("%+v is restored", s)
		}
	}
}
