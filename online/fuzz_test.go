package online

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/hare-sched/hare"
)

// garble makes events of bytes. Most events name jobs and GPUs that exist; some name others,
// so many events are refused.
type garble struct {
	b []byte
}

func (g *garble) byte() int {
	if len(g.b) == 0 {
		return 0
	}
	x := g.b[0]
	g.b = g.b[1:]
	return int(x)
}

// event returns an event that may be impossible. The jobs and tasks that run are those of w.
func (g *garble) event(w *world) (now int64, e hare.Event) {
	kind := g.byte()
	now = w.now + int64(kind>>4)*250_000
	e.Type = hare.EventType(kind & 15)
	x := g.byte()
	if len(w.ids) > 0 {
		e.Job = w.ids[x%len(w.ids)]
	}
	if len(w.running) > 0 {
		t := w.running[x%len(w.running)]
		e.Job, e.Round, e.Task, e.GPU = t.job, t.round, t.task, t.gpu
	}
	e.ComputeUs = int64(x) * 10_000
	switch e.Type {
	case hare.EventJobArrived:
		w.made++
		y := g.byte()
		j := &hare.Job{ID: "j" + strconv.Itoa(w.made), Tasks: int64(x & 7), Sync: hare.Sync(x >> 3 & 3),
			Mix: x>>5&1 == 1}
		for k, name := range []string{"A", "B", "C", "D"} {
			if y>>k&1 == 1 {
				j.On = append(j.On, hare.Profile{Type: name, ComputeUs: int64(y>>4) * 200_000 * int64(k+1)})
			}
		}
		e.Arrived, e.Job = j, j.ID
	case hare.EventGPUJoined:
		w.made++
		e.GPU, e.GPUType = "x/"+strconv.Itoa(w.made), []string{"A", "B", "C", "D", ""}[x%5]
	case hare.EventGPULeft:
		e.GPU = "x/0"
		if len(w.names) > 0 {
			e.GPU = w.names[x%len(w.names)]
		}
	}
	switch y := g.byte(); y & 31 { // a quarter of the events are changed
	case 1:
		e.Round += int64(y>>5) - 3
	case 2:
		e.Task += int64(y>>5) - 3
	case 3:
		e.GPU = "n0/0"
	case 4:
		e.Job = "nobody"
	case 5:
		now -= 1_000_000
	case 6:
		e.ComputeUs = -1
	case 7:
		now = 1<<62 + int64(y)
	case 8:
		e.Arrived = nil
	}
	return now, e
}

// The core panics at no event. A refusal has a pointer, a code and a remedy, and leaves the
// state as it was. Decisions keep the rules, equal those of the plain policy, and can be
// adopted, and the core continues from a snapshot.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x01\x0f\xff\x00\x01\x22\x73\x00\x03\x00\x00"))
	f.Add(bytes.Repeat([]byte("\x01\x0b\x33\x00\x11\x2a\x77\x00\x03\x01\x00\x33\x02\x00\x08\x03\x00\x07\x04\x00"), 8))
	f.Add(bytes.Repeat([]byte{0x31, 0x2d, 0xff, 0, 0x43, 7, 0, 0x14, 9, 0, 0x15, 2, 0, 0x26, 1, 0}, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 600 {
			return
		}
		g := &garble{b}
		w := &world{gpus: map[string]string{}, jobs: map[string]*worldJob{}}
		cl := &hare.Cluster{}
		setup := g.byte()
		for i, k := range []string{"A", "B", "A"}[:1+setup%3] {
			n := hare.Node{Name: "n" + strconv.Itoa(i), GPUs: []hare.TypeCount{{Type: k, Count: 1 + setup>>2&3}}}
			for x := range n.GPUs[0].Count {
				name := n.Name + "/" + strconv.Itoa(x)
				w.gpus[name] = k
				w.names = append(w.names, name)
			}
			cl.Nodes = append(cl.Nodes, n)
		}
		cfg := HLASConfig{ThresholdsUs: []int64{int64(1+setup>>4&3) * 1e6}, Kappa: 0.5 + float64(setup>>6)}
		h, err := NewHLAS(cl, cfg)
		if err != nil {
			t.Fatal(err)
		}
		adopted, _ := NewHLAS(cl, cfg)
		p, _ := cfg.params()
		plain := newSlow(cl, p.thresholds, p.kappa, p.reference)
		for len(g.b) > 0 {
			now, e := g.event(w)
			before := h.AppendSnapshot(nil)
			got, err := h.Step(now, []hare.Event{e})
			if err != nil {
				var r *RefusedError
				if !errors.As(err, &r) || r.Err.Pointer == "" || r.Err.Code == "" || r.Err.Detail == "" {
					t.Fatalf("%+v is refused without pointer, code or remedy: %v", e, err)
				}
				if len(got) > 0 || !bytes.Equal(before, h.AppendSnapshot(nil)) {
					t.Fatalf("%+v is refused and leaves traces", e)
				}
				continue
			}
			w.now = now
			want := plain.step(now, e)
			for i := range want {
				if want[i].GPU == "?" && i < len(got) {
					want[i].GPU = got[i].GPU
				}
			}
			if !sameOrder(got, want) {
				t.Fatalf("%+v:\n got %v\nwant %v", e, got, want)
			}
			if err := w.follow(&e, got); err != nil {
				t.Fatalf("%+v: %v", e, err)
			}
			if err := w.idle(h.Status()); err != nil {
				t.Fatalf("%+v: %v", e, err)
			}
			if err := adopted.Adopt(now, e, got); err != nil {
				t.Fatalf("%+v: %v", e, err)
			}
		}
		last := h.AppendSnapshot(nil)
		if !bytes.Equal(last, adopted.AppendSnapshot(nil)) {
			t.Fatal("adopting gives another state")
		}
		again, err := RestoreHLAS(last)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(last, again.AppendSnapshot(nil)) {
			t.Fatal("restoring gives another state")
		}
	})
}
