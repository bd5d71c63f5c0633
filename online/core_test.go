package online

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

// randomConfig returns thresholds and a κ so small that queues and the guard matter within
// seconds.
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

// streams returns the number of random streams of events for a test: n, or a tenth of n in
// short tests.
func streams(t *testing.T, n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// The core makes the same decisions as the plain policy, keeps the rules, continues from
// snapshots, and adopts its own decisions.
func TestRandomStreams(t *testing.T) {
	returned := 0
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
		returned += int(h.c.tickets) - w.arrived
		for _, j := range plain.jobs {
			if _, ok := h.Explain(j.ID); !ok {
				t.Fatalf("seed %d: job %s is not known", seed, j.ID)
			}
		}
	}
	if returned < 100 {
		t.Errorf("the guard acts %d times", returned)
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

// A step of several events gives the decisions that the events give one by one.
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

// refused returns the code with which a step was refused, or "".
func refused(err error) string {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Err.Code
	}
	return ""
}

// The state of an endless session does not grow with what has ended.
func TestNothingGrows(t *testing.T) {
	h, _ := NewHLAS(small, HLASConfig{ThresholdsUs: []int64{500_000}, Kappa: 0.5})
	c := h.c
	for i := range int64(20_000) {
		name := strconv.FormatInt(i, 10)
		j := &hare.Job{ID: name, Tasks: 1 + i%3, Sync: hare.Sync(i % 3), Mix: i%3 == 1 && i%2 == 0,
			On: onBoth()[:1+i%2]}
		for k, e := range []hare.Event{
			{Type: hare.EventGPUJoined, GPU: "x/" + name, GPUType: "T4"},
			{Type: hare.EventJobArrived, Job: name, Arrived: j},
			{Type: hare.EventTick},
			{Type: hare.EventGPULeft, GPU: "x/" + name},
			{Type: hare.EventTick},
			{Type: hare.EventJobEnded, Job: strconv.FormatInt(max(i-3, 0), 10)},
		} {
			if _, err := h.Step(i*1e6+int64(k)*100_000, []hare.Event{e}); err != nil && i > 3 {
				t.Fatal(err)
			}
		}
	}
	if len(c.jobs) > 8 || len(c.gpus) > 4 || len(c.classes) > 8 || len(c.due) > 8 || len(c.types) != 2 ||
		cap(c.out) > 64 ||
		len(c.types[0].ready.at) > 8 || len(c.readyAt) > 8 || len(c.vacantJobs) > 8 || len(c.vacantClasses) > 8 {
		t.Errorf("%d jobs, %d GPUs, %d classes, %d due, %d types", len(c.jobs), len(c.gpus), len(c.classes),
			len(c.due), len(c.types))
	}
	if n := len(h.AppendSnapshot(nil)); n > 2000 {
		t.Errorf("a snapshot of %d bytes", n)
	}
}

// Times and counts at their limits saturate, and the state can be stored.
func TestExtremes(t *testing.T) {
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang} {
		h, _ := NewHLAS(small, HLASConfig{ThresholdsUs: []int64{hare.MaxExact}, Kappa: 1e6, Reference: "T4"})
		tasks := int64(hare.MaxExact)
		if sync == hare.Gang {
			tasks = 2
		}
		on := []hare.Profile{{Type: "T4", ComputeUs: hare.MaxExact}, {Type: "V100", ComputeUs: 1}}
		now := int64(0)
		step := func(e hare.Event) []hare.Decision {
			ds, err := h.Step(now, []hare.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			again, err := RestoreHLAS(h.AppendSnapshot(nil))
			if err != nil {
				t.Fatalf("%v: %v", e, err)
			}
			h = again
			return ds
		}
		ds := step(hare.Event{Type: hare.EventJobArrived,
			Arrived: &hare.Job{ID: "j", Tasks: tasks, Sync: sync, On: on}})
		step(hare.Event{Type: hare.EventJobArrived,
			Arrived: &hare.Job{ID: "k", Tasks: 1, On: []hare.Profile{{Type: "T4"}, {Type: "V100"}}}})
		now = hare.MaxExact
		for _, d := range ds {
			step(hare.Event{Type: hare.EventTaskEnded, Job: "j", Round: d.Round, Task: d.Task, GPU: d.GPU,
				ComputeUs: hare.MaxExact, SyncUs: hare.MaxExact})
		}
		step(hare.Event{Type: hare.EventTick})
		if j, _ := h.Explain("j"); j.CountedUs != math.MaxInt64 || j.Queue != "last" {
			t.Errorf("%v: %+v", sync, j)
		}
	}
}

func TestSnapshotOfAnotherVersion(t *testing.T) {
	h, _ := NewHLAS(small, HLASConfig{})
	b := h.AppendSnapshot(nil)
	b[bytes.IndexByte(b, '/')+1]++
	reseal(b)
	if _, err := RestoreHLAS(b); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Error(err)
	}
}

func TestAdoptRefusesWhatCannotBe(t *testing.T) {
	start := func(task int64, gpu string) hare.Decision {
		return hare.Decision{Job: "j", Task: task, GPU: gpu, AtUs: 1}
	}
	for _, c := range []struct {
		name string
		mix  bool
		ds   []hare.Decision
		want string // a part of the error; "" if the decisions can be adopted
	}{
		{"as decided", false, []hare.Decision{start(0, "a/1"), start(1, "a/2")}, ""},
		{"otherwise", false, []hare.Decision{start(0, "a/2"), start(1, "a/1")}, ""},
		{"not yet", false, nil, ""},
		{"types", false, []hare.Decision{start(0, "a/0"), start(1, "a/1")}, "several types"},
		{"types of a mixing gang", true, []hare.Decision{start(0, "a/0"), start(1, "a/1")}, ""},
		{"one GPU twice", false, []hare.Decision{start(0, "a/1"), start(1, "a/1")}, "not free"},
		{"order", false, []hare.Decision{start(1, "a/1"), start(0, "a/2")}, "not the next"},
		{"half", false, []hare.Decision{start(0, "a/1")}, "1 are recorded"},
		{"no GPU", false, []hare.Decision{start(0, "a/1"), start(1, "a/9")}, "not free"},
	} {
		h, _ := NewHLAS(small, HLASConfig{})
		e := hare.Event{Type: hare.EventJobArrived,
			Arrived: &hare.Job{ID: "j", Tasks: 2, Sync: hare.Gang, Mix: c.mix, On: onBoth()}}
		err := h.Adopt(1, e, c.ds)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
