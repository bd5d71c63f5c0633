package capacity

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

const (
	// quantumUs is about how long the rounds are at least into which those of long jobs are merged, and weekTasks about
	// how many tasks the jobs of a week then have together at most: more are slower and say little more.
	quantumUs, weekTasks = int64(60e6), 100_000
	// weekPlans is about how many plans are made in a week at most: fewer are faster and somewhat worse.
	weekPlans = 300
	// planLatencyUs is how late plans are, as those of a helper that decides at this interval.
	planLatencyUs = 30e6
)

// holding is a task that holds GPUs.
type holding struct {
	sinceUs int64
	gpus    []string
}

type taskOf struct {
	job         int
	round, task int64
}

// play plays a drawn week to a policy on the cluster of an option. Policies know no sizes: they go by estimates and
// by the jobs that ended, as on a cluster.
func (p *plan) play(ctx context.Context, w *drawn, o *option, by policy) (week *Week, err error) {
	defer func() {
		if x := recover(); x != nil { // in a goroutine of its own it would end the process
			err = fmt.Errorf("capacity: a simulation panicked: %v\n%s", x, debug.Stack())
		}
	}()
	if w.first == len(w.jobs) {
		return &Week{Queue: make([]int, 24*p.days)}, nil
	}
	inst := p.draw.instance(w, o)
	merged := sim.Merge(inst, roundUs(inst))
	every := max(planLatencyUs, int64(p.days+warmUpDays)*dayUs/weekPlans)
	rules, err := by.info.NewTask(ctx, merged.Inst, policies.Config{Estimates: true,
		Rolling: rolling.Config{Aside: true, PlanEveryUs: every, MaxAgeUs: 2 * planLatencyUs}})
	if err != nil {
		return nil, err
	}
	index := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		index[inst.Jobs[i].ID] = i
	}
	kinds := map[string]string{}
	for i := range inst.Cluster.Nodes {
		n, at := &inst.Cluster.Nodes[i], 0
		for _, g := range n.GPUs {
			for range g.Count {
				kinds[fmt.Sprintf("%s/%d", n.Name, at)] = g.Type
				at++
			}
		}
	}
	held := make([]map[string]int64, len(inst.Jobs)) // by job and type, in microseconds
	running := map[taskOf]holding{}
	used, endUs := map[string]int64{}, w.beginUs+int64(p.days)*dayUs
	end := func(t taskOf, atUs int64) {
		h, ok := running[t]
		if !ok {
			return
		}
		delete(running, t)
		if held[t.job] == nil {
			held[t.job] = map[string]int64{}
		}
		for _, g := range h.gpus {
			held[t.job][kinds[g]] += atUs - h.sinceUs
			used[kinds[g]] += max(0, min(atUs, endUs)-max(h.sinceUs, w.beginUs))
		}
	}
	cfg := sim.Config{Name: by.name, NoSchedule: true, PlanLatencyUs: planLatencyUs,
		Faults: o.faults(&inst.Cluster, w.beginUs), Window: sim.Window{First: w.first, Last: len(inst.Jobs) - 1}}
	cfg.Log = func(rec wire.Record) error {
		e := &rec.Event
		switch e.Type {
		case hare.EventTaskEnded, hare.EventTaskFailed:
			at := e.AtUs
			t := taskOf{index[e.Job], e.Round, e.Task}
			if h, ok := running[t]; ok && inst.Jobs[t.job].Sync == hare.Relaxed && e.Type == hare.EventTaskEnded {
				at = h.sinceUs + e.ComputeUs // its GPUs are free while it synchronises
			}
			end(t, at)
		case hare.EventGPULeft:
			for t, h := range running {
				if slices.Contains(h.gpus, e.GPU) {
					for x := range running {
						if x == t || x.job == t.job && x.round == t.round && inst.Jobs[t.job].Sync != hare.Relaxed {
							end(x, e.AtUs)
						}
					}
				}
			}
		}
		for x := range rec.Decisions {
			d := &rec.Decisions[x]
			t := taskOf{index[d.Job], d.Round, d.Task}
			if d.Type == hare.DecisionStart {
				running[t] = holding{d.AtUs, slices.Clone(d.GPUs())}
			} else {
				delete(running, t)
			}
		}
		return ctx.Err()
	}
	out, err := merged.Run(ctx, online.Policy(rules), cfg)
	if err != nil {
		return nil, err
	}
	week = &Week{HeldUs: map[string]int64{}, UsedUs: used}
	for i := w.first; i < len(inst.Jobs); i++ {
		week.add(&inst.Jobs[i], &out.Jobs[i], held[i], w.beginUs)
	}
	week.Queue = make([]int, 24*p.days)
	for i := range inst.Jobs {
		const hourUs = 3600e6
		first := (inst.Jobs[i].ReleaseUs - w.beginUs + hourUs - 1) / hourUs
		for h := max(0, first); h < int64(len(week.Queue)) && h*hourUs < out.Jobs[i].StartUs-w.beginUs; h++ {
			week.Queue[h]++
		}
	}
	slices.Sort(week.WaitsS)
	slices.Sort(week.CompletionsS)
	return week, nil
}

// roundUs is about how long merged rounds are.
func roundUs(inst *hare.Instance) int64 {
	sum := 0.0
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if least := slices.MinFunc(j.On, func(a, b hare.Profile) int {
			return cmp.Compare(a.DurationUs(), b.DurationUs())
		}); j.Sync == hare.Gang {
			sum += float64(least.DurationUs()) * float64(j.Rounds) * float64(j.Tasks)
		}
	}
	return max(quantumUs, int64(sum/weekTasks)/quantumUs*quantumUs)
}

// add adds what became of a job.
func (w *Week) add(j *hare.Job, r *hare.JobResult, held map[string]int64, beginUs int64) {
	x := Job{ID: j.ID, GPUs: j.Tasks * j.TaskGPUs(), HeldUs: held,
		SubmitS: seconds(j.ReleaseUs - beginUs), StartS: seconds(r.StartUs - beginUs), EndS: seconds(r.EndUs - beginUs)}
	if len(j.Users) > 0 {
		x.User = j.Users[0]
	}
	if j.DeadlineUs > 0 {
		x.DeadlineS = seconds(j.DeadlineUs - beginUs)
		if w.Deadlines++; r.EndUs <= j.DeadlineUs {
			w.Met++
		}
	}
	for k, us := range held {
		w.HeldUs[k] += us
	}
	w.Jobs = append(w.Jobs, x)
	w.WaitsS = append(w.WaitsS, seconds(r.StartUs-j.ReleaseUs))
	w.CompletionsS = append(w.CompletionsS, seconds(r.EndUs-j.ReleaseUs))
}

func seconds(us int64) float64 { return float64(us) / 1e6 }

// instance is a week on the cluster of an option.
func (s *sampler) instance(w *drawn, o *option) *hare.Instance {
	out := *s.inst
	out.Objective = hare.ObjectiveWeightedJCT
	out.Cluster = o.cluster(&s.cluster)
	out.Jobs = w.jobs
	return &out
}
