package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/market"
)

// SamplingConfig tunes NewSampling. The zero value is the default.
type SamplingConfig struct {
	// Market are the settings of each placement; zero values mean the defaults of package market.
	Market market.Config
	// OnlyPlaced leaves GPUs idle that no job has by the placement, or whose job waits for its
	// round; otherwise other jobs use them meanwhile where that makes no round slower.
	OnlyPlaced bool
	// WholeRounds places a relaxed job only with GPUs for all tasks of a round; otherwise a job is
	// placed with any number of GPUs, as in the paper.
	WholeRounds bool
	// Ring lets relaxed jobs exchange parameters in a ring over the bandwidths of the cluster, which must have one
	// between nodes; otherwise the exchange is a part of a task's time.
	Ring bool
}

// NewSampling is sampling-based placement (Liu, Wang, Huang, Pan, IEEE TPDS 2024): at each arrival,
// end of a job and change of the GPUs the GPUs are divided again among the jobs that are there, by
// sampled categories and a matching market (package market). It knows how long jobs take; in sessions
// it goes by estimates.
//
// [I] The paper places a batch once, on workers that each job holds until it ends. Here an iteration
// is a round, its samples are the tasks, and a GPU's throughput is a task over the time of compute
// and synchronisation; the exchange of parameters is in that time, so that D is 0. With
// Ring, D of a relaxed job is what makes the ring of all its K tasks as long as its
// synchronisation, s r K / (2(K − 1)) with the bandwidth r between nodes, and the throughput is that of
// compute alone: the job then loses less on fewer GPUs. A relaxed job has
// some GPUs of each type, its tasks start one by one on them, and a slow GPU gets none that the
// faster ones would have ended before, which is the proportional workload in whole tasks. Gangs and
// rigid jobs need as many GPUs as they have: they get the type on which the market gives them most,
// if it has room, and the others divide what is left. Where jobs need more GPUs than there are, those
// with the least weighted GPU-time left are placed, and the others wait.
//
// A placement takes the time of market.Sample, twice where there are gangs and relaxed jobs; an event
// without a placement O(jobs × types + GPUs).
//
// With Ring the cluster must have a bandwidth between nodes; errors are *hare.InvalidError.
func NewSampling(cluster *hare.Cluster, sizes JobSizes, cfg SamplingConfig) (*list.Scheduler, error) {
	return list.NewOpened(cluster, cfg.rule(sizes.Rounds))
}

// rule is the rule for the rounds of each job; nil means that they are learned.
func (cfg SamplingConfig) rule(rounds map[string]int64) list.Rule {
	if cfg.Market.Tries == 0 {
		cfg.Market.Tries = -1 // the market alone: a placement is made at each arrival and end
	}
	s := &sampling{cfg: cfg}
	return list.Rule{
		Opened: s.readRing,
		Name:   "sampling", Rounds: rounds, LearnSizes: rounds == nil,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return float64(j.Number()) },
		Prepare:  s.prepare, Assign: s.assign,
		Left:    func(*list.Scheduler, *list.JobState, bool) { s.due = true },
		Resized: func(*list.Scheduler) { s.due = true },
		State:   s.encode, Restore: s.decode,
	}
}

// parseSampling is the rule for the parameters of a session.
func parseSampling(parameters []byte) (list.Rule, error) {
	cfg, err := readSampling(parameters)
	if err != nil {
		return list.Rule{}, err
	}
	return cfg.rule(nil), nil
}

// readSampling reads {"draws": 64, "skip": 0.5, "drawing": "near", "valuation": "saving",
// "only_placed": false, "whole_rounds": false, "ring": false}.
func readSampling(parameters []byte) (cfg SamplingConfig, err error) {
	form := struct {
		Draws      *int             `json:"draws"`
		Skip       *float64         `json:"skip"`
		Drawing    market.Drawing   `json:"drawing"`
		Valuation  market.Valuation `json:"valuation"`
		OnlyPlaced bool             `json:"only_placed"`
		Whole      bool             `json:"whole_rounds"`
		Ring       bool             `json:"ring"`
	}{}
	if err = online.DecodeParameters(parameters, &form); err != nil {
		return cfg, err
	}
	cfg = SamplingConfig{Market: market.Config{Drawing: form.Drawing, Valuation: form.Valuation},
		OnlyPlaced: form.OnlyPlaced, WholeRounds: form.Whole, Ring: form.Ring}
	if form.Draws != nil {
		if *form.Draws < 1 || *form.Draws > maxDraws {
			return cfg, online.Invalid("/draws", "out_of_range", "sampling: draws is %d: it must be from 1 to %d", *form.Draws,
				maxDraws)
		}
		cfg.Market.Draws = *form.Draws
	}
	if form.Skip != nil {
		if !(*form.Skip >= 0 && *form.Skip < 1) {
			return cfg, online.Invalid("/skip", "out_of_range", "sampling: skip is %v: it must be from 0 to below 1",
				*form.Skip)
		}
		if cfg.Market.Skip = *form.Skip; cfg.Market.Skip == 0 {
			cfg.Market.Skip = -1
		}
	}
	switch form.Drawing {
	case "", market.Near, market.Uniform:
	default:
		return cfg, online.Invalid("/drawing", "unknown_value", "sampling: drawing is %.60q: use %s or %s", form.Drawing,
			market.Near, market.Uniform)
	}
	switch form.Valuation {
	case "", market.Saving, market.Throughput:
	default:
		return cfg, online.Invalid("/valuation", "unknown_value", "sampling: valuation is %.60q: use %s or %s",
			form.Valuation,
			market.Saving, market.Throughput)
	}
	return cfg, nil
}

const (
	// maxDraws limits the time of a placement in a session.
	maxDraws = 10000
	// maxPlaced is the most jobs of one placement.
	maxPlaced = 2000
)

// sampling is the state beyond that of list scheduling; the shares are those of the jobs.
type sampling struct {
	cfg  SamplingConfig
	due  bool // whether something has changed since the last placement
	ring *samplingRing
}

// samplingRing is what a ring of GPUs goes by; nil where the cluster says nothing of bandwidths between nodes.
type samplingRing struct {
	InsideBps  float64        `json:"inside_bps"` // bytes a second between the GPUs of a node
	BetweenBps float64        `json:"between_bps"`
	PerNode    map[string]int `json:"per_node"` // the most GPUs of a type on one node
}

// readRing reads the bandwidths of a cluster. One that is not known for the GPUs of a node is that between nodes.
func (s *sampling) readRing(c *hare.Cluster) error {
	if !s.cfg.Ring {
		return nil
	}
	levels := hare.NewLevels(c)
	between := c.BandwidthMbps(levels, levels.Any())
	if between == 0 {
		return online.Invalid("/ring", "not_known", "sampling: a ring needs the bandwidth between nodes: give the cluster "+
			`bandwidth_gbps with "any"`)
	}
	const bps = 1e6 / 8
	s.ring = &samplingRing{float64(c.BandwidthMbps(levels, 0)) * bps, float64(between) * bps, map[string]int{}}
	for i := range c.Nodes {
		for _, g := range c.Nodes[i].GPUs {
			s.ring.PerNode[g.Type] = max(s.ring.PerNode[g.Type], g.Count)
		}
	}
	return nil
}

// bytes is D of a relaxed job, of which a task takes computeUs and synchronises for the rest of durationUs.
func (sr *samplingRing) bytes(j *hare.Job, m *list.Mode) float64 {
	k := float64(j.Tasks)
	if sr == nil || j.Sync != hare.Relaxed || k < 2 || m.ComputeUs == 0 || m.DurationUs <= m.ComputeUs {
		return 0
	}
	return float64(m.DurationUs-m.ComputeUs) / 1e6 * sr.BetweenBps * k / (2 * (k - 1))
}

// gpuShare is a job's part of the placement.
type gpuShare struct {
	place int   // in the order of the placement, from 0
	gpus  []int // by type, as many as the job may hold
}

// shareOf is the job's part of the placement; nil where it has none.
func shareOf(j *list.JobState) *gpuShare {
	x, _ := j.Own.(*gpuShare)
	return x
}

// of is the number of GPUs of a type that the job may hold.
func (g *gpuShare) of(gpuType int) int {
	if g == nil || gpuType >= len(g.gpus) {
		return 0
	}
	return g.gpus[gpuType]
}

// prepare places the jobs again where something has changed.
func (s *sampling) prepare(l *list.Scheduler) {
	if !s.due {
		return
	}
	s.due = false
	free := slices.Clone(l.InService())
	jobs := s.choose(l, free)
	for place, j := range jobs {
		j.Own = &gpuShare{place: place, gpus: make([]int, len(l.Types()))}
	}
	var fixed, divided []*list.JobState // by whether one type has all GPUs of a job
	for _, j := range jobs {
		if j.Spec().Sync == hare.Relaxed || j.Spec().Mix {
			divided = append(divided, j)
		} else {
			fixed = append(fixed, j)
		}
	}
	if len(fixed) > 0 {
		s.placeFixed(l, jobs, fixed, free)
	}
	// What the fixed jobs have taken can leave too little for the last of the others.
	room := sum(free)
	for i, j := range divided {
		if room -= s.leastGPUs(l, j); room < 0 {
			for _, late := range divided[i:] {
				late.Own = nil
			}
			divided = divided[:i]
			break
		}
	}
	counts := s.market(l, divided, free)
	for i, j := range divided {
		if counts == nil {
			j.Own = nil
		} else {
			copy(shareOf(j).gpus, counts[i])
		}
	}
}

func sum(of []int) int {
	n := 0
	for _, k := range of {
		n += k
	}
	return n
}

// leastGPUs is the number of GPUs with which a job is placed at least.
func (s *sampling) leastGPUs(l *list.Scheduler, j *list.JobState) int {
	all, _ := l.Room(j)
	if j.Spec().Sync == hare.Relaxed && (!s.cfg.WholeRounds || int64(all) < j.Spec().Tasks) {
		return j.TaskGPUs()
	}
	return int(j.Width())
}

// choose chooses the jobs to place, in the order of their places: those that hold GPUs for good
// first, and then by the GPU-time that they have left over their weight.
func (s *sampling) choose(l *list.Scheduler, inService []int) []*list.JobState {
	var jobs []*list.JobState
	key := map[*list.JobState]float64{}
	for _, j := range l.Active() {
		j.Own = nil
		if j.Finished() || !l.FitsWhenEmpty(j) {
			continue
		}
		key[j] = float64(j.RoundsLeft()) * float64(l.RoundUs(j)) * float64(j.Width()) / max(1,
			float64(j.Spec().WeightMicro))
		if j.Spec().Sync == hare.Rigid && len(j.GPUs()) > 0 {
			key[j] = -1
		}
		jobs = append(jobs, j)
	}
	slices.SortStableFunc(jobs, func(a, b *list.JobState) int { return cmp.Compare(key[a], key[b]) })
	room := sum(inService)
	chosen := jobs[:0]
	for _, j := range jobs {
		if n := s.leastGPUs(l, j); n <= room && len(chosen) < maxPlaced {
			chosen, room = append(chosen, j), room-n
		}
	}
	return chosen
}

// placeFixed gives each fixed job one type, and takes its GPUs from what is free.
func (s *sampling) placeFixed(l *list.Scheduler, jobs, fixed []*list.JobState, free []int) {
	var counts [][]int
	if len(l.Types()) > 1 {
		counts = s.market(l, jobs, free)
	}
	for i, j := range jobs {
		if j.Spec().Sync == hare.Relaxed || j.Spec().Mix {
			continue
		}
		best, most, n := -1, -1, int(j.Width())
		for _, m := range j.Modes() { // the fastest first
			t := m.Type
			given := 0
			if counts != nil {
				given = counts[i][t]
			}
			if j.Spec().Sync == hare.Rigid && len(j.GPUs()) > 0 && l.Slots()[j.GPUs()[0]].Type == t {
				given = math.MaxInt // it stays
			}
			if free[t] >= n && l.Most(j, t) >= j.Spec().Tasks && given > most {
				best, most = t, given
			}
		}
		if best < 0 {
			j.Own = nil
			continue
		}
		shareOf(j).gpus[best] = n
		free[best] -= n
	}
}

// market divides free GPUs among jobs; nil where no category can be matched.
func (s *sampling) market(l *list.Scheduler, jobs []*list.JobState, free []int) [][]int {
	p := &market.Problem{}
	for t, n := range free {
		c := market.Class{Workers: n}
		if s.ring != nil {
			c.PerNode, c.InsideBps, c.BetweenBps = s.ring.PerNode[l.Types()[t]], s.ring.InsideBps, s.ring.BetweenBps
		}
		p.Classes = append(p.Classes, c)
	}
	for _, j := range jobs {
		x := market.Job{Weight: max(1, float64(j.Spec().WeightMicro)), Iterations: float64(max(1, j.RoundsLeft())),
			Samples: float64(j.Spec().Tasks), Least: s.leastGPUs(l, j), Most: int(min(j.Width(), math.MaxInt32)),
			Rate: make([]float64, len(free))}
		for i := range j.Modes() { // the fastest first
			m := &j.Modes()[i]
			us := m.DurationUs
			if us == 0 {
				us = l.RoundUs(j)
			}
			if i == 0 {
				x.Bytes = s.ring.bytes(j.Spec(), m)
			}
			if x.Bytes > 0 && m.ComputeUs > 0 {
				us = m.ComputeUs
			}
			x.Rate[m.Type] = 1e6 / float64(max(1, us)) / float64(j.TaskGPUs())
		}
		p.Jobs = append(p.Jobs, x)
	}
	got, err := market.Sample(context.Background(), p, s.cfg.Market)
	if err != nil || len(jobs) == 0 {
		return nil
	}
	return got.Counts
}

// assign starts tasks on the GPUs that the placement gives their jobs, and then, as long as no job
// waits for GPUs that others still hold, on the GPUs that are left over.
func (s *sampling) assign(l *list.Scheduler) {
	l.ForgetReservations()
	if !l.AnyFree() {
		return
	}
	var placed, others []*list.JobState
	for _, j := range l.Active() {
		switch {
		case j.Ready() == 0:
		case shareOf(j) != nil:
			placed = append(placed, j)
		default:
			others = append(others, j)
		}
	}
	slices.SortFunc(placed, func(a, b *list.JobState) int { return cmp.Compare(shareOf(a).place, shareOf(b).place) })
	waits := false
	for _, j := range placed {
		l.OpenRound(j)
		switch {
		case j.Hold() == hare.Relaxed:
			s.startTasks(l, j, false)
		case j.Spec().Mix && s.sharesAreFree(l, j):
			l.TryStart(j)
		case !j.Spec().Mix:
			for _, m := range j.Modes() {
				if int64(shareOf(j).of(m.Type)) == j.Width() && l.CanUse(j, m, j.Spec().Tasks) {
					l.StartOn(j, m, j.Spec().Tasks)
					break
				}
			}
		}
		if j.Hold() != hare.Relaxed && j.Ready() > 0 && (l.Nodes() == nil || !l.HeldByQuota(j)) {
			waits = true
		}
	}
	idle := !slices.ContainsFunc(l.Active(), func(j *list.JobState) bool { return j.Running() > 0 || len(j.GPUs()) > 0 })
	if !idle && (waits || s.cfg.OnlyPlaced) {
		return
	}
	if !idle {
		for _, j := range placed {
			if j.Hold() == hare.Relaxed {
				s.startTasks(l, j, true)
			}
		}
	}
	for _, of := range [][]*list.JobState{placed, others} {
		if idle || len(of) > 0 && shareOf(of[0]) == nil {
			for _, j := range of {
				for j.Ready() > 0 && l.TryStart(j) {
				}
			}
		}
	}
}

// sharesAreFree reports whether a gang that mixes types finds the GPUs of its share free.
func (s *sampling) sharesAreFree(l *list.Scheduler, j *list.JobState) bool {
	for t, n := range shareOf(j).gpus {
		if len(l.Free()[t]) < n {
			return false
		}
	}
	return true
}

// startTasks starts tasks of a relaxed job on the GPUs of its share, the fastest types first, or
// with beyond set on other GPUs that are not slower than any of its share.
func (s *sampling) startTasks(l *list.Scheduler, j *list.JobState, beyond bool) {
	held := make([]int, len(l.Types()))
	for _, g := range j.GPUs() {
		held[l.Slots()[g].Type]++
	}
	n := j.TaskGPUs()
	slowest := -1
	for i, m := range j.Modes() {
		if shareOf(j).of(m.Type) > 0 {
			slowest = i
		}
	}
	faster := int64(0) // GPUs of the share of faster types, in tasks
	for i, m := range j.Modes() {
		if i > slowest && beyond {
			return
		}
		for j.Ready() > 0 && (beyond || held[m.Type]+n <= shareOf(j).of(m.Type)) && l.CanUse(j, m, 1) {
			// The faster GPUs are busy. They end all tasks that wait in so many turns more.
			if turns := (j.Ready() + faster - 1) / max(1, faster); faster > 0 &&
				m.DurationUs > 0 && m.DurationUs >= j.Modes()[i-1].DurationUs*(turns+1) {
				break
			}
			l.StartOn(j, m, 1)
			held[m.Type] += n
		}
		faster += int64(shareOf(j).of(m.Type) / n)
	}
}

// samplingSnapshot is the state of sampling. Shares are those of the jobs in the order of arrival,
// each with its place and then its GPUs by type; empty where a job has none.
type samplingSnapshot struct {
	Due    bool          `json:"due"`
	Shares [][]int       `json:"shares"`
	Ring   *samplingRing `json:"ring,omitempty"`
}

func (s *sampling) encode(l *list.Scheduler) any {
	out := samplingSnapshot{Due: s.due, Ring: s.ring}
	for _, j := range l.Active() {
		var share []int
		if shareOf(j) != nil {
			share = append([]int{shareOf(j).place}, shareOf(j).gpus...)
		}
		out.Shares = append(out.Shares, share)
	}
	return out
}

func (s *sampling) decode(l *list.Scheduler, state json.RawMessage) bool {
	var in samplingSnapshot
	if list.DecodeState(state, &in) != nil || len(in.Shares) != len(l.Active()) {
		return false
	}
	s.due, s.ring = in.Due, in.Ring
	if r := in.Ring; r != nil && !(r.InsideBps > 0 && r.BetweenBps > 0 && r.InsideBps <= math.MaxFloat64 &&
		r.BetweenBps <= math.MaxFloat64) {
		return false
	}
	seen := map[int]bool{}
	for i, share := range in.Shares {
		if len(share) == 0 {
			continue
		}
		if len(share)-1 > len(l.Types()) || seen[share[0]] || slices.Min(share) < 0 || slices.Max(share) > hare.MaxGPUs {
			return false
		}
		seen[share[0]] = true
		l.Active()[i].Own = &gpuShare{place: share[0], gpus: share[1:]}
	}
	return true
}
