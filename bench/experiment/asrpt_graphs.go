package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
)

// classify gives the jobs of a trace classes by what the trace has of them: the model, or the virtual cluster.
func (d *drawnJobs) classify() error {
	rows, err := csv.NewReader(bytes.NewReader(d.text)).ReadAll()
	if err != nil {
		return err
	}
	if len(rows)-1 != len(d.inst.Jobs) {
		return fmt.Errorf("%s: %d jobs of %d rows", d.of.name, len(d.inst.Jobs), len(rows)-1)
	}
	for _, label := range []string{"job_type", "vc"} {
		at := slices.Index(rows[0], label)
		for i := range d.inst.Jobs {
			if at >= 0 {
				d.inst.Jobs[i].Hints = &hare.JobHints{Class: []hare.ClassLabel{{Name: label, Value: rows[i+1][at]}}}
			}
		}
	}
	return nil
}

// The jobs with graphs.
const (
	graphMeanS     = 1800 // the mean time of a job at its least
	graphSpread    = 1.   // the standard deviation of the logarithm of the times of recurring jobs
	graphVaries    = .2   // the same of a recurring job
	graphRecurring = 24
	graphNew       = .1 // the share of jobs that do not recur
	graphLoad      = 1.
	graphRoundUs   = 60e6
)

// graphWidths are how often configurations of so many GPUs are drawn.
var graphWidths = []struct {
	gpus  int
	share float64
}{{1, .4}, {2, .15}, {4, .2}, {8, .2}, {16, .05}}

// graphJobs are jobs with graphs. inst has two times by spread for policies that do not go by graphs, and least
// has the least time of all placements, for the bound.
type graphJobs struct {
	inst, least *hare.Instance
	graphs      map[string]jobgraph.Training
	net         *jobgraph.Network
}

// recurring is a job that comes again and again.
type recurring struct {
	graph *jobgraph.Graph
	s     float64 // the mean time
	label string
	user  int
}

func drawGraphs(seed uint64, jobs, nodes int) (*graphJobs, error) {
	rng := rand.New(rand.NewPCG(seed, 0x6173727074)) // "asrpt" in ASCII
	cluster := hare.Cluster{
		Bandwidths: []hare.LevelBandwidth{{Level: hare.LevelAny, Mbps: 25_000}, {Level: hare.LabelNode, Mbps: 300_000}},
		GPUTypes:   []hare.GPUType{{Type: "V100", MemoryMilliGiB: 32_000}},
	}
	for n := range nodes {
		cluster.Nodes = append(cluster.Nodes, hare.Node{Name: fmt.Sprintf("n%02d", n), GPUs: []hare.TypeCount{{Type: "V100",
			Count: 4}}})
	}
	all, net, err := jobgraph.Builtin().Graphs(&cluster)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("graphs-seed-%d", seed)
	d := &graphJobs{graphs: map[string]jobgraph.Training{}, net: net,
		inst:  &hare.Instance{Name: name, Objective: hare.ObjectiveWeightedJCT, Cluster: cluster},
		least: &hare.Instance{Name: name + "-least", Objective: hare.ObjectiveWeightedJCT, Cluster: cluster}}
	draw := func(label string) recurring {
		gpus, x := 0, rng.Float64()
		for _, w := range graphWidths {
			if gpus = w.gpus; x < w.share {
				break
			}
			x -= w.share
		}
		var fitting []*jobgraph.Graph
		for _, g := range all {
			if g.GPUs() == gpus {
				fitting = append(fitting, g)
			}
		}
		return recurring{fitting[rng.IntN(len(fitting))], graphMeanS * logNormal(rng, graphSpread), label, rng.IntN(6)}
	}
	var known []recurring
	var shares []float64 // the k-th recurring job comes 1/k times as often as the first
	for k := range graphRecurring {
		known = append(known, draw(fmt.Sprint("job-", k)))
		shares = append(shares, 1/float64(k+1))
	}
	work := 0.
	for i := range jobs {
		r := known[pickOf(rng, shares)]
		if rng.Float64() < graphNew {
			r = draw(fmt.Sprint("new-", i))
		}
		s := r.s * logNormal(rng, graphVaries)
		work += s * float64(r.graph.GPUs())
		d.add(i, &r, s)
	}
	spanUs := work / (graphLoad * 4 * float64(nodes)) * 1e6
	at := make([]int64, jobs)
	for i := range at {
		at[i] = int64(rng.Float64() * spanUs)
	}
	slices.Sort(at)
	for i := range at {
		d.inst.Jobs[i].ReleaseUs, d.least.Jobs[i].ReleaseUs = at[i], at[i]
	}
	return d, nil
}

// logNormal is a factor whose logarithm has a standard deviation, with mean 1.
func logNormal(rng *rand.Rand, spread float64) float64 {
	return math.Exp(spread*rng.NormFloat64() - spread*spread/2)
}

// pickOf is an index, with chances in proportion to the shares.
func pickOf(rng *rand.Rand, shares []float64) int {
	sum := 0.
	for _, s := range shares {
		sum += s
	}
	x := rng.Float64() * sum
	for i, s := range shares {
		if x -= s; x < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// add adds a job that takes so many seconds at its least.
func (d *graphJobs) add(i int, r *recurring, s float64) {
	const kind = "V100"
	g := r.graph
	leastUs, mostUs, computeUs := g.LeastUs(kind, d.net), g.MostUs(kind, d.net), g.LongestComputeUs(kind)
	n := max(1, int64(graphRoundUs)/leastUs) // iterations of a round
	id := fmt.Sprintf("j%03d", i)
	d.graphs[id] = jobgraph.Training{Graph: g, Iterations: n}
	j := hare.Job{ID: id, WeightMicro: 1e6, Rounds: max(1, int64(math.Ceil(s*1e6/float64(n*leastUs)))),
		Tasks: int64(g.GPUs()), Sync: hare.Gang,
		Hints: &hare.JobHints{Class: []hare.ClassLabel{{Name: "graph", Value: g.Name}, {Name: "name", Value: r.label},
			{Name: "user", Value: fmt.Sprint("user-", r.user)}}}}
	p := hare.Profile{Type: kind, ComputeUs: n * computeUs, SyncUs: n * (leastUs - computeUs)}
	j.On = []hare.Profile{p}
	d.least.Jobs = append(d.least.Jobs, j)
	if mostUs > leastUs {
		p.SyncAt = []hare.LevelSync{{Level: hare.LevelAny, SyncUs: n * (mostUs - computeUs)},
			{Level: hare.LabelNode, SyncUs: p.SyncUs}}
		p.SyncUs = n * (mostUs - computeUs)
	}
	j.On = []hare.Profile{p}
	d.inst.Jobs = append(d.inst.Jobs, j)
}

// bound is the certified bound on the mean JCT, where each job takes its least time.
func (d *graphJobs) bound(ctx context.Context, cfg solver.Config) ([]figure, error) {
	cfg.LP, cfg.BoundWork = nil, boundWork
	rel, err := solver.Bound(ctx, d.least, hare.MethodPrice, cfg)
	if err != nil {
		return nil, err
	}
	return []figure{{weightedMean, rel.Bound.RoundDown().Float() / float64(len(d.least.Jobs)), 1}}, nil
}

func (d *graphJobs) variant(ctx context.Context, v *asrptVariant, cfg *Config, _ uint64) ([]figure, error) {
	with := *v
	with.cfg.Graphs = d.graphs
	rules := sim.Config{Name: v.name(), NoSchedule: true, PlacedUs: func(job int, on []int, gpuType string) int64 {
		t := d.graphs[d.inst.Jobs[job].ID]
		return t.Graph.IterationUs(gpuType, on, d.net) * t.Iterations
	}}
	return playASRPT(ctx, d.inst, &with, cfg, rules, d.least)
}
