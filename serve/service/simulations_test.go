package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

func simulationOf(t *testing.T, doc string) *simulatedoc.Request {
	t.Helper()
	d, err := simulatedoc.Decode(strings.NewReader(doc), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const smallSimulation = `{"policies":["fifo","srtf","kueue"],"instance":{"hare":"instance/v1",` +
	`"cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},
	"jobs":[{"id":"x","on":{"V100":{"compute_s":10}}}]}}`

// TestSimulationKeepsWhatEndedInTime checks that the answer has the first run if
// the time limit passes during the second one.
func TestSimulationKeepsWhatEndedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := service.New(service.Config{Running: 1})
		req := simulationOf(t, smallSimulation)
		const limit = 50 * time.Millisecond
		var told []string
		ans, err := svc.Simulate(t.Context(), req, limit, func(i int, r *study.Run) error {
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
		if ans.Status != study.StatusDeadline || ans.Asked != 3 || len(ans.Runs) != 1 || ans.Runs[0].MeanJCTS != 10 ||
			ans.Means != nil || len(told) != 1 {
			t.Errorf("%+v, told %v", ans, told)
		}
		if ans, err = svc.Simulate(t.Context(), req, 0, nil, nil); err != nil || ans.Status != hare.StatusSucceeded ||
			len(ans.Runs) != 3 {
			t.Errorf("%v %+v", err, ans)
		}
	})
}

func TestSimulationEndsWithItsReader(t *testing.T) {
	svc := service.New(service.Config{Running: 1})
	req := simulationOf(t, smallSimulation)
	gone, told := errors.New("gone"), 0
	if _, err := svc.Simulate(t.Context(), req, 0, func(int, *study.Run) error { told++; return gone },
		nil); !errors.Is(err, gone) || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
	// A panic fails only its own call.
	if _, err := svc.Simulate(t.Context(), req, 0, func(int, *study.Run) error { panic("oh") }, nil); err == nil ||
		!strings.Contains(err.Error(), "panicked: oh") {
		t.Error(err)
	}
	if waiting, running := svc.Load(); waiting+running != 0 {
		t.Errorf("%d wait and %d run", waiting, running)
	}
}

// TestSimulationIsDrained checks that the end of a server cuts off a simulation,
// which then has no result.
func TestSimulationIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := service.New(service.Config{Running: 1})
		req := simulationOf(t, smallSimulation)
		began, failed := make(chan struct{}), make(chan error, 1)
		go func() {
			first := true
			_, err := svc.Simulate(t.Context(), req, 0, func(int, *study.Run) error {
				if first {
					close(began)
					first = false
				}
				<-svc.Ended()
				synctest.Wait() // until the end has reached the simulation's context
				return nil
			}, nil)
			failed <- err
		}()
		<-began
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // there is no grace period
		svc.Drain(ctx)
		if err := <-failed; !errors.Is(err, admission.ErrDraining) {
			t.Error(err)
		}
	})
}

// FuzzSimulations checks that a simulation answers or refuses every request without
// a panic, and that its answer is JSON.
func FuzzSimulations(f *testing.F) {
	for _, s := range []string{
		smallSimulation,
		`{"policies":["gavel:fifo_perf","hlas"],"trace":{"text":"job_id,arrival_s,job_type,total_steps,scale_factor,` +
			`priority_weight\n0,0,ResNet-18 (batch size 64),200,1,1\n1,3,LM (batch size 20),100,2,2\n"},"gpus":{"V100":2,` +
			`"K80":2},"lease_s":60,"restart_s":1,"jobs":[0,1]}`,
		`{"policies":["srtf","gavel:isolated"],"generate":{"jobs":3,"arrivals":"poisson:0.1","sync":"gang"},` +
			`"gpus":{"V100":16,"T4":2},"repeat":2,"faults":[{"gpu":"v100/1","from_s":5,"until_s":9},{"node":"t4",` +
			`"from_s":1}],"merge_s":100,"cdf":true}`,
		`{"policies":["tiresias","slurm"],"trace":{"text":"arrival_s,duration_s,num_gpus\n0,100,1\n5,20,2\n"},` +
			`"gpus":{"V100":2},"failures":{"probability":0.1},"stragglers":true,"switch_s":1,` +
			`"fault_rate":{"gpu_mean_s":500,"gpu_repair_s":5}}`,
	} {
		f.Add(s)
	}
	svc := service.New(service.Config{Running: 1})
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := simulatedoc.Decode(strings.NewReader(text), wire.Limits{MaxBytes: 1 << 16})
		if err != nil {
			return
		}
		ans, err := svc.Simulate(t.Context(), doc, 50*time.Millisecond, func(_ int, r *study.Run) error {
			_, err := json.Marshal(r.EachJob())
			return err
		}, nil)
		var run *study.RunError
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
