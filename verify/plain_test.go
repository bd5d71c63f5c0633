package verify_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
)

// plainTask is one task of an expanded schedule.
type plainTask struct {
	gpu, kind   string
	entry       int // the index of the entry in the GPU's lane
	job         int
	round       int64 // the first unit
	start, p, d int64
	on          hare.Profile
	shape       hare.Shape
	shapeIndex  int64
	setupUs     int64 // before the start of the entry
}

// plainCheck implements the text of docs/inside/design.md, sections 1 and 6, docs/reference/model.md, task by task. It
// expands every round and compares every pair of tasks, so it is only fit for tiny schedules. It returns the first
// condition that fails, or "" and the objective in 1e-12.
func plainCheck(inst *hare.Instance, s *hare.Schedule) (string, hare.Amount) {
	var value hare.Amount
	run := naiveRunning(inst, nodeReading{})
	kinds, open := map[string]string{}, map[string][]hare.Window{}
	for _, n := range inst.Cluster.Nodes {
		number := 0
		for _, g := range n.GPUs {
			for range g.Count {
				name := fmt.Sprintf("%s/%d", n.Name, number)
				kinds[name] = g.Type
				windows := n.Windows
				if windows == nil {
					windows = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
				}
				for _, w := range windows {
					for _, b := range n.Busy {
						if b.GPU == number {
							w.StartUs = max(w.StartUs, b.UntilUs)
						}
					}
					for i := range inst.Jobs {
						if inst.Jobs[i].Running() && slices.Contains(inst.Jobs[i].Progress.GPUs, name) {
							w.StartUs = max(w.StartUs, run.until[i])
						}
					}
					if w.StartUs < w.EndUs {
						open[name] = append(open[name], w)
					}
				}
				number++
			}
		}
	}
	var ids []string
	for i := range inst.Jobs {
		ids = append(ids, inst.Jobs[i].ID)
	}
	if listed := slices.Sorted(slices.Values(s.Jobs)); !slices.Equal(listed, slices.Sorted(slices.Values(ids))) {
		return "jobs", value
	}
	var tasks []plainTask
	type span struct{ from, to int64 }
	spans := map[string][]span{}
	spanOf := func(t plainTask) (from, to int64) { return spans[t.gpu][t.entry].from, spans[t.gpu][t.entry].to }
	lanes := map[string]bool{}
	for x := range s.Lanes {
		l := &s.Lanes[x]
		kind, ok := kinds[l.GPU]
		if !ok || lanes[l.GPU] {
			return "gpu", value
		}
		lanes[l.GPU] = true
		before := int64(-1)
		for y := range l.Job {
			e := l.Entry(y)
			if e.Job < 0 || int(e.Job) >= len(s.Jobs) || e.Round < 0 || e.Rounds < 1 || e.Tasks < 1 ||
				e.PeriodUs < 0 ||
				e.StartUs < 0 {
				return "range", value
			}
			job := slices.Index(ids, s.Jobs[e.Job])
			j := &inst.Jobs[job]
			if e.Shape < 0 || e.Shape >= int64(j.ShapeCount()) {
				return "shape", value
			}
			shape := j.Shape(int(e.Shape))
			at := slices.IndexFunc(shape.On, func(p hare.Profile) bool { return p.Type == kind })
			if at < 0 {
				return "profile", value
			}
			on := shape.On[at]
			if e.Round < run.first[job] || e.Round+(e.Rounds-1)*shape.Counts >= j.Rounds {
				return "rounds", value
			}
			setupUs := on.SwitchUs
			if y > 0 && l.Job[y-1] == l.Job[y] || y == 0 && j.Running() && slices.Contains(j.Progress.GPUs, l.GPU) {
				setupUs = 0
			}
			for r := range e.Rounds {
				for n := range e.Tasks {
					tasks = append(tasks, plainTask{gpu: l.GPU, kind: kind, entry: y, job: job,
						round: e.Round + r*shape.Counts, start: e.StartUs + r*e.PeriodUs + n*on.ComputeUs, p: on.ComputeUs,
						on: on, shape: shape, shapeIndex: e.Shape, setupUs: setupUs})
				}
			}
			if e.StartUs < before {
				return "order of a lane", value
			}
			before = e.StartUs
			spans[l.GPU] = append(spans[l.GPU], span{e.StartUs, 0})
		}
	}
	// These loops gather the spread, the start, the end, the shape and the number of tasks of each round.
	type key struct {
		job   int
		round int64
	}
	nodes := map[key][]int{}
	for _, t := range tasks {
		nodes[key{t.job, t.round}] = append(nodes[key{t.job, t.round}], slices.IndexFunc(inst.Cluster.Nodes,
			func(n hare.Node) bool { return strings.HasPrefix(t.gpu, n.Name+"/") }))
	}
	ends, first, count, shapes := map[key]int64{}, map[key]int64{}, map[key]int64{}, map[key]int64{}
	for x := range tasks {
		t := &tasks[x]
		k := key{t.job, t.round}
		spread := brute.Reading{}.Spread(inst, nodes[k])
		if !brute.Within(inst, &inst.Jobs[t.job], spread) {
			return "within", value
		}
		t.d = t.p + brute.SyncUs(inst, t.on, spread)
		if count[k]++; count[k] == 1 {
			first[k], shapes[k] = t.start, t.shapeIndex
		}
		if shapes[k] != t.shapeIndex {
			return "shapes of a round", value
		}
		ends[k], first[k] = max(ends[k], t.start+t.d), min(first[k], t.start)
		if t.start < run.until[t.job] || spans[t.gpu][t.entry].from-t.setupUs < inst.Jobs[t.job].ReleaseUs {
			return "release", value
		}
	}
	done := map[string]int64{}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		next, end, shape := run.first[i], int64(0), int64(-1) // the unit, and the round before
		if j.Running() {
			end, shape = run.until[i], int64(j.Progress.Shape)
		}
		done[j.ID] = run.until[i]
		for began := false; next < j.Rounds; began = true {
			k := key{i, next}
			s := j.Shape(int(shapes[k]))
			if count[k] != s.Tasks*s.TaskGPUs() {
				return "count", value
			}
			switch {
			case first[k] < end:
				return "precedence", value
			case j.Sync == hare.Rigid && began && first[k] != end:
				return "back to back", value
			case shape >= 0 && shape != shapes[k] && !j.Reshape:
				return "another shape", value
			case shape >= 0 && shape != shapes[k] && first[k] < end+j.ReshapeUs:
				return "reshape", value
			}
			end, shape = ends[k], shapes[k]
			done[j.ID] = end
			delete(count, k)
			next += s.Counts
		}
		switch {
		case inst.Objective == hare.ObjectiveMakespan:
			if c := hare.Product(1e6, done[j.ID]); c.Cmp(value) > 0 {
				value = c
			}
			continue
		case run.first[i] == j.Rounds:
			continue
		case inst.Objective == hare.ObjectiveJCTAndTardiness && j.DeadlineUs > 0:
			value = value.Add(hare.Product(j.LateWeightMicro, max(0, done[j.ID]-j.DeadlineUs)))
		}
		value = value.Add(hare.Product(j.WeightMicro, done[j.ID]-j.ReleaseUs))
	}
	if len(count) > 0 {
		return "units done twice", value
	}
	for _, t := range tasks {
		for _, p := range inst.Jobs[t.job].After {
			if spans[t.gpu][t.entry].from-t.setupUs < done[p.Job]+p.LagUs {
				return "after", value
			}
		}
	}
	// held returns from when to when a task holds its GPU.
	held := func(t plainTask) (int64, int64) {
		if inst.Jobs[t.job].Sync == hare.Relaxed {
			return t.start, t.start + t.p
		}
		return t.start, ends[key{t.job, t.round}]
	}
	for a, t := range tasks {
		from, to := held(t)
		if !slices.ContainsFunc(open[t.gpu], func(w hare.Window) bool { return w.StartUs <= from && to <= w.EndUs }) {
			return "service", value
		}
		entry := &spans[t.gpu][t.entry]
		entry.to = max(entry.to, to)
		for _, o := range tasks[:a] {
			if oFrom, oTo := held(o); o.gpu == t.gpu && from < oTo && oFrom < to {
				return "overlap", value
			}
			if o.job != t.job {
				continue
			}
			j := &inst.Jobs[t.job]
			if j.Sync != hare.Relaxed && o.round == t.round &&
				(o.start != t.start || o.gpu == t.gpu || o.kind != t.kind &&
					!j.Mix) {
				return "gang", value
			}
			if j.Sync == hare.Rigid && o.kind != t.kind {
				return "rigid types", value
			}
		}
		if j := &inst.Jobs[t.job]; j.Sync == hare.Rigid {
			for r := run.first[t.job]; r < j.Rounds; r += t.shape.Counts {
				if !slices.ContainsFunc(tasks, func(o plainTask) bool {
					return o.job == t.job && o.round == r &&
						o.gpu == t.gpu
				}) {
					return "rigid moves", value
				}
			}
		}
	}
	if why := plainPlaces(inst, s, tasks, spanOf, &run); why != "" {
		return why, value
	}
	if why := plainUsers(inst, tasks, spanOf, &run); why != "" {
		return why, value
	}
	// Nothing runs inside an entry or its setup, and each entry lies in one window with its setup.
	for _, t := range tasks {
		s := spans[t.gpu][t.entry]
		if t.entry > 0 && s.from-t.setupUs < spans[t.gpu][t.entry-1].to {
			return "inside an entry", value
		}
		if !slices.ContainsFunc(open[t.gpu], func(w hare.Window) bool {
			return w.StartUs <= s.from-t.setupUs && s.to <= w.EndUs
		}) {
			return "entry across windows", value
		}
	}
	return "", value
}

// plainUsers implements the rules of docs/reference/model.md#running-work-reservations-and-quotas about reservations
// and quotas task by task.
func plainUsers(inst *hare.Instance, tasks []plainTask, spanOf func(plainTask) (from, to int64),
	run *naiveWork) string {
	counts := func(q *hare.Quota, job int, kind string) bool {
		return slices.Contains(inst.Jobs[job].Users, q.User) && (q.Types == nil || slices.Contains(q.Types, kind))
	}
	for _, t := range tasks {
		from, to := spanOf(t)
		taken := from - t.setupUs
		j := &inst.Jobs[t.job]
		for _, v := range inst.Cluster.Reservations {
			admitted := slices.Contains(v.Jobs, j.ID) || overlap(v.Users, j.Users)
			for i := range inst.Cluster.Nodes {
				n := &inst.Cluster.Nodes[i]
				job := hare.Job{Only: v.Nodes}
				if strings.HasPrefix(t.gpu, n.Name+"/") && job.AllowsNode(n) && !admitted && taken < v.UntilUs &&
					v.FromUs < to {
					return "reserved"
				}
			}
		}
		for x := range inst.Quota {
			q := &inst.Quota[x]
			if !counts(q, t.job, t.kind) {
				continue
			}
			held, seen := int64(0), map[string]bool{}
			for _, o := range tasks {
				oFrom, oTo := spanOf(o)
				id := fmt.Sprint(o.gpu, " ", o.entry)
				if !seen[id] && counts(q, o.job, o.kind) && oFrom <= from && from < oTo {
					seen[id] = true
					held++
				}
			}
			for i := range inst.Jobs {
				if p := inst.Jobs[i].Progress; p != nil && from < run.until[i] {
					for _, gpu := range p.GPUs {
						if counts(q, i, typeOf(inst, gpu)) {
							held++
						}
					}
				}
			}
			if held > q.GPUs {
				return "quota"
			}
		}
	}
	return ""
}
