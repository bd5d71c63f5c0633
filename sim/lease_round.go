package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// pick is a unit that may be chosen for a type.
type pick struct {
	priority, deficitS, share float64
	entry                     int32 // index into order
}

// untried is the priority of a share whose time has not begun to count.
const untried = 1e9

// shareTolerance is how far shares may miss their bounds: LP engines hold rows
// to about 1e-7.
const shareTolerance = 1e-6

func (e *leaseEngine) chooseByShares(ctx context.Context) error {
	if e.changed && (e.nowS-e.lastResetS >= e.cfg.ResetS || e.lastResetS == 0) {
		e.reset()
		if err := e.share(ctx); err != nil {
			return err
		}
		e.changed = false
	}
	e.prioritise()
	if e.traits.ShuffleTypes {
		// Each shuffle starts from the same order, as a new list does.
		for i := range e.typeOrder {
			e.typeOrder[i] = len(e.typeOrder) - 1 - i
		}
		e.draws.Shuffle(len(e.typeOrder), func(i, j int) {
			e.typeOrder[i], e.typeOrder[j] = e.typeOrder[j], e.typeOrder[i]
		})
	}
	for _, k := range e.typeOrder {
		e.choose(k)
	}
	for _, k := range e.typeOrder {
		e.place(k)
	}
	e.begun()
	return nil
}

// reset settles deficits and begins a new count of time received.
func (e *leaseEngine) reset() {
	elapsedS, half := e.nowS-e.lastResetS, e.cfg.LeaseS/2
	clear(e.workerS)
	for _, slot := range e.order {
		u := &e.units[slot]
		for k := range u.timeS {
			due := 0.0
			if u.known {
				due = u.share[k] * elapsedS
			}
			u.deficitS[k] += due - (u.timeS[k] - half)
			u.timeS[k] = half
			e.workerS[k] += half
		}
	}
	e.lastResetS = e.nowS
}

// share asks the policy and takes its shares over.
func (e *leaseEngine) share(ctx context.Context) error {
	n := len(e.cluster.Types)
	e.view()
	e.out.Share = append(e.out.Share[:0], make([]float64, n*len(e.state.Jobs))...)
	e.out.Pairs, e.out.Oversubscribed = e.out.Pairs[:0], false
	if len(e.state.Jobs) == 0 {
		return nil
	}
	if err := e.shares.Shares(ctx, &e.state, &e.out); err != nil {
		return fmt.Errorf("sim: policy %s at %.3f s: %w", e.name, e.nowS, err)
	}
	if err := e.checkShares(); err != nil {
		return err
	}
	for _, slot := range e.order {
		u := &e.units[slot]
		u.known = true
		clear(u.share)
	}
	for i := range e.state.Jobs {
		copy(e.units[e.jobs[e.state.Jobs[i].Number].slot].share, e.out.Share[i*n:(i+1)*n])
	}
	for _, p := range e.out.Pairs {
		a, b := int32(e.state.Jobs[p.A].Number), int32(e.state.Jobs[p.B].Number)
		for _, slot := range e.order {
			if u := &e.units[slot]; u.a == a && u.b == b {
				copy(u.share, p.Share)
			}
		}
	}
	return nil
}

// view fills in what the policy sees.
func (e *leaseEngine) view() {
	e.state.NowS, e.state.Jobs = e.nowS, e.state.Jobs[:0]
	for _, slot := range e.order {
		if u := &e.units[slot]; u.b == none {
			e.state.Jobs = append(e.state.Jobs, LeaseView{
				LeaseJob: &e.specs[u.a], Number: int(u.a), StepsLeft: e.specs[u.a].Steps - e.jobs[u.a].stepsRun,
				EnteredS: e.jobs[u.a].enteredS,
			})
		}
	}
}

func (e *leaseEngine) checkShares() error {
	n := len(e.cluster.Types)
	refuse := func(gpu, format string, args ...any) error {
		return &AllocationError{e.name, e.nowS, gpu, fmt.Sprintf(format, args...)}
	}
	if len(e.out.Share) != n*len(e.state.Jobs) {
		return refuse("of any type", "%d shares for %d jobs and %d types", len(e.out.Share), len(e.state.Jobs), n)
	}
	need := make([]float64, n)
	row := func(name string, gpus int, share []float64) error {
		sum := 0.0
		for k, x := range share {
			if !(x >= 0 && x <= 1+shareTolerance) {
				return refuse(e.cluster.Types[k], "the share of job %.60q is %v", name, x)
			}
			sum += x
			need[k] += x * float64(gpus)
		}
		if sum > 1+shareTolerance {
			return refuse("of any type", "the shares of job %.60q sum to %v, more than all of its time", name, sum)
		}
		return nil
	}
	for i := range e.state.Jobs {
		if err := row(e.state.Jobs[i].ID, e.state.Jobs[i].GPUs, e.out.Share[i*n:(i+1)*n]); err != nil {
			return err
		}
	}
	for _, p := range e.out.Pairs {
		if !e.traits.Pairs || p.A < 0 || p.B <= p.A || p.B >= len(e.state.Jobs) || len(p.Share) != n ||
			e.state.Jobs[p.A].GPUs != e.state.Jobs[p.B].GPUs {
			return refuse("of any type", "jobs %d and %d are no pair that can share GPUs", p.A, p.B)
		}
		if err := row(e.state.Jobs[p.A].ID, e.state.Jobs[p.A].GPUs, p.Share); err != nil {
			return err
		}
	}
	for k, x := range need {
		if have := float64(e.cluster.GPUs[k]); !e.out.Oversubscribed && x > have*(1+shareTolerance) {
			return refuse(e.cluster.Types[k], "the shares need %.6g GPUs, there are %d", x, e.cluster.GPUs[k])
		}
	}
	return nil
}

// prioritise computes share / fraction of time received, and lists the units
// that can run on a type: those with a priority, and the others.
func (e *leaseEngine) prioritise() {
	for k := range e.wanted {
		e.wanted[k], e.others[k] = e.wanted[k][:0], e.others[k][:0]
	}
	for i, slot := range e.order {
		u := &e.units[slot]
		for k, share := range u.share {
			if u.rate[k] <= 0 || u.b != none && u.rateB[k] <= 0 {
				continue
			}
			if !u.known || share == 0 {
				e.others[k] = append(e.others[k], int32(i))
				continue
			}
			p := share * untried
			if u.timeS[k] > 0 && e.workerS[k] > 0 {
				p = share / (u.timeS[k] / e.workerS[k])
			}
			e.wanted[k] = append(e.wanted[k], pick{p, u.deficitS[k], share, int32(i)})
		}
	}
}

// choose takes units for type k by falling priority: first those that have one,
// then, where GPUs are left, the others.
func (e *leaseEngine) choose(k int) {
	e.chosen[k] = e.chosen[k][:0]
	left := e.cluster.GPUs[k]
	if e.faults != nil {
		left -= e.faults.count[k]
	}
	left = e.take(k, left, e.wanted[k])
	if left == 0 || e.traits.OnlyShares {
		return
	}
	e.picks = e.picks[:0]
	for _, i := range e.others[k] {
		e.picks = append(e.picks, pick{deficitS: e.units[e.order[i]].deficitS[k], entry: i})
	}
	e.take(k, left, e.picks)
}

// take takes units by priority as long as they fit; it gives the GPUs that are
// left. What it is given it reorders.
func (e *leaseEngine) take(k, left int, from []pick) int {
	open := picks(from[:0])
	for _, p := range from {
		if u := &e.units[e.order[p.entry]]; u.gpus <= left && !e.pickedNow(u) {
			open = append(open, p)
		}
	}
	open.init()
	for left > 0 && len(open) > 0 {
		slot := e.order[open.pop().entry]
		u := &e.units[slot]
		if u.gpus > left || e.pickedNow(u) {
			continue
		}
		left -= u.gpus
		e.jobs[u.a].picked = e.rounds + 1
		if u.b != none {
			e.jobs[u.b].picked = e.rounds + 1
		}
		e.chosen[k] = append(e.chosen[k], slot)
	}
	return left
}

// pickedNow says that a job of the unit has been chosen in this round.
func (e *leaseEngine) pickedNow(u *unit) bool {
	return e.jobs[u.a].picked == e.rounds+1 || u.b != none && e.jobs[u.b].picked == e.rounds+1
}

// place gives the units chosen for type k their GPUs, the widest gangs first:
// those of the round before where they are free, else the first that are. Units
// that no shares were computed with wait, and the GPUs kept for them idle.
func (e *leaseEngine) place(k int) {
	chosen := e.chosen[k]
	slices.SortStableFunc(chosen, func(x, y int32) int { return cmp.Compare(e.units[y].gpus, e.units[x].gpus) })
	next, end := e.base[k], e.base[k]+int32(e.cluster.GPUs[k])
	for len(chosen) > 0 {
		gpus := e.units[chosen[0]].gpus
		same := 1
		for same < len(chosen) && e.units[chosen[same]].gpus == gpus {
			same++
		}
		for i, slot := range chosen[:same] {
			u := &e.units[slot]
			if e.rounds == 0 || u.heldIn != e.rounds || u.heldType != k || slices.ContainsFunc(u.held, e.given) {
				continue
			}
			e.give(u.held)
			e.start(slot, k, u.held)
			chosen[i] = none
		}
		for _, slot := range chosen[:same] {
			if slot == none || !e.units[slot].known {
				continue
			}
			e.fresh = e.fresh[:0]
			for ; len(e.fresh) < gpus && next < end; next++ {
				if !e.given(next) {
					e.fresh = append(e.fresh, next)
				}
			}
			e.give(e.fresh)
			e.start(slot, k, e.fresh)
		}
		chosen = chosen[same:]
	}
}

func (e *leaseEngine) given(gpu int32) bool { return e.taken[gpu] == e.rounds+1 }

func (e *leaseEngine) give(gpus []int32) {
	for _, g := range gpus {
		e.taken[g] = e.rounds + 1
	}
}

// chooseHolds asks a policy that says itself who holds what.
func (e *leaseEngine) chooseHolds(ctx context.Context) error {
	e.view()
	e.holding = e.holding[:0]
	for i := range e.state.Jobs {
		u := &e.units[e.jobs[e.state.Jobs[i].Number].slot]
		if e.rounds > 0 && u.heldIn == e.rounds {
			e.holding = append(e.holding, Hold{Job: i, GPUs: u.held})
		}
	}
	holds, err := e.holds.Hold(ctx, &e.state, e.holding)
	if err != nil {
		return fmt.Errorf("sim: policy %s at %.3f s: %w", e.name, e.nowS, err)
	}
	for _, h := range holds {
		k, err := e.checkHold(h)
		if err != nil {
			return err
		}
		e.give(h.GPUs)
		job := e.state.Jobs[h.Job].Number
		e.jobs[job].picked = e.rounds + 1
		e.start(e.jobs[job].slot, k, h.GPUs)
	}
	e.begun()
	return nil
}

// checkHold gives the type of the GPUs.
func (e *leaseEngine) checkHold(h Hold) (kind int, err error) {
	refuse := func(gpu, format string, args ...any) error {
		return &AllocationError{e.name, e.nowS, gpu, fmt.Sprintf(format, args...)}
	}
	if h.Job < 0 || h.Job >= len(e.state.Jobs) {
		return 0, refuse("of any type", "job %d is not there", h.Job)
	}
	j := &e.state.Jobs[h.Job]
	kind = -1
	for i, g := range h.GPUs {
		k := e.typeOf(g)
		switch {
		case k < 0:
			return 0, refuse(fmt.Sprint(g), "there are %d", len(e.taken))
		case e.faults != nil && e.faults.out[g]:
			return 0, refuse(e.gpuName(g, k), "is out of service and was allocated to job %.60q", j.ID)
		case e.given(g) || slices.Contains(h.GPUs[:i], g):
			return 0, refuse(e.gpuName(g, k), "allocated twice, the second time to job %.60q", j.ID)
		case kind >= 0 && k != kind:
			return 0, refuse(e.gpuName(g, k), "job %.60q holds %s GPUs and needs one type", j.ID,
				e.cluster.Types[kind])
		case j.Rate[k] == 0:
			return 0, refuse(e.gpuName(g, k), "job %.60q cannot run on this type", j.ID)
		}
		kind = k
	}
	switch {
	case len(h.GPUs) != j.GPUs:
		return 0, refuse("of any type", "job %.60q got %d and needs %d at once", j.ID, len(h.GPUs), j.GPUs)
	case e.jobs[j.Number].picked == e.rounds+1:
		return 0, refuse(e.gpuName(h.GPUs[0], kind), "job %.60q holds GPUs already in this round", j.ID)
	}
	return kind, nil
}

// typeOf is −1 for a GPU that is not there.
func (e *leaseEngine) typeOf(gpu int32) int {
	if gpu < 0 || int(gpu) >= len(e.taken) {
		return -1
	}
	k, found := slices.BinarySearch(e.base, gpu)
	if !found {
		k--
	}
	return k
}

func (e *leaseEngine) gpuName(gpu int32, kind int) string {
	return fmt.Sprintf("%s/%d", e.cluster.Types[kind], gpu-e.base[kind])
}

// percentile is the nearest rank of sorted values.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}
