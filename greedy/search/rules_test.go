package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// quotaUse counts the GPUs that count in each quota, by microsecond.
type quotaUse []map[int64]int64

func (qu quotaUse) hold(m *model.Model, job int, gpuType string, from, until int64) {
	for q := range m.Instance.Quota {
		if m.Instance.Quota[q].Limits(&m.Instance.Jobs[job], gpuType) {
			for at := from; at < until; at++ {
				qu[q][at]++
			}
		}
	}
}

// check compares the use by other work with what running work leaves.
func (qu quotaUse) check(m *model.Model) error {
	for q := range qu {
		for at, n := range qu[q] {
			running := int64(0)
			for i := range m.Jobs {
				if m.Jobs[i].RunsUntilUs > at {
					for _, g := range m.Jobs[i].RunsOn {
						if m.Instance.Quota[q].Limits(&m.Instance.Jobs[i], m.Types[m.GPUs[g].Type]) {
							running++
						}
					}
				}
			}
			if n+running > m.Instance.Quota[q].GPUs {
				return fmt.Errorf("quota %d is exceeded at %d: %d and %d running", q, at, n, running)
			}
		}
	}
	return nil
}

func firstGPU(m *model.Model, node int) int {
	return slices.IndexFunc(m.GPUs, func(g model.GPU) bool { return g.Node == node })
}

// addRunning counts what running work holds of CPUs and memory.
func addRunning(m *model.Model, nodes map[string]int, used map[[2]int64][2]int64) quotaUse {
	for i := range m.Jobs {
		j := &m.Jobs[i]
		for n, g := range j.RunsOn {
			if int64(n)%j.GPUs > 0 {
				continue // the GPUs of a task stand together in these instances
			}
			for at := range j.RunsUntilUs {
				u := used[[2]int64{int64(m.GPUs[g].Node), at}]
				u[0] += j.CPUMilli
				u[1] += j.MemoryMiB
				used[[2]int64{int64(m.GPUs[g].Node), at}] = u
			}
		}
	}
	qu := make(quotaUse, len(m.Instance.Quota))
	for q := range qu {
		qu[q] = map[int64]int64{}
	}
	return qu
}

// addRules adds rules to a small instance: progress and running work, reservations, quotas,
// predecessors, deadlines and objectives. Rules that make the instance invalid are taken back.
func addRules(r *rand.Rand, inst *hare.Instance) {
	try := func(change func()) {
		before := *inst
		before.Jobs, before.Quota = slices.Clone(inst.Jobs), slices.Clone(inst.Quota)
		before.Cluster.Reservations = slices.Clone(inst.Cluster.Reservations)
		change()
		if inst.Validate() != nil {
			*inst = before
		}
	}
	inst.Objective = hare.Objectives()[r.IntN(3)]
	users := []string{"ann", "bob"}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if r.IntN(2) == 0 {
			j.Users = []string{users[r.IntN(2)]}
		}
		if r.IntN(3) == 0 {
			j.DeadlineUs, j.LateWeightMicro = 1+r.Int64N(12), r.Int64N(4)*1e6
		}
		if i > 0 && r.IntN(3) == 0 {
			j.After = []hare.Predecessor{{Job: inst.Jobs[r.IntN(i)].ID, LagUs: r.Int64N(3)}}
		}
		switch r.IntN(5) {
		case 0:
			try(func() { inst.Jobs[i].Progress = &hare.Progress{RoundsDone: r.Int64N(inst.Jobs[i].Rounds)} })
		case 1:
			try(func() {
				j := &inst.Jobs[i]
				j.ReleaseUs, j.After = 0, nil
				var gpus []string
				for n := range inst.Cluster.Nodes {
					node := &inst.Cluster.Nodes[n]
					for g := 0; int64(g)+j.TaskGPUs() <= node.GPUCount() && int64(len(gpus)) < j.Tasks*j.TaskGPUs(); {
						for range j.TaskGPUs() {
							gpus = append(gpus, fmt.Sprintf("%s/%d", node.Name, g))
							g++
						}
					}
				}
				j.Progress = &hare.Progress{RoundsDone: r.Int64N(j.Rounds), GPUs: gpus, ElapsedUs: r.Int64N(3)}
			})
		}
	}
	for range r.IntN(3) {
		try(func() {
			res := hare.Reservation{FromUs: r.Int64N(6)}
			res.UntilUs = res.FromUs + 1 + r.Int64N(6)
			if r.IntN(2) == 0 {
				res.Nodes = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
			}
			if r.IntN(2) == 0 {
				res.Users = []string{"ann"}
			}
			inst.Cluster.Reservations = append(inst.Cluster.Reservations, res)
		})
	}
	for range r.IntN(3) {
		try(func() {
			q := hare.Quota{User: users[r.IntN(2)], GPUs: 1 + r.Int64N(4)}
			if r.IntN(3) == 0 {
				q.Types = []string{[]string{"A", "B"}[r.IntN(2)]}
			}
			inst.Quota = append(inst.Quota, q)
		})
	}
}

// feasibleWithRules makes random instances with rules in which every job can run.
func feasibleWithRules(r *rand.Rand, nodes, jobs int) (*hare.Instance, *model.Model) {
	for {
		inst := randomNodes(r, nodes, jobs)
		if r.IntN(4) == 0 {
			for i := range inst.Jobs { // some instances without rules about nodes
				j := &inst.Jobs[i]
				j.GPUsPerTask, j.CPUMilliPerTask, j.MemoryMiBPerTask, j.DistinctNodes = 0, 0, 0, false
				j.Only, j.Exclude = nil, nil
			}
		}
		addRules(r, inst)
		if err := inst.Validate(); err != nil {
			panic(err)
		}
		m := model.New(inst)
		if len(place.Infeasible(m)) == 0 {
			return inst, m
		}
	}
}

func TestPlansWithRulesAreFeasible(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 100
	}
	placed, seen := 0, [8]int{}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		inst, m := feasibleWithRules(r, 1+r.IntN(4), 1+r.IntN(7))
		kind := []string{"wspt", "arrival"}[seed%2]
		what := fmt.Sprint("seed ", seed)
		p, err := place.Assign(context.Background(), m, place.Order(m, nil, kind), place.Insertion)
		if err != nil {
			continue // windows may leave no place
		}
		placed++
		mustPass(t, m, p, what)
		s, _ := p.Schedule(m)
		if q := place.FromSchedule(m, s); !slices.Equal(q.EndUs, p.EndUs) {
			t.Fatalf("%s: read back, the plan ends at %v instead of %v", what, q.EndUs, p.EndUs)
		}
		if seed%3 == 0 {
			better, _, err := Improve(context.Background(), m, nil, p, ImproveConfig{Seed: int64(seed), Moves: 400})
			if err != nil {
				t.Fatal(err)
			}
			mustPass(t, m, better, what)
			if better.Value(m).Cmp(p.Value(m)) > 0 {
				t.Fatalf("%s: worse than the start", what)
			}
		}
		for x, has := range []bool{len(inst.Quota) > 0, len(inst.Cluster.Reservations) > 0, room.HasAfter(m),
			room.IsMakespan(m),
			inst.Objective == hare.ObjectiveJCTAndTardiness,
			slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.RunsUntilUs > 0 }),
			slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return room.IsFixed(&j) }), !m.Placed} {
			if has {
				seen[x]++
			}
		}
	}
	t.Logf("%d of %d placed; quotas, reservations, after, makespan, tardiness, running, fixed, no nodes: %v", placed, n,
		seen)
	if placed < n*9/10 || slices.Min(seen[:]) < n/50 {
		t.Errorf("only %d of %d instances got a plan; kinds %v", placed, n, seen)
	}
}

// TestAnnealedPlansWithDependencies compares each trial with a whole decode, with and without
// nodes, where jobs wait for others.
func TestAnnealedPlansWithDependencies(t *testing.T) {
	n := uint64(60)
	if testing.Short() {
		n = 12
	}
	moves := 0
	for seed := uint64(1); seed <= n; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		m := randomGangs(r, 8+r.IntN(40), seed%3 == 0)
		for i := range m.Instance.Jobs {
			j := &m.Instance.Jobs[i]
			if i > 0 && r.IntN(3) > 0 {
				j.After = append(j.After, hare.Predecessor{Job: m.Instance.Jobs[r.IntN(i)].ID, LagUs: r.Int64N(9)})
			}
			if r.IntN(2) == 0 {
				j.DeadlineUs, j.LateWeightMicro = 1+r.Int64N(90), r.Int64N(4e6)
			}
		}
		m.Instance.Objective = hare.Objectives()[seed%3]
		m = model.New(m.Instance)
		ap, ok := newAnnealProblem(m, nil, nil, nil)
		if !ok || !ap.ordered {
			continue
		}
		w := &walker{decoder: newDecoder(ap), r: r, sampler: newPairSampler(ap, 1e-6)}
		if !w.decoder.load(keysOf(ap.orderBy(make([]float64, len(ap.jobs)))), randomPlans(w)) {
			continue
		}
		for k := range w.decoder.snapshotInterval {
			w.decoder.snapshotInterval[k] = 2
			w.decoder.refreshSnapshots(int16(k), 0, len(w.decoder.seq[k]))
		}
		whole := newDecoder(ap)
		for range 300 {
			old := w.decoder.value()
			var delta float64
			switch r.IntN(3) {
			case 0:
				delta, ok = w.shift()
			case 1:
				delta, ok = w.swap()
			case 2:
				delta, ok = w.reassign()
			}
			if len(w.decoder.undoLog) == 0 {
				continue
			}
			moves++
			if fits := whole.load(w.decoder.key, w.decoder.plan); fits != ok {
				t.Fatalf("seed %d: trial fits %v, whole decode %v", seed, ok, fits)
			}
			if diff := whole.value() - old - delta; ok && (diff > 1e-9 || diff < -1e-9) {
				t.Fatalf("seed %d: trial says %g more, whole decode %g", seed, delta, whole.value()-old)
			}
			if !ok || r.IntN(2) == 0 {
				w.decoder.rollback()
				if !whole.load(w.decoder.key, w.decoder.plan) {
					t.Fatalf("seed %d: rolled back to a state that does not fit", seed)
				}
			} else {
				w.decoder.commit()
			}
			if !slices.Equal(whole.end, w.decoder.end) {
				t.Fatalf("seed %d: ends differ from a whole decode's", seed)
			}
			for i := range ap.jobs {
				for _, e := range ap.jobs[i].Before {
					if first := whole.segments[i][0].Start; first < whole.end[e.Job]+e.Lag || whole.before(int32(i), e.Job) {
						t.Fatalf("seed %d: job %d starts before job %d has ended", seed, i, e.Job)
					}
				}
			}
		}
	}
	t.Logf("%d moves", moves)
	if moves < int(n)*50 {
		t.Fatalf("only %d moves", moves)
	}
}
