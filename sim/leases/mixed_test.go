package leases_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
)

// lending gives the given GPUs to the jobs in each round.
type lending map[string][]int32

func (h lending) Hold(_ context.Context, s *leases.State, _ []leases.Hold) ([]leases.Hold, error) {
	var holds []leases.Hold
	for i := range s.Jobs {
		if gpus := h[s.Jobs[i].ID]; gpus != nil {
			holds = append(holds, leases.Hold{Job: i, GPUs: gpus})
		}
	}
	return holds, nil
}

type mixing struct{ lending }

func (mixing) MixesTypes() {}

// The cluster has K80 GPUs 0 to 3 on nodes of two, and V100 GPUs 4 to 6 on one node. A job of two
// GPUs has 720 steps, at 1 step/s on K80 and 4 on V100; across nodes, at 0.5 and 2.
func TestLeasesAcrossNodesAndTypes(t *testing.T) {
	cluster := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{4, 3}, NodeSize: []int{2, 0}}
	if cluster.GPUsPerNode(0) != 2 || cluster.GPUsPerNode(1) != 3 {
		t.Error(cluster.GPUsPerNode(0), cluster.GPUsPerNode(1))
	}
	job := leases.Job{ID: "a", Weight: 1, GPUs: 2, Steps: 720, Rate: []float64{1, 4}, SpreadRate: []float64{0.5, 2}}
	for _, x := range []struct {
		name         string
		gpus         []int32
		spread       []float64
		jctS         float64
		k80S, v100S  float64 // GPU-seconds
		refusedMixed string
	}{
		{"on one node", []int32{2, 3}, job.SpreadRate, 720, 1440, 0, ""},
		{"on two nodes", []int32{1, 2}, job.SpreadRate, 1440, 2880, 0, ""},
		{"without rates for that", []int32{1, 2}, nil, 720, 1440, 0, ""},
		{"on fast GPUs", []int32{4, 6}, job.SpreadRate, 180, 0, 360, ""},
		{"on both types", []int32{3, 4}, job.SpreadRate, 1440, 1440, 1440, ""},
		{"on both types, the fast one first", []int32{4, 3}, job.SpreadRate, 1440, 1440, 1440, ""},
		{"not possible", []int32{3, 4}, []float64{0, 2}, 0, 0, 0, "GPU K80/3: job \"a\" cannot run on several nodes"},
	} {
		j := job
		j.SpreadRate = x.spread
		o, err := leases.Run(t.Context(), "x", cluster, []leases.Job{j}, mixing{lending{"a": x.gpus}},
			leases.RunConfig{})
		if x.refusedMixed != "" {
			var refused *sim.AllocationError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), x.refusedMixed) {
				t.Errorf("%s: %v", x.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if k80S, v100S := o.UtilizationByType[0]*4*o.TotalS, o.UtilizationByType[1]*3*o.TotalS; o.MeanJCTS != x.jctS ||
			math.Abs(k80S-x.k80S) > 1e-6 || math.Abs(v100S-x.v100S) > 1e-6 {
			t.Errorf("%s: %v s, %v and %v GPU-seconds", x.name, o.MeanJCTS, k80S, v100S)
		}
	}
	_, err := leases.Run(t.Context(), "x", cluster, []leases.Job{job}, lending{"a": {3, 4}}, leases.RunConfig{})
	if err == nil || !strings.Contains(err.Error(), "needs one type") {
		t.Error(err)
	}
}

func TestLeaseNodesRefused(t *testing.T) {
	good := leases.Job{ID: "a", Weight: 1, GPUs: 1, Steps: 1, Rate: []float64{1, 4}}
	for _, x := range []struct {
		size   []int
		spread []float64
		want   string
	}{
		{[]int{1}, nil, "sizes of nodes must be one for each GPU type"},
		{[]int{1, -1}, nil, "not negative"},
		{nil, []float64{1}, "rates on several nodes are for 1 types of 2"},
		{nil, []float64{1, -1}, "rate on several nodes of \"V100\" is not a number from 0"},
		{nil, []float64{1, math.NaN()}, "not a number"},
	} {
		j := good
		j.SpreadRate = x.spread
		c := leases.Cluster{Types: []string{"K80", "V100"}, GPUs: []int{1, 1}, NodeSize: x.size}
		_, err := leases.Run(t.Context(), "x", c, []leases.Job{j}, lending{}, leases.RunConfig{})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %s", fmt.Sprint(x.size, x.spread), err, x.want)
		}
	}
}
