package trace

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"time"

	hare "github.com/hare-sched/hare"
)

// PhillyConfig describes a synthetic trace that resembles Microsoft's Philly. The zero value
// means 10,000 jobs on 2,490 GPUs at a load of 0.8.
type PhillyConfig struct {
	// Jobs is the number of jobs; zero means 10,000, and the maximum is 2^20.
	Jobs int
	// GPUs is the cluster, one node for each type; nil means GPU=2490. If all types are
	// among GeneratedTypes, each job draws one of Generate's models, which says how much
	// slower the job is on each type; otherwise all types are alike.
	GPUs []hare.TypeCount
	// Load is the work that arrives per second over the work that the cluster does per
	// second, if every type does a part of each job's work in proportion to its GPUs. Zero
	// means 0.8.
	Load float64
	// Sync is "rigid" (the default), where a job is one round, or "gang", where a job may be
	// preempted between rounds of about a Quantum.
	Sync string
	// Quantum is the length of a round of a gang job on its fastest type; zero means 60 s.
	Quantum time.Duration
	// Seed selects the trace: the same seed and settings give the same instance.
	Seed uint64
	// Name is the name of the instance; empty means "philly-like-<jobs>-seed-<seed>".
	Name string
}

// widthsOfPhilly are the classes of GPUs per job for which durations are known.
var widthsOfPhilly = []string{"1", "2-4", "5-8", ">8"}

// PhillyLike draws jobs that resemble those of Philly, with the random numbers of PCG. Times
// between arrivals and numbers of GPUs are drawn independently and with replacement from the
// week that is shipped. A duration is the time on the job's fastest type; it is drawn from
// the quantiles of all 82,247 jobs with about as many GPUs, which are interpolated
// log-linearly. Times between arrivals are then scaled to the load. The distributions
// therefore have Philly's tails, but the trace has no days and nights and no users who submit
// several jobs in a row, and the mean duration varies much from seed to seed. A number of
// GPUs that no type has is drawn again. PhillyLike takes O(jobs · types).
func PhillyLike(cfg PhillyConfig) (*hare.Instance, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	src, err := readPhillySource()
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x5068696c)) // "Phil" in ASCII
	inst := &hare.Instance{Name: cfg.Name, Objective: hare.ObjectiveWeightedJCT, Cluster: clusterOf(cfg.GPUs),
		Jobs: make([]hare.Job, cfg.Jobs)}
	speeds := relativeTimes(cfg.GPUs)
	widest, gpus := 0, 0
	for _, g := range cfg.GPUs {
		widest, gpus = max(widest, g.Count), gpus+g.Count
	}
	src.widths = slices.DeleteFunc(src.widths, func(w int64) bool { return w > int64(widest) })
	profiles := make([]hare.Profile, cfg.Jobs*len(cfg.GPUs)) // one piece of memory for all jobs
	var seconds, work float64                                // summed over the GPUs
	gaps := make([]float64, cfg.Jobs)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		*j = hare.Job{ID: "philly-" + strconv.Itoa(i), WeightMicro: 1e6, Rounds: 1,
			Tasks: src.widths[rng.IntN(len(src.widths))], Sync: hare.Rigid}
		gaps[i] = src.gaps[rng.IntN(len(src.gaps))]
		us := src.duration(j.Tasks, rng.Float64()) * 1e6
		if cfg.Sync == "gang" {
			j.Sync = hare.Gang
			j.Rounds = max(1, int64(math.Ceil(us/float64(cfg.Quantum.Microseconds()))))
		}
		relative := speeds[rng.IntN(len(speeds))]
		j.On, profiles = profiles[:len(cfg.GPUs):len(cfg.GPUs)], profiles[len(cfg.GPUs):]
		mean := 0.0 // of 1 / relative, over the GPUs
		for k, g := range cfg.GPUs {
			j.On[k] = hare.Profile{Type: g.Type, ComputeUs: max(1, int64(us*relative[k]/float64(j.Rounds)+0.5))}
			mean += float64(g.Count) / relative[k] / float64(gpus)
		}
		sortProfiles(j.On)
		seconds += gaps[i]
		work += float64(j.Tasks) * us / 1e6 / mean
	}
	scale := work / (cfg.Load * float64(gpus) * seconds)
	at := 0.0
	for i := range inst.Jobs {
		at += gaps[i] * scale
		if at > maxArrival {
			return nil, fmt.Errorf("trace: a job arrives after %.0f seconds; take fewer jobs, more GPUs or a "+
				"higher load", at)
		}
		inst.Jobs[i].ReleaseUs = roundSeconds(at, 1000)
	}
	return inst, nil
}

// resolve checks the configuration and fills in defaults.
func (cfg *PhillyConfig) resolve() error {
	if cfg.Jobs == 0 {
		cfg.Jobs = 10_000
	}
	if cfg.GPUs == nil {
		cfg.GPUs = []hare.TypeCount{{Type: "GPU", Count: 2490}}
	}
	if cfg.Load == 0 {
		cfg.Load = 0.8
	}
	if cfg.Sync == "" {
		cfg.Sync = "rigid"
	}
	if cfg.Quantum == 0 {
		cfg.Quantum = time.Minute
	}
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("philly-like-%d-seed-%d", cfg.Jobs, cfg.Seed)
	}
	switch {
	case cfg.Jobs < 0 || cfg.Jobs > maxGenerated:
		return fmt.Errorf("trace: generate %d jobs; it must be 1 to %d", cfg.Jobs, maxGenerated)
	case !(cfg.Load >= 0.001 && cfg.Load <= 1000): // the condition also refuses NaN
		return fmt.Errorf("trace: load is %g; it must be 0.001 to 1000", cfg.Load)
	case cfg.Sync != "gang" && cfg.Sync != "rigid":
		return fmt.Errorf("trace: sync is %q; durations that hold all GPUs are gang or rigid", cfg.Sync)
	case cfg.Quantum < time.Millisecond || cfg.Quantum > math.MaxInt32*time.Second:
		return fmt.Errorf("trace: quantum is %v; it must be 1 ms to 68 years", cfg.Quantum)
	}
	return nil
}

// relativeTimes returns the times of the models by type, relative to the model's fastest type
// among gpus. All types are alike where one of them is not among GeneratedTypes.
func relativeTimes(gpus []hare.TypeCount) [][]float64 {
	alike := make([]float64, len(gpus))
	for k := range alike {
		alike[k] = 1
	}
	if requireTypes(gpus, GeneratedTypes, "") != nil {
		return [][]float64{alike}
	}
	out := make([][]float64, len(models))
	for m := range models {
		out[m] = slices.Clone(alike)
		for k, g := range gpus {
			out[m][k] = models[m].relative[slices.Index(GeneratedTypes, g.Type)]
		}
		least := slices.Min(out[m])
		for k := range out[m] {
			out[m][k] /= least
		}
	}
	return out
}

// phillySource holds the data from which PhillyLike draws.
type phillySource struct {
	gaps      []float64 // in seconds between arrivals
	widths    []int64
	quantiles [4]struct{ p, logS []float64 } // by class of widthsOfPhilly
}

func readPhillySource() (*phillySource, error) {
	week, err := Shipped("philly_week_2017-10-02.csv")
	if err != nil {
		return nil, err
	}
	inst, _, err := Philly(week, Config{})
	if err != nil {
		return nil, err
	}
	s := &phillySource{}
	for i, j := range inst.Jobs {
		s.widths = append(s.widths, j.Tasks)
		if i > 0 {
			s.gaps = append(s.gaps, float64(j.ReleaseUs-inst.Jobs[i-1].ReleaseUs)/1e6)
		}
	}
	quantiles, err := Shipped("philly_duration_quantiles.csv")
	if err != nil {
		return nil, err
	}
	t, err := newTable(quantiles, "num_gpus", "quantile", "duration_s")
	if err != nil {
		return nil, err
	}
	for {
		ok, err := t.next()
		if err != nil || !ok {
			return s, err
		}
		class := slices.Index(widthsOfPhilly, t.text("num_gpus"))
		if class < 0 {
			continue // the quantiles of all jobs
		}
		p, err := t.decimal("quantile", 6)
		if err != nil {
			return nil, err
		}
		d, err := t.count("duration_s", 1)
		if err != nil {
			return nil, err
		}
		c := &s.quantiles[class]
		c.p, c.logS = append(c.p, float64(p)/1e6), append(c.logS, math.Log(float64(d)))
	}
}

// duration returns the quantile u, in [0, 1), of the durations of jobs on width GPUs, in
// seconds.
func (ps *phillySource) duration(width int64, u float64) float64 {
	class := 0
	for class < 3 && width > []int64{1, 4, 8}[class] {
		class++
	}
	c := &ps.quantiles[class]
	i := sort.SearchFloat64s(c.p, u)
	if i == 0 {
		return math.Exp(c.logS[0])
	}
	part := (u - c.p[i-1]) / (c.p[i] - c.p[i-1])
	return math.Exp(c.logS[i-1] + part*(c.logS[i]-c.logS[i-1]))
}

// WritePhilly writes the jobs of PhillyLike as a trace that Philly reads. Such a trace
// has one GPU type, so inst must have one. Gang jobs are written with the time of all
// their rounds.
func WritePhilly(w io.Writer, inst *hare.Instance) error {
	if n := len(inst.Cluster.Nodes); n != 1 {
		return fmt.Errorf("trace: a Philly trace knows one GPU type, and the cluster has %d: write an instance", n)
	}
	line := []byte("arrival_s,duration_s,num_gpus\n")
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		line = append(line, hare.FormatMicros(j.ReleaseUs)...)
		line = append(append(line, ','), hare.FormatMicros(j.Rounds*j.On[0].ComputeUs)...)
		line = strconv.AppendInt(append(line, ','), j.Tasks, 10)
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		line = line[:0]
	}
	return nil
}
