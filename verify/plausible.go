package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// unknownRule names a rule of the instance by which this package does not go; "" means none.
func unknownRule(inst *hare.Instance) string {
	switch {
	case len(inst.Cluster.Reservations) > 0:
		return "reservations"
	case len(inst.Quota) > 0:
		return "quota"
	}
	for i := range inst.Jobs {
		switch j := &inst.Jobs[i]; {
		case j.Progress != nil:
			return "progress"
		case len(j.After) > 0:
			return "after"
		}
	}
	return ""
}

// plausible refuses instances on which the arithmetic of this package would not be
// exact; no decoder returns such instances. In plausible instances, times are within
// 2^53 µs, counts within 2^31 and weights within 2^53 micro-units.
func plausible(inst *hare.Instance) error {
	if inst == nil {
		return errors.New("there is no instance")
	}
	if rule := unknownRule(inst); rule != "" {
		return fmt.Errorf("this version does not verify instances with %s", rule)
	}
	if inst.Objective != hare.ObjectiveWeightedJCT {
		return fmt.Errorf("the instance's objective %.40q is not %q", inst.Objective, hare.ObjectiveWeightedJCT)
	}
	gpus := 0
	names := make(map[string]bool, len(inst.Cluster.Nodes))
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		if names[n.Name] || strings.Contains(n.Name, "/") {
			return fmt.Errorf("node %.40q stands twice or has a bad name", n.Name)
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
			return fmt.Errorf("job %.40q stands twice", inst.Jobs[i].ID)
		}
		ids[inst.Jobs[i].ID] = true
	}
	return nil
}

// maxPerTask limits the thousandths of CPUs and the MiB of memory of nodes and tasks. What all
// tasks on 2^20 GPUs hold together then fits into 64 bits.
const maxPerTask = 1 << 40

func outside(x, least, most int64) bool { return x < least || x > most }

func plausibleJob(j *hare.Job) error {
	if outside(j.WeightMicro, 0, hare.MaxExact) || outside(j.ReleaseUs, 0, hare.MaxExact) ||
		outside(j.Rounds, 1, hare.MaxExact) || outside(j.Tasks, 1, 1<<31-1) || j.Sync > hare.Rigid ||
		j.Mix && j.Sync != hare.Gang || outside(j.GPUsPerTask, 0, hare.MaxGPUs) ||
		outside(j.CPUMilliPerTask, 0, maxPerTask) || outside(j.MemoryMiBPerTask, 0, maxPerTask) {
		return fmt.Errorf("job %.40q has a number out of range", j.ID)
	}
	if j.DistinctNodes && j.Sync == hare.Relaxed {
		return fmt.Errorf("job %.40q is relaxed and wants distinct nodes", j.ID)
	}
	for _, selector := range [][]hare.LabelValues{j.Only, j.Exclude} {
		for x, lv := range selector {
			if x > 0 && selector[x-1].Label >= lv.Label || !slices.IsSorted(lv.Values) {
				return fmt.Errorf("job %.40q has selectors out of order", j.ID)
			}
		}
	}
	for x, p := range j.On {
		if outside(p.ComputeUs, 1, hare.MaxExact) || outside(p.SyncUs, 0, hare.MaxExact) ||
			x > 0 && j.On[x-1].Type >= p.Type {
			return fmt.Errorf("job %.40q has profiles out of order or range", j.ID)
		}
	}
	return nil
}
