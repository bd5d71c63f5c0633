package highs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/relax/highs"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

func TestMain(m *testing.M) {
	highs.ServeIfWorker()
	os.Exit(m.Run())
}

// TestEngineServesSolves checks that a program can give HiGHS to a solve, and learns where it was built without.
func TestEngineServesSolves(t *testing.T) {
	engine, err := highs.Open()
	if errors.Is(err, highs.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "a", "gpus": {"V100": 1}}]},
		"jobs": [{"id": "x", "on": {"V100": {"compute_s": 2}}}, {"id": "y", "on": {"V100": {"compute_s": 1}}}]}`),
		wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := solver.Solve(context.Background(), inst, hare.Options{}, solver.Config{LP: engine,
		EngineVersion: engine.Version(), Restarts: engine.Restarts})
	if err != nil || result.Engine.HiGHS == "" || fmt.Sprint(result.Value, result.Bound) != "4 4" {
		t.Errorf("%+v, %v", result, err)
	}
}
