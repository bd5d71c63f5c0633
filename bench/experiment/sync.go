package experiment

import (
	"fmt"

	"github.com/hare-sched/hare"
)

var allSyncs = []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid}

// syncs uses the standard instances with arrivals, seeds 1 to 5. The jobs of each instance
// are relaxed in one variant, gangs in another and rigid in the third.
var syncs = Info{
	Name:  "sync",
	Title: "The same jobs with relaxed, gang and rigid synchronisation",
	Text: "200 jobs that arrive over 1200 s, on 160 GPUs. A gang's tasks start together on GPUs of one type, " +
		"which they hold until the slowest has synchronised; a rigid job keeps its GPUs.",
	Published: "Hare (HPDC 2022): relaxed scale-fixed synchronisation lets tasks of a round share GPUs and mix " +
		"types; the parts of the paper that we have give no figure.",
	schemes: named("hare_offline", "hlas", "srtf"),
	cases: func(s set) ([]Case, error) {
		var cases []Case
		for _, sync := range allSyncs {
			for seed := range s.seeds() {
				inst, err := s.generate(setting{arrivals: arriving(), sync: sync.String()}, seed)
				if err != nil {
					return nil, err
				}
				inst.Name += "-" + sync.String()
				cases = append(cases, Case{Group: "arrivals over 1200 s", Variant: sync.String(), Seed: seed,
					Inst: inst})
			}
		}
		return cases, nil
	},
}

// heterogeneity uses one job of 8 tasks and 20 rounds on 8 K80s and 0 to 8 V100s. The job
// has the times of the generator's vgg19 (a V100 is 10.1 times as fast as a K80) or
// graphsage (1.9 times), and is relaxed, a gang on one type, or a gang that may mix types.
var heterogeneity = Info{
	Name:  "heterogeneity",
	Title: "One job with more and more fast GPUs",
	Text: "One job of 8 tasks and 20 rounds on 8 K80 and the number of V100 on the axis. A gang runs on GPUs " +
		"of one type, a mixed gang on GPUs of any type; both are as slow as their slowest GPU.",
	Published: "Hare (HPDC 2022) begins with the observation that more fast GPUs do not speed up a synchronous job; " +
		"the parts of the paper that we have give no figure.",
	axis:     "V100 beside 8 K80",
	measures: []measure{meanJCT},
	schemes:  named("hare_offline", "hlas"),
	cases: func(set) ([]Case, error) {
		var cases []Case
		for _, m := range []struct {
			name              string
			fast, slow, syncS float64
		}{{"vgg19", 6.75, 68.175, 1.5}, {"graphsage", 1.4, 2.66, 0.25}} {
			for _, v := range []struct {
				name string
				sync hare.Sync
				mix  bool
			}{{"relaxed", hare.Relaxed, false}, {"gang", hare.Gang, false}, {"mixed gang", hare.Gang, true}} {
				for fast := range 9 {
					us := func(s float64) int64 { return int64(s*1e6 + 0.5) }
					inst := &hare.Instance{
						Name: fmt.Sprintf("%s-%s-%d", m.name, v.name, fast), Objective: hare.ObjectiveWeightedJCT,
						Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "k",
							GPUs: []hare.TypeCount{{Type: "K80", Count: 8}}}}},
						Jobs: []hare.Job{{
							ID: m.name, WeightMicro: 1e6, Rounds: 20, Tasks: 8, Sync: v.sync, Mix: v.mix,
							On: []hare.Profile{{Type: "K80", ComputeUs: us(m.slow), SyncUs: us(m.syncS)}},
						}},
					}
					if fast > 0 {
						inst.Cluster.Nodes = append(inst.Cluster.Nodes,
							hare.Node{Name: "v", GPUs: []hare.TypeCount{{Type: "V100",
								Count: fast}}})
						inst.Jobs[0].On = append(inst.Jobs[0].On,
							hare.Profile{Type: "V100", ComputeUs: us(m.fast), SyncUs: us(m.syncS)})
					}
					cases = append(cases, Case{Group: m.name, X: float64(fast), Variant: v.name, Inst: inst})
				}
			}
		}
		return cases, nil
	},
}
