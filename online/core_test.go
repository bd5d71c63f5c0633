package online

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
)

// randomConfig has queues and a guard that matter within seconds.
func randomConfig(r *rand.Rand) HLASConfig {
	cfg := HLASConfig{Queues: 1 + r.IntN(3), Kappa: []float64{0.5, 1, 2.5}[r.IntN(3)]}
	cfg.ThresholdsUs = []int64{}
	for i := range cfg.Queues - 1 {
		cfg.ThresholdsUs = append(cfg.ThresholdsUs, int64(2+5*i)*1e6)
	}
	if r.IntN(3) == 0 {
		cfg.Reference = "B"
	}
	return cfg
}

// streams is how many random event streams each test of them takes.
func streams(t *testing.T, n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// The fast core decides as the plain one does, keeps the rules, survives
// snapshots, and adopts what it decided.
func TestRandomStreams(t *testing.T) {
	promoted := 0
	for seed := range uint64(streams(t, 4000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, cl := newWorld(r)
		cfg := randomConfig(r)
		h, err := NewHLAS(cl, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := cfg.params()
		plain := newSlow(cl, p.thresholds, p.kappa, p.reference)
		adopted, _ := NewHLAS(cl, cfg)
		for n := range 150 {
			e := w.event()
			got, err := h.Step(w.now, []hare.Event{e})
			if err != nil {
				t.Fatalf("seed %d event %d: %v", seed, n, err)
			}
			want := plain.step(w.now, e)
			for i := range want {
				if want[i].GPU == "?" && i < len(got) {
					want[i].GPU = got[i].GPU
				}
			}
			if !sameOrder(got, want) {
				t.Fatalf("seed %d event %d %+v:\n got %v\nwant %v", seed, n, e, got, want)
			}
			if err := w.follow(&e, got); err != nil {
				t.Fatalf("seed %d event %d %+v: %v", seed, n, e, err)
			}
			if err := w.idle(h.Status()); err != nil {
				t.Fatalf("seed %d event %d %+v: %v", seed, n, e, err)
			}
			if err := adopted.Adopt(w.now, e, got); err != nil {
				t.Fatalf("seed %d event %d %+v: %v", seed, n, e, err)
			}
			if n%10 == 0 {
				a, b := h.AppendSnapshot(nil), adopted.AppendSnapshot(nil)
				if !bytes.Equal(a, b) {
					t.Fatalf("seed %d event %d %+v: adopting gives another state", seed, n, e)
				}
				again, err := RestoreHLAS(a)
				if err != nil {
					t.Fatalf("seed %d event %d: %v", seed, n, err)
				}
				if !bytes.Equal(again.AppendSnapshot(nil), a) {
					t.Fatalf("seed %d event %d: another snapshot after restoring", seed, n)
				}
				h = again
			}
		}
		for _, j := range plain.jobs {
			if j.ticket > int(1) && j.executed == 0 && j.waited == 0 && j.queue == 0 {
				promoted++
			}
			if _, ok := h.Explain(j.ID); !ok {
				t.Fatalf("seed %d: job %s is not known", seed, j.ID)
			}
		}
	}
}

func sameOrder(a, b []hare.Decision) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A batch gives the decisions that its events give one by one.
func TestBatches(t *testing.T) {
	for seed := range uint64(streams(t, 200)) {
		r := rand.New(rand.NewPCG(seed, 2))
		w, cl := newWorld(r)
		one, _ := NewFIFO(cl)
		all, _ := NewFIFO(cl)
		var batch []hare.Event
		var want []hare.Decision
		at := int64(0)
		for range 100 {
			e := w.event()
			if w.now > at {
				got, err := all.Step(at, batch)
				if err != nil || !sameOrder(got, want) {
					t.Fatalf("seed %d: got %v, %v, want %v", seed, got, err, want)
				}
				batch, want, at = nil, nil, w.now
			}
			ds, err := one.Step(w.now, []hare.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			batch, want = append(batch, e), append(want, ds...)
			if err := w.follow(&e, ds); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refused is the code with which a step is refused, "" where it is not.
func refused(err error) string {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Err.Code
	}
	return ""
}

// A gang that gathers before another starts gathers the same type when the
// decisions are adopted, although they do not say so: X takes the Bs, because
// the As, which it prefers, are kept for O until O starts on the Cs.
func TestAdoptGathersInTurn(t *testing.T) {
	cl := &hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 4}}},
		{Name: "c", GPUs: []hare.TypeCount{{Type: "C", Count: 2}}},
	}}
	arrive := func(id string, tasks int64, sync hare.Sync, on ...hare.Profile) hare.Event {
		return hare.Event{Type: hare.EventJobArrived, Job: id, Arrived: &hare.Job{ID: id, Tasks: tasks, Sync: sync, On: on}}
	}
	on := func(kind string, us int64) hare.Profile { return hare.Profile{Type: kind, ComputeUs: us} }
	cfg := HLASConfig{ThresholdsUs: []int64{100_000}, Kappa: 1000}
	h, _ := NewHLAS(cl, cfg)
	adopted, _ := NewHLAS(cl, cfg)
	for i, e := range []hare.Event{
		arrive("o", 2, hare.Gang, on("A", 1e6), on("C", 2e6)),
		arrive("q", 3, hare.Relaxed, on("A", 1e6)),
		arrive("r", 1, hare.Relaxed, on("B", 1e6)),
		arrive("z", 5, hare.Relaxed, on("B", 1e6), on("C", 1e6)),
		{Type: hare.EventTaskEnded, Job: "o", GPU: "a/0", ComputeUs: 1e6},
		{Type: hare.EventTaskEnded, Job: "o", Task: 1, GPU: "a/1", ComputeUs: 1e6},
		arrive("x", 4, hare.Gang, on("A", 1e6), on("B", 2e6)),
		{Type: hare.EventJobCancelled, Job: "z"},
	} {
		ds, err := h.Step(int64(i+1)*1e6, []hare.Event{e})
		if err != nil {
			t.Fatal(err)
		}
		if err := adopted.Adopt(int64(i+1)*1e6, e, ds); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*HLAS{h, adopted} {
		o, _ := p.Explain("o")
		x, _ := p.Explain("x")
		if o.State != "running" || x.State != "gathering" || p.c.types[p.c.typeOf["B"]].owner != p.c.jobOf["x"] {
			t.Errorf("o is %s, x %s: %+v", o.State, x.State, p.Status())
		}
	}
	if !bytes.Equal(h.AppendSnapshot(nil), adopted.AppendSnapshot(nil)) {
		t.Error("adopting gives another state")
	}
}
