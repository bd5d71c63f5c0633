package leases

import (
	"context"
	"fmt"
	"slices"

	"github.com/hare-sched/hare/sim"
)

// noJob stands for no job in a slot.
const noJob = int32(-1)

// maxLostLeases is the number of lost leases in a row after which a job is dropped, as in
// Gavel.
const maxLostLeases = 5

// leaseEngine is the state of the cluster between two rounds, with its totals.
type leaseEngine struct {
	name    string
	cluster Cluster
	cfg     RunConfig
	specs   []Job
	shares  SharePolicy // either shares
	holds   HoldPolicy  // or holds is set
	mixed   bool        // holds is a MixedHoldPolicy
	forks   bool        // holds is a ForkingHoldPolicy
	traits  Traits
	draws   *sim.Twister

	nowS                 float64
	roundStartS          float64
	roundEndS            float64 // below 0 before the end of the first round
	rounds               int64
	arrived              int // number of jobs that have arrived
	counted, left, ended int // jobs of the window, those of them that have not ended, all ended jobs
	jobs                 []leaseJobState
	ranOn                map[[2]int]bool // a job and a type on which one of its copies ran
	units                []unit          // by slot
	vacant               []int32         // vacant slots
	order                []int32         // slots in use, in the order of entry
	running              []lease
	ends                 []leaseEnd // ends of running, the latest first
	before               []int32    // slots that ran in the last round and have not ended

	// The fields up to out serve a SharePolicy.
	lastResetS float64
	changed    bool      // whether jobs arrived, ended or failed since shares were computed
	workerS    []float64 // by type, the time that all units received since shares were computed
	typeOrder  []int
	wanted     [][]pick  // by type, the units with a priority
	others     [][]int32 // by type, the entries without a priority
	picks      []pick
	chosen     [][]int32 // by type, the chosen slots
	base       []int32   // by type, its first GPU
	taken      []int64   // by GPU, the round in which it was last given out, plus 1
	fresh      []int32   // GPUs for one gang
	state      State
	holding    []Hold
	out        Shares

	busyS  []float64 // GPU-seconds by type
	stats  leaseStats
	lastOn []int64      // by GPU, the unit that held it last
	faults *leaseFaults // nil without faults
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
	startS      float64 // start of the first lease; below 0 before it
	latestS     float64 // end of the last lease
	over        bool
	dropped     bool
	picked      int64 // round in which the job was last chosen, plus 1
	preemptions int64
}

// unit is a job, or two jobs that share GPUs. Leases are given to units.
type unit struct {
	a, b     int32 // job numbers; b is noJob for a single job
	gpus     int
	known    bool    // whether the last computation of shares included the unit
	held     []int32 // GPUs of the last lease
	heldType int
	heldIn   int64 // round of the last lease, plus 1; 0 means never
	copies   int   // of the last lease; 0 means 1
	// These are by type: the time received since shares were computed, the deficit, the
	// share, and the rates of a and b.
	timeS, deficitS, share, rate, rateB []float64
}

// lease is the lease of one unit in the current round.
type lease struct {
	slot  int32
	kind  int // type; the slowest of several
	endS  float64
	steps [2]int64 // steps of a and b
	cut   bool     // whether a fault ended the lease
	rates [2]float64
	// copies are the copies of the job, where there are several; steps[0] is what they do for the job.
	copies []leaseCopy
}

// leaseEnd is the end of a lease, for sorting.
type leaseEnd struct {
	endS     float64
	a, b, at int32 // the jobs of the unit, and the index into running
}

func newLeaseEngine(name string, cluster Cluster, jobs []Job, policy any, cfg RunConfig) (*leaseEngine,
	error) {
	n := len(cluster.Types)
	e := &leaseEngine{
		name: name, cluster: cluster, cfg: cfg, specs: jobs, draws: sim.NewTwister(cfg.Seed + 5),
		roundEndS: -1, counted: cfg.Last - cfg.First + 1, jobs: make([]leaseJobState, len(jobs)),
		workerS: make([]float64, n), chosen: make([][]int32, n), wanted: make([][]pick, n),
		others: make([][]int32, n), busyS: make([]float64, n),
	}
	e.left = e.counted
	switch p := policy.(type) {
	case SharePolicy:
		e.shares, e.traits = p, p.LeaseTraits()
	case HoldPolicy:
		e.holds = p
		_, e.mixed = policy.(MixedHoldPolicy)
		_, e.forks = policy.(ForkingHoldPolicy)
	default:
		return nil, fmt.Errorf("sim: policy %s does not decide on leases", name)
	}
	if e.traits.Pairs && cfg.PairRates == nil {
		return nil, fmt.Errorf("sim: policy %s makes jobs share GPUs and needs their rates, which are missing", name)
	}
	e.state = State{Types: cluster.Types, GPUs: cluster.GPUs, NodeSize: cluster.NodeSize,
		PairRates: cfg.PairRates}
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

// round ends the current round, lets the jobs that have arrived enter, and starts the
// next round.
func (le *leaseEngine) round(ctx context.Context) error {
	waiting := le.arrived < len(le.specs)
	idle := len(le.running) == 0
	outs := 0
	if le.faults != nil {
		outs = le.faults.total
	}
	switch {
	case !idle:
		le.nowS = le.ends[0].endS
		if le.roundEndS >= 0 {
			le.roundStartS = le.roundEndS
		}
		le.roundEndS = le.nowS
	case waiting && outs == 0:
		le.nowS = le.specs[le.arrived].ArrivalS
	case outs > 0:
		if err := le.waitForGPU(waiting); err != nil {
			return err
		}
	}
	if idle && !waiting {
		le.lastResetS = 0 // shares may be computed at once
	}
	le.endLeases()
	for le.arrived < len(le.specs) && le.specs[le.arrived].ArrivalS <= le.nowS {
		le.arrive()
	}
	if le.left == 0 {
		return nil
	}
	if le.faults != nil {
		if le.faults.fruitless > sim.MaxFruitlessFaults*len(le.faults.gpus) {
			return fmt.Errorf("%w: policy %s at %.3f s: faults ended %d leases in a row before a step: let GPUs "+
				"fail more rarely", sim.ErrStalled, le.name, le.nowS, le.faults.fruitless)
		}
		le.findOutages()
		le.state.Out = le.faults.listed
		outs = le.faults.total
	}
	choose := le.chooseByShares
	if le.holds != nil {
		choose = le.chooseHolds
	}
	if err := choose(ctx); err != nil {
		return err
	}
	le.rounds++
	if len(le.running) == 0 && idle && !waiting && outs == 0 {
		return le.stalled()
	}
	if le.faults != nil && len(le.running) > 0 {
		le.faults.idle = 0
	}
	return nil
}

// stalled returns the error that names a job that waits forever.
func (le *leaseEngine) stalled() error {
	for i := range le.jobs {
		if !le.jobs[i].over {
			return fmt.Errorf("%w: policy %s at %.3f s lends job %.60q nothing", sim.ErrStalled, le.name, le.nowS,
				le.specs[i].ID)
		}
	}
	return nil
}

// arrive lets the next job enter, with a unit for each pair that it can be part of.
func (le *leaseEngine) arrive() {
	number := int32(le.arrived)
	le.arrived++
	le.changed = true
	spec := &le.specs[number]
	slot := le.newUnit(number, noJob, spec.GPUs)
	le.jobs[number] = leaseJobState{slot: slot, startS: -1, enteredS: le.nowS}
	u := &le.units[slot]
	copy(u.rate, spec.Rate)
	for k := range u.timeS {
		u.timeS[k] = le.cfg.LeaseS / 2
	}
	singles := len(le.order)
	le.order = append(le.order, slot)
	if !le.traits.Pairs {
		return
	}
	for _, other := range le.order[:singles] {
		a := le.units[other].a
		if le.units[other].b != noJob || le.units[other].gpus != spec.GPUs {
			continue
		}
		slot := le.newUnit(a, number, spec.GPUs)
		u := &le.units[slot]
		for k := range u.rate {
			u.rate[k], u.rateB[k] = le.cfg.PairRates(&le.specs[a], spec, k)
		}
		le.order = append(le.order, slot)
	}
}

// newUnit returns the slot of a new unit, whose values by type are zeros.
func (le *leaseEngine) newUnit(a, b int32, gpus int) int32 {
	n := len(le.cluster.Types)
	if len(le.vacant) == 0 {
		le.vacant = append(le.vacant, int32(len(le.units)))
		all := make([]float64, 5*n)
		le.units = append(le.units, unit{
			timeS: all[:n:n], deficitS: all[n : 2*n : 2*n], share: all[2*n : 3*n : 3*n],
			rate: all[3*n : 4*n : 4*n], rateB: all[4*n:],
		})
	}
	slot := le.vacant[len(le.vacant)-1]
	le.vacant = le.vacant[:len(le.vacant)-1]
	u := &le.units[slot]
	for _, v := range [][]float64{u.timeS, u.deficitS, u.share, u.rate, u.rateB} {
		clear(v)
	}
	u.a, u.b, u.gpus, u.known, u.held, u.heldIn, u.copies = a, b, gpus, false, u.held[:0], 0, 0
	return slot
}

// endLeases adds up the leases of the round, the last to end first.
func (le *leaseEngine) endLeases() {
	gone := le.ended
	for _, end := range le.ends {
		le.endLease(&le.running[end.at])
	}
	le.before = le.before[:0]
	for i := range le.running {
		if slot := le.running[i].slot; !le.over(slot) {
			le.before = append(le.before, slot)
		}
	}
	le.stats.chances += int64(len(le.before))
	le.running, le.ends = le.running[:0], le.ends[:0]
	if le.ended > gone {
		le.order = slices.DeleteFunc(le.order, func(slot int32) bool {
			over := le.over(slot)
			if over {
				le.vacant = append(le.vacant, slot)
			}
			return over
		})
	}
}

// over reports whether a job of the unit has ended.
func (le *leaseEngine) over(slot int32) bool {
	u := &le.units[slot]
	return le.jobs[u.a].over || u.b != noJob && le.jobs[u.b].over
}

func (le *leaseEngine) endLease(l *lease) {
	u := &le.units[l.slot]
	span := l.endS - le.roundStartS
	good := span > 0
	members, n := u.members()
	for i := range n {
		good = good && l.steps[i] >= int64(u.gpus)
		le.jobs[members[i]].latestS = l.endS
	}
	if l.cut {
		le.endCut(l, span)
		return
	}
	if le.faults != nil {
		le.faults.fruitless = 0
	}
	if !good {
		le.stats.lost++
		le.stats.lostS += span * float64(u.gpus)
		le.changed = true
		if j := &le.jobs[u.a]; u.b == noJob {
			if j.failures++; j.failures == maxLostLeases {
				j.dropped = true
				le.end(u.a)
			}
		}
		return
	}
	for i, number := range members[:n] {
		j := &le.jobs[number]
		j.failures = 0
		if j.stepsRun += l.steps[i]; j.stepsRun >= le.specs[number].Steps {
			le.end(number)
		}
	}
	u.timeS[l.kind] += span
	le.workerS[l.kind] += span
	le.busy(l, span)
}

// busy counts the time of a lease for the types of its GPUs.
func (le *leaseEngine) busy(l *lease, span float64) {
	u := &le.units[l.slot]
	if l.copies != nil {
		for _, c := range l.copies {
			le.busyS[c.kind] += c.busyS * float64(u.gpus)
		}
		return
	}
	if !le.mixed {
		le.busyS[l.kind] += span * float64(u.gpus)
		return
	}
	for _, g := range u.held {
		le.busyS[le.typeOf(g)] += span
	}
}

// members are the n jobs of a unit.
func (u *unit) members() (jobs [2]int32, n int) {
	if u.b == noJob {
		return [2]int32{u.a}, 1
	}
	return [2]int32{u.a, u.b}, 2
}

func (le *leaseEngine) end(number int32) {
	le.jobs[number].over = true
	le.ended++
	le.changed = true
	if int(number) >= le.cfg.First && int(number) <= le.cfg.Last {
		le.left--
	}
}
