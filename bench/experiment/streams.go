package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/trace"
)

// streams are jobs that arrive at random at a given load: jobs drawn from three traces of
// Gavel's, jobs in the likeness of Philly's, and the generator's.
var streams = Info{
	Name:  "online",
	Title: "Online policies that know no sizes, beside those that do",
	Text: "Jobs arrive at random, and every ratio is over a certified bound on what hindsight allows. " +
		"gavel-500, gavel-1000 and gavel-continuous are 300 jobs drawn from Gavel's traces on 8 V100, 8 P100 " +
		"and 8 K80, in rounds of 360 s; philly-like are 1,000 jobs on 160 GPUs of four types; generated are " +
		"the generator's 200 jobs on the same 160 GPUs. rolling, hgittins, hlas, tiresias and fifo know " +
		"nothing but the events, srtf knows sizes.",
	Published: "Hare (TCC 2024): HLAS improves the mean JCT by a factor of about 2.94; the parts of the paper that " +
		"we have do not name the baseline.",
	schemes:  named("rolling", "hgittins", "hlas", "tiresias", "fifo", "srtf"),
	measures: []measure{weighted, meanJCT, p99Slowdown},
	cases:    set.streams,
}

// hgittinsRules are the instances of streams, for hgittins without each of its rules.
var hgittinsRules = Info{
	Name:  "hgittins",
	Title: "What each repair of HLAS is worth",
	Text: "The instances of online. Each line undoes one rule of hgittins: the order by the Gittins index, the " +
		"limit on slow types, gangs that do not fit being passed, and the preference for the GPUs of a job's " +
		"last round.",
	Published: "None: the rules are Hare's own.",
	schemes: []Scheme{
		{Policy: "hgittins"},
		{Policy: "hgittins", Name: "by arrival",
			Config: policies.Config{HGittins: rolling.HGittinsConfig{ByArrival: true}}},
		{Policy: "hgittins", Name: "on types of any speed",
			Config: policies.Config{HGittins: rolling.HGittinsConfig{SlowestFactor: -1}}},
		{Policy: "hgittins", Name: "nobody passes",
			Config: policies.Config{HGittins: rolling.HGittinsConfig{Strict: true}}},
		{Policy: "hgittins", Name: "on any GPU of a type",
			Config: policies.Config{HGittins: rolling.HGittinsConfig{NotSticky: true}}},
		{Policy: "hlas"},
	},
	measures: []measure{weighted, meanJCT, p99Slowdown},
	cases:    set.streams,
}

// planLatency are the instances of streams of two families, with plans that are late.
var planLatency = Info{
	Name:  "plan-latency",
	Title: "What late plans cost",
	Text: "The instances gavel-500 and generated of online. A plan of rolling is followed only from the first " +
		"event on that is as long after its question as the axis says, and the plan before holds until then. " +
		"hgittins makes no plans.",
	Published: "None: late plans are Hare's own.",
	axis:      "latency of plans, s",
	schemes:   named("rolling", "hgittins"),
	measures:  []measure{weighted, meanJCT, p99Slowdown},
	cases: func(s set) ([]Case, error) {
		cases, err := s.streams()
		cases = slices.DeleteFunc(cases, func(c Case) bool { return c.Group != "gavel-500" && c.Group != "generated" })
		return again(cases, []float64{0, 0.1, 1, 10, 60, 600}, func(c *Case, x float64) {
			c.Sim.PlanLatencyUs = int64(math.Round(x * 1e6))
		}), err
	},
}

// planEvery are the instances of planLatency, with fewer plans.
var planEvery = Info{
	Name:  "plan-every",
	Title: "What fewer plans cost",
	Text: "The instances gavel-500 and generated of online, with plans of rolling that are 0.1 s late and are " +
		"made at most once for each so many seconds on average, after at most ten in a row (plan_every_s).",
	Published: "None: the pace of plans is Hare's own.",
	schemes: []Scheme{
		planEveryOf(0), planEveryOf(1), planEveryOf(5), planEveryOf(10), planEveryOf(30), planEveryOf(60),
		planEveryOf(600), {Policy: "hgittins"},
	},
	measures: []measure{weighted, meanJCT, p99Slowdown},
	cases: func(s set) ([]Case, error) {
		cases, err := s.streams()
		cases = slices.DeleteFunc(cases, func(c Case) bool { return c.Group != "gavel-500" && c.Group != "generated" })
		for i := range cases {
			cases[i].Sim.PlanLatencyUs = 1e5
		}
		return cases, err
	},
}

func planEveryOf(s int64) Scheme {
	us := s * 1e6
	if us == 0 {
		us = -1
	}
	return Scheme{Policy: "rolling", Name: fmt.Sprintf("a plan each %d s", s),
		Config: policies.Config{Rolling: rolling.Config{PlanEveryUs: us}}}
}

// stream is a family of instances.
type stream struct {
	name string
	file string // the trace that jobs are drawn from, "" for the generator or Philly-like
	load float64
	jobs int
	gpus []hare.TypeCount // of drawn jobs; nil means gavelGPUs
}

// gavelGPUs are those of drawn jobs.
var gavelGPUs = []hare.TypeCount{{Type: "V100", Count: 8}, {Type: "P100", Count: 8}, {Type: "K80", Count: 8}}

var families = []stream{
	{"gavel-500", "gavel_trace_generated500_multi.csv", 0.9, 300, nil},
	{"gavel-1000", "gavel_trace_generated1000_single.csv", 1.0, 300, nil},
	{"gavel-continuous", "gavel_trace_continuous5600_single.csv", 1.1, 300, nil},
	{"philly-like", "", 1.1, 1000, nil},
	{"generated", "", 0, 200, nil},
}

func (s set) streams() ([]Case, error) {
	var cases []Case
	for i := range families {
		f := &families[i]
		for seed := range s.seeds() {
			inst, err := f.instance(s, seed)
			if err != nil {
				return nil, err
			}
			cases = append(cases, Case{Group: f.name, Seed: seed, Inst: inst})
		}
	}
	return cases, nil
}

func (f *stream) instance(s set, seed uint64) (*hare.Instance, error) {
	switch f.name {
	case "generated":
		return s.generate(setting{arrivals: arriving(), sync: "gang"}, seed)
	case "philly-like":
		inst, err := trace.PhillyLike(trace.PhillyConfig{
			Jobs: max(2, f.jobs/s.scale), GPUs: cluster(1, 1), Load: f.load, Sync: "gang",
			Quantum: gavelRound, Seed: seed})
		if err != nil {
			return nil, fmt.Errorf("experiment: %w", err)
		}
		return inst, nil
	}
	return f.drawn(max(2, f.jobs/s.scale), seed)
}

// gavelRound is how long Gavel lets a job keep its GPUs, and so a round of its jobs.
const gavelRound = 360 * time.Second

// drawn draws n jobs from a trace with replacement, as gangs of weight 1. Jobs arrive as a
// Poisson process, scaled so that the work up to the last arrival is the load.
func (f *stream) drawn(n int, seed uint64) (*hare.Instance, error) {
	gpus := f.gpus
	if gpus == nil {
		gpus = gavelGPUs
	}
	source, _, err := trace.Import("gavel", trace.ImportConfig{
		Config: trace.Config{GPUs: gpus, Sync: "gang", Quantum: gavelRound, Weights: "one"},
		Trace:  trace.Source{Name: f.file},
	})
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6f6e6c696e65)) // "online" in ASCII
	inst := &hare.Instance{Name: fmt.Sprintf("%s-load-%g-seed-%d", f.name, f.load, seed), Objective: source.Objective,
		Cluster: source.Cluster}
	at, arrivals, workS := 0.0, make([]float64, n), 0.0
	for i := range n {
		job := source.Jobs[rng.IntN(len(source.Jobs))]
		job.ID = fmt.Sprintf("%s-%d", job.ID, i)
		workS += clusterSeconds(&source.Cluster, &job)
		arrivals[i] = at
		at += rng.ExpFloat64()
		inst.Jobs = append(inst.Jobs, job)
	}
	for i := range inst.Jobs {
		inst.Jobs[i].ReleaseUs = int64(math.Round(arrivals[i] / arrivals[n-1] * workS / f.load * 1e6))
	}
	return inst, nil
}

// clusterSeconds is how long the whole cluster takes for a job if every type does a part
// in proportion to its GPUs.
func clusterSeconds(c *hare.Cluster, j *hare.Job) float64 {
	rate := 0.0
	for _, p := range j.On {
		for _, n := range c.Nodes {
			for _, g := range n.GPUs {
				if g.Type == p.Type {
					rate += float64(g.Count) / float64(p.DurationUs())
				}
			}
		}
	}
	return float64(j.Tasks*j.Rounds) / rate / 1e6
}
