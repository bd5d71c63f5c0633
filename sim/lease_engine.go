package sim

import (
	"context"
	"fmt"
	"slices"
)

// maxLostLeases in a row are the end of a job, as in Gavel.
const maxLostLeases = 5

// leaseEngine is the cluster and its totals between two rounds.
type leaseEngine struct {
	name    string
	cluster LeaseCluster
	cfg     LeaseConfig
	specs   []LeaseJob
	shares  SharePolicy // or
	holds   HoldPolicy
	traits  LeaseTraits
	draws   *Twister

	nowS                 float64
	roundStartS          float64
	roundEndS            float64 // below 0 before the end of the first round
	rounds               int64
	arrived              int // jobs that have
	counted, left, ended int // jobs of the window; of them not ended; of all ended
	jobs                 []leaseJobState
	units                []unit  // by slot
	vacant               []int32 // slots
	order                []int32 // slots that are in use, by entry
	running              []lease
	ends                 []leaseEnd // of running, the last first
	before               []int32    // slots that ran in the last round and have not ended

	// Of the mechanism of shares.
	lastResetS float64
	changed    bool      // jobs came, went or failed since shares were computed
	workerS    []float64 // by type, received since then by all units
	typeOrder  []int
	wanted     [][]pick  // by type: units with a priority,
	others     [][]int32 // and entries without
	picks      []pick
	chosen     [][]int32 // slots by type
	base       []int32   // first GPU of a type
	taken      []int64   // round in which a GPU was given out, plus 1
	fresh      []int32   // GPUs for one gang
	state      LeaseState
	holding    []Hold
	out        Shares

	busyS  []float64 // GPU-seconds by type
	stats  leaseStats
	lastOn []int64      // by GPU, the unit that held it last
	faults *leaseFaults // or nil
}

type leaseStats struct {
	leases, lost, cut, preemptions, extended, chances, switches int64
	lostS, switchS                                              float64
}

// leaseJobState is the state of one job.
type leaseJobState struct {
	stepsRun    int64
	enteredS    float64
	slot        int32
	failures    int
	startS      float64 // of the first lease; below 0 before
	latestS     float64 // end of the last lease
	over        bool
	dropped     bool
	picked      int64 // round that it was last chosen in, plus 1
	preemptions int64
}

// unit is what leases are given to: a job, or two that share GPUs.
type unit struct {
	a, b     int32 // job numbers; b is none for a single
	gpus     int
	known    bool    // shares were computed with it
	held     []int32 // GPUs of the last lease
	heldType int
	heldIn   int64 // round of that lease, plus 1; 0: never
	// By type: time received since shares were computed, deficit, share,
	// rate of a, rate of b.
	timeS, deficitS, share, rate, rateB []float64
}

// lease is one gang in the round.
type lease struct {
	slot  int32
	kind  int // type
	endS  float64
	steps [2]int64 // of a and b
	cut   bool     // by a fault
}

// leaseEnd orders leases.
type leaseEnd struct {
	endS     float64
	a, b, at int32 // the jobs, and the index into running
}

func newLeaseEngine(name string, cluster LeaseCluster, jobs []LeaseJob, policy any, cfg LeaseConfig) (*leaseEngine,
	error) {
	n := len(cluster.Types)
	e := &leaseEngine{
		name: name, cluster: cluster, cfg: cfg, specs: jobs, draws: NewTwister(cfg.Seed + 5),
		roundEndS: -1, counted: cfg.Last - cfg.First + 1, jobs: make([]leaseJobState, len(jobs)),
		workerS: make([]float64, n), chosen: make([][]int32, n), wanted: make([][]pick, n), others: make([][]int32,
			n), busyS: make([]float64, n),
	}
	e.left = e.counted
	switch p := policy.(type) {
	case SharePolicy:
		e.shares, e.traits = p, p.LeaseTraits()
	case HoldPolicy:
		e.holds = p
	default:
		return nil, fmt.Errorf("sim: policy %s does not decide on leases", name)
	}
	if e.traits.Pairs && cfg.PairRates == nil {
		return nil, fmt.Errorf("sim: policy %s makes jobs share GPUs and needs their rates, which are missing", name)
	}
	e.state = LeaseState{Types: cluster.Types, GPUs: cluster.GPUs, PairRates: cfg.PairRates}
	var gpus int32
	for k := n - 1; k >= 0; k-- {
		e.typeOrder = append(e.typeOrder, k)
	}
	for k := range n {
		e.base = append(e.base, gpus)
		gpus += int32(cluster.GPUs[k])
	}
	e.taken, e.lastOn = make([]int64, gpus), make([]int64, gpus)
	var err error
	e.faults, err = newLeaseFaults(cluster, e.base, &e.cfg)
	return e, err
}

// round ends the round that runs, lets jobs in, and starts the next round.
func (e *leaseEngine) round(ctx context.Context) error {
	waiting := e.arrived < len(e.specs)
	idle := len(e.running) == 0
	outs := 0
	if e.faults != nil {
		outs = e.faults.total
	}
	switch {
	case !idle:
		e.nowS = e.ends[0].endS
		if e.roundEndS >= 0 {
			e.roundStartS = e.roundEndS
		}
		e.roundEndS = e.nowS
	case waiting && outs == 0:
		e.nowS = e.specs[e.arrived].ArrivalS
	case outs > 0:
		if err := e.await(waiting); err != nil {
			return err
		}
	}
	if idle && !waiting {
		e.lastResetS = 0 // shares may be computed at once
	}
	e.endLeases()
	for e.arrived < len(e.specs) && e.specs[e.arrived].ArrivalS <= e.nowS {
		e.arrive()
	}
	if e.left == 0 {
		return nil
	}
	if e.faults != nil {
		if e.faults.vain > maxFruitlessFaults*len(e.faults.gpus) {
			return fmt.Errorf("%w: policy %s at %.3f s: faults ended %d leases in a row before a step: let GPUs "+
				"fail more rarely", ErrStalled, e.name, e.nowS, e.faults.vain)
		}
		e.pass()
		e.state.Out = e.faults.listed
		outs = e.faults.total
	}
	choose := e.chooseByShares
	if e.holds != nil {
		choose = e.chooseHolds
	}
	if err := choose(ctx); err != nil {
		return err
	}
	e.rounds++
	if len(e.running) == 0 && idle && !waiting && outs == 0 {
		return e.stalled()
	}
	if e.faults != nil && len(e.running) > 0 {
		e.faults.idle = 0
	}
	return nil
}

// stalled names a job that waits for ever.
func (e *leaseEngine) stalled() error {
	for i := range e.jobs {
		if !e.jobs[i].over {
			return fmt.Errorf("%w: policy %s at %.3f s lends job %.60q nothing", ErrStalled, e.name, e.nowS,
				e.specs[i].ID)
		}
	}
	return nil
}

// arrive lets the next job in, with the pairs that it can be part of.
func (e *leaseEngine) arrive() {
	number := int32(e.arrived)
	e.arrived++
	e.changed = true
	spec := &e.specs[number]
	slot := e.newUnit(number, none, spec.GPUs)
	e.jobs[number] = leaseJobState{slot: slot, startS: -1, enteredS: e.nowS}
	u := &e.units[slot]
	copy(u.rate, spec.Rate)
	for k := range u.timeS {
		u.timeS[k] = e.cfg.LeaseS / 2
	}
	singles := len(e.order)
	e.order = append(e.order, slot)
	if !e.traits.Pairs {
		return
	}
	for _, other := range e.order[:singles] {
		a := e.units[other].a
		if e.units[other].b != none || e.units[other].gpus != spec.GPUs {
			continue
		}
		slot := e.newUnit(a, number, spec.GPUs)
		u := &e.units[slot]
		for k := range u.rate {
			u.rate[k], u.rateB[k] = e.cfg.PairRates(&e.specs[a], spec, k)
		}
		e.order = append(e.order, slot)
	}
}

// newUnit gives a slot with zeros.
func (e *leaseEngine) newUnit(a, b int32, gpus int) int32 {
	n := len(e.cluster.Types)
	if len(e.vacant) == 0 {
		e.vacant = append(e.vacant, int32(len(e.units)))
		all := make([]float64, 5*n)
		e.units = append(e.units, unit{
			timeS: all[:n:n], deficitS: all[n : 2*n : 2*n], share: all[2*n : 3*n : 3*n],
			rate: all[3*n : 4*n : 4*n], rateB: all[4*n:],
		})
	}
	slot := e.vacant[len(e.vacant)-1]
	e.vacant = e.vacant[:len(e.vacant)-1]
	u := &e.units[slot]
	for _, v := range [][]float64{u.timeS, u.deficitS, u.share, u.rate, u.rateB} {
		clear(v)
	}
	u.a, u.b, u.gpus, u.known, u.held, u.heldIn = a, b, gpus, false, u.held[:0], 0
	return slot
}

// endLeases adds up the leases of the round, the last to end first.
func (e *leaseEngine) endLeases() {
	gone := e.ended
	for _, end := range e.ends {
		e.endLease(&e.running[end.at])
	}
	e.before = e.before[:0]
	for i := range e.running {
		if slot := e.running[i].slot; !e.over(slot) {
			e.before = append(e.before, slot)
		}
	}
	e.stats.chances += int64(len(e.before))
	e.running, e.ends = e.running[:0], e.ends[:0]
	if e.ended > gone {
		e.order = slices.DeleteFunc(e.order, func(slot int32) bool {
			over := e.over(slot)
			if over {
				e.vacant = append(e.vacant, slot)
			}
			return over
		})
	}
}

// over says that a job of the unit has ended.
func (e *leaseEngine) over(slot int32) bool {
	u := &e.units[slot]
	return e.jobs[u.a].over || u.b != none && e.jobs[u.b].over
}

func (e *leaseEngine) endLease(l *lease) {
	u := &e.units[l.slot]
	span := l.endS - e.roundStartS
	good := span > 0
	members, n := u.members()
	for i := range n {
		good = good && l.steps[i] >= int64(u.gpus)
		e.jobs[members[i]].latestS = l.endS
	}
	if l.cut {
		e.endCut(l, span)
		return
	}
	if e.faults != nil {
		e.faults.vain = 0
	}
	if !good {
		e.stats.lost++
		e.stats.lostS += span * float64(u.gpus)
		e.changed = true
		if j := &e.jobs[u.a]; u.b == none {
			if j.failures++; j.failures == maxLostLeases {
				j.dropped = true
				e.end(u.a)
			}
		}
		return
	}
	for i, number := range members[:n] {
		j := &e.jobs[number]
		j.failures = 0
		if j.stepsRun += l.steps[i]; j.stepsRun >= e.specs[number].Steps {
			e.end(number)
		}
	}
	u.timeS[l.kind] += span
	e.workerS[l.kind] += span
	e.busyS[l.kind] += span * float64(u.gpus)
}

// members are the n jobs of a unit.
func (u *unit) members() (jobs [2]int32, n int) {
	if u.b == none {
		return [2]int32{u.a}, 1
	}
	return [2]int32{u.a, u.b}, 2
}

func (e *leaseEngine) end(number int32) {
	e.jobs[number].over = true
	e.ended++
	e.changed = true
	if int(number) >= e.cfg.First && int(number) <= e.cfg.Last {
		e.left--
	}
}
