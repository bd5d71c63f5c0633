package history

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// completeNodes adds the nodes that only jobs name, with the most GPUs that jobs had there at once, or
// as many as the numbers of their GPUs need.
func (b *builder) completeNodes() {
	b.index = make(map[string]int, len(b.nodes))
	for i := range b.nodes {
		b.index[b.nodes[i].Name] = i
	}
	type pool struct{ node, gpuType string }
	edges := map[pool][]edge{}
	numbered := map[pool]int64{} // one more than the highest number of a GPU there
	var pools []pool
	for _, j := range b.jobs {
		for _, h := range j.On {
			i, known := b.index[h.Node]
			if known && len(b.nodes[i].GPUs) > 0 {
				continue
			}
			gpus := h.GPUs
			if gpus == 0 {
				gpus = (j.GPUs + int64(len(j.On)) - 1) / int64(len(j.On))
			}
			p := pool{h.Node, cmp.Or(h.Type, j.Type, untyped)}
			if edges[p] == nil {
				pools = append(pools, p)
				b.rep.assume("a node that the lists of nodes do not have, or without its GPUs: has as many GPUs as jobs "+
					"held there at once", h.Node)
			}
			edges[p] = append(edges[p], edge{j.startUs, gpus}, edge{j.endUs, -gpus})
			for _, n := range h.Numbers {
				numbered[p] = max(numbered[p], int64(n)+1)
			}
		}
	}
	for _, p := range pools {
		most := max(numbered[p], mostHeld(edges[p], 0))
		i, known := b.index[p.node]
		if !known {
			i = len(b.nodes)
			b.index[p.node] = i
			b.nodes = append(b.nodes, Node{Name: p.node})
		}
		b.nodes[i].GPUs = slices.Clone(b.nodes[i].GPUs)
		b.nodes[i].addGPUs(p.gpuType, int(min(most, hare.MaxGPUs)))
	}
}

// edge says that jobs hold so many GPUs more from a time on, or fewer where gpus is negative.
type edge struct{ atUs, gpus int64 }

// mostHeld returns how many GPUs jobs held at once at most, by the edges from a time on. It sorts the edges: GPUs that
// are given back at a time are free for those who take them then.
func mostHeld(edges []edge, fromUs int64) (most int64) {
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.gpus, b.gpus))
	})
	held := int64(0)
	for _, e := range edges {
		if held += e.gpus; e.atUs >= fromUs {
			most = max(most, held)
		}
	}
	return most
}

// lane is a GPU while jobs are placed.
type lane struct {
	gpuType string
	untilUs int64
}

// place finds the GPUs of each job, in order of start: those whose numbers the log tells, else the
// first that are free.
func (b *builder) place() {
	lanes := make([][]lane, len(b.nodes))
	for i := range b.nodes {
		for _, g := range b.nodes[i].GPUs {
			for range g.Count {
				lanes[i] = append(lanes[i], lane{gpuType: g.Type})
			}
		}
	}
	free := func(j *placedJob, h Held) (free int64) {
		for _, g := range lanes[b.index[h.Node]] {
			if g.untilUs <= j.startUs && (h.Type == "" || g.gpuType == h.Type) {
				free++
			}
		}
		return free
	}
	for _, j := range placeOrder(b.jobs) {
		on := j.On
		if slices.ContainsFunc(on, func(h Held) bool { return h.Assumed && free(j, h) < h.GPUs }) {
			on = slices.Clone(on)
			for x := range on {
				on[x].GPUs = 0
			}
		}
		left := j.GPUs
		for _, h := range on {
			left -= h.GPUs
		}
		for x, h := range on {
			node := b.index[h.Node]
			want := h.GPUs
			if want == 0 { // what is left, over the nodes that follow, as many as are free here
				follow := int64(0)
				for _, other := range on[x+1:] {
					if other.GPUs == 0 {
						follow++
					}
				}
				want = max(1, min(free(j, h), left-follow))
				if follow == 0 {
					want = max(1, left)
				}
				left -= want
			}
			b.take(j, node, h, want, &lanes[node])
		}
	}
}

// placeOrder returns the jobs in order of start. Among jobs with the same start, those stand first of which the log
// tells how many GPUs they had on each node, then those of which this is assumed; the others get what these leave.
func placeOrder(jobs []*placedJob) []*placedJob {
	order := slices.Clone(jobs)
	unknown := func(j *placedJob) int {
		switch {
		case j.GPUs == int64(len(j.On)): // one on each
			return 0
		case slices.ContainsFunc(j.On, func(h Held) bool { return h.GPUs == 0 }):
			return 2
		case slices.ContainsFunc(j.On, func(h Held) bool { return h.Assumed }):
			return 1
		}
		return 0
	}
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && order[to].startUs == order[from].startUs {
			to++
		}
		slices.SortStableFunc(order[from:to], func(a, c *placedJob) int { return cmp.Compare(unknown(a), unknown(c)) })
		from = to
	}
	return order
}

// take gives a job so many GPUs of a node.
func (b *builder) take(j *placedJob, node int, h Held, want int64, lanes *[]lane) {
	hold := func(gpu int) {
		(*lanes)[gpu].untilUs = max((*lanes)[gpu].untilUs, j.endUs)
		j.lanes = append(j.lanes, laneRef{node, gpu, (*lanes)[gpu].gpuType})
	}
	if cap(b.taken) < len(*lanes) {
		b.taken = make([]bool, len(*lanes))
	}
	taken := b.taken[:len(*lanes)]
	clear(taken)
	j.lanes = slices.Grow(j.lanes, int(min(want, int64(len(*lanes)))))
	for _, n := range h.Numbers {
		if n < len(*lanes) && (*lanes)[n].untilUs <= j.startUs {
			taken[n] = true
			hold(n)
			want--
			continue
		}
		b.rep.doubt("a GPU that another job still held, or that the node does not have: the job gets a GPU of another "+
			"number than the log says where one is free", j.Place)
	}
	other := false
	for pass := 0; pass < 2 && want > 0; pass++ {
		for gpu := range *lanes {
			g := &(*lanes)[gpu]
			if want > 0 && !taken[gpu] && g.untilUs <= j.startUs && (pass == 1 || h.Type == "" || h.Type == g.gpuType) {
				taken[gpu] = true
				hold(gpu)
				want--
				other = other || pass == 1 && h.Type != g.gpuType && h.Type != ""
			}
		}
	}
	if other {
		b.rep.doubt("had GPUs of a type that its node does not have today, or has not free: counts as run on the node's",
			j.Place)
	}
	if want <= 0 {
		return
	}
	// Not as many GPUs were free as the log says that the job had.
	order := make([]int, 0, len(*lanes))
	for gpu := range *lanes {
		if !taken[gpu] {
			order = append(order, gpu)
		}
	}
	slices.SortStableFunc(order, func(a, c int) int { return cmp.Compare((*lanes)[a].untilUs, (*lanes)[c].untilUs) })
	for _, gpu := range order {
		if want > 0 {
			b.rep.doubt("a GPU that another job still held, by the log: the two overlap", j.Place)
			hold(gpu)
			want--
		}
	}
	for ; want > 0; want-- {
		b.rep.doubt("a GPU that the node does not have: left out of the job", j.Place)
	}
}
