package highs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/relax/highs"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// forgetful makes TestMain a main that does not serve as a worker; the environment of workers has this variable.
const forgetful = "/main/forgets/the/worker"

func TestMain(m *testing.M) {
	if os.Getenv("HARE_LIBHIGHS") != forgetful {
		highs.ServeIfWorker()
	} else if len(os.Args) > 1 && os.Args[1] == "lp-worker" {
		fmt.Println("the program begins once more")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestOpenSaysWhyThereIsNoEngine checks that a program learns what is missing.
func TestOpenSaysWhyThereIsNoEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libhighs.so")
	if err := os.WriteFile(file, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HARE_LIBHIGHS", file)
	if _, err := highs.Open(); !errors.Is(err, highs.ErrUnavailable) ||
		!strings.Contains(err.Error(), file) && !strings.Contains(err.Error(), "-tags highs") {
		t.Errorf("no library: %v", err)
	}
	t.Setenv("HARE_LIBHIGHS", forgetful)
	if _, err := highs.Open(); err == nil || errors.Is(err, highs.ErrUnavailable) ||
		!strings.Contains(err.Error(), "does main call highs.ServeIfWorker first?") {
		t.Errorf("no worker: %v", err)
	}
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
