package history

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// placeUnplaced finds GPUs for the jobs of tables that do not say where they ran: on the nodes that a table of
// nodes or ReadConfig.GPUs tells, else in one pool of the GPUs of each type. What is known of such a job is how
// many GPUs it had, so that each is a task unless the table says on how many nodes they were, or how many a task
// has.
func (l *tableReader) placeUnplaced() {
	jobs := l.unplaced
	l.unplaced = nil
	known := slices.ContainsFunc(l.Nodes, func(n Node) bool { return len(n.GPUs) > 0 })
	if !known {
		jobs = slices.DeleteFunc(jobs, func(u unplacedJob) bool { return !u.nowhere })
	}
	if len(jobs) == 0 {
		return
	}
	for _, u := range jobs {
		if j := &l.Jobs[u.at]; j.PerTask == 0 && (!known || j.Nodes == 0 || j.GPUs%j.Nodes != 0) {
			j.PerTask = 1
		}
	}
	if !known {
		for _, u := range jobs {
			l.inPool(&l.Jobs[u.at], u.ran)
		}
		return
	}
	p := newPlacer(l.Nodes)
	slices.SortStableFunc(jobs, func(a, b unplacedJob) int {
		x, y := &l.Jobs[a.at], &l.Jobs[b.at]
		return cmp.Or(cmp.Compare(x.StartUs, y.StartUs), strings.Compare(x.ID, y.ID))
	})
	tooLarge := map[int]bool{}
	for _, u := range jobs {
		j := &l.Jobs[u.at]
		if u.ran != "" && p.most(u.ran) == 0 {
			l.Report.doubt("the GPU type of the job is none of the types of the nodes that are given: counts as not told",
				j.Place)
			if strings.EqualFold(j.Type, u.ran) {
				j.Type = ""
			}
			u.ran = ""
		}
		if p.most(u.ran) < j.GPUs {
			l.Report.leaveOut("had more GPUs than the nodes that are given have together", j.Place)
			tooLarge[u.at] = true
			continue
		}
		l.Report.assume("the table does not say on which nodes jobs ran: they are placed on the nodes that are given, "+
			"those first that they fill best", j.Place)
		if j.On = p.place(j, u.ran); len(j.On) == 0 {
			l.Report.doubt("more jobs at once than the nodes that are given have GPUs: some share GPUs", j.Place)
			j.On = p.crowd(j, u.ran)
		}
	}
	kept := l.Jobs[:0]
	for i := range l.Jobs {
		if !tooLarge[i] {
			kept = append(kept, l.Jobs[i])
		}
	}
	l.Jobs = kept
}

// inPool places a job in the pool of its type, a node of its own.
func (l *tableReader) inPool(j *Job, ran string) {
	ran = cmp.Or(ran, j.Type, untyped)
	j.On = []Held{{Node: poolName(ran), Type: ran, GPUs: j.GPUs}}
	l.Report.assume("the table has no column nodes, and no nodes are given (by a table of nodes, or --gpus): the "+
		"GPUs of "+
		"each type are one pool, with as many as jobs held at once", j.Place)
}

func poolName(gpuType string) string { return "pool-" + strings.ToLower(gpuType) }

// placer gives jobs GPUs of nodes, in order of their starts.
type placer struct {
	slots []slot
	ends  endHeap
}

// slot is what is free of the GPUs of one type of a node, and of the node's CPUs and memory.
type slot struct {
	node     string
	gpuType  string
	gpus     int64
	free     int64
	cpu, mem *int64 // of the node; nil where it has no limit
}

func newPlacer(nodes []Node) *placer {
	p := &placer{}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range sorted {
		var cpu, mem *int64
		if n.CPUMilli > 0 {
			cpu = &n.CPUMilli
		}
		if n.MemoryMiB > 0 {
			mem = &n.MemoryMiB
		}
		for _, g := range n.GPUs {
			p.slots = append(p.slots, slot{n.Name, g.Type, int64(g.Count), int64(g.Count), cpu, mem})
		}
	}
	return p
}

// most is how many GPUs a job of a type may have, and of any type where that is not known.
func (p *placer) most(gpuType string) (gpus int64) {
	for _, s := range p.slots {
		if s.is(gpuType) {
			gpus += s.gpus
		}
	}
	return gpus
}

func (s *slot) is(gpuType string) bool { return gpuType == "" || strings.EqualFold(gpuType, s.gpuType) }

// room is how many GPUs of a slot a job can have: each takes its share of the job's CPUs and memory.
func (s *slot) room(cpu, mem int64) int64 {
	room := s.free
	if s.cpu != nil && cpu > 0 {
		room = min(room, *s.cpu/cpu)
	}
	if s.mem != nil && mem > 0 {
		room = min(room, *s.mem/mem)
	}
	return max(0, room)
}

// place takes GPUs for a job and returns where; nil if there are not enough. A job on so many nodes has as many
// GPUs on each. Of the others, those that fit have one node, and the rest the fewest.
func (p *placer) place(j *Job, ran string) []Held {
	p.release(j.StartUs)
	cpu, mem := j.CPUMilli/j.GPUs, j.MemoryMiB/j.GPUs
	types := []string{ran}
	if ran == "" {
		types = p.types()
	}
	for _, gpuType := range append(types, "") {
		if gpuType == "" && ran != "" {
			break
		}
		var with []int // slots with room, those with the least first
		for i := range p.slots {
			if s := &p.slots[i]; s.is(gpuType) && s.room(cpu, mem) > 0 {
				with = append(with, i)
			}
		}
		slices.SortStableFunc(with, func(a, b int) int {
			return cmp.Compare(p.slots[a].room(cpu, mem), p.slots[b].room(cpu, mem))
		})
		if on := p.even(j, with, cpu, mem); on != nil {
			return on
		}
		if on := p.fewest(j, with, cpu, mem); on != nil {
			return on
		}
	}
	return nil
}

// types are the GPU types of all slots, in order of appearance.
func (p *placer) types() (types []string) {
	for _, s := range p.slots {
		if !slices.Contains(types, s.gpuType) {
			types = append(types, s.gpuType)
		}
	}
	return types
}

// even gives as many GPUs of each of the job's nodes.
func (p *placer) even(j *Job, with []int, cpu, mem int64) []Held {
	nodes := max(1, j.Nodes)
	if j.GPUs%nodes != 0 {
		return nil
	}
	each := j.GPUs / nodes
	var chosen []int
	for _, i := range with {
		if s := &p.slots[i]; int64(len(chosen)) < nodes && s.room(cpu, mem) >= each &&
			!slices.ContainsFunc(chosen, func(c int) bool { return p.slots[c].node == s.node }) {
			chosen = append(chosen, i)
		}
	}
	if int64(len(chosen)) < nodes {
		return nil
	}
	var on []Held
	for _, i := range chosen {
		on = append(on, p.take(j, i, each, cpu, mem))
	}
	return sorted(on)
}

// fewest gives GPUs of the nodes with the most room.
func (p *placer) fewest(j *Job, with []int, cpu, mem int64) (on []Held) {
	left := j.GPUs
	for _, i := range slices.Backward(with) {
		if n := min(left, p.slots[i].room(cpu, mem)); n > 0 {
			on = append(on, p.take(j, i, n, cpu, mem))
			left -= n
		}
	}
	if left > 0 {
		for _, h := range on {
			p.give(h, cpu, mem)
		}
		return nil
	}
	return sorted(on)
}

// crowd puts a job on the first nodes of its type, though other jobs hold GPUs there.
func (p *placer) crowd(j *Job, ran string) (on []Held) {
	left := j.GPUs
	for i := range p.slots {
		if s := &p.slots[i]; s.is(ran) && left > 0 {
			n := min(left, s.gpus)
			on = append(on, Held{Node: s.node, Type: s.gpuType, GPUs: n})
			left -= n
		}
	}
	return sorted(on)
}

func sorted(on []Held) []Held {
	slices.SortStableFunc(on, func(a, b Held) int { return strings.Compare(a.Node, b.Node) })
	return on
}

// take takes GPUs of a slot until the job ends.
func (p *placer) take(j *Job, i int, gpus, cpu, mem int64) Held {
	s := &p.slots[i]
	s.free -= gpus
	if s.cpu != nil {
		*s.cpu -= gpus * cpu
	}
	if s.mem != nil {
		*s.mem -= gpus * mem
	}
	h := Held{Node: s.node, Type: s.gpuType, GPUs: gpus}
	heap.Push(&p.ends, heldUntil{cmp.Or(j.EndUs, hare.Forever), i, gpus, cpu, mem})
	return h
}

// give gives back what take took last.
func (p *placer) give(h Held, cpu, mem int64) {
	at := slices.IndexFunc(p.ends, func(e heldUntil) bool {
		return p.slots[e.slot].node == h.Node && p.slots[e.slot].gpuType == h.Type && e.gpus == h.GPUs && e.cpu == cpu &&
			e.mem == mem
	})
	p.back(heap.Remove(&p.ends, at).(heldUntil))
}

func (p *placer) back(e heldUntil) {
	s := &p.slots[e.slot]
	s.free += e.gpus
	if s.cpu != nil {
		*s.cpu += e.gpus * e.cpu
	}
	if s.mem != nil {
		*s.mem += e.gpus * e.mem
	}
}

// release gives back what ended until a time.
func (p *placer) release(atUs int64) {
	for len(p.ends) > 0 && p.ends[0].untilUs <= atUs {
		p.back(heap.Pop(&p.ends).(heldUntil))
	}
}

// heldUntil is what a job holds of a slot, with CPUs and memory a GPU.
type heldUntil struct {
	untilUs  int64
	slot     int
	gpus     int64
	cpu, mem int64
}

// endHeap has the earliest end first.
type endHeap []heldUntil

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(a, b int) bool { return h[a].untilUs < h[b].untilUs }
func (h endHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *endHeap) Push(e any)        { *h = append(*h, e.(heldUntil)) }
func (h *endHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
