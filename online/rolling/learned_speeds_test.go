package rolling

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/sim"
)

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
		learned += value(&emptied{New(&inst.Cluster, Config{})})
		complete += value(New(&inst.Cluster, Config{}))
		r := newRolling(Config{})
		rule := r.rule()
		rule.Speeds = nil
		unable := &Policy{list.New(&inst.Cluster, rule), r}
		ignorant += value(&emptied{unable})
	}
	if learned > 1.01*complete || learned > 0.92*ignorant {
		t.Errorf("with speeds that are learned the value is %v, %v with complete profiles, and %v without speeds",
			learned, complete, ignorant)
	}
}

// emptied hides the times of every second job on V100.
type emptied struct{ *Policy }

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
	return em.Policy.Step(nowUs, []hare.Event{e})
}
