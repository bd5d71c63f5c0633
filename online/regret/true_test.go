package regret_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Logs of events that a client may send at odd moments have an achieved value, a least and a greatest
// possible bound, and numbers of jobs that are computed by hand.
func TestRegretWhateverTheClientSends(t *testing.T) {
	const arrives = `{"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"V100":{}}}}`
	ended := func(at, compute float64, round, task int, gpu string) string {
		return fmt.Sprintf(`{"at_s":%v,"type":"task_ended","job":"j","round":%d,"task":%d,"gpu":%q,"compute_s":%v}`,
			at,
			round, task, gpu, compute)
	}
	for _, c := range []struct {
		name        string
		nodes       []hare.Node
		play        func(b *book)
		counted     int
		empty       int
		achieved    string
		least, most float64
		sync        hare.Sync
		note        string
	}{
		{name: "job_ended before the last task_ended", nodes: []hare.Node{v100("a", 2)}, play: func(b *book) {
			b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"j","tasks":2,"on":{"V100":{}}}}`, "j 0 0 a/0 0",
				"j 0 1 a/1 0")
			b.add(ended(2, 2, 0, 0, "a/0"))
			b.add(ended(3, 3, 0, 1, "a/1"), "j 1 0 a/0 3", "j 1 1 a/1 3")
			b.add(ended(4, 1, 1, 0, "a/0"))
			b.add(`{"at_s":9,"type":"job_ended","job":"j"}`)
			// The second round is not complete, so only its measured times count.
		}, counted: 1, achieved: "3", least: 1, most: 1},
		{name: "job_ended in the first round", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(`{"at_s":9,"type":"job_ended","job":"j"}`)
		}, empty: 1, achieved: "0", note: "without a whole round"},
		{name: "job_cancelled", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(ended(1, 1, 0, 0, "a/0"))
			b.add(`{"at_s":1,"type":"job_cancelled","job":"j"}`)
		}, achieved: "0", note: "cancelled"},
		{name: "task_failed and repeated", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(`{"at_s":5,"type":"task_failed","job":"j","round":0,"task":0,"gpu":"a/0"}`, "j 0 0 a/0 5")
			b.add(ended(7, 2, 0, 0, "a/0"))
			b.add(`{"at_s":7,"type":"job_ended","job":"j"}`)
		}, counted: 1, achieved: "7", least: 2, most: 2},
		{name: "a gang repeats a round and ends within it", nodes: []hare.Node{v100("a", 2)}, play: func(b *book) {
			b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"j","tasks":2,"sync":"gang","on":{"V100":{}}}}`,
				"j 0 0 a/0 0",
				"j 0 1 a/1 0")
			b.add(ended(2, 2, 0, 0, "a/0"))
			b.add(`{"at_s":3,"type":"task_failed","job":"j","round":0,"task":1,"gpu":"a/1"}`, "j 0 0 a/0 3",
				"j 0 1 a/1 3")
			b.add(ended(5, 2, 0, 1, "a/1"))
			b.add(`{"at_s":5,"type":"job_ended","job":"j"}`)
		}, empty: 1, achieved: "0"},
		{name: "a GPU leaves in a task", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(`{"at_s":4,"type":"gpu_left","gpu":"a/0"}`)
			b.add(`{"at_s":6,"type":"gpu_joined","gpu":"a/0","gpu_type":"V100"}`, "j 0 0 a/0 6")
			b.add(ended(11, 5, 0, 0, "a/0"))
			b.add(`{"at_s":11,"type":"job_ended","job":"j"}`)
		}, counted: 1, achieved: "11", least: 5, most: 11},
		// As one block, both rounds end at 14 at the earliest.
		{name: "a rigid job goes on after a pause", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"j","sync":"rigid","on":{"V100":{}}}}`, "j 0 0 a/0 0")
			b.add(ended(2, 2, 0, 0, "a/0"), "j 1 0 a/0 2")
			b.add(`{"at_s":3,"type":"gpu_left","gpu":"a/0"}`)
			b.add(`{"at_s":10,"type":"gpu_joined","gpu":"a/0","gpu_type":"V100"}`, "j 1 0 a/0 10")
			b.add(ended(12, 2, 1, 0, "a/0"))
			b.add(`{"at_s":12,"type":"job_ended","job":"j"}`)
		}, counted: 1, achieved: "12", least: 4, most: 12, sync: hare.Gang},
		{name: "a learned speed, times that vary", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(ended(3, 3, 0, 0, "a/0"), "j 1 0 a/0 3")
			b.add(ended(5, 1.5, 1, 0, "a/0"), "j 2 0 a/0 5")
			b.add(`{"at_s":5,"type":"job_ended","job":"j"}`)
		}, counted: 1, achieved: "5", least: 3, most: 3},
		{name: "longer than the stay", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(ended(3, 30, 0, 0, "a/0"))
			b.add(`{"at_s":3,"type":"job_ended","job":"j"}`)
		}, counted: 1, achieved: "3", least: 3, most: 3, note: "longer than the stay"},
		{name: "no time at all", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(ended(0, 1, 0, 0, "a/0"))
			b.add(`{"at_s":0,"type":"job_ended","job":"j"}`)
		}, empty: 1, achieved: "0", note: "no time at all"},
		// A GPU that was free at time 0 was not held for the ten seconds of synchronising.
		{name: "compute_ended at time 0", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			b.add(arrives, "j 0 0 a/0 0")
			b.add(`{"at_s":0,"type":"compute_ended","job":"j","round":0,"task":0,"gpu":"a/0"}`)
			b.add(ended(10, 10, 0, 0, "a/0"))
			b.add(`{"at_s":10,"type":"job_ended","job":"j"}`)
		}, empty: 1, achieved: "0", note: "no time at all"},
		{name: "an id used again, and one that looks like it", nodes: []hare.Node{v100("a", 1)}, play: func(b *book) {
			at := 0
			for _, id := range []string{"j", "j (2)", "j"} {
				b.add(fmt.Sprintf(`{"at_s":%d,"type":"job_arrived","job":{"id":%q,"on":{"V100":{}}}}`, at, id))
				last := &hare.Decision{Job: id, GPU: "a/0", AtUs: int64(at) * 1e6}
				b.addRecord(`{"at_s":`+fmt.Sprint(at)+`,"type":"tick"}`, *last)
				at++
				b.add(strings.Replace(ended(float64(at), 1, 0, 0, "a/0"), `"j"`, fmt.Sprintf("%q", id), 1))
				b.add(fmt.Sprintf(`{"at_s":%d,"type":"job_ended","job":%q}`, at, id))
			}
		}, counted: 3, achieved: "3", least: 3, most: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t, c.nodes...)
			c.play(b)
			r := b.regret()
			if r.Counted != c.counted || r.Empty != c.empty || r.Achieved.String() != c.achieved || !r.Last {
				t.Errorf("%+v", r)
			}
			if b := r.Bound.Float(); b < c.least || b > c.most {
				t.Errorf("bound %v is not from %v to %v", r.Bound, c.least, c.most)
			}
			if r.Instance != nil && r.Instance.Jobs[0].Sync != c.sync {
				t.Errorf("bounded as %v", r.Instance.Jobs[0].Sync)
			}
			if !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("no %q in %q", c.note, r.Notes)
			}
		})
	}
}

// addRecord appends an event, given as JSON without seq, and its decisions.
func (b *book) addRecord(event string, decisions ...hare.Decision) {
	b.t.Helper()
	b.seq++
	e, err := wire.DecodeEvent(fmt.Appendf(nil, `{"seq":%d,%s`, b.seq, event[1:]))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.h.Add(wire.Record{Event: e, Decisions: decisions}); err != nil {
		b.t.Fatal(err)
	}
}

// isTrue checks a regret against all that is known of the plans: the certificate, the
// achieved value, a plan of the solver, and the optimum, where the search ends within
// limit. It returns whether the optimum was found.
func isTrue(t *testing.T, r *regret.Report, limit int) (optimal bool) {
	t.Helper()
	if r.Instance == nil {
		if r.Counted != 0 || r.Achieved.Sign() != 0 {
			t.Errorf("%+v", r)
		}
		return false
	}
	if r.Bound.Cmp(r.Achieved) > 0 {
		t.Errorf("event %d: the bound %v lies above what was achieved, %v", r.Seq, r.Bound, r.Achieved)
	}
	bound, err := verify.Bound(r.Instance, r.Certificate)
	if err != nil || new(big.Rat).SetFrac(r.Bound.Big(), big.NewInt(1e12)).Cmp(bound) > 0 {
		t.Errorf("event %d: %v, bound %v: %v", r.Seq, bound, r.Bound, err)
	}
	res, err := solver.Solve(context.Background(), r.Instance, hare.Options{WorkLimit: 50}, solver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Value == nil || r.Bound.Cmp(*res.Value) > 0 {
		t.Errorf("event %d: the bound %v lies above the value %v of a plan", r.Seq, r.Bound, res.Value)
	}
	value, ok, done := brute.Optimum(r.Instance, limit)
	if !done {
		return false
	}
	optimum := big.NewInt(value)
	if !ok || r.Bound.Big().Cmp(optimum) > 0 || optimum.Cmp(r.Achieved.Big()) > 0 {
		t.Errorf("event %d: optimum %v (%v), bound %v, achieved %v: not in order", r.Seq, optimum, ok, r.Bound,
			r.Achieved)
		text, _ := json.Marshal(r.Instance)
		t.Log(string(text))
	}
	return true
}

func recordsOf(records []wire.Record) iter.Seq2[wire.Record, error] {
	return func(yield func(wire.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Every interval of random runs, with GPUs that come and go and jobs of all modes, is
// true on instances that are mostly small enough to compute the optimum.
func TestRegretsOfRandomRunsAreTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("brute force is for the run without the race detector; TestRegretsOfWildClientsAreTrue is for both")
	}
	seeds, optima, bounds := uint64(12), 0, 0
	for seed := range seeds {
		inst := brute.Random(rand.New(rand.NewPCG(seed, 3)))
		cluster := sim.Cluster(inst)
		for _, name := range registry.SessionNames() {
			var records []wire.Record
			p, err := registry.OpenSession(name, cluster, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = sim.Run(t.Context(), inst, p, sim.Config{Log: func(r wire.Record) error {
				r.Decisions = append([]hare.Decision(nil), r.Decisions...)
				records = append(records, r)
				return nil
			}})
			if errors.Is(err, sim.ErrStalled) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			for r, err := range regret.Series(t.Context(), cluster, "", recordsOf(records), 1_700_000, bound) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Instance != nil {
					bounds++
				}
				if isTrue(t, r, 50_000) {
					optima++
				}
			}
		}
	}
	t.Logf("%d bounds, %d held against the optimum", bounds, optima)
	if optima*2 < bounds || bounds < int(seeds) {
		t.Errorf("only %d of %d bounds were held against the optimum", optima, bounds)
	}
}

// wild is a client that sends all kinds of events and ignores those that the policy refuses.
type wild struct {
	rng     *rand.Rand
	at      int64
	arrived int
	running []hare.Decision
}

func (w *wild) next() hare.Event {
	if w.rng.IntN(3) > 0 {
		w.at += w.rng.Int64N(4) * 500_000
	}
	e := hare.Event{AtUs: w.at}
	d := hare.Decision{Job: fmt.Sprint("j", w.rng.IntN(3)), GPU: []string{"a/0", "a/1", "b/0"}[w.rng.IntN(3)]}
	if len(w.running) > 0 && w.rng.IntN(10) > 0 {
		d = w.running[w.rng.IntN(len(w.running))]
	}
	switch n := w.rng.IntN(24); {
	case n < 3 && w.arrived < 4:
		w.arrived++
		e.Type, e.Job = hare.EventJobArrived, fmt.Sprint("j", w.rng.IntN(3))
		job := &hare.Job{ID: e.Job, WeightMicro: 1e6 * (1 + w.rng.Int64N(3)), Tasks: 1 + w.rng.Int64N(2),
			Sync: hare.Sync(w.rng.IntN(3))}
		job.Mix = job.Sync == hare.Gang && w.rng.IntN(2) == 0
		for _, kind := range []string{"T4", "V100"} {
			job.On = append(job.On, hare.Profile{Type: kind, ComputeUs: w.rng.Int64N(3) * 1e6})
		}
		e.Arrived = job
	case n < 5:
		e.Type = hare.EventComputeEnded
	case n < 14:
		e.Type, e.ComputeUs, e.SyncUs = hare.EventTaskEnded, 1+w.rng.Int64N(4)*500_000, w.rng.Int64N(3)*500_000
	case n < 16:
		e.Type = hare.EventTaskFailed
	case n < 18:
		e.Type, e.Job = hare.EventJobEnded, d.Job
	case n == 18:
		e.Type, e.Job = hare.EventJobCancelled, d.Job
	case n < 21:
		e.Type, e.GPU = hare.EventGPULeft, d.GPU
	case n < 24:
		e.Type, e.GPU, e.GPUType = hare.EventGPUJoined, d.GPU, []string{"T4", "V100"}[w.rng.IntN(2)]
	}
	switch e.Type {
	case hare.EventComputeEnded, hare.EventTaskEnded, hare.EventTaskFailed:
		e.Job, e.Round, e.Task, e.GPU = d.Job, d.Round, d.Task, d.GPU
	}
	return e
}

// A wild client under each policy: every bound is true, and no achieved value is better
// than the optimum.
func TestRegretsOfWildClientsAreTrue(t *testing.T) {
	seeds, optima, bounds, refused := uint64(40), 0, 0, 0
	if testing.Short() {
		seeds = 10
	}
	cluster := &hare.Cluster{Nodes: []hare.Node{v100("a", 2),
		{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}}}}
	for seed := range seeds {
		w := &wild{rng: rand.New(rand.NewPCG(seed, 5))}
		p, err := registry.OpenSession(registry.SessionNames()[seed%uint64(len(registry.SessionNames()))], cluster, nil)
		if err != nil {
			t.Fatal(err)
		}
		var records []wire.Record
		for len(records) < 40 {
			e := w.next()
			e.Seq = int64(len(records)) + 1
			ds, err := p.Step(e.AtUs, []hare.Event{e})
			var no *online.RefusedError
			if errors.As(err, &no) {
				refused++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			records = append(records, wire.Record{Event: e, Decisions: append([]hare.Decision(nil), ds...)})
			for _, d := range ds {
				if d.Type == hare.DecisionStart {
					w.running = append(w.running, d)
				}
			}
			w.running = w.running[max(0, len(w.running)-6):]
		}
		for r, err := range regret.Series(t.Context(), cluster, "", recordsOf(records), 7_000_000, bound) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if r.Instance != nil {
				bounds++
			}
			if isTrue(t, r, 50_000) {
				optima++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d bounds, %d held against the optimum, %d events refused", bounds, optima, refused)
	if optima*2 < bounds || bounds < int(seeds)/4 {
		t.Errorf("only %d of %d bounds were held against the optimum", optima, bounds)
	}
}
