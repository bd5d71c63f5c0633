package elastic

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare/sim"
)

// plain is a training in which a pass takes stepS(GPUs), including syncS of synchronisation.
// The progress of a step is the ratio of its batch to the initial batch.
type plain struct {
	stepS func(gpus int) float64
	syncS float64
	init  int
	ends  []float64
}

func (pl *plain) Step(placement []int, _ int) (stepS, syncS float64, err error) {
	n := 0
	for _, g := range placement {
		n += g
	}
	if n == 13 {
		return 0, 0, errors.New("13 GPUs were not measured")
	}
	return pl.stepS(n), pl.syncS, nil
}

func (pl *plain) Epoch(batch, epoch int) (gain, endProgress, endSteps float64, err error) {
	return float64(batch) / float64(pl.init), pl.ends[epoch], pl.ends[epoch] * float64(pl.init) / float64(batch), nil
}

func second(int) float64 { return 1 }

// elasticJob returns a job that makes one step a second on any GPUs.
func elasticJob(id string, arrivalS float64, ends ...float64) Job {
	return Job{
		ID: id, ArrivalS: arrivalS, Weight: 1, GPUs: 1, MaxGPUs: 8, Batch: 8, Epochs: len(ends),
		Limits: BatchLimits{Init: 8, Max: 64, MaxLocal: 8}, Training: &plain{second, 0, 8, ends},
	}
}

// script is a policy that allocates, at the times of its keys, the GPUs given by job, and
// otherwise changes nothing.
type script map[float64]map[string][]NodeGPUs

func (sc script) Allocate(_ context.Context, s *State) ([][]NodeGPUs, error) {
	var all [][]NodeGPUs
	for _, j := range s.Jobs {
		held := j.Held
		if given, ok := sc[s.NowS][j.ID]; ok {
			held = given
		}
		all = append(all, held)
	}
	return all, nil
}

func on(nodes ...int) []NodeGPUs {
	var held []NodeGPUs
	for i := 0; i < len(nodes); i += 2 {
		held = append(held, NodeGPUs{Node: nodes[i], GPUs: nodes[i+1]})
	}
	return held
}

func playElastic(t *testing.T, nodes []int, jobs []Job, p Policy, cfg RunConfig) *Outcome {
	t.Helper()
	o, err := Run(context.Background(), "test", Cluster{"T4", nodes}, jobs, p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// One job arrives at 5 s, gets a GPU at 60 s and starts its first step at 90 s. Its epochs end
// after 100 and 150 steps, at 190 and 240 s. The job holds one of two GPUs for 180 s.
func TestElasticOneJob(t *testing.T) {
	p := script{60: {"a": on(0, 1)}}
	jobs := []Job{elasticJob("a", 5, 100, 150)}
	o := playElastic(t, []int{2}, jobs, p, RunConfig{})
	if wait := o.Metrics(Cluster{"T4", []int{2}}, jobs).MeanWaitS; wait != 55 {
		t.Errorf("mean wait %v", wait)
	}
	if r := o.Jobs[0]; r.StartS != 60 || r.EndS != 240 || r.Epochs != 2 || r.Restarts != 0 {
		t.Errorf("record %+v", r)
	}
	if o.MeanJCTS != 235 || o.TotalS != 240 || o.MakespanS != 240 || o.Utilization != 180./480 ||
		o.Intervals != 3 || o.Starts != 1 || o.LostS != 30 {
		t.Errorf("outcome %+v", o)
	}
}

// What is left of an epoch is rounded to whole seconds, and halves are rounded to even: 0.5 s
// becomes 0, the next 1.5 s become 2 and the last 2.5 s become 2.
func TestElasticRounding(t *testing.T) {
	p := script{60: {"a": on(0, 1)}}
	o := playElastic(t, []int{1}, []Job{elasticJob("a", 0, .5, 2, 4.5)}, p, RunConfig{RestartS: -1})
	if got := o.Jobs[0].EndS; got != 64 {
		t.Errorf("ended at %v s, by hand 64", got)
	}
}

// A job with 8 samples in a step runs passes of 4 on two GPUs, and a step takes 1 s. At 120 s
// the job gets four GPUs on two nodes, where a step takes 0.5 s, and restarts until 150 s. Of
// its 130 steps, 30 are done by 120 s, and the others take 50 s, so the job ends at 200 s. The
// same GPUs in another order are a move, too; the same GPUs in the same order are not.
func TestElasticMoves(t *testing.T) {
	j := elasticJob("a", 60, 130)
	j.Training = &plain{func(gpus int) float64 { return 2 / float64(gpus) }, 0, 8, []float64{130}}
	p := script{60: {"a": on(0, 2)}, 120: {"a": on(0, 2, 1, 2)}, 180: {"a": on(0, 2, 1, 2)}}
	o := playElastic(t, []int{2, 2}, []Job{j}, p, RunConfig{})
	if r := o.Jobs[0]; r.EndS != 200 || r.Restarts != 1 || r.Preemptions != 1 || o.LostS != 30*2+30*4 {
		t.Errorf("record %+v, lost %v", r, o.LostS)
	}
	p[180] = map[string][]NodeGPUs{"a": on(1, 2, 0, 2)} // 60 of 100 steps are done by then
	o = playElastic(t, []int{2, 2}, []Job{j}, p, RunConfig{})
	if r := o.Jobs[0]; r.EndS != 230 || r.Restarts != 2 {
		t.Errorf("turned: record %+v", r)
	}
	p[180] = map[string][]NodeGPUs{"a": nil} // the job is stopped for 60 s
	p[240] = map[string][]NodeGPUs{"a": on(0, 2)}
	o = playElastic(t, []int{2, 2}, []Job{j, elasticJob("b", 900, 1)}, andB(p), RunConfig{})
	if r := o.Jobs[0]; r.EndS != 310 || r.Preemptions != 2 || r.Restarts != 2 {
		t.Errorf("stopped: record %+v", r)
	}
	// b arrives at 900 s. The policy is not called in the intervals without jobs from 360 s on.
	if r := o.Jobs[1]; r.StartS != 900 || r.EndS != 931 || o.Intervals != 6 {
		t.Errorf("b: record %+v, %d intervals", r, o.Intervals)
	}
}

func andB(p script) script {
	p[900] = map[string][]NodeGPUs{"b": on(0, 1)}
	return p
}

// Four passes of 4 samples on two GPUs take 4 × (1 − 0.25) + 0.25 = 3.25 s and make the
// progress of four steps. On one GPU, a batch above the initial batch takes two passes,
// although one would suffice.
func TestElasticPasses(t *testing.T) {
	j := elasticJob("a", 60, 48)
	j.Batch, j.Limits.MaxLocal = 32, 4
	j.Training = &plain{second, .25, 8, []float64{48}}
	o := playElastic(t, []int{2}, []Job{j}, script{60: {"a": on(0, 2)}}, RunConfig{RestartS: -1})
	if got := o.Jobs[0].EndS; got != 60+39 { // 39 s are 12 × 3.25 s
		t.Errorf("ended at %v s, by hand 99", got)
	}
	for _, c := range []struct{ batch, gpus, local, passes int }{
		{32, 2, 4, 4}, {8, 1, 4, 2}, {9, 1, 3, 3}, {64, 3, 3, 6}, {64, 16, 4, 1},
	} {
		j.Batch = c.batch
		if local, passes := j.Split(c.gpus); local != c.local || passes != c.passes {
			t.Errorf("batch %d on %d GPUs: %d passes of %d, by hand %d of %d", c.batch, c.gpus, passes, local,
				c.passes, c.local)
		}
	}
	j.Limits.MaxLocal = 64
	for batch, want := range map[int][2]int{8: {8, 1}, 9: {5, 2}} {
		if j.Batch = batch; true {
			if local, passes := j.Split(1); [2]int{local, passes} != want {
				t.Errorf("batch %d on one GPU: %d passes of %d, by hand %v", batch, passes, local, want)
			}
		}
	}
}

// Two jobs that span nodes 0 and 1 slow each other to half the speed. A job on node 1 alone
// neither slows others nor is slowed.
func TestElasticInterference(t *testing.T) {
	jobs := []Job{elasticJob("a", 60, 30), elasticJob("b", 60, 30), elasticJob("c", 60, 30)}
	p := script{60: {"a": on(0, 1, 1, 1), "b": on(1, 1, 0, 1), "c": on(1, 1)}}
	o := playElastic(t, []int{2, 3}, jobs, p, RunConfig{RestartS: -1, Interference: .5})
	for i, want := range []float64{120, 120, 90} {
		if got := o.Jobs[i].EndS; got != want {
			t.Errorf("job %d ended at %v s, by hand %v", i, got, want)
		}
	}
}

// The run ends with the last job that counts, and the figures are over the jobs that count.
func TestElasticWindow(t *testing.T) {
	jobs := []Job{elasticJob("a", 0, 10), elasticJob("b", 0, 20), elasticJob("c", 0, 9000)}
	p := script{30: {"a": on(0, 1), "b": on(0, 1), "c": on(0, 1)}}
	o := playElastic(t, []int{3}, jobs, p, RunConfig{First: 1, Last: 1, RestartS: -1, IntervalS: 30})
	if o.Counted != 1 || o.MeanJCTS != 50 || o.TotalS != 60 || o.Jobs[2].EndS != -1 || o.Jobs[2].StartS != 30 {
		t.Errorf("outcome %+v", o)
	}
}

func TestElasticRefusals(t *testing.T) {
	jobs := []Job{elasticJob("a", 0, 10), elasticJob("b", 0, 10)}
	give := func(a, b []NodeGPUs) script { return script{60: {"a": a, "b": b}} }
	for _, c := range []struct {
		name string
		p    Policy
		want string
	}{
		{"too many", give(on(1, 2), on(1, 1)),
			`sim: policy test at 60.000 s: GPU of node 1: job "b" gets 1 GPUs there, 0 of 2 are left`},
		{"no node", give(on(2, 1), nil), "there is no such node"},
		{"twice", give(on(0, 1, 0, 1), nil), `named twice for job "a"`},
		{"none", give(on(0, 0), nil), `job "a" gets 0 GPUs there`},
		{"idle", give(nil, nil), `sim: jobs wait forever: policy test at 60 s gives job "a" nothing`},
		{"short", shortPolicy{}, "it allocates to 1 of 2 jobs"},
	} {
		_, err := Run(context.Background(), "test", Cluster{"T4", []int{2, 2}}, jobs, c.p,
			RunConfig{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		var wrong *sim.AllocationError
		if strings.Contains(c.want, "node") != errors.As(err, &wrong) && c.name != "twice" && c.name != "none" {
			t.Errorf("%s: %T", c.name, err)
		}
	}
	bad := func(change func(*Job)) []Job {
		j := elasticJob("a", 0, 10)
		change(&j)
		return []Job{j}
	}
	for name, jobs := range map[string][]Job{
		"weight":   bad(func(j *Job) { j.Weight = math.NaN() }),
		"batch":    bad(func(j *Job) { j.Batch = 0 }),
		"training": bad(func(j *Job) { j.Training = nil }),
		"limits":   bad(func(j *Job) { j.Limits.Max = 0 }),
		"arrival":  bad(func(j *Job) { j.ArrivalS = -1 }),
		"step": bad(func(j *Job) {
			j.Training = &plain{func(int) float64 { return math.Inf(1) }, 0, 8, []float64{1}}
		}),
	} {
		if _, err := Run(context.Background(), "test", Cluster{"T4", []int{2}}, jobs,
			give(on(0, 1), nil), RunConfig{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, cfg := range map[string]RunConfig{"interval": {IntervalS: -1}, "restart": {RestartS: 2e9},
		"interference": {Interference: 1}, "window": {First: 1, Last: 2}} {
		if _, err := Run(context.Background(), "test", Cluster{"T4", []int{2}}, jobs,
			give(on(0, 1), nil), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, nodes := range [][]int{nil, {2, 0}} {
		if _, err := Run(context.Background(), "test", Cluster{"T4", nodes}, jobs, give(on(0, 1), nil),
			RunConfig{}); err == nil {
			t.Errorf("nodes %v: no error", nodes)
		}
	}
	wide := []Job{elasticJob("a", 0, 10)}
	_, err := Run(context.Background(), "test", Cluster{"T4", []int{16}}, wide, give(on(0, 13), nil),
		RunConfig{})
	if err == nil || err.Error() != `sim: job "a" at 60 s, as policy test places it: 13 GPUs were not measured` {
		t.Errorf("not measured: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, "test", Cluster{"T4", []int{2}}, jobs, give(nil, nil),
		RunConfig{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

type shortPolicy struct{}

func (shortPolicy) Allocate(context.Context, *State) ([][]NodeGPUs, error) {
	return make([][]NodeGPUs, 1), nil
}

// coAdaptive gives the first job a GPU, starts it with one pass of 8, and lets it do two passes of
// 8 after it has measured anything.
type coAdaptive struct {
	seen  []TrainingStep
	views []View
}

func (co *coAdaptive) Allocate(_ context.Context, s *State) ([][]NodeGPUs, error) {
	co.views = append(co.views, s.Jobs...)
	if s.NowS < 120 {
		return make([][]NodeGPUs, len(s.Jobs)), nil
	}
	return [][]NodeGPUs{on(0, 1)}, nil
}

func (co *coAdaptive) Split(*Job, int, []int) (local, passes int) {
	return 8, min(2, len(co.seen)+1)
}

func (co *coAdaptive) Observe(_ *Job, _ int, seen TrainingStep) error {
	co.seen = append(co.seen, seen)
	return nil
}

// gradients is plain with gradients whose square is the batch and whose variance is the epoch.
type gradients struct{ plain }

func (*gradients) Gradients(batch, epoch int) (sqr, variance float64, err error) {
	return float64(batch), float64(epoch), nil
}

// The job arrives at 60 s, when it gets nothing, and holds a GPU from 120 s on. It trains from 150 s:
// with 8 samples a second, 30 of its 40 steps are done by 180 s. Then it makes two steps of progress
// in 1.75 s, so that its first epoch takes 8.75 s more, which are rounded to 9, and the other
// 20 steps 17.5 s, rounded to 18.
func TestElasticBatches(t *testing.T) {
	p := &coAdaptive{}
	j := elasticJob("a", 60, 40, 60)
	j.Training = &gradients{plain{second, .25, 8, []float64{40, 60}}}
	o := playElastic(t, []int{2}, []Job{j}, p, RunConfig{})
	if r := o.Jobs[0]; r.StartS != 120 || r.EndS != 180+9+18 {
		t.Errorf("record %+v", r)
	}
	want := []TrainingStep{{1, 1, 8, 1, .25, 8, 0}, {1, 1, 8, 1, .25, 16, 0}, {1, 1, 8, 1, .25, 16, 1}}
	if !slices.Equal(p.seen, want) {
		t.Errorf("observed %v, by hand %v", p.seen, want)
	}
	if v := p.views[2]; v.AttainedS != 60 || v.Restarts != 0 {
		t.Errorf("view %+v", v)
	}
	// A job with a fixed batch keeps its own, in two passes of 8.
	j.FixedBatch, j.Batch, p = true, 16, &coAdaptive{}
	if playElastic(t, []int{2}, []Job{j}, p, RunConfig{}); p.seen[0].Sqr != 16 {
		t.Errorf("observed %v", p.seen)
	}
	// Without gradients, a policy cannot choose batches.
	j.Training = &plain{second, .25, 8, []float64{40, 60}}
	if _, err := Run(context.Background(), "test", Cluster{"T4", []int{2}}, []Job{j}, p,
		RunConfig{}); err == nil || !strings.Contains(err.Error(), "no gradients were measured") {
		t.Errorf("no gradients: %v", err)
	}
}

// idlePolicy never gives a GPU, though it chooses batches.
type idlePolicy struct{ coAdaptive }

func (*idlePolicy) Allocate(_ context.Context, s *State) ([][]NodeGPUs, error) {
	return make([][]NodeGPUs, len(s.Jobs)), nil
}

func TestElasticIdle(t *testing.T) {
	_, err := Run(context.Background(), "test", Cluster{"T4", []int{1}},
		[]Job{elasticJob("a", 0, 10)}, &idlePolicy{}, RunConfig{})
	if !errors.Is(err, sim.ErrStalled) {
		t.Errorf("%v", err)
	}
}
