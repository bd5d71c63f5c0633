package bench

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

var onlineDir = flag.String("online", "",
	"simulate the policies on all traces, print the table of docs/lab/online.md and write its pictures into this"+
		" folder")

// gavelRound is the time for which a job keeps its GPUs in Gavel, and therefore the length of a
// round in this comparison.
const gavelRound = 360 * time.Second

// workload is a trace on a cluster.
type workload struct {
	name, format, trace string
	gpus                string
	picture             string // the name of the picture's file, "" without a picture
}

const (
	artifact   = "gavel_trace_artifact_evaluation.csv"
	maxMin     = "gavel_trace_max_min_fairness.csv"
	multi      = "gavel_trace_generated500_multi.csv"
	single     = "gavel_trace_generated1000_single.csv"
	continuous = "gavel_trace_continuous5600_single.csv"
)

// workloads run on Gavel's own cluster with 36 GPUs of each type, and on smaller clusters that are
// loaded or overloaded. Two workloads run on one type, to separate the effect of speeds from the
// effect of sizes.
var workloads = []workload{
	{"Gavel artifact", "gavel", artifact, "V100=2,P100=2,K80=2", ""},
	{"Gavel max-min", "gavel", maxMin, "V100=16,P100=16,K80=16", ""},
	{"Gavel max-min", "gavel", maxMin, "V100=12,P100=12,K80=12", ""},
	{"Gavel 500", "gavel", multi, "V100=36,P100=36,K80=36", ""},
	{"Gavel 500", "gavel", multi, "V100=8,P100=8,K80=8", ""},
	{"Gavel 500", "gavel", multi, "V100=6,P100=6,K80=6", "online-gavel-500.svg"},
	{"Gavel 1000", "gavel", single, "V100=12,P100=12,K80=12", ""},
	{"Gavel 1000", "gavel", single, "V100=9,P100=9,K80=9", ""},
	{"Gavel 500", "gavel", multi, "V100=17", ""},
	{"Gavel 1000", "gavel", single, "V100=26", ""},
	{"Gavel continuous", "gavel", continuous, "V100=36,P100=36,K80=36", ""},
	{"Gavel continuous", "gavel", continuous, "V100=24,P100=24,K80=24", "online-gavel-5600.svg"},
	{"Philly week", "philly", "", "GPU=640", "online-philly-640.svg"},
	{"Philly week", "philly", "", "GPU=480", "online-philly-480.svg"},
}

// instance reads the workload with weights 1, so that the weighted JCT is n times the
// mean JCT.
func (w *workload) instance(t testing.TB, sync string) *hare.Instance {
	t.Helper()
	gpus, err := trace.ParseGPUs(w.gpus)
	if err != nil {
		t.Fatal(err)
	}
	inst, _, err := trace.Import(w.format, trace.ImportConfig{
		Config: trace.Config{GPUs: gpus, Sync: sync, Quantum: gavelRound, Weights: "one"},
		Trace:  trace.Source{Name: w.trace},
	})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// load returns three figures of an instance. load is the GPU time that the jobs need at the mean
// speed of the cluster's GPUs, over the GPU time until the last arrival; it is +Inf if all jobs
// arrive at 0. spread is the standard deviation of the jobs' GPU times on their fastest types over
// the mean. short is the share of jobs whose GPU time is at most an hour.
func load(inst *hare.Instance) (load, spread, short float64) {
	count := map[string]int{}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			count[g.Type] += g.Count
		}
	}
	need, sum, squares, last := 0.0, 0.0, 0.0, int64(0)
	for _, j := range inst.Jobs {
		rate, fastest := 0.0, math.Inf(1)
		for _, p := range j.On {
			rate += float64(count[p.Type]) / float64(p.DurationUs())
			fastest = min(fastest, float64(p.DurationUs()))
		}
		tasks := float64(j.Tasks * j.Rounds)
		if tasks*fastest <= 3.6e9 {
			short++
		}
		need += tasks / rate // the rate is that of the whole cluster
		sum += tasks * fastest
		squares += tasks * fastest * tasks * fastest
		last = max(last, j.ReleaseUs)
	}
	n := float64(len(inst.Jobs))
	return need / float64(last), math.Sqrt(n*squares/(sum*sum) - 1), short / n
}

// setting is a policy with parameters.
type setting struct{ name, policy, parameters string }

var settings = []setting{
	{"FIFO", "fifo", ""},
	{"HLAS, 1 h", "hlas", ""}, // an hour is the default threshold
	{"HLAS, 8 h", "hlas", `{"thresholds_s":[28800]}`},
	{"HLAS, 1, 8, 64 h", "hlas", `{"queues":4,"thresholds_s":[3600,28800,230400]}`},
	{"HLAS, 1, 4 … 256 h, κ 100", "hlas", `{"queues":6,"thresholds_s":[3600,14400,57600,230400,921600],"kappa":100}`},
}

// simulationResult is the outcome of a setting.
type simulationResult struct {
	setting
	out  *sim.Outcome
	jct  []int64 // in ascending order
	took time.Duration
}

// meanHours returns the mean JCT in hours.
func (sr *simulationResult) meanHours() float64 { return sr.out.MeanJCTUs / 3.6e9 }

func (sr *simulationResult) quantileHours(q float64) float64 {
	return float64(sr.jct[min(len(sr.jct)-1, int(q*float64(len(sr.jct))))]) / 3.6e9
}

// simulate simulates one setting and verifies the plan. cert is the certificate of the bound, or
// nil.
func simulate(t testing.TB, inst *hare.Instance, s setting, cert *hare.Certificate) *simulationResult {
	t.Helper()
	p, err := registry.OpenSession(s.policy, sim.Cluster(inst), []byte(s.parameters))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, err := sim.Run(t.Context(), inst, p, sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := &simulationResult{setting: s, out: out, took: time.Since(began)}
	res, err := out.Result(inst, cert)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		t.Fatal(rep)
	}
	for i, j := range out.Jobs {
		r.jct = append(r.jct, j.EndUs-inst.Jobs[i].ReleaseUs)
	}
	slices.Sort(r.jct)
	return r
}

// workloadComparison is a workload under all settings.
type workloadComparison struct {
	inst  *hare.Instance
	bound float64 // the certified bound on the mean JCT in hours
	all   []*simulationResult
	rigid *simulationResult // the jobs as rigid jobs under FIFO
}

// compare simulates every setting on w.
func compare(t testing.TB, w *workload) *workloadComparison {
	t.Helper()
	c := &workloadComparison{inst: w.instance(t, "gang")}
	rel, err := relax.Run(t.Context(), model.New(c.inst), relax.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.bound = rel.Bound.Float() / float64(len(c.inst.Jobs)) / 3600
	for _, s := range settings {
		c.all = append(c.all, simulate(t, c.inst, s, rel.Certificate))
	}
	// Jobs that hold their GPUs to the end leave HLAS no decision.
	rigid := w.instance(t, "rigid")
	c.rigid = simulate(t, rigid, settings[0], nil)
	for _, s := range settings[1:] {
		if r := simulate(t, rigid, s, nil); !slices.Equal(r.jct, c.rigid.jct) {
			t.Errorf("%s on %s: %s differs from FIFO on rigid jobs", w.name, w.gpus, s.name)
		}
	}
	return c
}

// TestOnlineGain compares HLAS with first come, first served, on all workloads with -online and
// otherwise on the two smallest.
func TestOnlineGain(t *testing.T) {
	some := workloads
	if *onlineDir == "" {
		some = workloads[:2]
	}
	var means, tails, speed strings.Builder
	head := func(b *strings.Builder, columns ...string) {
		fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	}
	names := []string{"mean JCT, h", "jobs", "GPUs", "load", "spread", "short, %", "bound"}
	for _, s := range settings {
		names = append(names, s.name)
	}
	head(&means, append(names, "rigid")...)
	head(&tails, "JCT, h", "GPUs", "policy", "median", "95 %", "99 %", "longest", "makespan, days", "use, %")
	head(&speed, "simulated", "GPUs", "events", "FIFO, s", "HLAS, 1 h, s")
	for i := range some {
		w := &some[i]
		c := compare(t, w)
		gpus := strings.ReplaceAll(w.gpus, ",", ", ")
		load, spread, short := load(c.inst)
		fmt.Fprintf(&means, "| %s | %d | %s | %.2f | %.2f | %.0f | %.2f", w.name, len(c.inst.Jobs), gpus, load, spread,
			100*short, c.bound)
		for _, r := range c.all {
			// The ratio to the bound is rounded up, so it is never better than what is proved.
			fmt.Fprintf(&means, " | %.2f (%.2f; %.2f)", r.meanHours(), c.all[0].meanHours()/r.meanHours(),
				math.Ceil(100*r.meanHours()/c.bound)/100)
			if slices.Equal(c.all[1].jct, c.all[0].jct) || r.name == settings[2].name || r.name == settings[3].name {
				continue // the settings do not differ, or another workload shows their difference
			}
			var use []string
			for _, u := range r.out.Use {
				use = append(use, fmt.Sprintf("%s %.0f", u.Type, 100*u.Use))
			}
			fmt.Fprintf(&tails, "| %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %.2f | %s |\n", w.name, gpus, r.name,
				r.quantileHours(0.5), r.quantileHours(0.95), r.quantileHours(0.99), r.quantileHours(1),
				float64(r.out.MakespanUs)/8.64e10, strings.Join(use, ", "))
		}
		fmt.Fprintf(&means, " | %.2f |\n", c.rigid.meanHours())
		if *onlineDir != "" && w.picture != "" {
			c.draw(t, fmt.Sprintf("%s: completion times of %d jobs on %s", w.name, len(c.inst.Jobs), gpus),
				filepath.Join(*onlineDir, w.picture))
		}
		if c.all[0].out.Events < 100_000 {
			continue // the run is too short to measure
		}
		fmt.Fprintf(&speed, "| %s | %s | %d | %.2f | %.2f |\n", w.name, gpus, c.all[0].out.Events,
			c.all[0].took.Seconds(),
			c.all[1].took.Seconds())
	}
	if *onlineDir != "" {
		fmt.Print(means.String(), tails.String(), speed.String())
	}
}

// draw writes the distributions of all settings as a picture.
func (wc *workloadComparison) draw(t testing.TB, title, path string) {
	t.Helper()
	var samples []plot.Sample
	for _, r := range wc.all {
		samples = append(samples, plot.Sample{Name: r.name, Us: r.jct})
	}
	var svg bytes.Buffer
	if err := plot.CDF(&svg, samples, plot.Options{Title: title, Width: 900}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, svg.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
