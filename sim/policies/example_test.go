package policies_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
)

// ShortestFirst gives whole types to the jobs with the least time left.
type ShortestFirst struct{}

var _ leases.SharePolicy = ShortestFirst{}

func (ShortestFirst) LeaseTraits() leases.Traits { return leases.Traits{} }

func (ShortestFirst) Shares(_ context.Context, s *leases.State, out *leases.Shares) error {
	free := append([]int(nil), s.GPUs...)
	done := make([]bool, len(s.Jobs))
	for {
		best, kind, leastS := -1, 0, 0.0
		for i, j := range s.Jobs {
			for k, rate := range j.Rate {
				if done[i] || rate == 0 || free[k] < j.GPUs {
					continue
				}
				if leftS := float64(j.StepsLeft) / rate; best < 0 || leftS < leastS {
					best, kind, leastS = i, k, leftS
				}
			}
		}
		if best < 0 {
			return nil
		}
		out.Share[best*len(s.Types)+kind] = 1
		free[kind] -= s.Jobs[best].GPUs
		done[best] = true
	}
}

// The example compares a policy of one's own with a policy of the registry.
func Example() {
	jobs := []leases.Job{
		{ID: "long", Weight: 1, GPUs: 1, Steps: 4000, Rate: []float64{1, 4}},
		{ID: "short", Weight: 1, GPUs: 1, Steps: 1000, Rate: []float64{1, 5}},
	}
	cluster := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{1, 1}}
	fifo, err := registry.Find("gavel:fifo_perf")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range []any{ShortestFirst{}, fifo.New(leases.Config{})} {
		o, err := leases.Run(context.Background(), fmt.Sprintf("%T", p), cluster, jobs, p,
			leases.RunConfig{ResetS: -1})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("mean JCT %.0f s\n", o.MeanJCTS)
	}
	// Output:
	// mean JCT 735 s
	// mean JCT 1000 s
}
