package sim_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

// replay follows the log of a run, computes its own totals without the engine, and returns
// the first fault. It takes the place of the verifier for runs in which tasks do not take the
// times of their profiles.
type replay struct {
	inst *hare.Instance
	cfg  sim.Config
	gpus map[string]*replayGPU
	jobs map[string]*replayJob

	atUs                                                  int64
	tasks, lost, lostUs, failures, varied, held, switchUs int64
}

type replayGPU struct {
	kind, node, job string // job holds the GPU
	here            bool
	last            string // the job that began last since the GPU joined
	takenUs         int64
	beginUs         int64
	computes        bool
}

type replayJob struct {
	spec    *hare.Job
	round   int64
	running map[int64]string // the GPU by task
	ended   map[int64]bool
	began   map[int64]int64 // the begin of compute by task
	span    map[int64]int64 // the compute time by task, if compute has ended
	again   bool            // the round failed and must start now
	startUs int64
	over    bool
}

func newReplay(inst *hare.Instance, cfg sim.Config) *replay {
	r := &replay{inst: inst, cfg: cfg, gpus: map[string]*replayGPU{}, jobs: map[string]*replayJob{}}
	for _, n := range inst.Cluster.Nodes {
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				r.gpus[fmt.Sprintf("%s/%d", n.Name, at)] = &replayGPU{kind: g.Type, node: n.Name,
					here: n.Windows == nil && len(n.Busy) == 0}
				at++
			}
		}
	}
	for i := range inst.Jobs {
		r.jobs[inst.Jobs[i].ID] = &replayJob{spec: &inst.Jobs[i], round: -1, startUs: -1}
	}
	return r
}

func (r *replay) record(rec wire.Record) error {
	e := &rec.Event
	fail := func(format string, args ...any) error {
		return fmt.Errorf("event %d (%v at %d of %s task %d round %d on %s): %s", e.Seq, e.Type, e.AtUs, e.Job,
			e.Task, e.Round, e.GPU, fmt.Sprintf(format, args...))
	}
	if e.AtUs < r.atUs {
		return fail("time goes back")
	}
	r.atUs = e.AtUs
	j, g := r.jobs[e.Job], r.gpus[e.GPU]
	toWithdraw := map[string]bool{}
	if e.GPU != "" && e.Type != hare.EventGPUJoined && e.Type != hare.EventGPULeft &&
		(j == nil || j.running[e.Task] != e.GPU || j.round != e.Round) {
		return fail("no such task runs there")
	}
	switch e.Type {
	case hare.EventJobArrived:
		if j.round != -1 || e.AtUs != j.spec.ReleaseUs {
			return fail("arrives wrongly")
		}
		j.open(0)
	case hare.EventComputeEnded:
		if !g.computes || g.job != e.Job || j.spec.Sync != hare.Relaxed {
			return fail("does not compute")
		}
		j.span[e.Task] = r.atUs - g.beginUs
		r.leaves(g, g.beginUs)
	case hare.EventTaskEnded:
		p := profile(j.spec, g.kind)
		if e.ComputeUs < 1 || e.SyncUs < p.SyncUs || r.cfg.Stretch == nil && e.ComputeUs != p.ComputeUs ||
			r.cfg.Network.Bytes == nil && e.SyncUs != p.SyncUs {
			return fail("took %d + %d, not %d + %d", e.ComputeUs, e.SyncUs, p.ComputeUs, p.SyncUs)
		}
		if e.ComputeUs != p.ComputeUs || e.SyncUs != p.SyncUs {
			r.varied++
		}
		if e.AtUs != j.began[e.Task]+e.ComputeUs+e.SyncUs {
			return fail("began at %d", j.began[e.Task])
		}
		if j.spec.Sync == hare.Relaxed && g.job == e.Job && g.computes && g.beginUs == j.began[e.Task] &&
			e.SyncUs == 0 {
			r.leaves(g, g.beginUs)
		}
		if j.spec.Sync == hare.Relaxed {
			r.tasks++
		}
		delete(j.running, e.Task)
		j.ended[e.Task] = true
		if int64(len(j.ended)) == j.spec.Tasks {
			for _, us := range j.began {
				if j.startUs < 0 || us < j.startUs {
					j.startUs = us
				}
			}
			if j.spec.Sync != hare.Relaxed {
				r.tasks += j.spec.Tasks
				for _, x := range r.gpus {
					if x.job == e.Job {
						r.leaves(x, x.beginUs)
					}
				}
			}
			j.open(j.round + 1)
		}
	case hare.EventTaskFailed:
		r.failures++
		if j.spec.Sync == hare.Relaxed {
			if !r.left(j, e.Task) {
				r.loses(g)
			} else {
				r.held -= j.span[e.Task]
				r.lostUs += j.span[e.Task]
			}
			r.lost++
			delete(j.running, e.Task)
			break
		}
		r.losesRound(e.Job, j, e.GPU, toWithdraw)
		j.again = true
	case hare.EventJobEnded:
		if j.round != j.spec.Rounds || j.over || len(j.ended) > 0 {
			return fail("ends in round %d", j.round)
		}
		j.over = true
		for task, id := range j.running { // the tasks are of a round that the job does not have
			toWithdraw[key(e.Job, task, id)] = true
			r.gpus[id].job = ""
		}
		for _, x := range r.gpus {
			if x.job == e.Job {
				x.job = ""
			}
		}
	case hare.EventGPUJoined:
		if g.here {
			return fail("is here")
		}
		g.here, g.last = true, ""
	case hare.EventGPULeft:
		if !g.here {
			return fail("is not here")
		}
		if h := r.jobs[g.job]; h != nil && h.spec.Sync == hare.Relaxed {
			for task, id := range h.running {
				if id == e.GPU && h.began[task] == g.beginUs && !r.left(h, task) {
					toWithdraw[key(g.job, task, id)] = true
					delete(h.running, task)
				}
			}
			r.lost++
			r.loses(g)
		} else if h != nil {
			id := g.job
			r.losesRound(id, h, "", toWithdraw)
		}
		g.here = false
	}
	var gang []string
	for _, d := range rec.Decisions {
		j, g := r.jobs[d.Job], r.gpus[d.GPU]
		k := key(d.Job, d.Task, d.GPU)
		if d.Type == hare.DecisionWithdraw {
			if !toWithdraw[k] {
				return fail("%v is not void", d)
			}
			delete(toWithdraw, k)
			continue
		}
		switch {
		case d.AtUs != e.AtUs, j == nil, g == nil, !g.here, j.over, j.round < 0, d.Round != j.round, d.Task < 0,
			d.Task >= j.spec.Tasks:
			return fail("%v cannot be", d)
		case j.ended[d.Task] || j.running[d.Task] != "":
			return fail("%v: it runs or has ended", d)
		case g.job != "" && !(j.again && g.job == d.Job && !g.computes) &&
			!(j.spec.Sync == hare.Rigid && g.job == d.Job && !g.computes):
			return fail("%v: %s holds the GPU", d, g.job)
		case profile(j.spec, g.kind) == nil:
			return fail("%v: no profile", d)
		}
		j.running[d.Task] = d.GPU
		beginUs := e.AtUs
		if g.last != "" && g.last != d.Job && j.round < j.spec.Rounds {
			beginUs += r.cfg.SwitchUs
		}
		g.job, g.computes, g.takenUs, g.beginUs = d.Job, true, e.AtUs, beginUs
		if j.round < j.spec.Rounds {
			g.last = d.Job
		}
		j.began[d.Task] = beginUs
		if j.spec.Sync != hare.Relaxed && !slices.Contains(gang, d.Job) {
			gang = append(gang, d.Job)
		}
	}
	if len(toWithdraw) > 0 {
		return fail("%v not withdrawn", toWithdraw)
	}
	for _, id := range gang {
		j := r.jobs[id]
		if int64(len(j.running)) != j.spec.Tasks {
			return fail("%d of %s start together", len(j.running), id)
		}
		kinds, latest := map[string]bool{}, int64(0)
		for task, g := range j.running {
			kinds[r.gpus[g].kind] = true
			latest = max(latest, j.began[task])
		}
		if len(kinds) > 1 && !j.spec.Mix {
			return fail("%s mixes types", id)
		}
		for task, g := range j.running {
			j.began[task], r.gpus[g].beginUs = latest, latest
		}
		j.again = false
	}
	for id, j := range r.jobs {
		if j.again {
			return fail("%s does not start again", id)
		}
	}
	return nil
}

func key(job string, task int64, gpu string) string { return fmt.Sprint(job, " ", task, " ", gpu) }

func profile(j *hare.Job, kind string) *hare.Profile {
	for i := range j.On {
		if j.On[i].Type == kind {
			return &j.On[i]
		}
	}
	return nil
}

func (rj *replayJob) open(round int64) {
	rj.round, rj.running, rj.ended, rj.began = round, map[int64]string{}, map[int64]bool{}, map[int64]int64{}
	rj.span = map[int64]int64{}
}

// left reports whether a relaxed task has left its GPU and synchronises.
func (r *replay) left(j *replayJob, task int64) bool {
	g := r.gpus[j.running[task]]
	return g.job != j.spec.ID || g.beginUs != j.began[task]
}

// leaves adds the time of a task on its GPU to the totals.
func (r *replay) leaves(g *replayGPU, beginUs int64) {
	r.switchUs += beginUs - g.takenUs
	r.held += r.atUs - beginUs
	g.computes = false
	g.takenUs, g.beginUs = r.atUs, r.atUs
	j := r.jobs[g.job]
	if j.spec.Sync != hare.Rigid || j.round+1 == j.spec.Rounds {
		g.job = ""
	}
}

func (r *replay) loses(g *replayGPU) {
	beginUs := min(g.beginUs, r.atUs)
	r.switchUs += beginUs - g.takenUs
	r.lostUs += r.atUs - beginUs
	g.takenUs, g.beginUs = r.atUs, r.atUs
	g.job, g.computes = "", false
}

func (r *replay) losesRound(id string, j *replayJob, but string, toWithdraw map[string]bool) {
	for _, x := range r.gpus {
		if x.job == id {
			r.loses(x)
		}
	}
	for task, g := range j.running {
		r.lost++
		if g != but {
			toWithdraw[key(id, task, g)] = true
		}
	}
	round := j.round
	j.open(round)
}

// check compares the totals with those of the engine.
func (r *replay) check(t *testing.T, out *sim.Outcome) {
	t.Helper()
	var tasks int64
	for i := range r.inst.Jobs {
		j := r.jobs[r.inst.Jobs[i].ID]
		tasks += j.spec.Rounds * j.spec.Tasks
		if !j.over || out.Jobs[i].StartUs != j.startUs {
			t.Fatalf("job %s: over %v, started at %d, not %d", j.spec.ID, j.over, out.Jobs[i].StartUs, j.startUs)
		}
	}
	if r.tasks != tasks || r.tasks != out.Tasks || r.lost != out.Lost || r.failures != out.Failures ||
		out.Varied < r.varied || r.lostUs != out.LostUs || r.switchUs != out.SwitchUs {
		t.Fatalf("replayed %d tasks, %d lost for %d µs, %d failures, %d varied, %d µs switched; simulated %+v",
			r.tasks, r.lost, r.lostUs, r.failures, r.varied, r.switchUs, out)
	}
	m := out.Metrics(r.inst)
	if service := float64(r.held) / 1e6 / m.Utilization; math.Abs(m.Utilization*service-float64(r.held)/1e6) > 1e-6 ||
		m.Utilization > 1+1e-9 {
		t.Fatalf("held %d µs, use %v", r.held, m.Utilization)
	}
}
