package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/hare-sched/hare/online/market"
	"github.com/hare-sched/hare/sim"
)

// PlacementConfig tunes Placement. The zero value means the defaults.
type PlacementConfig struct {
	// Problems is the number of small problems, with seeds from 1 on; zero means 30.
	Problems int
	// Draws are the numbers of categories; nil means 1, 4, 16, 64 and 256.
	Draws []int
	// Progress is called before each problem; nil does nothing.
	Progress func(done, total int)
}

// placementSettings are what PlacementRows compares, the defaults first.
var placementSettings = []struct {
	name string
	cfg  market.Config
}{
	{"as by default", market.Config{}},
	{"the market alone", market.Config{Tries: -1}},
	{"… none skipped", market.Config{Tries: -1, Skip: -1}},
	{"… one market for a category", market.Config{Tries: -1, Passes: 1}},
	{"… values are throughputs", market.Config{Tries: -1, Valuation: market.Throughput}},
	{"… categories drawn evenly", market.Config{Tries: -1, Drawing: market.Uniform}},
	{"… both of these", market.Config{Tries: -1, Valuation: market.Throughput, Drawing: market.Uniform}},
}

// PlacementRow is what one setting gives on all small problems.
type PlacementRow struct {
	Setting string
	Draws   int
	// BytesMB is the most that a job exchanges in an iteration, in megabytes.
	BytesMB float64
	// Ratio is the score over the optimum, with Worst the greatest; Jain is the fairness.
	Ratio, Jain sim.Stat
	Worst       float64
	// MedianS is the median time of a placement in seconds.
	MedianS float64
}

// PlacementReport compares sampled placements with the optimum.
type PlacementReport struct {
	Rows []PlacementRow // by BytesMB, setting and draws; the setting of the last of each BytesMB is the optimum
	// Large is how 200 jobs are placed on 2,000 workers with the default settings.
	LargeS, LargeJain float64
}

// smallJobs and smallWorkers are the size of the problems for which the optimum is found: jobs, and
// workers of each of three classes.
const smallJobs, smallWorkers = 6, 10

// RandomPlacement makes a problem of jobs on classes of four workers a node, like V100, P100 and K80:
// a class is slower than the one before for all jobs, by a factor of 1.2 to 3 for each job. Jobs
// exchange up to the given bytes an iteration, at 10 GB/s within and 1.25 GB/s between nodes, have weights from
// 1 to 3, and lengths over two orders of magnitude.
func RandomPlacement(seed uint64, jobs, classes, workers int, bytes float64) *market.Problem {
	rng := rand.New(rand.NewPCG(seed, 0x706c616365)) // "place" in ASCII
	p := &market.Problem{}
	for range classes {
		p.Classes = append(p.Classes, market.Class{Workers: workers, PerNode: 4, InsideBps: 10e9, BetweenBps: 1.25e9})
	}
	for range jobs {
		length := 100.0
		for range 2 { // log-uniform from 100 to 10,000 iterations
			length *= 1 + 9*rng.Float64()*rng.Float64()
		}
		j := market.Job{Weight: float64(1 + rng.IntN(3)), Iterations: length, Samples: float64(int(64) << rng.IntN(3)),
			Bytes: bytes * rng.Float64()}
		rate := 50 + 150*rng.Float64()
		for range classes {
			j.Rate = append(j.Rate, rate)
			rate /= 1.2 + 1.8*rng.Float64()
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// Placement places small random problems with every setting and number of draws, beside the optimum,
// and one large problem.
func Placement(ctx context.Context, cfg PlacementConfig) (*PlacementReport, error) {
	if cfg.Problems == 0 {
		cfg.Problems = 30
	}
	if cfg.Draws == nil {
		cfg.Draws = []int{1, 4, 16, 64, 256}
	}
	if cfg.Problems < 0 || slices.ContainsFunc(cfg.Draws, func(n int) bool { return n < 1 }) {
		return nil, errors.New("bench: the numbers of problems and draws must be at least 1")
	}
	r := &PlacementReport{}
	for _, mb := range exchangesMB {
		rows, err := cfg.small(ctx, mb)
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		r.Rows = append(r.Rows, rows...)
	}
	large := RandomPlacement(1, 200, 4, 500, 4e8)
	var took []float64
	for range 5 {
		began := time.Now()
		got, err := market.Sample(ctx, large, market.Config{})
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		took = append(took, time.Since(began).Seconds())
		r.LargeJain = large.Fairness(got.Counts)
	}
	r.LargeS = median(took)
	return r, nil
}

// exchangesMB are the most that jobs of the small problems exchange in an iteration: little, and so
// much that many jobs wait for the network more than they compute.
var exchangesMB = []float64{4, 400}

// small places the small problems of one exchange.
func (cfg *PlacementConfig) small(ctx context.Context, mb float64) ([]PlacementRow, error) {
	var rows []PlacementRow
	for _, s := range placementSettings {
		for _, n := range cfg.Draws {
			rows = append(rows, PlacementRow{Setting: s.name, Draws: n, BytesMB: mb})
		}
	}
	optimum := PlacementRow{Setting: "the optimum", BytesMB: mb, Worst: 1}
	times, exact := make([][]float64, len(rows)), []float64(nil)
	for i := range cfg.Problems {
		if cfg.Progress != nil {
			cfg.Progress(i, cfg.Problems)
		}
		p := RandomPlacement(uint64(i)+1, smallJobs, 3, smallWorkers, mb*1e6)
		began := time.Now()
		best, score, err := market.Exact(p)
		if err != nil {
			return nil, err
		}
		exact = append(exact, time.Since(began).Seconds())
		optimum.Ratio.Add(1)
		optimum.Jain.Add(p.Fairness(best))
		for k := range rows {
			row, set := &rows[k], placementSettings[k/len(cfg.Draws)].cfg
			set.Draws, set.Seed = row.Draws, uint64(i)
			began := time.Now()
			got, err := market.Sample(ctx, p, set)
			if err != nil {
				return nil, err
			}
			times[k] = append(times[k], time.Since(began).Seconds())
			row.Ratio.Add(got.Score / score)
			row.Jain.Add(p.Fairness(got.Counts))
			row.Worst = max(row.Worst, got.Score/score)
		}
	}
	for k := range rows {
		rows[k].MedianS = median(times[k])
	}
	optimum.MedianS = median(exact)
	return append(rows, optimum), nil
}

// Markdown writes the report as a table.
func (r *PlacementReport) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%d jobs on %d workers of 3 classes, %d problems; ± 95 %% confidence\n\n", smallJobs, 3*smallWorkers,
		r.Rows[0].Ratio.N)
	fmt.Fprint(b, "| exchange | setting | draws | score/optimum | worst | Jain | median ms |\n",
		"|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		draws := strconv.Itoa(row.Draws)
		if row.Draws == 0 {
			draws = "all"
		}
		fmt.Fprintf(b, "| to %g MB | %s | %s | %.4f ± %.4f | %.4f | %.3f | %.2f |\n", row.BytesMB, row.Setting, draws,
			row.Ratio.Mean, row.Ratio.Half, row.Worst, row.Jain.Mean, 1e3*row.MedianS)
	}
	fmt.Fprintf(b, "\n200 jobs on 2,000 workers of 4 classes: median %.2f ms, Jain %.3f\n", 1e3*r.LargeS, r.LargeJain)
	return b.Flush()
}
