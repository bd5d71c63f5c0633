package shadow

import (
	"cmp"
	"slices"
)

// instants is at how many times idle GPUs are looked at.
const instants = 2000

// idle says what the GPU time of each type was used for under a schedule, from the begin of the
// window to the last release of a job.
func (cp *comparison) idle(o *outcome) []Idle {
	c := newCluster(cp.inst)
	reqs := c.requests(cp.inst)
	starts, waits := make([]int, len(reqs)), make([]int, len(reqs))
	last := int64(1)
	for i := range reqs {
		starts[i], waits[i] = i, i
		last = max(last, cp.inst.Jobs[i].ReleaseUs)
	}
	slices.SortStableFunc(starts, func(a, b int) int { return cmp.Compare(o.startUs[a], o.startUs[b]) })
	slices.SortStableFunc(waits, func(a, b int) int {
		return cmp.Compare(cp.inst.Jobs[a].ReleaseUs, cp.inst.Jobs[b].ReleaseUs)
	})
	out := make([]Idle, len(c.types))
	service := make([]float64, len(c.types))
	running, waiting := []int{}, []int{}
	r, empty := newRoom(c), newRoom(c)
	for x := range instants {
		at := last * int64(2*x+1) / (2 * instants)
		for ; len(starts) > 0 && o.startUs[starts[0]] <= at; starts = starts[1:] {
			running = append(running, starts[0])
		}
		for ; len(waits) > 0 && cp.inst.Jobs[waits[0]].ReleaseUs <= at; waits = waits[1:] {
			waiting = append(waiting, waits[0])
		}
		running = slices.DeleteFunc(running, func(i int) bool { return o.endUs[i] <= at })
		waiting = slices.DeleteFunc(waiting, func(i int) bool { return o.startUs[i] <= at })
		r.copyFrom(empty)
		for n := range c.nodes {
			r.open[n] = c.opens(n, at)
			for k := range c.types {
				if r.open[n] {
					service[k] += float64(c.nodes[n].count[k])
				}
			}
		}
		for _, i := range running {
			best := fastest(&cp.inst.Jobs[i])
			for x, gpu := range o.gpus[i] {
				g := c.gpu[gpu]
				r.free[g.node][g.kind]--
				if x%int(reqs[i].gpus) == 0 {
					r.cpu[g.node] -= reqs[i].cpu
					r.memory[g.node] -= reqs[i].memory
				}
				out[g.kind].Held++
				out[g.kind].Slower += 1 - float64(best)/float64(max(best, reqs[i].durationUs[g.kind]))
			}
		}
		cp.blame(c, r, reqs, waiting, out)
	}
	for k := range out {
		t := &out[k]
		t.Type = c.types[k]
		for _, share := range []*float64{&t.Held, &t.Slower, &t.NoJob, &t.Order, &t.Fragmented, &t.Narrow} {
			if *share /= service[k]; service[k] == 0 {
				*share = 0
			}
		}
	}
	return out
}

// opens reports whether a node is in service.
func (c *cluster) opens(n int, atUs int64) bool {
	windows := c.nodes[n].spec.Windows
	for _, w := range windows {
		if w.StartUs <= atUs && atUs < w.EndUs {
			return true
		}
	}
	return windows == nil
}

// blame says of the GPUs that are free at one time why they are. Jobs of one shape count once.
func (cp *comparison) blame(c *cluster, r *room, reqs []request, waiting []int, out []Idle) {
	free := make([]float64, len(c.types))
	for n := range c.nodes {
		for k := range c.types {
			if r.open[n] {
				free[k] += float64(max(0, r.free[n][k]))
			}
		}
	}
	const none, narrow, fragmented, order = 0, 1, 2, 3
	why := make([]int, len(c.types))
	seen := map[string]bool{}
	for _, i := range waiting {
		req := &reqs[i]
		if seen[req.key] {
			continue
		}
		seen[req.key] = true
		for k := range c.types {
			if req.durationUs[k] == 0 || why[k] == order {
				continue
			}
			tasks, gpus := int64(0), int64(0)
			for _, n := range req.nodes {
				tasks += r.tasks(req, n, int32(k))
				if r.open[n] {
					gpus += max(0, r.free[n][k])
				}
			}
			switch {
			case tasks >= req.tasks:
				why[k] = order
			case gpus >= req.tasks*req.gpus:
				why[k] = max(why[k], fragmented)
			default:
				why[k] = max(why[k], narrow)
			}
		}
	}
	for k := range out {
		switch why[k] {
		case none:
			out[k].NoJob += free[k]
		case narrow:
			out[k].Narrow += free[k]
		case fragmented:
			out[k].Fragmented += free[k]
		default:
			out[k].Order += free[k]
		}
	}
}
