package policies

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/placement"
)

// slurm is Slurm's two schedulers. The main one starts jobs by priority on the first nodes with room, until a job of
// a partition does not fit, which lets no later job of the partition start. Backfill, every BackfillUs, tests
// waiting jobs by priority: each starts if by its time limit it fits beside all reservations made so far. Otherwise
// it gets a reservation of whole nodes from when it is expected to start, by the limits of the jobs that run.
type slurm struct {
	cfg        SlurmConfig
	partitions int

	waiting  []*list.JobState // those that are listed, by priority
	stale    int              // how many of them are not listed any more
	unlisted []*list.JobState // those that wait and are not listed yet
	waits    int              // how many wait
	rank     bool             // whether the factors have changed since the priorities were computed
	capacity int64            // list.Scheduler.Capacity when the jobs were looked through
	due      bool             // whether backfill is
	started  []*list.JobState // those that the event at hand lets start
	running  []*list.JobState // in backfill, by the ends that their limits give
	reserved [][]hare.Window  // in backfill, by node
	ended    placement.Ended  // in reserve
	pick     []int            // the GPUs for the job that starts

	kept slurmState
}

// slurmState is what lasts between events.
type slurmState struct {
	DueUs   int64 `json:"backfill_us"` // when backfill runs next
	Changed bool  `json:"changed"`     // whether anything changed since it ran
	// Deferred says that the main scheduler has not run since an event.
	Deferred bool `json:"deferred,omitempty"`
	// Priorities are those of RankedUs, with the cluster's GPUs and the greatest weight then.
	RankedUs int64   `json:"ranked_us"`
	GPUs     float64 `json:"gpus"`
	Heaviest float64 `json:"heaviest"`
}

// slurmJob is what slurm keeps of a job.
type slurmJob struct {
	partition  string
	toldUs     int64 // the limit of SlurmConfig.LimitsUs, or 0
	waits      bool
	listed     bool // in slurm.waiting, by priority
	priority   float64
	expectedUs int64 // in backfill, when it ends by its limit
}

// reservations is how many jobs get reservations in one run of backfill.
const reservations = 50

func newSlurm(cfg SlurmConfig) *slurm {
	s := &slurm{cfg: cfg.withDefaults(), kept: slurmState{GPUs: 1, Heaviest: 1}}
	s.kept.DueUs = s.cfg.BackfillUs
	seen := map[string]bool{}
	for _, name := range cfg.Partitions {
		seen[name] = true
	}
	s.partitions = max(1, len(seen))
	return s
}

func (s *slurm) rule() list.Rule {
	return list.Rule{Name: "slurm", Hold: hare.Rigid, Priority: s.priority, Assign: s.assign, Wake: s.wake,
		Touched: s.touched, Prepare: s.prepare, After: s.after,
		Picks: func(l *list.Scheduler, j *list.JobState, gpuType int, avoid placement.Avoid) []int {
			if s.pick != nil {
				return s.pick
			}
			return l.Nodes().First(j.Shape(), []int{gpuType}, j.Spec().Tasks, false, avoid)
		},
		State: func(*list.Scheduler) any { return &s.kept },
		Restore: func(l *list.Scheduler, state json.RawMessage) bool {
			for _, j := range l.Active() {
				s.touched(l, j)
			}
			return state == nil || json.Unmarshal(state, &s.kept) == nil // an older snapshot has none
		},
	}
}

// own is what is kept of a job.
func (s *slurm) own(j *list.JobState) *slurmJob {
	if x, ok := j.Own.(*slurmJob); ok {
		return x
	}
	id := j.Spec().ID
	x := &slurmJob{partition: s.cfg.Partitions[id], toldUs: s.cfg.LimitsUs[id]}
	j.Own = x
	return x
}

// priority is minus Slurm's. Jobs that lost their nodes come first.
func (s *slurm) priority(_ *list.Scheduler, j *list.JobState) float64 {
	if j.StartedUs() >= 0 {
		return math.Inf(-1)
	}
	return s.factors(j)
}

// factors is minus the sum of Slurm's factors.
func (s *slurm) factors(j *list.JobState) float64 {
	age := max(0, min(1, float64(s.kept.RankedUs-j.ArrivedUs())/float64(s.cfg.MaxAgeUs)))
	size := min(1, float64(j.Width())/s.kept.GPUs)
	return -(s.cfg.Age*age + s.cfg.Size*size + s.cfg.QOS*float64(j.Spec().WeightMicro)/s.kept.Heaviest)
}

// wake asks for a tick now where the main scheduler is deferred, and otherwise when backfill runs next.
func (s *slurm) wake(l *list.Scheduler) int64 {
	switch {
	case s.kept.Deferred:
		return l.NowUs()
	case s.kept.Changed && s.waits > 0:
		return s.kept.DueUs
	}
	return math.MaxInt64
}

// prepare begins what an event leads to.
func (s *slurm) prepare(l *list.Scheduler) {
	if s.capacity != l.Capacity() { // jobs may have lost GPUs
		s.capacity = l.Capacity()
		for _, j := range l.Active() {
			s.touched(l, j)
		}
	}
	s.started = s.started[:0]
	s.due = l.NowUs() >= s.kept.DueUs && !(s.cfg.Defer && !l.Tick())
	if s.due {
		s.kept.DueUs, s.kept.RankedUs = (l.NowUs()/s.cfg.BackfillUs+1)*s.cfg.BackfillUs, l.NowUs()
		s.rank = true
	}
	s.kept.Changed = s.kept.Changed || !l.Tick()
	s.kept.Deferred = s.cfg.Defer && !l.Tick()
}

// assign runs the schedulers that are due.
func (s *slurm) assign(l *list.Scheduler) {
	l.ForgetReservations()
	if s.kept.Deferred {
		return
	}
	s.queue(l)
	s.main(l)
	if s.due && s.kept.Changed {
		s.queue(l)
		s.backfill(l)
	}
}

// after notes whether backfill has changed something itself: whether it, or a record that was adopted, let a job
// start before one of its partition that comes first and waits.
func (s *slurm) after(l *list.Scheduler) {
	if !s.due {
		return
	}
	s.kept.Changed = slices.ContainsFunc(s.started, func(a *list.JobState) bool {
		return slices.ContainsFunc(l.Active(), func(b *list.JobState) bool {
			return s.own(b).waits && s.own(a).partition == s.own(b).partition &&
				cmp.Or(cmp.Compare(s.factors(b), s.factors(a)), cmp.Compare(b.Number(), a.Number())) < 0
		})
	})
}

// touched notes that a job begins or ceases to wait, or has another priority.
func (s *slurm) touched(l *list.Scheduler, j *list.JobState) {
	x := s.own(j)
	waits := j.Ready() > 0 && l.Job(j.Spec().ID) == j
	switch {
	case waits && !x.waits:
		s.waits++
	case !waits && x.waits:
		s.waits--
		s.started = append(s.started, j)
	}
	if x.waits = waits; x.listed && (!waits || x.priority != s.priority(l, j)) {
		x.listed = false
		s.stale++
	}
	if waits && !x.listed {
		s.unlisted = append(s.unlisted, j)
	}
}

// queue brings the list of the jobs that wait up to date.
func (s *slurm) queue(l *list.Scheduler) {
	if s.stale > 0 {
		s.waiting = slices.DeleteFunc(s.waiting, func(j *list.JobState) bool { return !s.own(j).listed })
		s.stale = 0
	}
	byPriority := func(a, b *list.JobState) int {
		return cmp.Or(cmp.Compare(s.own(a).priority, s.own(b).priority), cmp.Compare(a.Number(), b.Number()))
	}
	for _, j := range s.unlisted {
		if x := s.own(j); x.waits && !x.listed {
			x.priority, x.listed = s.priority(l, j), true
			at, _ := slices.BinarySearchFunc(s.waiting, j, byPriority)
			s.waiting = slices.Insert(s.waiting, at, j)
		}
	}
	s.unlisted = s.unlisted[:0]
	if s.rank {
		for _, j := range s.waiting {
			s.own(j).priority = s.priority(l, j)
		}
		slices.SortFunc(s.waiting, byPriority)
		s.rank = false
	}
}

// main starts jobs by priority until one of their partition does not fit.
func (s *slurm) main(l *list.Scheduler) {
	blocked := map[string]bool{}
	for _, j := range s.waiting {
		partition := s.own(j).partition
		if blocked[partition] || s.startTasks(l, j) || l.HeldByQuota(j) || s.start(l, j, nil) {
			continue
		}
		if blocked[partition] = true; len(blocked) == s.partitions {
			return
		}
	}
}

// startTasks starts tasks of a job that start one by one, and reports whether the job is one of these.
func (s *slurm) startTasks(l *list.Scheduler, j *list.JobState) bool {
	l.OpenRound(j)
	if j.Hold() != hare.Relaxed {
		return false
	}
	for j.Ready() > 0 && l.TryStart(j) {
	}
	return true
}

// start starts a job on nodes that it may use, and reports whether there was room.
func (s *slurm) start(l *list.Scheduler, j *list.JobState, avoid placement.Avoid) bool {
	gpus := s.find(l, j, avoid)
	if gpus == nil {
		return false
	}
	if _, mix := l.Holding(j); mix {
		l.StartGPUs(j, gpus)
		return true
	}
	m := j.Modes()[slices.IndexFunc(j.Modes(), func(m list.Mode) bool { return m.Type == l.Slots()[gpus[0]].Type })]
	if len(l.Quotas()) > 0 && !l.CanUse(j, m, j.Spec().Tasks) {
		return false
	}
	s.pick = gpus
	l.StartOn(j, m, j.Spec().Tasks)
	s.pick = nil
	return true
}

// find chooses the first nodes with room for a job.
func (s *slurm) find(l *list.Scheduler, j *list.JobState, avoid placement.Avoid) []int {
	_, mix := l.Holding(j)
	return l.Nodes().First(j.Shape(), typesOf(j), j.Spec().Tasks, mix, avoid)
}

// typesOf are the GPU types that a job may use, by number.
func typesOf(j *list.JobState) []int {
	types := make([]int, 0, 8)
	for _, m := range j.Modes() {
		types = append(types, m.Type)
	}
	slices.Sort(types)
	return types
}

// limitUs is the time limit of a job, from the begin of its next or running round.
func (s *slurm) limitUs(l *list.Scheduler, j *list.JobState) int64 {
	if told := s.own(j).toldUs; told > 0 {
		return told
	}
	slowest := int64(0)
	for _, m := range j.Modes() {
		slowest = max(slowest, m.DurationUs)
	}
	return list.SpanUs(j.RoundsLeft(), cmp.Or(slowest, l.RoundUs(j)))
}

// expect notes when a running job ends by its limit.
func (s *slurm) expect(l *list.Scheduler, j *list.JobState) {
	sinceUs := int64(math.MinInt64)
	for _, g := range j.GPUs() {
		sinceUs = max(sinceUs, l.Slots()[g].SinceUs)
	}
	s.own(j).expectedUs = max(saturating.Add(sinceUs, s.limitUs(l, j)), l.NowUs()+1e6)
}

// request is what a job needs.
type request struct {
	shape placement.Shape
	types uint64
	tasks int64
	mix   bool
}

// backfill starts and reserves.
func (s *slurm) backfill(l *list.Scheduler) {
	if len(s.waiting) == 0 {
		return
	}
	s.listRunning(l)
	s.reserved = slices.Grow(s.reserved[:0], l.Nodes().Len())[:l.Nodes().Len()]
	for n := range s.reserved {
		s.reserved[n] = s.reserved[n][:0]
	}
	failed := map[request]int64{} // the least limit that did not fit
	tested, kept := 0, 0
	for _, j := range s.waiting {
		if j.Ready() == 0 || s.startTasks(l, j) {
			continue
		}
		if tested == s.cfg.Depth {
			break
		}
		tested++
		if l.HeldByQuota(j) {
			continue
		}
		req, limit := s.request(l, j), s.limitUs(l, j)
		// Where a job that needs the same did not fit with a limit as short, neither does this one: there is only
		// less room by now.
		least, known := failed[req]
		hopeless := known && least <= limit
		switch {
		case hopeless && kept == reservations:
			continue
		case !hopeless && s.start(l, j, s.avoid(l.NowUs(), saturating.Add(l.NowUs(), limit))):
			s.run(l, j)
			continue
		case !known || limit < least:
			failed[req] = limit
		}
		if kept < reservations {
			s.reserve(l, j)
			kept++
		}
	}
}

func (s *slurm) request(l *list.Scheduler, j *list.JobState) request {
	_, mix := l.Holding(j)
	req := request{shape: j.Shape(), tasks: j.Spec().Tasks, mix: mix}
	for _, m := range j.Modes() {
		req.types |= 1 << m.Type
	}
	return req
}

// avoid says which nodes have a reservation in a time.
func (s *slurm) avoid(fromUs, untilUs int64) placement.Avoid {
	return func(n int32) bool {
		return slices.ContainsFunc(s.reserved[n], func(w hare.Window) bool {
			return w.StartUs < untilUs && fromUs < w.EndUs
		})
	}
}

// listRunning lists the jobs that run.
func (s *slurm) listRunning(l *list.Scheduler) {
	s.running = s.running[:0]
	for _, j := range l.Active() {
		if len(j.GPUs()) > 0 {
			s.expect(l, j)
			s.running = append(s.running, j)
		}
	}
	slices.SortStableFunc(s.running, func(a, b *list.JobState) int {
		return cmp.Compare(s.own(a).expectedUs, s.own(b).expectedUs)
	})
}

// run puts a job that started among those that run.
func (s *slurm) run(l *list.Scheduler, j *list.JobState) {
	s.expect(l, j)
	at, _ := slices.BinarySearchFunc(s.running, s.own(j).expectedUs, func(o *list.JobState, us int64) int {
		return cmp.Compare(s.own(o).expectedUs, us)
	})
	s.running = slices.Insert(s.running, at, j)
}

// reserve finds when a job is expected to start, and reserves the nodes on which it is to start.
func (s *slurm) reserve(l *list.Scheduler, j *list.JobState) {
	nodes, limit, types := l.Nodes(), s.limitUs(l, j), typesOf(j)
	_, mix := l.Holding(j)
	s.ended.Reset(nodes, len(l.Types()))
	for at := 0; at < len(s.running); {
		us, useful := s.own(s.running[at]).expectedUs, false
		w := hare.Window{StartUs: us, EndUs: saturating.Add(us, limit)}
		avoid := s.avoid(w.StartUs, w.EndUs)
		for ; at < len(s.running) && s.own(s.running[at]).expectedUs == us; at++ {
			o := s.running[at]
			s.ended.Add(nodes, o.Shape(), o.GPUs())
			for x := 0; x < len(o.GPUs()) && !useful; x += o.TaskGPUs() {
				t, n := l.Slots()[o.GPUs()[x]].Type, nodes.Node(o.GPUs()[x])
				useful = slices.Contains(types, t) && nodes.RoomAfter(j.Shape(), t, n, &s.ended) > 0 && !avoid(n)
			}
		}
		if !useful {
			continue
		}
		found := nodes.FirstNodes(j.Shape(), types, j.Spec().Tasks, mix, avoid, &s.ended)
		for _, n := range found {
			s.reserved[n] = append(s.reserved[n], w)
		}
		if found != nil {
			return
		}
	}
}
