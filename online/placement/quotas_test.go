package placement_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
)

// Room, what is picked and what is refused go by what the jobs of each quota hold, counted here GPU
// by GPU.
func TestQuotasAgreeWithCounting(t *testing.T) {
	limited, mixed := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := randomCluster(r)
		var quotas []hare.Quota
		for _, user := range []string{"ann", "bob", "vision"} {
			q := hare.Quota{User: user, GPUs: r.Int64N(7)}
			if r.IntN(2) == 0 {
				q.Types = []string{[]string{"A", "B"}[r.IntN(2)]}
			}
			quotas = append(quotas, q)
		}
		c.ns.SetQuotas(quotas, func(k int) string { return []string{"A", "B"}[k] })
		user := func() []string { return [][]string{nil, {"ann"}, {"ann", "vision"}, {"bob"}}[r.IntN(4)] }
		owner := map[int]*hare.Job{}
		for range r.IntN(6) {
			j, k := randomJob(r), r.IntN(2)
			j.Users = user()
			s := c.ns.Add(j)
			for i, g := range c.ns.Pick(nil, s, k, 1, nil) {
				c.ns.Take(g)
				c.free[g] = false
				owner[g] = j
				if i == 0 {
					c.ns.Hold(g, s, 1)
					c.cpu[c.node[g]] += j.CPUMilliPerTask
					c.mem[c.node[g]] += j.MemoryMiBPerTask
				}
			}
		}
		names := []string{"A", "B"}
		left := func(j *hare.Job, k int, held bool) int64 {
			least := int64(math.MaxInt64)
			for _, q := range quotas {
				if !q.Limits(j, names[k]) {
					continue
				}
				n := q.GPUs
				for g, o := range owner {
					if held && q.Limits(o, names[c.gpuType[g]]) {
						n--
					}
				}
				least = min(least, n/j.TaskGPUs())
			}
			return least
		}
		j, k := randomJob(r), r.IntN(2)
		j.Users = user()
		s := c.ns.Add(j)
		onNodes := c.room(j, k, func(g int) bool { return c.free[g] }, c.cpu, c.mem)
		want := min(onNodes, left(j, k, true))
		if got := c.ns.Room(s, k, math.MaxInt64, nil); got != want {
			t.Fatalf("seed %d: room for %d tasks, want %d: %+v %+v", seed, got, want, j, quotas)
		}
		none := make([]int64, len(c.specs))
		if got, all := c.ns.Most(s, k), min(c.room(j, k, func(int) bool { return true }, none, none),
			left(j, k, false)); got != all {
			t.Fatalf("seed %d: most %d tasks, want %d", seed, got, all)
		}
		tasks := 1 + r.Int64N(4)
		gpus := c.ns.Pick(nil, s, k, tasks, nil)
		if int64(len(gpus)) != min(tasks, want)*j.TaskGPUs() {
			t.Fatalf("seed %d: picked %v for %d tasks with room for %d", seed, gpus, tasks, want)
		}
		if reason := c.ns.Check(s, gpus); reason != "" {
			t.Fatalf("seed %d: picked %v: %s", seed, gpus, reason)
		}
		if want < onNodes {
			limited++
			var all []int // what nodes alone have room for is refused
			free := *j
			free.Users = nil
			if all = c.ns.Pick(nil, c.ns.Add(&free), k, onNodes, nil); c.ns.Check(s, all) == "" ||
				c.ns.CheckRunning(s, all) != "" {
				t.Fatalf("seed %d: %v exceed a quota", seed, all)
			}
		}
		if gpus := c.ns.PickMixed(s, []int{0, 1}, tasks, nil); gpus != nil {
			for _, q := range quotas {
				n := int64(0)
				for g, o := range owner {
					if q.Limits(o, names[c.gpuType[g]]) {
						n++
					}
				}
				for _, g := range gpus {
					if q.Limits(j, names[c.gpuType[g]]) {
						n++
					}
				}
				if n > q.GPUs && slices.ContainsFunc(gpus, func(g int) bool { return q.Limits(j, names[c.gpuType[g]]) }) {
					t.Fatalf("seed %d: %v exceed the quota of %s", seed, gpus, q.User)
				}
			}
			mixed++
		}
	}
	if limited < 100 || mixed < 300 {
		t.Errorf("quotas limited only %d, and %d were mixed", limited, mixed)
	}
}
