package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// onNodesOf splits the nodes of an instance into nodes of at most most GPUs.
func onNodesOf(inst *hare.Instance, most int) {
	var nodes []hare.Node
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			for i := 0; g.Count > 0; i++ {
				part := n
				part.Name = fmt.Sprintf("%s-%s-%d", n.Name, g.Type, i)
				part.GPUs = []hare.TypeCount{{Type: g.Type, Count: min(g.Count, most)}}
				g.Count -= part.GPUs[0].Count
				nodes = append(nodes, part)
			}
		}
	}
	inst.Cluster.Nodes = nodes
}

// placement counts the nodes on which gang and rigid jobs run, and how often a GPU switches to
// another job.
type placement struct{ nodes, switches int }

func placementOf(t *testing.T, m *model.Model, s *hare.Schedule) (p placement) {
	t.Helper()
	type at struct {
		job  int32
		node string
	}
	seen := map[at]bool{}
	for _, l := range s.Lanes {
		node := l.GPU[:strings.LastIndexByte(l.GPU, '/')]
		for e, job := range l.Job {
			if e > 0 && job != l.Job[e-1] {
				p.switches++
			}
			if m.Jobs[job].Sync != hare.Relaxed && !seen[at{job, node}] {
				seen[at{job, node}] = true
				p.nodes++
			}
		}
	}
	return p
}

// On the frozen instances with servers of 4 and 8 GPUs, gang and rigid jobs run on no more nodes
// than if GPUs are chosen without regard to nodes. GPUs switch jobs hardly more often on any
// instance, and less often in total.
func TestJobsFillFewNodes(t *testing.T) {
	cases, err := GapSet(GapFigures, "../testdata/instances", nil)
	if err != nil {
		t.Fatal(err)
	}
	more, err := GapSet(GapSixty, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var all, allBlind placement
	for _, c := range append(cases, more...) {
		for _, size := range []int{4, 8} {
			inst, err := c.Make()
			if err != nil {
				t.Fatal(err)
			}
			if len(inst.Jobs) > 600 || !strings.Contains(c.Name, "gang") && !strings.Contains(c.Name, "rigid") &&
				!strings.Contains(c.Name, "mixed") {
				continue
			}
			onNodesOf(inst, size)
			m := model.New(inst)
			plan, err := greedy.Assign(t.Context(), m, greedy.Order(m, nil, "wspt"), greedy.Insertion)
			if err != nil {
				t.Fatal(err)
			}
			with, err := plan.Schedule(m)
			if err != nil {
				t.Fatal(err)
			}
			if value, _, faults := verify.ScheduleValue(inst, with); len(faults) > 0 || value.Cmp(plan.Value(m)) != 0 {
				t.Fatalf("%s: %v", c.Name, faults)
			}
			blindModel := *m
			blindModel.GPUs = append([]model.GPU(nil), m.GPUs...)
			for g := range blindModel.GPUs {
				blindModel.GPUs[g].Node = 0
			}
			blind, err := plan.Schedule(&blindModel)
			if err != nil {
				t.Fatal(err)
			}
			p, b := placementOf(t, m, with), placementOf(t, m, blind)
			if p.nodes > b.nodes || float64(p.switches) > 1.01*float64(b.switches) {
				t.Errorf("%s on nodes of %d: %+v, and %+v where nodes play no part", c.Name, size, p, b)
			}
			all = placement{all.nodes + p.nodes, all.switches + p.switches}
			allBlind = placement{allBlind.nodes + b.nodes, allBlind.switches + b.switches}
		}
	}
	if all.nodes >= allBlind.nodes || all.switches > allBlind.switches {
		t.Error("no gain")
	}
	t.Logf("nodes and switches: %+v, and %+v where nodes play no part", all, allBlind)
}
