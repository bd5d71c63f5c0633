package clusters_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/internal/testing/audit"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var soakSeeds = flag.Int("soak", 3, "how many seeds TestSoak runs: each has about ten kills of the server")

// life is that of a server process: its stores obey until it ends.
type life struct {
	mu     sync.Mutex
	rng    *rand.Rand
	left   int // appends until it ends; negative: not counted
	ended  bool
	signal chan struct{}
}

var errKilled = fmt.Errorf("%w: the process was killed", store.ErrStorage)

// write runs a write to a store, or not: the process may end just before it and just after.
func (l *life) write(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errKilled
	}
	l.left--
	if l.left != 0 {
		return f()
	}
	if l.rng.IntN(2) == 0 {
		_ = f()
	}
	l.ended = true
	close(l.signal)
	return errKilled
}

func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// mortal is a store of a process that may be killed.
type mortal struct {
	store.SessionStore
	life *life
}

func (m *mortal) Close() error { return nil }

func (m *mortal) Create(ctx context.Context, x store.Meta) error {
	return m.life.write(func() error { return m.SessionStore.Create(ctx, x) })
}

func (m *mortal) Append(ctx context.Context, rows []store.Row) error {
	return m.life.write(func() error { return m.SessionStore.Append(ctx, rows) })
}

func (m *mortal) SaveSnapshot(ctx context.Context, s store.Snapshot) error {
	return m.life.write(func() error { return m.SessionStore.SaveSnapshot(ctx, s) })
}

func (m *mortal) Delete(ctx context.Context, id string) error {
	return m.life.write(func() error { return m.SessionStore.Delete(ctx, id) })
}

const soakLease, soakKill = 15 * time.Second, 5 * time.Second

// world is a server that is killed, a network that is cut, and agents that come and go.
type world struct {
	t              *testing.T
	journals, logs store.SessionStore
	logDir         string
	seed           uint64

	mu       sync.Mutex
	rng      *rand.Rand
	life     *life
	sessions *sessions.Sessions
	clusters *clusters.Clusters
	calm     bool // nothing fails any more
	runs     []audit.Run

	homesMu  sync.Mutex // after the mu of a machine
	homes    map[string]*soakHome
	shared   map[string]int64 // the rounds of checkpoints in the directory that the machines share
	computed int
}

func (w *world) number(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) chance(percent int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calm && w.rng.IntN(100) < percent
}

func (w *world) open() {
	l := &life{rng: rand.New(rand.NewPCG(w.seed, uint64(time.Now().UnixNano()))), left: -1, signal: make(chan struct{})}
	if !w.calm {
		l.left = 1 + w.number(200)
	}
	quiet := slog.New(slog.DiscardHandler)
	s, err := sessions.Open(context.Background(), sessions.Config{Store: &mortal{w.logs, l}, Logger: quiet})
	if err != nil {
		w.t.Fatal(err)
	}
	cs, err := clusters.Open(context.Background(), clusters.Config{Store: &mortal{w.journals, l}, Sessions: s,
		LogDir: w.logDir, SnapshotBytes: 4 << 10, Lease: soakLease, Kill: soakKill, Logger: quiet})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life, w.sessions, w.clusters = l, s, cs
}

// reap ends the goroutines of a process that was killed; its stores refuse all that they still write.
func (w *world) reap() {
	w.life.mu.Lock()
	w.life.ended = true
	w.life.mu.Unlock()
	_ = w.clusters.Close()
	_ = w.sessions.Close()
}

// call runs a request to the cluster. Whoever asks a process that is killed meanwhile gets no answer.
func (w *world) call(f func(c *clusters.Cluster) error) error {
	w.mu.Lock()
	cs, l := w.clusters, w.life
	w.mu.Unlock()
	c, err := cs.Cluster("", "lab")
	if errors.Is(err, clusters.ErrNoCluster) {
		if c, err = cs.Create(context.Background(), "", &clusterdoc.NewCluster{Name: "lab",
			Policy: []string{"hgittins", "fifo", "rolling"}[w.seed%3]}); err != nil {
			c, err = cs.Cluster("", "lab")
		}
	}
	if err == nil {
		err = f(c)
	}
	if l.over() {
		return errKilled
	}
	return err
}

// TestSoak kills the server, cuts the network and switches machines off, in virtual time. Afterwards code that
// knows nothing of the server and the agents looks at what ran, and at the journal.
func TestSoak(t *testing.T) {
	for seed := range uint64(*soakSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { soak(t, seed) })
		})
	}
}

func soak(t *testing.T, seed uint64) {
	w := &world{t: t, journals: store.NewMemory(), logs: store.NewMemory(), logDir: t.TempDir(), seed: seed,
		rng: rand.New(rand.NewPCG(seed, 5)), homes: map[string]*soakHome{}, shared: map[string]int64{}}
	w.open()
	stop := make(chan struct{})
	var live sync.WaitGroup
	for i, types := range [][]string{{"V100", "V100"}, {"V100", "T4", "T4"}, {"T4", "V100"}} {
		m := &machine{w: w, name: fmt.Sprint("n", i), running: map[clusterdoc.TaskID]*audit.Run{},
			disk: map[string]int64{}}
		m.reg = registration(m.name, types...)
		live.Go(func() { m.live(stop) })
		live.Go(func() { m.lapse(stop) })
	}
	submitted := map[string]string{} // keys to jobs
	jobs := 40
	if testing.Short() && seed%3 == 2 {
		jobs = 12 // each plan takes the race detector a second, and one server makes as many as another
	}
	kills := 0
	began := time.Now()
	for step := 0; ; step++ {
		time.Sleep(time.Duration(w.number(3000)) * time.Millisecond)
		if w.life.over() || !w.calm && w.number(60) == 0 {
			w.reap()
			kills++
			w.mu.Lock()
			w.calm = len(submitted) == jobs && kills >= 10
			w.mu.Unlock()
			if w.number(2) == 0 {
				time.Sleep(time.Duration(w.number(30_000)) * time.Millisecond)
			}
			w.open()
			continue
		}
		if len(submitted) < jobs {
			key := fmt.Sprint("key", len(submitted))
			n := &clusterdoc.NewJob{Command: []string{"true"}, GPUs: 1 + step%3, Retries: 3}
			n.GPUs = 1 + len(submitted)%3
			if i := len(submitted); i%2 == 0 {
				n = soakRounds(i / 2)
			}
			_ = w.call(func(c *clusters.Cluster) error {
				job, err := c.Submit(context.Background(), n, key)
				if err == nil {
					submitted[key] = job.ID
				}
				return err
			})
			continue
		}
		if time.Since(began) > 2*time.Hour {
			t.Error("jobs do not end")
			break
		}
		if w.number(20) == 0 && !w.calm {
			_ = w.call(func(c *clusters.Cluster) error {
				_, err := c.Cancel(context.Background(), submitted[fmt.Sprint("key", w.number(jobs))], "")
				return err
			})
		}
		if w.calm || w.number(20) == 0 {
			on := w.number(3) == 0 && !w.calm
			for i := range 3 {
				if w.calm || i == w.number(3) {
					_ = w.call(func(c *clusters.Cluster) error {
						return c.Drain(context.Background(), fmt.Sprint("n", i), on, "fans")
					})
				}
			}
		}
		open := 1
		_ = w.call(func(c *clusters.Cluster) error {
			d, err := c.Describe(context.Background())
			if err == nil {
				open = d.Jobs[clusterdoc.JobWaiting] + d.Jobs[clusterdoc.JobStarting] + d.Jobs[clusterdoc.JobRunning] +
					d.Jobs[clusterdoc.JobStopping]
			}
			return err
		})
		if open == 0 && kills >= 10 {
			break
		}
	}
	list := func() (all *clusterdoc.JobList) {
		if err := w.call(func(c *clusters.Cluster) (err error) {
			all, err = c.Jobs(context.Background(), &clusters.Query{Limit: 1000})
			return err
		}); err != nil {
			t.Error(err)
			all = &clusterdoc.JobList{}
		}
		return all
	}
	all := list()
	close(stop)
	live.Wait()
	w.reap()
	w.open()
	if diff := cmp.Diff(all, list()); diff != "" {
		t.Errorf("the journal gives another state: %s", diff)
	}
	w.reap()
	if len(all.Jobs) != jobs {
		t.Errorf("%d jobs were submitted and there are %d", jobs, len(all.Jobs))
	}
	lost := 0
	for _, j := range all.Jobs {
		lost += j.Lost
		if !j.State.Final() {
			t.Errorf("job %s is %s: %s", j.ID, j.State, j.Reason)
		}
	}
	if err := audit.Runs(w.runs); err != nil {
		t.Error(err)
	}
	lines := journalOf(t, w.journals)
	expectSameOrders(t, lines)
	report, err := audit.Journal(bytes.NewReader(lines), audit.Rules{Lease: soakLease, Kill: soakKill})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d kills, %d processes, %d of them tasks of rounds, %d jobs lost with nodes, %v, %+v", kills,
		len(w.runs), w.computed, lost,
		time.Since(began).Round(time.Second), report)
}

// expectSameOrders checks that a journal that is read again orders the homes and tasks that it ordered.
func expectSameOrders(t *testing.T, lines []byte) {
	t.Helper()
	l := ledger.New()
	for line := range bytes.Lines(lines) {
		var r ledger.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		ordered := r.Ordered
		if err := l.Apply(&r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ordered, r.Ordered) {
			t.Fatalf("another time a record orders %+v: %s", r.Ordered, line)
		}
	}
}

// journalOf returns the lines of the only journal of a store.
func journalOf(t *testing.T, st store.SessionStore) []byte {
	t.Helper()
	metas, err := st.Sessions(t.Context())
	if err != nil || len(metas) != 1 {
		t.Fatal(metas, err)
	}
	var lines []byte
	for seq := int64(1); ; {
		rows, err := st.Rows(t.Context(), metas[0].ID, seq, store.ReadBytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			return lines
		}
		for i := range rows {
			lines = append(lines, rows[i].Data...)
			seq = rows[i].Last + 1
		}
	}
}
