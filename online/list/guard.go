package list

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// GuardConfig tunes the guard against starvation of rolling and hgittins. The zero value
// is good.
type GuardConfig struct {
	// Off leaves the guard out.
	Off bool
	// Kappa is κ: how many rounds a job may miss, against round robin, for each round that it
	// has had, and before its first. Zero means 8; the least is 0.1 and the
	// largest a million, with which the guard hardly ever acts.
	Kappa float64
	// FIFOSlowdown limits slowdowns to about this multiple of the 99th percentile that first
	// come, first served would have. Zero means 1 where all GPUs are of one type, and no limit
	// elsewhere; below zero there is no limit.
	FIFOSlowdown float64
}

// leastFIFOSlowdown and largestFIFOSlowdown are the limits of GuardConfig.FIFOSlowdown, and
// defaultFIFOSlowdown is what it is on GPUs of one type.
const (
	defaultFIFOSlowdown = 1
	leastFIFOSlowdown   = 0.1
	largestFIFOSlowdown = 1e6
)

// defaultKappa is GuardConfig.Kappa where it is zero; leastKappa and largestKappa are its
// limits.
const (
	DefaultKappa = 8
	leastKappa   = 0.1
	largestKappa = 1e6
)

// guardPatience is how many rounds of a job are counted beyond those that it has had. A job that
// is due gets one round and then waits for the next: with eight in a row, the jobs that wait for a
// wide gang pile up, and wait for four times as long in all.
const guardPatience = 8

// Rule is what list schedulers need of the configuration. Under the limit of slowdowns, the order
// goes by weights that age, and jobs that are late get tickets, where tickets says so.
func (cfg GuardConfig) Rule(belief *SizeBelief, tickets bool) GuardRule {
	if cfg.Off {
		return GuardRule{}
	}
	if !(cfg.Kappa > 0) {
		cfg.Kappa = DefaultKappa
	}
	oneType := cfg.FIFOSlowdown == 0
	if oneType {
		cfg.FIFOSlowdown = defaultFIFOSlowdown
	}
	return GuardRule{
		kappa:   int64(math.Round(min(max(cfg.Kappa, leastKappa), largestKappa) * 1e6)),
		size:    belief.RoundsLeft,
		factor:  int64(math.Round(min(max(cfg.FIFOSlowdown, 0), largestFIFOSlowdown) * 1e6)),
		oneType: oneType, belief: belief, tickets: tickets,
	}
}

// GuardRule is a guard as Rule has it; the zero value means none.
type GuardRule struct {
	kappa int64                 // in millionths
	size  func(*JobState) int64 // the rounds that a rigid job is believed to have

	factor  int64 // GuardConfig.FIFOSlowdown, in millionths; 0 means no limit
	oneType bool  // whether the limit is for GPUs of one type alone
	belief  *SizeBelief
	tickets bool // whether late jobs get tickets
}

// GuardForm are the parameters of the guard in sessions.
type GuardForm struct {
	Guard        *bool    `json:"guard"`
	Kappa        *float64 `json:"kappa"`
	FIFOSlowdown *float64 `json:"fifo_slowdown"`
}

// Config checks the parameters of a policy.
func (gf *GuardForm) Config(policy string) (GuardConfig, error) {
	cfg := GuardConfig{Off: gf.Guard != nil && !*gf.Guard}
	for _, x := range []struct {
		name           string
		value          *float64
		least, largest float64
		to             *float64
	}{
		{"kappa", gf.Kappa, leastKappa, largestKappa, &cfg.Kappa},
		{"fifo_slowdown", gf.FIFOSlowdown, leastFIFOSlowdown, largestFIFOSlowdown, &cfg.FIFOSlowdown},
	} {
		if x.value == nil {
			continue
		}
		if x.name == "fifo_slowdown" && *x.value == 0 && !cfg.Off {
			cfg.FIFOSlowdown = -1
			continue
		}
		if !(*x.value >= x.least && *x.value <= x.largest) {
			return cfg, online.Invalid("/"+x.name, "out_of_range", "%s: %s is %v: it must be from %v to %v", policy,
				x.name, *x.value,
				x.least, x.largest)
		}
		if cfg.Off {
			return cfg, online.Invalid("/"+x.name, "contradiction",
				"%s: %s is of the guard, which is off: leave one of them out", policy, x.name)
		}
		*x.to = *x.value
	}
	return cfg, nil
}

// nano is how finely turns and rounds are counted.
const nano = 1e9

// leastTurnUs is the shortest turn; the clock of turns cannot overflow with it.
const leastTurnUs = 1e6

// mostWork limits the work of a round of one job in GPU-microseconds, so that the sum over
// half a million jobs does not overflow.
const mostWork = 1 << 44

// unknownRoundUs is the time of a round of a job whose speed is not given on any type.
const unknownRoundUs = 60e6

// guard keeps jobs from starving. A turn is the time in which all GPUs in service together
// could run a round of each job that is there. A job that waits through a turn misses a
// round, but no more rounds than it could run in the time of its wait. Once a job has
// missed more than κ × (the rounds that it has had + guardPatience) rounds it is due: it gets
// a ticket and GPUs of its own, in the order of tickets, and nobody else starts on these
// GPUs until the job has started. docs/inside/online.md#the-guard-of-rolling-and-hgittins proves what follows.
//
// Every method does nothing where the rule has no guard.
type guard struct {
	turns   int64 // the clock of turns, in billionths, at sinceUs
	sinceUs int64
	work    int64 // of a round of each job that is there, in GPU-microseconds
	tickets int64 // the last ticket

	fresh []*JobState // jobs that have begun to wait since the last event
	// byTurn and byTime hold jobs that wait until either clock says that they are due. Entries
	// of waits that have ended are dropped when they come up or are the most.
	byTurn, byTime dueHeap
	due            []*JobState // by ticket
	reservedBy     map[int]*JobState
	hidden         []int          // reserved GPUs that are not in free during a schedule
	held           []heldForGuard // the same of CPUs and memory
	quotas         []heldQuota    // the same of quotas
	back           int            // jobs with guarded.back
	// settled says that since the quotas of all jobs were looked at nothing has happened but that jobs arrived, so
	// that those in arrived alone are to be looked at: a long queue arrives at once.
	settled bool
	arrived []*JobState

	slowdown slowdownLimit
}

// guarded is what the guard knows of a job.
type guarded struct {
	work    int64 // of a round, counted in guard.work
	roundUs int64 // the time of a round; for rigid jobs of all rounds that they were believed to have
	missed  int64 // rounds missed in waits that have ended, in billionths
	turns   int64 // the clock when the wait began, or when the job came back
	sinceUs int64 // the time then
	back    bool  // whether quotas hold the job back
	wait    int64 // counts waits, so that entries of earlier ones can be told
	ticket  int64 // 0 while the job is not due
	chosen  bool  // whether the types are chosen
	onType  int   // the type that is reserved; −1 means all types that the job may use
	gpus    []int // the GPUs that are reserved, ascending

	clusterUs int64 // how long the whole cluster would take for a round
	fifoUs    int64 // how long the job would wait under first come, first served
	aged      int64 // the weight in the order of hgittins, as of the last look; 0 before the first
	lookUs    int64 // from when on it is looked at whether the job is late
}

func (l *Scheduler) guards() bool { return l.rule.Guard.kappa > 0 }

// waits reports whether a job waits for GPUs and no task of it runs.
func (j *JobState) waits() bool { return j.active == 0 && j.Ready() > 0 }

// settleTurns brings the clock of turns to the present; it is called before the work or the
// GPUs in service change.
func (l *Scheduler) settleTurns() {
	g := &l.guard
	g.slowdown.inServiceUs = l.inServiceUs()
	g.turns, g.sinceUs = l.turnsNow(), l.nowUs
}

func (l *Scheduler) turnsNow() int64 {
	g := &l.guard
	gpus := int64(l.GPUs())
	if g.work == 0 || gpus == 0 || l.nowUs == g.sinceUs {
		return g.turns
	}
	return add(g.turns, mulDivUp(l.nowUs-g.sinceUs, gpus*nano, max(g.work, gpus*leastTurnUs)))
}

// guardArrival begins the first wait of a job.
func (l *Scheduler) guardArrival(j *JobState) {
	if !l.guards() {
		return
	}
	l.settleTurns()
	x := &j.guarded
	if x.roundUs = j.FastestUs(); x.roundUs == 0 {
		x.roundUs = unknownRoundUs
	}
	if j.spec.Sync == hare.Rigid && l.rule.Guard.size != nil {
		x.roundUs = SpanUs(l.rule.Guard.size(j), x.roundUs)
	}
	x.work = min(times(min(j.Width(), int64(l.GPUs())), x.roundUs), mostWork)
	l.guard.work += x.work
	x.turns, x.sinceUs = l.guard.turns, j.sinceUs
	l.guard.fresh = append(l.guard.fresh, j)
	l.limitArrival(j)
}

// guardEnd forgets a job.
func (l *Scheduler) guardEnd(j *JobState) {
	if !l.guards() {
		return
	}
	l.settleTurns()
	l.guard.work -= j.guarded.work
	l.limitEnd(j)
	l.comeBack(j)
	l.dropTicket(j)
}

// guardTurn begins or ends a wait.
func (l *Scheduler) guardTurn(j *JobState, waits bool) {
	if !l.guards() {
		return
	}
	l.settleTurns()
	x := &j.guarded
	if waits {
		x.turns, x.sinceUs = l.guard.turns, j.sinceUs
		l.guard.fresh = append(l.guard.fresh, j)
		return
	}
	if !x.back {
		x.missed = add(x.missed, l.missedNow(j))
	}
	l.comeBack(j)
	x.wait++
	l.dropTicket(j)
}

// missedNow is how many rounds a job that waits has missed since the wait began, in
// billionths: the turns, but no more rounds than fit in the time.
func (l *Scheduler) missedNow(j *JobState) int64 {
	x := &j.guarded
	return min(l.turnsNow()-x.turns, mulDivUp(l.nowUs-x.sinceUs, nano, x.roundUs))
}

// mayMiss is how many more rounds a job may miss before it is due, if it has missed none in
// the current wait; below 0 where it is due at once.
func (l *Scheduler) mayMiss(j *JobState) int64 {
	return times(l.rule.Guard.kappa*(nano/1e6), add(j.round, guardPatience)) - j.guarded.missed
}

// guardWaits notes when the jobs that have begun to wait will be due. It is called after
// jobs have started.
func (l *Scheduler) guardWaits() {
	if !l.guards() {
		return
	}
	g := &l.guard
	for _, j := range g.fresh {
		if j.guarded.ticket == 0 && j.waits() && !j.guarded.back && l.jobOf[j.spec.ID] == j {
			l.noteWait(j)
			l.noteLate(j, l.nowUs)
		}
	}
	clear(g.fresh)
	g.fresh = g.fresh[:0]
	if most := 2*len(l.jobs) + 64; len(g.byTurn)+len(g.byTime) > most || len(g.slowdown.late) > most {
		g.byTurn, g.byTime, g.slowdown.late = g.byTurn[:0], g.byTime[:0], g.slowdown.late[:0]
		for _, j := range l.jobs {
			if j.guarded.ticket == 0 && j.waits() && !j.guarded.back {
				l.noteWait(j)
				l.noteLate(j, j.guarded.lookUs)
			}
		}
	}
}

// noteWait enters a job that waits.
func (l *Scheduler) noteWait(j *JobState) {
	at := add(j.guarded.turns, max(0, l.mayMiss(j)))
	l.guard.byTurn.push(dueRound{at: at, wait: j.guarded.wait, job: j})
}

// guardSnapshot is the state of the guard.
type guardSnapshot struct {
	Turns   int64 `json:"turns"`
	SinceUs int64 `json:"since_us"`
	Tickets int64 `json:"tickets"`

	Slowdowns   []int64 `json:"slowdowns,omitempty"`
	Oldest      int     `json:"oldest,omitempty"`
	BacklogUs   int64   `json:"backlog_us,omitempty"`
	Changes     int64   `json:"changes,omitempty"`
	InServiceUs int64   `json:"in_service_us,omitempty"`
	SpentUs     int64   `json:"spent_us,omitempty"`
}

// guardedSnapshot is the state of the guard of one job.
type guardedSnapshot struct {
	Work    int64 `json:"work"`
	RoundUs int64 `json:"round_us"`
	Missed  int64 `json:"missed"`
	Turns   int64 `json:"turns"`
	Ticket  int64 `json:"ticket,omitempty"`
	Chosen  bool  `json:"chosen,omitempty"`
	OnType  int   `json:"on_type,omitempty"`
	GPUs    []int `json:"gpus,omitempty"`
	// SinceUs is where it is not the time at which the wait began.
	SinceUs *int64 `json:"since_us,omitempty"`
	Back    bool   `json:"back,omitempty"`

	ClusterUs int64 `json:"cluster_us,omitempty"`
	FIFOUs    int64 `json:"fifo_us,omitempty"`
	LookUs    int64 `json:"look_us,omitempty"`
	Aged      int64 `json:"aged,omitempty"`
}

func (l *Scheduler) guardSnapshot() *guardSnapshot {
	if !l.guards() {
		return nil
	}
	g := &l.guard
	s := &guardSnapshot{Turns: g.turns, SinceUs: g.sinceUs, Tickets: g.tickets}
	if sl := &g.slowdown; l.limited() {
		s.Slowdowns, s.Oldest, s.BacklogUs, s.Changes = sl.ended.last, sl.ended.oldest, sl.backlogUs, sl.changes
		s.InServiceUs, s.SpentUs = sl.inServiceUs, sl.spentUs
	}
	return s
}

func (l *Scheduler) guardedSnapshot(j *JobState) *guardedSnapshot {
	if !l.guards() {
		return nil
	}
	x := &j.guarded
	s := &guardedSnapshot{Work: x.work, RoundUs: x.roundUs, Missed: x.missed, Turns: x.turns, Ticket: x.ticket,
		Chosen: x.chosen, OnType: x.onType, GPUs: x.gpus, Back: x.back}
	if l.limited() {
		s.ClusterUs, s.FIFOUs, s.LookUs, s.Aged = x.clusterUs, x.fifoUs, x.lookUs, x.aged
	}
	if j.waits() && x.sinceUs != j.sinceUs {
		s.SinceUs = &x.sinceUs
	}
	return s
}

// restoreGuard takes the state of the guard once jobs and GPUs are there; false says that
// the snapshot contradicts itself. A snapshot of a version without a guard begins again: all
// that jobs have missed is forgotten.
func (l *Scheduler) restoreGuard(s *schedulerSnapshot) bool {
	if !l.guards() {
		return true
	}
	g := &l.guard
	*g = guard{sinceUs: l.nowUs}
	if s.Guard == nil {
		for _, j := range l.jobs {
			l.guardArrival(j)
		}
		l.guardWaits()
		return true
	}
	*g = guard{turns: s.Guard.Turns, sinceUs: s.Guard.SinceUs, tickets: s.Guard.Tickets}
	if g.turns < 0 || g.sinceUs < 0 || g.sinceUs > l.nowUs || g.tickets < 0 || !l.restoreSlowdowns(s.Guard) {
		return false
	}
	for i, j := range l.jobs {
		y := s.Jobs[i].Guard
		if y == nil || y.Work < 0 || y.Work > mostWork || y.RoundUs <= 0 || y.RoundUs > hare.MaxExact || y.Missed < 0 ||
			y.Turns < 0 || y.Turns > g.turns || y.Ticket < 0 || y.Ticket > g.tickets || y.OnType < -1 ||
			y.OnType >= max(1, len(l.types)) || y.ClusterUs < 0 || y.FIFOUs < 0 || y.LookUs < 0 || y.Aged < 0 {
			return false
		}
		j.guarded = guarded{work: y.Work, roundUs: y.RoundUs, missed: y.Missed, turns: y.Turns, ticket: y.Ticket,
			chosen: y.Chosen, onType: y.OnType, sinceUs: j.sinceUs, back: y.Back,
			clusterUs: y.ClusterUs, fifoUs: y.FIFOUs, lookUs: y.LookUs, aged: y.Aged}
		if y.SinceUs != nil {
			if *y.SinceUs < j.sinceUs || *y.SinceUs > l.nowUs {
				return false
			}
			j.guarded.sinceUs = *y.SinceUs
		}
		if y.Back {
			g.back++
		}
		g.work += y.Work
		for _, n := range y.GPUs {
			if n < 0 || n >= len(l.gpus) || g.reservedBy[n] != nil || y.Ticket == 0 {
				return false
			}
			l.reserveGPU(j, n)
		}
		switch {
		case y.Ticket > 0 && !j.waits():
			return false
		case y.Ticket > 0:
			g.due = append(g.due, j)
		case j.waits() && !y.Back:
			l.noteWait(j)
			l.noteLate(j, y.LookUs)
		}
	}
	slices.SortFunc(g.due, func(a, b *JobState) int { return cmp.Compare(a.guarded.ticket, b.guarded.ticket) })
	for i := 1; i < len(g.due); i++ {
		if g.due[i].guarded.ticket == g.due[i-1].guarded.ticket {
			return false
		}
	}
	return true
}
