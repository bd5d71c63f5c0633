package antman

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// run is the state of a simulation.
type run struct {
	nodes  []Node
	first  []int // the first GPU of each node
	types  int
	cfg    Config
	jobs   []Job
	states []jobState
	gpus   []gpuState

	nowS           float64
	arrived, ended int
	measured       float64 // the number of the next measurement of slowdowns under Throttled
	guaranteed     []int   // queues of jobs that wait
	opportunistic  []int
	running        []int
	busyS, memoryS float64 // integrals over time of the busy GPUs and of the GiB in use
	heldS          []float64
	switches       int64
	order          []int   // memory of placements
	eligible       [][]int // by type, the GPUs that an opportunistic job may join, those with the least busy time first
	stale          bool    // whether eligible is to be listed again
}

type jobState struct {
	held          []int   // GPUs, by number
	leftS         float64 // what is left of the time alone
	rate          float64
	startS, endsS float64
}

// gpuState is what runs on a GPU.
type gpuState struct {
	guaranteed    int // job, or none
	opportunistic []int
	share         float64 // of the compute, which opportunistic jobs may take under Throttled
	gpuType       int
	last          int // the job that began last, or none
	memoryGiB     float64
}

const none = -1

func newRun(cluster Cluster, jobs []Job, cfg Config) *run {
	r := &run{nodes: cluster.nodes(), cfg: cfg, jobs: jobs, states: make([]jobState, len(jobs))}
	for i := range r.states {
		r.states[i] = jobState{startS: -1}
	}
	for _, n := range r.nodes {
		r.types = max(r.types, n.Type+1)
		r.first = append(r.first, len(r.gpus))
		fresh := gpuState{guaranteed: none, last: none, gpuType: n.Type, memoryGiB: n.MemoryGiB}
		r.gpus = append(r.gpus, slices.Repeat([]gpuState{fresh}, n.GPUs)...)
	}
	r.heldS, r.eligible = make([]float64, r.types), make([][]int, r.types)
	return r
}

// owns reports whether a job has GPUs for itself.
func (r *run) owns(i int) bool { return !r.jobs[i].Opportunistic || r.cfg.Sharing == Exclusive }

func (r *run) arrive() {
	for r.arrived < len(r.jobs) && r.jobs[r.arrived].ArrivalS <= r.nowS {
		if r.owns(r.arrived) {
			r.guaranteed = append(r.guaranteed, r.arrived)
		} else {
			r.opportunistic = append(r.opportunistic, r.arrived)
		}
		r.arrived++
	}
}

// start starts the jobs that have room.
func (r *run) start() {
	for len(r.guaranteed) > 0 {
		i := r.guaranteed[0]
		held := r.own(i)
		if held == nil {
			break
		}
		for _, g := range held {
			r.gpus[g].guaranteed, r.gpus[g].share = i, 0
		}
		r.begin(i, held)
		r.guaranteed = r.guaranteed[1:]
	}
	r.stale = true
	r.opportunistic = slices.DeleteFunc(r.opportunistic, func(i int) bool {
		held := r.leftOver(i)
		if held == nil {
			return false
		}
		for _, g := range held {
			r.gpus[g].opportunistic = append(r.gpus[g].opportunistic, i)
		}
		r.begin(i, held)
		r.stale = true
		return true
	})
}

func (r *run) begin(i int, held []int) {
	s := &r.states[i]
	s.held, s.startS, s.leftS = held, r.nowS, r.jobs[i].workS(r.gpus[held[0]].gpuType)
	r.running = append(r.running, i)
	for _, g := range held {
		if r.gpus[g].last != none {
			r.switches++
		}
		r.gpus[g].last = i
	}
}

// byTime lists the GPU types on which a job runs, the fastest first.
func (r *run) byTime(i int) []int {
	var types []int
	for k := range r.types {
		if r.jobs[i].workS(k) > 0 {
			types = append(types, k)
		}
	}
	slices.SortStableFunc(types, func(a, b int) int { return cmp.Compare(r.jobs[i].workS(a), r.jobs[i].workS(b)) })
	return types
}

// own returns GPUs for a guaranteed job, or nil: of the fastest type that has enough.
func (r *run) own(i int) []int {
	for _, k := range r.byTime(i) {
		if held := r.ownOf(i, k); held != nil {
			return held
		}
	}
	return nil
}

// ownOf returns GPUs of a type: of the node with the fewest GPUs that hold the job, or of the nodes with the most.
func (r *run) ownOf(i, gpuType int) []int {
	free := make([]int, len(r.nodes))
	total, best := 0, none
	for n := range r.nodes {
		if r.nodes[n].Type != gpuType {
			continue
		}
		for g := r.first[n]; g < r.first[n]+r.nodes[n].GPUs; g++ {
			if r.gpus[g].guaranteed == none && r.hasMemory(g, i) {
				free[n]++
				total++
			}
		}
	}
	need := r.jobs[i].GPUs
	if total < need {
		return nil
	}
	r.order = r.order[:0]
	for n := range free {
		r.order = append(r.order, n)
		if free[n] >= need && (best == none || free[n] < free[best]) {
			best = n
		}
	}
	nodes := r.order
	if best != none {
		nodes = []int{best}
	} else {
		slices.SortStableFunc(nodes, func(a, b int) int { return free[b] - free[a] })
	}
	var held []int
	for _, n := range nodes {
		first := len(held)
		for g := r.first[n]; g < r.first[n]+r.nodes[n].GPUs; g++ {
			if free[n] > 0 && r.gpus[g].guaranteed == none && r.hasMemory(g, i) {
				held = append(held, g)
			}
		}
		// GPUs without opportunistic jobs come first.
		slices.SortStableFunc(held[first:], func(a, b int) int {
			return len(r.gpus[a].opportunistic) - len(r.gpus[b].opportunistic)
		})
		if len(held) >= need {
			return held[:need]
		}
	}
	return nil
}

// hasMemory reports whether a guaranteed job finds its memory on a GPU. Opportunistic jobs make
// room under Managed; otherwise nothing moves.
func (r *run) hasMemory(g, i int) bool {
	if r.cfg.Sharing != Unmanaged {
		return r.jobs[i].MemoryGiB <= r.gpus[g].memoryGiB
	}
	return r.memory(g)+r.jobs[i].MemoryGiB <= r.gpus[g].memoryGiB
}

// memory is what the jobs of a GPU would like to hold.
func (r *run) memory(g int) float64 {
	sum := 0.
	if o := r.gpus[g].guaranteed; o != none {
		sum = r.jobs[o].MemoryGiB
	}
	for _, o := range r.gpus[g].opportunistic {
		sum += r.jobs[o].MemoryGiB
	}
	return sum
}

// busy is the busy time that the jobs of a GPU would like to have.
func (r *run) busy(g int) float64 {
	sum := 0.
	if o := r.gpus[g].guaranteed; o != none {
		sum = r.jobs[o].Busy
	}
	for _, o := range r.gpus[g].opportunistic {
		sum += r.jobs[o].Busy
	}
	return sum
}

// leftOver returns the GPUs with the least busy time for an opportunistic job, or nil where too few
// have room.
func (r *run) leftOver(i int) []int {
	if r.stale {
		r.listEligible()
	}
	for _, k := range r.byTime(i) {
		if len(r.eligible[k]) < r.jobs[i].GPUs {
			continue
		}
		var held []int
		for _, g := range r.eligible[k] {
			if r.hasMemory(g, i) {
				if held = append(held, g); len(held) == r.jobs[i].GPUs {
					return held
				}
			}
		}
	}
	return nil
}

// listEligible lists the GPUs that an opportunistic job may join.
func (r *run) listEligible() {
	r.stale = false
	busy := make([]float64, len(r.gpus))
	for k := range r.eligible {
		r.eligible[k] = r.eligible[k][:0]
	}
	for g := range r.gpus {
		s := &r.gpus[g]
		if busy[g] = r.busy(g); len(s.opportunistic) < r.cfg.Opportunists && busy[g] <= r.cfg.MaxBusy {
			r.eligible[s.gpuType] = append(r.eligible[s.gpuType], g)
		}
	}
	for _, all := range r.eligible {
		slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(busy[a], busy[b]) })
	}
}

// rateOn is how fast a job runs on one of its GPUs.
func (r *run) rateOn(i, g int) float64 {
	s := &r.gpus[g]
	owner := s.guaranteed
	count := len(s.opportunistic)
	if owner != none {
		count++
	}
	presence := 1.
	if count > 1 {
		presence = 1 / (1 + r.cfg.Interference)
	}
	if r.cfg.Sharing == Throttled && owner != none && len(s.opportunistic) > 0 {
		return r.throttledRate(i, g)
	}
	if r.cfg.Sharing == Unmanaged {
		return presence / math.Max(1, r.busy(g))
	}
	if owner == i {
		return presence
	}
	left, memory, busy, wanted := 1., s.memoryGiB, 0., 0.
	if owner != none {
		left -= r.jobs[owner].Busy * presence
		memory -= r.jobs[owner].MemoryGiB
	}
	for _, o := range s.opportunistic {
		busy += r.jobs[o].Busy
		wanted += r.jobs[o].MemoryGiB
	}
	rate := presence * math.Min(1, left/busy)
	if wanted > memory {
		rate /= 1 + r.cfg.HostSlowdown*(wanted-memory)/wanted
	}
	return math.Max(0, rate)
}

// throttledRate is how fast a job runs on a GPU with a guaranteed and opportunistic jobs under
// Throttled. The opportunistic jobs keep the GPU busy for a share u of the time at most. All jobs
// are slowed by the sum of the busy times where it is above 1, and the guaranteed job is also slowed by
// Interference in proportion to u.
func (r *run) throttledRate(i, g int) float64 {
	s, wanted, memory := &r.gpus[g], 0., 0.
	for _, o := range s.opportunistic {
		wanted += r.jobs[o].Busy
		memory += r.jobs[o].MemoryGiB
	}
	u := math.Min(s.share, wanted)
	rate := 1 / math.Max(1, r.jobs[s.guaranteed].Busy+u)
	if i == s.guaranteed {
		return rate / (1 + r.cfg.Interference*u)
	}
	rate *= u / wanted / (1 + r.cfg.Interference)
	if room := s.memoryGiB - r.jobs[s.guaranteed].MemoryGiB; memory > room {
		rate /= 1 + r.cfg.HostSlowdown*(memory-room)/memory
	}
	return rate
}

// throttles reports whether the coordinator of a GPU has jobs to measure.
func (r *run) throttles(g int) bool {
	s := &r.gpus[g]
	return r.cfg.Sharing == Throttled && s.guaranteed != none && len(s.opportunistic) > 0
}

// control changes the shares of opportunistic jobs by the slowdowns of guaranteed jobs.
func (r *run) control() {
	for g := range r.gpus {
		if !r.throttles(g) {
			continue
		}
		s := &r.gpus[g]
		if 1 > r.states[s.guaranteed].rate*(1+r.cfg.Tolerance) {
			s.share /= 2
		} else {
			wanted := 0.
			for _, o := range s.opportunistic {
				wanted += r.jobs[o].Busy
			}
			// A share beyond what is wanted would be taken at once by the next job that joins.
			s.share = math.Max(s.share, math.Min(wanted, s.share+r.cfg.ControlStep))
		}
	}
}

var errStalled = errors.New("antman: jobs wait forever: no job that runs makes progress")

// advance sets the rates and goes on to the next event.
func (r *run) advance() error {
	next := math.Inf(1)
	if r.arrived < len(r.jobs) {
		next = r.jobs[r.arrived].ArrivalS
	}
	for _, i := range r.running {
		s := &r.states[i]
		s.rate = math.Inf(1)
		for _, g := range s.held {
			s.rate = math.Min(s.rate, r.rateOn(i, g))
		}
		s.endsS = math.Inf(1)
		if s.rate > 0 {
			s.endsS = r.nowS + s.leftS/s.rate
		}
		next = math.Min(next, s.endsS)
	}
	measures := math.Inf(1)
	for g := range r.gpus {
		if r.throttles(g) {
			for r.measured = math.Max(r.measured, math.Floor(r.nowS/r.cfg.ControlS)); r.measured*r.cfg.ControlS <= r.nowS; {
				r.measured++
			}
			measures = r.measured * r.cfg.ControlS
			break
		}
	}
	if next = math.Min(next, measures); math.IsInf(next, 1) {
		return errStalled
	}
	span := next - r.nowS
	for g := range r.gpus {
		r.count(g, span)
	}
	r.nowS = next
	if next == measures {
		r.control()
	}
	r.running = slices.DeleteFunc(r.running, func(i int) bool {
		s := &r.states[i]
		if s.leftS = math.Max(0, s.leftS-span*s.rate); s.endsS > next {
			return false
		}
		for _, g := range s.held {
			if r.gpus[g].guaranteed == i {
				r.gpus[g].guaranteed = none
			}
			r.gpus[g].opportunistic = slices.DeleteFunc(r.gpus[g].opportunistic, func(o int) bool { return o == i })
		}
		r.ended++
		return true
	})
	return nil
}

// count adds a span of time to the use of a GPU.
func (r *run) count(g int, span float64) {
	busy := 0.
	s := &r.gpus[g]
	if o := s.guaranteed; o != none {
		busy = r.jobs[o].Busy * r.states[o].rate
	}
	for _, o := range s.opportunistic {
		busy += r.jobs[o].Busy * r.states[o].rate
	}
	r.busyS += span * math.Min(1, busy)
	r.memoryS += span * math.Min(s.memoryGiB, r.memory(g))
	if s.guaranteed != none || len(s.opportunistic) > 0 {
		r.heldS[s.gpuType] += span
	}
}

func (r *run) outcome() *Outcome {
	o := &Outcome{MakespanS: r.nowS, HeldS: r.heldS, Switches: r.switches}
	for i := range r.jobs {
		j, s := &r.jobs[i], &r.states[i]
		o.Records = append(o.Records, Record{ID: j.ID, Opportunistic: j.Opportunistic, ArrivalS: j.ArrivalS,
			StartS: s.startS, EndS: s.endsS, Slowdown: (s.endsS - s.startS) / j.workS(r.gpus[s.held[0]].gpuType)})
	}
	memory := 0.
	for g := range r.gpus {
		memory += r.gpus[g].memoryGiB
	}
	if r.nowS > 0 {
		o.Busy, o.Memory = r.busyS/(r.nowS*float64(len(r.gpus))), r.memoryS/(r.nowS*memory)
	}
	return o
}
