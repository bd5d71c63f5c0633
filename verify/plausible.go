package verify

import (
	"errors"
	"fmt"
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
	if inst.Objective != hare.ObjectiveWeightedJCT {
		return fmt.Errorf("the instance's objective %.40q is not %q", inst.Objective, hare.ObjectiveWeightedJCT)
	}
	if err := inst.RefusePlaced("the verifier"); err != nil {
		return err
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

func plausibleJob(j *hare.Job) error {
	bad := func(x, least, most int64) bool { return x < least || x > most }
	if bad(j.WeightMicro, 0, hare.MaxExact) || bad(j.ReleaseUs, 0, hare.MaxExact) || bad(j.Rounds, 1, hare.MaxExact) ||
		bad(j.Tasks, 1, 1<<31-1) || j.Sync > hare.Rigid || j.Mix && j.Sync != hare.Gang {
		return fmt.Errorf("job %.40q has a number out of range", j.ID)
	}
	for x, p := range j.On {
		if bad(p.ComputeUs, 1, hare.MaxExact) || bad(p.SyncUs, 0, hare.MaxExact) || x > 0 && j.On[x-1].Type >= p.Type {
			return fmt.Errorf("job %.40q has profiles out of order or range", j.ID)
		}
	}
	return nil
}
