package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
)

// guards are streams that starve some jobs, and the instances of streams.
var guards = Info{
	Name:  "guard",
	Title: "What the guard against starvation of rolling and hgittins costs, and whom it helps",
	Text: "First, two streams of 4,000 jobs of one to three minutes on one of 8 V100 that would starve others: " +
		"at 80 % of the cluster, beside 5 gangs of 10 minutes on all 8 GPUs, and at 100 % of the cluster, " +
		"beside 5 jobs of half an hour on one. Then the instances of online. Slowdowns are not limited " +
		"(fifo_slowdown 0).",
	Published: "None: the guard is Hare's own.",
	schemes: []Scheme{
		limitOf("rolling", -1),
		{Policy: "rolling", Name: "rolling, no guard",
			Config: policies.Config{Rolling: rolling.Config{Guard: noGuard}}},
		limitOf("hgittins", -1),
		{Policy: "hgittins", Name: "hgittins, no guard",
			Config: policies.Config{HGittins: rolling.HGittinsConfig{Guard: noGuard}}},
		{Policy: "fifo"},
	},
	measures: []measure{meanJCT, weighted, p99Slowdown, worstSlowdown},
	cases: func(s set) ([]Case, error) {
		cases, err := s.streams()
		return append(s.starving(), cases...), err
	},
}

var noGuard = list.GuardConfig{Off: true}

// kappas are the instances of guards, with hgittins for several κ.
var kappas = Info{
	Name:  "kappa",
	Title: "The guard of hgittins for several κ",
	Text: "The instances of guard. The guard acts on a job that has missed more than κ (r + 8) rounds, of " +
		"which it has had r.",
	Published: "None: the guard is Hare's own.",
	schemes: []Scheme{
		{Policy: "hgittins", Name: "no guard", Config: policies.Config{HGittins: rolling.HGittinsConfig{Guard: noGuard}}},
		kappaOf(32), kappaOf(16), kappaOf(8), kappaOf(4), kappaOf(2), kappaOf(1),
		{Policy: "fifo"},
	},
	measures: []measure{meanJCT, weighted, p99Slowdown, worstSlowdown},
	cases:    guards.cases,
}

func kappaOf(k float64) Scheme {
	return Scheme{Policy: "hgittins", Name: fmt.Sprintf("κ = %g", k),
		Config: policies.Config{HGittins: rolling.HGittinsConfig{Guard: list.GuardConfig{Kappa: k, FIFOSlowdown: -1}}}}
}

// slowdowns are the instances of streams, the generator's jobs as rigid and as relaxed jobs, and
// gavel-500 on GPUs of one type, with and without the limit of slowdowns.
var slowdowns = Info{
	Name:  "slowdown",
	Title: "What a limit of slowdowns brings and costs rolling and hgittins",
	Text: "The instances of online; those of generated again, as rigid and as relaxed jobs; and gavel-500 on 17 V100 " +
		"alone, where all jobs wait about as long under first come, first served. The limit (fifo_slowdown) is a " +
		"multiple of the 99th percentile of the slowdown that first come, first served would have.",
	Published: "None: the limit is Hare's own.",
	schemes: []Scheme{
		limitOf("rolling", -1), limitOf("rolling", 1), limitOf("hgittins", -1), limitOf("hgittins", 1), {Policy: "fifo"},
	},
	measures: []measure{meanJCT, weighted, p99Slowdown, worstSlowdown},
	cases: func(s set) ([]Case, error) {
		cases, err := s.streams()
		if err != nil {
			return nil, err
		}
		for _, sync := range []hare.Sync{hare.Rigid, hare.Relaxed} {
			for seed := range s.seeds() {
				inst, err := s.generate(setting{arrivals: arriving(), sync: sync.String()}, seed)
				if err != nil {
					return nil, err
				}
				cases = append(cases, Case{Group: "generated, " + sync.String(), Seed: seed, Inst: inst})
			}
		}
		f := families[0]
		f.gpus = []hare.TypeCount{{Type: "V100", Count: 17}}
		for seed := range s.seeds() {
			inst, err := f.instance(s, seed)
			if err != nil {
				return nil, err
			}
			cases = append(cases, Case{Group: f.name + " on 17 V100", Seed: seed, Inst: inst})
		}
		return cases, nil
	},
}

// limitOf is a policy with a limit of slowdowns, or without one where f is below zero.
func limitOf(policy string, f float64) Scheme {
	name, limit := policy, list.GuardConfig{FIFOSlowdown: f}
	if f > 0 {
		name = fmt.Sprintf("%s, limit %g", policy, f)
	}
	return Scheme{Policy: policy, Name: name, Config: policies.Config{
		Rolling: rolling.Config{Guard: limit}, HGittins: rolling.HGittinsConfig{Guard: limit}}}
}

// starving makes the streams that starve jobs.
func (s set) starving() []Case {
	var cases []Case
	for seed := range s.seeds() {
		cases = append(cases, Case{Group: "wide gangs", Seed: seed, Inst: victims(seed, 0.8, 4000/s.scale, 8, 10)},
			Case{Group: "long jobs", Seed: seed, Inst: victims(seed, 1, 4000/s.scale, 1, 30)})
	}
	return cases
}

// victims are n jobs that arrive as a Poisson process. Each one has one to three rounds of a
// minute on one of 8 GPUs, but five of them have more tasks and rounds. Without those five the
// load is as stated.
func victims(seed uint64, load float64, n int, tasks, rounds int64) *hare.Instance {
	const gpus, roundS = 8, 60
	rng := rand.New(rand.NewPCG(seed, 0x737461727665)) // "starve" in ASCII
	inst := &hare.Instance{Name: fmt.Sprintf("%d-tasks-%d-rounds-seed-%d", tasks, rounds, seed),
		Objective: hare.ObjectiveWeightedJCT}
	inst.Cluster.Nodes = []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "V100", Count: gpus}}}}
	atS := 0.0
	for i := range max(2, n) {
		j := hare.Job{ID: fmt.Sprint("short-", i), WeightMicro: 1e6, Rounds: 1 + rng.Int64N(3), Tasks: 1, Sync: hare.Gang,
			On: []hare.Profile{{Type: "V100", ComputeUs: roundS * 1e6}}}
		if every := max(2, n/5); i%every == every/2 {
			j.ID, j.Rounds, j.Tasks = fmt.Sprint("victim-", i), rounds, tasks
		} else {
			atS += rng.ExpFloat64() * 2 * roundS / (gpus * load)
		}
		j.ReleaseUs = int64(math.Round(atS * 1e6))
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}
