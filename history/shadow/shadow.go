// Package shadow compares what happened on a cluster with what a scheduler could have made of the
// same jobs: with what no scheduler can go below, with Slurm's own rule simulated on the same jobs,
// with Hare's policy rolling, which is told only what was known at each time, and with a plan in
// hindsight. The package is pure: it has no clock, no input and no output but its documents.
package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

// ErrNoJob says that the window has no job that a scheduler could have placed.
var ErrNoJob = errors.New("shadow: every job of the window already ran when the window began")

// Compare compares a history with what could have been. The errors of ctx and of instances that
// simulations refuse come back as they are.
func Compare(ctx context.Context, built *history.Built, cfg Config) (*Report, *Schedules, error) {
	cp := &comparison{ctx: ctx, cfg: cfg, built: built, inst: built.Instance}
	if cp.cfg.Draws == 0 {
		cp.cfg.Draws = 2000
	}
	if err := cp.inst.RefuseRules("hare shadow", hare.RuleNodes|hare.RuleProgress|hare.RuleRunning); err != nil {
		return nil, nil, err
	}
	cp.count()
	if len(cp.counted) == 0 {
		return nil, nil, ErrNoJob
	}
	return cp.run()
}

// run makes all parts of the report.
func (cp *comparison) run() (*Report, *Schedules, error) {
	cp.rep = &Report{Hare: DocumentVersion, Version: cp.cfg.Version, Source: cp.built.Report, Seed: cp.cfg.Seed,
		OriginUs: cp.built.OriginUs}
	cp.out.Instance, cp.out.Happened = cp.inst, cp.built.Happened
	was := happenedOutcome(cp.built)
	cp.was, cp.kinds = was, map[string]string{}
	cluster := newCluster(cp.inst)
	for name, g := range cluster.gpu {
		cp.kinds[name] = cluster.types[g.kind]
	}
	cp.describe(was)

	replayed, online, pinned, err := cp.play()
	if err != nil {
		return nil, nil, err
	}
	figures := make(chan struct{})
	go func() { // beside the plan for GPUs without nodes
		defer close(figures)
		cp.figures(was, replayed, online)
	}()
	if cp.cfg.Splits {
		err = cp.splits(pinned)
	}
	cp.begin("figures")
	if <-figures; err != nil {
		return nil, nil, err
	}
	return cp.rep, &cp.out, nil
}

// figures computes the figures of the schedules.
func (cp *comparison) figures(was, replayed, online *outcome) {
	best := resultOutcome(cp.inst, cp.out.Hindsight)
	rows := []struct {
		row *Row
		of  *outcome
		res *hare.Result
	}{
		{&cp.rep.Happened, was, cp.built.Happened}, {&cp.rep.Slurm, replayed, cp.out.Slurm},
		{&cp.rep.Online, online, cp.out.Hare}, {&cp.rep.Hindsight, best, cp.out.Hindsight},
	}
	for _, r := range rows {
		cp.fill(r.row, r.of, r.res)
	}
	cp.compareJobs(was, replayed, online)
	cp.rep.Losses.Happened = cp.idle(was)
	cp.rep.Losses.Online = cp.idle(online)
}

// play simulates Slurm and Hare and makes the plans in hindsight. The simulated Slurm and the plan that keeps the
// types of jobs need nothing of the others, and are made beside them.
func (cp *comparison) play() (replayed, online *outcome, pinned *hare.Result, err error) {
	ctx, cancel := context.WithCancelCause(cp.ctx)
	defer cancel(nil)
	inst := cp.inst
	if !cp.cfg.Slurm.AnyType {
		inst = cp.pinned()
	}
	beside := make(chan struct{})
	cp.begin("slurm")
	go func() {
		defer close(beside)
		var err error
		progress := func(done float64) { cp.tell("slurm", done) }
		replayed, err = playSlurm(ctx, inst, cp.built.Jobs, cp.cfg.Slurm, progress)
		if err == nil && cp.cfg.Splits {
			pinned, err = cp.solve(ctx, cp.pinned(), nil)
		}
		if err != nil {
			cancel(err)
		}
	}()
	online, err = cp.plan(ctx)
	if err != nil {
		cancel(err)
	}
	<-beside
	if first := context.Cause(ctx); first != nil {
		return nil, nil, nil, first
	}
	cp.out.Slurm = replayed.result(cp.inst)
	return replayed, online, pinned, nil
}

// plan simulates Hare and makes the plan in hindsight.
func (cp *comparison) plan(ctx context.Context) (*outcome, error) {
	cp.begin("hare")
	online, err := playOnline(ctx, cp.built, cp.cfg.Online, func(done float64) { cp.tell("hare", done) })
	if err != nil {
		return nil, err
	}
	cp.rep.Coarse = len(cp.inst.Jobs) > cmp.Or(cp.cfg.Online.Exact, onlineExact)
	cp.out.Hare = online.result(cp.inst)
	cp.begin("hindsight")
	return online, cp.hindsight(ctx)
}

func (cp *comparison) begin(part string) { cp.report(part, 0, 1) }

// report says that so many steps of a part are done.
func (cp *comparison) report(part string, done, steps int) {
	cp.tell(part, float64(done)/float64(steps))
}

// tell hands progress on in the order of Parts: what is made beside an earlier part is told once a later one is.
func (cp *comparison) tell(part string, done float64) {
	if cp.cfg.Progress == nil {
		return
	}
	cp.telling.Lock()
	defer cp.telling.Unlock()
	if at := slices.Index(cp.cfg.Parts(), part); at >= cp.told {
		cp.told = at
		cp.cfg.Progress(part, done)
	}
}

// count finds the jobs that the figures are about.
func (cp *comparison) count() {
	cp.unit = true
	for i := range cp.inst.Jobs {
		j := &cp.inst.Jobs[i]
		cp.unit = cp.unit && j.WeightMicro == 1e6
		if !j.Running() {
			cp.counted = append(cp.counted, i)
		}
	}
}

// describe says what the report is about.
func (cp *comparison) describe(was *outcome) {
	r := cp.rep
	r.Jobs, r.RunningAtBegin = len(cp.counted), len(cp.inst.Jobs)-len(cp.counted)
	for _, i := range cp.counted {
		j := cp.built.Jobs[i]
		if j.SubmitUs < cp.built.OriginUs {
			r.WaitingAtBegin++
		}
		if j.EndUs == 0 {
			r.RunningAtEnd++
		}
	}
	for _, n := range cp.built.Report.LeftOut {
		if n.What == "had not started when the log ended" {
			r.WaitingAtEnd = n.Count
		}
	}
	for _, end := range was.endUs {
		r.WindowS = max(r.WindowS, seconds(end))
	}
	r.WeightsOne = cp.unit
	sum := newCluster(cp.inst)
	for k, name := range sum.types {
		gpus := int64(0)
		for i := range sum.nodes {
			gpus += sum.nodes[i].count[k]
		}
		r.GPUs = append(r.GPUs, TypeGPUs{Type: name, GPUs: gpus})
	}
}

// hindsight solves the instance with all that is known now, and bounds it.
func (cp *comparison) hindsight(ctx context.Context) error {
	res, err := cp.solve(ctx, cp.inst, cp.out.Hare.Schedule)
	if err != nil {
		return err
	}
	cp.out.Hindsight = res
	if rep := verify.Check(cp.inst, res); !rep.OK {
		return fmt.Errorf("shadow: the plan in hindsight does not pass the verifier: %s", rep)
	}
	b := &cp.rep.Bound
	b.Method, b.Total = res.Metrics.BoundMethod, res.Bound.RoundDown().String()
	b.WeightedMeanS = floorTo(res.Bound.Float()/cp.weight(), 1e3)
	if cp.unit {
		b.MeanCompletionS = &b.WeightedMeanS
	}
	least, p95 := cp.least()
	b.LeastS, b.P95CompletionS = least, p95
	b.QueueS = math.Max(0, b.WeightedMeanS-least)
	return nil
}

// solve makes a plan of an instance in hindsight.
func (cp *comparison) solve(ctx context.Context, inst *hare.Instance, start *hare.Schedule) (*hare.Result, error) {
	work := cmp.Or(cp.cfg.WorkLimit, defaultWork)
	res, err := solver.Solve(ctx, inst, hare.Options{WorkLimit: work, Seed: 1}, solver.Config{Version: cp.cfg.Version,
		Start: start})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case res.Schedule == nil || res.Value == nil || res.Bound == nil:
		return nil, fmt.Errorf("shadow: there is no plan in hindsight: %s", res.Status)
	}
	return res, nil
}

// splits tells order, types and nodes apart. pinned is the plan for jobs that keep their types.
func (cp *comparison) splits(pinned *hare.Result) error {
	cp.report("splits", 1, 2)
	res, b := cp.out.Hindsight, &cp.rep.Bound
	pooled, err := cp.solve(cp.ctx, pooled(cp.inst), res.Schedule)
	if err != nil {
		return err
	}
	mean := func(a *hare.Amount) float64 { return a.Float() / cp.weight() }
	b0, b1, b2 := mean(pinned.Value), mean(res.Value), mean(pooled.Value)
	cp.rep.Losses.Steps = []Step{
		{"happened", "as it was", mean(cp.built.Happened.Value)},
		{"order", "with the best order found, each job on the GPU types where it ran", b0},
		{"types", "and the best types found", math.Min(b0, b1)},
		{"nodes", "and if the GPUs of a type were not spread over nodes", math.Min(math.Min(b0, b1), b2)},
		{"proof", "what no scheduler can go below", b.WeightedMeanS},
	}
	return nil
}

// defaultWork is the default work limit of a plan in hindsight: about 5 s of one core for some hundred
// jobs and more for many.
const defaultWork = 4_000_000

// weight is the sum of the weights of the jobs that count.
func (cp *comparison) weight() float64 {
	sum := 0.0
	for _, i := range cp.counted {
		sum += float64(cp.inst.Jobs[i].WeightMicro) / 1e6
	}
	return sum
}

// least is the mean by weight of the times that jobs take on their fastest types, which no job can
// go below, and the 95th percentile of these times.
func (cp *comparison) least() (mean, p95 float64) {
	var all []float64
	for _, i := range cp.counted {
		j := &cp.inst.Jobs[i]
		us := j.On[0].DurationUs()
		for _, p := range j.On {
			us = min(us, p.DurationUs())
		}
		s := seconds(us * j.Rounds)
		all = append(all, s)
		mean += s * float64(j.WeightMicro) / 1e6
	}
	return mean / cp.weight(), percentile(all, 0.95)
}

// pinned is the instance with each job kept to the types on which it ran.
func (cp *comparison) pinned() *hare.Instance {
	out := *cp.inst
	out.Jobs = append([]hare.Job(nil), cp.inst.Jobs...)
	for i := range out.Jobs {
		if out.Jobs[i].Running() {
			continue
		}
		ran := ranOn(cp.was, cp.kinds, i)
		var on []hare.Profile
		for _, p := range out.Jobs[i].On {
			if ran[p.Type] {
				on = append(on, p)
			}
		}
		if len(on) > 0 {
			out.Jobs[i].On = on
		}
	}
	return &out
}

// pooled is the instance with the GPUs of each job free to be on any of its nodes.
func pooled(inst *hare.Instance) *hare.Instance {
	out := *inst
	out.Jobs = append([]hare.Job(nil), inst.Jobs...)
	for i := range out.Jobs {
		j := &out.Jobs[i]
		j.Tasks *= j.TaskGPUs()
		j.GPUsPerTask, j.CPUMilliPerTask, j.MemoryMiBPerTask, j.DistinctNodes = 0, 0, 0, false
	}
	return &out
}
