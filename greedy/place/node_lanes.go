package place

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// scheduleOnNodes gives the blocks of a plan on nodes to single GPUs: the blocks on each node
// and type in order of start, each on free GPUs, with preference for GPUs that last ran the
// same job. It takes O(blocks · width · log).
func (p *Plan) scheduleOnNodes(m *model.Model, lanes []hare.Lane) error {
	runs := runningJobs(m)
	byNode := make([][]jobBlock, len(m.Nodes))
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			b := &p.Jobs[i][x]
			byNode[b.Node] = append(byNode[b.Node], jobBlock{int32(i), int32(x), b})
		}
	}
	errs := make([]error, len(byNode))
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for n, blocks := range byNode {
		if len(blocks) == 0 {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			slices.SortFunc(blocks, compareHeld)
			errs[n] = colourNode(m, n, blocks, lanes, runs)
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// colourNode gives the blocks on node n, in the order of compareHeld, to its GPUs.
func colourNode(m *model.Model, n int, blocks []jobBlock, lanes []hare.Lane, runs []int32) error {
	first := m.Nodes[n].FirstGPU
	end := first
	for end < len(m.GPUs) && m.GPUs[end].Node == n {
		end++
	}
	until := make([]int64, end-first) // when each GPU is free
	last := make([]int32, end-first)  // the job that ran last, −1 at first
	for g := range until {
		windows := m.Classes[m.GPUs[first+g].Class].Windows
		if until[g], last[g] = room.Never, -1; len(windows) > 0 {
			until[g] = windows[0].StartUs
		}
		if runs != nil {
			last[g] = runs[first+g]
		}
	}
	var free []int
	for _, b := range blocks {
		free = free[:0]
		from := b.TakenFromUs()
		for g := range until {
			if m.GPUs[first+g].Type == m.Classes[b.Class].Type &&
				(until[g] <= from || staysAfterRunning(m, b, first+g, lanes)) {
				free = append(free, g)
			}
		}
		if len(free) < int(b.Width) {
			return fmt.Errorf("greedy: node %q has no free GPU at %d µs for job %q", m.Instance.Cluster.Nodes[n].Name,
				b.StartUs, m.Instance.Jobs[b.job].ID)
		}
		slices.SortStableFunc(free, func(x, y int) int {
			return cmp.Or(-compareBool(last[x] == b.job, last[y] == b.job), cmp.Compare(until[y], until[x]))
		})
		for _, g := range free[:b.Width] {
			until[g], last[g] = b.EndUs(), b.job
			appendOwnEntry(&lanes[first+g], b, m.Jobs[b.job].FirstRound)
		}
	}
	return nil
}

// staysAfterRunning reports whether a block stays on GPU g from the end of the work that runs there at time 0.
// The block holds the GPU from that end on even where the GPU's first window opens later.
func staysAfterRunning(m *model.Model, b jobBlock, g int, lanes []hare.Lane) bool {
	return b.Stays && len(lanes[g].Job) == 0 && b.TakenFromUs() >= m.Jobs[b.job].RunsUntilUs &&
		slices.Contains(m.Jobs[b.job].RunsOn, int32(g))
}
