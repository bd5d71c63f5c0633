package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// randomNodes makes a small instance in which nodes matter: nodes of one or two types, with
// CPUs, memory, labels, windows of service and busy GPUs, and jobs of every kind.
func randomNodes(r *rand.Rand, nodes, jobs int) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}
	for n := range nodes {
		node := hare.Node{Name: fmt.Sprint("n", n)}
		k := r.IntN(2)
		node.GPUs = append(node.GPUs, hare.TypeCount{Type: types[k], Count: 1 + r.IntN(4)})
		if k == 0 && r.IntN(4) == 0 {
			node.GPUs = append(node.GPUs, hare.TypeCount{Type: "B", Count: 1 + r.IntN(2)})
		}
		if r.IntN(3) == 0 {
			node.CPUMilli = 1000 * int64(1+r.IntN(8))
		}
		if r.IntN(3) == 0 {
			node.MemoryMiB = int64(1 + r.IntN(8))
		}
		if r.IntN(2) == 0 {
			node.Labels = []hare.Label{{Name: "disk", Value: []string{"ssd", "hdd"}[r.IntN(2)]}}
		}
		switch r.IntN(6) {
		case 0:
			node.Windows = []hare.Window{{StartUs: int64(r.IntN(4)), EndUs: hare.Forever}}
		case 1:
			node.Windows = []hare.Window{{StartUs: 0, EndUs: int64(1 + r.IntN(12))},
				{StartUs: 14, EndUs: hare.Forever}}
		case 2:
			node.Busy = []hare.Busy{{GPU: r.IntN(node.GPUs[0].Count), UntilUs: int64(1 + r.IntN(5))}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range jobs {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: int64(1+r.IntN(5)) * 1e6, ReleaseUs: int64(r.IntN(6)),
			Rounds: int64(1 + r.IntN(3)), Tasks: int64(1 + r.IntN(3)), Sync: hare.Sync(r.IntN(3)),
			GPUsPerTask: int64(r.IntN(4))}
		if j.Sync == hare.Gang {
			j.Mix = r.IntN(3) == 0
		}
		if j.Sync != hare.Relaxed {
			j.DistinctNodes = r.IntN(4) == 0
		}
		if r.IntN(3) == 0 {
			j.CPUMilliPerTask = int64(r.IntN(3000))
		}
		if r.IntN(3) == 0 {
			j.MemoryMiBPerTask = int64(r.IntN(4))
		}
		switch r.IntN(6) {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"ssd"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
		}
		for _, k := range types {
			if r.IntN(4) > 0 || k == "B" && len(j.On) == 0 {
				j.On = append(j.On, hare.Profile{Type: k, ComputeUs: int64(1 + r.IntN(4)), SyncUs: int64(r.IntN(2))})
			}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// checkOnNodes is a plain check of every rule of docs/reference/model.md, round by round and microsecond by
// microsecond. It returns the completion times.
func checkOnNodes(inst *hare.Instance, s *hare.Schedule) (ends []int64, err error) {
	type held struct {
		node, gpu  int
		from, till int64
	}
	type taskAt struct {
		node int
		typ  string
		e    hare.Entry
	}
	nodes := map[string]int{}
	for n := range inst.Cluster.Nodes {
		nodes[inst.Cluster.Nodes[n].Name] = n
	}
	gpus := map[[2]int][]held{}
	equal := make([]map[taskAt]int64, len(inst.Jobs)) // by job: how many equal entries
	for i := range equal {
		equal[i] = map[taskAt]int64{}
	}
	used := map[[2]int64][2]int64{} // CPUs and memory by node and time
	m := model.New(inst)
	quotas := addRunning(m, nodes, used)
	for _, mj := range m.Jobs {
		for _, g := range mj.RunsOn {
			at := [2]int{m.GPUs[g].Node, int(g) - firstGPU(m, m.GPUs[g].Node)}
			gpus[at] = append(gpus[at], held{at[0], at[1], 0, mj.RunsUntilUs})
		}
	}
	for _, l := range s.Lanes {
		at := strings.LastIndexByte(l.GPU, '/')
		n := nodes[l.GPU[:at]]
		var g int
		if _, err := fmt.Sscan(l.GPU[at+1:], &g); err != nil {
			return nil, err
		}
		node := &inst.Cluster.Nodes[n]
		typ, left := "", g
		for _, c := range node.GPUs {
			if typ == "" && left < c.Count {
				typ = c.Type
			}
			left -= c.Count
		}
		for x := range l.Job {
			e := l.Entry(x)
			j := &inst.Jobs[e.Job]
			p := slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == typ })
			if p < 0 || !j.AllowsNode(node) {
				return nil, fmt.Errorf("%s on %s is not allowed", j.ID, l.GPU)
			}
			hold := j.On[p].ComputeUs * e.Tasks
			if j.Sync != hare.Relaxed {
				hold = j.On[p].ComputeUs + j.On[p].SyncUs
				if e.Rounds > 1 {
					hold = max(hold, e.PeriodUs)
				}
			}
			end := e.StartUs + (e.Rounds-1)*e.PeriodUs + hold
			open := node.Windows == nil
			for _, w := range node.Windows {
				open = open || w.StartUs <= e.StartUs && end <= w.EndUs
			}
			for _, b := range node.Busy {
				open = open && !(b.GPU == g && e.StartUs < b.UntilUs)
			}
			for _, r := range inst.Cluster.Reservations {
				open = open && (!r.Holds(node) || r.Admits(j) || end <= r.FromUs || r.UntilUs <= e.StartUs)
			}
			quotas.hold(m, int(e.Job), typ, e.StartUs, end)
			if !open || e.StartUs < max(j.ReleaseUs, m.Jobs[e.Job].RunsUntilUs) {
				return nil, fmt.Errorf("%s on %s at %d is out of service or not released", j.ID, l.GPU, e.StartUs)
			}
			gpus[[2]int{n, g}] = append(gpus[[2]int{n, g}], held{n, g, e.StartUs, end})
			e2 := e
			e2.Job = 0
			equal[e.Job][taskAt{n, typ, e2}]++
		}
	}
	for at, hs := range gpus {
		slices.SortFunc(hs, func(a, b held) int { return int(a.from - b.from) })
		for i := 1; i < len(hs); i++ {
			if hs[i].from < hs[i-1].till {
				return nil, fmt.Errorf("GPU %v holds two tasks at %d", at, hs[i].from)
			}
		}
	}
	ends = make([]int64, len(inst.Jobs))
	begins := make([]int64, len(inst.Jobs))
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		done, first, last := make([]int64, j.Rounds), make([]int64, j.Rounds), make([]int64, j.Rounds)
		onNode := make([]map[int]int64, j.Rounds)
		kinds := make([]map[string]bool, j.Rounds)
		starts := make([]map[int64]bool, j.Rounds)
		from := m.Jobs[i].FirstRound
		for r := range done {
			first[r], onNode[r], kinds[r], starts[r] = room.Never, map[int]int64{}, map[string]bool{}, map[int64]bool{}
		}
		for t, n := range equal[i] {
			g := j.TaskGPUs()
			if n%g != 0 {
				return nil, fmt.Errorf("%s has %d equal entries on a node, not a multiple of %d", j.ID, n, g)
			}
			p := j.On[slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == t.typ })]
			for r := t.e.Round; r < t.e.Round+t.e.Rounds; r++ {
				start := t.e.StartUs + (r-t.e.Round)*t.e.PeriodUs
				done[r] += n / g * t.e.Tasks
				onNode[r][t.node] += n / g * t.e.Tasks
				kinds[r][t.typ], starts[r][start] = true, true
				first[r], last[r] = min(first[r], start), max(last[r], start+t.e.Tasks*p.ComputeUs+p.SyncUs)
			}
			till := t.e.StartUs + (t.e.Rounds-1)*t.e.PeriodUs + t.e.Tasks*p.ComputeUs
			if j.Sync != hare.Relaxed {
				till += p.SyncUs
				if t.e.Rounds == 1 {
					till = max(till, last[t.e.Round])
				}
			}
			for at := t.e.StartUs; at < till; at++ {
				u := used[[2]int64{int64(t.node), at}]
				u[0] += n / g * j.CPUMilliPerTask
				u[1] += n / g * j.MemoryMiBPerTask
				used[[2]int64{int64(t.node), at}] = u
			}
		}
		for r := range done {
			if int64(r) < from {
				if done[r] > 0 {
					return nil, fmt.Errorf("round %d of %s was done or runs", r, j.ID)
				}
				continue
			}
			if done[r] != j.Tasks {
				return nil, fmt.Errorf("round %d of %s has %d tasks", r, j.ID, done[r])
			}
			if int64(r) > from && first[r] < last[r-1] {
				return nil, fmt.Errorf("round %d of %s starts too early", r, j.ID)
			}
			if j.Sync == hare.Relaxed {
				continue
			}
			if len(starts[r]) != 1 || len(kinds[r]) > 1 && !j.Mix {
				return nil, fmt.Errorf("round %d of %s is no gang", r, j.ID)
			}
			for _, n := range onNode[r] {
				if j.DistinctNodes && n > 1 {
					return nil, fmt.Errorf("round %d of %s has two tasks on a node", r, j.ID)
				}
			}
			if j.Sync == hare.Rigid && (int64(r) > from && first[r] != last[r-1] || len(kinds[r]) != 1) {
				return nil, fmt.Errorf("%s is not rigid", j.ID)
			}
		}
		ends[i] = last[j.Rounds-1]
		if from == j.Rounds {
			ends[i] = m.Jobs[i].RunsUntilUs
		}
		begins[i] = room.Never
		for _, at := range first {
			begins[i] = min(begins[i], at)
		}
	}
	for i := range m.Jobs {
		for _, p := range m.Jobs[i].After {
			if begins[i] < ends[p.Job]+p.LagUs {
				return nil, fmt.Errorf("%s starts at %d, before %s has ended", inst.Jobs[i].ID, begins[i],
					inst.Jobs[p.Job].ID)
			}
		}
	}
	if err := quotas.check(m); err != nil {
		return nil, err
	}
	for at, u := range used {
		n := &inst.Cluster.Nodes[at[0]]
		if n.CPUMilli > 0 && u[0] > n.CPUMilli || n.MemoryMiB > 0 && u[1] > n.MemoryMiB {
			return nil, fmt.Errorf("node %s lacks CPUs or memory at %d: %v", n.Name, at[1], u)
		}
	}
	return ends, nil
}

// mustPass checks the schedule of a plan and that the plan knows its ends.
func mustPass(t *testing.T, m *model.Model, p *place.Plan, what string) {
	t.Helper()
	s, err := p.Schedule(m)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	ends, err := checkOnNodes(m.Instance, s)
	if err != nil {
		t.Fatalf("%s: %v\n%+v", what, err, m.Instance)
	}
	if !slices.Equal(ends, p.EndUs) {
		t.Fatalf("%s: the plan says %v, the schedule ends at %v", what, p.EndUs, ends)
	}
}

// feasibleNodes makes random instances in which nodes matter and every job can run.
func feasibleNodes(r *rand.Rand, nodes, jobs int) (*hare.Instance, *model.Model) {
	for {
		inst := randomNodes(r, nodes, jobs)
		if err := inst.Validate(); err != nil {
			panic(err)
		}
		m := model.New(inst)
		if m.Placed && len(place.Infeasible(m)) == 0 {
			return inst, m
		}
	}
}

func TestListSchedulesOnNodesAreFeasible(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 60 // the goroutines of Schedule are the same for each
	}
	placed := 0
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		_, m := feasibleNodes(r, 1+r.IntN(4), 1+r.IntN(6))
		kind := []string{"wspt", "arrival"}[seed%2]
		big := make([]bool, len(m.Jobs))
		for i := range big {
			big[i] = m.Jobs[i].Sync == hare.Relaxed && r.IntN(3) == 0
		}
		nb := place.NewBoard(m, room.NewLayout(m))
		nb.Runs = big
		p, err := nb.Assign(context.Background(), place.OrderWithRuns(m, nil, kind, big))
		if err != nil {
			continue // windows may leave no place
		}
		placed++
		mustPass(t, m, p, fmt.Sprint("seed ", seed))
		s, _ := p.Schedule(m)
		if q := place.FromSchedule(m, s); !slices.Equal(q.EndUs, p.EndUs) {
			t.Fatalf("seed %d: read back, the plan ends at %v instead of %v", seed, q.EndUs, p.EndUs)
		}
	}
	if placed < n*9/10 {
		t.Errorf("only %d of %d instances got a plan", placed, n)
	}
}
