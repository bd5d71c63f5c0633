package leases

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// Fault takes a GPU out of service for a while, and ends the GPU's lease.
type Fault struct {
	GPU           string  // type/index, as AllocationError names it
	FromS, UntilS float64 // UntilS may be +Inf
}

// FaultRate makes GPUs fail and return, as FaultRate does: times are exponential,
// each GPU has draws of its own, and with one seed all policies meet the same faults.
// The zero value means no faults.
type FaultRate struct {
	MeanS, RepairS float64 // mean times to failure and to repair; both positive, or both 0
}

type outage struct{ fromS, untilS float64 }

var never = outage{math.Inf(1), math.Inf(1)}

// outages are the outages of one GPU, in order of time.
type outages struct {
	now    outage   // the current outage or the next one; overlapping outages are merged
	listed []outage // the listed outages that are not in now
	drawn  outage   // the next drawn outage
	draws  *rand.Rand
	rate   FaultRate
	downS  float64 // length of the outages before now
}

// leaseFaults are the outages of all GPUs.
type leaseFaults struct {
	gpus      []outages
	out       []bool  // by GPU, whether it is out of service
	count     []int   // by type, the number of GPUs that are out
	listed    []int32 // the GPUs that are out
	total     int     // the number of GPUs that are out
	idle      int     // rounds in a row in which no job ran
	fruitless int     // leases in a row that faults ended before a step
}

// newLeaseFaults returns nil where cfg asks for no faults.
func newLeaseFaults(c Cluster, base []int32, cfg *RunConfig) (*leaseFaults, error) {
	r := cfg.FaultRate
	if !(r.MeanS >= 0 && r.RepairS >= 0 && max(r.MeanS, r.RepairS) <= 1e9) || (r.MeanS == 0) != (r.RepairS == 0) {
		return nil, &hare.InvalidError{Pointer: "/fault_rate", Code: "bad_value",
			Detail: fmt.Sprintf("a GPU fails every %v s for %v s: both must be positive, or both 0", r.MeanS,
				r.RepairS)}
	}
	if len(cfg.Faults) == 0 && r.MeanS == 0 {
		return nil, nil
	}
	f := &leaseFaults{count: make([]int, len(c.Types))}
	for k, n := range c.GPUs {
		for g := range n {
			o := outages{drawn: never, rate: r}
			if r.MeanS > 0 {
				o.draws = rand.New(rand.NewPCG(cfg.Seed, sim.GPUFaultSeed(int(base[k])+g)))
				o.drawn = outage{}
				o.draw()
			}
			f.gpus = append(f.gpus, o)
		}
	}
	f.out = make([]bool, len(f.gpus))
	for i, x := range cfg.Faults {
		refuse := func(code, format string, args ...any) error {
			return &hare.InvalidError{Pointer: fmt.Sprintf("/faults/%d", i), Code: code,
				Detail: fmt.Sprintf("GPU %.60q: ", x.GPU) + fmt.Sprintf(format, args...)}
		}
		cut := strings.LastIndexByte(x.GPU, '/')
		k, known := slices.BinarySearch(c.Types, x.GPU[:max(cut, 0)])
		n, err := strconv.Atoi(x.GPU[cut+1:])
		switch {
		case !known || err != nil || n < 0 || n >= c.GPUs[k]:
			return nil, refuse("unknown_gpu", "is not in the cluster: name one as type/index")
		case !(x.FromS >= 0 && x.FromS < x.UntilS) || math.IsInf(x.FromS, 1):
			return nil, refuse("bad_value", "the fault from %v to %v s: it must begin at 0 s or later and end "+
				"after that", x.FromS, x.UntilS)
		}
		o := &f.gpus[int(base[k])+n]
		for _, y := range o.listed {
			if x.FromS < y.untilS && y.fromS < x.UntilS {
				return nil, refuse("overlap", "the fault from %v to %v s overlaps the fault from %v to %v s: make "+
					"them one", x.FromS, x.UntilS, y.fromS, y.untilS)
			}
		}
		o.listed = append(o.listed, outage{x.FromS, x.UntilS})
	}
	for i := range f.gpus {
		o := &f.gpus[i]
		slices.SortFunc(o.listed, func(a, b outage) int { return cmp.Compare(a.fromS, b.fromS) })
		o.next()
	}
	return f, nil
}

// draw draws the next outage.
func (og *outages) draw() {
	fromS := og.drawn.untilS + og.draws.ExpFloat64()*og.rate.MeanS
	og.drawn = outage{fromS, fromS + og.draws.ExpFloat64()*og.rate.RepairS}
}

// next sets now to the next outage, merged with the outages that overlap it.
func (og *outages) next() {
	og.now = outage{math.Inf(1), math.Inf(-1)}
	for {
		switch {
		case len(og.listed) > 0 && og.listed[0].fromS <= og.drawn.fromS &&
			(og.now.fromS > og.now.untilS || og.listed[0].fromS <= og.now.untilS):
			og.join(og.listed[0])
			og.listed = og.listed[1:]
		case og.draws != nil && (og.now.fromS > og.now.untilS || og.drawn.fromS <= og.now.untilS):
			og.join(og.drawn)
			og.draw()
		default:
			if og.now.fromS > og.now.untilS {
				og.now = never
			}
			return
		}
	}
}

func (og *outages) join(x outage) {
	og.now = outage{min(og.now.fromS, x.fromS), max(og.now.untilS, x.untilS)}
}

// findOutages finds the GPUs that are out of service at nowS, and marks them as taken in
// this round.
func (le *leaseEngine) findOutages() {
	f := le.faults
	clear(f.count)
	f.total = 0
	f.listed = f.listed[:0]
	for g := range f.gpus {
		o := &f.gpus[g]
		for o.now.untilS <= le.nowS {
			o.downS += o.now.untilS - o.now.fromS
			o.next()
		}
		if f.out[g] = o.now.fromS <= le.nowS; f.out[g] {
			f.count[le.typeOf(int32(g))]++
			f.total++
			f.listed = append(f.listed, int32(g))
			le.taken[g] = le.rounds + 1
		}
	}
}

// returnS is the time at which the first of the GPUs that are out returns.
func (lf *leaseFaults) returnS() float64 {
	at := math.Inf(1)
	for g := range lf.gpus {
		if lf.out[g] {
			at = min(at, lf.gpus[g].now.untilS)
		}
	}
	return at
}

// cut ends a lease at the time at which one of its GPUs leaves, if that is before the end
// of the lease.
func (le *leaseEngine) cut(l *lease, gpus []int32, restartS float64) {
	atS := l.endS
	for _, g := range gpus {
		atS = min(atS, le.faults.gpus[g].now.fromS)
	}
	if atS == l.endS {
		return
	}
	l.endS, l.cut = atS, true
	u := &le.units[l.slot]
	members, n := u.members()
	for i, number := range members[:n] {
		if !le.cfg.KeepSteps {
			l.steps[i] = 0
		} else {
			l.steps[i] = min(l.steps[i], whole(&le.specs[number], int64(max(0, l.rates[i]*(atS-le.nowS-restartS)))))
		}
	}
}

// downS returns the time for which GPUs of each type were out, up to the end of the run.
func (le *leaseEngine) downS() []float64 {
	down := make([]float64, len(le.cluster.Types))
	for g := range le.faults.gpus {
		o := &le.faults.gpus[g]
		for o.now.untilS <= le.nowS {
			o.downS += o.now.untilS - o.now.fromS
			o.next()
		}
		down[le.typeOf(int32(g))] += o.downS + max(0, le.nowS-o.now.fromS)
	}
	return down
}

// waitForGPU advances time until a GPU returns or the next job arrives.
func (le *leaseEngine) waitForGPU(waiting bool) error {
	at := le.faults.returnS()
	if waiting {
		at = min(at, le.specs[le.arrived].ArrivalS)
	}
	if le.faults.idle++; math.IsInf(at, 1) || le.faults.idle > sim.MaxIdleFaults*len(le.faults.gpus) {
		return le.stalled()
	}
	le.nowS = at
	if le.roundEndS >= 0 {
		le.roundEndS = at // no job received the time in which GPUs were out
	}
	return nil
}

// endCut adds up a lease that a fault ended.
func (le *leaseEngine) endCut(l *lease, span float64) {
	u := &le.units[l.slot]
	le.stats.lost++
	le.stats.cut++
	le.faults.fruitless++
	u.timeS[l.kind] += span
	le.workerS[l.kind] += span
	if !le.cfg.KeepSteps {
		le.stats.lostS += span * float64(u.gpus)
		return
	}
	le.busy(l, span)
	members, n := u.members()
	for i, number := range members[:n] {
		j := &le.jobs[number]
		if l.steps[i] > 0 {
			le.faults.fruitless = 0
		}
		if j.stepsRun += l.steps[i]; j.stepsRun >= le.specs[number].Steps {
			le.end(number)
		}
	}
}
