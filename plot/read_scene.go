package plot

import (
	"fmt"
	"slices"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// newScene checks that res fits inst well enough to be drawn. Whether the schedule is
// feasible is for package verify to decide.
func newScene(inst *hare.Instance, res *hare.Result, title string) (*scene, error) {
	if inst == nil || res == nil || res.Schedule == nil {
		return nil, ErrNoSchedule
	}
	m := model.New(inst)
	s := &scene{inst: inst, res: res, title: title, types: m.Types, endUs: 1, jobs: make([]jobTimes, len(inst.Jobs)),
		levels: hare.NewLevels(&inst.Cluster)}
	if s.title == "" {
		s.title = inst.Name
	}
	if s.title == "" {
		s.title = "Schedule"
	}
	var racks [][]string // of the nodes, where nodes matter
	if m.Placed {
		racks = racksOf(&inst.Cluster)
	}
	laneOf := make(map[string]int, len(m.GPUs))
	s.lanes = make([]lane, len(m.GPUs))
	for at, i := range gpuOrder(m, racks) {
		g := m.GPUs[i]
		s.lanes[at] = lane{gpu: g.ID, typ: g.Type, node: g.Node, away: outOfService(m.Classes[g.Class].Windows)}
		laneOf[g.ID] = at
		if m.Placed {
			s.addNode(at, inst.Cluster.Nodes[g.Node].Name, racks[g.Node])
		}
	}
	jobOf, err := jobIndex(inst, res.Schedule.Jobs)
	if err != nil {
		return nil, err
	}
	for i := range res.Schedule.Lanes {
		l := &res.Schedule.Lanes[i]
		at, ok := laneOf[l.GPU]
		if !ok {
			return nil, fmt.Errorf("plot: lane %d: the cluster has no GPU %q: is it the result of another instance?", i, l.GPU)
		}
		if s.lanes[at].spans != nil {
			return nil, fmt.Errorf("plot: GPU %q has two lanes", l.GPU)
		}
		if err := s.fill(&s.lanes[at], l, jobOf); err != nil {
			return nil, err
		}
	}
	s.addRunning(m, laneOf)
	s.setHolds()
	s.keepSetups()
	for i := range s.lanes {
		for _, sp := range s.lanes[i].spans {
			j := &s.jobs[sp.job]
			if !j.seen || sp.startUs < j.startUs {
				j.startUs = sp.startUs
			}
			if !j.seen || sp.spread > j.spread {
				j.spread = sp.spread
			}
			if at, found := slices.BinarySearch(j.shapes, sp.shape); !found {
				j.shapes = slices.Insert(j.shapes, at, sp.shape)
			}
			j.seen = true
			done := sp.lastUs
			if inst.Jobs[sp.job].Sync == hare.Relaxed {
				done += sp.syncUs
			}
			j.endUs = max(j.endUs, done)
			s.endUs = max(s.endUs, done)
		}
	}
	s.addReservations()
	return s, nil
}

// addRunning puts the work that runs at time 0 on its GPUs, each as one span.
func (s *scene) addRunning(m *model.Model, laneOf map[string]int) {
	for i := range m.Jobs {
		j := &m.Jobs[i]
		for _, g := range j.RunsOn {
			l := &s.lanes[laneOf[m.GPUs[g].ID]]
			p := s.inst.Jobs[i].Progress
			sp := span{job: int32(i), round: p.RoundsDone, rounds: 1, tasks: 1, holdUs: j.RunsUntilUs,
				lastUs: j.RunsUntilUs, gang: true, shape: int32(p.Shape), counts: s.inst.Jobs[i].Shape(p.Shape).Counts,
				spread: noSpread, running: true}
			l.spans = slices.Insert(l.spans, 0, sp)
			if len(l.away) > 0 && l.away[0] == (hare.Window{EndUs: j.RunsUntilUs}) {
				l.away = l.away[1:] // the GPU is in service while it runs this work
			}
		}
	}
}

// keepSetups keeps the setups of spans before which the GPU does something else. A setup lies at or
// after time 0 in every feasible schedule; of others, the part before time 0 is cut off.
func (s *scene) keepSetups() {
	for i := range s.lanes {
		before := int32(-1)
		for k := range s.lanes[i].spans {
			sp := &s.lanes[i].spans[k]
			if sp.job == before {
				sp.setupUs = 0
			}
			sp.setupUs = min(sp.setupUs, sp.startUs)
			before = sp.job
		}
	}
}

// jobIndex maps the schedule's numbering of jobs to the instance's.
func jobIndex(inst *hare.Instance, ids []string) ([]int32, error) {
	at := make(map[string]int32, len(inst.Jobs))
	for i := range inst.Jobs {
		at[inst.Jobs[i].ID] = int32(i)
	}
	out := make([]int32, len(ids))
	for i, id := range ids {
		j, ok := at[id]
		if !ok {
			return nil, fmt.Errorf("plot: the instance has no job %q: is it the result of another instance?", id)
		}
		out[i] = j
	}
	return out, nil
}

// fill turns a lane's columns into spans.
func (s *scene) fill(to *lane, l *hare.Lane, jobOf []int32) error {
	n := len(l.Job)
	for _, column := range [][]int64{l.Round, l.Rounds, l.Tasks, l.PeriodUs, l.Shape} {
		if column != nil && len(column) != n {
			return fmt.Errorf("plot: GPU %q: columns of different lengths", l.GPU)
		}
	}
	if len(l.StartUs) != n {
		return fmt.Errorf("plot: GPU %q: columns of different lengths", l.GPU)
	}
	to.spans = make([]span, 0, n)
	for i := range n {
		e := l.Entry(i)
		if e.Job < 0 || int(e.Job) >= len(jobOf) {
			return fmt.Errorf("plot: GPU %q, entry %d: no job %d", l.GPU, i, e.Job)
		}
		for _, v := range []int64{e.Rounds, e.Tasks} {
			if v < 1 || v > hare.MaxExact {
				return fmt.Errorf("plot: GPU %q, entry %d: a count is %d", l.GPU, i, v)
			}
		}
		for _, v := range []int64{e.StartUs, e.PeriodUs, e.Round} {
			if v < 0 || v > hare.MaxExact {
				return fmt.Errorf("plot: GPU %q, entry %d: a number is %d", l.GPU, i, v)
			}
		}
		job := &s.inst.Jobs[jobOf[e.Job]]
		if e.Shape < 0 || e.Shape >= int64(job.ShapeCount()) {
			return fmt.Errorf("plot: GPU %q, entry %d: job %q has no shape %d", l.GPU, i, job.ID, e.Shape)
		}
		shape := job.Shape(int(e.Shape))
		p, ok := profile(shape.On, s.types[to.typ])
		if !ok {
			return fmt.Errorf("plot: GPU %q, entry %d: job %q has no profile for %s", l.GPU, i, job.ID, s.types[to.typ])
		}
		sp := span{job: jobOf[e.Job], round: e.Round, rounds: e.Rounds, tasks: e.Tasks, startUs: e.StartUs,
			periodUs: e.PeriodUs, syncUs: p.SyncUs, gang: job.Sync != hare.Relaxed, setupUs: p.SwitchUs,
			shape: int32(e.Shape), counts: shape.Counts, spread: noSpread}
		if job.Sync == hare.Relaxed {
			if p.ComputeUs > hare.MaxExact/e.Tasks {
				return fmt.Errorf("plot: GPU %q, entry %d: runs too long", l.GPU, i)
			}
			sp.holdUs = p.ComputeUs * e.Tasks
		} else {
			sp.holdUs = p.DurationUs()
		}
		if e.Rounds > 1 && e.PeriodUs > hare.MaxExact/(e.Rounds-1) {
			return fmt.Errorf("plot: GPU %q, entry %d: runs too long", l.GPU, i)
		}
		sp.lastUs = sp.startUs + (e.Rounds-1)*e.PeriodUs + sp.holdUs
		to.spans = append(to.spans, sp)
	}
	slices.SortStableFunc(to.spans, func(a, b span) int {
		switch {
		case a.startUs < b.startUs:
			return -1
		case a.startUs > b.startUs:
			return 1
		}
		return 0
	})
	return nil
}

// outOfService returns the times outside the windows, up to Forever.
func outOfService(windows []hare.Window) []hare.Window {
	var out []hare.Window
	var from int64
	for _, w := range windows {
		if w.StartUs > from {
			out = append(out, hare.Window{StartUs: from, EndUs: w.StartUs})
		}
		from = w.EndUs
	}
	if from != hare.Forever {
		out = append(out, hare.Window{StartUs: from, EndUs: hare.Forever})
	}
	return out
}
