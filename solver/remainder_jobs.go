package solver

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// startedWork is the last started round of a job that has not ended at the instant, or the
// whole of a rigid job.
type startedWork struct {
	holds []gpuHold
	// beganUs is when the work began, on the clock of the whole. It is before 0 for work that
	// ran at 0.
	beganUs int64
	// lost is a GPU that the work needs and the whole instance does not offer; "" if it offers
	// all of them.
	lost string
	// first is the first unit of the round.
	first int64
	// shape is the shape of the round, and spread the level of which one domain holds it.
	shape  int64
	spread int
}

// gpuHold is a GPU that started work holds.
type gpuHold struct {
	gpu, kind string
	reservation
}

// startedWork returns the GPUs that the round of unit last, of a job that is q now, still holds. The
// work ends at end. Where nodes matter, a round of a relaxed job is lost if some of its tasks have not
// started. ran says that the work runs at time 0.
func (dr *deriver) startedWork(rounds *pastRounds, q *hare.Job, last, end int64, ran bool) startedWork {
	w, p, entries := startedWork{beganUs: hare.Forever, first: last}, rounds.job, rounds.entries
	add := func(gpu, kind string, from, to int64) {
		if to <= from {
			return
		}
		if w.lost == "" && !(dr.cluster.covers(gpu, kind, from, to) && (!dr.placed || dr.admits(q, gpu))) {
			w.lost = gpu
		}
		w.holds = append(w.holds, gpuHold{gpu, kind, reservation{from, to}})
	}
	if ran {
		kinds := newCluster(&dr.before.Cluster)
		for _, gpu := range p.Progress.GPUs {
			add(gpu, kinds.gpus[gpu].kind, dr.at, end)
			w.spread = dr.levels.Join(w.spread, kinds.gpus[p.Progress.GPUs[0]].node, kinds.gpus[gpu].node)
		}
		w.beganUs = -p.Progress.ElapsedUs
		return w
	}
	at := last
	if p.Sync == hare.Rigid {
		at = p.Rounds - 1 // the end of the job
	}
	w.spread = rounds.spread(at)
	for x := range entries {
		e := &entries[x]
		if p.Sync == hare.Rigid {
			w.beganUs = min(w.beganUs, e.StartUs)
		}
		n, ok := rounds.round(e, at)
		if !ok {
			continue
		}
		began, to := startOf(e, n), end
		from := max(dr.at, began)
		switch p.Sync {
		case hare.Relaxed:
			to = began + e.Tasks*profileOf(p, e.Shape, e.kind).ComputeUs
			if dr.placed && began >= dr.at && w.lost == "" {
				w.lost = e.gpu
			}
		case hare.Gang:
			w.beganUs = began
		case hare.Rigid:
			from = dr.at
		}
		add(e.gpu, e.kind, from, to)
	}
	return w
}

// admits reports whether job q may use the node of a GPU of the whole, which must be there.
func (dr *deriver) admits(q *hare.Job, gpu string) bool {
	return q.AllowsNode(&dr.whole.Cluster.Nodes[dr.cluster.gpus[gpu].node])
}

// keep writes started work into what is left of a job, which was p before. Where nodes matter,
// gang and rigid jobs run at the instant; a rigid job of weight 0 stands for the GPUs of a
// relaxed round that are free at the same time. Elsewhere the GPUs are busy.
func (dr *deriver) keep(left *leftover, p *hare.Job, work *startedWork) error {
	if !dr.placed {
		for _, h := range work.holds {
			dr.held[h.gpu] = append(dr.held[h.gpu], h.reservation)
		}
		return nil
	}
	q := &dr.whole.Jobs[left.whole]
	slices.SortFunc(work.holds, func(a, b gpuHold) int {
		x, y := dr.cluster.gpus[a.gpu], dr.cluster.gpus[b.gpu]
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.index, y.index))
	})
	if p.Sync == hare.Relaxed {
		shape := p.Shape(int(work.shape))
		left.holders = holdersOf(q, shape.TaskGPUs(), work.holds, dr.at)
		return nil
	}
	left.progress = &hare.Progress{RoundsDone: work.first, ElapsedUs: dr.at - work.beganUs, Shape: int(work.shape)}
	if p.Sync == hare.Rigid {
		left.progress.RoundsDone = p.FirstRound()
	}
	spread, levels := 0, hare.NewLevels(&dr.whole.Cluster)
	for _, h := range work.holds {
		spread = levels.Join(spread, dr.cluster.gpus[work.holds[0].gpu].node, dr.cluster.gpus[h.gpu].node)
		left.progress.GPUs = append(left.progress.GPUs, h.gpu)
	}
	for _, h := range work.holds {
		was, is := profileOf(p, work.shape, h.kind), profileOf(q, work.shape, h.kind)
		switch {
		case !was.Equal(is) && len(q.Shapes) > 0:
			return changed(left.whole, "shapes/"+strconv.FormatInt(work.shape, 10)+"/on", runsElsewise)
		case !was.Equal(is):
			return changed(left.whole, "on", runsElsewise)
		case dr.levels.SyncUs(&was, work.spread) != levels.SyncUs(&is, spread):
			return changed(left.whole, "progress", "the job runs at at_s, and its GPUs lie nearer to each other or farther "+
				"apart than before: leave the topology and the labels of its nodes")
		}
	}
	return nil
}

const runsElsewise = "the job runs at at_s, and its times differ from the previous instance: leave them"

// holdersOf returns the rigid jobs that stand for what a started round of relaxed job q with tasks
// of g GPUs holds: one for each time at which GPUs of a type become free.
func holdersOf(q *hare.Job, g int64, holds []gpuHold, at int64) []hare.Job {
	slices.SortStableFunc(holds, func(a, b gpuHold) int {
		return cmp.Or(cmp.Compare(a.to, b.to), strings.Compare(a.kind, b.kind))
	})
	var out []hare.Job
	for x, h := range holds {
		if x == 0 || h.to != holds[x-1].to || h.kind != holds[x-1].kind {
			out = append(out, hare.Job{Rounds: 1, Sync: hare.Rigid, GPUsPerTask: gpusPerTask(g),
				CPUMilliPerTask: q.CPUMilliPerTask, MemoryMiBPerTask: q.MemoryMiBPerTask, Users: q.Users,
				On: []hare.Profile{{Type: h.kind, ComputeUs: h.to - at}}, Progress: &hare.Progress{}})
		}
		j := &out[len(out)-1]
		j.Progress.GPUs = append(j.Progress.GPUs, h.gpu)
		j.Tasks = int64(len(j.Progress.GPUs)) / g
	}
	return out
}

// leave adds what is left of the jobs of the whole to the rest, and what no plan can change to
// the constant. A predecessor of which nothing is left becomes a release.
func (dr *deriver) leave() {
	index := make(map[string]int, len(dr.whole.Jobs))
	for i := range dr.whole.Jobs {
		index[dr.whole.Jobs[i].ID] = i
	}
	if dr.whole.Objective == hare.ObjectiveMakespan {
		dr.constant = hare.Product(1e6, dr.at)
	}
	for i := range dr.left {
		left, j := &dr.left[i], dr.whole.Jobs[i]
		if left.gone {
			dr.addCost(&j, left.endUs)
			continue
		}
		release := max(left.release, j.ReleaseUs)
		waits := j.After
		j.After = nil
		if !left.started {
			for _, p := range waits {
				if of := &dr.left[index[p.Job]]; of.gone {
					release = max(release, of.endUs+p.LagUs)
				} else {
					j.After = append(j.After, p)
				}
			}
		}
		if left.progress != nil && left.progress.GPUs != nil {
			release = dr.at
		}
		if dr.weighs() {
			dr.constant = dr.constant.Add(hare.Product(j.WeightMicro, release-j.ReleaseUs))
		}
		j.ReleaseUs = release - dr.at
		if j.DeadlineUs > 0 {
			// A deadline that has passed lies at 1 µs, and what has been paid since is constant.
			if over := dr.at + 1 - j.DeadlineUs; over > 0 && dr.tardy() {
				dr.constant = dr.constant.Add(hare.Product(j.LateWeightMicro, over))
			}
			j.DeadlineUs = max(1, j.DeadlineUs-dr.at)
		}
		if left.shape >= 0 {
			j.Shapes = []hare.Shape{j.Shapes[left.shape]}
			j.NormaliseShapes()
		}
		if j.Progress = left.progress; !dr.placed {
			// Rounds are counted again.
			j.Progress = nil
			j.Rounds -= left.done
			left.shift = left.done
		}
		dr.inst.Jobs = append(dr.inst.Jobs, j)
		dr.jobs = append(dr.jobs, left.restJob)
	}
	for i := range dr.left {
		for _, holder := range dr.left[i].holders {
			holder.ID = dr.whole.Jobs[i].ID + ".started"
			for _, taken := index[holder.ID]; taken; _, taken = index[holder.ID] {
				holder.ID += "'"
			}
			index[holder.ID] = i
			dr.inst.Jobs = append(dr.inst.Jobs, holder)
			dr.jobs = append(dr.jobs, restJob{whole: -1, added: true, shape: -1})
		}
	}
}

// weighs reports whether the objective is a sum over jobs.
func (dr *deriver) weighs() bool { return dr.whole.Objective != hare.ObjectiveMakespan }

func (dr *deriver) tardy() bool { return dr.whole.Objective == hare.ObjectiveJCTAndTardiness }

// addCost adds what a job costs that ends at an instant.
func (dr *deriver) addCost(j *hare.Job, endUs int64) {
	if dr.weighs() {
		dr.constant = dr.constant.Add(hare.Product(j.WeightMicro, endUs-j.ReleaseUs))
	}
	if dr.tardy() && j.DeadlineUs > 0 {
		dr.constant = dr.constant.Add(hare.Product(j.LateWeightMicro, max(0, endUs-j.DeadlineUs)))
	}
}

// addFixed adds what the jobs of the rest cost that end with the work that runs.
func (dr *deriver) addFixed() {
	if !dr.placed {
		return
	}
	for i := range dr.inst.Jobs {
		j := &dr.inst.Jobs[i]
		if endsRunning(j) {
			dr.addCost(j, model.RunningUntilUs(dr.inst, i))
		}
	}
}

// reservations adds the reservations that have not ended, on the clock of the rest and without
// the jobs that have ended.
func (dr *deriver) reservations() {
	there := map[string]bool{}
	for i := range dr.inst.Jobs {
		there[dr.inst.Jobs[i].ID] = true
	}
	for _, r := range dr.whole.Cluster.Reservations {
		if r.UntilUs <= dr.at {
			continue
		}
		r.FromUs, r.UntilUs = max(0, r.FromUs-dr.at), r.UntilUs-dr.at
		r.Jobs = slices.DeleteFunc(slices.Clone(r.Jobs), func(id string) bool { return !there[id] })
		dr.inst.Cluster.Reservations = append(dr.inst.Cluster.Reservations, r)
	}
}

// gpusPerTask returns what Job.GPUsPerTask is for tasks of g GPUs.
func gpusPerTask(g int64) int64 {
	if g == 1 {
		return 0
	}
	return g
}

// nameOf returns the name of GPU number index of a node.
func nameOf(node string, index int) string { return node + "/" + strconv.Itoa(index) }
