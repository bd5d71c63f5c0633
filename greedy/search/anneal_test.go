package search

import (
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

// randomGangs returns a small instance of gang and rigid jobs.
func randomGangs(r *rand.Rand, jobs int, windows bool) *model.Model {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C", "D"}[:1+r.IntN(4)]
	for n := range 1 + r.IntN(4) {
		node := hare.Node{Name: fmt.Sprint("n", n)}
		total := 0
		for _, t := range types {
			if c := r.IntN(5); c > 0 || n == 0 {
				node.GPUs = append(node.GPUs, hare.TypeCount{Type: t, Count: c + 1})
				total += c + 1
			}
		}
		if total == 0 {
			continue
		}
		if windows && r.IntN(2) == 0 {
			a := r.Int64N(50)
			b := a + 100 + r.Int64N(300)
			node.Windows = []hare.Window{{StartUs: a, EndUs: b}, {StartUs: b + 1 + r.Int64N(100), EndUs: hare.Forever}}
		}
		if windows {
			for g := range total {
				if r.IntN(3) == 0 {
					node.Busy = append(node.Busy, hare.Busy{GPU: g, UntilUs: 1 + r.Int64N(150)})
				}
			}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	for i := range jobs {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: r.Int64N(2_000_000), Rounds: 1 + r.Int64N(12),
			Tasks: 1 + r.Int64N(4), Sync: hare.Gang}
		if r.IntN(3) == 0 {
			j.Sync = hare.Rigid
		}
		if r.IntN(2) == 0 {
			j.ReleaseUs = r.Int64N(200)
		}
		for _, t := range types {
			if len(j.On) == 0 || r.IntN(4) > 0 {
				j.On = append(j.On, hare.Profile{Type: t, ComputeUs: 1 + r.Int64N(15), SyncUs: r.Int64N(5)})
			}
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return model.New(inst)
}

// randomPlans gives each job any plan that the search can draw.
func randomPlans(w *walker) []room.JobPlan {
	var plans []room.JobPlan
	for i := range w.decoder.p.jobs {
		j := &w.decoder.p.jobs[i]
		switch {
		case len(j.ContiguousTypes) == 0:
			plans = append(plans, room.RoundByRoundOver(j.RoundTypes[0]))
		case j.Rigid:
			plans = append(plans, room.ContiguousOn(j.ContiguousTypes[w.r.IntN(len(j.ContiguousTypes))]))
		default:
			plans = append(plans, w.gangPlan(j, j.ContiguousTypes[w.r.IntN(len(j.ContiguousTypes))]))
		}
	}
	return plans
}

// The state after each committed and each rolled back trial is that of a whole decode.
// The test fails if a stale snapshot is used: with "from" instead of "from-1" in try, if
// stepMultiType replays from a snapshot after the position of the job, or if decoding
// stops before the last changed key.
func TestTrialsEqualWholeDecodes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: there is nothing to race")
	}
	moves := 0
	for seed := uint64(1); seed <= 60; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		m := randomGangs(r, 8+r.IntN(50), seed%3 == 0)
		p, ok := newAnnealProblem(m, nil, nil, nil)
		if !ok {
			continue
		}
		w := &walker{decoder: newDecoder(p), r: r, sampler: newPairSampler(p, 1e-6)}
		for k := range w.decoder.snapshotInterval {
			w.decoder.snapshotInterval[k] = 2
		}
		order := make([]int32, len(p.jobs))
		for i, x := range r.Perm(len(order)) {
			order[i] = int32(x)
		}
		if !w.decoder.load(keysOf(order), randomPlans(w)) {
			continue
		}
		for k := range w.decoder.snapshotInterval {
			w.decoder.snapshotInterval[k] = 2
			w.decoder.refreshSnapshots(int16(k), 0, len(w.decoder.seq[k]))
		}
		whole := newDecoder(p)
		for range 400 {
			old := w.decoder.value()
			var delta float64
			w.decoder.abortAbove = math.Inf(1)
			given := r.IntN(4) == 0
			if given {
				w.decoder.abortAbove = 0
			}
			switch r.IntN(4) {
			case 3:
				delta, ok = w.exchangeTypes()
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
			fits := whole.load(w.decoder.key, w.decoder.plan)
			if fits != ok && !given || !fits && ok {
				t.Fatalf("seed %d: trial fits %v, whole decode %v", seed, ok, fits)
			}
			if ok {
				if diff := whole.value() - old - delta; diff > 1e-15 || diff < -1e-15 {
					t.Fatalf("seed %d: trial says %g more, whole decode %g", seed, delta, whole.value()-old)
				}
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
			for k, seq := range w.decoder.seq {
				for i, e := range seq {
					if e.job != whole.seq[k][i].job {
						t.Fatalf("seed %d: sequence of type %d differs at %d", seed, k, i)
					}
				}
			}
		}
	}
	if moves < 5000 {
		t.Fatalf("only %d moves", moves)
	}
}

// The plans of random instances with windows, busy GPUs, releases and jobs that stay are
// feasible on named GPUs and never worse than the start.
func TestAnnealedPlansAreFeasible(t *testing.T) {
	better, seeds := 0, uint64(150)
	if testing.Short() {
		seeds = 30 // under the race detector
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		m := randomGangs(r, 3+r.IntN(25), seed%4 > 0)
		if seed%3 == 0 {
			for i := range m.Jobs {
				switch r.IntN(5) {
				case 0:
					m.Jobs[i].Sync = hare.Relaxed
				case 1:
					m.Jobs[i].Mix = m.Jobs[i].Sync == hare.Gang
				}
			}
		}
		start, err := place.Assign(context.Background(), m, place.Order(m, nil, "wspt"), place.Insertion)
		if err != nil {
			start = nil
		}
		cfg := ImproveConfig{Seed: int64(seed), Moves: 4000}
		p, _, err := anneal(context.Background(), m, nil, start, cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if p == nil {
			if start != nil {
				t.Fatalf("seed %d: lost the start", seed)
			}
			continue
		}
		if err := checkGangs(m, p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, err := p.Schedule(m); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if start != nil {
			switch p.Value(m).Cmp(start.Value(m)) {
			case 1:
				t.Fatalf("seed %d: worse than the start", seed)
			case -1:
				better++
			}
		}
	}
	if better < int(seeds)/3 {
		t.Errorf("better than the start in %d of %d", better, seeds)
	}
}

func loadInstance(t testing.TB, name string) *hare.Instance {
	t.Helper()
	f, err := os.Open("../../testdata/instances/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := wire.DecodeInstance(z, wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// The search finds the optima that CP-SAT has proved (testdata/instances/README.md).
func TestAnnealFindsTheOptima(t *testing.T) {
	if testing.Short() {
		t.Skip("values are for the run without the race detector; TestAnnealIsDeterministic is for both")
	}
	optima := []string{"2987.262303", "674.700576", "1448.537145", "1052.687993", "2676.532143", "1652.902924"}
	for i, want := range optima {
		m := model.New(loadInstance(t, fmt.Sprint("rigid-9-", i+1)))
		p, _, err := anneal(context.Background(), m, nil, nil, ImproveConfig{Seed: 1, Moves: 1_500_000})
		if err != nil {
			t.Fatal(err)
		}
		if err := checkGangs(m, p); err != nil {
			t.Fatal(err)
		}
		if got := p.Value(m).String(); got != want {
			t.Errorf("rigid-9-%d: %s, the optimum is %s", i+1, got, want)
		}
	}
}

// standard returns standard-200 with every job of one mode and with synchronisation
// counted as compute.
func standard(t testing.TB, sync hare.Sync) *model.Model {
	inst := loadInstance(t, "standard-200")
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		j.Sync = sync
		for x := range j.On {
			j.On[x].ComputeUs, j.On[x].SyncUs = j.On[x].DurationUs(), 0
		}
	}
	return model.New(inst)
}

// The same seed and work give the same plan and the same reports for any number of
// workers.
func TestAnnealIsDeterministic(t *testing.T) {
	moves := int64(300_000)
	if testing.Short() {
		moves = 60_000
	}
	for _, sync := range []hare.Sync{hare.Gang, hare.Rigid} {
		m := standard(t, sync)
		run := func(workers int, seed int64) (*place.Plan, []hare.Amount) {
			var seen []hare.Amount
			p, _, err := anneal(context.Background(), m, nil, nil,
				ImproveConfig{Seed: seed, Moves: moves, Workers: workers,
					Report: func(v hare.Amount) { seen = append(seen, v) }})
			if err != nil {
				t.Fatal(err)
			}
			if err := checkGangs(m, p); err != nil {
				t.Fatal(err)
			}
			return p, seen
		}
		p1, seen1 := run(1, 7)
		p2, seen2 := run(2, 7)
		if !reflect.DeepEqual(p1, p2) || !slices.Equal(seen1, seen2) {
			t.Errorf("%v: one worker and two differ", sync)
		}
		if seen1[len(seen1)-1].Cmp(p1.Value(m)) != 0 {
			t.Errorf("%v: reported %s last, the plan is worth %s", sync, seen1[len(seen1)-1], p1.Value(m))
		}
		if p3, _ := run(2, 8); reflect.DeepEqual(p1, p3) {
			t.Errorf("%v: the seed changes nothing", sync)
		}
	}
}

// The end of ctx ends the search soon, with the best plan so far and without an error.
func TestAnnealEndsWithItsContext(t *testing.T) {
	m := standard(t, hare.Gang)
	start, err := place.Assign(context.Background(), m, place.Order(m, nil, "wspt"), place.Insertion)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	p, _, err := anneal(ended, m, nil, start, ImproveConfig{Moves: 1 << 50})
	if err != nil || p.Value(m).Cmp(start.Value(m)) > 0 {
		t.Errorf("ended before the start: %v, %v", p.Value(m), err)
	}
	// The time that a busy machine takes for a first improvement is not known, so the limit
	// doubles until there is one.
	for limit := 100 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		began := time.Now()
		p, stats, err := anneal(ctx, m, nil, start,
			ImproveConfig{Moves: 1 << 50, Elapsed: func() float64 { return time.Since(began).Seconds() / limit.Seconds() }})
		cancel()
		if took := time.Since(began); err != nil || took > limit+10*time.Second {
			t.Fatalf("a limit of %v took %v, %v", limit, took, err)
		}
		if p.Value(m).Cmp(start.Value(m)) < 0 && stats.Evaluations > 0 {
			return
		}
		if limit > 10*time.Second {
			t.Fatalf("ended in the walk: %v after %+v", p.Value(m), stats)
		}
	}
}

// BenchmarkAnneal anneals 200 jobs, on nodes that stay and on nodes of 8 GPUs of which every second one pauses.
func BenchmarkAnneal(b *testing.B) {
	for _, pauses := range []bool{false, true} {
		for _, sync := range []hare.Sync{hare.Gang, hare.Rigid} {
			b.Run(fmt.Sprintf("%v/pauses=%v", sync, pauses), func(b *testing.B) {
				m := standard(b, sync)
				if pauses {
					m = withPauses(m.Instance)
				}
				stats := Stats{}
				for b.Loop() {
					_, s, err := anneal(context.Background(), m, nil, nil,
						ImproveConfig{Seed: 1, Moves: 1_000_000, Workers: 1})
					if err != nil {
						b.Fatal(err)
					}
					stats.Moves, stats.Evaluations = stats.Moves+s.Moves, stats.Evaluations+s.Evaluations
				}
				b.ReportMetric(float64(stats.Evaluations)/b.Elapsed().Seconds(), "trials/s")
				b.ReportMetric(float64(stats.Moves)/b.Elapsed().Seconds(), "places/s")
			})
		}
	}
}

// withPauses cuts the nodes of inst, whose GPUs are of one type each, into nodes of up to 8 GPUs, of which every
// second one pauses for 100 s, each later than the one before.
func withPauses(inst *hare.Instance) *model.Model {
	cut := *inst
	cut.Cluster.Nodes = nil
	for _, node := range inst.Cluster.Nodes {
		for left := node.GPUs[0].Count; left > 0; left -= 8 {
			n := len(cut.Cluster.Nodes)
			part := hare.Node{Name: fmt.Sprint("n", n), GPUs: slices.Clone(node.GPUs)}
			part.GPUs[0].Count = min(8, left)
			if n%2 == 1 {
				at := int64(n) * 20e6
				part.Windows = []hare.Window{{StartUs: 0, EndUs: at}, {StartUs: at + 100e6, EndUs: hare.Forever}}
			}
			cut.Cluster.Nodes = append(cut.Cluster.Nodes, part)
		}
	}
	return model.New(&cut)
}
