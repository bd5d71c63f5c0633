package explain

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
)

// laneView reads a schedule that verify accepts.
type laneView struct {
	inst  *hare.Instance
	model *hare.Model
	sched *hare.Schedule
	jobOf []int             // instance job of each of Schedule.Jobs
	lanes []*hare.Lane      // by GPU of the model; nil where idle
	longs map[entryAt]int64 // holds of the last rounds of mixing gangs' entries
	kinds []map[int]hare.Mode
}

type entryAt struct{ gpu, entry int }

// jobPiece is an entry of a job: round round+n starts at start + n·period.
type jobPiece struct {
	gpu, kind     int
	round, rounds int64
	start, period int64
	hold          int64 // of the GPU by each round
	end           int64 // of its last task's synchronisation, from the start of a round
	entry         int
}

func newLaneView(inst *hare.Instance, sched *hare.Schedule) *laneView {
	v := &laneView{inst: inst, model: hare.NewModel(inst), sched: sched, jobOf: make([]int, len(sched.Jobs)), longs: map[entryAt]int64{}}
	place := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		place[inst.Jobs[i].ID] = i
	}
	for i, id := range sched.Jobs {
		v.jobOf[i] = place[id]
	}
	gpus := make(map[string]int, len(v.model.GPUs))
	for i := range v.model.GPUs {
		gpus[v.model.GPUs[i].ID] = i
	}
	v.lanes = make([]*hare.Lane, len(v.model.GPUs))
	for i := range sched.Lanes {
		v.lanes[gpus[sched.Lanes[i].GPU]] = &sched.Lanes[i]
	}
	v.kinds = make([]map[int]hare.Mode, len(v.model.Jobs))
	for i := range v.model.Jobs {
		v.kinds[i] = make(map[int]hare.Mode, len(v.model.Jobs[i].Modes))
		for _, md := range v.model.Jobs[i].Modes {
			v.kinds[i][md.Type] = md
		}
	}
	v.mixes()
	return v
}

// mixes finds how long gangs that mix types hold the GPUs of the last round of
// each entry: until their slowest task has synchronised.
func (v *laneView) mixes() {
	of := map[int][]jobPiece{}
	for g, l := range v.lanes {
		if l == nil {
			continue
		}
		for e := range l.Job {
			if job := v.jobOf[l.Job[e]]; v.model.Jobs[job].Mix {
				of[job] = append(of[job], v.piece(job, g, e))
			}
		}
	}
	for _, ps := range of {
		eachStretch(ps, func(round, rounds int64, active []*jobPiece) {
			most := int64(0)
			for _, p := range active {
				most = max(most, p.hold)
			}
			for _, p := range active {
				if p.round+p.rounds == round+rounds {
					v.longs[entryAt{p.gpu, p.entry}] = most
				}
			}
		})
	}
}

// piece is entry e of GPU g, of the job.
func (v *laneView) piece(job, g, e int) jobPiece {
	x := v.lanes[g].Entry(e)
	kind := v.model.GPUs[g].Type
	md := v.kinds[job][kind]
	p := jobPiece{gpu: g, kind: kind, round: x.Round, rounds: x.Rounds, start: x.StartUs, period: x.PeriodUs, entry: e}
	if p.hold, p.end = md.DurationUs(), md.DurationUs(); v.model.Jobs[job].Sync == hare.Relaxed {
		p.hold = x.Tasks * md.ComputeUs
		p.end = p.hold + md.SyncUs
	}
	return p
}

// until is when entry e of GPU g gives it back.
func (v *laneView) until(g, e int) int64 {
	l := v.lanes[g]
	x := l.Entry(e)
	hold, long := v.longs[entryAt{g, e}]
	if !long {
		job := v.jobOf[l.Job[e]]
		md := v.kinds[job][v.model.GPUs[g].Type]
		if hold = md.DurationUs(); v.model.Jobs[job].Sync == hare.Relaxed {
			hold = x.Tasks * md.ComputeUs
		}
	}
	return x.StartUs + (x.Rounds-1)*x.PeriodUs + hold
}

// first is the first entry of GPU g that ends after t.
func (v *laneView) first(g int, t int64) int {
	l := v.lanes[g]
	if l == nil {
		return 0
	}
	return sort.Search(len(l.Job), func(e int) bool { return v.until(g, e) > t })
}

// eachStretch calls f for each stretch of rounds with the same pieces, in order.
func eachStretch(ps []jobPiece, f func(round, rounds int64, active []*jobPiece)) {
	slices.SortStableFunc(ps, func(a, b jobPiece) int { return cmp.Compare(a.round, b.round) })
	var at []int64
	for i := range ps {
		at = append(at, ps[i].round, ps[i].round+ps[i].rounds)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var active []*jobPiece
	next := 0
	for i := range len(at) - 1 {
		active = slices.DeleteFunc(active, func(p *jobPiece) bool { return p.round+p.rounds <= at[i] })
		for ; next < len(ps) && ps[next].round == at[i]; next++ {
			active = append(active, &ps[next])
		}
		if len(active) > 0 {
			f(at[i], at[i+1]-at[i], active)
		}
	}
}

// runOf is a stretch of rounds of a job with the same entries.
type runOf struct {
	round, rounds int64
	start, end    int64 // of the first round's first task; of the last round
	paused        int64 // between its own rounds, in all
	pieces        []jobPiece
	gpus          map[int]int64 // GPUs by type
}

// runsOf are the stretches of a job, in order. O(entries of the schedule), and
// for each stretch its entries.
func (v *laneView) runsOf(job int) []runOf {
	var ps []jobPiece
	for g, l := range v.lanes {
		if l == nil {
			continue
		}
		for e := range l.Job {
			if v.jobOf[l.Job[e]] == job {
				ps = append(ps, v.piece(job, g, e))
			}
		}
	}
	var runs []runOf
	eachStretch(ps, func(round, rounds int64, active []*jobPiece) {
		if v.model.Jobs[job].Mix {
			longest := int64(0)
			for _, p := range active {
				longest = max(longest, p.end)
			}
			for _, p := range active {
				p.hold = longest
			}
		}
		times := func(n int64) (start, end int64) {
			start = math.MaxInt64
			for _, p := range active {
				s := p.start + (n-p.round)*p.period
				start, end = min(start, s), max(end, s+p.end)
			}
			return start, end
		}
		x := runOf{round: round, rounds: rounds, gpus: map[int]int64{}}
		var ended, last int64
		x.start, ended = times(round)
		last, x.end = times(round + rounds - 1)
		if rounds > 1 {
			// Linear in between where all have one period.
			second, _ := times(round + 1)
			_, before := times(round + rounds - 2)
			x.paused = max(0, second-ended+last-before) * (rounds - 1) / 2
		}
		seen := map[int]bool{}
		for _, p := range active {
			x.pieces = append(x.pieces, *p)
			if !seen[p.gpu] {
				seen[p.gpu] = true
				x.gpus[p.kind]++
			}
		}
		runs = append(runs, x)
	})
	return runs
}
