package placement_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

var zoneAndRack = []string{"zone", "rack"}

// near reports whether two nodes are in one domain of a level, by their labels.
func (c *cluster) near(level string, a, b int) bool {
	label := func(n int, name string) string {
		value, _ := c.specs[n].Label(name)
		return value
	}
	switch level {
	case "node":
		return a == b
	case "rack":
		return label(a, "zone") == label(b, "zone") && label(a, "rack") == label(b, "rack")
	case "zone":
		return label(a, "zone") == label(b, "zone")
	}
	return true
}

// levelNames are the levels of zoneAndRack, from fine to coarse.
var levelNames = []string{"node", "rack", "zone", "any"}

// keepWithin draws levels for a job: within, and times that go by the spread.
func keepWithin(r *rand.Rand, j *hare.Job) {
	if j.Within = levelNames[r.IntN(4)]; j.Within == "any" {
		j.Within = ""
	}
	p := hare.Profile{Type: "A", ComputeUs: 1}
	if r.IntN(2) == 0 { // longer the farther its tasks are apart
		p.SyncAt = []hare.LevelSync{{Level: "any", SyncUs: 4}, {Level: "node", SyncUs: 1}, {Level: "rack", SyncUs: 2},
			{Level: "zone", SyncUs: 3}}
		p.SyncUs = 4
	}
	j.On = []hare.Profile{p}
}

// What fits in one domain, and where tasks are put, agree with counting domain by domain.
func TestLevelsAgreeWithCounting(t *testing.T) {
	split, fine, waits := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 6))
		c := randomClusterOf(r, zoneAndRack)
		uses := c.use(r)
		j, k, tasks := randomJob(r), r.IntN(2), 1+r.Int64N(4)
		keepWithin(r, j)
		s := c.ns.Add(j)
		within := j.Within
		roomAt := func(level string, isFree func(g int) bool, cpu, mem []int64) (most int64) {
			for n := range c.specs {
				on := func(o int) bool { return c.near(level, n, o) }
				most = max(most, c.roomOn(on, j, k, isFree, cpu, mem))
			}
			return most
		}
		isFree := func(g int) bool { return c.free[g] }
		want := roomAt(within, isFree, c.cpu, c.mem)
		if got := c.ns.Room(s, k, math.MaxInt64, nil); got != want {
			t.Fatalf("seed %d: room for %d tasks, want %d: %+v", seed, got, want, j)
		}
		none := make([]int64, len(c.specs))
		all := func(int) bool { return true }
		if got, most := c.ns.Most(s, k), roomAt(within, all, none, none); got != most {
			t.Fatalf("seed %d: most %d tasks, want %d: %+v", seed, got, most, j)
		}
		if c.room(j, k, isFree, c.cpu, c.mem) > want {
			split++
		}
		gpus := c.ns.Pick(nil, s, k, tasks, nil)
		if fits := want >= tasks; j.Within+within != "" && fits != (int64(len(gpus)) == tasks*j.TaskGPUs()) {
			t.Fatalf("seed %d: picked %v for %d tasks with room for %d", seed, gpus, tasks, want)
		}
		if int64(len(gpus)) == tasks*j.TaskGPUs() {
			if reason := c.ns.Check(s, gpus); reason != "" {
				t.Fatalf("seed %d: picked %v: %s", seed, gpus, reason)
			}
			spread := c.spread(gpus)
			if within != "" && spread > levelOf(within) {
				t.Fatalf("seed %d: picked %v for tasks within one %s", seed, gpus, within)
			}
			if p := &j.On[0]; p.SyncAt != nil {
				for level := range spread { // the finest level with room
					if roomAt(levelNames[level], isFree, c.cpu, c.mem) >= tasks {
						t.Fatalf("seed %d: picked %v, and one %s has room", seed, gpus, levelNames[level])
					}
				}
				if got := c.ns.SyncUs(p, c.ns.Spread(gpus)); got != int64(1+spread) {
					t.Fatalf("seed %d: %d on %v, want %d", seed, got, gpus, 1+spread)
				}
				fine++
			}
		}
		if p := &j.On[0]; p.SyncAt != nil && c.ns.Most(s, k) >= tasks {
			level := 0
			for roomAt(levelNames[level], all, none, none) < tasks {
				level++
			}
			if got := c.ns.LeastSyncUs(s, p, k, tasks); got != int64(1+level) {
				t.Fatalf("seed %d: at least %d, want %d", seed, got, 1+level)
			}
		}
		if mixed := c.ns.PickMixed(s, []int{0, 1}, tasks, nil); mixed != nil {
			if reason := c.ns.Check(s, mixed); reason != "" || within != "" && c.spread(mixed) > levelOf(within) {
				t.Fatalf("seed %d: mixed %v within %q: %s", seed, mixed, within, reason)
			}
		} else if int64(len(gpus)) == tasks*j.TaskGPUs() {
			t.Fatalf("seed %d: %v are there, and no mixed GPUs", seed, gpus)
		}
		atRoom := func(atUs int64) int64 {
			cpu, mem := append([]int64{}, c.cpu...), append([]int64{}, c.mem...)
			for g, u := range uses {
				if !c.free[g] && u.AtUs <= atUs {
					cpu[c.node[g]] -= u.CPUMilli
					mem[c.node[g]] -= u.MemoryMiB
				}
			}
			return roomAt(within, func(g int) bool { return c.free[g] || c.freeAtUs[g] <= atUs }, cpu, mem)
		}
		first := int64(0)
		for first < 7 && atRoom(first) < tasks {
			first++
		}
		atUs, kept, ok := c.ns.Earliest(s, []int{k}, tasks, func(g int) placement.Use { return uses[g] })
		if ok != (first < 7) || ok && (atUs != first || within != "" && c.spread(kept) > levelOf(within)) {
			t.Fatalf("seed %d: earliest %d on %v, %v, want %d: %+v", seed, atUs, kept, ok, first, j)
		}
		if ok && atUs > 0 {
			waits++
		}
	}
	if split < 200 || fine < 200 || waits < 100 {
		t.Errorf("%d clusters had more room than any domain, %d tasks had times by spread, %d waited", split, fine, waits)
	}
}

func levelOf(name string) int {
	for level := range levelNames {
		if levelNames[level] == name {
			return level
		}
	}
	return len(levelNames) - 1
}

// spread is the finest level of which one domain has all of some GPUs.
func (c *cluster) spread(gpus []int) int {
	for level, name := range levelNames {
		near := true
		for _, g := range gpus {
			near = near && c.near(name, c.node[gpus[0]], c.node[g])
		}
		if near {
			return level
		}
	}
	return len(levelNames)
}

// Nodes that leave and join others do not confuse domains, and of two domains with room the fuller
// one is taken.
func TestDomainsComeAndGo(t *testing.T) {
	ns := placement.New()
	ns.SetTopology([]string{"rack"})
	join := func(first int, node, rack string, gpus int) {
		for g := range gpus {
			ns.Join(first+g, 0, &hare.Node{Name: node, Labels: []hare.Label{{Name: "rack", Value: rack}}})
		}
	}
	join(0, "a", "r1", 2)
	join(2, "b", "r1", 2)
	join(4, "c", "r2", 2)
	join(6, "d", "r2", 1)
	gang := &hare.Job{ID: "g", Sync: hare.Gang, Tasks: 3, Within: "rack", On: []hare.Profile{{Type: "A", ComputeUs: 1}}}
	s := ns.Add(gang)
	if got := ns.Pick(nil, s, 0, 3, nil); len(got) != 3 || got[0] != 4 {
		t.Errorf("picked %v, want the three of the fuller rack", got)
	}
	if got := ns.Pick(nil, s, 0, 5, nil); got != nil {
		t.Errorf("picked %v of two racks", got)
	}
	for _, g := range []int{4, 5, 6} {
		ns.Leave(g)
	}
	if got := ns.Pick(nil, s, 0, 3, nil); len(got) != 3 || got[0] != 0 {
		t.Errorf("picked %v after a rack has left", got)
	}
	join(4, "e", "r3", 3) // in the slots of what has left
	join(7, "f", "r4", 3)
	if got := ns.Room(s, 0, 9, nil); got != 4 {
		t.Errorf("room for %d tasks, want 4", got)
	}
	if reason := ns.Check(s, []int{4, 5, 7}); reason == "" {
		t.Error("tasks in two racks are allowed")
	}
}
