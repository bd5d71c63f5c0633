package greedy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// SteadyConfig tunes Steady.
type SteadyConfig struct {
	Seed int64
	// Moves limits the work: one is one job placed once.
	Moves int64
	// Cold takes no change for the worse.
	Cold bool
	// Old is where jobs were planned before; those without blocks were nowhere.
	Old *Plan
	// Moved is what it costs that job i is at blocks, in 1e-12 weight-seconds.
	Moved func(i int, blocks []Block) float64
}

const (
	hotSteady = 0.02 // first temperature, in costs over the number of jobs
	mostAside = 3    // jobs taken out beside the one that gets another place
	asideTry  = 12   // jobs looked at to find them
	mostBack  = 6    // jobs taken out to put one back where it was
	// comparedAMove is how many pairs of blocks compared count as a move.
	comparedAMove = 50_000
)

// Steady searches from start for a plan whose value and cost of moves are least
// together: it takes a job and a few others out, gives the job another place,
// early, or where it was, or where it was up to a round and early from there,
// and puts each of the others back where that costs least: where it is, where
// it was, or early. The plan that it returns never costs more than start. The
// result depends on the clock only through ctx, whose end is no error.
func Steady(ctx context.Context, m *hare.Model, start *Plan, cfg SteadyConfig) *Plan {
	s := &steady{m: m, cfg: &cfg, r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x737465616479)),
		p: &Plan{Jobs: slices.Clone(start.Jobs), EndUs: slices.Clone(start.EndUs)}, b: newRunBoard(m, bigJobs(m, oneByOne)), cost: make([]float64, len(m.Jobs)), left: cfg.Moves}
	s.b.hold(s.p)
	sum := 0.0
	for i := range m.Jobs {
		s.cost[i] = s.costOf(i, s.p.Jobs[i], s.p.EndUs[i])
		sum += s.cost[i]
	}
	if len(m.Jobs) == 0 {
		return start
	}
	best, bestSum := &Plan{Jobs: slices.Clone(s.p.Jobs), EndUs: slices.Clone(s.p.EndUs)}, sum
	for s.left > 0 && ctx.Err() == nil {
		t := hotSteady * sum / float64(len(m.Jobs)) * float64(s.left) / float64(cfg.Moves)
		if cfg.Cold {
			t = 0
		}
		sum += s.step(t)
		if sum < bestSum*(1-1e-12) {
			bestSum = sum
			copy(best.Jobs, s.p.Jobs)
			copy(best.EndUs, s.p.EndUs)
		}
	}
	return best
}

type steady struct {
	m    *hare.Model
	cfg  *SteadyConfig
	r    *rand.Rand
	p    *Plan // its blocks are never changed in place
	b    *board
	cost []float64
	left int64
	set  []int // scratch: jobs taken out
}

// place is where a job may go.
type place struct {
	blocks []Block
	end    int64
	cost   float64
}

func (s *steady) costOf(i int, blocks []Block, end int64) float64 {
	return float64(s.m.Jobs[i].WeightMicro)*float64(end-s.m.Jobs[i].ReleaseUs) + s.cfg.Moved(i, blocks)
}

// step tries one change and returns by how much the cost has changed.
func (s *steady) step(temperature float64) float64 {
	i := s.r.IntN(len(s.m.Jobs))
	s.set = append(s.set[:0], i)
	was := len(s.cfg.Old.Jobs[i]) > 0
	back := was && s.r.IntN(3) == 0
	if back {
		if !s.inTheWay(i) {
			s.left--
			return 0
		}
	} else {
		s.aside(i)
	}
	olds := make([]place, len(s.set))
	before := 0.0
	for x, j := range s.set {
		olds[x] = place{s.p.Jobs[j], s.p.EndUs[j], s.cost[j]}
		before += s.cost[j]
		s.giveAll(s.p.Jobs[j])
	}
	after, placed, ok := 0.0, 0, true
	for x, j := range s.set {
		var at place
		switch {
		case x > 0:
			at, ok = s.cheapest(j, &olds[x])
		case back:
			at, ok = s.put(j, s.cfg.Old.Jobs[j], s.cfg.Old.EndUs[j])
		default:
			at, ok = s.anew(j, &olds[x])
		}
		if !ok {
			break
		}
		s.p.Jobs[j], s.p.EndUs[j], s.cost[j] = at.blocks, at.end, at.cost
		after += at.cost
		placed++
	}
	if ok && (after <= before || s.r.Float64() < math.Exp((before-after)/max(temperature, 1e-9))) {
		return after - before
	}
	for _, j := range s.set[:placed] {
		s.giveAll(s.p.Jobs[j])
	}
	for x, j := range s.set {
		s.p.Jobs[j], s.p.EndUs[j], s.cost[j] = olds[x].blocks, olds[x].end, olds[x].cost
		for y := range olds[x].blocks {
			s.b.take(&olds[x].blocks[y])
		}
	}
	return 0
}

// aside adds up to mostAside jobs to the set that run before job i ends.
func (s *steady) aside(i int) {
	want := s.r.IntN(mostAside + 1)
	for range asideTry {
		if len(s.set) > want {
			return
		}
		j := s.r.IntN(len(s.m.Jobs))
		if slices.Contains(s.set, j) || s.p.EndUs[j] <= s.m.Jobs[i].ReleaseUs || firstStart(s.p.Jobs[j]) >= s.p.EndUs[i] {
			continue
		}
		s.set = append(s.set, j)
	}
}

// inTheWay adds the jobs to the set that hold GPUs where job i was, one of
// those that overlap after another until it fits; false where they are too many,
// or i is where it was.
func (s *steady) inTheWay(i int) bool {
	old := s.cfg.Old.Jobs[i]
	if slices.Equal(old, s.p.Jobs[i]) {
		return false
	}
	s.giveAll(s.p.Jobs[i])
	fits := s.takeAll(old)
	for j := 0; j < len(s.m.Jobs) && !fits && len(s.set) <= mostBack; j++ {
		if j == i || s.p.EndUs[j] <= s.m.Jobs[i].ReleaseUs || firstStart(s.p.Jobs[j]) >= s.cfg.Old.EndUs[i] {
			continue
		}
		s.left -= int64(len(old)) * int64(len(s.p.Jobs[j])) / comparedAMove
		if !overlap(old, s.p.Jobs[j]) {
			continue
		}
		s.set = append(s.set, j)
		s.giveAll(s.p.Jobs[j])
		fits = s.takeAll(old)
	}
	if fits {
		s.giveAll(old)
	}
	for _, j := range s.set {
		for x := range s.p.Jobs[j] {
			s.b.take(&s.p.Jobs[j][x])
		}
	}
	return fits
}

// overlap says that blocks of a and b hold GPUs of one class at one time.
func overlap(a, b []Block) bool {
	for x := range a {
		for y := range b {
			if a[x].Class == b[y].Class && a[x].StartUs < b[y].endUs() && b[y].StartUs < a[x].endUs() {
				return true
			}
		}
	}
	return false
}

func (s *steady) giveAll(blocks []Block) {
	for x := range blocks {
		s.b.give(&blocks[x])
	}
}

// takeAll holds the blocks where all fit, or none.
func (s *steady) takeAll(blocks []Block) bool {
	for x := range blocks {
		b := &blocks[x]
		if s.b.profiles[b.Class].least(b.StartUs, b.endUs()-b.StartUs) < b.Width {
			s.giveAll(blocks[:x])
			return false
		}
		s.b.take(b)
	}
	return true
}

// put places job i at blocks, where they fit.
func (s *steady) put(i int, blocks []Block, end int64) (place, bool) {
	s.left--
	if len(blocks) == 0 || !s.takeAll(blocks) {
		return place{}, false
	}
	return place{blocks, end, s.costOf(i, blocks, end)}, true
}

// anew places job i early, all of it or from a round on.
func (s *steady) anew(i int, now *place) (place, bool) {
	j := &s.m.Jobs[i]
	s.left--
	if j.Sync != hare.Rigid && !s.b.big[i] && j.Rounds > 1 && s.r.IntN(2) == 0 {
		from := now.blocks
		if old := s.cfg.Old.Jobs[i]; len(old) > 0 && s.r.IntN(2) == 0 {
			from = old
		}
		round := 1 + s.r.Int64N(j.Rounds-1)
		if kept := upTo(from, round); s.takeAll(kept) {
			blocks, end, ok := s.b.tail(i, round, kept)
			if !ok {
				s.giveAll(kept)
				return place{}, false
			}
			return place{blocks, end, s.costOf(i, blocks, end)}, true
		}
	}
	blocks, end, ok := s.b.whole(i, nil)
	if !ok {
		return place{}, false
	}
	return place{blocks, end, s.costOf(i, blocks, end)}, true
}

// cheapest places job i where it is, where it was, or early.
func (s *steady) cheapest(i int, now *place) (place, bool) {
	best, ok := s.put(i, now.blocks, now.end)
	try := func(p place, fits bool) {
		if !fits {
			return
		}
		s.giveAll(p.blocks)
		if !ok || p.cost < best.cost {
			best, ok = p, true
		}
	}
	if ok {
		s.giveAll(best.blocks)
	}
	if old := s.cfg.Old.Jobs[i]; len(old) > 0 {
		try(s.put(i, old, s.cfg.Old.EndUs[i]))
	}
	s.left--
	if blocks, end, fits := s.b.whole(i, nil); fits {
		try(place{blocks, end, s.costOf(i, blocks, end)}, true)
	}
	for x := range best.blocks {
		s.b.take(&best.blocks[x])
	}
	return best, ok
}

// upTo is the blocks' rounds before round.
func upTo(blocks []Block, round int64) []Block {
	var out []Block
	for _, b := range blocks {
		if n := min(b.Rounds, round-b.Round); n > 0 {
			b.Rounds = n
			out = append(out, b)
		}
	}
	return out
}

// tail places the rounds of job i from round on, early; those before are at
// kept, which the board holds. It reports false, kept still held, where there
// is no place.
func (b *board) tail(i int, round int64, kept []Block) (blocks []Block, end int64, ok bool) {
	j := &b.m.Jobs[i]
	end = j.ReleaseUs
	for x := range kept {
		e := kept[x].endUs()
		if j.Sync == hare.Relaxed {
			for k := range j.Modes {
				if j.Modes[k].Type == b.m.Classes[kept[x].Class].Type {
					e += j.Modes[k].SyncUs
				}
			}
		}
		end = max(end, e)
	}
	blocks = kept
	if j.Sync == hare.Relaxed {
		for r := round; r < j.Rounds; r++ {
			if end, ok = b.relaxedRound(j, r, end, &blocks); !ok {
				b.undo(len(kept), &blocks)
				return nil, 0, false
			}
		}
		return blocks, end, true
	}
	rest := *j
	rest.Rounds -= round
	var more []Block
	if end, ok = b.gang(&rest, end, &more); !ok {
		return nil, 0, false
	}
	for _, x := range more {
		x.Round += round
		blocks = append(blocks, x)
	}
	return blocks, end, true
}
