package shadow

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// outcome is when each job of an instance ran and on which GPUs.
type outcome struct {
	startUs, endUs []int64
	gpus           [][]string // by job: g GPUs of each task, one task after another
	// lost counts the attempts that ended because a node left.
	lost int
}

func newOutcome(jobs int) *outcome {
	return &outcome{startUs: make([]int64, jobs), endUs: make([]int64, jobs), gpus: make([][]string, jobs)}
}

// happenedOutcome is what the cluster did.
func happenedOutcome(built *history.Built) *outcome {
	return resultOutcome(built.Instance, built.Happened)
}

// resultOutcome reads the outcome of a result.
func resultOutcome(inst *hare.Instance, res *hare.Result) *outcome {
	o := newOutcome(len(inst.Jobs))
	for i := range inst.Jobs {
		if j := &inst.Jobs[i]; j.Running() {
			o.gpus[i], o.endUs[i] = j.Progress.GPUs, model.RunningUntilUs(inst, i)
		}
	}
	for i := range res.Jobs {
		o.startUs[i], o.endUs[i] = res.Jobs[i].StartUs, res.Jobs[i].EndUs
	}
	index := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		index[inst.Jobs[i].ID] = i
	}
	for i := range res.Schedule.Lanes {
		l := &res.Schedule.Lanes[i]
		for x := range l.Job {
			j := index[res.Schedule.Jobs[l.Job[x]]]
			if !slices.Contains(o.gpus[j], l.GPU) {
				o.gpus[j] = append(o.gpus[j], l.GPU)
			}
		}
	}
	return o
}

// result writes an outcome as a result without a bound. Jobs that ran when the window began have no
// entries, as their GPUs stand in the instance.
func (o *outcome) result(inst *hare.Instance) *hare.Result {
	s := &hare.Schedule{Jobs: make([]string, len(inst.Jobs))}
	res := &hare.Result{InstanceSHA256: wire.SHA256(inst), Status: hare.StatusSucceeded, Reproducible: true,
		Objective: hare.ObjectiveWeightedJCT, Options: hare.Options{Detail: "lanes"}, Schedule: s,
		Jobs: make([]hare.JobResult, len(inst.Jobs))}
	var value hare.Amount
	order := make([]int, 0, len(inst.Jobs))
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		s.Jobs[i], order = j.ID, append(order, i)
		res.Jobs[i] = hare.JobResult{ID: j.ID, StartUs: o.startUs[i], EndUs: o.endUs[i]}
		cost := hare.Product(j.WeightMicro, o.endUs[i]-j.ReleaseUs)
		if j.Running() {
			if res.Constant == nil {
				res.Constant = &hare.Amount{}
			}
			*res.Constant = res.Constant.Add(cost)
			continue
		}
		value = value.Add(cost)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.startUs[a], o.startUs[b]) })
	lanes := map[string]*hare.Lane{}
	for _, i := range order {
		j := &inst.Jobs[i]
		if j.Running() {
			continue
		}
		for _, gpu := range o.gpus[i] {
			l := lanes[gpu]
			if l == nil {
				l = &hare.Lane{GPU: gpu}
				lanes[gpu] = l
			}
			l.Job = append(l.Job, int32(i))
			l.StartUs = append(l.StartUs, o.startUs[i])
		}
	}
	c := newCluster(inst)
	for n := range c.nodes {
		at := 0
		for k := range c.types {
			at += int(c.nodes[n].count[k])
		}
		for x := range at {
			if l := lanes[c.nodes[n].name+"/"+itoa(x)]; l != nil {
				s.Lanes = append(s.Lanes, *l)
			}
		}
	}
	res.Value = &value
	return res
}

// accepted reports whether the verifier accepts a result, and otherwise why not.
func accepted(inst *hare.Instance, res *hare.Result) (ok bool, why string) {
	if rep := verify.Check(inst, res); !rep.OK {
		return false, rep.String()
	}
	return true, ""
}

// ranOn is the set of types on which a job of the history ran.
func ranOn(happened *outcome, kinds map[string]string, job int) map[string]bool {
	ran := map[string]bool{}
	for _, gpu := range happened.gpus[job] {
		ran[kinds[gpu]] = true
	}
	return ran
}

// play plays the jobs of an instance to a policy on a virtual clock. Progress goes by events of a type.
func play(ctx context.Context, inst *hare.Instance, p online.Policy, cfg sim.Config, by hare.EventType,
	progress func(done float64)) (*outcome, error) {
	o := newOutcome(len(inst.Jobs))
	index := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		index[j.ID] = i
		if j.Running() {
			o.gpus[i] = j.Progress.GPUs
		}
	}
	ran := make([]int64, len(inst.Jobs)) // the first round of the last attempt, to tell its start
	for i := range ran {
		ran[i] = -1
	}
	done := 0
	cfg.Log = func(rec wire.Record) error {
		if rec.Event.Type == by {
			if done++; done*100/len(ran) > (done-1)*100/len(ran) {
				progress(float64(done) / float64(len(ran)))
			}
		}
		for x := range rec.Decisions {
			d := &rec.Decisions[x]
			i := index[d.Job]
			switch {
			case d.Type != hare.DecisionStart:
				if d.Round == ran[i] {
					ran[i], o.gpus[i] = -1, nil
				}
			case ran[i] < 0 && !(inst.Jobs[i].Running() && len(o.gpus[i]) > 0):
				ran[i] = d.Round
				fallthrough
			case d.Round == ran[i]:
				o.gpus[i] = append(o.gpus[i], d.GPUs()...)
			}
		}
		return nil
	}
	out, err := sim.Run(ctx, inst, p, cfg)
	if err != nil {
		return nil, fmt.Errorf("shadow: %w", err)
	}
	for i := range out.Jobs {
		o.startUs[i], o.endUs[i] = out.Jobs[i].StartUs, out.Jobs[i].EndUs
	}
	o.lost = int(out.Lost)
	return o, nil
}
