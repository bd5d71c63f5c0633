package shadow

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/model"
)

// SlurmConfig are the settings of the simulated Slurm.
type SlurmConfig struct {
	// BackfillUs is how often backfill runs (bf_interval), in microseconds; zero means 30 s.
	BackfillUs int64
	// Depth is how many waiting jobs one run of backfill tests (bf_max_job_test); zero means 500.
	Depth int
	// Reserve is how many of these get a reservation where they cannot start; zero means 50.
	Reserve int
	// AnyType lets jobs that named no GPU type run on every type that they may use, as Slurm does.
	// Otherwise each job keeps to the types on which it ran, so that no speed is assumed.
	AnyType bool
}

// replay plays the jobs of a history by Slurm's rule: first come, first served in the main
// scheduler, which ends at the first job of a partition that does not fit, and backfill by time
// limits every BackfillUs. A job that backfill cannot start now gets a reservation of whole nodes
// from the time at which it is expected to start, as in Slurm, so that later jobs use these nodes
// only if their limits end before. Jobs end when they ended in truth.
type replay struct {
	cfg     SlurmConfig
	inst    *hare.Instance
	built   *history.Built
	cluster *cluster
	reqs    []request
	limitUs []int64
	out     *outcome

	nowUs     int64
	room      *room
	taken     [][][]bool // by node, type and GPU
	waiting   []int      // in the order of the queue
	held      []holding  // by job
	ends      heap       // of running jobs, by their true ends
	changed   bool       // since backfill ran last
	scratch   *room      // for expected starts
	reserved  [][]hare.Window
	attempt   []int
	expecting []int // the running jobs, by the ends that their limits give
	// partition numbers the partition of each job, and partitions counts them.
	partition  []int
	partitions int
}

// holding is what a running job holds.
type holding struct {
	parts      []part
	expectedUs int64 // the end by the limit
	gpus       []gpuRef
}

// noLimit stands for the limit of a job that has none: a year, as Slurm plans with.
const noLimit = 365 * 86400 * int64(1e6)

func newReplay(built *history.Built, was *outcome, cfg SlurmConfig) *replay {
	if cfg.BackfillUs == 0 {
		cfg.BackfillUs = 30e6
	}
	if cfg.Depth == 0 {
		cfg.Depth = 500
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = 50
	}
	inst := built.Instance
	rp := &replay{cfg: cfg, inst: inst, built: built, cluster: newCluster(inst), out: newOutcome(len(inst.Jobs)),
		held: make([]holding, len(inst.Jobs)), limitUs: make([]int64, len(inst.Jobs)),
		attempt: make([]int, len(inst.Jobs))}
	rp.reqs = rp.cluster.requests(inst)
	partitions := map[string]int{}
	for i := range rp.reqs {
		name := built.Jobs[i].Partition
		if _, known := partitions[name]; !known {
			partitions[name] = len(partitions)
		}
		rp.partition = append(rp.partition, partitions[name])
		rp.limitUs[i] = cmp.Or(built.Jobs[i].LimitUs, noLimit)
		if cfg.AnyType || inst.Jobs[i].Running() {
			continue
		}
		ran := make([]bool, len(rp.cluster.types))
		for _, gpu := range was.gpus[i] {
			ran[rp.cluster.gpu[gpu].kind] = true
		}
		if !slices.Contains(ran, true) {
			continue
		}
		for k := range ran {
			if !ran[k] {
				rp.reqs[i].durationUs[k] = 0
				rp.reqs[i].key += fmt.Sprint("/", k)
			}
		}
	}
	rp.partitions = len(partitions)
	rp.room, rp.scratch = newRoom(rp.cluster), newRoom(rp.cluster)
	rp.reserved = make([][]hare.Window, len(rp.cluster.nodes))
	for n := range rp.cluster.nodes {
		var kinds [][]bool
		for _, count := range rp.cluster.nodes[n].count {
			kinds = append(kinds, make([]bool, count))
		}
		rp.taken = append(rp.taken, kinds)
	}
	return rp
}

// turn is a time at which a node leaves or returns.
type turn struct {
	atUs int64
	node int
	open bool
}

// turns lists the times at which nodes leave and return, and closes those that are away at first.
func (rp *replay) turns() []turn {
	var out []turn
	for n := range rp.cluster.nodes {
		windows := rp.cluster.nodes[n].spec.Windows
		if windows == nil {
			continue
		}
		rp.room.open[n] = windows[0].StartUs == 0
		for _, w := range windows {
			if w.StartUs > 0 {
				out = append(out, turn{w.StartUs, n, true})
			}
			if w.EndUs != hare.Forever {
				out = append(out, turn{w.EndUs, n, false})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b turn) int { return cmp.Compare(a.atUs, b.atUs) })
	return out
}

// run plays all jobs to their ends. It takes O(events × (queue + nodes)) at worst; jobs of the same
// shape are tested once in a run of backfill.
func (rp *replay) run(ctx context.Context, progress func(part string, done float64)) (*outcome, error) {
	arrivals := make([]int, 0, len(rp.inst.Jobs))
	turns := rp.turns()
	for i := range rp.inst.Jobs {
		if rp.inst.Jobs[i].Running() {
			rp.resume(i)
			continue
		}
		arrivals = append(arrivals, i)
	}
	slices.SortStableFunc(arrivals, func(a, b int) int {
		return cmp.Or(cmp.Compare(rp.inst.Jobs[a].ReleaseUs, rp.inst.Jobs[b].ReleaseUs),
			cmp.Compare(rp.built.Jobs[a].SubmitUs, rp.built.Jobs[b].SubmitUs))
	})
	backfillUs, all := rp.cfg.BackfillUs, len(arrivals)
	told := 0 // how many percent of the jobs had arrived when progress was called last
	for steps := 0; ; steps++ {
		if steps%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next := int64(math.MaxInt64)
		if len(rp.ends) > 0 {
			next = rp.ends[0].atUs
		}
		if len(arrivals) > 0 {
			next = min(next, rp.inst.Jobs[arrivals[0]].ReleaseUs)
		}
		if len(turns) > 0 {
			next = min(next, turns[0].atUs)
		}
		if rp.changed && len(rp.waiting) > 0 {
			next = min(next, backfillUs)
		}
		if next == math.MaxInt64 {
			break
		}
		rp.nowUs = max(rp.nowUs, next)
		for len(rp.ends) > 0 && rp.ends[0].atUs <= rp.nowUs {
			rp.end(rp.ends.pop())
		}
		for ; len(turns) > 0 && turns[0].atUs <= rp.nowUs; turns = turns[1:] {
			rp.turn(turns[0])
		}
		for ; len(arrivals) > 0 && rp.inst.Jobs[arrivals[0]].ReleaseUs <= rp.nowUs; arrivals = arrivals[1:] {
			rp.waiting, rp.changed = append(rp.waiting, arrivals[0]), true
		}
		if come := all - len(arrivals); progress != nil && come*100/all > told {
			told = come * 100 / all
			progress("slurm", float64(come)/float64(all))
		}
		rp.schedule()
		if rp.nowUs >= backfillUs {
			if rp.changed {
				rp.backfill()
			}
			backfillUs = (rp.nowUs/rp.cfg.BackfillUs + 1) * rp.cfg.BackfillUs
		}
	}
	if len(rp.waiting) > 0 {
		return nil, fmt.Errorf("shadow: under the simulated slurm job %.60q never finds room on the nodes that it may use",
			rp.inst.Jobs[rp.waiting[0]].ID)
	}
	return rp.out, nil
}

// resume puts a job that ran when the window began on its GPUs.
func (rp *replay) resume(i int) {
	j := &rp.inst.Jobs[i]
	h := &rp.held[i]
	for _, name := range j.Progress.GPUs {
		g := rp.cluster.gpu[name]
		h.gpus = append(h.gpus, g)
		rp.taken[g.node][g.kind][g.index] = true
		last := len(h.parts) - 1
		if last < 0 || h.parts[last].node != g.node || h.parts[last].kind != g.kind {
			h.parts = append(h.parts, part{g.node, g.kind, 0})
			last++
		}
		h.parts[last].tasks++
	}
	for x := range h.parts {
		h.parts[x].tasks /= rp.reqs[i].gpus
		rp.room.take(&rp.reqs[i], h.parts[x].node, h.parts[x].kind, h.parts[x].tasks, 1)
	}
	h.expectedUs = rp.limitUs[i] - j.Progress.ElapsedUs
	rp.expect(i)
	rp.out.gpus[i], rp.out.endUs[i] = j.Progress.GPUs, model.RunningUntilUs(rp.inst, i)
	rp.ends.push(ending{rp.out.endUs[i], i, rp.attempt[i]})
}

// expect puts a job among those that run.
func (rp *replay) expect(i int) {
	at, _ := slices.BinarySearchFunc(rp.expecting, i, rp.byExpected)
	rp.expecting = slices.Insert(rp.expecting, at, i)
}

func (rp *replay) byExpected(a, b int) int {
	return cmp.Or(cmp.Compare(rp.held[a].expectedUs, rp.held[b].expectedUs), cmp.Compare(a, b))
}

// start starts a job.
func (rp *replay) start(i int, parts []part) {
	req, h := &rp.reqs[i], &rp.held[i]
	*h = holding{parts: parts, expectedUs: rp.nowUs + rp.limitUs[i]}
	rp.expect(i)
	duration := int64(0)
	for _, p := range parts {
		rp.room.take(req, p.node, p.kind, p.tasks, 1)
		duration = max(duration, req.durationUs[p.kind])
		left := p.tasks * req.gpus
		for x := range rp.taken[p.node][p.kind] {
			if left > 0 && !rp.taken[p.node][p.kind][x] {
				rp.taken[p.node][p.kind][x] = true
				h.gpus = append(h.gpus, gpuRef{p.node, p.kind, int32(x)})
				left--
			}
		}
	}
	rp.out.startUs[i], rp.out.gpus[i] = rp.nowUs, nil
	for _, g := range h.gpus {
		rp.out.gpus[i] = append(rp.out.gpus[i], rp.cluster.name(g))
	}
	rp.ends.push(ending{rp.nowUs + duration, i, rp.attempt[i]})
	rp.changed = true
}

// release gives back what a job holds.
func (rp *replay) release(i int) {
	h := &rp.held[i]
	for _, p := range h.parts {
		rp.room.take(&rp.reqs[i], p.node, p.kind, p.tasks, -1)
	}
	for _, g := range h.gpus {
		rp.taken[g.node][g.kind][g.index] = false
	}
	if at, found := slices.BinarySearchFunc(rp.expecting, i, rp.byExpected); found {
		rp.expecting = slices.Delete(rp.expecting, at, at+1)
	}
	*h = holding{}
	rp.changed = true
}

// end ends a job, unless it was killed meanwhile.
func (rp *replay) end(e ending) {
	if e.attempt != rp.attempt[e.job] {
		return
	}
	rp.release(e.job)
	rp.out.endUs[e.job] = e.atUs
}

// turn opens or closes a node. Jobs on a node that closes begin again from their starts, at the
// head of the queue.
func (rp *replay) turn(t turn) {
	rp.room.open[t.node] = t.open
	rp.changed = true
	if t.open {
		return
	}
	for _, i := range slices.Clone(rp.expecting) {
		on := func(p part) bool { return int(p.node) == t.node }
		if !slices.ContainsFunc(rp.held[i].parts, on) {
			continue
		}
		rp.release(i)
		rp.attempt[i]++
		rp.out.lost++
		rp.waiting = slices.Insert(rp.waiting, 0, i)
	}
}

// schedule is the main scheduler: it starts jobs in order until one of their partition does not fit.
func (rp *replay) schedule() {
	if !rp.changed || len(rp.waiting) == 0 {
		return
	}
	blocked, left := make([]bool, rp.partitions), rp.partitions
	kept := rp.waiting[:0]
	for x, i := range rp.waiting {
		if left == 0 {
			kept = append(kept, rp.waiting[x:]...)
			break
		}
		if blocked[rp.partition[i]] {
			kept = append(kept, i)
			continue
		}
		parts := rp.room.find(&rp.reqs[i], len(rp.cluster.types), nil)
		if parts == nil {
			blocked[rp.partition[i]] = true
			left--
			kept = append(kept, i)
			continue
		}
		rp.start(i, parts)
	}
	rp.waiting = kept
}

// backfill tests waiting jobs in order: each starts if it fits beside all reservations made so far,
// and otherwise may get a reservation.
func (rp *replay) backfill() {
	rp.changed = false
	for n := range rp.reserved {
		rp.reserved[n] = rp.reserved[n][:0]
	}
	failed := map[string]int64{} // the least limit that did not fit, by shape
	reservations, started := 0, false
	kept := rp.waiting[:0]
	for x, i := range rp.waiting {
		if x >= rp.cfg.Depth {
			kept = append(kept, rp.waiting[x:]...)
			break
		}
		req, limit := &rp.reqs[i], rp.limitUs[i]
		// Where a job of this shape did not fit with a limit as short, neither does this one: there is
		// only less room by now.
		least, tested := failed[req.key]
		hopeless := tested && least <= limit
		if hopeless && reservations >= rp.cfg.Reserve {
			kept = append(kept, i)
			continue
		}
		until := rp.nowUs + limit
		var parts []part
		if !hopeless {
			parts = rp.room.find(req, len(rp.cluster.types), func(n int32) bool { return rp.unreserved(n, rp.nowUs, until) })
		}
		if parts != nil {
			rp.start(i, parts)
			started = true
			continue
		}
		kept = append(kept, i)
		if !tested || limit < least {
			failed[req.key] = limit
		}
		if reservations < rp.cfg.Reserve {
			rp.reserve(i)
			reservations++
		}
	}
	rp.waiting = kept
	rp.changed = started
}

// unreserved reports whether no reservation of a node overlaps a time.
func (rp *replay) unreserved(n int32, fromUs, untilUs int64) bool {
	for _, w := range rp.reserved[n] {
		if w.StartUs < untilUs && fromUs < w.EndUs {
			return false
		}
	}
	return true
}

// reserve finds when a job is expected to start, by the limits of the jobs that run, and reserves
// the nodes on which it is to start.
func (rp *replay) reserve(i int) {
	req, limit := &rp.reqs[i], rp.limitUs[i]
	rp.scratch.copyFrom(rp.room)
	kinds := len(rp.cluster.types)
	for x := 0; x < len(rp.expecting); {
		at := max(rp.held[rp.expecting[x]].expectedUs, rp.nowUs+1e6)
		useful := false
		for ; x < len(rp.expecting) && max(rp.held[rp.expecting[x]].expectedUs, rp.nowUs+1e6) == at; x++ {
			h := &rp.held[rp.expecting[x]]
			for _, p := range h.parts {
				rp.scratch.take(&rp.reqs[rp.expecting[x]], p.node, p.kind, p.tasks, -1)
				if req.durationUs[p.kind] == 0 || rp.scratch.free[p.node][p.kind] < req.gpus ||
					rp.scratch.tasks(req, p.node, p.kind) == 0 || !req.allows(p.node) {
					continue
				}
				useful = useful || rp.unreserved(p.node, at, at+limit)
			}
		}
		if !useful {
			continue
		}
		parts := rp.scratch.find(req, kinds, func(n int32) bool { return rp.unreserved(n, at, at+limit) })
		if parts == nil {
			continue
		}
		for _, p := range parts {
			rp.reserved[p.node] = append(rp.reserved[p.node], hare.Window{StartUs: at, EndUs: at + limit})
		}
		return
	}
}

// ending is the true end of a running job.
type ending struct {
	atUs         int64
	job, attempt int
}

// heap is a heap of ends, the earliest first; ties go by job.
type heap []ending

func (h heap) less(a, b int) bool {
	return h[a].atUs < h[b].atUs || h[a].atUs == h[b].atUs && h[a].job < h[b].job
}

func (h *heap) push(e ending) {
	*h = append(*h, e)
	for x := len(*h) - 1; x > 0 && h.less(x, (x-1)/2); x = (x - 1) / 2 {
		(*h)[x], (*h)[(x-1)/2] = (*h)[(x-1)/2], (*h)[x]
	}
}

func (h *heap) pop() ending {
	old := *h
	top, last := old[0], len(old)-1
	old[0] = old[last]
	*h = old[:last]
	for x := 0; ; {
		child := 2*x + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.less(child+1, child) {
			child++
		}
		if !h.less(child, x) {
			return top
		}
		(*h)[x], (*h)[child] = (*h)[child], (*h)[x]
		x = child
	}
}
