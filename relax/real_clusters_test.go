package relax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// realExample is an instance whose optimum was found by trying all schedules.
type realExample struct {
	Instance     json.RawMessage `json:"instance"`
	Optimum      json.Number     `json:"optimum"`
	CriticalPath json.Number     `json:"critical_path"`
	Machine      string          `json:"machine"`
}

func decodeInstance(t *testing.T, document []byte) *hare.Instance {
	t.Helper()
	inst, err := wire.DecodeInstance(bytes.NewReader(document), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// Bounds of the examples are at most their optima, and the simple ones are known.
func TestBoundsOfRealClusters(t *testing.T) {
	for _, name := range []string{"running", "quota", "after", "deadlines", "makespan", "spread",
		"shapes", "switch", "return", "together"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "verify", "testdata", "real", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var ex realExample
			if err := json.Unmarshal(text, &ex); err != nil {
				t.Fatal(err)
			}
			m := model.New(decodeInstance(t, ex.Instance))
			optimum, _ := ex.Optimum.Float64()
			bound := func(method string) float64 {
				rel, err := Run(t.Context(), m, Config{Method: method, Workers: 1, Steps: 2})
				if err != nil {
					t.Fatal(method, err)
				}
				if len(rel.Progress) != len(m.Jobs) {
					t.Errorf("%s: progress of %d jobs of %d", method, len(rel.Progress), len(m.Jobs))
				}
				return rel.Bound.Float()
			}
			path, _ := ex.CriticalPath.Float64()
			if name == "shapes" {
				path-- // the example rounds 7.5 s of a job of weight 2 up to whole seconds
			}
			if b := bound(hare.MethodCriticalPath); b != path {
				t.Errorf("critical path %v, want %v", b, path)
			}
			if machine, _ := json.Number(ex.Machine).Float64(); ex.Machine != "" {
				if b := bound(hare.MethodMachine); b < machine || b >= machine+1e-6 {
					t.Errorf("machine %v, want %v", b, machine)
				}
			}
			price := bound(hare.MethodPrice)
			t.Logf("price %v of %v", price, optimum)
			if price > optimum || price < 0.75*optimum {
				t.Errorf("price %v, and the optimum is %v", price, optimum)
			}
		})
	}
}

// Quotas say what they lack.
func TestWhyQuotasAreTooSmall(t *testing.T) {
	const cluster = `"cluster": {"nodes": [{"name": "a", "gpus": {"A": 4}}]}`
	for name, c := range map[string]struct{ quota, job, want string }{
		"a gang": {`{"user": "u", "gpus": 2}`, `"sync": "gang", "tasks": 3`, "needs 3 GPUs of its quota at once, which"},
		"a task": {`{"user": "u", "gpus": 1}`, `"tasks": 3, "gpus_per_task": 2`, "needs 2 GPUs of its quota"},
	} {
		inst := decodeInstance(t, []byte(`{"hare": "instance/v1", `+cluster+`, "quota": [`+c.quota+`], "jobs": [
			{"id": "x", "user": "u", `+c.job+`, "on": {"A": {"compute_s": 1}}}]}`))
		_, err := Run(t.Context(), model.New(inst), Config{})
		if !errors.Is(err, ErrInfeasible) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While running work fills a quota, its other jobs wait, whatever the GPUs are worth.
func TestQuotasFullOfRunningWork(t *testing.T) {
	inst := decodeInstance(t, []byte(`{"hare": "instance/v1", "cluster": {"nodes": [{"name": "a", "gpus": {"A": 8}}]},
		"quota": [{"user": "u", "gpus": 2}], "jobs": [
		{"id": "r", "sync": "rigid", "tasks": 2, "user": "u", "on": {"A": {"compute_s": 50}},
		 "progress": {"gpus": ["a/0", "a/1"], "elapsed_s": 10}},
		{"id": "x", "sync": "gang", "tasks": 2, "rounds": 3, "user": "u", "on": {"A": {"compute_s": 10}}}]}`))
	rel := mustPrice(t, inst, Config{Workers: 1})
	if b := rel.Bound.Float(); b < 65 || b > 70 || rel.Certificate.Pools[0].Resource != hare.PoolQuota {
		t.Errorf("the bound is %v of 70, by %+v", b, rel.Certificate.Pools)
	}
}

// Where the only node leaves service before the work of all jobs can be done, each time can be proved,
// and the search for the makespan's bound ends at the last time that a document may have. Where one job
// alone takes too long, it can never run.
func TestMakespanOfWorkThatNeverEnds(t *testing.T) {
	never := func(jobs ...string) *hare.Instance {
		return decodeInstance(t, []byte(`{"hare":"instance/v1","objective":"makespan","cluster":{"nodes":[`+
			`{"name":"n0","gpus":{"A":1}},`+
			`{"name":"n1","gpus":{"A":1},"in_service_s":[[0,2]],"busy":[{"gpu":0,"until_s":1}]}]},`+
			`"jobs":[`+strings.Join(jobs, ",")+`]}`))
	}
	job := func(id string, rounds int) string {
		return fmt.Sprintf(`{"id":%q,"rounds":%d,"only":{"node":"n1"},"on":{"A":{"compute_s":1}}}`, id, rounds)
	}
	inst := never(job("a", 1), job("b", 1), job("c", 1), job("d", 1), job("e", 1))
	rel, err := Run(t.Context(), model.New(inst), Config{Method: hare.MethodPrice, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if low, err := verify.Bound(inst, rel.Certificate); err != nil || low.Cmp(big.NewRat(9_007_000_000, 1)) < 0 {
		t.Errorf("the bound is %v, %v", low, err)
	}
	_, err = Run(t.Context(), model.New(never(job("a", 5))), Config{Method: hare.MethodPrice, Workers: 1})
	if !errors.Is(err, ErrInfeasible) {
		t.Errorf("a job of 5 s in 1 s: %v", err)
	}
}
