package worker_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/residency"
	"github.com/hare-sched/hare/executor/worker"
)

var (
	kills  = flag.Int("hare.kills", 12, "kill the workers so many times while they train")
	python = flag.String("hare.python", "python3", "the interpreter of the workers")
)

// packageFolder returns where hare_worker is.
func packageFolder(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../executor/python/src")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// interpreter returns the Python of the tests, which has the module.
func interpreter(t testing.TB, module string) string {
	t.Helper()
	cmd := exec.Command(*python, "-c", "import sys; assert sys.version_info >= (3, 11); import "+module)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%s cannot import %s: %v: %s", *python, module, err, lastLine(out))
	}
	return *python
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

func newNode(t testing.TB, cfg worker.Config) *worker.Node {
	t.Helper()
	if cfg.Python == nil {
		cfg.Python = []string{interpreter(t, "sys")}
	}
	dir, err := os.MkdirTemp("", "hare")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Directory, cfg.Package = dir, packageFolder(t)
	n, err := worker.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v are left in the directory (%v)", left, err)
		}
		_ = os.RemoveAll(dir)
	})
	return n
}

// jobsFolder is that of the jobs of the tests.
func jobsFolder(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("testdata/jobs")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// loop returns the state that a plain loop gives, in a process of its own.
func loop(t testing.TB, j worker.Job, rounds int64) []byte {
	t.Helper()
	cmd := exec.Command(*python, "testdata/loop.py", j.Directory, j.Module, fmt.Sprint(j.Tasks), fmt.Sprint(j.Seed),
		fmt.Sprint(rounds))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+packageFolder(t), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
		"MKL_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	state, err := hex.DecodeString(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// trainer runs rounds of several jobs on all devices of a node, each task on a device by chance.
type trainer struct {
	t       *testing.T
	node    *worker.Node
	devices int
	rng     *rand.Rand
	mu      sync.Mutex
	crashes int
	tasks   int
}

type placed struct {
	job   int
	task  int
	round int64
}

// round runs one round of each job; all tasks are mixed.
func (tr *trainer) round(jobs []worker.Job, round int64) {
	tr.t.Helper()
	queues := make([][]placed, tr.devices)
	for i, j := range jobs {
		for task := range j.Tasks {
			d := tr.rng.IntN(tr.devices)
			queues[d] = append(queues[d], placed{job: i, task: task, round: round})
		}
	}
	for _, q := range queues {
		tr.rng.Shuffle(len(q), func(a, b int) { q[a], q[b] = q[b], q[a] })
	}
	left := make([]sync.WaitGroup, len(jobs))
	for i, j := range jobs {
		left[i].Add(j.Tasks)
	}
	var all sync.WaitGroup
	for d, q := range queues {
		all.Go(func() {
			for i, p := range q {
				next := make([]string, 0, len(q))
				for _, n := range q[i+1:] {
					next = append(next, jobs[n.job].ID)
				}
				tr.again(func() error {
					_, err := tr.node.Run(tr.t.Context(), d,
						worker.Task{Job: jobs[p.job].ID, Round: p.round, Task: p.task}, next)
					return err
				})
				left[p.job].Done()
			}
		})
	}
	on := make([]int, len(jobs))
	for i := range jobs {
		on[i] = tr.rng.IntN(tr.devices)
	}
	for i, j := range jobs {
		all.Go(func() {
			left[i].Wait()
			tr.again(func() error {
				version, err := tr.node.Step(tr.t.Context(), on[i], j.ID, round)
				if err == nil && version != round+1 {
					return fmt.Errorf("the step of round %d gives version %d", round, version)
				}
				return err
			})
		})
	}
	all.Wait()
}

// again repeats what died with its worker.
func (tr *trainer) again(f func() error) {
	for {
		err := f()
		var crash *worker.CrashError
		crashed := errors.As(err, &crash)
		tr.mu.Lock()
		tr.tasks++
		if crashed {
			tr.crashes++
		}
		tr.mu.Unlock()
		if crashed {
			continue
		}
		if err != nil {
			tr.t.Error(err)
		}
		return
	}
}

// The parameters after n rounds of four jobs are, bit for bit, those of a plain loop, however
// the tasks were placed, with memory for two of the four jobs, and with workers killed at random.
func TestKillsAndSwitchesChangeNoBit(t *testing.T) {
	for _, backend := range []struct {
		name, needs, module string
		bytes               int64
	}{
		{"plain", "array", "linear", 2 * 13 * 8},
		{"numpy", "numpy", "perceptron", 2 * (16*24*4 + 24*8)},
		{"torch", "torch", "dropout", 7000},
	} {
		t.Run(backend.name, func(t *testing.T) {
			interpreter(t, backend.needs)
			if backend.name == "torch" && testing.Short() {
				t.Skip("PyTorch takes a second to start")
			}
			t.Parallel()
			memory := backend.bytes * 5 / 2
			node := newNode(t, worker.Config{Devices: 3, MemoryBytes: memory, Backoff: time.Millisecond})
			var jobs []worker.Job
			for i, tasks := range []int{4, 1, 3, 2} {
				j := worker.Job{ID: fmt.Sprintf("%s-%d", backend.name, i), Module: backend.module,
					Directory: jobsFolder(t), Tasks: tasks, Seed: int64(i)}
				if err := node.Add(t.Context(), i%3, j); err != nil {
					t.Fatal(err)
				}
				jobs = append(jobs, j)
			}
			wanted, least := *kills, int64(12)
			if testing.Short() {
				wanted, least = 3, 4
			}
			if backend.name == "torch" {
				wanted, least = (wanted+3)/4, 4 // PyTorch takes seconds to start.
			}
			tr := &trainer{t: t, node: node, devices: 3, rng: rand.New(rand.NewPCG(1, 2))}
			// The killer waits a random number of calls, never a time.
			stop, killed := make(chan struct{}), make(chan int)
			go func() {
				rng, n := rand.New(rand.NewPCG(3, 4)), 0
				for n < wanted {
					tr.mu.Lock()
					until := tr.tasks + 1 + rng.IntN(9)
					tr.mu.Unlock()
					for reached := false; !reached; {
						select {
						case <-stop:
							killed <- n
							return
						case <-time.After(time.Duration(rng.IntN(800)) * time.Microsecond):
						}
						tr.mu.Lock()
						reached = tr.tasks >= until
						tr.mu.Unlock()
					}
					if err := node.Kill(rng.IntN(3)); err != nil {
						t.Error(err)
					}
					n++
				}
				killed <- n
			}()
			rounds := int64(0)
			done := -1
			for ; done < 0 || rounds < least; rounds++ {
				tr.round(jobs, rounds)
				select {
				case done = <-killed:
				default:
				}
				if t.Failed() {
					close(stop)
					<-killed
					t.FailNow()
				}
			}
			var counts residency.Counts
			for d := range 3 {
				c, err := node.Counts(d)
				if err != nil {
					t.Fatal(err)
				}
				counts.Evictions += c.Evictions
				counts.Prefetches += c.Prefetches
				counts.Misses += c.Misses
			}
			t.Logf("%d rounds, %d calls, %d kills of which %d hit a call, %+v", rounds, tr.tasks, done, tr.crashes, counts)
			if !testing.Short() && (counts.Evictions == 0 || counts.Prefetches == 0) {
				t.Errorf("there were no evictions or no prefetches: %+v", counts)
			}
			for _, j := range jobs {
				got, _, err := node.State(j.ID)
				if err != nil {
					t.Fatal(err)
				}
				if want := loop(t, j, rounds); !bytes.Equal(got, want) {
					t.Errorf("%s: the state after %d rounds differs from that of the loop (%d and %d bytes)", j.ID, rounds,
						len(got), len(want))
				}
			}
		})
	}
}

// The examples of the documentation train on two workers as in a loop.
func TestExamplesTrain(t *testing.T) {
	folder, err := filepath.Abs("../../executor/python/examples")
	if err != nil {
		t.Fatal(err)
	}
	for module, needs := range map[string]string{"line": "array", "resnet": "torch"} {
		t.Run(module, func(t *testing.T) {
			if needs == "torch" && *kills < 100 {
				t.Skip("PyTorch takes half a minute for this: give -hare.kills=100")
			}
			interpreter(t, needs)
			t.Parallel()
			node := newNode(t, worker.Config{Devices: 2})
			j := worker.Job{ID: "j", Module: module, Directory: folder, Tasks: 4, Seed: 1}
			if err := node.Add(t.Context(), 0, j); err != nil {
				t.Fatal(err)
			}
			tr := &trainer{t: t, node: node, devices: 2, rng: rand.New(rand.NewPCG(5, 6))}
			for round := range int64(3) {
				tr.round([]worker.Job{j}, round)
			}
			got, _, err := node.State("j")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, loop(t, j, 3)) {
				t.Error("the state differs from that of a loop")
			}
		})
	}
}

// BenchmarkEmptyTask is the round trip of a task that computes nothing.
func BenchmarkEmptyTask(b *testing.B) {
	node := newNode(b, worker.Config{})
	j := worker.Job{ID: "empty", Module: "empty", Directory: jobsFolder(b), Tasks: 1 << 16}
	if err := node.Add(b.Context(), 0, j); err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	var times []time.Duration
	i := 0
	for b.Loop() {
		begin := time.Now()
		if _, err := node.Run(ctx, 0, worker.Task{Job: "empty", Task: i % (1 << 16)}, nil); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
		i++
	}
	if i > 1<<16 {
		b.Fatal("tasks were not computed again: give -benchtime 50000x")
	}
	report(b, times)
}

func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50-µs", 0.5}, {"p99-µs", 0.99}} {
		b.ReportMetric(float64(times[int(q.of*float64(len(times)-1))].Nanoseconds())/1e3, q.name)
	}
}
