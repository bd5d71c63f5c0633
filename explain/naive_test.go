package explain_test

import (
	"fmt"

	"github.com/hare-sched/hare"
)

// naive is an independent reading of a schedule: the jobs that hold each GPU, and when.
type naive struct {
	inst *hare.Instance
	gpus []naiveGPU
}

type naiveGPU struct {
	kind            string
	service, usable []hare.Window
	held            []naiveHold
}

type naiveHold struct {
	job      string
	from, to int64
	setup    int64 // before from
	switchUs int64 // the setup that the work would need after other work
}

func newNaive(inst *hare.Instance, s *hare.Schedule) *naive {
	n := &naive{inst: inst}
	at := map[string]int{}
	for _, node := range inst.Cluster.Nodes {
		index := 0
		for _, g := range node.GPUs {
			for range g.Count {
				x := naiveGPU{kind: g.Type, service: node.Windows}
				if x.service == nil {
					x.service = []hare.Window{{EndUs: hare.Forever}}
				}
				busy := int64(0)
				for _, b := range node.Busy {
					if b.GPU == index {
						busy = b.UntilUs
					}
				}
				for _, w := range x.service {
					if w.StartUs = max(w.StartUs, busy); w.StartUs < w.EndUs {
						x.usable = append(x.usable, w)
					}
				}
				at[fmt.Sprintf("%s/%d", node.Name, index)] = len(n.gpus)
				n.gpus = append(n.gpus, x)
				index++
			}
		}
	}
	// The slowest task of each round of a gang ends its hold.
	type round struct {
		job string
		n   int64
	}
	slowest := map[round]int64{}
	each := func(f func(gpu int, job *hare.Job, p hare.Profile, e hare.Entry)) {
		for _, l := range s.Lanes {
			for i := range l.Job {
				e := l.Entry(i)
				for x := range inst.Jobs {
					if j := &inst.Jobs[x]; j.ID == s.Jobs[e.Job] {
						for _, p := range j.On {
							if p.Type == n.gpus[at[l.GPU]].kind {
								f(at[l.GPU], j, p, e)
							}
						}
					}
				}
			}
		}
	}
	each(func(_ int, j *hare.Job, p hare.Profile, e hare.Entry) {
		for r := range e.Rounds {
			k := round{j.ID, e.Round + r}
			slowest[k] = max(slowest[k], p.DurationUs())
		}
	})
	each(func(g int, j *hare.Job, p hare.Profile, e hare.Entry) {
		hold := e.Tasks * p.ComputeUs
		if j.Sync != hare.Relaxed {
			hold = slowest[round{j.ID, e.Round + e.Rounds - 1}]
		}
		held, setup := n.gpus[g].held, p.SwitchUs
		if len(held) > 0 && held[len(held)-1].job == j.ID {
			setup = 0
		}
		n.gpus[g].held = append(held, naiveHold{j.ID, e.StartUs, e.StartUs + (e.Rounds-1)*e.PeriodUs + hold, setup,
			p.SwitchUs})
	})
	return n
}

// isFree reports whether GPU g is in service and not busy throughout [from, to], and held by no job
// except own.
func (n *naive) isFree(g int, own string, from, to int64) bool {
	in := false
	for _, w := range n.gpus[g].usable {
		in = in || w.StartUs <= from && to <= w.EndUs && from < w.EndUs
	}
	for _, h := range n.gpus[g].held {
		if h.job != own && h.from-h.setup < max(to, from+1) && from < h.to {
			return false
		}
	}
	return in
}

// isReady reports whether work of j could start on GPU g at t and last until then, with a setup before and a setup
// of what follows.
func (n *naive) isReady(g int, j *hare.Job, switchUs, t, until int64) bool {
	before := ""
	for _, h := range n.gpus[g].held {
		if h.from < t {
			before = h.job
		} else if h.job != j.ID && h.from-h.switchUs < until && until > t {
			return false
		}
	}
	if before == j.ID {
		switchUs = 0
	}
	return t-switchUs >= j.ReleaseUs && n.isFree(g, j.ID, t-switchUs, max(t+1, until))
}

// cause returns why a round of j that may start at t does not start on these types, and
// how many GPUs are free.
func (n *naive) cause(j *hare.Job, types []hare.Profile, t int64) (cause string, free int64) {
	need := j.Tasks
	if j.Sync == hare.Relaxed {
		need = 1
	}
	var service, usable int64
	holds := map[int64]int64{}
	for g := range n.gpus {
		x := &n.gpus[g]
		for _, p := range types {
			if p.Type != x.kind {
				continue
			}
			hold := p.DurationUs()
			switch j.Sync {
			case hare.Relaxed:
				hold = p.ComputeUs
			case hare.Rigid:
				hold *= j.Rounds
			}
			for _, w := range x.service {
				if w.StartUs <= t && t < w.EndUs {
					service++
				}
			}
			for _, w := range x.usable {
				if w.StartUs <= t && t < w.EndUs {
					usable++
				}
			}
			if n.isFree(g, j.ID, t, t) {
				free++
			}
			for _, q := range types { // each type may be the slowest of the gang
				if d := q.DurationUs(); j.Mix && d >= hold && n.isFree(g, j.ID, t, t+d) {
					holds[d]++
				}
			}
			if !j.Mix && n.isFree(g, j.ID, t, t+hold) {
				holds[hold]++
			}
		}
	}
	for _, c := range holds {
		if c >= need {
			return "choice", free
		}
	}
	switch {
	case service < need:
		return "no_service", free
	case usable < need:
		return "busy", free
	case free < need:
		return "held", free
	}
	return "too_short", free
}
