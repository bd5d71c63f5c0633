// Package haretest helps tests: it draws random instances and formats faults as text.
package haretest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
)

// Names are names of types that test escaping, sorting and surrogate pairs.
var Names = []string{"V100", "T4", "K80", "v100", "a b", "é", "\u2028", "\U0001F407", "\uFFFD", "~1", "<&>", "\"\\\n"}

// Types draws one to four GPU types, sorted.
func Types(t *rapid.T, label string) []string {
	picked := rapid.SliceOfNDistinct(rapid.SampledFrom(Names), 1, 4, rapid.ID[string]).Draw(t, label)
	return sorted(picked)
}

func sorted(xs []string) []string {
	for i := range xs {
		for j := i; j > 0 && xs[j] < xs[j-1]; j-- {
			xs[j], xs[j-1] = xs[j-1], xs[j]
		}
	}
	return xs
}

// Micros draws a number of millionths of small or large magnitude.
func Micros(t *rapid.T, least int64, label string) int64 {
	most := rapid.SampledFrom([]int64{3, 5_000_000, 1 << 40}).Draw(t, label+" scale")
	return rapid.Int64Range(least, most).Draw(t, label)
}

// Instance draws a valid instance.
func Instance(t *rapid.T) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Name: rapid.SampledFrom(append(Names, "")).Draw(t, "name")}
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		n := hare.Node{Name: fmt.Sprintf("n%d%s", i, rapid.SampledFrom([]string{"", "é\"", "~"}).Draw(t, "node"))}
		gpus := 0
		for _, k := range Types(t, "gpus") {
			c := rapid.IntRange(1, 3).Draw(t, "count")
			gpus += c
			n.GPUs = append(n.GPUs, hare.TypeCount{Type: k, Count: c})
		}
		var at int64
		for range rapid.IntRange(0, 3).Draw(t, "windows") {
			w := hare.Window{StartUs: at + Micros(t, 1, "gap"), EndUs: hare.Forever}
			if len(n.Windows) == 0 && rapid.Bool().Draw(t, "from 0") {
				w.StartUs = 0
			}
			at = w.StartUs + Micros(t, 1, "length")
			if forever := rapid.IntRange(0, 3).Draw(t, "forever") == 0 && w.StartUs > 0; !forever {
				w.EndUs = at
			}
			n.Windows = append(n.Windows, w)
			if w.EndUs == hare.Forever {
				break
			}
		}
		for g := range gpus {
			if rapid.IntRange(0, 3).Draw(t, "busy") == 0 {
				n.Busy = append(n.Busy, hare.Busy{GPU: g, UntilUs: Micros(t, 1, "until")})
			}
		}
		drawNodeRules(t, &n)
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "jobs") {
		j := hare.Job{
			ID: fmt.Sprintf("%d%s", i, rapid.SampledFrom(Names).Draw(t, "id")), WeightMicro: Micros(t, 0, "weight"),
			ReleaseUs: Micros(t, 0, "release"),
			Rounds:    rapid.Int64Range(1, 20).Draw(t, "rounds"), Tasks: rapid.Int64Range(1, 9).Draw(t, "tasks"),
			Sync: hare.Sync(rapid.IntRange(0, 2).Draw(t, "sync")),
		}
		j.Mix = j.Sync == hare.Gang && rapid.Bool().Draw(t, "mix")
		for _, k := range Types(t, "on") {
			j.On = append(j.On, hare.Profile{Type: k, ComputeUs: Micros(t, 1, "compute"), SyncUs: Micros(t, 0, "sync")})
		}
		if rapid.IntRange(0, 3).Draw(t, "setups") == 0 {
			j.On[0].SwitchUs = Micros(t, 1, "switch")
		}
		if rapid.IntRange(0, 3).Draw(t, "hints") == 0 {
			j.Hints = &hare.JobHints{EstimateUs: Micros(t, 1, "estimate"), Class: []hare.ClassLabel{
				{Name: "name", Value: rapid.SampledFrom(Names).Draw(t, "class")}, {Name: "user"}}}
		}
		drawJobRules(t, &j, inst)
		drawProgress(t, &j, inst)
		drawDependencies(t, &j, inst)
		drawShapes(t, &j)
		inst.Jobs = append(inst.Jobs, j)
	}
	drawShares(t, inst)
	return inst
}

// drawProgress draws what of a third of all jobs is done, and lets some gang and rigid jobs run
// on the first node with GPUs that are free and always in service.
func drawProgress(t *rapid.T, j *hare.Job, inst *hare.Instance) {
	if rapid.IntRange(0, 2).Draw(t, "progress") > 0 {
		return
	}
	done := rapid.Int64Range(0, j.Rounds-1).Draw(t, "rounds done")
	if done > 0 {
		j.Progress = &hare.Progress{RoundsDone: done}
	}
	n := &inst.Cluster.Nodes[0]
	width, first := j.Tasks*j.TaskGPUs(), n.GPUs[0]
	taken := slices.ContainsFunc(inst.Jobs, func(other hare.Job) bool { return other.Running() })
	if taken || j.Sync == hare.Relaxed || j.ReleaseUs > 0 || width > int64(first.Count) || n.Windows != nil ||
		n.Busy != nil || j.DistinctNodes && j.Tasks > 1 || len(j.Only)+len(j.Exclude) > 0 ||
		n.CPUMilli > 0 || n.MemoryMiB > 0 {
		return
	}
	at := slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == first.Type })
	if at < 0 {
		return
	}
	j.Progress = &hare.Progress{RoundsDone: done, ElapsedUs: rapid.Int64Range(0, j.On[at].ComputeUs-1).Draw(t, "elapsed")}
	for g := range width {
		j.Progress.GPUs = append(j.Progress.GPUs, fmt.Sprintf("%s/%d", n.Name, g))
	}
}

// drawDependencies draws jobs before the job for whose ends it waits, and a deadline.
func drawDependencies(t *rapid.T, j *hare.Job, inst *hare.Instance) {
	for i := range inst.Jobs {
		if !j.Running() && rapid.IntRange(0, 4).Draw(t, "after") == 0 {
			j.After = append(j.After, hare.Predecessor{Job: inst.Jobs[i].ID, LagUs: Micros(t, 0, "lag")})
		}
	}
	slices.SortFunc(j.After, func(a, b hare.Predecessor) int { return strings.Compare(a.Job, b.Job) })
	if rapid.IntRange(0, 2).Draw(t, "deadline") == 0 {
		j.DeadlineUs, j.LateWeightMicro = Micros(t, 1, "deadline"), Micros(t, 0, "late weight")
	}
	j.Users = rapid.SampledFrom([][]string{nil, nil, {"ann"}, {"ann", "\U0001F407"}}).Draw(t, "users")
}

// drawShapes draws shapes in place of tasks and on for some jobs that do not run, and durations.
func drawShapes(t *rapid.T, j *hare.Job) {
	if rapid.IntRange(0, 3).Draw(t, "durations") == 0 {
		j.Durations = []hare.Duration{{Micro: 250_000, FactorMicro: 1}, {Micro: 750_000, FactorMicro: 1_500_000}}
	}
	if j.Running() || rapid.IntRange(0, 3).Draw(t, "shapes") > 0 {
		return
	}
	for range rapid.IntRange(1, 3).Draw(t, "number of shapes") {
		s := hare.Shape{Tasks: j.Tasks + rapid.Int64Range(0, 2).Draw(t, "tasks"), GPUsPerTask: j.GPUsPerTask,
			Counts: rapid.Int64Range(1, 3).Draw(t, "counts"), On: slices.Clone(j.On)}
		s.On[0].ComputeUs = Micros(t, 1, "compute in a shape")
		j.Shapes = append(j.Shapes, s)
	}
	j.Tasks, j.GPUsPerTask, j.On = 0, 0, nil
	if j.Sync == hare.Gang && len(j.Shapes) > 1 && rapid.Bool().Draw(t, "reshape") {
		j.Reshape, j.ReshapeUs = true, rapid.SampledFrom([]int64{0, 1, 30_000_000}).Draw(t, "reshape after")
	}
	j.NormaliseShapes()
}

// drawShares draws an objective, quotas and reservations.
func drawShares(t *rapid.T, inst *hare.Instance) {
	inst.Objective = rapid.SampledFrom(append(hare.Objectives(), hare.ObjectiveWeightedJCT)).Draw(t, "objective")
	for range rapid.IntRange(0, 2).Draw(t, "quotas") / 2 {
		inst.Quota = append(inst.Quota, hare.Quota{User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "quota"),
			GPUs:  rapid.Int64Range(0, 5).Draw(t, "quota of GPUs"),
			Types: rapid.SampledFrom([][]string{nil, {"T4"}, {"T4", "V100"}}).Draw(t, "quota of types")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "reservations") / 2 {
		r := hare.Reservation{FromUs: Micros(t, 0, "from")}
		r.UntilUs = r.FromUs + Micros(t, 1, "for")
		r.Users = rapid.SampledFrom([][]string{nil, {"ann", "bob"}}).Draw(t, "reserved for")
		if len(inst.Jobs) > 0 && rapid.Bool().Draw(t, "reserved job") {
			r.Jobs = []string{inst.Jobs[0].ID}
		}
		onDisk := []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		r.Nodes = rapid.SampledFrom([][]hare.LabelValues{nil, onDisk}).Draw(t, "of nodes")
		inst.Cluster.Reservations = append(inst.Cluster.Reservations, r)
	}
}

// drawNodeRules draws CPUs, memory and labels for a third of all nodes.
func drawNodeRules(t *rapid.T, n *hare.Node) {
	if rapid.IntRange(0, 2).Draw(t, "node rules") > 0 {
		return
	}
	n.CPUMilli = rapid.SampledFrom([]int64{0, 1, 2500, 64_000, hare.MaxPerTask}).Draw(t, "cpus")
	n.MemoryMiB = rapid.SampledFrom([]int64{0, 1, 7, 1 << 20}).Draw(t, "memory")
	for _, name := range rapid.SampledFrom([][]string{nil, {"disk"}, {"a b", "disk", "\U0001F407"}}).Draw(t, "labels") {
		n.Labels = append(n.Labels, hare.Label{Name: name, Value: rapid.SampledFrom([]string{"", "nvme", "ssd"}).
			Draw(t, "value")})
	}
}

// drawJobRules draws the rules about nodes for a third of all jobs.
func drawJobRules(t *rapid.T, j *hare.Job, inst *hare.Instance) {
	if rapid.IntRange(0, 2).Draw(t, "job rules") > 0 {
		return
	}
	j.GPUsPerTask = rapid.SampledFrom([]int64{0, 2, 3}).Draw(t, "gpus per task")
	j.CPUMilliPerTask = rapid.SampledFrom([]int64{0, 1, 1250, hare.MaxPerTask}).Draw(t, "cpus per task")
	j.MemoryMiBPerTask = rapid.SampledFrom([]int64{0, 1, 3}).Draw(t, "memory per task")
	j.DistinctNodes = j.Sync != hare.Relaxed && rapid.Bool().Draw(t, "distinct")
	selector := func(label string) []hare.LabelValues {
		switch rapid.IntRange(0, 3).Draw(t, label) {
		case 0:
			return []hare.LabelValues{{Label: "disk", Values: []string{"nvme", "ssd"}}}
		case 1:
			return []hare.LabelValues{{Label: "disk", Values: []string{""}},
				{Label: hare.LabelNode, Values: []string{inst.Cluster.Nodes[0].Name}}}
		}
		return nil
	}
	j.Only, j.Exclude = selector("only"), selector("exclude")
}

// Gangs makes n gang jobs on two T4 and two V100. The same n and seed give the same jobs.
func Gangs(n int, seed int64) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "T4", Count: 2}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}},
	}}}
	x := uint64(seed)*2654435761 + 12345
	next := func(n int64) int64 {
		x = x*6364136223846793005 + 1442695040888963407
		return int64(x>>33) % n
	}
	for i := range n {
		p := 1_000_000 + next(5_000_000)
		inst.Jobs = append(inst.Jobs, hare.Job{
			ID:          "j" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)),
			WeightMicro: 1_000_000 + next(4)*500_000, ReleaseUs: next(20) * 500_000,
			Rounds: 1 + next(20), Tasks: 1 + next(2), Sync: hare.Gang,
			On: []hare.Profile{{Type: "T4", ComputeUs: 2 * p, SyncUs: 50_000}, {Type: "V100", ComputeUs: p, SyncUs: 50_000}},
		})
	}
	return inst
}

// Faults formats the code and the pointer of each fault of err.
func Faults(err error) string {
	var all hare.InvalidErrors
	if !errors.As(err, &all) {
		return fmt.Sprint("not faults: ", err)
	}
	var b strings.Builder
	for i, f := range all {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(strings.TrimSpace(f.Code + " " + f.Pointer))
	}
	return b.String()
}
