package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// GenerateConfig describes a synthetic instance. The zero value is the setting of the Hare
// paper's simulations: 200 relaxed jobs of 8 models in 4 domains, which all arrive at time 0,
// on 160 GPUs of 4 types. Ten times as many jobs and GPUs give the size of the frozen
// instance standard-2000. A hundred times as many (20,000 jobs on
// V100=6400,T4=4800,K80=2400,M60=2400) give the largest instance that is measured.
type GenerateConfig struct {
	// Jobs is the number of jobs; zero means 200.
	Jobs int
	// GPUs is the cluster, one node for each type; nil means V100=64,T4=48,K80=24,M60=24.
	// Types must be among GeneratedTypes.
	GPUs []hare.TypeCount
	// Arrivals is "none" (the default: all jobs arrive at 0), "poisson:RATE" with the rate
	// in jobs per second, or "uniform:SPAN", uniformly at random over SPAN seconds.
	Arrivals string
	// Sync is "relaxed" (the default), "gang" or "rigid".
	Sync string
	// Seed selects the instance: the same seed and settings give the same instance.
	Seed uint64
	// GrainUs is the unit to which times are rounded, half a unit upwards. Zero means whole
	// seconds, as in the frozen instances.
	GrainUs int64
	// Name is the name of the instance; empty means "generated-<jobs>-seed-<seed>".
	Name string
}

// trainedModel is one of the paper's models. Its times are relative to a V100 and follow the
// shape of the papers' speedup figures: convolutions and transformers gain much from a
// V100, graph networks little. They are not measurements.
type trainedModel struct {
	name     string
	domain   int
	base     float64   // the seconds of a task on a V100, before the job's own scale of 5
	relative []float64 // the time by GPU type, in the order of GeneratedTypes
	sync     float64   // in seconds, before the job's own scale
}

// GeneratedTypes are the GPU types whose relative speeds the generator knows.
var GeneratedTypes = []string{"V100", "P100", "T4", "K80", "M60"}

var models = []trainedModel{
	{"vgg19", 0, 1.35, []float64{1, 2.6, 2.3, 10.1, 6.8}, 0.30},
	{"resnet50", 0, 1.05, []float64{1, 2.2, 1.9, 6.1, 4.7}, 0.15},
	{"inceptionv3", 0, 1.25, []float64{1, 2.1, 1.9, 6.0, 4.5}, 0.15},
	{"bert", 1, 1.10, []float64{1, 2.4, 2.2, 9.2, 6.3}, 0.25},
	{"transformer", 1, 0.70, []float64{1, 2.3, 2.0, 7.5, 5.4}, 0.20},
	{"deepspeech", 2, 0.80, []float64{1, 1.6, 1.5, 2.6, 2.1}, 0.20},
	{"fastgcn", 3, 0.30, []float64{1, 1.3, 1.2, 2.2, 1.8}, 0.05},
	{"graphsage", 3, 0.28, []float64{1, 1.2, 1.1, 1.9, 1.6}, 0.05},
}

const domains = 4

var (
	taskChoices      = []int64{1, 2, 4, 4, 8, 8, 16}
	defaultGenerated = []hare.TypeCount{{Type: "V100", Count: 64}, {Type: "T4", Count: 48}, {Type: "K80", Count: 24},
		{Type: "M60", Count: 24}}
)

// These constants limit what is generated.
const (
	maxGenerated = 1 << 20
	maxArrival   = 1e9 // in seconds
)

// Generate makes an instance from a seed with the random numbers of PCG. The domains have
// equal shares of the jobs, in random order. Each job draws a model of its domain, its rounds
// uniformly from 5…64, its tasks from {1, 2, 4, 4, 8, 8, 16}, its weight as 0.05 + U(0, 1),
// and the factor of its times as 5 · lognormal(0, 0.3). A gang or rigid job is no wider than
// the widest type. Generate takes O(jobs · types).
func Generate(cfg GenerateConfig) (*hare.Instance, error) {
	if cfg.Jobs == 0 {
		cfg.Jobs = 200
	}
	if cfg.Jobs < 0 || cfg.Jobs > maxGenerated {
		return nil, fmt.Errorf("trace: generate %d jobs; it must be 1 to %d", cfg.Jobs, maxGenerated)
	}
	if cfg.GPUs == nil {
		cfg.GPUs = defaultGenerated
	}
	if err := requireTypes(cfg.GPUs, GeneratedTypes, "generated models"); err != nil {
		return nil, err
	}
	if cfg.GrainUs == 0 {
		cfg.GrainUs = 1e6
	}
	if cfg.GrainUs < 0 || cfg.GrainUs > 1e9 {
		return nil, fmt.Errorf("trace: grain is %d µs; it must be 1 to 10^9", cfg.GrainUs)
	}
	var sync hare.Sync
	switch cfg.Sync {
	case "", "relaxed":
	case "gang":
		sync = hare.Gang
	case "rigid":
		sync = hare.Rigid
	default:
		return nil, fmt.Errorf("trace: sync is %q; it must be relaxed, gang or rigid", cfg.Sync)
	}
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("generated-%d-seed-%d", cfg.Jobs, cfg.Seed)
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x48617265)) // "Hare" in ASCII
	releases, err := arrivals(cfg.Arrivals, cfg.Jobs, rand.New(rand.NewPCG(cfg.Seed, 0x41727269)))
	if err != nil {
		return nil, err
	}
	widest := 0
	for _, g := range cfg.GPUs {
		widest = max(widest, g.Count)
	}
	inst := &hare.Instance{Name: cfg.Name, Objective: hare.ObjectiveWeightedJCT, Cluster: clusterOf(cfg.GPUs),
		Jobs: make([]hare.Job, cfg.Jobs)}
	domain := make([]int, cfg.Jobs)
	for i := range domain {
		domain[i] = i % domains
	}
	rng.Shuffle(len(domain), func(i, j int) { domain[i], domain[j] = domain[j], domain[i] })
	byDomain := make([][]trainedModel, domains)
	for _, m := range models {
		byDomain[m.domain] = append(byDomain[m.domain], m)
	}
	for i := range inst.Jobs {
		m := byDomain[domain[i]][rng.IntN(len(byDomain[domain[i]]))]
		scale := 5 * math.Exp(0.3*rng.NormFloat64())
		job := hare.Job{
			ID:          m.name + "-" + strconv.Itoa(i),
			Rounds:      5 + rng.Int64N(60),
			Tasks:       taskChoices[rng.IntN(len(taskChoices))],
			WeightMicro: 50_000 + rng.Int64N(1_000_001),
			ReleaseUs:   releases[i],
			Sync:        sync,
		}
		if sync != hare.Relaxed {
			job.Tasks = min(job.Tasks, int64(widest))
		}
		syncUs := max(cfg.GrainUs, roundSeconds(m.sync*scale, cfg.GrainUs))
		for _, g := range cfg.GPUs {
			t := slices.Index(GeneratedTypes, g.Type)
			job.On = append(job.On, hare.Profile{Type: g.Type,
				ComputeUs: max(cfg.GrainUs, roundSeconds(m.base*m.relative[t]*scale, cfg.GrainUs)), SyncUs: syncUs})
		}
		sortProfiles(job.On)
		inst.Jobs[i] = job
	}
	return inst, nil
}

// roundSeconds returns seconds in microseconds, rounded to a multiple of us.
func roundSeconds(seconds float64, us int64) int64 { return int64(seconds*1e6/float64(us)+0.5) * us }

// arrivals returns the releases of n jobs in microseconds; under poisson they are in
// order.
func arrivals(kind string, n int, rng *rand.Rand) ([]int64, error) {
	out := make([]int64, n)
	name, value, _ := strings.Cut(kind, ":")
	if (name == "" || name == "none") && value == "" {
		return out, nil
	}
	x, err := strconv.ParseFloat(value, 64)
	if name != "poisson" && name != "uniform" || err != nil || !(x > 0) || math.IsInf(x, 0) {
		return nil, fmt.Errorf("trace: arrivals %q; write none, poisson:RATE (jobs a second) or uniform:SPAN "+
			"(seconds)",
			kind)
	}
	var t float64
	for i := range out {
		if name == "poisson" {
			t += rng.ExpFloat64() / x
		} else {
			t = rng.Float64() * x
		}
		if t > maxArrival {
			return nil, fmt.Errorf("trace: arrivals %q: a job arrives after %.0f seconds; raise the rate or "+
				"shorten the span",
				kind, t)
		}
		out[i] = roundSeconds(t, 1000)
	}
	return out, nil
}
