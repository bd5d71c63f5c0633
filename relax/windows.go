package relax

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

const (
	// endless is the time until which room stays that nothing closes.
	endless = math.MaxInt64
	// maxOpenings limits the openings of a mode, of which the last counts as endless.
	maxOpenings = 32
	// maxRoomWork limits the number of jobs times that of the pieces of room of a mode. Beyond it,
	// room lasts for ever once it is there.
	maxRoomWork = 1 << 26
)

// piecesOf splits the room on some equal nodes over time into pieces.
func piecesOf(out []roomPiece, steps []model.Step, nodes int64) []roomPiece {
	var open []roomPiece
	room := int64(0)
	for _, s := range steps {
		for room > s.Count {
			last := &open[len(open)-1]
			less := min(last.tasks, (room-s.Count)*nodes)
			if last.from < s.FromUs {
				out = append(out, roomPiece{last.from, s.FromUs, less})
			}
			room -= less / nodes
			if last.tasks -= less; last.tasks == 0 {
				open = open[:len(open)-1]
			}
		}
		if room < s.Count {
			open = append(open, roomPiece{s.FromUs, endless, (s.Count - room) * nodes})
			room = s.Count
		}
	}
	return append(out, open...)
}

// newRoomPieces sorts pieces and adds up equal ones. With many jobs, no piece ends.
func newRoomPieces(all []roomPiece, jobs int) *roomPieces {
	rp := &roomPieces{byStart: mergedPieces(all)}
	if len(rp.byStart)*jobs > maxRoomWork {
		for x := range rp.byStart {
			rp.byStart[x].until = endless
		}
		rp.byStart = mergedPieces(rp.byStart)
	}
	sum := int64(0)
	for _, p := range rp.byStart {
		if p.until != endless {
			rp.byEnd = append(rp.byEnd, p)
		}
		sum += p.tasks
		rp.atLeast = append(rp.atLeast, sum)
	}
	slices.SortStableFunc(rp.byEnd, func(a, b roomPiece) int { return cmp.Compare(a.until, b.until) })
	return rp
}

// mergedPieces sorts pieces and adds up those of one period. It takes over all.
func mergedPieces(all []roomPiece) []roomPiece {
	slices.SortFunc(all, func(a, b roomPiece) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.until, b.until))
	})
	kept := all[:0]
	for _, p := range all {
		if n := len(kept); n > 0 && kept[n-1].from == p.from && kept[n-1].until == p.until {
			kept[n-1].tasks += p.tasks
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// opening is a period in which blocks may start: from one time until another, both included.
type opening struct{ from, until int64 }

// openings returns when blocks of need tasks may start from a time on that hold their GPUs for
// hold: the room over the block suffices. It takes O(log pieces) where no piece ends, and O(pieces)
// otherwise.
func (rp *roomPieces) openings(from, hold, need int64) []opening {
	if len(rp.byEnd) == 0 {
		at, _ := slices.BinarySearch(rp.atLeast, need)
		if at == len(rp.atLeast) {
			return nil
		}
		return []opening{{max(from, rp.byStart[at].from), endless}}
	}
	var out []opening
	room, ended := int64(0), 0
	serves := func(p *roomPiece) bool { return p.until == endless || p.until-p.from >= hold }
	// end takes away the pieces in which the last block starts before t, and says when the room
	// falls below need.
	end := func(t int64) {
		for ; ended < len(rp.byEnd); ended++ {
			p := &rp.byEnd[ended]
			last := p.until - hold
			if last >= t {
				return
			}
			if !serves(p) {
				continue
			}
			if room >= need && room-p.tasks < need {
				out[len(out)-1].until = last
			}
			room -= p.tasks
		}
	}
	for x := range rp.byStart {
		p := &rp.byStart[x]
		if !serves(p) {
			continue
		}
		if end(p.from); room < need && room+p.tasks >= need {
			out = append(out, opening{p.from, endless})
		}
		room += p.tasks
	}
	end(endless)
	out = slices.DeleteFunc(out, func(o opening) bool { return o.until < from })
	if len(out) > 0 {
		out[0].from = max(out[0].from, from)
	}
	if len(out) >= maxOpenings {
		out = out[:maxOpenings]
		out[maxOpenings-1].until = endless
	}
	return out
}

// way is one way to run a round: it starts in an opening, and the next round starts no earlier than
// time later.
type way struct {
	openings []opening
	time     int64
}

// next returns the first start ≥ t and until when rounds may start in the same opening.
func (w *way) next(t int64) (start, until int64) {
	for len(w.openings) > 0 && w.openings[0].until < t {
		w.openings = w.openings[1:]
	}
	if len(w.openings) == 0 {
		return endless, endless
	}
	return max(t, w.openings[0].from), w.openings[0].until
}

// leastEnd returns the least end of so many rounds one after another from t on, and endless if they
// cannot end. It takes O(openings · ways).
func leastEnd(ways []way, t, rounds int64) int64 {
	starts := make([]int64, len(ways))
	for rounds > 0 {
		best, until, end := -1, int64(0), int64(endless)
		for x := range ways {
			start, last := ways[x].next(t)
			if starts[x] = start; start != endless && start+ways[x].time < end {
				best, until, end = x, last, start+ways[x].time
			}
		}
		if best < 0 {
			return endless
		}
		w := &ways[best]
		n := rounds
		if until != endless {
			n = min(n, (until-starts[best])/w.time+1)
		}
		for x := range ways {
			// Rounds go on here while none would end earlier in a shorter way.
			if o := &ways[x]; o.time < w.time && starts[x] != endless {
				n = min(n, max(1, (starts[x]+o.time-starts[best])/w.time))
			}
		}
		t, rounds = starts[best]+n*w.time, rounds-n
	}
	return t
}

// pieces returns the pieces of the room of job j on some types together.
func (rc *roomCache) pieces(m *model.Model, j *model.Job, types ...int) *roomPieces {
	key := roomKeyOf(j, types[0])
	if len(types) > 1 {
		key.others = fmt.Sprint(types)
	}
	rp, ok := rc.windows[key]
	if !ok {
		var all []roomPiece
		for i := range m.Kinds {
			kind := &m.Kinds[i]
			for _, k := range types {
				all = piecesOf(all, m.KindRoom(kind, j, k), int64(len(kind.Nodes)))
			}
		}
		if rp = newRoomPieces(all, len(m.Jobs)); rc.windows == nil {
			rc.windows = map[roomKey]*roomPieces{}
		}
		rc.windows[key] = rp
	}
	return rp
}

// ends returns the first start ≥ t and the least end of all rounds of a job in one shape, which goes
// by when nodes have room (docs/reference/model.md#running-work-reservations-and-quotas, "Bounds"). tau is the least
// time of a round.
func (rc *roomCache) ends(m *model.Model, j *model.Job, modes []roundMode, t, tau int64) (start, end int64) {
	var ways []way
	switch {
	case j.Mix:
		var types []int
		for x := range modes {
			if !slices.Contains(types, modes[x].Type) {
				types = append(types, modes[x].Type)
			}
		}
		ways = []way{{rc.pieces(m, j, types...).openings(t, tau, j.Tasks), tau}}
	case j.Sync == hare.Relaxed:
		for x := range modes {
			ways = append(ways, way{rc.pieces(m, j, modes[x].Type).openings(t, modes[x].ComputeUs, 1), tau})
		}
	default:
		for x := range modes {
			d := modes[x].DurationUs()
			if j.Sync == hare.Rigid {
				d *= j.Rounds
			}
			ways = append(ways, way{rc.pieces(m, j, modes[x].Type).openings(t, d, j.Tasks), d})
		}
	}
	start = endless
	for x := range ways {
		if len(ways[x].openings) > 0 {
			start = min(start, ways[x].openings[0].from)
		}
	}
	rounds := j.Rounds
	if j.Sync == hare.Rigid {
		rounds = 1
	}
	return start, leastEnd(ways, t, rounds)
}
