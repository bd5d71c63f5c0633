package place

import (
	"fmt"
	"math/bits"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// packsNodes reports whether it matters which GPUs of a class a block gets: whether the
// class has several nodes and runs a gang or rigid job with several GPUs, whose tasks
// communicate in every round.
func packsNodes(m *model.Model, c int, blocks []jobBlock) bool {
	gpus := m.Classes[c].GPUs
	if len(gpus) == 0 || m.GPUs[gpus[0]].Node == m.GPUs[gpus[len(gpus)-1]].Node { // GPUs are in order of nodes
		return false
	}
	for i := range blocks {
		if blocks[i].Width > 1 && m.Jobs[blocks[i].job].Sync != hare.Relaxed {
			return true
		}
	}
	return false
}

// moreSwitches is the share by which the number of switches may grow if jobs use fewer
// nodes.
const moreSwitches = 0.01

// colourFewNodes replaces the lanes of a class, which colour made, by the lanes of
// colourNodes if jobs use fewer nodes there and GPUs hardly change jobs more often.
// Neither function is always better, because colour takes the next free GPU and
// colourNodes a GPU of the best node.
func colourFewNodes(m *model.Model, c int, blocks []jobBlock, lanes []hare.Lane) error {
	gpus := m.Classes[c].GPUs
	packed := make([]hare.Lane, len(gpus))
	for g, x := range gpus {
		packed[g].GPU = lanes[x].GPU
	}
	if err := colourNodes(m, c, blocks, packed); err != nil {
		return err
	}
	nodes, switches := spread(m, gpus, func(g int) *hare.Lane { return &packed[g] })
	nodesBefore, switchesBefore := spread(m, gpus, func(g int) *hare.Lane { return &lanes[gpus[g]] })
	if nodes < nodesBefore && float64(switches) <= (1+moreSwitches)*float64(switchesBefore) {
		for g, x := range gpus {
			lanes[x] = packed[g]
		}
	}
	return nil
}

// spread counts the nodes that each gang or rigid job uses, and how often a GPU changes
// its job.
func spread(m *model.Model, gpus []int32, lane func(g int) *hare.Lane) (nodes, switches int) {
	seen := make([]int, len(m.Jobs)) // the last node that was counted for each job, plus 1
	for g, x := range gpus {
		l, node := lane(g), m.GPUs[x].Node+1
		for e, job := range l.Job {
			if e > 0 && l.Job[e-1] != job {
				switches++
			}
			if m.Jobs[job].Sync != hare.Relaxed && seen[job] != node { // GPUs are in order of nodes
				seen[job] = node
				nodes++
			}
		}
	}
	return nodes, switches
}

// colourNodes is colour for GPUs on several nodes, with the lanes of one class. A block
// gets the free GPUs that last ran its job, then free GPUs of the nodes where the block
// has GPUs already, and for the rest GPUs of the node whose free GPUs are the fewest that
// suffice (best fit), or of the node with the most free GPUs if none suffices. Whole
// nodes therefore stay free for wide jobs, and a job uses few nodes. It takes
// O(blocks · width · log).
func colourNodes(m *model.Model, c int, blocks []jobBlock, lanes []hare.Lane) error {
	gpus := m.Classes[c].GPUs
	idle := newNodePool(m, gpus)
	last := make([]int32, len(gpus)) // the job that ran last, −1 at first
	for g := range last {
		last[g] = -1
	}
	left := make([]int32, len(m.Jobs)) // the blocks of each job that are still to come
	for i := range blocks {
		left[blocks[i].job]++
	}
	byJob := make([][]int32, len(m.Jobs)) // stacks of GPUs by the job that they ran last; some are no longer free
	var busy eventHeap                    // the busy GPUs by the time at which they become free
	var chosen []int32
	for _, b := range blocks {
		for len(busy) > 0 && busy[0].time <= b.StartUs {
			g := busy.pop().at
			idle.put(g, left[last[g]] > 0)
			byJob[last[g]] = append(byJob[last[g]], g)
		}
		if b.Width > idle.total {
			return fmt.Errorf("greedy: class %d has no free GPU at %d µs for job %q", c, b.StartUs,
				m.Instance.Jobs[b.job].ID)
		}
		chosen = chosen[:0]
		missing := func() int32 { return b.Width - int32(len(chosen)) }
		for own := byJob[b.job]; len(own) > 0 && missing() > 0; {
			if g := own[len(own)-1]; idle.free[g] && last[g] == b.job {
				idle.remove(g)
				chosen = append(chosen, g)
			}
			own = own[:len(own)-1]
			byJob[b.job] = own
		}
		for i := 0; i < len(chosen) && missing() > 0; i++ {
			if n := idle.nodeOf[chosen[i]]; idle.count[n] > 0 {
				chosen = idle.take(n, missing(), chosen)
			}
		}
		for missing() > 0 {
			chosen = idle.take(idle.fitting(missing()), missing(), chosen)
		}
		left[b.job]--
		for _, g := range chosen {
			last[g] = b.job
			busy.push(event{b.EndUs(), g})
			appendEntry(&lanes[g], b, m.Jobs[b.job].FirstRound)
		}
	}
	return nil
}

// nodePool holds the free GPUs of a class by node, and the nodes by their number of free
// GPUs.
type nodePool struct {
	nodeOf []int32 // by GPU of the class
	free   []bool  // by GPU of the class
	total  int32   // the number of free GPUs

	// unwanted and wanted are stacks of GPUs by node, with the GPU that became free last on
	// top; some of the GPUs are no longer free. A GPU is wanted if the job that ran last on
	// it has further blocks, which would have to move if another job took the GPU.
	unwanted, wanted [][]int32
	count            []int32 // by node: the number of free GPUs

	// The nodes with n free GPUs are a doubly linked list that begins with first[n]; −1 ends
	// a list.
	first, next, previous []int32
	filled                []uint64 // a bit for each n whose list is not empty
}

func newNodePool(m *model.Model, gpus []int32) *nodePool {
	p := &nodePool{nodeOf: make([]int32, len(gpus)), free: make([]bool, len(gpus))}
	size, most := int32(0), int32(0)
	for g, x := range gpus {
		if g == 0 || m.GPUs[x].Node != m.GPUs[gpus[g-1]].Node {
			p.count, size = append(p.count, 0), 0
		}
		size++
		most = max(most, size)
		p.nodeOf[g] = int32(len(p.count) - 1)
	}
	p.unwanted, p.wanted = make([][]int32, len(p.count)), make([][]int32, len(p.count))
	p.next, p.previous = make([]int32, len(p.count)), make([]int32, len(p.count))
	p.first = make([]int32, most+1)
	p.filled = make([]uint64, most/64+1)
	for n := range p.first {
		p.first[n] = -1
	}
	for n := len(p.count) - 1; n >= 0; n-- {
		p.link(int32(n))
	}
	for g := len(gpus) - 1; g >= 0; g-- {
		p.put(int32(g), false)
	}
	return p
}

// put makes a GPU free.
func (np *nodePool) put(g int32, wanted bool) {
	n := np.nodeOf[g]
	np.free[g] = true
	to := np.unwanted
	if wanted {
		to = np.wanted
	}
	to[n] = append(to[n], g)
	np.add(n, 1)
}

// remove takes a free GPU. The GPU's entry in the stack of its node is skipped later.
func (np *nodePool) remove(g int32) {
	np.free[g] = false
	np.add(np.nodeOf[g], -1)
}

// take appends at most this many free GPUs of a node to chosen.
func (np *nodePool) take(n, most int32, chosen []int32) []int32 {
	taken := int32(0)
	for _, stacks := range [][][]int32{np.unwanted, np.wanted} {
		stack := stacks[n]
		for taken < most && len(stack) > 0 {
			if g := stack[len(stack)-1]; np.free[g] {
				np.free[g] = false
				chosen = append(chosen, g)
				taken++
			}
			stack = stack[:len(stack)-1]
		}
		stacks[n] = stack
	}
	np.add(n, -taken)
	return chosen
}

// fitting returns the node with the fewest free GPUs among the nodes with at least this
// many, or the node with the most free GPUs if there is none. Among equal nodes the one
// that changed last is returned.
func (np *nodePool) fitting(least int32) int32 {
	least = min(least, int32(len(np.first)-1))
	for i := least / 64; int(i) < len(np.filled); i++ {
		x := np.filled[i]
		if i == least/64 {
			x &= ^uint64(0) << (least % 64)
		}
		if x != 0 {
			return np.first[i*64+int32(bits.TrailingZeros64(x))]
		}
	}
	for i := len(np.filled) - 1; ; i-- {
		if x := np.filled[i]; x != 0 {
			return np.first[i*64+bits.Len64(x)-1]
		}
	}
}

// add moves a node to the list of the nodes with its new number of free GPUs.
func (np *nodePool) add(n, change int32) {
	at := np.count[n]
	if np.next[n] >= 0 {
		np.previous[np.next[n]] = np.previous[n]
	}
	if np.previous[n] >= 0 {
		np.next[np.previous[n]] = np.next[n]
	} else if np.first[at] = np.next[n]; np.first[at] < 0 {
		np.filled[at/64] &^= 1 << (at % 64)
	}
	np.count[n] += change
	np.total += change
	np.link(n)
}

// link puts a node before the others with its number of free GPUs.
func (np *nodePool) link(n int32) {
	at := np.count[n]
	np.previous[n], np.next[n] = -1, np.first[at]
	if np.first[at] >= 0 {
		np.previous[np.first[at]] = n
	}
	np.first[at] = n
	np.filled[at/64] |= 1 << (at % 64)
}
