package policies_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/policytest"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Every policy of tasks keeps its promises under hostile events, as it is in simulations
// and as it is in sessions. In sessions it is also stored and restored after every event.
// In simulations, policies that follow a plan meet only events that fit the plan.
func TestHostileEvents(t *testing.T) {
	for _, info := range policies.All() {
		t.Run(info.Name, func(t *testing.T) {
			s := policytest.Subject{}
			maker := info.Maker
			if learned, ok := maker.(policies.Learned); ok {
				maker = learned.Maker
			}
			switch maker := maker.(type) {
			case policies.FromEvents:
				return
			case policies.FromFuture:
				s.SingleGPUs = true
				s.Planned = info.Name == "hare_offline" || info.Name == "hare_paper"
				s.Open = func(c *hare.Cluster, jobs []hare.Job) (online.Policy, error) {
					return maker(t.Context(), known(c, jobs), policies.Config{Moves: 200})
				}
			default:
				s.Open = func(c *hare.Cluster, jobs []hare.Job) (online.Policy, error) {
					return info.New(t.Context(), &hare.Instance{Cluster: *c, Jobs: jobs},
						policies.Config{LeaseUs: 2e6, ThresholdUs: 3e6})
				}
			}
			s.Runs = 25
			if testing.Short() {
				s.Runs = 20
			}
			policytest.Run(t, s)
		})
	}
	for _, name := range registry.SessionNames() {
		t.Run("session/"+name, func(t *testing.T) {
			s := policytest.Subject{
				Open: func(c *hare.Cluster, _ []hare.Job) (online.Policy, error) {
					return registry.OpenSession(name, c, parameters[name])
				},
				Restore: func(snapshot []byte) (online.Durable, error) { return registry.RestoreSession(name, snapshot) },
			}
			s.Runs = 25
			if testing.Short() || relaxing[name] {
				s.Runs = 20
			}
			policytest.Run(t, s)
		})
	}
}

// relaxing are the policies of sessions that solve a relaxation for a decision. They share
// what stores, restores and adopts with the others, and take much longer.
var relaxing = map[string]bool{"hare_offline": true, "hare_paper": true, "sched_allox": true, "sched_homo": true}

// parameters are so small that queues and slices change in a short run.
var parameters = map[string][]byte{
	"gandiva": []byte(`{"slice_s": 2}`), "tiresias": []byte(`{"thresholds_s": [3, 9], "knob": 1}`),
	"hare_offline": []byte(`{"moves": 20}`), "rolling": []byte(`{"moves": 20}`),
	"tiresias_gittins": []byte(`{"thresholds_s": [3, 9], "knob": 1}`),
	"themis":           []byte(`{"lease_s": 2}`), "slurm": []byte(`{"max_age_s": 20}`),
	"hlas": []byte(`{"queues": 3, "thresholds_s": [2, 6], "kappa": 0.5}`),
}

// known is an instance of the jobs that can run on the cluster from the start, for
// planners.
func known(c *hare.Cluster, jobs []hare.Job) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: *c}
	for _, j := range jobs {
		var on []hare.Profile
		for _, p := range j.On {
			p.ComputeUs = max(1, p.ComputeUs)
			for _, n := range c.Nodes {
				if n.GPUs[0].Type == p.Type && int64(n.GPUs[0].Count) >= j.Tasks {
					on = append(on, p)
				}
			}
		}
		if j.On = on; on != nil {
			inst.Jobs = append(inst.Jobs, j)
		}
	}
	return inst
}
