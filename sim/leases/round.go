package leases

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare/sim"
)

// pick is a unit that may be chosen for a type, with its place in the order of choice.
type pick struct {
	priority, deficitS, share float64
	entry                     int32 // index into order
}

// unservedPriority is the priority, per unit of share, of a unit that has received no time.
const unservedPriority = 1e9

// shareTolerance is the error that is allowed in shares: LP engines satisfy rows to
// about 1e-7.
const shareTolerance = 1e-6

func (le *leaseEngine) chooseByShares(ctx context.Context) error {
	if le.changed && (le.nowS-le.lastResetS >= le.cfg.ResetS || le.lastResetS == 0) {
		le.reset()
		if err := le.share(ctx); err != nil {
			return err
		}
		le.changed = false
	}
	le.prioritise()
	if le.traits.ShuffleTypes {
		// Each shuffle starts from the same order, as a new list does.
		for i := range le.typeOrder {
			le.typeOrder[i] = len(le.typeOrder) - 1 - i
		}
		le.draws.Shuffle(len(le.typeOrder), func(i, j int) {
			le.typeOrder[i], le.typeOrder[j] = le.typeOrder[j], le.typeOrder[i]
		})
	}
	for _, k := range le.typeOrder {
		le.choose(k)
	}
	for _, k := range le.typeOrder {
		le.place(k)
	}
	le.sortLeases()
	return nil
}

// reset updates the deficits and starts a new count of time received.
func (le *leaseEngine) reset() {
	elapsedS, half := le.nowS-le.lastResetS, le.cfg.LeaseS/2
	clear(le.workerS)
	for _, slot := range le.order {
		u := &le.units[slot]
		for k := range u.timeS {
			due := 0.0
			if u.known {
				due = u.share[k] * elapsedS
			}
			u.deficitS[k] += due - (u.timeS[k] - half)
			u.timeS[k] = half
			le.workerS[k] += half
		}
	}
	le.lastResetS = le.nowS
}

// share asks the policy for shares and stores them in the units.
func (le *leaseEngine) share(ctx context.Context) error {
	n := len(le.cluster.Types)
	le.view()
	le.out.Share = append(le.out.Share[:0], make([]float64, n*len(le.state.Jobs))...)
	le.out.Pairs, le.out.Oversubscribed = le.out.Pairs[:0], false
	if len(le.state.Jobs) == 0 {
		return nil
	}
	if err := le.shares.Shares(ctx, &le.state, &le.out); err != nil {
		return fmt.Errorf("sim: policy %s at %.3f s: %w", le.name, le.nowS, err)
	}
	if err := le.checkShares(); err != nil {
		return err
	}
	for _, slot := range le.order {
		u := &le.units[slot]
		u.known = true
		clear(u.share)
	}
	for i := range le.state.Jobs {
		copy(le.units[le.jobs[le.state.Jobs[i].Number].slot].share, le.out.Share[i*n:(i+1)*n])
	}
	for _, p := range le.out.Pairs {
		a, b := int32(le.state.Jobs[p.A].Number), int32(le.state.Jobs[p.B].Number)
		for _, slot := range le.order {
			if u := &le.units[slot]; u.a == a && u.b == b {
				copy(u.share, p.Share)
			}
		}
	}
	return nil
}

// view fills in the state that the policy sees.
func (le *leaseEngine) view() {
	le.state.NowS, le.state.Jobs = le.nowS, le.state.Jobs[:0]
	for _, slot := range le.order {
		if u := &le.units[slot]; u.b == noJob {
			le.state.Jobs = append(le.state.Jobs, View{
				Job: &le.specs[u.a], Number: int(u.a), StepsLeft: le.specs[u.a].Steps - le.jobs[u.a].stepsRun,
				EnteredS: le.jobs[u.a].enteredS,
			})
		}
	}
}

func (le *leaseEngine) checkShares() error {
	n := len(le.cluster.Types)
	refuse := func(gpu, format string, args ...any) error {
		return &sim.AllocationError{Policy: le.name, NowS: le.nowS, GPU: gpu, Reason: fmt.Sprintf(format, args...)}
	}
	if len(le.out.Share) != n*len(le.state.Jobs) {
		return refuse("of any type", "%d shares for %d jobs and %d types", len(le.out.Share), len(le.state.Jobs), n)
	}
	need := make([]float64, n)
	row := func(name string, gpus int, share []float64) error {
		sum := 0.0
		for k, x := range share {
			if !(x >= 0 && x <= 1+shareTolerance) {
				return refuse(le.cluster.Types[k], "the share of job %.60q is %v", name, x)
			}
			sum += x
			need[k] += x * float64(gpus)
		}
		if sum > 1+shareTolerance {
			return refuse("of any type", "the shares of job %.60q sum to %v, more than all of its time", name, sum)
		}
		return nil
	}
	for i := range le.state.Jobs {
		if err := row(le.state.Jobs[i].ID, le.state.Jobs[i].GPUs, le.out.Share[i*n:(i+1)*n]); err != nil {
			return err
		}
	}
	for _, p := range le.out.Pairs {
		if !le.traits.Pairs || p.A < 0 || p.B <= p.A || p.B >= len(le.state.Jobs) || len(p.Share) != n ||
			le.state.Jobs[p.A].GPUs != le.state.Jobs[p.B].GPUs {
			return refuse("of any type", "jobs %d and %d are not a pair that can share GPUs", p.A, p.B)
		}
		if err := row(le.state.Jobs[p.A].ID, le.state.Jobs[p.A].GPUs, p.Share); err != nil {
			return err
		}
	}
	for k, x := range need {
		if have := float64(le.cluster.GPUs[k]); !le.out.Oversubscribed && x > have*(1+shareTolerance) {
			return refuse(le.cluster.Types[k], "the shares need %.6g GPUs, there are %d", x, le.cluster.GPUs[k])
		}
	}
	return nil
}

// prioritise computes the priorities, and lists the units that can run on each type:
// the units with a priority in wanted, the others in others.
func (le *leaseEngine) prioritise() {
	for k := range le.wanted {
		le.wanted[k], le.others[k] = le.wanted[k][:0], le.others[k][:0]
	}
	for i, slot := range le.order {
		u := &le.units[slot]
		for k, share := range u.share {
			if u.rate[k] <= 0 || u.b != noJob && u.rateB[k] <= 0 {
				continue
			}
			if !u.known || share == 0 {
				le.others[k] = append(le.others[k], int32(i))
				continue
			}
			p := share * unservedPriority
			if u.timeS[k] > 0 && le.workerS[k] > 0 {
				p = share / (u.timeS[k] / le.workerS[k])
			}
			le.wanted[k] = append(le.wanted[k], pick{p, u.deficitS[k], share, int32(i)})
		}
	}
}

// choose chooses units for type k: first the units with a priority, by falling priority,
// and then the others if GPUs are left.
func (le *leaseEngine) choose(k int) {
	le.chosen[k] = le.chosen[k][:0]
	left := le.cluster.GPUs[k]
	if le.faults != nil {
		left -= le.faults.count[k]
	}
	left = le.take(k, left, le.wanted[k])
	if left == 0 || le.traits.OnlyShares {
		return
	}
	le.picks = le.picks[:0]
	for _, i := range le.others[k] {
		le.picks = append(le.picks, pick{deficitS: le.units[le.order[i]].deficitS[k], entry: i})
	}
	le.take(k, left, le.picks)
}

// take chooses units in the order of picks as long as they fit, and returns the number of
// GPUs left. It reorders from.
func (le *leaseEngine) take(k, left int, from []pick) int {
	open := picks(from[:0])
	for _, p := range from {
		if u := &le.units[le.order[p.entry]]; u.gpus <= left && !le.pickedNow(u) {
			open = append(open, p)
		}
	}
	open.init()
	for left > 0 && len(open) > 0 {
		slot := le.order[open.pop().entry]
		u := &le.units[slot]
		if u.gpus > left || le.pickedNow(u) {
			continue
		}
		left -= u.gpus
		le.jobs[u.a].picked = le.rounds + 1
		if u.b != noJob {
			le.jobs[u.b].picked = le.rounds + 1
		}
		le.chosen[k] = append(le.chosen[k], slot)
	}
	return left
}

// pickedNow reports whether a job of the unit has been chosen in this round.
func (le *leaseEngine) pickedNow(u *unit) bool {
	return le.jobs[u.a].picked == le.rounds+1 || u.b != noJob && le.jobs[u.b].picked == le.rounds+1
}

// place gives the units chosen for type k their GPUs, the widest gangs first: the GPUs
// of the round before if these are free, else the first free ones. Units that were not
// part of the last computation of shares wait, and the GPUs kept for them idle.
func (le *leaseEngine) place(k int) {
	chosen := le.chosen[k]
	slices.SortStableFunc(chosen, func(x, y int32) int { return cmp.Compare(le.units[y].gpus, le.units[x].gpus) })
	next, end := le.base[k], le.base[k]+int32(le.cluster.GPUs[k])
	for len(chosen) > 0 {
		gpus := le.units[chosen[0]].gpus
		same := 1
		for same < len(chosen) && le.units[chosen[same]].gpus == gpus {
			same++
		}
		for i, slot := range chosen[:same] {
			u := &le.units[slot]
			if le.rounds == 0 || u.heldIn != le.rounds || u.heldType != k || slices.ContainsFunc(u.held, le.given) {
				continue
			}
			le.give(u.held)
			le.start(slot, k, u.held)
			chosen[i] = noJob
		}
		for _, slot := range chosen[:same] {
			if slot == noJob || !le.units[slot].known {
				continue
			}
			le.fresh = le.fresh[:0]
			for ; len(le.fresh) < gpus && next < end; next++ {
				if !le.given(next) {
					le.fresh = append(le.fresh, next)
				}
			}
			le.give(le.fresh)
			le.start(slot, k, le.fresh)
		}
		chosen = chosen[same:]
	}
}

func (le *leaseEngine) given(gpu int32) bool { return le.taken[gpu] == le.rounds+1 }

func (le *leaseEngine) give(gpus []int32) {
	for _, g := range gpus {
		le.taken[g] = le.rounds + 1
	}
}

// chooseHolds asks a HoldPolicy and starts the leases that it returns.
func (le *leaseEngine) chooseHolds(ctx context.Context) error {
	le.view()
	le.holding = le.holding[:0]
	for i := range le.state.Jobs {
		u := &le.units[le.jobs[le.state.Jobs[i].Number].slot]
		if le.rounds > 0 && u.heldIn == le.rounds {
			le.holding = append(le.holding, Hold{Job: i, GPUs: u.held, Copies: u.copies})
		}
	}
	holds, err := le.holds.Hold(ctx, &le.state, le.holding)
	if err != nil {
		return fmt.Errorf("sim: policy %s at %.3f s: %w", le.name, le.nowS, err)
	}
	for _, h := range holds {
		k, err := le.checkHold(h)
		if err != nil {
			return err
		}
		le.give(h.GPUs)
		job := le.state.Jobs[h.Job].Number
		le.jobs[job].picked = le.rounds + 1
		if h.Copies > 1 {
			le.startCopies(le.jobs[job].slot, k, h)
		} else {
			le.start(le.jobs[job].slot, k, h.GPUs)
		}
	}
	le.sortLeases()
	return nil
}

// checkHold checks a hold and returns the type of its GPUs.
func (le *leaseEngine) checkHold(h Hold) (kind int, err error) {
	refuse := func(gpu, format string, args ...any) error {
		return &sim.AllocationError{Policy: le.name, NowS: le.nowS, GPU: gpu, Reason: fmt.Sprintf(format, args...)}
	}
	if h.Job < 0 || h.Job >= len(le.state.Jobs) {
		return 0, refuse("of any type", "job %d is not there", h.Job)
	}
	j := &le.state.Jobs[h.Job]
	kind = -1
	for i, g := range h.GPUs {
		k := le.typeOf(g)
		switch {
		case k < 0:
			return 0, refuse(fmt.Sprint(g), "there are %d", len(le.taken))
		case le.faults != nil && le.faults.out[g]:
			return 0, refuse(le.gpuName(g, k), "is out of service and was allocated to job %.60q", j.ID)
		case le.given(g) || slices.Contains(h.GPUs[:i], g):
			return 0, refuse(le.gpuName(g, k), "allocated twice, the second time to job %.60q", j.ID)
		case kind >= 0 && k != kind && !le.mixed && h.Copies <= 1:
			return 0, refuse(le.gpuName(g, k), "job %.60q holds %s GPUs and needs one type", j.ID,
				le.cluster.Types[kind])
		case j.Rate[k] == 0:
			return 0, refuse(le.gpuName(g, k), "job %.60q cannot run on this type", j.ID)
		}
		if kind < 0 || j.Rate[k] < j.Rate[kind] {
			kind = k
		}
	}
	switch {
	case h.Copies < 0 || h.Copies > len(le.taken) || len(h.GPUs) != max(1, h.Copies)*j.GPUs:
		return 0, refuse("of any type", "job %.60q got %d and needs %d at once, for each of %d copies", j.ID, len(h.GPUs),
			j.GPUs, max(1, h.Copies))
	case le.jobs[j.Number].picked == le.rounds+1:
		return 0, refuse(le.gpuName(h.GPUs[0], kind), "job %.60q holds GPUs already in this round", j.ID)
	case h.Copies > 1:
		return kind, le.checkCopies(h, j)
	case le.ratesOn(&le.units[le.jobs[j.Number].slot], kind, h.GPUs)[0] == 0:
		return 0, refuse(le.gpuName(h.GPUs[0], kind), "job %.60q cannot run on several nodes of this type", j.ID)
	}
	return kind, nil
}

// typeOf is the type of a GPU, or −1 where there is no such GPU.
func (le *leaseEngine) typeOf(gpu int32) int {
	if gpu < 0 || int(gpu) >= len(le.taken) {
		return -1
	}
	k, found := slices.BinarySearch(le.base, gpu)
	if !found {
		k--
	}
	return k
}

func (le *leaseEngine) gpuName(gpu int32, kind int) string {
	return fmt.Sprintf("%s/%d", le.cluster.Types[kind], gpu-le.base[kind])
}
