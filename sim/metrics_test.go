package sim_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// The figures of a run on one GPU under first come, first served are computed by hand. Job x
// runs from 0 to 6, y (released at 2) from 6 to 8, and z (released at 4) from 8 to 10. The
// JCTs are 6, 6 and 6, and the slowdowns 1, 3 and 3.
func TestMetricsByHand(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	inst := &hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
		GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}}, Jobs: []hare.Job{
		{ID: "x", WeightMicro: 1e6, Rounds: 6, Tasks: 1, On: on},
		{ID: "y", WeightMicro: 2e6, ReleaseUs: 2e6, Rounds: 2, Tasks: 1, On: on},
		{ID: "z", WeightMicro: 1e6, ReleaseUs: 4e6, Rounds: 2, Tasks: 1, On: on},
	}}
	out, _, err := logged(inst, onePolicyEach(t, inst)["fifo"])
	if err != nil {
		t.Fatal(err)
	}
	m := out.Metrics(inst)
	// The system has 1 job until 2 s, 2 until 4 s, 3 until 6 s, 2 until 8 s and 1 until 10 s. The
	// mean over the time of x is (1·2 + 2·2 + 3·2)/6 = 2, over that of y (2·2 + 3·2 + 2·2)/6 =
	// 7/3, and over that of z (3·2 + 2·2 + 1·2)/6 = 2. With equal shares, the jobs would take
	// 2·6, 7/3·2 and 2·2 seconds.
	rhos := []float64{6.0 / 12, 6 / (14.0 / 3), 6.0 / 4}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"mean", m.MeanJCTS, 6},
		{"weighted", m.WeightedJCTS, 24},
		{"weighted mean", m.WeightedMeanJCTS, 6},
		{"p50", m.P50JCTS, 6},
		{"makespan", m.MakespanS, 10},
		{"wait", m.MeanWaitS, 8.0 / 3},
		{"p99 wait", m.P99WaitS, 4},
		{"slowdown", m.MeanSlowdown, 7.0 / 3},
		{"p99 slowdown", m.P99Slowdown, 3},
		{"Jain", m.Jain, 49.0 / (3 * 19)},
		{"rho", m.MeanRho, (rhos[0] + rhos[1] + rhos[2]) / 3},
		{"worst rho", m.WorstRho, 1.5},
		{"use", m.Utilization, 1},
		{"switches", float64(m.Switches), 2},
		{"none within 5 s", m.Share(5), 0},
		{"all within 6 s", m.Share(6), 1},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", c.name, c.got, c.want)
		}
	}
	none := &hare.Instance{}
	if m := (&sim.Outcome{}).Metrics(none); m.Jobs != 0 || m.MeanJCTS != 0 || m.Jain != 0 || m.Share(1) != 0 {
		t.Errorf("without jobs: %+v", m)
	}
}

// The figures of every run keep the limits that follow from their definitions.
func TestMetricsOfRandomRuns(t *testing.T) {
	for seed := range seeds(200) {
		inst := random(rand.New(rand.NewPCG(seed, 8)), seed%2 == 1)
		out, _, err := logged(inst, onePolicyEach(t, inst)["hlas"])
		if err != nil {
			t.Fatal(err)
		}
		m := out.Metrics(inst)
		switch {
		case m.MeanSlowdown < 1, m.P99Slowdown < m.MeanSlowdown && m.Jobs < 100, m.Jain <= 0 || m.Jain > 1+1e-9:
			t.Errorf("seed %d: slowdowns %+v", seed, m)
		case m.Utilization < 0 || m.Utilization > 1+1e-9, m.WorstRho < m.MeanRho-1e-9, m.MeanRho <= 0:
			t.Errorf("seed %d: use or rho: %+v", seed, m)
		case !slices.IsSorted(m.JCTsS), math.Abs(m.MeanJCTS-out.MeanJCTUs/1e6) > 1e-6, m.Share(m.JCTsS[m.Jobs-1]) != 1:
			t.Errorf("seed %d: JCTs: %+v", seed, m)
		case out.Schedule != nil && m.Switches != switches(out.Schedule):
			t.Errorf("seed %d: %d switches", seed, m.Switches)
		}
	}
}

// switches counts the changes of job in the lanes.
func switches(s *hare.Schedule) (n int64) {
	for _, l := range s.Lanes {
		for i := 1; i < len(l.Job); i++ {
			if l.Job[i] != l.Job[i-1] {
				n++
			}
		}
	}
	return n
}
