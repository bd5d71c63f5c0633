package leases

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/sim"
)

// state returns a state of jobs on a cluster of K80, P100 and V100 GPUs.
func state(k80, p100, v100 int, jobs ...View) *State {
	for i := range jobs {
		jobs[i].Number = i
	}
	return &State{Types: []string{"K80", "P100", "V100"}, GPUs: []int{k80, p100, v100}, Jobs: jobs}
}

func job(gpus int, weight float64, steps int64, rate ...float64) View {
	return View{Job: &Job{ID: fmt.Sprint(rate), Weight: weight, GPUs: gpus, Steps: steps,
		Rate: rate}, StepsLeft: steps}
}

func divide(t *testing.T, p SharePolicy, s *State) *Shares {
	t.Helper()
	out := &Shares{Share: make([]float64, len(s.Types)*len(s.Jobs))}
	if err := p.Shares(context.Background(), s, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func expect(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	for i := range want {
		if len(got) != len(want) || math.Abs(got[i]-want[i]) > 1e-6 {
			t.Errorf("%s: shares %v, by hand %v", what, got, want)
			return
		}
	}
}

// The first job takes its fastest type. The second finds no free V100 and takes a P100. The
// third needs two GPUs of a type, but only one P100 and one K80 are free, so the queue stops,
// and the fourth job gets nothing although it would fit.
func TestFIFOPerf(t *testing.T) {
	s := state(1, 2, 1, job(1, 1, 9, 1, 2, 3), job(1, 1, 9, 1, 2, 3), job(2, 1, 9, 1, 2, 3), job(1, 1, 9, 1, 2, 3))
	expect(t, "fifo_perf", divide(t, &gavelFIFO{perf: true}, s).Share, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0)
}

// Gavel's plain FIFO draws a type, but gives the last open type, and removes the drawn type from
// the list when the last type is used up. All four jobs therefore get V100s, of which there are
// two. The draws of seed 0 below 3, 3, … are 1, 1, 0.
func TestFIFOFollowsGavelsDraws(t *testing.T) {
	p := &gavelFIFO{draws: sim.NewTwister(0)}
	j := job(1, 1, 9, 1, 1, 1)
	s := state(2, 2, 2, j, j, j, j)
	out := divide(t, p, s)
	expect(t, "fifo", out.Share, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1)
	if !out.Oversubscribed {
		t.Error("four V100 of two are not marked as a wish")
	}
	// Job 0 ends. A new job inherits its type if the type has enough GPUs, which it has, because
	// the jobs that go on have not been counted yet.
	s.Jobs = append(s.Jobs[1:], j)
	s.Jobs[3].Number = 4
	expect(t, "fifo, later", divide(t, p, s).Share, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1)
}

// Each of two jobs is due one half of the 1, 2 and 3 GPUs of the types. The share of a job of
// four GPUs is that number over four. Shares whose sum is above 1 are scaled to a sum of 1.
func TestIsolated(t *testing.T) {
	s := state(1, 2, 3, job(1, 1, 9, 1, 1, 1), job(4, 1, 9, 1, 1, 1))
	expect(t, "isolated", divide(t, gavelIsolated{}, s).Share, 1./6, 2./6, 3./6, 1./8, 2./8, 3./8)
}

// There is one K80 and one V100. Job 0 does 1 and 2 steps a second on them, and job 1 does 1 and
// 4. With equal shares they do 1.5 and 2.5. With job 1 on the V100 alone and job 0 on the K80
// alone, they would do 1.6 and 0.667 times as much. If job 0 gets the share y of the V100, and
// job 1 the share y of the K80, y solves (1 − y + 2y)/1.5 = (4(1 − y) + y)/2.5.
func TestMaxMinPerf(t *testing.T) {
	s := state(1, 1, 1, job(1, 1, 9, 1, 0, 2), job(1, 1, 9, 1, 0, 4))
	s.Types, s.GPUs = []string{"K80", "V100"}, []int{1, 1}
	for i := range s.Jobs {
		r := s.Jobs[i].Rate
		s.Jobs[i].Rate = []float64{r[0], r[2]}
	}
	y := (1.6 - 1/1.5) / (1/1.5 + 1.2)
	want := []float64{1 - y, y, y, 1 - y}
	expect(t, "by job", divide(t, &gavelMaxMin{perf: true, solver: &lp.Simplex{}}, s).Share, want...)
	out := &Shares{Share: make([]float64, 4)}
	if err := (&gavelMaxMin{}).byClass(context.Background(), s, out); err != nil {
		t.Fatal(err)
	}
	expect(t, "by class", out.Share, want...)
}

// Without perf, each of three jobs on two GPUs gets two thirds of a GPU of any type. A job of
// weight 2 gets twice as much as the others, but at most a whole GPU.
func TestMaxMinPlain(t *testing.T) {
	for name, f := range map[string]struct {
		s    *State
		want []float64 // the sum of shares by job
	}{
		"equal": {state(1, 0, 1, job(1, 1, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1)),
			[]float64{2. / 3,
				2. / 3, 2. / 3}},
		"weighted": {state(1, 0, 1, job(1, 2, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1)),
			[]float64{1, 0.5,
				0.5}},
		"wide": {state(2, 0, 0, job(2, 1, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1)), []float64{1. / 3,
			2. / 3, 2. / 3}},
	} {
		p := &gavelMaxMin{solver: &lp.Simplex{}}
		for range 2 { // the second solution is the stored one
			share := divide(t, p, f.s).Share
			for i, want := range f.want {
				if sum := share[3*i] + share[3*i+1] + share[3*i+2]; sum < want-1e-6 {
					t.Errorf("%s: job %d gets %v, by hand %v", name, i, sum, want)
				}
			}
		}
	}
}

// The jobs with the largest rates get the GPUs, although other jobs wait.
func TestMaxSumThroughput(t *testing.T) {
	s := state(1, 1, 1, job(1, 1, 9, 1, 2, 3), job(1, 1, 9, 10, 11, 30), job(1, 1, 9, 0.1, 5, 0.2))
	expect(t, "throughput", divide(t, &gavelThroughput{&lp.Simplex{}}, s).Share, 1, 0, 0, 0, 0, 1, 0, 1, 0)
}

// Two jobs of 1,000 and 3,000 steps, at one step a second on a single GPU, take 4,000 s
// together. The bisection between 100 and 10^6 s, with a tolerance of 5 %, ends at the least of
// its points that is not below 4,000 s.
func TestMinTotalDuration(t *testing.T) {
	s := state(0, 0, 1, job(1, 1, 1000, 0, 0, 1), job(1, 1, 3000, 0, 0, 1))
	for _, perf := range []bool{true, false} {
		share := divide(t, &gavelDuration{perf: perf, solver: &lp.Simplex{}}, s).Share
		if share[2] < 1000/4201. || share[5] < 3000/4201. || share[2]+share[5] > 1+1e-6 {
			t.Errorf("shares %v", share)
		}
	}
	for _, least := range []float64{50, 4000, 4e5, 3e6, 1e9} {
		if got := lastFeasible(least); got < least || got > 1.06*max(least, 100) {
			t.Errorf("least %v: bisected to %v", least, got)
		}
	}
}

// Each job needs 100 s of the only GPU, or 200 s with half of it. Job 0 has waited for 100 s, and
// job 1 has just arrived. (100 + 100/x)/200 = (100/(1 − x))/200 holds if x is the golden ratio.
func TestFinishTimeFairness(t *testing.T) {
	s := state(0, 0, 1, job(1, 1, 100, 0, 0, 1), job(1, 1, 100, 0, 0, 1))
	s.NowS = 100
	s.Jobs[1].ArrivalS = 100
	share := divide(t, &gavelFinish{perf: true}, s).Share
	if golden := (math.Sqrt(5) - 1) / 2; math.Abs(share[2]-golden) > 1e-3 || math.Abs(share[2]+share[5]-1) > 1e-3 {
		t.Errorf("shares %v, by hand %v and the rest", share, golden)
	}
}

// Of two jobs of 100 and 10 s on one GPU, the short job runs first, because a wait counts once
// for each job that waits. A job that runs stays.
func TestAlloX(t *testing.T) {
	p := &gavelAlloX{}
	s := state(0, 0, 1, job(1, 1, 100, 0, 0, 1), job(1, 1, 10, 0, 0, 1))
	expect(t, "allox", divide(t, p, s).Share, 0, 0, 0, 0, 0, 1)
	s.Jobs = append(s.Jobs, job(1, 1, 1, 0, 0, 1))
	s.Jobs[2].Number = 2
	expect(t, "allox, a shorter one came", divide(t, p, s).Share, 0, 0, 0, 0, 0, 1, 0, 0, 0)
	// If the slow GPU is 20 times slower, both jobs are assigned to the fast GPU.
	s = state(1, 0, 1, job(1, 1, 100, 0.05, 0, 1), job(1, 1, 110, 0.05, 0, 1))
	expect(t, "allox, types", divide(t, &gavelAlloX{}, s).Share, 0, 0, 1, 0, 0, 0)
	s = state(1, 0, 0, job(2, 1, 1, 1, 1, 1))
	if err := p.Shares(context.Background(), s, &Shares{Share: make([]float64, 3)}); err == nil ||
		!strings.Contains(err.Error(), "one GPU only") {
		t.Error(err)
	}
}

// If all jobs fit, Gandiva gives the shares of isolated. Otherwise it pairs jobs with equal
// numbers of GPUs, keeps pairs that are faster together and separates the others.
func TestGandiva(t *testing.T) {
	p := &gavelGandiva{draws: sim.NewTwister(0)}
	s := state(0, 0, 2, job(1, 1, 9, 1, 1, 1), job(1, 1, 9, 1, 1, 1))
	rate := 0.6
	s.PairRates = func(_, _ *Job, _ int) (float64, float64) { return rate, rate }
	if out := divide(t, p, s); len(out.Pairs) != 0 {
		t.Error("jobs that fit are paired")
	}
	s.Jobs = append(s.Jobs, job(1, 1, 9, 1, 1, 1), job(2, 1, 9, 1, 1, 1))
	s.Jobs[2].Number, s.Jobs[3].Number = 2, 3
	out := divide(t, p, s)
	if len(out.Pairs) != 1 || s.Jobs[out.Pairs[0].A].GPUs != s.Jobs[out.Pairs[0].B].GPUs {
		t.Fatalf("pairs %+v", out.Pairs)
	}
	expect(t, "pair", out.Pairs[0].Share, 0, 0, 2./3) // the pair is one of three users of two GPUs
	first := out.Pairs[0]
	if again := divide(t, p, s); again.Pairs[0].A != first.A || again.Pairs[0].B != first.B {
		t.Error("a pair that pays did not stay")
	}
	if rate = 0.1; pays(s, first.A, first.B) {
		t.Error("0.2 of a GPU on each of three types is said to pay")
	}
	// All pairs are separated, and the jobs that are drawn next form new pairs.
	if out = divide(t, p, s); len(out.Pairs) > 1 {
		t.Errorf("pairs %+v", out.Pairs)
	}
}

// A state whose matching would need too much memory is refused, and a search ends with its
// context.
func TestAlloXIsBounded(t *testing.T) {
	jobs := make([]View, 4000)
	for i := range jobs {
		jobs[i] = job(1, 1, 1, 1, 1, 1)
	}
	out := &Shares{Share: make([]float64, 3*len(jobs))}
	if err := (&gavelAlloX{}).Shares(t.Context(), state(3, 3, 3, jobs...), out); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&gavelAlloX{}).Shares(ctx, state(1, 1, 0, jobs[:10]...), out); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
