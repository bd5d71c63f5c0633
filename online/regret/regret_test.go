package regret_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// bound computes the price bound without a server.
func bound(ctx context.Context, inst *hare.Instance, method string) (*hare.Relaxation, error) {
	return solver.Bound(ctx, inst, method, solver.Config{})
}

// book is a log that a test writes by hand.
type book struct {
	t   *testing.T
	h   *regret.Hindsight
	seq int64
}

func newBook(t *testing.T, nodes ...hare.Node) *book {
	return &book{t: t, h: regret.NewHindsight(&hare.Cluster{Nodes: nodes})}
}

// add appends an event, given as JSON without seq, with the starts of tasks, each given
// as "job round task gpu at".
func (b *book) add(event string, starts ...string) {
	b.t.Helper()
	b.seq++
	e, err := wire.DecodeEvent(fmt.Appendf(nil, `{"seq":%d,%s`, b.seq, event[1:]))
	if err != nil {
		b.t.Fatal(err)
	}
	r := wire.Record{Event: e}
	for _, s := range starts {
		d := hare.Decision{}
		var at float64
		if _, err := fmt.Sscan(s, &d.Job, &d.Round, &d.Task, &d.GPU, &at); err != nil {
			b.t.Fatal(err)
		}
		d.AtUs = int64(at * 1e6)
		r.Decisions = append(r.Decisions, d)
	}
	if err := b.h.Add(r); err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) regret() *regret.Report {
	b.t.Helper()
	r, err := regret.Of(context.Background(), b.h, bound)
	if err != nil {
		b.t.Fatal(err)
	}
	if ratio, ok := r.Ratio(); ok && ratio.Cmp(big.NewRat(1, 1)) < 0 {
		b.t.Errorf("achieved %v lies below the bound %v", r.Achieved, r.Bound)
	}
	if r.Instance != nil {
		if _, err := verify.Bound(r.Instance, r.Certificate); err != nil {
			b.t.Error(err)
		}
	}
	return r
}

func v100(name string, n int) hare.Node {
	return hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: "V100", Count: n}}}
}

// Two jobs of one task ran on one GPU. The long job ran first, which costs 10 + 11; the best order
// costs 1 + 11.
func TestRegretOfTheWrongOrder(t *testing.T) {
	b := newBook(t, v100("a", 1))
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"long","on":{"V100":{}}}}`, "long 0 0 a/0 0")
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"short","on":{"V100":{"compute_s":7}}}}`)
	b.add(`{"at_s":10,"type":"task_ended","job":"long","round":0,"task":0,"gpu":"a/0","compute_s":10}`,
		"long 1 0 a/0 10")
	if r := b.regret(); r.Counted != 0 || r.Running != 2 || r.Instance != nil {
		t.Errorf("%+v", r)
	}
	b.add(`{"at_s":10,"type":"job_ended","job":"long"}`, "short 0 0 a/0 10")
	b.add(`{"at_s":11,"type":"task_ended","job":"short","round":0,"task":0,"gpu":"a/0","compute_s":1}`)
	b.add(`{"at_s":12,"type":"job_ended","job":"short"}`)
	r := b.regret()
	if r.Achieved.String() != "21" || r.Counted != 2 || r.Bound.Float() < 11 || r.Bound.Float() > 12 {
		t.Errorf("achieved %v, bound %v", r.Achieved, r.Bound)
	}
	b.h.Objective = hare.ObjectiveMakespan
	if r := b.regret(); r.Achieved.String() != "11" || r.Bound.Float() < 10.99 ||
		r.Certificate.Objective != hare.ObjectiveMakespan {
		t.Errorf("makespan %v, at least %v", r.Achieved, r.Bound)
	}
	b.h.Objective = ""
	f, err := b.h.Followed("test")
	if err != nil || f.Result == nil {
		t.Fatalf("%+v %v", f, err)
	}
	if rep := verify.Check(f.Instance, f.Result); !rep.OK || rep.Value.String() != "21" {
		t.Error(rep)
	}
}

// If the measured times of a job differ, the bound uses the least of them.
func TestTraceWhereTimesDiffer(t *testing.T) {
	b := newBook(t, v100("a", 1))
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"V100":{"compute_s":1},"T4":{}}}}`, "j 0 0 a/0 0")
	b.add(`{"at_s":3,"type":"task_ended","job":"j","round":0,"task":0,"gpu":"a/0","compute_s":2,"sync_s":1}`,
		"j 1 0 a/0 3")
	b.add(`{"at_s":6,"type":"task_ended","job":"j","round":1,"task":0,"gpu":"a/0","compute_s":2.5,"sync_s":0.5}`)
	b.add(`{"at_s":6,"type":"job_ended","job":"j"}`)
	r := b.regret()
	if on := r.Instance.Jobs[0].On; len(on) != 1 || on[0].ComputeUs != 2e6 || on[0].SyncUs != 5e5 {
		t.Errorf("%+v", on)
	}
	if r.Bound.String() != "5" || r.Achieved.String() != "6" ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "neither a measured nor a given time") {
		t.Errorf("%+v", r)
	}
	f, err := b.h.Followed("test")
	if err != nil || f.Result != nil || len(f.Tasks) != 2 || f.Tasks[1].StartUs != 3e6 || f.Tasks[1].EndUs != 6e6 {
		t.Errorf("%+v %v", f, err)
	}
}

// If a GPU leaves, its task is lost, and the other GPUs of its node become nodes of their own.
func TestRegretWithGPUsThatComeAndGo(t *testing.T) {
	b := newBook(t, v100("a", 2), v100("b", 1), v100("a:1", 1))
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"j","tasks":2,"sync":"gang","on":{"V100":{"compute_s":2}}}}`,
		"j 0 0 a/0 0", "j 0 1 a/1 0")
	b.add(`{"at_s":1,"type":"gpu_left","gpu":"a/1"}`, "j 0 0 a/0 1", "j 0 1 b/0 1")
	b.add(`{"at_s":3,"type":"task_ended","job":"j","round":0,"task":0,"gpu":"a/0","compute_s":2}`)
	b.add(`{"at_s":3,"type":"task_ended","job":"j","round":0,"task":1,"gpu":"b/0","compute_s":2}`)
	b.add(`{"at_s":3,"type":"gpu_joined","gpu":"a/1","gpu_type":"V100"}`)
	b.add(`{"at_s":4,"type":"gpu_joined","gpu":"c/5","gpu_type":"T4"}`)
	b.add(`{"at_s":4,"type":"job_ended","job":"j"}`)
	r := b.regret()
	text, _ := json.Marshal(r.Instance.Cluster)
	for _, want := range []string{`"Name":"a:0"`, `"Name":"a:1'"`, `"Name":"c:5"`, `"Name":"b"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	f, err := b.h.Followed("test")
	if err != nil || f.Result == nil || f.Renamed["a:0/0"] != "a/0" {
		t.Fatalf("%+v %v", f, err)
	}
}

// A rigid job that moved to other GPUs counts as a gang.
func TestRegretOfARigidJobThatMoved(t *testing.T) {
	b := newBook(t, v100("a", 1), hare.Node{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}})
	b.add(`{"at_s":0,"type":"job_arrived","job":{"id":"j","sync":"rigid","on":{"V100":{},"T4":{}}}}`, "j 0 0 b/0 0")
	b.add(`{"at_s":9,"type":"task_ended","job":"j","round":0,"task":0,"gpu":"b/0","compute_s":9}`, "j 1 0 b/0 9")
	b.add(`{"at_s":9,"type":"gpu_left","gpu":"b/0"}`, "j 1 0 a/0 9")
	b.add(`{"at_s":10,"type":"task_ended","job":"j","round":1,"task":0,"gpu":"a/0","compute_s":1}`)
	b.add(`{"at_s":10,"type":"job_ended","job":"j"}`)
	if r := b.regret(); r.Instance.Jobs[0].Sync != hare.Gang || len(r.Notes) == 0 {
		t.Errorf("%+v", r)
	}
}

// Random plans in order of arrival on one machine never beat their bound.
func TestRegretIsAtLeastOne(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBook(t, v100("a", 1))
		now := int64(0)
		for id := range int64(6) {
			compute, sync := 1+rng.Int64N(9), rng.Int64N(3)
			b.add(fmt.Sprintf(`{"at_s":%d,"type":"job_arrived","job":{"id":"%d","weight":%d,"on":{"V100":{}}}}`, now,
				id,
				rng.IntN(4)), fmt.Sprintf("%d 0 0 a/0 %d", id, now))
			rounds := 1 + rng.Int64N(4)
			for r := range rounds {
				now += compute + sync + rng.Int64N(2)
				var next []string
				if r+1 < rounds {
					next = append(next, fmt.Sprintf("%d %d 0 a/0 %d", id, r+1, now))
				}
				b.add(fmt.Sprintf(`{"at_s":%d,"type":"task_ended","job":"%d","round":%d,"task":0,"gpu":"a/0","compute_s":%d,`+
					`"sync_s":%d}`, now, id, r, compute, sync), next...)
			}
			b.add(fmt.Sprintf(`{"at_s":%d,"type":"job_ended","job":"%d"}`, now, id))
		}
		if r := b.regret(); r.Counted != 6 {
			t.Errorf("seed %d: %+v", seed, r)
		}
		if f, err := b.h.Followed("test"); err != nil || f.Result == nil {
			t.Errorf("seed %d: %+v %v", seed, f, err)
		}
	}
}
