package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare/sim/sharing/antman"
)

// antmanMeasurement draws its jobs, as the paper's are not public: gangs of 1 to 8 GPUs, times whose
// logarithm is normal, and busy times and memory that are uniform. Half of the jobs are
// opportunistic.
var antmanMeasurement = Measurement{
	Name:  "antman",
	Title: "AntMan: use of GPUs, and what sharing costs guaranteed jobs",
	Text: "400 jobs on 64 GPUs of 16 GiB, 8 a node, arriving at random so that they would hold 160 % of the GPUs if " +
		"each had its own; half of them are opportunistic. A job alone keeps a GPU busy for 20 to 90 % of the time and " +
		"holds 2 to 12 GiB (assumptions: uniform). --scale divides the jobs and GPUs.",
	Published: "AntMan (OSDI 2020): GPU memory in use +42 %, compute in use +34 % in a production cluster, \"without " +
		"compromising fairness\": guaranteed jobs are not slowed.",
	plan: planAntman,
}

func planAntman(cfg *Config) ([]measured, error) {
	cluster := antman.Cluster{Nodes: max(1, 8/cfg.Scale), NodeGPUs: 8, MemoryGiB: 16}
	var runs []measured
	add := func(group, row string, c antman.Config) {
		for k := range cfg.Repeat {
			seed := cfg.FirstSeed + uint64(k)
			runs = append(runs, measured{group, row, seed, func(ctx context.Context) ([]figure, error) {
				jobs := antmanJobs(seed, max(8, 400/cfg.Scale), cluster)
				o, err := antman.Run(ctx, cluster, jobs, c)
				if err != nil {
					return nil, err
				}
				return antmanFigures(jobs, o), nil
			}})
		}
	}
	const sharing, parts = "how GPUs are shared", "settings of managed sharing"
	add(sharing, "exclusive GPUs", antman.Config{Sharing: antman.Exclusive})
	add(sharing, "unmanaged sharing", antman.Config{Sharing: antman.Unmanaged})
	add(sharing, "managed sharing (AntMan)", antman.Config{})
	add(sharing, "sharing throttled by measured slowdown", antman.Config{Sharing: antman.Throttled})
	for _, v := range []struct {
		row string
		c   antman.Config
	}{
		{"as above: joins up to 80 % busy, host memory costs 2 ×", antman.Config{}},
		{"joins up to 50 % busy", antman.Config{MaxBusy: .5}},
		{"joins always", antman.Config{MaxBusy: 1}},
		{"two opportunistic jobs a GPU", antman.Config{Opportunists: 2}},
		{"host memory costs nothing", antman.Config{HostSlowdown: -1}},
		{"host memory costs 5 ×", antman.Config{HostSlowdown: 4}},
		{"interference of 5 %", antman.Config{Interference: .05}},
		{"interference of 20 %", antman.Config{Interference: .2}},
	} {
		add(parts, v.row, v.c)
	}
	for _, v := range []struct {
		row string
		c   antman.Config
	}{
		{"as above: every 10 s, steps of 5 %, slow above 1 %", antman.Config{}},
		{"every 60 s", antman.Config{ControlS: 60}},
		{"steps of 20 %", antman.Config{ControlStep: .2}},
		{"slow above 5 %", antman.Config{Tolerance: .05}},
		{"interference of 20 %", antman.Config{Interference: .2}},
	} {
		v.c.Sharing = antman.Throttled
		add("settings of throttled sharing", v.row, v.c)
	}
	return runs, nil
}

// The jobs of the measurement.
const (
	antmanLoad   = 1.6  // GPUs that jobs hold in the mean, if each had its own, as a share of all
	antmanMeanS  = 1800 // the mean time of a job alone
	antmanSpread = 1.   // the standard deviation of the logarithm of times
)

func antmanJobs(seed uint64, n int, cluster antman.Cluster) []antman.Job {
	rng := rand.New(rand.NewPCG(seed, 0x616e746d616e))
	widths := []int{1, 1, 1, 1, 2, 2, 4, 8}
	mean := 0.
	for _, w := range widths {
		mean += float64(w) / float64(len(widths))
	}
	betweenS := mean * antmanMeanS / (antmanLoad * float64(cluster.Nodes*cluster.NodeGPUs))
	jobs, nowS := make([]antman.Job, n), 0.
	for i := range jobs {
		nowS += rng.ExpFloat64() * betweenS
		jobs[i] = antman.Job{
			ID: fmt.Sprintf("job-%d", i), ArrivalS: nowS, GPUs: widths[rng.IntN(len(widths))],
			WorkS: antmanMeanS * math.Exp(antmanSpread*rng.NormFloat64()-antmanSpread*antmanSpread/2),
			Busy:  .2 + .7*rng.Float64(), MemoryGiB: 2 + 10*rng.Float64(), Opportunistic: rng.IntN(2) == 0,
		}
	}
	return jobs
}

// antmanFigures are use until the last arrival's jobs end, and times by class.
func antmanFigures(jobs []antman.Job, o *antman.Outcome) []figure {
	var jctS, waitS [2]float64
	var count [2]int
	slow, late, slowed := 0., []float64(nil), []float64(nil)
	for _, r := range o.Records {
		class := 0
		if r.Opportunistic {
			class = 1
		} else {
			slow += r.Slowdown
			slowed = append(slowed, r.Slowdown)
			late = append(late, r.StartS-r.ArrivalS)
		}
		jctS[class] += r.EndS - r.ArrivalS
		waitS[class] += r.StartS - r.ArrivalS
		count[class]++
	}
	quantile := func(values []float64, q float64) float64 {
		if len(values) == 0 {
			return math.NaN()
		}
		slices.Sort(values)
		return values[int(math.Ceil(q*float64(len(values))))-1]
	}
	mean := func(sum float64, class int) float64 { return sum / float64(count[class]) }
	return []figure{{"compute in use %", 100 * o.Busy, 1}, {"memory in use %", 100 * o.Memory, 1},
		{"slowdown of guaranteed jobs", mean(slow, 0), 3},
		{"p99 of it", quantile(slowed, .99), 3}, {"the worst", quantile(slowed, 1), 3},
		{"their wait s", mean(waitS[0], 0), 0}, {"p99 s", quantile(late, .99), 0}, {"their JCT s", mean(jctS[0], 0), 0},
		{"opportunistic jobs' wait s", mean(waitS[1], 1), 0}, {"their JCT s", mean(jctS[1], 1), 0},
		{"all JCT s", (jctS[0] + jctS[1]) / float64(len(jobs)), 0}, {"makespan s", o.MakespanS, 0}}
}
