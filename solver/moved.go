package solver

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// piece is tasks of consecutive rounds on width GPUs of a type, as an entry.
type piece struct {
	kind                                string
	round, rounds, tasks, start, period int64
	each                                int64 // GPU-time of a task, µs
	width                               int64
}

// spot is where tasks of one round are.
type spot struct {
	kind                 string
	start, period, tasks int64
}

// expandUpTo is up to how many tasks back to back count one by one; more move
// together or not at all.
const expandUpTo = 64

// pieces are those of a plan's blocks.
func pieces(m *hare.Model, blocks []greedy.Block) []piece {
	out := make([]piece, 0, len(blocks))
	for x := range blocks {
		b := &blocks[x]
		p := piece{kind: m.Types[m.Classes[b.Class].Type], round: b.Round, rounds: b.Rounds, tasks: int64(b.Tasks), start: b.StartUs, period: b.PeriodUs, each: b.HoldUs / int64(b.Tasks), width: int64(b.Width)}
		if b.Rounds == 1 {
			p.period = 0
		}
		out = append(out, p)
	}
	return out
}

// compareMoves calls do for stretches of what old plans: the GPU-time of one
// GPU, in µs, on how many GPUs, and on how many of them the tasks have the same
// start and type in now. Tasks of a round are interchangeable, and so are GPUs of
// a type. A run of rounds is compared where both keep one period.
// O((pieces + rounds that they change at) log) but for tasks counted one by one.
func compareMoves(old, now []piece, do func(us, width, kept int64)) {
	var cuts []int64
	for _, ps := range [][]piece{old, now} {
		for i := range ps {
			cuts = append(cuts, ps[i].round, ps[i].round+ps[i].rounds)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	before, after := spread(old, cuts), spread(now, cuts)
	for s := range before {
		rounds := cuts[s+1] - cuts[s]
		there := map[spot]int64{}
		for _, x := range after[s] {
			each(&now[x], cuts[s], rounds, func(at spot) { there[at] += now[x].width })
		}
		for _, x := range before[s] {
			p := &old[x]
			each(p, cuts[s], rounds, func(at spot) {
				kept := min(p.width, there[at])
				if kept > 0 {
					there[at] -= kept
				}
				do(rounds*at.tasks*p.each, p.width, kept)
			})
		}
	}
}

// movedTime is the GPU-time moved and all of it, in GPU-seconds.
func movedTime(old, now []piece) (moved, all hare.Amount) {
	compareMoves(old, now, func(us, width, kept int64) {
		one := hare.Product(us, 1e6)
		all = all.Add(times(one, width))
		moved = moved.Add(times(one, width-kept))
	})
	return moved, all
}

// movedUs is the GPU-time moved in µs, for comparisons within a search.
func movedUs(old, now []piece) (us float64) {
	compareMoves(old, now, func(one, width, kept int64) { us += float64(one) * float64(width-kept) })
	return us
}

// times is n·a for the small n of GPUs side by side.
func times(a hare.Amount, n int64) (sum hare.Amount) {
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			sum = sum.Add(a)
		}
		a = a.Add(a)
	}
	return sum
}

// spread lists the pieces of each stretch of rounds between cuts.
func spread(ps []piece, cuts []int64) [][]int {
	out := make([][]int, max(0, len(cuts)-1))
	for i := range ps {
		s, _ := slices.BinarySearch(cuts, ps[i].round)
		for ; s < len(out) && cuts[s] < ps[i].round+ps[i].rounds; s++ {
			out[s] = append(out[s], i)
		}
	}
	return out
}

// each calls do for the spots of a piece in a stretch of rounds.
func each(p *piece, from, rounds int64, do func(spot)) {
	at := spot{p.kind, p.start + (from-p.round)*p.period, p.period, p.tasks}
	if rounds > 1 || p.tasks > expandUpTo {
		do(at)
		return
	}
	at.period, at.tasks = 0, 1
	for range p.tasks {
		do(at)
		at.start += p.each
	}
}
