package verify

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// remainder is what a schedule leaves to be planned at an instant, by the rules of
// docs/use/replan.md: an instance whose time 0 is that instant.
type remainder struct {
	at       int64
	rest     *hare.Instance
	constant *big.Int    // the part of the objective, in 1e-12, that no plan for the rest changes
	done     []int64     // by job of the whole instance: the rounds that have ended, or have started and stay
	shift    []int64     // by job of the whole instance: which round of the whole is round 0 of the rest
	shape    []int64     // by job of the whole instance: the one shape that the rest has of it, −1 for all
	kept     []laneEntry // what the whole keeps of the schedule

	started        []hare.StartedWork
	lost           []lostJob
	added, removed []string
	renamed        []hare.RenamedGPU
}

// lostJob is work that had started and must be repeated.
type lostJob struct {
	job   string
	round int64
	gpus  []string // the GPUs that it would still have needed
}

// laneEntry is one entry of a schedule on its GPU.
type laneEntry struct {
	gpu, kind string
	node      int   // of the instance of the schedule
	job       int   // the index in the whole instance
	counts    int64 // the units that a round does
	hare.Entry
}

// span is a half-open interval of time on a GPU.
type span struct{ from, to int64 }

// leftJob is what is left of a job of the whole instance.
type leftJob struct {
	started  bool
	gone     bool  // nothing is left
	end      int64 // when the job has ended, if nothing is left
	release  int64 // the job can go on from then
	progress *hare.Progress
	holders  []hare.Job // stand for GPUs that a started relaxed round holds, where nodes matter
}

// remainderBuilder divides a schedule at an instant.
type remainderBuilder struct {
	remainder
	whole, before *hare.Instance
	placed        bool      // nodes, setups or shapes matter to the whole
	was, is       *topology // of before and of the whole
	nodes         directory // of the whole
	held          map[int]map[int][]span
	left          []leftJob // by job of the whole
}

// laneEntries gathers the entries of a feasible schedule by job of its instance.
func laneEntries(inst *hare.Instance, s *hare.Schedule, place map[string]int) [][]laneEntry {
	out := make([][]laneEntry, len(inst.Jobs))
	nodes := newDirectory(&inst.Cluster)
	for i := range s.Lanes {
		l := &s.Lanes[i]
		node, _, kind, _ := nodes.find(&inst.Cluster, l.GPU)
		for x := range l.Job {
			e := l.Entry(x)
			j := place[s.Jobs[e.Job]]
			counts := shapesOf(&inst.Jobs[j])[e.Shape].Counts
			out[j] = append(out[j], laneEntry{gpu: l.GPU, kind: kind, node: node, counts: counts, Entry: e})
		}
	}
	return out
}

// unitsBegun returns the unit up to which the rounds that have begun before at do the units of the
// job, by this entry; 0 if none has begun.
func (le *laneEntry) unitsBegun(at int64) int64 {
	begun := int64(1)
	switch {
	case le.StartUs >= at:
		return 0
	case le.Rounds > 1:
		begun = min(le.Rounds, 1+(at-le.StartUs-1)/le.PeriodUs)
	}
	return le.Round + begun*le.counts
}

// roundStart returns when the round of unit r of the job begins on this entry.
func (le *laneEntry) roundStart(r int64) int64 {
	if n := (r - le.Round) / le.counts; n > 0 {
		return le.StartUs + n*le.PeriodUs
	}
	return le.StartUs
}

// hasRound reports whether the entry has tasks of the round of unit r.
func (le *laneEntry) hasRound(r int64) bool { return le.Round <= r && r < le.Round+le.Rounds*le.counts }

// timesOf returns the times of the job's tasks in a shape on a type, or nil.
func timesOf(j *hare.Job, shape int64, kind string) *hare.Profile {
	on := shapesOf(j)[shape].On
	for i := range on {
		if on[i].Type == kind {
			return &on[i]
		}
	}
	return nil
}

// endOf returns when all tasks of the round of unit r have synchronised, and how far the round is
// spread.
func endOf(tp *topology, j *hare.Job, entries []laneEntry, r int64) (end int64, spread int) {
	var nodes []int32
	for i := range entries {
		if entries[i].hasRound(r) {
			nodes = append(nodes, int32(entries[i].node))
		}
	}
	spread = tp.spreadOf(nodes)
	for i := range entries {
		if s := &entries[i]; s.hasRound(r) {
			p := timesOf(j, s.Shape, s.kind)
			end = max(end, s.roundStart(r)+s.Tasks*p.ComputeUs+tp.syncAt(p, spread))
		}
	}
	return end, spread
}

// fresh leaves job i of the whole, of which nothing has started.
func (rb *remainderBuilder) fresh(i int) error {
	j := &rb.whole.Jobs[i]
	if j.Progress != nil && len(j.Progress.GPUs) > 0 {
		return fmt.Errorf("job %.60q runs at 0 in the instance, and not in the previous one", j.ID)
	}
	if j.Progress != nil {
		rb.done[i] = j.Progress.RoundsDone
	}
	rb.left[i] = leftJob{release: rb.at, progress: j.Progress}
	return nil
}

// sameStart reports whether a job that has started may have become now: the start must mean the
// same in both instances.
func sameStart(old, now *hare.Job) bool {
	var was, is hare.Progress
	if old.Progress != nil {
		was = *old.Progress
	}
	if now.Progress != nil {
		is = *now.Progress
	}
	return old.Sync == now.Sync && old.Tasks == now.Tasks && old.Mix == now.Mix && old.ReleaseUs == now.ReleaseUs &&
		(old.Sync != hare.Rigid || old.Rounds == now.Rounds) && gpusOf(old) == gpusOf(now) &&
		old.CPUMilliPerTask == now.CPUMilliPerTask && old.MemoryMiBPerTask == now.MemoryMiBPerTask &&
		old.DistinctNodes == now.DistinctNodes && slices.Equal(old.After, now.After) &&
		was.RoundsDone == is.RoundsDone && was.ElapsedUs == is.ElapsedUs && was.Shape == is.Shape &&
		slices.Equal(was.GPUs, is.GPUs) && old.Within == now.Within && old.Reshape == now.Reshape &&
		old.ReshapeUs == now.ReshapeUs && slices.EqualFunc(old.Shapes, now.Shapes, func(a, b hare.Shape) bool {
		return a.Tasks == b.Tasks && max(1, a.GPUsPerTask) == max(1, b.GPUsPerTask) && a.Counts == b.Counts
	})
}

// begun is the last round of a job that has begun, or the whole of a rigid job.
type begun struct {
	unit, done int64 // its first unit, and the unit after its last one
	end        int64
	shape      int64
	spread     int
	runsAtZero bool // it runs at 0
}

// lastBegun finds the last round of a job that has begun; ok is false if there is none.
func (rb *remainderBuilder) lastBegun(old *hare.Job, at standing, entries []laneEntry) (last begun, ok bool) {
	if at.until > 0 {
		p := old.Progress
		var nodes []int32
		of := newDirectory(&rb.before.Cluster)
		for _, gpu := range p.GPUs {
			n, _, _, _ := of.find(&rb.before.Cluster, gpu)
			nodes = append(nodes, int32(n))
		}
		last = begun{unit: p.RoundsDone, done: at.first, end: at.until, shape: int64(p.Shape),
			spread: rb.was.spreadOf(nodes), runsAtZero: true}
		ok = true
	}
	for x := range entries {
		if n := entries[x].unitsBegun(rb.at); n > 0 && (!ok || n > last.done) {
			last = begun{unit: n - entries[x].counts, done: n, shape: entries[x].Shape}
			ok = true
		}
	}
	if !ok {
		return last, false
	}
	if old.Sync == hare.Rigid {
		last.unit, last.done = 0, old.Rounds
		if old.Progress != nil {
			last.unit = old.Progress.RoundsDone
		}
	}
	last.done = min(last.done, old.Rounds)
	if !last.runsAtZero {
		last.end, last.spread = endOf(rb.was, old, entries, last.done-1)
	}
	return last, true
}

// job divides job i of the whole, which was old, stood at 0 as at says and has these entries.
func (rb *remainderBuilder) job(i int, old *hare.Job, at standing, entries []laneEntry) error {
	now := &rb.whole.Jobs[i]
	last, started := rb.lastBegun(old, at, entries)
	if !started {
		return rb.fresh(i)
	}
	if !sameStart(old, now) {
		return fmt.Errorf("job %.60q has started and is another job in the instance", now.ID)
	}
	first := int64(0) // the first unit that was not done at 0
	if old.Progress != nil {
		first = old.Progress.RoundsDone
	}
	done, end := last.done, last.end
	out := leftJob{started: true, release: rb.at}
	if end > rb.at {
		needs, missing := rb.needs(old, now, entries, &last)
		if len(missing) == 0 {
			rb.started = append(rb.started, hare.StartedWork{Job: now.ID, Rounds: done, UntilUs: end})
			out.release = end
			if err := rb.keep(&out, old, now, needs, &last); err != nil {
				return err
			}
		} else {
			done, end = last.unit, 0
			switch {
			case done == first:
			case at.until > 0 && done <= at.first:
				end = at.until
			default:
				end, _ = endOf(rb.was, old, entries, done-1)
			}
			rb.lost = append(rb.lost, lostJob{now.ID, done, missing})
		}
	}
	if done > now.Rounds {
		return fmt.Errorf("job %.60q has %d rounds in the instance, and %d of it have run or started",
			now.ID, now.Rounds, done)
	}
	rb.done[i] = done
	for _, s := range entries {
		if s.Round < done {
			s.job, s.Rounds = i, min(s.Rounds, (done-s.Round-1)/s.counts+1)
			rb.kept = append(rb.kept, s)
		}
	}
	switch {
	case out.progress != nil: // the job runs at the instant
	case done == now.Rounds:
		out.gone, out.end = true, end
	case done > 0:
		out.progress = &hare.Progress{RoundsDone: done}
	}
	if begins := done == first; out.gone || begins || out.progress != nil && len(out.progress.GPUs) > 0 {
		rb.left[i] = out
		return nil
	}
	// Rounds have run, and none runs: the next ones keep the shape, or wait to change it.
	if now.Reshape {
		out.release = max(out.release, end+now.ReshapeUs)
	} else if len(now.Shapes) > 1 {
		rb.shape[i] = last.shape
	}
	rb.left[i] = out
	return nil
}

// keep writes started work, which needs these GPUs, into what is left. Where nodes, setups or shapes
// matter, gang and rigid jobs run at the instant, and a rigid job
// of weight 0 stands for the GPUs of a relaxed round that are free at the same time. Elsewhere
// the GPUs are busy.
func (rb *remainderBuilder) keep(out *leftJob, old, now *hare.Job, needs []need, last *begun) error {
	if !rb.placed {
		for _, n := range needs {
			rb.hold(n)
		}
		return nil
	}
	slices.SortFunc(needs, func(a, b need) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.number, b.number))
	})
	name := func(n need) string {
		return rb.whole.Cluster.Nodes[n.node].Name + "/" + strconv.Itoa(n.number)
	}
	if old.Sync == hare.Relaxed {
		g := shapesOf(old)[last.shape].GPUsPerTask
		slices.SortStableFunc(needs, func(a, b need) int {
			return cmp.Or(cmp.Compare(a.to, b.to), strings.Compare(a.kind, b.kind))
		})
		for x, n := range needs {
			if x == 0 || n.to != needs[x-1].to || n.kind != needs[x-1].kind {
				out.holders = append(out.holders, hare.Job{Rounds: 1, Sync: hare.Rigid, Users: now.Users,
					GPUsPerTask: g, CPUMilliPerTask: now.CPUMilliPerTask,
					MemoryMiBPerTask: now.MemoryMiBPerTask, Progress: &hare.Progress{},
					On: []hare.Profile{{Type: n.kind, ComputeUs: n.to - rb.at}}})
			}
			held := out.holders[len(out.holders)-1].Progress
			held.GPUs = append(held.GPUs, name(n))
		}
		for x := range out.holders {
			out.holders[x].Tasks = int64(len(out.holders[x].Progress.GPUs)) / max(1, g)
		}
		return nil
	}
	out.progress = &hare.Progress{RoundsDone: last.unit, Shape: int(last.shape)}
	began := rb.at
	var nodes []int32
	for _, n := range needs {
		out.progress.GPUs = append(out.progress.GPUs, name(n))
		began = min(began, n.began)
		nodes = append(nodes, int32(n.node))
	}
	spread := rb.is.spreadOf(nodes)
	for _, n := range needs {
		p, q := timesOf(old, last.shape, n.kind), timesOf(now, last.shape, n.kind)
		if q == nil || !p.Equal(*q) || rb.was.syncAt(p, last.spread) != rb.is.syncAt(q, spread) {
			return fmt.Errorf("job %.60q runs at at_s and has other times in the instance", now.ID)
		}
	}
	out.progress.ElapsedUs = rb.at - began
	return nil
}

// need is a GPU that started work holds for a time.
type need struct {
	node, number int
	kind         string
	began        int64 // when the started round of a gang, or a rigid job, began; before 0 for work that ran at 0
	span
}

// needs returns the GPUs that started work still needs, and the
// names of those that the instance does not offer for that time. Where nodes matter, these
// are also the GPUs of tasks of a relaxed round that have not started.
func (rb *remainderBuilder) needs(old, now *hare.Job, entries []laneEntry, last *begun) (needs []need,
	missing []string) {
	add := func(gpu, of string, began int64, hold span) {
		node, number, kind, ok := rb.nodes.find(&rb.whole.Cluster, gpu)
		if ok && kind == of && (!rb.placed || allows(now, &rb.whole.Cluster.Nodes[node])) &&
			slices.ContainsFunc(openTimes(&rb.whole.Cluster.Nodes[node], number), func(w hare.Window) bool {
				return w.StartUs <= hold.from && hold.to <= w.EndUs
			}) {
			needs = append(needs, need{node, number, kind, began, hold})
		} else {
			missing = append(missing, gpu)
		}
	}
	if last.runsAtZero {
		nodes := newDirectory(&rb.before.Cluster)
		for _, gpu := range old.Progress.GPUs {
			_, _, kind, _ := nodes.find(&rb.before.Cluster, gpu)
			add(gpu, kind, -old.Progress.ElapsedUs, span{rb.at, last.end})
		}
		return needs, missing
	}
	first, r := int64(hare.Forever), last.done-1
	for x := range entries {
		first = min(first, entries[x].StartUs)
	}
	for x := range entries {
		s := &entries[x]
		if !s.hasRound(r) {
			continue
		}
		began := s.roundStart(r)
		hold := span{max(rb.at, began), last.end}
		switch j := old; j.Sync {
		case hare.Relaxed:
			hold.to = s.roundStart(r) + s.Tasks*timesOf(j, s.Shape, s.kind).ComputeUs
			if rb.placed && began >= rb.at {
				missing = append(missing, s.gpu)
				continue
			}
		case hare.Rigid:
			began = first
			hold.from = rb.at // all rounds until then are one block
		}
		if hold.to <= hold.from {
			continue // the task has left the GPU, and only its synchronisation is left
		}
		add(s.gpu, s.kind, began, hold)
	}
	return needs, missing
}

func (rb *remainderBuilder) hold(n need) {
	of := rb.held[n.node]
	if of == nil {
		of = map[int][]span{}
		rb.held[n.node] = of
	}
	of[n.number] = append(of[n.number], n.span)
}
