package brute

import (
	"fmt"
	"math/rand/v2"

	"github.com/hare-sched/hare"
)

// Random returns a tiny valid instance: one to three GPUs of up to two types, some busy
// at first or with pauses, and one to three jobs of all modes, some with releases, long
// synchronisation or weight 0.
func Random(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(2)]
	for i, t := range types {
		n := hare.Node{Name: fmt.Sprintf("n%d", i), GPUs: []hare.TypeCount{{Type: t, Count: 1 + r.IntN(3-len(types)+1)}}}
		switch r.IntN(6) {
		case 0:
			at := int64(1+r.IntN(4)) * tick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at}, {StartUs: at + int64(1+r.IntN(3))*tick, EndUs: hare.Forever}}
		case 1:
			n.Windows = []hare.Window{{StartUs: int64(1+r.IntN(3)) * tick, EndUs: hare.Forever}}
		}
		if r.IntN(5) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(3)) * tick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(3) {
		j := hare.Job{
			ID: fmt.Sprintf("j%d", i), WeightMicro: int64(r.IntN(4)) * 1_000_000,
			Rounds: int64(1 + r.IntN(2)), Tasks: int64(1 + r.IntN(2)), Sync: hare.Sync(r.IntN(3)),
		}
		if j.WeightMicro == 0 && r.IntN(2) == 0 {
			j.WeightMicro = 500_000
		}
		if r.IntN(2) == 0 {
			j.ReleaseUs = int64(r.IntN(5)) * tick / 2
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(3) == 0
		for _, t := range types {
			if len(types) > 1 && r.IntN(5) == 0 && len(j.On) > 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * tick}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(1+r.IntN(4)) * tick / 2
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// tick is the time unit of random instances.
const tick = 1_000_000

// RandomOnNodes returns a tiny valid instance with all rules about nodes mixed: one to three
// nodes of one or two types, some with CPUs, memory, windows or busy GPUs, and one to three
// jobs of all kinds.
func RandomOnNodes(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(3)/2]
	left := 5 // GPUs
	for i := range 1 + r.IntN(3) {
		n := hare.Node{Name: fmt.Sprintf("n%d", i)}
		for _, t := range types {
			if c := 1 + r.IntN(3); c <= left && (n.GPUs == nil || r.IntN(3) == 0) && (i+len(types) < 2 || r.IntN(4) > 0) {
				n.GPUs = append(n.GPUs, hare.TypeCount{Type: t, Count: c})
				left -= c
			}
		}
		if n.GPUs == nil {
			n.GPUs = []hare.TypeCount{{Type: types[r.IntN(len(types))], Count: 1}}
		}
		if r.IntN(2) == 0 {
			n.CPUMilli = int64(1+r.IntN(4)) * 1000
		}
		if r.IntN(3) == 0 {
			n.MemoryMiB = int64(1 + r.IntN(4))
		}
		if r.IntN(2) == 0 {
			n.Labels = []hare.Label{{Name: "disk", Value: []string{"hdd", "nvme"}[r.IntN(2)]}}
		}
		switch r.IntN(8) {
		case 0:
			at := int64(1+r.IntN(4)) * tick
			n.Windows = []hare.Window{{StartUs: 0, EndUs: at}, {StartUs: at + int64(1+r.IntN(2))*tick, EndUs: hare.Forever}}
		case 1:
			n.Windows = []hare.Window{{StartUs: int64(1+r.IntN(3)) * tick, EndUs: hare.Forever}}
		}
		if r.IntN(6) == 0 {
			n.Busy = []hare.Busy{{GPU: 0, UntilUs: int64(1+r.IntN(3)) * tick}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	for i := range 1 + r.IntN(3) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(1+r.IntN(3)) * 1_000_000,
			Rounds: int64(1 + r.IntN(2)), Tasks: int64(1 + r.IntN(3)), Sync: hare.Sync(r.IntN(3))}
		if g := []int64{0, 0, 0, 2, 2, 3}[r.IntN(6)]; g > 1 {
			j.GPUsPerTask = g
			j.Tasks = min(j.Tasks, 2)
		}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(3)) * tick
		}
		if r.IntN(2) == 0 {
			j.CPUMilliPerTask = int64(1+r.IntN(4)) * 500
		}
		if r.IntN(3) == 0 {
			j.MemoryMiBPerTask = int64(1 + r.IntN(2))
		}
		j.Mix = j.Sync == hare.Gang && r.IntN(3) == 0
		j.DistinctNodes = j.Sync != hare.Relaxed && r.IntN(4) == 0
		switch r.IntN(12) {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
		case 2:
			j.Only = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0", "n1"}}}
		}
		for _, t := range types {
			if len(types) > 1 && r.IntN(5) == 0 && len(j.On) > 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * tick}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(1+r.IntN(2)) * tick
			}
			j.On = append(j.On, p)
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}
