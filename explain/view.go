package explain

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// laneView gives access to the lanes of a schedule that verify accepts.
type laneView struct {
	inst  *hare.Instance
	model *model.Model
	sched *hare.Schedule
	jobOf []int        // the job in the instance, by index in Schedule.Jobs
	lanes []*hare.Lane // by GPU of the model; nil where idle
	// lastHolds says, for entries of gangs that mix types, how long the last round
	// of the entry holds its GPU.
	lastHolds map[entryAt]int64
	// modes are the modes of a job by GPU type. Those of a job with shapes are in shapes, and in the views that
	// inShape returns.
	modes  []map[int]model.Mode
	shapes []map[int]*jobShape // by job, then by the position of the shape; nil for jobs without shapes
	ends   []int64             // by job
}

type entryAt struct{ gpu, entry int }

// jobShape is a job as it is if all its rounds have one shape.
type jobShape struct {
	job   model.Job
	modes map[int]model.Mode // by GPU type
	units int64              // the units that one round does
}

// jobEntry is an entry of a lane that belongs to the job at hand: round number n of the
// entry starts at start + n·period, and does so many units from round + n·units on. A round
// of a job without shapes is one unit.
type jobEntry struct {
	gpu, kind     int
	shape         int
	round, rounds int64
	units         int64
	start, period int64
	hold          int64 // how long each round holds the GPU
	end           int64 // end of the last task's synchronisation, from the start of a round
	entry         int
}

// endUnit returns the first unit after those of the entry.
func (p *jobEntry) endUnit() int64 { return p.round + p.rounds*p.units }

// withoutRunning returns an instance and its schedule with the work that runs at time 0 as
// entries of the schedule, which begin before 0, instead of running work.
func withoutRunning(inst *hare.Instance, sched *hare.Schedule) (*hare.Instance, *hare.Schedule) {
	if !slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return j.Running() }) {
		return inst, sched
	}
	m := model.New(inst)
	plain := *inst
	plain.Jobs = slices.Clone(inst.Jobs)
	out := &hare.Schedule{Jobs: slices.Clone(sched.Jobs)}
	listed := map[string]int32{}
	for i, id := range out.Jobs {
		listed[id] = int32(i)
	}
	held := map[string]hare.Lane{}
	for i := range plain.Jobs {
		j := &plain.Jobs[i]
		if !j.Running() {
			continue
		}
		p := *j.Progress
		j.Progress = nil
		if p.RoundsDone > 0 {
			j.Progress = &hare.Progress{RoundsDone: p.RoundsDone}
		}
		rounds, shape := int64(1), model.Shape{Counts: j.Shape(p.Shape).Counts}
		if j.Sync == hare.Rigid {
			rounds = shape.RoundsFor(j.Rounds - p.RoundsDone)
		}
		for _, gpu := range p.GPUs {
			held[gpu] = hare.Lane{GPU: gpu, Job: []int32{listed[j.ID]}, Round: []int64{p.RoundsDone},
				Rounds: []int64{rounds}, Tasks: []int64{1}, StartUs: []int64{-p.ElapsedUs},
				PeriodUs: []int64{(m.Jobs[i].RunsUntilUs + p.ElapsedUs) / rounds}, Shape: []int64{int64(p.Shape)}}
		}
	}
	for i := range sched.Lanes {
		l := &sched.Lanes[i]
		n, ok := held[l.GPU]
		if !ok {
			out.Lanes = append(out.Lanes, *l)
			continue
		}
		delete(held, l.GPU)
		for e := range l.Job {
			x := l.Entry(e)
			n.Job, n.Round, n.Rounds = append(n.Job, l.Job[e]), append(n.Round, x.Round), append(n.Rounds, x.Rounds)
			n.Tasks, n.PeriodUs = append(n.Tasks, x.Tasks), append(n.PeriodUs, x.PeriodUs)
			n.StartUs, n.Shape = append(n.StartUs, x.StartUs), append(n.Shape, x.Shape)
		}
		out.Lanes = append(out.Lanes, n)
	}
	for i := range m.GPUs {
		if n, ok := held[m.GPUs[i].ID]; ok {
			out.Lanes = append(out.Lanes, n)
		}
	}
	return &plain, out
}

func newLaneView(inst *hare.Instance, sched *hare.Schedule) *laneView {
	v := &laneView{inst: inst, model: model.New(inst), sched: sched, jobOf: make([]int, len(sched.Jobs)),
		lastHolds: map[entryAt]int64{}}
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
	v.modes = make([]map[int]model.Mode, len(v.model.Jobs))
	v.shapes = make([]map[int]*jobShape, len(v.model.Jobs))
	for i := range v.model.Jobs {
		j := &v.model.Jobs[i]
		v.modes[i] = modesByType(j.Modes)
		if j.Shapes != nil {
			v.shapes[i] = make(map[int]*jobShape, len(j.Shapes))
		}
		for x := range j.Shapes {
			s := &j.Shapes[x]
			v.shapes[i][s.Index] = &jobShape{j.InShape(x), modesByType(s.Modes), s.Counts}
		}
	}
	v.findLastHolds()
	return v
}

func modesByType(modes []model.Mode) map[int]model.Mode {
	by := make(map[int]model.Mode, len(modes))
	for _, md := range modes {
		by[md.Type] = md
	}
	return by
}

// mode returns the mode of a job on a type, in the shape at a position.
func (v *laneView) mode(job, shape, kind int) model.Mode {
	if s := v.shapes[job]; s != nil {
		return s[shape].modes[kind]
	}
	return v.modes[job][kind]
}

// jobIn returns a job as it is if all its rounds have the shape at a position.
func (v *laneView) jobIn(job, shape int) *model.Job {
	if s := v.shapes[job]; s != nil {
		return &s[shape].job
	}
	return &v.model.Jobs[job]
}

// unitsOf returns how many units a round of a job does in a shape.
func (v *laneView) unitsOf(job, shape int) int64 {
	if s := v.shapes[job]; s != nil {
		return s[shape].units
	}
	return 1
}

// inShape returns the view in which all rounds of one job have the shape at a position. Its lanes are
// those of v: the entries of the job keep their shapes.
func (v *laneView) inShape(job, shape int) *laneView {
	s, ok := v.shapes[job][shape]
	if !ok {
		return v
	}
	one, model := *v, *v.model
	model.Jobs = slices.Clone(model.Jobs)
	model.Jobs[job] = s.job
	one.model, one.modes = &model, slices.Clone(v.modes)
	one.modes[job] = s.modes
	one.inst = withJobs(v.inst, slices.Clone(v.inst.Jobs)...)
	j := &one.inst.Jobs[job]
	in := j.Shape(shape)
	j.Shapes, j.Tasks, j.GPUsPerTask, j.On = nil, in.Tasks, in.GPUsPerTask, in.On
	return &one
}

// findLastHolds fills in lastHolds: a gang that mixes types holds its GPUs until
// the slowest task of the round has synchronised, and a round lasts as long as its spread says.
func (v *laneView) findLastHolds() {
	of := map[int][]jobEntry{}
	for g, l := range v.lanes {
		if l == nil {
			continue
		}
		for e := range l.Job {
			if job := v.jobOf[l.Job[e]]; v.model.Jobs[job].Mix || v.spreads(job) {
				of[job] = append(of[job], v.entry(job, g, e))
			}
		}
	}
	for job, ps := range of {
		eachRun(ps, func(round, rounds int64, active []*jobEntry) {
			v.holdBySpread(job, active)
			most := int64(0)
			for _, p := range active {
				most = max(most, p.hold)
			}
			for _, p := range active {
				if p.endUnit() == round+rounds*p.units {
					v.lastHolds[entryAt{p.gpu, p.entry}] = most
				}
			}
		})
	}
}

// entry returns entry e of GPU g, which belongs to job.
func (v *laneView) entry(job, g, e int) jobEntry {
	x := v.lanes[g].Entry(e)
	kind := v.model.GPUs[g].Type
	md := v.mode(job, int(x.Shape), kind)
	p := jobEntry{gpu: g, kind: kind, shape: int(x.Shape), units: v.unitsOf(job, int(x.Shape)), round: x.Round,
		rounds: x.Rounds, start: x.StartUs, period: x.PeriodUs, entry: e}
	if p.hold, p.end = md.DurationUs(), md.DurationUs(); v.model.Jobs[job].Sync == hare.Relaxed {
		p.hold = x.Tasks * md.ComputeUs
		p.end = p.hold + md.SyncUs
	}
	return p
}

// until returns when entry e of GPU g releases the GPU.
func (v *laneView) until(g, e int) int64 {
	l := v.lanes[g]
	x := l.Entry(e)
	hold, long := v.lastHolds[entryAt{g, e}]
	if !long {
		job := v.jobOf[l.Job[e]]
		md := v.mode(job, int(x.Shape), v.model.GPUs[g].Type)
		if hold = md.DurationUs(); v.model.Jobs[job].Sync == hare.Relaxed {
			hold = x.Tasks * md.ComputeUs
		}
	}
	return x.StartUs + (x.Rounds-1)*x.PeriodUs + hold
}

// switchOf returns for how long GPU g is set up for entry e, if it did something else before.
func (v *laneView) switchOf(g, e int) int64 {
	x := v.lanes[g].Entry(e)
	return v.mode(v.jobOf[x.Job], int(x.Shape), v.model.GPUs[g].Type).SwitchUs
}

// taken returns when entry e of GPU g takes the GPU: where its setup begins, if it has one. What
// runs at time 0 has none.
func (v *laneView) taken(g, e int) int64 {
	l := v.lanes[g]
	start := l.StartUs[e]
	if e > 0 && l.Job[e-1] == l.Job[e] {
		return start
	}
	if us := v.switchOf(g, e); us <= start {
		return start - us
	}
	return start
}

// first returns the first entry of GPU g that ends after t.
func (v *laneView) first(g int, t int64) int {
	l := v.lanes[g]
	if l == nil {
		return 0
	}
	return sort.Search(len(l.Job), func(e int) bool { return v.until(g, e) > t })
}

// eachRun calls f for each run of consecutive rounds with the same entries, in
// order: with its first unit, and the number of its rounds.
func eachRun(ps []jobEntry, f func(round, rounds int64, active []*jobEntry)) {
	slices.SortStableFunc(ps, func(a, b jobEntry) int { return cmp.Compare(a.round, b.round) })
	var at []int64
	for i := range ps {
		at = append(at, ps[i].round, ps[i].endUnit())
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var active []*jobEntry
	next := 0
	for i := range len(at) - 1 {
		active = slices.DeleteFunc(active, func(p *jobEntry) bool { return p.endUnit() <= at[i] })
		for ; next < len(ps) && ps[next].round == at[i]; next++ {
			active = append(active, &ps[next])
		}
		if len(active) > 0 {
			f(at[i], (at[i+1]-at[i])/active[0].units, active)
		}
	}
}

// roundRun is a run of consecutive rounds of a job with the same entries.
type roundRun struct {
	round, rounds int64
	start, end    int64 // start of the first round's first task; end of the last round
	paused        int64 // time between rounds of the run, in all
	entries       []jobEntry
	gpus          map[int]int64 // GPUs by type
	shape         int           // the position of the shape in which the rounds run
	spread        int           // the level over which the rounds are spread, where times go by spread
}

// runsOf returns the runs of a job, in order. runsOf is O(n + m) for n entries of
// the schedule and m entries of all runs.
func (v *laneView) runsOf(job int) []roundRun {
	var ps []jobEntry
	for g, l := range v.lanes {
		if l == nil {
			continue
		}
		for e := range l.Job {
			if v.jobOf[l.Job[e]] == job {
				ps = append(ps, v.entry(job, g, e))
			}
		}
	}
	var runs []roundRun
	eachRun(ps, func(round, rounds int64, active []*jobEntry) {
		spread := v.holdBySpread(job, active)
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
				s := p.start + ((round-p.round)/p.units+n)*p.period
				start, end = min(start, s), max(end, s+p.end)
			}
			return start, end
		}
		x := roundRun{round: round, rounds: rounds, shape: active[0].shape, spread: spread, gpus: map[int]int64{}}
		var ended, last int64
		x.start, ended = times(0)
		last, x.end = times(rounds - 1)
		if rounds > 1 {
			// The pauses change linearly from the first to the last where all entries
			// have one period.
			second, _ := times(1)
			_, before := times(rounds - 2)
			x.paused = max(0, second-ended+last-before) * (rounds - 1) / 2
		}
		seen := map[int]bool{}
		for _, p := range active {
			x.entries = append(x.entries, *p)
			if !seen[p.gpu] {
				seen[p.gpu] = true
				x.gpus[p.kind]++
			}
		}
		runs = append(runs, x)
	})
	return runs
}

// spreads reports whether rounds of a job take longer where they are spread.
func (v *laneView) spreads(job int) bool {
	j := &v.model.Jobs[job]
	some := func(modes []model.Mode) bool {
		return slices.ContainsFunc(modes, func(md model.Mode) bool { return md.SyncByLevel != nil })
	}
	return j.Sync != hare.Relaxed &&
		(some(j.Modes) || slices.ContainsFunc(j.Shapes, func(s model.Shape) bool { return some(s.Modes) }))
}

// holdBySpread lets the entries of a round last as long as its spread says, and returns the spread.
func (v *laneView) holdBySpread(job int, active []*jobEntry) (level int) {
	if !v.spreads(job) {
		return 0
	}
	for _, p := range active {
		level = v.model.Levels.Join(level, v.model.GPUs[active[0].gpu].Node, v.model.GPUs[p.gpu].Node)
	}
	for _, p := range active {
		md := v.mode(job, p.shape, p.kind)
		p.hold = md.ComputeUs + md.SyncAtUs(level)
		p.end = p.hold
	}
	return level
}

// leastRound returns how long a round of a job takes on a type where it is spread as little as the empty
// cluster allows.
func (v *laneView) leastRound(job, shape, kind int) int64 {
	j, md := v.jobIn(job, shape), v.mode(job, shape, kind)
	for _, level := range j.LevelModes(md) {
		if v.model.LevelRoom(j, []int{kind}, level) >= j.Tasks {
			return md.ComputeUs + md.SyncAtUs(level)
		}
	}
	return md.ComputeUs + md.SyncAtUs(0)
}

// needAt returns for how long a round of a job, or a whole rigid job, needs GPUs of a type within a level.
func (v *laneView) needAt(job, kind, level int) int64 {
	md := v.modes[job][kind]
	need := md.ComputeUs + md.SyncAtUs(min(level, v.model.Jobs[job].Within))
	if v.model.Jobs[job].Sync == hare.Rigid {
		need *= v.model.Jobs[job].Rounds
	}
	return need
}

// byLevels reports whether levels matter to where a job may start.
func (v *laneView) byLevels(job int) bool {
	return v.model.Levels != nil && v.model.Jobs[job].Sync != hare.Relaxed &&
		(v.spreads(job) || v.model.Jobs[job].Within < v.model.Levels.Any())
}
