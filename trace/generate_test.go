package trace

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hare "github.com/hare-sched/hare"
)

func generate(t *testing.T, cfg GenerateConfig) *hare.Instance {
	t.Helper()
	inst, err := Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func TestGenerate(t *testing.T) {
	a := generate(t, GenerateConfig{Seed: 1})
	if d := cmp.Diff(a, generate(t, GenerateConfig{Seed: 1})); d != "" {
		t.Error("same seed, another instance")
	}
	if cmp.Equal(a.Jobs, generate(t, GenerateConfig{Seed: 2}).Jobs) {
		t.Error("another seed, same jobs")
	}
	decodes(t, a)
	if len(a.Jobs) != 200 || len(a.Cluster.Nodes) != 4 {
		t.Fatalf("%d jobs, %d nodes", len(a.Jobs), len(a.Cluster.Nodes))
	}
	perDomain := map[int]int{}
	for _, j := range a.Jobs {
		for _, m := range models {
			if strings.HasPrefix(j.ID, m.name+"-") {
				perDomain[m.domain]++
			}
		}
		if j.Rounds < 5 || j.Rounds > 64 || j.WeightMicro < 50_000 || j.WeightMicro > 1_050_000 || j.ReleaseUs != 0 ||
			j.Sync != hare.Relaxed {
			t.Errorf("job %+v", j)
		}
		fast := map[string]int64{}
		for _, p := range j.On {
			fast[p.Type] = p.ComputeUs
			if p.ComputeUs%1e6 != 0 || p.SyncUs < 1e6 {
				t.Errorf("%s: %+v", j.ID, p)
			}
		}
		if fast["V100"] > fast["T4"] || fast["T4"] > fast["M60"] || fast["M60"] > fast["K80"] {
			t.Errorf("%s: speeds out of order: %v", j.ID, fast)
		}
	}
	for d := range domains {
		if perDomain[d] != 50 {
			t.Errorf("domain %d has %d jobs, want a quarter of 200", d, perDomain[d])
		}
	}
}

func TestGenerateArrivals(t *testing.T) {
	same := generate(t, GenerateConfig{Seed: 3})
	for _, kind := range []string{"poisson:0.1", "uniform:2000"} {
		inst := generate(t, GenerateConfig{Seed: 3, Arrivals: kind})
		var last, sum float64
		for i, j := range inst.Jobs {
			at := float64(j.ReleaseUs) / 1e6
			if kind == "poisson:0.1" && at < last {
				t.Fatal("poisson arrivals out of order")
			}
			last, sum = at, sum+at
			j.ReleaseUs = 0
			if d := cmp.Diff(same.Jobs[i], j); d != "" {
				t.Fatalf("arrivals change a job: %s", d)
			}
		}
		// Both means are 1,000 s; four standard deviations of either stay below 250 s.
		if mean := sum / 200; math.Abs(mean-1000) > 250 {
			t.Errorf("%s: mean arrival %g s", kind, mean)
		}
	}
}

func TestGenerateLarge(t *testing.T) {
	gpus, err := ParseGPUs("V100=6400,T4=4800,K80=2400,M60=2400")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	inst := generate(t, GenerateConfig{Jobs: 20_000, GPUs: gpus, Seed: 1})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	var tasks int64
	for _, j := range inst.Jobs {
		tasks += j.Rounds * j.Tasks
	}
	if tasks < 4_000_000 || tasks > 4_600_000 {
		t.Errorf("%d tasks", tasks)
	}
}

func TestGenerateFaults(t *testing.T) {
	for name, cfg := range map[string]GenerateConfig{
		"negative": {Jobs: -1}, "too many": {Jobs: 1 << 40}, "GPU": {GPUs: []hare.TypeCount{{Type: "TPU", Count: 1}}},
		"sync": {Sync: "async"}, "grain": {GrainUs: -1}, "arrivals": {Arrivals: "often"},
		"none with value": {Arrivals: "none:3"},
		"rate":            {Arrivals: "poisson:0"}, "NaN": {Arrivals: "poisson:NaN"}, "Inf": {Arrivals: "uniform:Inf"},
		"slow": {Arrivals: "poisson:1e-300"},
	} {
		if _, err := Generate(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Gang and rigid jobs fit the cluster.
func TestGenerateNarrow(t *testing.T) {
	inst := generate(t, GenerateConfig{Sync: "gang", GPUs: []hare.TypeCount{{Type: "V100", Count: 3},
		{Type: "K80", Count: 2}}})
	for _, j := range inst.Jobs {
		if j.Tasks > 3 || j.Sync != hare.Gang {
			t.Fatalf("%+v", j)
		}
	}
}
