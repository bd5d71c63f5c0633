package list_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// keepsPromises is a list scheduler in a session that checks its own starts.
type keepsPromises struct {
	*list.Scheduler
	t *testing.T
	// promised counts the starts that were checked against a promise whose time is over.
	promised int
}

var _ online.Policy = (*keepsPromises)(nil)

// Step checks that no job starts on the GPUs that were promised, for an earlier time, to
// a job that arrived before it. A promise is over when its job starts, and when its GPU type has too few
// GPUs in service.
func (kp *keepsPromises) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	type held struct {
		j *list.JobState
		p list.Promise
	}
	var before []held
	for _, j := range kp.Active() { // only the first job that waits has a reservation
		if j.Ready() == 0 {
			continue
		}
		if j.Promise() != nil && j.Promise().AtUs < nowUs {
			before = append(before, held{j, *j.Promise()})
		}
		break
	}
	out, err := kp.Scheduler.Step(nowUs, events)
	for i := range out {
		if out[i].Type == hare.DecisionWithdraw {
			break // the job that lost its round may be the first now
		}
		if out[i].Round > 0 {
			continue
		}
		for _, h := range before {
			_, mix := kp.Holding(h.j)
			waits := h.j.Ready() == h.j.Spec().Tasks && kp.Job(h.j.Spec().ID) == h.j
			if waits && h.j.Promise() != nil && *h.j.Promise() == h.p && kp.KeptPromise(h.j, mix) &&
				kp.Job(out[i].Job).Number() > h.j.Number() && (h.p.Type < 0 ||
				kp.Slots()[kp.GPUIndex(out[i].GPU)].Type == h.p.Type) {
				kp.t.Fatalf("at %d: job %s starts on %s, which job %s was promised for %d", nowUs, out[i].Job, out[i].GPU,
					h.j.Spec().ID, h.p.AtUs)
			}
		}
		kp.promised += len(before)
	}
	return out, err
}

// Reservations of backfill hold where sizes are believed, although jobs take far longer
// than that, and GPUs leave and return.
func TestReservationsHold(t *testing.T) {
	checked := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		for i, kind := range []string{"A", "B"} {
			n := hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{{Type: kind, Count: 2 + rng.IntN(3)}}}
			if rng.IntN(3) == 0 {
				n.Windows = []hare.Window{{StartUs: 0, EndUs: 20e6}, {StartUs: 30e6, EndUs: hare.Forever}}
			}
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
		}
		for i := range 40 {
			j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, Rounds: 1, Tasks: 1 + rng.Int64N(2),
				Sync: hare.Sync(rng.IntN(3)), ReleaseUs: rng.Int64N(60e6)}
			if rng.IntN(4) == 0 {
				j.Rounds = 1 + rng.Int64N(40) // far from what most jobs take
			}
			for _, kind := range []string{"A", "B"} {
				j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: 1e6 * (1 + rng.Int64N(3))})
			}
			inst.Jobs = append(inst.Jobs, j)
		}
		l := policies.NewEASY(sim.Cluster(inst), policies.JobSizes{})
		kp := &keepsPromises{Scheduler: l, t: t}
		if _, err := sim.Run(t.Context(), inst, kp, sim.Config{}); err != nil {
			t.Fatal(seed, err)
		}
		checked += kp.promised
	}
	if checked < 100 {
		t.Errorf("%d starts came after the time of a promise: too few to say anything", checked)
	}
}
