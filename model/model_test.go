package model_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/model"
)

// device is a GPU described by the instance alone.
type device struct {
	id, kind string
	node     *hare.Node
	until    int64
}

// free reports whether the GPU is in service and not busy at t.
func (d *device) free(t int64) bool {
	if t < d.until {
		return false
	}
	if d.node.Windows == nil {
		return true
	}
	return slices.ContainsFunc(d.node.Windows, func(w hare.Window) bool { return w.StartUs <= t && t < w.EndUs })
}

func devices(inst *hare.Instance) []device {
	var all []device
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		index := 0
		for _, g := range n.GPUs {
			for range g.Count {
				d := device{id: fmt.Sprintf("%s/%d", n.Name, index), kind: g.Type, node: n}
				for _, b := range n.Busy {
					if b.GPU == index {
						d.until = b.UntilUs
					}
				}
				for j := range inst.Jobs {
					if p := inst.Jobs[j].Progress; p != nil && slices.Contains(p.GPUs, d.id) {
						d.until = runsUntil(&inst.Jobs[j], g.Type)
					}
				}
				all = append(all, d)
				index++
			}
		}
	}
	return all
}

// runsUntil is when the work of a job ends that runs on GPUs of one type.
func runsUntil(j *hare.Job, kind string) int64 {
	p := j.On[slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == kind })]
	if j.Sync == hare.Rigid {
		return (j.Rounds-j.Progress.RoundsDone)*(p.ComputeUs+p.SyncUs) - j.Progress.ElapsedUs
	}
	return p.ComputeUs + p.SyncUs - j.Progress.ElapsedUs
}

// moments returns the times at which a GPU may come or go, and the times next to them.
func moments(inst *hare.Instance) []int64 {
	ts := []int64{0, 1}
	add := func(t int64) { ts = append(ts, max(0, t-1), t, t+1) }
	for _, n := range inst.Cluster.Nodes {
		for _, w := range n.Windows {
			add(w.StartUs)
			if w.EndUs != hare.Forever {
				add(w.EndUs)
			}
		}
		for _, b := range n.Busy {
			add(b.UntilUs)
		}
	}
	for _, d := range devices(inst) {
		add(d.until)
	}
	for _, r := range inst.Cluster.Reservations {
		add(r.FromUs)
		add(r.UntilUs)
	}
	return ts
}

func at(steps []model.Step, t int64) int64 {
	var level int64
	for _, s := range steps {
		if s.FromUs <= t {
			level = s.Count
		}
	}
	return level
}

// The model agrees with the instance about every GPU at every moment.
func TestModelAgreesWithItsInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inst := haretest.Instance(t)
		m := model.New(inst)
		want := devices(inst)
		if len(m.GPUs) != len(want) {
			t.Fatalf("got %d GPUs, want %d", len(m.GPUs), len(want))
		}
		ts := moments(inst)
		ever := map[string]bool{}
		for i, g := range m.GPUs {
			d := &want[i]
			if g.ID != d.id || m.Types[g.Type] != d.kind || &inst.Cluster.Nodes[g.Node] != d.node {
				t.Fatalf("GPU %d: got %+v, want %s, a %s", i, g, d.id, d.kind)
			}
			c := m.Classes[g.Class]
			if c.Type != g.Type || !slices.Contains(c.GPUs, int32(i)) {
				t.Fatalf("GPU %d is not in its class", i)
			}
			ever[d.kind] = ever[d.kind] || len(c.Windows) > 0
			for _, u := range ts {
				in := slices.ContainsFunc(c.Windows, func(w hare.Window) bool { return w.StartUs <= u && u < w.EndUs })
				if in != d.free(u) {
					t.Fatalf("%s at %d µs: the class says %v", d.id, u, in)
				}
			}
		}
		checkClasses(t, m)
		for k, name := range m.Types {
			steps := m.Capacity(k)
			if steps[0].FromUs != 0 {
				t.Fatalf("capacity of %s starts at %d", name, steps[0].FromUs)
			}
			for i := 1; i < len(steps); i++ {
				if steps[i].FromUs <= steps[i-1].FromUs || steps[i].Count == steps[i-1].Count {
					t.Fatalf("capacity of %s: %v", name, steps)
				}
			}
			for _, u := range ts {
				var free int64
				for i := range want {
					if want[i].kind == name && want[i].free(u) {
						free++
					}
				}
				if got := at(steps, u); got != free {
					t.Fatalf("%s at %d µs: got %d free, want %d", name, u, got, free)
				}
			}
		}
		for i, j := range inst.Jobs {
			if j.Shapes != nil {
				checkShapes(t, inst, i, m)
				continue
			}
			var modes []model.Mode
			for _, p := range j.On {
				if ever[p.Type] && checkRoom(t, m, i, p.Type, want, ts) {
					modes = append(modes, model.Mode{Type: slices.Index(m.Types, p.Type), ComputeUs: p.ComputeUs,
						SyncUs: p.SyncUs, SwitchUs: p.SwitchUs})
				}
			}
			checkJob(t, inst, i, m, modes)
		}
	})
}

// checkJob compares a job of the model with the job of the instance, which has some modes.
func checkJob(t *rapid.T, inst *hare.Instance, i int, m *model.Model, modes []model.Mode) {
	j, got := &inst.Jobs[i], m.Jobs[i]
	want := model.Job{WeightMicro: j.WeightMicro, ReleaseUs: j.ReleaseUs, Rounds: j.Rounds, Tasks: j.Tasks,
		Sync: j.Sync, Mix: j.Mix, Modes: modes, GPUs: max(1, j.GPUsPerTask), CPUMilli: j.CPUMilliPerTask,
		MemoryMiB: j.MemoryMiBPerTask, Distinct: j.DistinctNodes, Set: got.Set}
	if j.Progress != nil {
		want.FirstRound = j.Progress.RoundsDone
		want.Rounds -= j.Progress.RoundsDone
		for g := range m.GPUs {
			if !slices.Contains(j.Progress.GPUs, m.GPUs[g].ID) {
				continue
			}
			want.RunsOn = append(want.RunsOn, int32(g))
			if want.RunsUntilUs = runsUntil(j, m.Types[m.GPUs[g].Type]); j.Sync == hare.Rigid {
				want.FirstRound, want.Rounds = j.Rounds, 0
			} else {
				want.FirstRound, want.Rounds = j.Progress.RoundsDone+1, j.Rounds-j.Progress.RoundsDone-1
			}
		}
	}
	for q := range inst.Quota {
		if slices.Contains(j.Users, inst.Quota[q].User) {
			want.Quotas = append(want.Quotas, int32(q))
		}
	}
	for _, p := range j.After {
		want.After = append(want.After, model.Predecessor{LagUs: p.LagUs,
			Job: slices.IndexFunc(inst.Jobs, func(other hare.Job) bool { return other.ID == p.Job })})
	}
	if inst.Objective == hare.ObjectiveJCTAndTardiness {
		want.DeadlineUs, want.LateWeightMicro = j.DeadlineUs, j.LateWeightMicro
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
	closed := slices.ContainsFunc(inst.Cluster.Reservations, func(r hare.Reservation) bool { return !admits(&r, j) })
	if (got.Set >= 0) != (closed || len(j.Only)+len(j.Exclude) > 0) {
		t.Fatalf("job %d has node set %d", i, got.Set)
	}
}

// checkShapes checks that each shape of a job is what a job with this shape alone is.
func checkShapes(t *rapid.T, inst *hare.Instance, i int, m *model.Model) {
	got := m.Jobs[i]
	if len(got.Shapes) != len(inst.Jobs[i].Shapes) {
		t.Fatalf("job %d has %d shapes, want %d", i, len(got.Shapes), len(inst.Jobs[i].Shapes))
	}
	for x, s := range inst.Jobs[i].Shapes {
		one := *inst
		one.Jobs = slices.Clone(inst.Jobs)
		j := &one.Jobs[i]
		j.Tasks, j.GPUsPerTask, j.On = s.Tasks, s.GPUsPerTask, s.On
		j.Shapes, j.Reshape, j.ReshapeUs = nil, false, 0
		want, in := model.New(&one).Jobs[i], got.InShape(x)
		left := want.Rounds
		want.Rounds = 0
		for done := int64(0); done < left; done += s.Counts {
			want.Rounds++
		}
		if diff := cmp.Diff(want, in, cmpopts.EquateEmpty()); diff != "" || got.Rounds != left {
			t.Fatalf("job %d in shape %d of %d units: %s", i, x, got.Rounds, diff)
		}
	}
}

// admits reports whether a reservation lists a job or one of its users.
func admits(r *hare.Reservation, j *hare.Job) bool {
	return slices.Contains(r.Jobs, j.ID) ||
		slices.ContainsFunc(j.Users, func(user string) bool { return slices.Contains(r.Users, user) })
}

// checkRoom compares how many tasks of a job find room on a GPU type over time with a count
// by node, and says whether any ever does.
func checkRoom(t *rapid.T, m *model.Model, job int, kind string, gpus []device, ts []int64) bool {
	j, any := &m.Instance.Jobs[job], false
	steps := m.TaskRoom(&m.Jobs[job], slices.Index(m.Types, kind))
	for _, u := range ts {
		var room int64
		for n := range m.Instance.Cluster.Nodes {
			node, free := &m.Instance.Cluster.Nodes[n], int64(0)
			for i := range gpus {
				if gpus[i].node == node && gpus[i].kind == kind && gpus[i].free(u) {
					free++
				}
			}
			if !allows(j, node) || slices.ContainsFunc(m.Instance.Cluster.Reservations, func(r hare.Reservation) bool {
				return !admits(&r, j) && r.FromUs <= u && u < r.UntilUs && allows(&hare.Job{Only: r.Nodes}, node)
			}) {
				continue
			}
			tasks := free / max(1, j.GPUsPerTask)
			for node.CPUMilli > 0 && tasks*j.CPUMilliPerTask > node.CPUMilli ||
				node.MemoryMiB > 0 && tasks*j.MemoryMiBPerTask > node.MemoryMiB || j.DistinctNodes && tasks > 1 {
				tasks--
			}
			room += tasks
		}
		if got := at(steps, u); got != room {
			t.Fatalf("job %d on %s at %d µs: room for %d tasks, want %d", job, kind, u, got, room)
		}
		any = any || room > 0
	}
	return any
}

// allows applies the selectors of a job to a node, label by label.
func allows(j *hare.Job, n *hare.Node) bool {
	matches := func(lv hare.LabelValues) bool {
		if lv.Label == hare.LabelNode {
			return slices.Contains(lv.Values, n.Name)
		}
		return slices.ContainsFunc(n.Labels, func(l hare.Label) bool {
			return l.Name == lv.Label && slices.Contains(lv.Values, l.Value)
		})
	}
	for _, lv := range j.Only {
		if !matches(lv) {
			return false
		}
	}
	return !slices.ContainsFunc(j.Exclude, matches)
}

// checkClasses checks that each GPU is in one class, and that classes differ and are
// sorted.
func checkClasses(t *rapid.T, m *model.Model) {
	seen := map[int32]bool{}
	for i, c := range m.Classes {
		if !slices.IsSorted(c.GPUs) {
			t.Fatalf("class %d: %v is not sorted", i, c.GPUs)
		}
		for _, g := range c.GPUs {
			if seen[g] {
				t.Fatalf("GPU %d is in two classes", g)
			}
			seen[g] = true
		}
		for _, d := range m.Classes[:i] {
			if d.Type > c.Type || d.Type == c.Type && (d.GPUs[0] > c.GPUs[0] || slices.Equal(d.Windows, c.Windows)) {
				t.Fatalf("classes %v and %v are out of order or the same", d, c)
			}
		}
	}
	if len(seen) != len(m.GPUs) || !slices.IsSorted(m.Types) {
		t.Fatalf("%d of %d GPUs have a class; types %v", len(seen), len(m.GPUs), m.Types)
	}
}
