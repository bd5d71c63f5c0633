package online

import (
	"slices"
	"sort"
	"strconv"

	"github.com/hare-sched/hare"
)

// slow is the policy of docs/hlas.md, written as plainly as possible, with lists and with a
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

func (s *slow) name(kind string) {
	if !slices.Contains(s.names, kind) {
		s.names = append(s.names, kind)
	}
}

func (s *slow) emit(t hare.DecisionType, j *slowJob, task int64, gpu string) {
	s.out = append(s.out, hare.Decision{Type: t, Job: j.ID, Round: j.round, Task: task, GPU: gpu, AtUs: s.now})
}

func (s *slow) job(id string) *slowJob {
	for _, j := range s.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (s *slow) gpu(name string) *slowGPU {
	for _, g := range s.gpus {
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
func (s *slow) best(j *slowJob) (int64, string) {
	us, kind := int64(0), ""
	for _, k := range s.names {
		if j.on(k) != nil && j.known(k) > 0 && (us == 0 || j.known(k) < us) {
			us, kind = j.known(k), k
		}
	}
	return us, kind
}

func (s *slow) prior(kind string) int64 {
	var sum, n int64
	for _, h := range s.history {
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

func (s *slow) estimate(j *slowJob, kind string) int64 {
	if us := j.known(kind); us > 0 {
		return us
	}
	us, from := s.best(j)
	if us == 0 {
		return max(1e6*1e6/s.prior(kind), 1)
	}
	return max(us*s.prior(from)/s.prior(kind), 1)
}

func (s *slow) speed(j *slowJob, kind string) int64 {
	if j.on(kind) == nil || j.known(kind) == 0 {
		return 0
	}
	us, _ := s.best(j)
	return max(us*1e6/j.known(kind), 1)
}

func (s *slow) credit(j *slowJob, kind string, held int64) {
	ref := int64(0)
	for _, p := range j.On {
		if us := s.estimate(j, p.Type); ref == 0 || us < ref {
			ref = us
		}
	}
	if s.reference != "" && j.on(s.reference) != nil {
		ref = s.estimate(j, s.reference)
	}
	j.attained += (held*ref + s.estimate(j, kind) - 1) / s.estimate(j, kind)
}

func (s *slow) demote(j *slowJob) {
	for j.queue < len(s.thresholds) && j.attained > s.thresholds[j.queue] {
		j.queue++
	}
}

func (s *slow) free(kind string) (n int64) {
	for _, g := range s.gpus {
		if g.kind == kind && g.job == nil {
			n++
		}
	}
	return n
}

func (s *slow) total(kind string) (n int64) {
	for _, g := range s.gpus {
		if g.kind == kind {
			n++
		}
	}
	return n
}

func (s *slow) gathering(j *slowJob) bool {
	for _, o := range s.owner {
		if o == j {
			return true
		}
	}
	return false
}

// open says whether j has a profile on a type and the type is not gathered for another job.
func (s *slow) open(j *slowJob, kind string) bool {
	return j.on(kind) != nil && (s.owner[kind] == nil || s.owner[kind] == j)
}

func (s *slow) advantage(kind string) (sum, n int64) {
	for _, j := range s.jobs {
		if j.count(0) > 0 && !s.gathering(j) && s.speed(j, kind) > 0 {
			sum += s.speed(j, kind)
			n++
		}
	}
	return sum, n
}

func (s *slow) cheapest(j *slowJob, need int64, byAdvantage bool, among []string) string {
	best := ""
	for _, k := range s.names {
		if !s.open(j, k) || s.free(k) < need || among != nil && !slices.Contains(among, k) {
			continue
		}
		if best == "" || s.estimate(j, k) < s.estimate(j, best) {
			best = k
			continue
		}
		if byAdvantage && s.estimate(j, k) == s.estimate(j, best) {
			a, an := s.advantage(k)
			b, bn := s.advantage(best)
			if an > 0 && bn > 0 && a*bn < b*an {
				best = k
			}
		}
	}
	return best
}

func (s *slow) start(j *slowJob, kind string) {
	for _, g := range s.gpus {
		if g.kind == kind && g.job == nil {
			task := int64(slices.Index(j.state, 0))
			*g = slowGPU{g.name, g.kind, j, task, false, s.now}
			if !j.running {
				if j.queue > 0 {
					j.waited += s.now - j.since
				}
				j.running, j.since = true, s.now
			}
			j.state[task] = 1
			if j.count(0) == 0 {
				s.drop(j)
			}
			s.emit(hare.DecisionStart, j, task, g.name)
			return
		}
	}
}

func (s *slow) drop(j *slowJob) {
	for k, o := range s.owner {
		if o == j {
			delete(s.owner, k)
		}
	}
}

func (s *slow) startGang(j *slowJob, among []string) {
	kind := s.cheapest(j, j.Tasks, true, among)
	for range j.Tasks {
		if kind == "" || s.free(kind) == 0 {
			kind = s.cheapest(j, 1, true, among)
		}
		s.start(j, kind)
	}
}

func (s *slow) kept(j *slowJob) (kinds []string) {
	for _, k := range s.names {
		if s.owner[k] == j {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (s *slow) schedule() {
	for {
		started := false
		for _, k := range s.names {
			if o := s.owner[k]; o != nil && s.canStart(o, s.kept(o)) {
				s.startGang(o, s.kept(o))
				started = true
				break
			}
		}
		if started {
			continue
		}
		order := slices.Clone(s.jobs)
		sort.Slice(order, func(a, b int) bool { return order[a].before(order[b]) })
		var next *slowJob
		for _, j := range order {
			if s.gathering(j) && s.canStart(j, s.names) || j.count(0) > 0 && !s.gathering(j) && s.mayUse(j) {
				next = j
				break
			}
		}
		switch {
		case next == nil:
			return
		case next.Sync == hare.Relaxed:
			s.start(next, s.cheapest(next, 1, true, nil))
		case s.canStart(next, s.names):
			s.startGang(next, s.names)
		default:
			kinds := s.gatherable(next)
			if !next.Mix {
				kinds = []string{s.cheapest(next, 1, false, kinds)}
			}
			for _, k := range kinds {
				s.owner[k] = next
			}
		}
	}
}

func (sj *slowJob) before(o *slowJob) bool {
	return sj.queue < o.queue || sj.queue == o.queue && sj.ticket < o.ticket
}

// fits says whether j could run on a type if all GPUs were free.
func (s *slow) fits(j *slowJob, kind string) bool {
	if j.on(kind) == nil {
		return false
	}
	n := s.total(kind)
	if j.Mix {
		n = 0
		for _, k := range s.names {
			if j.on(k) != nil {
				n += s.total(k)
			}
		}
	}
	return j.Sync == hare.Relaxed || n >= j.Tasks
}

// gatherable returns the types that may be gathered for j.
func (s *slow) gatherable(j *slowJob) (kinds []string) {
	for _, k := range s.names {
		ok := s.fits(j, k) && s.owner[k] == nil
		for _, o := range s.jobs {
			if o.count(0) > 0 && !s.gathering(o) && o.before(j) && (j.Mix || o.Mix) && s.fits(o, k) {
				ok = false
			}
		}
		if ok {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (s *slow) canStart(j *slowJob, among []string) bool {
	var all int64
	for _, k := range among {
		if s.open(j, k) {
			if s.free(k) >= j.Tasks {
				return true
			}
			all += s.free(k)
		}
	}
	return j.Mix && all >= j.Tasks
}

func (s *slow) mayUse(j *slowJob) bool {
	if j.Sync == hare.Relaxed {
		return s.cheapest(j, 1, false, nil) != ""
	}
	if s.canStart(j, s.names) {
		return true
	}
	kinds := s.gatherable(j)
	var inService int64
	for _, k := range kinds {
		inService += s.total(k)
	}
	return kinds != nil && s.cheapest(j, 1, false, kinds) != "" && (!j.Mix || inService >= j.Tasks)
}

func (s *slow) guard() {
	for {
		var next *slowJob
		least := int64(0)
		for _, j := range s.jobs {
			if j.queue == 0 || j.running {
				continue
			}
			due := j.since + max(0, j.executed*s.kappa/1e6-j.waited)
			if due <= s.now && (next == nil || due < least || due == least && j.ticket < next.ticket) {
				next, least = j, due
			}
		}
		if next == nil {
			return
		}
		s.tickets++
		next.queue, next.ticket = 0, s.tickets
		next.attained, next.executed, next.waited, next.since = 0, 0, 0, s.now
	}
}

func (s *slow) rest(j *slowJob) {
	j.executed += s.now - j.since
	j.running, j.since = false, s.now
}

// gang returns the GPUs of a gang by task.
func (s *slow) gang(j *slowJob) []*slowGPU {
	var out []*slowGPU
	for _, g := range s.gpus {
		if g.job == j {
			out = append(out, g)
		}
	}
	sort.Slice(out, func(a, b int) bool { return out[a].task < out[b].task })
	return out
}

// endGang counts the time for which a gang held its GPUs, withdraws the running tasks if void,
// and frees the GPUs or starts the round on them again.
func (s *slow) endGang(j *slowJob, void, again bool, failed *slowGPU, next int64) {
	gpus := s.gang(j)
	for _, g := range gpus {
		if void && !g.ended && g != failed {
			s.emit(hare.DecisionWithdraw, j, g.task, g.name)
		}
	}
	for _, g := range gpus {
		s.credit(j, g.kind, s.now-g.since)
	}
	s.demote(j)
	j.round = next
	for i, g := range gpus {
		if again {
			g.task, g.ended, g.since, j.state[i] = int64(i), false, s.now, 1
			s.emit(hare.DecisionStart, j, g.task, g.name)
		} else {
			g.job = nil
			j.state[i] = 0
		}
	}
	if !again {
		s.rest(j)
	}
}

func (s *slow) step(now int64, e hare.Event) []hare.Decision {
	s.now, s.out = now, nil
	s.guard()
	j, g := s.job(e.Job), s.gpu(e.GPU)
	here := g != nil && g.job == j && j != nil && g.task == e.Task && !g.ended
	switch e.Type {
	case hare.EventJobArrived:
		s.arrive(e.Arrived)
	case hare.EventComputeEnded:
		if j.Sync == hare.Relaxed {
			s.credit(j, g.kind, now-g.since)
			s.demote(j)
			g.job, j.state[e.Task], j.syncOn[e.Task] = nil, 2, g.kind
		}
	case hare.EventTaskEnded:
		kind := j.syncOn[e.Task]
		if here {
			kind = g.kind
		}
		if e.ComputeUs > 0 {
			j.measured[kind] = append(j.measured[kind], e.ComputeUs)
		}
		j.state[e.Task] = 3
		if j.Sync != hare.Relaxed {
			g.ended = true
			if j.count(3) == j.Tasks {
				s.endGang(j, false, j.Sync == hare.Rigid, nil, j.round+1)
			}
			break
		}
		if here {
			s.credit(j, g.kind, now-g.since)
			s.demote(j)
			g.job = nil
		}
		if j.count(3) == j.Tasks {
			j.round++
			clear(j.state)
		}
		if j.count(1)+j.count(2) == 0 {
			s.rest(j)
		}
	case hare.EventTaskFailed:
		if j.Sync != hare.Relaxed {
			s.endGang(j, true, true, g, j.round)
			break
		}
		if here {
			s.credit(j, g.kind, now-g.since)
			s.demote(j)
			g.job = nil
		}
		s.requeue(j, e.Task)
	case hare.EventJobEnded, hare.EventJobCancelled:
		s.end(j)
	case hare.EventGPUJoined:
		s.name(e.GPUType)
		n := &slowGPU{name: e.GPU, kind: e.GPUType}
		if at := slices.IndexFunc(s.gpus, func(g *slowGPU) bool { return g.name == "" }); at >= 0 {
			s.gpus[at] = n
		} else {
			s.gpus = append(s.gpus, n)
		}
	case hare.EventGPULeft:
		s.left(g)
	}
	s.schedule()
	return s.out
}

func (s *slow) arrive(a *hare.Job) {
	s.tickets++
	j := &slowJob{Job: *a, ticket: s.tickets, since: s.now, state: make([]int, a.Tasks), syncOn: map[int64]string{},
		measured: map[string][]int64{}}
	given := 0
	for _, p := range a.On {
		s.name(p.Type)
		if p.ComputeUs > 0 {
			given++
		}
	}
	if given > 1 {
		var h []slowSpeed
		for _, p := range a.On {
			if p.ComputeUs > 0 {
				h = append(h, slowSpeed{p.Type, s.speed(j, p.Type)})
			}
		}
		s.history = append(s.history, h)
	}
	s.jobs = append(s.jobs, j)
}

func (s *slow) requeue(j *slowJob, task int64) {
	j.state[task] = 0
	if j.count(1)+j.count(2) == 0 {
		s.rest(j)
	}
}

// end withdraws the running tasks of a job, in order, and removes the job.
func (s *slow) end(j *slowJob) {
	for task, x := range j.state {
		for _, g := range s.gpus {
			if x == 1 && g.job == j && g.task == int64(task) {
				s.emit(hare.DecisionWithdraw, j, g.task, g.name)
			}
		}
		if x == 2 {
			s.emit(hare.DecisionWithdraw, j, int64(task), "?") // the test fills in the GPU
		}
	}
	for _, g := range s.gpus {
		if g.job == j {
			g.job = nil
		}
	}
	s.drop(j)
	s.jobs = slices.DeleteFunc(s.jobs, func(x *slowJob) bool { return x == j })
}

func (s *slow) left(g *slowGPU) {
	if j := g.job; j != nil && j.Sync == hare.Relaxed {
		s.emit(hare.DecisionWithdraw, j, g.task, g.name)
		s.credit(j, g.kind, s.now-g.since)
		s.demote(j)
		g.job = nil
		s.requeue(j, g.task)
	} else if j != nil {
		s.endGang(j, true, false, nil, j.round)
	}
	kind := g.kind
	*g = slowGPU{}
	if o := s.owner[kind]; o != nil {
		var n int64
		for k, x := range s.owner {
			if x == o {
				n += s.total(k)
			}
		}
		if n < o.Tasks {
			s.drop(o)
		}
	}
}
