package solver_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
)

const childLists = "/proc/self/task/*/children"

// workers lists the LP workers among the children of this process.
func workers() []int {
	lists, _ := filepath.Glob(childLists) // Glob fails only for an invalid pattern
	var out []int
	for _, name := range lists {
		text, _ := os.ReadFile(name) // a thread may have ended
		for _, word := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + word + "/cmdline")
			if pid, err := strconv.Atoi(word); err == nil && strings.Contains(string(line), "lp-worker") {
				out = append(out, pid)
			}
		}
	}
	return out
}

// LP workers are killed at random moments of 200 solves. Each solve is answered with a
// certificate, and none hangs.
func TestKilledWorkersCostNoAnswer(t *testing.T) {
	solves := 60 // each meets some kills
	if testing.Short() {
		solves = 20
	}
	if lists, _ := filepath.Glob(childLists); len(lists) == 0 {
		t.Skip("this system does not list the children of a process")
	}
	pool, err := lp.NewPool(lp.PoolConfig{Size: 2, FailureLimit: 1000, Attempts: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	if _, err := pool.Ready(t.Context()); errors.Is(err, lp.ErrUnavailable) {
		t.Skip(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killed := 0
	killer.Go(func() {
		r := rand.New(rand.NewPCG(5, 6))
		for ctx.Err() == nil {
			time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
			for _, pid := range workers() {
				if r.IntN(2) == 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
			}
		}
	})
	names := []string{"three-jobs", "windows", "traps"}
	for i := range solves {
		inst := instance(t, names[i%3])
		began := time.Now()
		opt := hare.Options{TimeLimit: 80 * time.Millisecond, Seed: int64(i)}
		res, err := solver.Solve(t.Context(), inst, opt, solver.Config{LP: pool})
		if err != nil {
			t.Fatalf("solve %d: %v", i, err)
		}
		if rep := verify.Check(inst, res); !rep.OK || res.Bound == nil || res.Schedule == nil {
			t.Fatalf("solve %d: %s", i, rep)
		}
		// The limit is for a loaded machine and finds hangs; benchmarks measure the promised
		// times.
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("solve %d took %v", i, took)
		}
	}
	stop()
	killer.Wait()
	if killed == 0 {
		t.Error("no worker was killed")
	}
	t.Logf("%d workers killed, %+v", killed, pool.Stats())
}
