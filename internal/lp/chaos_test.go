package lp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// solveInTime fails the test unless Solve keeps to its deadline and returns
// either the right answer or an error that tells why there is none.
func solveInTime(t *testing.T, p *Pool, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	s, err := p.Solve(ctx, small())
	// The allowance is for a busy machine, not for Solve.
	if d := time.Since(start) - limit; d > 10*time.Second {
		t.Errorf("ended %v after its deadline", d)
	}
	var worker *WorkerError
	switch {
	case err == nil:
		checkSmall(t, s, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrUnavailable), errors.As(err, &worker):
	default:
		t.Errorf("unexpected error: %v", err)
	}
	return err
}

// Each kind of failure hits the second answer of every worker. The problem then goes to
// another worker, and the caller does not notice.
func TestChaosIsSurvived(t *testing.T) {
	for _, what := range []string{"crash", "exit", "nan", "short", "long", "stale", "flip", "garbage", "half", "huge"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := testPool(t, what+":2", PoolConfig{Size: 1})
			for range 5 {
				if err := solveInTime(t, p, time.Minute); err != nil {
					t.Error(err)
				}
			}
			// Solves 2, 3, 4 and 5 each meet a worker's second answer first.
			st := p.Stats()
			if st.Solves != 5 || st.Failures != 4 || st.Restarts != 4 {
				t.Errorf("stats %+v", st)
			}
			if what == "crash" && !strings.Contains(st.LastError, "about to crash") {
				t.Errorf("last error %q has not what the worker wrote", st.LastError)
			}
		})
	}
}

func TestChaosPrintingDoesNoHarm(t *testing.T) {
	p := testPool(t, "print:1", PoolConfig{Size: 1})
	if err := solveInTime(t, p, time.Minute); err != nil || p.Stats().Failures != 0 {
		t.Errorf("%v, %+v", err, p.Stats())
	}
}

func TestChaosHang(t *testing.T) {
	p := testPool(t, "hang:1", PoolConfig{Size: 1})
	// On a busy machine a deadline may pass before the worker has its problem. The worker is not
	// killed then, and the next solve takes its place.
	for i := 0; i < 100 && p.Stats().Kills < 3; i++ {
		// Each Ready waits for a fresh worker, within its own deadline.
		if _, err := p.Ready(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := solveInTime(t, p, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("solve %d: %v", i, err)
		}
	}
	if st := p.Stats(); st.Kills != 3 || st.Failures != 0 {
		t.Errorf("stats %+v", st)
	}
	p = testPool(t, "hang:1", PoolConfig{Size: 1, SolveTimeout: 50 * time.Millisecond})
	_, err := p.Solve(within(t, time.Minute), small())
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a deadline of the caller's: %v", err)
	}
}

// A worker that uses too much memory reaches its limit and dies; this process does not.
func TestChaosMemory(t *testing.T) {
	p := testPool(t, "eat:2", PoolConfig{Size: 1, MemoryBytes: 256 << 20})
	for range 3 {
		if err := solveInTime(t, p, time.Minute); err != nil {
			t.Error(err)
		}
	}
	// The runtime reports this in two ways, and in one more under the race detector.
	st := p.Stats()
	if st.Failures != 2 || !strings.Contains(st.LastError, "out of memory") &&
		!strings.Contains(st.LastError, "fatal error") {
		t.Errorf("stats %+v", st)
	}
}

// Two hundred solves, or more until a worker has failed and has been started again, run
// while workers are killed at random moments and also fail by themselves.
func TestChaosKills(t *testing.T) {
	solves := 200
	if testing.Short() {
		solves = 50
	}
	p := testPool(t, "crash:~20", PoolConfig{Size: 2, FailureLimit: 1000, Attempts: 10})
	began := time.Now()
	if err := solveInTime(t, p, time.Minute); err != nil {
		t.Fatal(err)
	}
	// If everything is slow, workers must live long enough for a solve.
	life := 20*time.Millisecond + 3*time.Since(began)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		rng := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rng.Int64N(int64(life)))):
				p.mu.Lock()
				for w := range p.live {
					if rng.IntN(2) == 0 {
						_ = w.cmd.Process.Signal(syscall.SIGKILL)
					}
				}
				p.mu.Unlock()
			}
		}
	}()
	solved, st := 1, p.Stats()
	for ; solved < solves || st.Failures == 0 || st.Restarts == 0; st = p.Stats() {
		if err := solveInTime(t, p, time.Minute); err != nil {
			t.Errorf("solve %d: %v", solved, err)
			break
		}
		if solved++; solved == 100*solves {
			break
		}
	}
	close(stop)
	<-stopped
	st = p.Stats()
	if st.Solves != int64(solved) || st.Failures == 0 || st.Restarts == 0 {
		t.Errorf("stats %+v after %d solves", st, solved)
	}
}

// If an engine fails each time, callers get the error within moments, and at once while
// the breaker is open; then the engine is tried again.
func TestBreakerOpensAndCloses(t *testing.T) {
	p := testPool(t, "crash:1", PoolConfig{Size: 1, FailureLimit: 4, Cooldown: time.Hour, Attempts: 2})
	opened := false
	for range 10 {
		if err := solveInTime(t, p, time.Minute); errors.Is(err, ErrUnavailable) {
			opened = true
			break
		}
	}
	if !opened || p.Stats().Available {
		t.Fatalf("still in use: %+v", p.Stats())
	}
	if err := solveInTime(t, p, time.Minute); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	p.mu.Lock()
	p.breaker.until = time.Now() // the cooldown is over
	p.mu.Unlock()
	if !p.Stats().Available {
		t.Error("not tried again")
	}
	before := p.Stats().Failures
	if err := solveInTime(t, p, time.Minute); err == nil || p.Stats().Failures <= before {
		t.Errorf("%v, %+v", err, p.Stats())
	}
}

func TestBreaker(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newCircuitBreaker(3, time.Second)
	var trace strings.Builder
	for _, step := range strings.Fields("f f s f f f . . 1 . f . 1 s f f . f . g . 9 .") {
		switch step {
		case "f":
			b.failure(now)
		case "s":
			b.success()
		case "g":
			b.noEngine(now)
		case ".":
			fmt.Fprint(&trace, map[bool]string{true: "+", false: "-"}[b.allows(now)])
		default:
			now = now.Add(time.Second)
		}
	}
	if got := trace.String(); got != "--+-+---" {
		t.Errorf("allowed %s", got)
	}
	b = newCircuitBreaker(3, time.Second)
	var pauses []time.Duration
	for range 12 {
		pauses = append(pauses, b.pause())
		b.failure(now)
	}
	if pauses[0] != 0 || pauses[1] != 0 || pauses[2] != 10*time.Millisecond || pauses[3] != 20*time.Millisecond ||
		pauses[11] != time.Second {
		t.Errorf("pauses %v", pauses)
	}
}
