package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
)

func simulationOf(t *testing.T, doc string) (*service.SimulationRequest, *hare.Simulation) {
	t.Helper()
	d, err := hare.DecodeSimulation(strings.NewReader(doc), hare.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return service.SimulationOf(d), d
}

func TestSimulationOf(t *testing.T) {
	r, _ := simulationOf(t, `{"policies":["hlas"],"trace":{"text":"x\n","table_name":"y","quantum_s":2.5},"jobs":[3,9],"seed":4,"repeat":5,"restart_s":0.5,"interval_s":30,"prices":{"V100":0.74}}`)
	if r.Trace.Name != "trace" || string(r.Trace.Text) != "x\n" || r.Trace.TableName != "y" || r.Trace.Table != nil || r.Trace.Quantum != 2500*time.Millisecond {
		t.Errorf("%+v", r.Trace)
	}
	if r.First != 3 || r.Last != 9 || r.Seed != 4 || r.Repeat != 5 || r.LeaseS != 0 || r.ResetS != service.DefaultResetS || r.RestartS != 0.5 || r.IntervalS != 30 || len(r.Prices) != 1 || r.Prices["V100"] != 0.74 {
		t.Errorf("%+v", r)
	}
	if r, _ = simulationOf(t, `{"policies":["hlas"],"trace":{"name":"x"},"reset_s":0}`); r.ResetS != 0 || r.IntervalS != 0 || r.Prices != nil || r.Trace.Text != nil || r.Trace.Name != "x" {
		t.Errorf("%+v", r)
	}
}

// A request, its document and the document's text say the same.
func TestSimulationDocument(t *testing.T) {
	for _, text := range []string{
		`{"policies":["hlas","srtf"],"trace":{"text":"x\n","format":"gavel","table":"y","quantum_s":2.5,"sync":"rigid"},"gpus":{"K80":2,"V100":1},"jobs":[3,9],"seed":4,"repeat":5,
			"lease_s":10,"reset_s":0,"restart_s":0.5,"interval_s":30,"prices":{"V100":2.48,"K80":0.135},"cdf":true,"faults":[{"gpu":"v100/0","from_s":1},{"node":"k80","from_s":2,"until_s":3.5}],"fault_rate":{"gpu_mean_s":100,"gpu_repair_s":5},
			"failures":{"probability":0.25,"per_gpu_hour":3},"stragglers":true,"switch_s":0.5}`,
		`{"policies":["hlas"],"trace":{"name":"x","table_name":"z"}}`,
		`{"policies":["hlas"],"generate":{"jobs":20,"arrivals":"none","sync":"gang","grain_s":0.1},"merge_s":60,"cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]}}`,
		smallSimulation,
	} {
		r, _ := simulationOf(t, text)
		var b bytes.Buffer
		if err := r.Document().EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		again, _ := simulationOf(t, b.String())
		if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("%s\n%s", b.String(), diff)
		}
	}
}

const smallSimulation = `{"policies":["fifo","srtf","kueue"],"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},
	"jobs":[{"id":"x","on":{"V100":{"compute_s":10}}}]}}`

// Where the time passes in the second run, the first one is answered.
func TestSimulationKeepsWhatEndedInTime(t *testing.T) {
	svc := service.New(service.Config{Running: 1})
	req, _ := simulationOf(t, smallSimulation)
	const limit = 50 * time.Millisecond
	var told []string
	ans, err := svc.Simulate(t.Context(), req, limit, func(i int, r *service.SimulationRun) error {
		if len(told) != i {
			t.Errorf("run %d is told as number %d", i, len(told))
		}
		told = append(told, r.Policy)
		time.Sleep(2 * limit)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ans.Status != service.SimulationDeadline || ans.Asked != 3 || len(ans.Runs) != 1 || ans.Runs[0].MeanJCTS != 10 || ans.Means != nil || len(told) != 1 {
		t.Errorf("%+v, told %v", ans, told)
	}
	if ans, err = svc.Simulate(t.Context(), req, 0, nil, nil); err != nil || ans.Status != hare.StatusSucceeded || len(ans.Runs) != 3 {
		t.Errorf("%v %+v", err, ans)
	}
}

func TestSimulationEndsWithItsReader(t *testing.T) {
	svc := service.New(service.Config{Running: 1})
	req, _ := simulationOf(t, smallSimulation)
	gone, told := errors.New("gone"), 0
	if _, err := svc.Simulate(t.Context(), req, 0, func(int, *service.SimulationRun) error { told++; return gone }, nil); !errors.Is(err, gone) || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
	// A panic fails the call alone.
	if _, err := svc.Simulate(t.Context(), req, 0, func(int, *service.SimulationRun) error { panic("oh") }, nil); err == nil || !strings.Contains(err.Error(), "panicked: oh") {
		t.Error(err)
	}
	if waiting, running := svc.Load(); waiting+running != 0 {
		t.Errorf("%d wait and %d run", waiting, running)
	}
}

// A server that ends cuts a simulation, which has no result then.
func TestSimulationIsDrained(t *testing.T) {
	svc := service.New(service.Config{Running: 1})
	req, _ := simulationOf(t, smallSimulation)
	began, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		_, err := svc.Simulate(t.Context(), req, 0, func(int, *service.SimulationRun) error {
			if first {
				close(began)
				first = false
			}
			time.Sleep(200 * time.Millisecond)
			return nil
		}, nil)
		failed <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no grace
	svc.Drain(ctx)
	if err := <-failed; !errors.Is(err, service.ErrDraining) {
		t.Error(err)
	}
}

// Limits are told before the work that they limit.
func TestSimulationLimits(t *testing.T) {
	for _, c := range []struct {
		lim     service.SimulationLimits
		doc     string
		pointer string
	}{
		{service.SimulationLimits{Runs: 2}, smallSimulation, "/policies"},
		{service.SimulationLimits{Runs: 3}, strings.Replace(smallSimulation, `{`, `{"repeat":2,`, 1), "/repeat"},
		{service.SimulationLimits{Jobs: 4}, `{"policies":["fifo"],"generate":{"jobs":5}}`, "/generate/jobs"},
		{service.SimulationLimits{Sum: 2}, smallSimulation, "/instance"},
		{service.SimulationLimits{GPUs: 2}, strings.Replace(smallSimulation, `"V100":1`, `"V100":3`, 1), ""},
		{service.SimulationLimits{Faults: 5}, strings.Replace(strings.Replace(smallSimulation, `"V100":1`, `"V100":3`, 1), `{`, `{"faults":[{"node":"a","from_s":1,"until_s":2},{"node":"a","from_s":4,"until_s":5}],`, 1), "/faults"},
		{service.SimulationLimits{Matched: 4}, `{"policies":["fifo","sched_allox"],"generate":{"jobs":5}}`, "/policies/1"},
		{service.SimulationLimits{Work: 9}, `{"policies":["fifo"],"generate":{"jobs":5}}`, "/generate/jobs"},
		{service.SimulationLimits{GPUs: 63}, `{"policies":["pollux:tiresias"],"trace":{"name":"pollux_workload_6.csv"}}`, ""},
		{service.SimulationLimits{Jobs: 9}, `{"policies":["gavel:fifo"],"trace":{"name":"gavel_trace_continuous5600_single.csv"}}`, "/trace"},
	} {
		req, _ := simulationOf(t, c.doc)
		_, err := service.Simulate(t.Context(), req, service.SimulationConfig{Limits: c.lim})
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Code != "too_large" || fault.Pointer != c.pointer {
			t.Errorf("%+v: %v", c.lim, err)
		}
	}
	for _, doc := range []string{
		smallSimulation,
		// Leases do not simulate rounds one by one, nor do policies of merged ones.
		strings.Replace(strings.Replace(smallSimulation, `"fifo","srtf","kueue"`, `"gavel:fifo_perf"`, 1), `"id":"x"`, `"id":"x","rounds":5`, 1),
		strings.Replace(strings.Replace(smallSimulation, `{`, `{"merge_s":60,`, 1), `"id":"x"`, `"id":"x","sync":"gang","rounds":5`, 1),
	} {
		req, _ := simulationOf(t, doc)
		if _, err := service.Simulate(t.Context(), req, service.SimulationConfig{Limits: service.SimulationLimits{Runs: 3, Jobs: 1, Sum: 3, Work: 1, GPUs: 1, Faults: 1}}); err != nil {
			t.Error(err)
		}
	}
}

// A policy that would need too much memory is refused, and named.
func TestSimulationOfTooManyThatWait(t *testing.T) {
	req, _ := simulationOf(t, `{"policies":["gavel:allox"],"generate":{"jobs":1}}`)
	req.Generate = nil
	req.Instance = &hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 9}}}}}}
	for i := range 4000 {
		req.Instance.Jobs = append(req.Instance.Jobs, hare.Job{
			ID: strconv.Itoa(i), WeightMicro: 1e6, Rounds: 1, Tasks: 1, On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}})
	}
	var run *service.SimulationError
	if _, err := service.Simulate(t.Context(), req, service.SimulationConfig{}); !errors.As(err, &run) || run.Code != "too_large" || run.Policy != "gavel:allox" {
		t.Error(err)
	}
}

// Whatever a document asks for, a simulation answers or refuses: nothing panics,
// and what it answers is JSON.
func FuzzSimulations(f *testing.F) {
	for _, s := range []string{
		smallSimulation,
		`{"policies":["gavel:fifo_perf","hlas"],"trace":{"text":"job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n0,0,ResNet-18 (batch size 64),200,1,1\n1,3,LM (batch size 20),100,2,2\n"},"gpus":{"V100":2,"K80":2},"lease_s":60,"restart_s":1,"jobs":[0,1]}`,
		`{"policies":["srtf","gavel:isolated"],"generate":{"jobs":3,"arrivals":"poisson:0.1","sync":"gang"},"gpus":{"V100":16,"T4":2},"repeat":2,"faults":[{"gpu":"v100/1","from_s":5,"until_s":9},{"node":"t4","from_s":1}],"merge_s":100,"cdf":true}`,
		`{"policies":["tiresias","slurm"],"trace":{"text":"arrival_s,duration_s,num_gpus\n0,100,1\n5,20,2\n"},"gpus":{"V100":2},"failures":{"probability":0.1},"stragglers":true,"switch_s":1,"fault_rate":{"gpu_mean_s":500,"gpu_repair_s":5}}`,
	} {
		f.Add(s)
	}
	svc := service.New(service.Config{Running: 1})
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := hare.DecodeSimulation(strings.NewReader(text), hare.Limits{MaxBytes: 1 << 16})
		if err != nil {
			return
		}
		ans, err := svc.Simulate(t.Context(), service.SimulationOf(doc), 50*time.Millisecond, func(_ int, r *service.SimulationRun) error {
			_, err := json.Marshal(r.EachJob())
			return err
		}, nil)
		var run *service.SimulationError
		switch {
		case err == nil:
			if _, err := json.Marshal(ans); err != nil {
				t.Fatal(err)
			}
		case strings.Contains(err.Error(), "panicked"):
			t.Fatal(err)
		case errors.As(err, &run) && (run.Code == "infeasible_decision" || run.Code == "refused"):
			t.Fatal(err)
		}
	})
}
