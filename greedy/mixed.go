package greedy

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// mixedSearch is a search for jobs of several modes: annealing places gang and
// rigid jobs beside stand-ins for the others, which then fill what is left.
type mixedSearch struct {
	ctx   context.Context
	m     *hare.Model
	rel   *hare.Relaxation
	cfg   *ImproveConfig
	left  int64 // moves
	stats Stats
	big   []bool
	best  *Plan // nil before there is one
	value hare.Amount
	// loose are the jobs that fill: relaxed ones, and gangs that need several
	// types at once. held are those that the annealing places.
	loose, held []int
	rest        *hare.Model // loose alone
	progress    [][]hare.Point
}

// annealRate is how many jobs the annealing places while a search for relaxed
// jobs places one.
const annealRate = 200

// stand says how a loose job is represented: as a job of sync whose tasks take
// the given share of synchronisation as compute.
type stand struct {
	sync  hare.Sync
	share float64
}

// stands are the stand-ins of the first candidates, in turn; in those of gangs
// a job may pause and change its type.
var stands = [...]stand{{hare.Rigid, 0.5}, {hare.Gang, 0.5}, {hare.Rigid, 1}, {hare.Gang, 0.2}}

// candidateShares are the shares of the budget by which each candidate is
// made; the rest is for filling the best of them better.
var candidateShares = [...]float64{0.06, 0.14, 0.28, 0.5}

// follows are the weights of a sketch in the orders tried for it.
var follows = [...]float64{0.5, 1}

// fewJobs is up to how many jobs all of them are searched by their keys in the
// end, gangs and rigid ones too.
const fewJobs = 12

// annealShare is the part of a candidate's budget for its annealing.
const annealShare = 0.6

// looseJobs are the jobs that annealing cannot place, and the others.
func looseJobs(m *hare.Model) (loose, held []int) {
	n := len(m.Jobs)
	p, _ := newAnnealProblem(m, nil, &Plan{Jobs: make([][]Block, n), EndUs: make([]int64, n)})
	for i := range p.jobs {
		held = append(held, p.jobs[i].index)
	}
	return p.fixed, held
}

// searchMixed searches for a plan better than start, which may be nil. The end
// of ctx is no error.
func searchMixed(ctx context.Context, m *hare.Model, rel *hare.Relaxation, start *Plan, cfg ImproveConfig, loose, held []int) (*Plan, Stats, error) {
	s := &mixedSearch{ctx: ctx, m: m, rel: rel, cfg: &cfg, left: cfg.Moves, big: bigJobs(m, oneByOne), best: start, loose: loose, held: held}
	if start != nil {
		s.value = start.Value(m)
	}
	rest := *m
	rest.Jobs = nil
	for _, i := range loose {
		rest.Jobs = append(rest.Jobs, m.Jobs[i])
	}
	s.rest = &rest
	peek := func() {
		if s.cfg.Peek != nil && s.best != start {
			s.cfg.Peek(func() *Plan { return s.best.from(1) })
		}
	}
	found := false
	for n, share := range candidateShares {
		if s.over() {
			break
		}
		found = s.candidate(n, share) || found
		peek()
	}
	switch {
	case s.over():
	case !found || s.best == nil || len(s.m.Jobs) <= fewJobs:
		// No stand-in has a place, or all orders can nearly be tried.
		cfg := s.part(1)
		cfg.StopAt, cfg.Report, cfg.Peek = s.cfg.StopAt, s.cfg.Report, s.cfg.Peek
		p, stats, err := searchRelaxed(ctx, m, rel, s.best, cfg, s.big)
		s.add(stats)
		return p, s.stats, err
	default:
		s.fill(s.best, s.best, s.guide(s.progress), s.part(0.95))
	}
	return s.best, s.stats, nil
}

func (s *mixedSearch) over() bool {
	return s.left <= 0 || s.ctx.Err() != nil ||
		s.cfg.StopAt != 0 && s.best != nil && s.value.Float() <= s.cfg.StopAt
}

func (s *mixedSearch) add(o Stats) {
	s.stats.Moves += o.Moves
	s.stats.Evaluations += o.Evaluations
	s.stats.Accepted += o.Accepted
}

// used is how much of the budget is over, 0 to 1.
func (s *mixedSearch) used() float64 {
	b := budget{ctx: s.ctx, cfg: s.cfg, left: s.left}
	return b.share()
}

// part is a configuration for a search that ends when share of the budget is
// used.
func (s *mixedSearch) part(share float64) ImproveConfig {
	from := s.used()
	cfg := ImproveConfig{Seed: s.cfg.Seed, Workers: s.cfg.Workers}
	spare := int64(share*float64(s.cfg.Moves)) - (s.cfg.Moves - s.left)
	cfg.Moves = max(1, min(s.left, spare))
	if s.cfg.Elapsed != nil {
		whole := s.cfg.Elapsed
		cfg.Elapsed = func() float64 { return (whole() - from) / math.Max(share-from, 1e-9) }
	}
	return cfg
}

// candidate makes a plan from one annealing with the n-th stand-ins. It reports
// false where that finds no place.
func (s *mixedSearch) candidate(n int, share float64) bool {
	from := s.used()
	cfg := s.part(from + annealShare*max(0, share-from))
	cfg.Seed += int64(n) << 32
	cfg.Moves = max(annealRate*cfg.Moves, int64(50*len(s.m.Jobs)))
	sketch, stats, err := anneal(s.ctx, s.standIns(stands[n%len(stands)]), s.rel, nil, cfg)
	s.stats.Accepted += stats.Accepted
	s.stats.Evaluations += stats.Evaluations
	s.stats.Moves += stats.Moves
	s.left -= (stats.Moves + annealRate - 1) / annealRate
	if err != nil || sketch == nil {
		return false
	}
	from = s.used()
	for x, weight := range follows {
		progress := s.follow(sketch, weight)
		cfg := s.part(from + max(0, share-from)*float64(x+1)/float64(len(follows)))
		if s.fill(sketch, nil, s.guide(progress), cfg) || s.progress == nil {
			s.progress = progress
		}
	}
	return true
}

// standIns is the model with loose jobs replaced.
func (s *mixedSearch) standIns(kind stand) *hare.Model {
	m := *s.m
	m.Jobs = slices.Clone(m.Jobs)
	size := make([]int64, len(m.Types))
	for c := range m.Classes {
		if len(m.Classes[c].Windows) > 0 {
			size[m.Classes[c].Type] += int64(len(m.Classes[c].GPUs))
		}
	}
	for _, i := range s.loose {
		j := &m.Jobs[i]
		widest := int64(1)
		for _, md := range j.Modes {
			widest = max(widest, size[md.Type])
		}
		width := min(j.Tasks, widest)
		each := (j.Tasks + width - 1) / width
		j.Tasks, j.Sync, j.Mix = width, kind.sync, false
		j.Modes = slices.Clone(j.Modes)
		for x := range j.Modes {
			md := &j.Modes[x]
			md.ComputeUs, md.SyncUs = each*md.ComputeUs+int64(kind.share*float64(md.SyncUs)), 0
		}
	}
	return &m
}

// follow is the progress of loose jobs between the relaxation's, weight 0, and
// that of their stand-ins in sketch, weight 1.
func (s *mixedSearch) follow(sketch *Plan, weight float64) [][]hare.Point {
	out := make([][]hare.Point, len(s.loose))
	for x, i := range s.loose {
		rounds := float64(s.m.Jobs[i].Rounds)
		start := float64(firstStart(sketch.Jobs[i]))
		long := float64(sketch.EndUs[i]) - start
		pts := s.rel.Progress[i]
		if len(pts) == 0 {
			pts = []hare.Point{{TimeUs: start}, {TimeUs: start + long, Rounds: rounds}}
		}
		for _, p := range pts {
			p.TimeUs += weight * (start + long*p.Rounds/rounds - p.TimeUs)
			out[x] = append(out[x], p)
		}
	}
	return out
}

// guide is the relaxation for loose jobs, with the given progress.
func (s *mixedSearch) guide(progress [][]hare.Point) *hare.Relaxation {
	return &hare.Relaxation{GridUs: s.rel.GridUs, Prices: s.rel.Prices, Progress: progress}
}

// fill leaves the held jobs where fixed has them, searches places for the loose
// ones from start (nil: from rel alone), and justifies all. It reports whether
// the plan is better than all before.
func (s *mixedSearch) fill(fixed, start *Plan, rel *hare.Relaxation, cfg ImproveConfig) bool {
	held := &Plan{Jobs: make([][]Block, len(s.m.Jobs)), EndUs: make([]int64, len(s.m.Jobs))}
	p := &Plan{Jobs: make([][]Block, len(s.m.Jobs)), EndUs: make([]int64, len(s.m.Jobs))}
	var value hare.Amount // of held jobs
	for _, i := range s.held {
		p.Jobs[i], p.EndUs[i] = fixed.Jobs[i], fixed.EndUs[i]
		held.Jobs[i] = fixed.Jobs[i]
		mj := &s.m.Jobs[i]
		value = value.Add(hare.Product(mj.WeightMicro, p.EndUs[i]-mj.ReleaseUs))
	}
	var from *Plan
	if start != nil {
		from = &Plan{}
		for _, i := range s.loose {
			from.Jobs, from.EndUs = append(from.Jobs, start.Jobs[i]), append(from.EndUs, start.EndUs[i])
		}
	}
	if s.cfg.StopAt != 0 {
		cfg.StopAt = s.cfg.StopAt - value.Float()
	}
	if cfg.StopAt <= 0 {
		cfg.StopAt = 0
	}
	cfg.Report = func(v hare.Amount) { s.report(v.Add(value)) }
	filled, stats, err := searchBeside(s.ctx, s.rest, rel, from, held, slices.Max(fixed.EndUs), cfg)
	s.add(stats)
	s.left -= stats.Moves
	if err != nil || filled == nil {
		return false
	}
	for x, i := range s.loose {
		p.Jobs[i], p.EndUs[i] = filled.Jobs[x], filled.EndUs[x]
	}
	return s.settle(p)
}

// settle justifies p while that helps and keeps it where it is the best.
func (s *mixedSearch) settle(p *Plan) bool {
	p = p.from(1) // justifying changes blocks, and others have these
	b := newRunBoard(s.m, s.big)
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			b.take(&p.Jobs[i][x])
		}
	}
	for before := math.Inf(1); s.ctx.Err() == nil; {
		v := weighted(s.m, p.EndUs)
		if v >= before*(1-1e-5) {
			break
		}
		before = v
		s.left -= 2 * int64(len(s.m.Jobs))
		b.justify(s.ctx, p)
	}
	v := p.Value(s.m)
	if s.best != nil && v.Cmp(s.value) >= 0 {
		return false
	}
	s.report(v)
	s.best, s.value = p, v
	return true
}

// report tells of a value that is better than all before.
func (s *mixedSearch) report(v hare.Amount) {
	if s.cfg.Report != nil && (s.best == nil || v.Cmp(s.value) < 0) {
		s.cfg.Report(v)
	}
}
