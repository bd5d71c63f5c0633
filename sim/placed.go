package sim

import "github.com/hare-sched/hare"

// together reports whether the tasks of a job's round begin once all of them have their GPUs, since their times
// go by where they are.
func (e *engine) together(ji int32) bool {
	return e.levels && e.hasLevels(ji) || e.placed.us != nil && e.inst.Jobs[ji].Sync != hare.Relaxed
}

// setPlaced gives the tasks of a round that was launched the time of their placement.
func (e *engine) setPlaced(ji int32) {
	j, p := &e.jobs[ji], &e.placed
	p.nodes = p.nodes[:0]
	kind := ""
	for _, s := range j.tasks {
		g := &e.model.GPUs[e.slots[s-1].gpu]
		p.nodes = append(p.nodes, g.Node)
		kind = e.model.Types[g.Type]
	}
	us := p.us(int(ji), p.nodes, kind)
	if us <= 0 {
		return
	}
	for _, s := range j.tasks {
		t := &e.slots[s-1]
		e.takeTimes(t, min(t.computeUs, us), max(0, us-t.computeUs))
	}
}
