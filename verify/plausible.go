package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// plausible refuses instances on which the arithmetic of this package would not be
// exact; no decoder returns such instances. In plausible instances, times are within
// 2^53 µs, counts within 2^31 and weights within 2^53 micro-units.
func plausible(inst *hare.Instance) error {
	if inst == nil {
		return errors.New("there is no instance")
	}
	if !knownObjective(inst.Objective) {
		return fmt.Errorf("the instance has an unknown objective %.40q", inst.Objective)
	}
	gpus := 0
	names := make(map[string]bool, len(inst.Cluster.Nodes))
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		if names[n.Name] || strings.Contains(n.Name, "/") {
			return fmt.Errorf("node %.40q appears twice or has a bad name", n.Name)
		}
		names[n.Name] = true
		for x, g := range n.GPUs {
			if g.Count < 1 || g.Count > hare.MaxGPUs || x > 0 && n.GPUs[x-1].Type >= g.Type {
				return fmt.Errorf("node %.40q has GPUs out of order or number", n.Name)
			}
			if gpus += g.Count; gpus > hare.MaxGPUs {
				return fmt.Errorf("the cluster has more than %d GPUs", hare.MaxGPUs)
			}
		}
		end := int64(-1)
		for _, w := range n.Windows {
			if w.StartUs <= end || w.EndUs <= w.StartUs || w.StartUs > hare.MaxExact || w.EndUs > hare.MaxExact &&
				w.EndUs != hare.Forever {
				return fmt.Errorf("node %.40q has windows out of order or range", n.Name)
			}
			end = w.EndUs
		}
		if outside(n.CPUMilli, 0, maxPerTask) || outside(n.MemoryMiB, 0, maxPerTask) {
			return fmt.Errorf("node %.40q has CPUs or memory out of range", n.Name)
		}
		for x, l := range n.Labels {
			if x > 0 && n.Labels[x-1].Name >= l.Name {
				return fmt.Errorf("node %.40q has labels out of order", n.Name)
			}
		}
		for x, b := range n.Busy {
			if b.UntilUs < 0 || b.UntilUs > hare.MaxExact || x > 0 && n.Busy[x-1].GPU >= b.GPU {
				return fmt.Errorf("node %.40q has busy GPUs out of order or range", n.Name)
			}
		}
	}
	ids := make(map[string]bool, len(inst.Jobs))
	for i := range inst.Jobs {
		if err := plausibleJob(&inst.Jobs[i]); err != nil {
			return err
		}
		if ids[inst.Jobs[i].ID] {
			return fmt.Errorf("job %.40q appears twice", inst.Jobs[i].ID)
		}
		ids[inst.Jobs[i].ID] = true
	}
	if err := plausibleLevels(inst); err != nil {
		return err
	}
	if err := plausibleUsers(inst); err != nil {
		return err
	}
	if err := plausibleOrder(inst); err != nil {
		return err
	}
	_, err := newRunning(inst)
	return err
}

// plausibleUsers checks reservations and quotas.
func plausibleUsers(inst *hare.Instance) error {
	for i := range inst.Cluster.Reservations {
		r := &inst.Cluster.Reservations[i]
		if outside(r.FromUs, 0, hare.MaxExact) || outside(r.UntilUs, r.FromUs+1, hare.MaxExact) ||
			!ordered(r.Nodes) || !slices.IsSorted(r.Users) || !slices.IsSorted(r.Jobs) {
			return fmt.Errorf("reservation %d has times or lists out of order or range", i)
		}
	}
	for i := range inst.Quota {
		if q := &inst.Quota[i]; outside(q.GPUs, 0, hare.MaxGPUs) || q.Types != nil && len(q.Types) == 0 {
			return fmt.Errorf("quota %d is out of range", i)
		}
	}
	return nil
}

// plausibleOrder checks that jobs wait for jobs of the instance, and not for each other.
func plausibleOrder(inst *hare.Instance) error {
	if !slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return len(j.After) > 0 }) {
		return nil
	}
	index := indexOf(inst)
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		for x, p := range job.After {
			if _, ok := index[p.Job]; !ok || outside(p.LagUs, 0, hare.MaxExact) || x > 0 && job.After[x-1].Job >= p.Job {
				return fmt.Errorf("job %.40q waits for unknown jobs, or for jobs out of order or range", job.ID)
			}
		}
	}
	if _, ok := topological(inst, index); !ok {
		return errors.New("some jobs wait for each other")
	}
	return nil
}

// ordered reports whether a selector is sorted.
func ordered(selector []hare.LabelValues) bool {
	for x, lv := range selector {
		if x > 0 && selector[x-1].Label >= lv.Label || !slices.IsSorted(lv.Values) {
			return false
		}
	}
	return true
}

// maxPerTask limits the thousandths of CPUs and the MiB of memory of nodes and tasks. What all
// tasks on 2^20 GPUs hold together then fits into 64 bits.
const maxPerTask = 1 << 40

func plausibleJob(j *hare.Job) error {
	if outside(j.WeightMicro, 0, hare.MaxExact) || outside(j.ReleaseUs, 0, hare.MaxExact) ||
		outside(j.Rounds, 1, hare.MaxExact) || j.Sync > hare.Rigid || j.Mix && j.Sync != hare.Gang ||
		outside(j.CPUMilliPerTask, 0, maxPerTask) || outside(j.MemoryMiBPerTask, 0, maxPerTask) ||
		outside(j.DeadlineUs, 0, hare.MaxExact) || outside(j.LateWeightMicro, 0, hare.MaxExact) {
		return fmt.Errorf("job %.40q has a number out of range", j.ID)
	}
	if j.DistinctNodes && j.Sync == hare.Relaxed {
		return fmt.Errorf("job %.40q is relaxed and wants distinct nodes", j.ID)
	}
	if !ordered(j.Only) || !ordered(j.Exclude) {
		return fmt.Errorf("job %.40q has selectors out of order", j.ID)
	}
	if j.Shapes != nil && (len(j.Shapes) == 0 || j.Tasks != 0 || j.GPUsPerTask != 0 || j.On != nil) ||
		j.Reshape && (j.Sync != hare.Gang || len(j.Shapes) < 2) || outside(j.ReshapeUs, 0, hare.MaxExact) {
		return fmt.Errorf("job %.40q has shapes out of form", j.ID)
	}
	for _, s := range shapesOf(j) {
		if err := plausibleShape(j, &s); err != nil {
			return err
		}
	}
	return nil
}

func plausibleShape(j *hare.Job, s *hare.Shape) error {
	if outside(s.Tasks, 1, 1<<31-1) || outside(s.GPUsPerTask, 0, hare.MaxGPUs) || outside(s.Counts, 1, hare.MaxExact) {
		return fmt.Errorf("job %.40q has a number out of range", j.ID)
	}
	for x, p := range s.On {
		if outside(p.ComputeUs, 1, hare.MaxExact) || outside(p.SyncUs, 0, hare.MaxExact) ||
			outside(p.SwitchUs, 0, hare.MaxExact) || x > 0 && s.On[x-1].Type >= p.Type {
			return fmt.Errorf("job %.40q has profiles out of order or range", j.ID)
		}
	}
	return nil
}

// plausibleLevels refuses levels that are not as the decoder returns them.
func plausibleLevels(inst *hare.Instance) error {
	labels := inst.Cluster.Topology
	for i, label := range labels {
		if slices.Contains([]string{"", "node", "any", "all"}, label) || slices.Contains(labels[:i], label) {
			return fmt.Errorf("the label %.40q of the topology appears twice or has a bad name", label)
		}
		for n := range inst.Cluster.Nodes {
			node := &inst.Cluster.Nodes[n]
			if !slices.ContainsFunc(node.Labels, func(l hare.Label) bool { return l.Name == label }) {
				return fmt.Errorf("node %.40q lacks the label %.40q of the topology", node.Name, label)
			}
		}
	}
	if !levelsMatter(inst) {
		return nil
	}
	tp := &topology{names: append([]string{"node"}, labels...)}
	slices.Reverse(tp.names[1:])
	tp.names = append(tp.names, "any")
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		if !goesByLevels(job) {
			continue
		}
		within := tp.levelOf(job.Within)
		if within < 0 || job.Sync == hare.Relaxed {
			return fmt.Errorf("job %.40q is relaxed or names the unknown level %.40q", job.ID, job.Within)
		}
		for _, p := range profilesOf(job) {
			if err := tp.plausibleTimes(&p, within); err != nil {
				return fmt.Errorf("job %.40q on type %.40q %w", job.ID, p.Type, err)
			}
		}
	}
	return nil
}

// plausibleTimes refuses times by spread that are unknown, fall or are missing.
func (tp *topology) plausibleTimes(p *hare.Profile, within int) error {
	if p.SyncAt == nil {
		return nil
	}
	found, last, covered := 0, int64(0), false
	for level, name := range tp.names {
		for _, s := range p.SyncAt {
			if s.Level != name {
				continue
			}
			if s.SyncUs < last {
				return fmt.Errorf("has less time for the coarser level %.40q", name)
			}
			last, covered = s.SyncUs, covered || level >= within
			found++
		}
	}
	if found != len(p.SyncAt) || !covered || last != p.SyncUs {
		return errors.New("has times by spread for unknown levels, or not for all")
	}
	return nil
}
