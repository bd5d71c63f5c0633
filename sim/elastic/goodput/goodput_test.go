package goodput

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"
)

// rows reads numbers by column; an empty cell is NaN.
func rows(t *testing.T, path string) []map[string]float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]float64
	for _, cells := range all[1:] {
		row := map[string]float64{}
		for i, cell := range cells {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				v = math.NaN()
			}
			row[all[0][i]] = v
		}
		out = append(out, row)
	}
	return out
}

func paramsOf(r map[string]float64) Params {
	return Params{r["alpha_c"], r["beta_c"], r["alpha_n"], r["beta_n"], r["alpha_r"], r["beta_r"], r["gamma"]}
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(math.Abs(a), math.Abs(b))
}

// modelTolerance is the greatest relative difference from goodput.py. Both evaluate the same
// formulas in different orders.
const modelTolerance = 1e-6

// Throughput, efficiency and the best batch are compared with Pollux's goodput.py at its own
// fitted curves.
func TestModelAgreement(t *testing.T) {
	worst := 0.
	for i, r := range rows(t, "testdata/goodput_reference.csv") {
		n := func(column string) int { return int(r[column]) }
		m := Model{paramsOf(r), Noise{r["grad_sqr"], r["grad_var"]},
			Limits{n("init_batch"), n("max_batch"), n("min_local"), n("max_local")}}
		g, local, passes := m.Best(n("nodes"), n("gpus"))
		if local != n("local") || passes != n("passes") {
			t.Errorf("row %d: the best batch is %d × %d, Pollux has %v × %v", i, passes, local, r["passes"], r["local"])
		}
		throughput := m.Throughput(n("nodes"), n("gpus"), n("at_local"), n("at_passes"))
		efficiency := m.Efficiency(n("gpus") * n("at_local") * n("at_passes"))
		for _, c := range []struct {
			what      string
			got, want float64
		}{{"goodput", g, r["goodput"]}, {"goodput of the best batch", m.Goodput(n("nodes"), n("gpus"), local, passes), g},
			{"throughput", throughput, r["at_throughput"]}, {"efficiency", efficiency, r["at_efficiency"]}} {
			worst = math.Max(worst, math.Abs(c.got/c.want-1))
			if !near(c.got, c.want, modelTolerance) {
				t.Errorf("row %d: %s %v, Pollux %v", i, c.what, c.got, c.want)
			}
		}
	}
	t.Logf("worst relative difference %.1e", worst)
}

// fitSlack is by how much the value of a fit may be above that of Pollux's fit.
const fitSlack = 1e-3

func TestFitAgreement(t *testing.T) {
	var steps [][]Step
	var theirs []Params
	for _, r := range rows(t, "testdata/fit_reference.csv") {
		n := int(r["fit"])
		if n == len(steps) {
			steps, theirs = append(steps, nil), append(theirs, paramsOf(r))
		}
		steps[n] = append(steps[n], Step{int(r["nodes"]), int(r["gpus"]), int(r["local"]), r["step_s"], r["sync_s"]})
	}
	better, worse := 0, 0
	for n := range steps {
		p, err := Fit(steps[n])
		if err != nil {
			t.Fatal(err)
		}
		pr := problem{steps: steps[n]}
		value := func(p Params) float64 {
			x := vector{p.ComputeS, p.SampleS, p.NodesS, p.NodesGPUS, p.LocalS, p.LocalGPUS, p.Overlap}
			for k := range x {
				x[k] = math.Log(x[k])
			}
			return pr.value(&x, nil)
		}
		our, their := value(p), value(theirs[n])
		switch {
		case our < their-fitSlack:
			better++
		case our > their+fitSlack:
			worse++
			t.Errorf("profile %d of %d steps: value %.6f, Pollux's fit has %.6f\n%+v\n%+v", n, len(steps[n]), our, their,
				p, theirs[n])
		}
	}
	t.Logf("%d fits: %d are better than Pollux's by more than %v, %d are worse", len(steps), better, fitSlack, worse)
}

// With 1 + 0.5·4 = 3 s of compute and 4 s of exchange without overlap a step takes 7 s, and two
// passes take 10 s. On two nodes of 4 GPUs in all the exchange takes 2 + 1·2 = 4 s; on two GPUs
// of a node 1 s; on one GPU none. With Overlap 2 the last pass and the exchange take 5 s.
func TestStepByHand(t *testing.T) {
	p := Params{1, .5, 2, 1, 1, .5, 1}
	for _, c := range []struct {
		overlap             float64
		nodes, gpus, passes int
		want                float64
	}{{1, 2, 4, 1, 7}, {1, 2, 4, 2, 10}, {1, 1, 2, 1, 4}, {1, 1, 1, 1, 3}, {2, 2, 4, 1, 5}, {2, 2, 4, 3, 11}} {
		p.Overlap = c.overlap
		if got := p.StepS(c.nodes, c.gpus, 4, c.passes); !near(got, c.want, 1e-7) {
			t.Errorf("%+v: %v s", c, got)
		}
	}
}

// With a noise scale of 3 times the initial batch of 10, a sample in a batch of 20 is worth
// (30 + 10) / (30 + 20) = 0.8. Without noise only the initial batch counts.
func TestEfficiencyByHand(t *testing.T) {
	m := Model{Noise: Noise{1, 3}, Limits: Limits{Init: 10}}
	for batch, want := range map[int]float64{10: 1, 20: .8, 70: .4} {
		if got := m.Efficiency(batch); !near(got, want, 1e-12) {
			t.Errorf("batch %d: %v, by hand %v", batch, got, want)
		}
	}
	m.Noise = Noise{1, 0}
	if got := m.Efficiency(20); got != .5 {
		t.Errorf("without noise: %v", got)
	}
}

// Where noise is great and the compute has no constant part, two GPUs take the greatest batch,
// in two passes of 16. Without noise they take the initial batch. No batch fits 64 GPUs.
func TestBestByHand(t *testing.T) {
	m := Model{Params{0, 1, 0, 0, 8, 0, 1}, Noise{1, 1e9}, Limits{8, 64, 2, 16}}
	if _, local, passes := m.Best(1, 2); local != 16 || passes != 2 {
		t.Errorf("with noise: %d passes of %d", passes, local)
	}
	m.Noise = Noise{1, 0}
	if _, local, passes := m.Best(1, 2); local != 4 || passes != 1 {
		t.Errorf("without noise: %d passes of %d", passes, local)
	}
	if g, local, passes := m.Best(16, 64); g != 0 || local != 0 || passes != 0 {
		t.Errorf("64 GPUs: %v, %d passes of %d", g, passes, local)
	}
	// 32 samples in one pass have the throughput of 64 in two, and the better efficiency. But a batch
	// above the initial one takes two passes on one GPU.
	m = Model{Params{8, 1, 0, 0, 0, 0, 1}, Noise{1, 1e9}, Limits{8, 64, 2, 32}}
	if _, local, passes := m.Best(1, 1); local != 32 || passes != 2 {
		t.Errorf("one GPU: %d passes of %d", passes, local)
	}
}

// The gradient is compared with differences of the value.
func TestFitGradient(t *testing.T) {
	pr := problem{steps: []Step{{1, 1, 4, .5, .01}, {1, 3, 6, .9, .2}, {2, 8, 5, 2, 1}, {3, 9, 9, 1.5, .5}}}
	x := vector{-2, -3, -1, -2, -4, -3.5, .7}
	var grad vector
	pr.value(&x, &grad)
	const h = 1e-6
	for k := range x {
		up, down := x, x
		up[k] += h
		down[k] -= h
		want := (pr.value(&up, nil) - pr.value(&down, nil)) / (2 * h)
		if math.Abs(grad[k]-want) > 1e-6 {
			t.Errorf("parameter %d: %v, by differences %v", k, grad[k], want)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	inf := math.Inf(1)
	for _, steps := range [][]Step{nil, {{0, 1, 1, 1, 0}}, {{1, 1, 0, 1, 0}}, {{2, 1, 1, 1, 0}}, {{1, 1, 1, 1, 1}},
		{{1, 1, 1, inf, 0}}, {{1, 1, 1, math.NaN(), 0}}, {{1, 1, 1, 1, -1}}} {
		if p, err := Fit(steps); err == nil {
			t.Errorf("%v: %+v", steps, p)
		}
	}
}
