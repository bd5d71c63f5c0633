package lp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// small returns the problem: maximise 3x + 2y subject to x + y ≤ 4, x + 3y ≤ 7, 0 ≤ x ≤
// 3. The optimum is 11 at (3, 1); the duals are 2 and 0.
func small() *Problem {
	inf := math.Inf(1)
	return &Problem{
		Maximize: true,
		Cost:     []float64{3, 2},
		ColLower: []float64{0, 0}, ColUpper: []float64{3, inf},
		RowLower: []float64{-inf, -inf}, RowUpper: []float64{4, 7},
		Start: []int32{0, 2, 4}, Index: []int32{0, 1, 0, 1}, Value: []float64{1, 1, 1, 3},
	}
}

func checkSmall(t *testing.T, s *Solution, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	want := []float64{11, 3, 1, 2, 0}
	got := append(append([]float64{s.Objective}, s.X...), s.RowDual...)
	for i, w := range want {
		if math.Abs(got[i]-w) > 1e-9 {
			t.Errorf("objective, columns, duals are %v, want %v", got, want)
			return
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestPoolSolves(t *testing.T) {
	p := testPool(t, "sound", PoolConfig{Size: 2})
	ctx := within(t, time.Minute)
	// Version waits for a second alone, which is too short on a busy machine.
	first, err := p.Ready(ctx)
	if again := p.Version(); err != nil || first == "" || again != first {
		t.Fatalf("engine %q, then %q, %v", first, again, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				s, err := p.Solve(ctx, small())
				checkSmall(t, s, err)
			}
		})
	}
	wg.Wait()
	st := p.Stats()
	if st.Solves != 80 || st.Failures != 0 || st.Kills != 0 || st.Restarts != 0 || !st.Available {
		t.Errorf("stats %+v", st)
	}
}

func TestPoolTellsHowASolveEnded(t *testing.T) {
	p := testPool(t, "sound", PoolConfig{Size: 1})
	ctx := within(t, time.Minute)
	inf := math.Inf(1)

	contradiction := small()
	contradiction.RowLower, contradiction.RowUpper = []float64{5, 5}, []float64{inf, 5}
	contradiction.ColUpper[1] = 0.5
	endless := small()
	endless.RowUpper = []float64{inf, inf}
	endless.Value = []float64{1, -1, 1, -1}
	endless.Cost = []float64{0, 1}
	tests := []struct {
		name string
		p    *Problem
		want error
	}{
		{"infeasible", contradiction, ErrInfeasible},
		{"crossed bounds", &Problem{Cost: []float64{1}, ColLower: []float64{2}, ColUpper: []float64{1}}, ErrInfeasible},
		{"unbounded column", &Problem{Cost: []float64{-1}, ColLower: []float64{0}, ColUpper: []float64{inf}}, ErrUnbounded},
	}
	for _, tt := range tests {
		if _, err := p.Solve(ctx, tt.p); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	// Presolve may leave open whether the problem is infeasible or unbounded.
	var other *EngineError
	if _, err := p.Solve(ctx, endless); !errors.Is(err, ErrUnbounded) && !errors.As(err, &other) {
		t.Errorf("unbounded: %v", err)
	}
	repeated := small()
	repeated.Index = []int32{0, 0, 0, 1}
	if _, err := p.Solve(ctx, repeated); !errors.As(err, &other) {
		t.Errorf("a column twice in a row: %v", err)
	}
	s, err := p.Solve(ctx, small())
	checkSmall(t, s, err)
	if st := p.Stats(); st.Starts != 1 || st.Failures != 0 {
		t.Errorf("answers about the problem must not cost a worker: %+v", st)
	}
}

func TestPoolRefusesMalformedProblems(t *testing.T) {
	p := testPool(t, "sound", PoolConfig{Size: 1})
	for name, spoil := range map[string]func(*Problem){
		"costs":        func(p *Problem) { p.Cost = nil },
		"bounds":       func(p *Problem) { p.ColUpper = p.ColUpper[:1] },
		"rows":         func(p *Problem) { p.RowUpper = p.RowUpper[:1] },
		"nan cost":     func(p *Problem) { p.Cost[0] = math.NaN() },
		"inf value":    func(p *Problem) { p.Value[0] = math.Inf(1) },
		"nan bound":    func(p *Problem) { p.RowUpper[0] = math.NaN() },
		"lower +inf":   func(p *Problem) { p.ColLower[0] = math.Inf(1) },
		"index":        func(p *Problem) { p.Index[3] = 2 },
		"negative":     func(p *Problem) { p.Index[0] = -1 },
		"starts":       func(p *Problem) { p.Start[1] = 5 },
		"start length": func(p *Problem) { p.Start = p.Start[:2] },
		"values":       func(p *Problem) { p.Value = p.Value[:3] },
	} {
		q := small()
		spoil(q)
		if _, err := p.Solve(t.Context(), q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPoolRecycles(t *testing.T) {
	p := testPool(t, "sound", PoolConfig{Size: 1, MaxSolves: 3})
	ctx := within(t, time.Minute)
	for range 10 {
		s, err := p.Solve(ctx, small())
		checkSmall(t, s, err)
	}
	if st := p.Stats(); st.Recycled != 3 || st.Restarts != 0 || st.Failures != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestPoolWithoutEngine(t *testing.T) {
	t.Run("no such command", func(t *testing.T) {
		p, err := NewPool(PoolConfig{Size: 2, Command: []string{"/nonexistent/hare"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Solve(t.Context(), small()); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	})
	t.Run("ends at once", func(t *testing.T) {
		p := testPool(t, "absent", PoolConfig{Size: 2, FailureLimit: 3, Cooldown: time.Minute})
		if _, err := p.Solve(t.Context(), small()); !errors.Is(err, ErrUnavailable) || p.Version() != "" {
			t.Error(err, p.Version())
		}
		if st := p.Stats(); st.Available || st.LastError == "" {
			t.Errorf("stats %+v", st)
		}
	})
	t.Run("says nothing", func(t *testing.T) {
		p := testPool(t, "mute", PoolConfig{Size: 1, FailureLimit: 1, Cooldown: time.Minute,
			StartTimeout: 50 * time.Millisecond})
		if _, err := p.Solve(t.Context(), small()); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	})
	t.Run("deadline while starting", func(t *testing.T) {
		p := testPool(t, "mute", PoolConfig{Size: 1})
		start := time.Now()
		if _, err := p.Solve(within(t, 30*time.Millisecond), small()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestPoolClose(t *testing.T) {
	p := testPool(t, "hang:1", PoolConfig{Size: 2})
	if _, err := p.Ready(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 { // two run, one waits
		wg.Go(func() {
			if _, err := p.Solve(context.Background(), small()); !errors.Is(err, ErrClosed) {
				t.Errorf("closed under way: %v", err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	p.Close()
	wg.Wait()
	if _, err := p.Solve(t.Context(), small()); !errors.Is(err, ErrClosed) {
		t.Errorf("closed before: %v", err)
	}
	if len(p.live) != 0 {
		t.Errorf("%d processes left", len(p.live))
	}
}

// Signals that ask a service to end also reach its workers, which must continue until
// the service has finished.
func TestWorkersIgnorePoliteSignals(t *testing.T) {
	p := testPool(t, "sound", PoolConfig{Size: 1})
	ctx := within(t, time.Minute)
	if _, err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	for w := range p.live {
		pgid, err := syscall.Getpgid(w.cmd.Process.Pid)
		if err != nil || pgid == syscall.Getpgrp() {
			t.Errorf("process group %d, ours is %d, %v", pgid, syscall.Getpgrp(), err)
		}
		for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
			if err := w.cmd.Process.Signal(s); err != nil {
				t.Error(err)
			}
		}
	}
	p.mu.Unlock()
	s, err := p.Solve(ctx, small())
	checkSmall(t, s, err)
	if st := p.Stats(); st.Starts != 1 {
		t.Errorf("stats %+v", st)
	}
}

// If a parent is killed, its workers end too, whatever they do.
func TestWorkerEndsWithItsParent(t *testing.T) {
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), modeVariable+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var worker int
	if _, err := fmt.Fscan(out, &worker); err != nil || syscall.Kill(worker, 0) != nil {
		t.Fatalf("worker %d: %v", worker, err) // process 0 would be this test and all that started it
	}
	_ = syscall.Kill(worker, syscall.SIGSTOP) // a stopped worker cannot notice by itself
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for end := time.Now().Add(time.Minute); alive(worker); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("worker %d lives on", worker)
		}
	}
}

// alive returns false for a zombie, which only waits to be reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func TestWorkerEndsWithItsInput(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), modeVariable+"=sound")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPoolConfig(t *testing.T) {
	p, err := NewPool(PoolConfig{Size: 1}) // runs this executable, by ServeIfWorker
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Solve(within(t, time.Minute), small())
	checkSmall(t, s, err)
	p.Close()
	t.Setenv(workerVariable, "1")
	if p, err := NewPool(PoolConfig{}); err == nil {
		p.Close()
		t.Error("a worker may start workers")
	}
	os.Unsetenv(workerVariable)
	for _, bad := range []PoolConfig{{Size: -1}, {Size: 5000}, {Command: []string{}}, {Cooldown: -1}} {
		if p, err := NewPool(bad); err == nil {
			p.Close()
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// Workers do not see the parent's environment.
func TestWorkerEnvironment(t *testing.T) {
	t.Setenv("HARE_SECRET", "x")
	for _, v := range workerEnv(nil) {
		if v == "HARE_SECRET="+os.Getenv("HARE_SECRET") {
			t.Error(v)
		}
	}
}
