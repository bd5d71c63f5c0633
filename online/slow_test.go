package online

import (
	"slices"
	"sort"
	"strconv"

	"github.com/hare-sched/hare"
)

// slow is the policy of docs/inside/online.md#hlas, written as plainly as possible, with lists and with a
// scan for every question. It trusts its events.
type slow struct {
	thresholds []int64
	kappa      int64
	reference  string
	now        int64
	names      []string // the types, in the order in which they were first named
	gpus       []*slowGPU
	jobs       []*slowJob
	history    [][]slowSpeed // the given speeds of arrived jobs that have at least two
	owner      map[string]*slowJob
	tickets    int
	out        []hare.Decision
}

type slowSpeed struct {
	kind  string
	speed int64
}

type slowGPU struct {
	name, kind string // a GPU without a name is a vacant slot
	job        *slowJob
	task       int64
	ended      bool
	since      int64
}

type slowJob struct {
	hare.Job
	ticket, queue              int
	round                      int64
	state                      []int // the state by task: 0 ready, 1 on a GPU, 2 synchronising, 3 ended
	syncOn                     map[int64]string
	measured                   map[string][]int64
	attained, executed, waited int64
	since                      int64
	running                    bool
}

func newSlow(cl *hare.Cluster, thresholds []int64, kappa int64, reference string) *slow {
	s := &slow{thresholds: thresholds, kappa: kappa, reference: reference, owner: map[string]*slowJob{}}
	if reference != "" {
		s.name(reference)
	}
	var kinds []string
	for _, n := range cl.Nodes {
		for _, g := range n.GPUs {
			kinds = append(kinds, g.Type)
		}
	}
	sort.Strings(kinds)
	for _, k := range kinds {
		s.name(k)
	}
	for _, n := range cl.Nodes {
		i := 0
		for _, g := range n.GPUs {
			for range g.Count {
				s.gpus = append(s.gpus, &slowGPU{name: n.Name + "/" + strconv.Itoa(i), kind: g.Type})
				i++
			}
		}
	}
	return s
}

func (sl *slow) name(kind string) {
	if !slices.Contains(sl.names, kind) {
		sl.names = append(sl.names, kind)
	}
}

func (sl *slow) job(id string) *slowJob {
	for _, j := range sl.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (sl *slow) gpu(name string) *slowGPU {
	for _, g := range sl.gpus {
		if g.name == name && name != "" {
			return g
		}
	}
	return nil
}

func (sj *slowJob) on(kind string) *hare.Profile {
	for i := range sj.On {
		if sj.On[i].Type == kind {
			return &sj.On[i]
		}
	}
	return nil
}

func (sj *slowJob) count(state int) (n int64) {
	for _, x := range sj.state {
		if x == state {
			n++
		}
	}
	return n
}

// known returns the given time of a task on a type, or else the mean of the first four
// measured times; 0 if there is neither.
func (sj *slowJob) known(kind string) int64 {
	if p := sj.on(kind); p.ComputeUs > 0 {
		return p.ComputeUs
	}
	m := sj.measured[kind]
	m = m[:min(len(m), 4)]
	if len(m) == 0 {
		return 0
	}
	var sum int64
	for _, x := range m {
		sum += x
	}
	return sum / int64(len(m))
}

// best returns the fastest type whose time is known, and that time. Of several fastest types,
// the one that was named first counts.
func (sl *slow) best(j *slowJob) (int64, string) {
	us, kind := int64(0), ""
	for _, k := range sl.names {
		if j.on(k) != nil && j.known(k) > 0 && (us == 0 || j.known(k) < us) {
			us, kind = j.known(k), k
		}
	}
	return us, kind
}

func (sl *slow) prior(kind string) int64 {
	var sum, n int64
	for _, h := range sl.history {
		for _, x := range h {
			if x.kind == kind {
				sum += x.speed
				n++
			}
		}
	}
	if n == 0 {
		return 1e6
	}
	return max(sum/n, 1)
}

func (sl *slow) estimate(j *slowJob, kind string) int64 {
	if us := j.known(kind); us > 0 {
		return us
	}
	us, from := sl.best(j)
	if us == 0 {
		return max(1e6*1e6/sl.prior(kind), 1)
	}
	return max(us*sl.prior(from)/sl.prior(kind), 1)
}

func (sl *slow) speed(j *slowJob, kind string) int64 {
	if j.on(kind) == nil || j.known(kind) == 0 {
		return 0
	}
	us, _ := sl.best(j)
	return max(us*1e6/j.known(kind), 1)
}

func (sl *slow) credit(j *slowJob, kind string, held int64) {
	ref := int64(0)
	for _, p := range j.On {
		if us := sl.estimate(j, p.Type); ref == 0 || us < ref {
			ref = us
		}
	}
	if sl.reference != "" && j.on(sl.reference) != nil {
		ref = sl.estimate(j, sl.reference)
	}
	j.attained += (held*ref + sl.estimate(j, kind) - 1) / sl.estimate(j, kind)
}

func (sl *slow) demote(j *slowJob) {
	for j.queue < len(sl.thresholds) && j.attained > sl.thresholds[j.queue] {
		j.queue++
	}
}

func (sl *slow) free(kind string) (n int64) {
	for _, g := range sl.gpus {
		if g.kind == kind && g.job == nil {
			n++
		}
	}
	return n
}

func (sl *slow) total(kind string) (n int64) {
	for _, g := range sl.gpus {
		if g.kind == kind {
			n++
		}
	}
	return n
}

func (sl *slow) gathering(j *slowJob) bool {
	for _, o := range sl.owner {
		if o == j {
			return true
		}
	}
	return false
}

// open reports whether j has a profile on a type and the type is not gathered for another job.
func (sl *slow) open(j *slowJob, kind string) bool {
	return j.on(kind) != nil && (sl.owner[kind] == nil || sl.owner[kind] == j)
}

func (sl *slow) advantage(kind string) (sum, n int64) {
	for _, j := range sl.jobs {
		if j.count(0) > 0 && !sl.gathering(j) && sl.speed(j, kind) > 0 {
			sum += sl.speed(j, kind)
			n++
		}
	}
	return sum, n
}

func (sl *slow) cheapest(j *slowJob, need int64, byAdvantage bool, among []string) string {
	best := ""
	for _, k := range sl.names {
		if !sl.open(j, k) || sl.free(k) < need || among != nil && !slices.Contains(among, k) {
			continue
		}
		if best == "" || sl.estimate(j, k) < sl.estimate(j, best) {
			best = k
			continue
		}
		if byAdvantage && sl.estimate(j, k) == sl.estimate(j, best) {
			a, an := sl.advantage(k)
			b, bn := sl.advantage(best)
			if an > 0 && bn > 0 && a*bn < b*an {
				best = k
			}
		}
	}
	return best
}

func (sl *slow) kept(j *slowJob) (kinds []string) {
	for _, k := range sl.names {
		if sl.owner[k] == j {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (sl *slow) schedule() {
	for {
		started := false
		for _, k := range sl.names {
			if o := sl.owner[k]; o != nil && sl.canStart(o, sl.kept(o)) {
				sl.startGang(o, sl.kept(o))
				started = true
				break
			}
		}
		if started {
			continue
		}
		order := slices.Clone(sl.jobs)
		sort.Slice(order, func(a, b int) bool { return order[a].before(order[b]) })
		var next *slowJob
		for _, j := range order {
			if sl.gathering(j) && sl.canStart(j, sl.names) || j.count(0) > 0 && !sl.gathering(j) && sl.mayUse(j) {
				next = j
				break
			}
		}
		switch {
		case next == nil:
			return
		case next.Sync == hare.Relaxed:
			sl.start(next, sl.cheapest(next, 1, true, nil))
		case sl.canStart(next, sl.names):
			sl.startGang(next, sl.names)
		default:
			kinds := sl.gatherable(next)
			if !next.Mix {
				kinds = []string{sl.cheapest(next, 1, false, kinds)}
			}
			for _, k := range kinds {
				sl.owner[k] = next
			}
		}
	}
}

func (sj *slowJob) before(o *slowJob) bool {
	return sj.queue < o.queue || sj.queue == o.queue && sj.ticket < o.ticket
}

// fits reports whether j could run on a type if all GPUs were free.
func (sl *slow) fits(j *slowJob, kind string) bool {
	if j.on(kind) == nil {
		return false
	}
	n := sl.total(kind)
	if j.Mix {
		n = 0
		for _, k := range sl.names {
			if j.on(k) != nil {
				n += sl.total(k)
			}
		}
	}
	return j.Sync == hare.Relaxed || n >= j.Tasks
}

// gatherable returns the types that may be gathered for j.
func (sl *slow) gatherable(j *slowJob) (kinds []string) {
	for _, k := range sl.names {
		ok := sl.fits(j, k) && sl.owner[k] == nil
		for _, o := range sl.jobs {
			if o.count(0) > 0 && !sl.gathering(o) && o.before(j) && (j.Mix || o.Mix) && sl.fits(o, k) {
				ok = false
			}
		}
		if ok {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (sl *slow) canStart(j *slowJob, among []string) bool {
	var all int64
	for _, k := range among {
		if sl.open(j, k) {
			if sl.free(k) >= j.Tasks {
				return true
			}
			all += sl.free(k)
		}
	}
	return j.Mix && all >= j.Tasks
}

func (sl *slow) mayUse(j *slowJob) bool {
	if j.Sync == hare.Relaxed {
		return sl.cheapest(j, 1, false, nil) != ""
	}
	if sl.canStart(j, sl.names) {
		return true
	}
	kinds := sl.gatherable(j)
	var inService int64
	for _, k := range kinds {
		inService += sl.total(k)
	}
	return kinds != nil && sl.cheapest(j, 1, false, kinds) != "" && (!j.Mix || inService >= j.Tasks)
}

func (sl *slow) guard() {
	for {
		var next *slowJob
		least := int64(0)
		for _, j := range sl.jobs {
			if j.queue == 0 || j.running {
				continue
			}
			due := j.since + max(0, j.executed*sl.kappa/1e6-j.waited)
			if due <= sl.now && (next == nil || due < least || due == least && j.ticket < next.ticket) {
				next, least = j, due
			}
		}
		if next == nil {
			return
		}
		sl.tickets++
		next.queue, next.ticket = 0, sl.tickets
		next.attained, next.executed, next.waited, next.since = 0, 0, 0, sl.now
	}
}
