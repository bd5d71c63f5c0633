package elastic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare/sim/elastic/goodput"
)

// PolluxConfig tunes Pollux. The zero value is the setting of Pollux's simulator.
type PolluxConfig struct {
	// Power is the exponent p of the mean of speedups that the search maximises: the more
	// negative, the fairer; 1 is the sum, and FairGeometric (0 cannot be told from unset) the
	// geometric mean. Zero means −1.
	Power float64
	// RestartS is what a restart is taken to cost a job, in seconds; zero means 30, negative
	// nothing.
	RestartS float64
	// Crowded lets several jobs that span nodes share a node, where they may disturb each other.
	Crowded bool
	// KeepBatch keeps the batch of each job as it was submitted: Pollux without co-adaptation.
	KeepBatch bool
	// MaxGPUs and MaxNodes bound the placement of a job; zero means 64 and 16, which is as far as
	// was measured.
	MaxGPUs, MaxNodes int
	// Population and Generations are the size of the genetic search; zero means 100 each.
	Population, Generations int
}

// FairGeometric is the Power of the geometric mean.
const FairGeometric = 1e-9

func (pc *PolluxConfig) validate() error {
	set := func(v *int, zero int) {
		if *v == 0 {
			*v = zero
		}
	}
	set(&pc.MaxGPUs, 64)
	set(&pc.MaxNodes, 16)
	set(&pc.Population, 100)
	set(&pc.Generations, 100)
	if pc.Power == 0 {
		pc.Power = -1
	}
	if pc.RestartS == 0 {
		pc.RestartS = 30
	}
	pc.RestartS = math.Max(0, pc.RestartS)
	switch {
	case !(math.Abs(pc.Power) <= 100):
		return errors.New("elastic: the power of Pollux's mean must be from −100 to 100")
	case !(pc.RestartS <= 1e9):
		return errors.New("elastic: a restart costs at most 1e9 s")
	case min(pc.MaxGPUs, pc.MaxNodes) < 1 || max(pc.MaxGPUs, pc.MaxNodes) > 1<<12:
		return errors.New("elastic: a job of Pollux has from 1 to 4096 GPUs and nodes")
	case pc.Population < 2 || pc.Population > 1e4 || pc.Generations < 1 || pc.Generations > 1e6:
		return errors.New("elastic: Pollux's search needs from 2 to 10,000 states and from 1 to 1,000,000 generations")
	}
	return nil
}

// Pollux gives jobs GPUs and batches so that their goodput, the product of throughput and
// statistical efficiency, grows. It knows neither sizes nor speeds: each job's model of
// throughput is fitted to the steps that the job has measured, and its efficiency follows from
// the noise of its last gradients.
//
// In each interval a genetic search looks for the allocation with the greatest power mean of
// the jobs' speedups. A speedup is the goodput over that of an equal share of the GPUs. A job
// whose GPUs change counts max(0, age − restarts · RestartS) / (age + RestartS) of its speedup.
// A job gets at most twice the GPUs that it has measured, and one at first. Jobs that span nodes
// share none, so that they do not disturb each other. At each epoch and interval a job takes the
// batch with the greatest goodput on its GPUs, also by accumulating gradients over passes.
//
// Source: Pollux (OSDI 2021), sections 3 and 4, and its simulator (petuum/adaptdl, branch
// osdi21-artifact, commit c793c70) [V]. What the simulator does otherwise than the paper is
// kept: speedups are over an equal share of GPUs as if on one node; the search also keeps
// allocations with much speedup a GPU; jobs with little attained service come first where
// GPUs or nodes are short. Random numbers are others, so that runs agree in the mean only.
type Pollux struct {
	cfg    PolluxConfig
	rng    *rand.Rand
	jobs   map[int]*polluxJob // by number
	search search
	states [][]numberedCell // the last population
}

// polluxJob is what Pollux has learned of a job.
type polluxJob struct {
	steps   []goodput.Step
	model   goodput.Model
	maxGPUs int  // the most GPUs that were measured
	stale   bool // the steps were measured after the fit
	seen    bool // present in this interval
}

var _ BatchPolicy = (*Pollux)(nil)

// NewPollux makes the policy. The same seed gives the same decisions.
func NewPollux(cfg PolluxConfig, seed uint64) (*Pollux, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Pollux{cfg: cfg, rng: rand.New(rand.NewPCG(seed, polluxStream)), jobs: map[int]*polluxJob{}}, nil
}

// polluxStream keeps Pollux's random numbers apart from others of the same seed.
const polluxStream = 0x706f6c6c7578

// Observe keeps a configuration that was not measured before.
func (po *Pollux) Observe(job *Job, number int, seen TrainingStep) error {
	j := po.job(job, number)
	j.model.Noise = goodput.Noise{Sqr: seen.Sqr, Variance: seen.Variance}
	for i := range j.steps {
		if s := &j.steps[i]; s.Nodes == seen.Nodes && s.GPUs == seen.GPUs && s.Local == seen.Local {
			return nil
		}
	}
	j.steps = append(j.steps, goodput.Step{Nodes: seen.Nodes, GPUs: seen.GPUs, Local: seen.Local, StepS: seen.StepS,
		SyncS: seen.SyncS})
	j.maxGPUs, j.stale = max(j.maxGPUs, seen.GPUs), true
	return nil
}

func (po *Pollux) job(job *Job, number int) *polluxJob {
	j := po.jobs[number]
	if j == nil {
		l := job.Limits
		j = &polluxJob{model: goodput.Model{Limits: goodput.Limits{Init: l.Init, Max: l.Max, MinLocal: max(1, l.MinLocal),
			MaxLocal: l.MaxLocal}}}
		po.jobs[number] = j
	}
	return j
}

// fitted returns the model of a job that has measured steps.
func (j *polluxJob) fitted() (*goodput.Model, error) {
	if j.stale {
		params, err := goodput.Fit(j.steps)
		if err != nil {
			return nil, err
		}
		j.model.Params, j.stale = params, false
	}
	return &j.model, nil
}

// Split returns the best batch on the GPUs. A job that has measured nothing has its initial
// batch, and one pass.
func (po *Pollux) Split(job *Job, number int, placement []int) (local, passes int) {
	gpus := 0
	for _, g := range placement {
		gpus += g
	}
	if po.cfg.KeepBatch {
		return job.Split(gpus)
	}
	j := po.job(job, number)
	limits := &j.model.Limits
	if len(j.steps) > 0 {
		// Steps were checked when they were measured, so that the fit has no error.
		if model, err := j.fitted(); err == nil {
			if _, local, passes = model.Best(len(placement), gpus); local > 0 {
				return limits.Cap(gpus, local, passes), passes
			}
		}
	}
	first := *job
	first.Batch = max(limits.Init, limits.MinLocal*gpus)
	return first.Split(gpus)
}

// Allocate is O(Generations · Population · (jobs + GPUs)), and fits the models of jobs that
// have measured new configurations.
func (po *Pollux) Allocate(ctx context.Context, s *State) ([][]NodeGPUs, error) {
	for i := range s.Jobs {
		po.job(s.Jobs[i].Job, s.Jobs[i].Number).seen = true
	}
	for number, j := range po.jobs {
		if !j.seen {
			delete(po.jobs, number)
		}
		j.seen = false
	}
	// Where GPUs are short, jobs with the least attained service come first.
	order := make([]int, len(s.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Jobs[a].AttainedS, s.Jobs[b].AttainedS) })
	if err := po.prepare(s, order); err != nil {
		return nil, err
	}
	best, err := po.search.run(ctx, po.rng, po.adapted(s, order))
	if err != nil {
		return nil, err
	}
	all := make([][]NodeGPUs, len(s.Jobs))
	for _, c := range best.cells {
		i := order[c.job]
		all[i] = append(all[i], NodeGPUs{Node: int(c.node), GPUs: int(c.gpus)})
	}
	po.keep(s, order)
	return all, nil
}

// prepare sets up the search for the jobs in the given order.
func (po *Pollux) prepare(s *State, order []int) error {
	total := 0
	for _, n := range s.Nodes {
		total += n
	}
	if len(s.Jobs) > math.MaxUint16 || len(s.Nodes) > math.MaxUint16 || slices.Max(s.Nodes) > math.MaxUint16 {
		return fmt.Errorf("elastic: Pollux's search has at most %d jobs, nodes and GPUs of a node", math.MaxUint16)
	}
	share := (total + len(s.Jobs) - 1) / len(s.Jobs)
	se := &po.search
	se.cfg, se.nodes = po.cfg, s.Nodes
	se.scale = float64(len(s.Nodes)) / float64(total)
	se.jobs = slices.Grow(se.jobs[:0], len(order))[:len(order)]
	for k, i := range order {
		view := &s.Jobs[i]
		j := po.job(view.Job, view.Number)
		sj := &se.jobs[k]
		speeds := sj.speeds[:0]
		*sj = searchJob{factor: math.Max(0, s.NowS-view.ArrivalS-float64(view.Restarts)*po.cfg.RestartS) /
			(s.NowS - view.ArrivalS + po.cfg.RestartS)}
		limits := &j.model.Limits
		most := max(1, limits.Max/limits.MinLocal)
		if view.FixedBatch || po.cfg.KeepBatch {
			most = view.MaxGPUs
		}
		sj.maxGPUs = min(max(1, 2*j.maxGPUs), po.cfg.MaxGPUs, most, total)
		sj.maxNodes = min(sj.maxGPUs, po.cfg.MaxNodes, len(s.Nodes))
		sj.unit = 1 / float64(share)
		if len(j.steps) > 0 {
			model, err := j.fitted()
			if err != nil {
				return fmt.Errorf("job %.60q: %w", view.ID, err)
			}
			sj.speed = func(nodes, gpus int) float64 {
				g, _, _ := model.Best(nodes, gpus)
				return g
			}
			if po.cfg.KeepBatch {
				sj.speed = keptBatch(model, view.Job)
			}
			if base := sj.speed(1, min(share, most)); base > 0 {
				sj.unit = 1 / base
			}
		}
		sj.speeds = slices.Grow(speeds, (sj.maxNodes+1)*(sj.maxGPUs+1))[:(sj.maxNodes+1)*(sj.maxGPUs+1)]
		for c := range sj.speeds {
			sj.speeds[c] = -1
		}
		sj.base = sj.base[:0]
		for _, h := range view.Held {
			sj.base = append(sj.base, cell{uint16(k), uint16(h.Node), uint16(h.GPUs)})
		}
	}
	return nil
}

// keptBatch is the goodput of a job at the batch with which it was submitted.
func keptBatch(model *goodput.Model, job *Job) func(nodes, gpus int) float64 {
	return func(nodes, gpus int) float64 {
		local, passes := job.Split(gpus)
		return model.Goodput(nodes, gpus, local, passes)
	}
}

// numberedCell is a cell whose job is named by its number, so that it lasts.
type numberedCell struct {
	number     int
	node, gpus uint16
}

// adapted is the last population with the jobs that are still there, in their new order, or
// the current allocation where there is none.
func (po *Pollux) adapted(s *State, order []int) [][]cell {
	if len(po.states) == 0 {
		var base []cell
		for k := range po.search.jobs {
			base = append(base, po.search.jobs[k].base...)
		}
		return [][]cell{base}
	}
	at := map[int]int{}
	for k, i := range order {
		at[s.Jobs[i].Number] = k
	}
	states := make([][]cell, len(po.states))
	for i, old := range po.states {
		for _, c := range old {
			if k, ok := at[c.number]; ok && int(c.node) < len(s.Nodes) {
				states[i] = append(states[i], cell{uint16(k), c.node, c.gpus})
			}
		}
		slices.SortStableFunc(states[i], func(a, b cell) int { return int(a.job) - int(b.job) })
	}
	return states
}

// keep remembers the population.
func (po *Pollux) keep(s *State, order []int) {
	po.states = po.states[:0]
	for _, st := range po.search.population {
		kept := make([]numberedCell, len(st.cells))
		for i, c := range st.cells {
			kept[i] = numberedCell{s.Jobs[order[c.job]].Number, c.node, c.gpus}
		}
		po.states = append(po.states, kept)
	}
}
