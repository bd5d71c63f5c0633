package greedy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
)

// nodeBrute finds the optimum of a tiny instance on nodes: in every order of units (a rigid
// job, a round of a gang, a task of a relaxed round) and for every choice of nodes and types,
// each unit starts as early as it can. Some order by start gives the optimum, because units
// that start earlier never get later.
type nodeBrute struct {
	m       *hare.Model
	free    [][]int64 // by GPU pool and microsecond
	cpus    [][]int64 // by node
	memory  [][]int64
	pools   []brutePool
	round   []int64
	tasks   []int64 // done in the round
	ready   []int64 // when the round may start
	end     []int64 // of the tasks of the round so far
	best    int64
	visited int
}

type brutePool struct{ node, typ int }

const bruteHorizon = 160

func newNodeBrute(m *hare.Model) *nodeBrute {
	n := len(m.Jobs)
	b := &nodeBrute{m: m, round: make([]int64, n), tasks: make([]int64, n), ready: make([]int64, n),
		end: make([]int64, n), best: never}
	for i := range m.Nodes {
		kind := &m.Kinds[m.Nodes[i].Kind]
		for _, t := range kind.GPUs {
			row := make([]int64, bruteHorizon)
			for at := range row {
				for _, s := range t.Steps {
					if s.FromUs <= int64(at) {
						row[at] = s.Count
					}
				}
			}
			b.free = append(b.free, row)
			b.pools = append(b.pools, brutePool{i, t.Type})
		}
		cpus, memory := make([]int64, bruteHorizon), make([]int64, bruteHorizon)
		for at := range cpus {
			cpus[at], memory[at] = limitOf(kind.CPUMilli), limitOf(kind.MemoryMiB)
		}
		b.cpus, b.memory = append(b.cpus, cpus), append(b.memory, memory)
	}
	for i := range m.Jobs {
		b.ready[i] = m.Jobs[i].ReleaseUs
	}
	return b
}

// run places units until all jobs are done. value is that of the jobs done so far.
func (b *nodeBrute) run(value int64) {
	if b.visited++; value >= b.best || b.visited > 30_000 {
		return
	}
	done := true
	for i := range b.m.Jobs {
		j := &b.m.Jobs[i]
		if b.round[i] == j.Rounds {
			continue
		}
		done = false
		if j.Sync == hare.Relaxed {
			for p := range b.pools {
				b.place(i, []int{p}, value)
			}
			continue
		}
		b.spread(i, 0, nil, value)
	}
	if done {
		b.best = value
	}
}

// spread enumerates the pools of the tasks of a gang.
func (b *nodeBrute) spread(i, from int, chosen []int, value int64) {
	j := &b.m.Jobs[i]
	if int64(len(chosen)) == j.Tasks {
		b.place(i, chosen, value)
		return
	}
	for p := from; p < len(b.pools); p++ {
		if n := len(chosen); n > 0 && (!j.Mix && b.pools[p].typ != b.pools[chosen[0]].typ ||
			j.Distinct && b.pools[p].node == b.pools[chosen[n-1]].node) {
			continue
		}
		b.spread(i, p, append(chosen[:len(chosen):len(chosen)], p), value)
	}
}

// place puts the next unit of job i on the pools, one task each, as early as it can, and goes
// on.
func (b *nodeBrute) place(i int, pools []int, value int64) {
	j := &b.m.Jobs[i]
	hold, sync := int64(0), int64(0)
	for _, p := range pools {
		fits := false
		for _, md := range j.Modes {
			if md.Type == b.pools[p].typ {
				fits = true
				if hold = max(hold, md.DurationUs()); j.Sync == hare.Relaxed {
					hold, sync = md.ComputeUs, md.SyncUs
				}
			}
		}
		if !fits || j.Set >= 0 && !b.m.Sets[j.Set].Nodes[b.pools[p].node] {
			return
		}
	}
	rounds := int64(1)
	if j.Sync == hare.Rigid {
		rounds = j.Rounds
		hold *= rounds
	}
	for t := b.ready[i]; t+hold <= bruteHorizon; t++ {
		ok := b.take(j, pools, t, hold)
		if ok {
			was := [4]int64{b.round[i], b.tasks[i], b.ready[i], b.end[i]}
			b.end[i] = max(b.end[i], t+hold+sync)
			b.tasks[i] += int64(len(pools))
			more := value
			if b.tasks[i] == j.Tasks {
				b.round[i] += rounds
				b.tasks[i], b.ready[i] = 0, b.end[i]
				if b.round[i] == j.Rounds {
					more += j.WeightMicro * (b.end[i] - j.ReleaseUs)
				}
			}
			b.run(more)
			b.round[i], b.tasks[i], b.ready[i], b.end[i] = was[0], was[1], was[2], was[3]
		}
		b.give(j, pools, t, hold, 1)
		if ok {
			return
		}
	}
}

// take reserves what a unit needs and says whether that is there.
func (b *nodeBrute) take(j *hare.ModelJob, pools []int, t, hold int64) bool {
	b.give(j, pools, t, hold, -1)
	for _, p := range pools {
		for at := t; at < t+hold; at++ {
			if n := b.pools[p].node; b.free[p][at] < 0 || b.cpus[n][at] < 0 || b.memory[n][at] < 0 {
				return false
			}
		}
	}
	return true
}

func (b *nodeBrute) give(j *hare.ModelJob, pools []int, t, hold, sign int64) {
	for _, p := range pools {
		for at := t; at < t+hold; at++ {
			n := b.pools[p].node
			b.free[p][at] += sign * j.GPUs
			b.cpus[n][at] += sign * j.CPUMilli
			b.memory[n][at] += sign * j.MemoryMiB
		}
	}
}

// TestSearchOnNodesAgainstBruteForce also counts how often the search finds the optimum.
func TestSearchOnNodesAgainstBruteForce(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 12
	}
	solved, optimal := 0, 0
	for seed := 0; solved < n; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		_, m := feasibleNodes(r, 1+r.IntN(3), 1+r.IntN(3))
		what := fmt.Sprint("seed ", seed)
		var first *Plan
		for _, kind := range []string{"wspt", "arrival"} {
			if p, err := Assign(context.Background(), m, Order(m, nil, kind), Insertion); err == nil {
				first = p
				break
			}
		}
		if first == nil {
			continue
		}
		b := newNodeBrute(m)
		if b.run(0); b.visited > 30_000 {
			continue
		}
		solved++
		p, _, err := Improve(context.Background(), m, nil, first, ImproveConfig{Seed: int64(seed), Moves: 1500})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		mustPass(t, m, p, what)
		value := int64(weighted(m, p.EndUs))
		if value < b.best || value > int64(weighted(m, first.EndUs)) {
			t.Fatalf("%s: the search found %d from %.0f, and the optimum is %d\n%+v", what, value, weighted(m, first.EndUs),
				b.best, m.Instance)
		}
		if value == b.best {
			optimal++
		}
		cfg := ImproveConfig{Seed: int64(seed), Moves: 1500, Workers: 1}
		again, _, _ := Improve(context.Background(), m, nil, first, cfg)
		if fmt.Sprint(again) != fmt.Sprint(p) {
			t.Fatalf("%s: the same search gave another plan", what)
		}
	}
	t.Logf("the search found the optimum of %d of %d instances", optimal, solved)
	if optimal < n*9/10 {
		t.Errorf("the search found the optimum of %d of %d instances", optimal, solved)
	}
}
