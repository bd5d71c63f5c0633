package policies_test

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim/elastic"
)

var polluxSeeds = flag.Int("pollux-seeds", 0, "run Pollux's own policy on its eight workloads with so many seeds")

// polluxWorkloads are the workloads of pollux_reference.csv, from 1, with the mean completion time
// of Pollux's own policy that the artifact publishes.
func polluxWorkloads(t testing.TB) (jobs map[int][]elastic.Job, meanS map[int]float64) {
	t.Helper()
	f, err := os.Open("testdata/pollux_reference.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	text, sums := map[int]*strings.Builder{}, map[int]float64{}
	for _, r := range rows[1:] {
		n, err := strconv.Atoi(r[0])
		if err != nil {
			t.Fatal(err)
		}
		if text[n] == nil {
			text[n] = &strings.Builder{}
			text[n].WriteString("name,time,application,num_replicas,batch_size\n")
		}
		fmt.Fprintln(text[n], strings.Join(r[1:6], ","))
		v, err := strconv.ParseFloat(r[8], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[n] += v
	}
	jobs, meanS = map[int][]elastic.Job{}, map[int]float64{}
	for n := range text {
		jobs[n] = elasticJobs(t, "workload "+strconv.Itoa(n), text[n].String())
		meanS[n] = sums[n] / float64(len(jobs[n]))
	}
	return jobs, meanS
}

// playCoAdaptive runs Pollux's own policy on 16 nodes of 4 GPUs.
func playCoAdaptive(t testing.TB, jobs []elastic.Job, cfg elastic.PolluxConfig, seed uint64,
	engine elastic.RunConfig) *elastic.Outcome {
	t.Helper()
	p, err := elastic.NewPollux(cfg, seed)
	if err != nil {
		t.Fatal(err)
	}
	cluster := elastic.Cluster{GPUType: "T4", Nodes: slices.Repeat([]int{4}, 16)}
	o, err := elastic.Run(context.Background(), "pollux", cluster, jobs, p, engine)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// jctAgreement is by how much the mean completion time over seeds may differ from the one that the
// artifact publishes, of one run each.
const jctAgreement = 0.05

// Twelve jobs under Pollux's own policy end, and end sooner with batches that adapt. The search is
// small, so that the test is quick.
func TestPolluxAdapts(t *testing.T) {
	jobs, _ := polluxWorkloads(t)
	var meanS [2]float64
	for i, keep := range []bool{false, true} {
		cfg := elastic.PolluxConfig{KeepBatch: keep, Population: 20, Generations: 20}
		o := playCoAdaptive(t, jobs[6][:12], cfg, 1, elastic.RunConfig{})
		for _, j := range o.Jobs {
			if j.EndS < 0 {
				t.Errorf("job %s did not end", j.ID)
			}
		}
		meanS[i] = o.MeanJCTS
	}
	t.Logf("mean JCT %.1f s, with fixed batches %.1f", meanS[0], meanS[1])
	if meanS[0] >= meanS[1] {
		t.Errorf("mean JCT %.1f s, with fixed batches %.1f", meanS[0], meanS[1])
	}
}

// TestPolluxCoAdaptive compares Pollux's own policy with the artifact's results on its eight
// workloads.
func TestPolluxCoAdaptive(t *testing.T) {
	if *polluxSeeds == 0 {
		t.Skip("needs -pollux-seeds")
	}
	jobs, meanS := polluxWorkloads(t)
	for n := 1; n <= 8; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			var means []float64
			sum := 0.
			for seed := range *polluxSeeds {
				o := playCoAdaptive(t, jobs[n], elastic.PolluxConfig{}, uint64(seed), elastic.RunConfig{})
				means = append(means, o.MeanJCTS)
				sum += o.MeanJCTS / float64(*polluxSeeds)
			}
			t.Logf("workload %d: mean JCT %.1f s over seeds (%.1f to %.1f), Pollux %.1f, %+.1f %%", n, sum,
				slices.Min(means), slices.Max(means), meanS[n], 100*(sum/meanS[n]-1))
			if math.Abs(sum/meanS[n]-1) > jctAgreement {
				t.Errorf("workload %d: mean JCT %.1f s, Pollux %.1f", n, sum, meanS[n])
			}
		})
	}
}
