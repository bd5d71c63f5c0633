package rolling

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// wholeRolling is rolling without an index: each assignment sorts all turns, looks at all
// jobs, and lists all GPUs that jobs hold for a reservation.
type wholeRolling struct {
	*rolling // its other methods
	turns    []turn
}

// assign starts the rounds whose turn it is, and then what fits beside.
func (r *wholeRolling) assign(l *list.Scheduler) {
	if !l.AnyFree() {
		return
	}
	if r.fallsBack(l) {
		l.ScheduleBy(&r.fallback)
		return
	}
	r.l = l
	r.free, r.reserved, r.turns = r.free[:0], r.reserved[:0], r.turns[:0]
	for t := range l.Types() {
		r.free = append(r.free, int64(len(l.Free()[t])))
		r.reserved = append(r.reserved, gpuReservation{})
	}
	for _, j := range l.Active() {
		if row := nextRow(j); row != nil {
			r.turns = append(r.turns, turn{job: j, row: row, atUs: turnUs(l, j, row)})
		}
	}
	slices.SortStableFunc(r.turns, func(a, b turn) int { return cmp.Compare(a.atUs, b.atUs) })
	turns := r.turns
	if r.cfg.Aside {
		turns = r.placeNewcomers(l, turns)
	}
	for i := range turns {
		if !l.AnyFree() {
			return // what is reserved from here on would keep nobody from a start
		}
		j, row := turns[i].job, turns[i].row
		switch {
		case turns[i].new != nil:
			r.startNewcomer(&turns[i])
		case taskByTask(j):
			r.startTasks(j)
		case len(j.GPUs()) > 0 && j.Spec().Sync == hare.Rigid:
		case len(j.GPUs()) > 0:
			// A round that runs elsewhere than the plan says ends before the job's turn.
			if !r.holds(j, row) {
				r.reserve(j, row, l.RoundEndUs(j))
			}
		case j.Ready() == 0:
		case r.fits(j, row.Types):
			r.start(j, row.Types)
		default:
			r.reserve(j, row, l.NowUs())
		}
	}
	r.fill()
}

// reserve keeps the GPUs of a row for a job that cannot start before notBeforeUs, where
// no job before has reserved GPUs of their types.
func (r *wholeRolling) reserve(j *list.JobState, row *planner.Row, notBeforeUs int64) {
	for _, c := range row.Types {
		if v := &r.reserved[c.Type]; !v.made {
			*v = r.reservation(j, row, c, notBeforeUs)
		}
	}
}

// reservation finds when enough GPUs of a type are expected to be free for a row of a
// job. Jobs that the plan has before that job keep their GPUs to the end of their rows.
// It takes O(jobs log jobs + GPUs).
func (r *wholeRolling) reservation(j *list.JobState, row *planner.Row, c planner.TypeCount,
	notBeforeUs int64) gpuReservation {
	l := r.l
	var ends []list.GPURelease
	for _, o := range l.Active() {
		n := int64(0)
		if o != j {
			n = r.held(o, c.Type)
		}
		if n == 0 {
			continue
		}
		endUs := l.RoundEndUs(o)
		next := nextRow(o)
		switch {
		case o.Spec().Sync == hare.Rigid:
			endUs += list.SpanUs(r.belief.RoundsLeft(o)-1, o.DurationUs(c.Type))
		case next != nil && next.StartUs <= row.StartUs && r.holds(o, next):
			endUs += list.SpanUs(next.Round+next.Rounds-o.Round()-1, longestUs(o, next.Types))
		}
		ends = append(ends, list.GPURelease{AtUs: endUs, Count: n})
	}
	ends = l.GuardReleases(ends, c.Type)
	slices.SortFunc(ends, func(a, b list.GPURelease) int { return cmp.Compare(a.AtUs, b.AtUs) })
	room, atUs := r.free[c.Type], max(notBeforeUs, l.NowUs())
	for i := 0; i < len(ends) && (room < c.Count || ends[i].AtUs <= atUs); i++ {
		atUs = max(atUs, ends[i].AtUs)
		room += ends[i].Count
	}
	if room < c.Count {
		return gpuReservation{made: true, shadowUs: math.MaxInt64}
	}
	return gpuReservation{made: true, shadowUs: atUs, extra: room - c.Count, chunk: math.MaxInt64}
}

// fill lets jobs that wait run a round on GPUs that nobody is due on before the round
// ends, if the round also ends before the job's own turn. Jobs without a place in the
// plan come last, by arrival.
func (r *wholeRolling) fill() {
	for i := range r.turns {
		if !r.l.AnyFree() {
			return
		}
		r.fillWith(r.turns[i].job)
	}
	for _, j := range r.l.Active() {
		if !r.l.AnyFree() {
			return
		}
		if planOf(j).claim == nil {
			r.fillWith(j)
		}
	}
}

func (r *wholeRolling) fillWith(j *list.JobState) {
	if planOf(j).claim == nil {
		r.l.OpenRound(j)
	}
	switch {
	case j.Ready() == 0:
	case planOf(j).claim == nil && j.Hold() == hare.Relaxed:
		r.startTasks(j)
	case len(j.GPUs()) > 0 || j.Spec().Sync == hare.Rigid && planOf(j).claim != nil:
	case !r.startElsewhere(j) && planOf(j).claim == nil:
		r.startMixed(j)
	}
}

// startNewcomer starts a round of a newcomer on the cheapest type with room, or keeps
// GPUs of its cheapest type for it. No type is far slower than the job's best.
func (r *wholeRolling) startNewcomer(t *turn) {
	slowest := slowestUnplanned * r.l.RoundUs(t.job)
	for _, m := range t.new.modes {
		types := []planner.TypeCount{{Type: m.Type, Count: t.job.Spec().Tasks}}
		if m.DurationUs <= slowest && r.fits(t.job, types) {
			r.start(t.job, types)
			return
		}
	}
	r.reserve(t.job, t.row, r.l.NowUs())
}

// The index decides as a scan of all jobs does, on random events, under random plans that
// are taken late, and under the plans of the planner.
func TestTurnIndexAgainstWhole(t *testing.T) {
	seeds, starts := uint64(96), 0
	if testing.Short() {
		seeds = 24
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 4))
		cluster := &hare.Cluster{}
		for i := range 1 + rng.IntN(4) {
			cluster.Nodes = append(cluster.Nodes, hare.Node{Name: fmt.Sprint("n", i),
				GPUs: []hare.TypeCount{{Type: string(rune('A' + rng.IntN(3))), Count: 1 + rng.IntN(5)}}})
		}
		cfg := Config{Aside: seed%12 > 0, Work: planner.Work{Moves: -1},
			Guard: list.GuardConfig{Off: seed%3 == 0, Kappa: 0.3}, SwitchUs: []int64{-1, 0, 3e5, 2e6}[seed/2%4]}
		whole := wholeRolling{rolling: newRolling(cfg)}
		rule := whole.rule()
		rule.Assign, rule.Touched = whole.assign, nil
		fast, slow := New(cluster, cfg), &Policy{list.New(cluster, rule), whole.rolling}
		s := &stream{tb: t, rng: rng, fast: fast.Scheduler, slow: slow.Scheduler, left: map[string]int64{}}
		for i := range 1200 {
			s.step()
			checkTurns(t, fast)
			if cfg.Aside && rng.IntN(20) == 0 {
				p := randomPlan(fast, rng)
				if seed%4 == 1 {
					var err error
					if p, err = fast.rolling.question(fast.Scheduler).make(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for _, ro := range []*Policy{fast, slow} {
					q := *p
					ro.rolling.follow(ro.Scheduler, &q)
					ro.rolling.fresh = true
					ro.Reschedule()
				}
			}
			if i%100 == 99 && !slices.Equal(fast.AppendSnapshot(nil), slow.AppendSnapshot(nil)) {
				t.Fatal("the snapshots differ")
			}
		}
		starts += s.starts
	}
	if starts < 100*int(seeds) {
		t.Errorf("only %d starts", starts)
	}
}

// checkTurns checks that jobs whose entries are not known to be wrong stand where they would
// stand now.
func checkTurns(tb testing.TB, ro *Policy) {
	tb.Helper()
	l, r := ro.Scheduler, ro.rolling
	ti := &r.index
	if ti.stale || ti.of == nil || ti.capacity != l.Capacity() || ti.version != r.belief.Version() ||
		ti.setupUs != r.setup.Us() {
		return
	}
	for _, j := range l.Active() {
		row, x := nextRow(j), &planOf(j).turns
		if x.touched || x.group == nil || row == nil {
			continue
		}
		if us := turnUs(l, j, row); x.entry.key != us {
			tb.Fatalf("job %s stands at %d µs in the index, and its turn is at %d", j.Spec().ID, x.entry.key, us)
		}
	}
}

// randomPlan draws rows on any types for most of the jobs that were there some time ago.
func randomPlan(ro *Policy, rng *rand.Rand) *madePlan {
	l := ro.Scheduler
	p := &madePlan{followedPlan: followedPlan{number: ro.rolling.changes, madeUs: l.NowUs(),
		arrivals: int64(l.Arrivals()) - rng.Int64N(6)}}
	if rng.IntN(4) > 0 {
		p.prices = &hare.Relaxation{}
		for cell := range int64(5) {
			p.prices.GridUs = append(p.prices.GridUs, cell*1e6)
		}
		for t := range l.Types() {
			row := make([]float64, 4)
			for i := range row {
				row[i] = float64(rng.IntN(3)) / 8
			}
			p.prices.Prices, p.pricedTypes = append(p.prices.Prices, row), append(p.pricedTypes, t)
		}
	}
	for _, j := range l.Active() {
		if int64(j.Number()) >= p.arrivals || rng.IntN(5) == 0 || len(j.Modes()) == 0 {
			continue
		}
		job := plannedJob{id: j.Spec().ID, arrival: int64(j.Number())}
		round, startUs := nextRound(j), l.NowUs()
		for range 1 + rng.IntN(3) {
			row := planner.Row{Round: round, Rounds: 1 + rng.Int64N(4), StartUs: startUs + rng.Int64N(4)*5e5, PeriodUs: 1e6}
			left := j.Spec().Tasks
			mix := j.Spec().Sync == hare.Relaxed || j.Spec().Mix && j.Spec().Sync != hare.Rigid
			for _, at := range rng.Perm(len(j.Modes())) {
				n := left
				if mix && rng.IntN(2) == 0 {
					n = 1 + rng.Int64N(left)
				}
				row.Types = append(row.Types, planner.TypeCount{Type: j.Modes()[at].Type, Count: n})
				if left -= n; left == 0 {
					break
				}
			}
			if left > 0 {
				row.Types[0].Count += left
			}
			job.rows = append(job.rows, row)
			round, startUs = round+row.Rounds, row.StartUs
		}
		p.jobs = append(p.jobs, job)
	}
	return p
}
