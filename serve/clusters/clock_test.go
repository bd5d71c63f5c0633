package clusters_test

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// jumpingClock is a clock whose wall clock is set now and then. Its readings have the time that nobody sets beside
// the wall clock's, as those of time.Now.
type jumpingClock struct{ offS atomic.Int64 }

func (c *jumpingClock) now() time.Time {
	now := time.Now()
	// The first word of a Time with two readings has 33 bits of seconds of the wall clock behind the highest bit, and
	// 30 bits of nanoseconds.
	word := (*uint64)(unsafe.Pointer(&now))
	*word += uint64(c.offS.Load()) << 30
	return now
}

// TestWallClockJumps sets the server's wall clock to and fro by hours. Leases run as before: no agent is lost that is
// heard, and one that is not heard is lost when its lease is over.
func TestWallClockJumps(t *testing.T) {
	clock := &jumpingClock{}
	begun := clock.now()
	clock.offS.Store(3600)
	if late := clock.now(); late.Sub(begun) > time.Minute || late.Unix()-begun.Unix() < 3600 {
		t.Fatalf("%v and %v: not a clock that jumps", begun, late)
	}
	const lease = 2 * time.Second
	s := newServer(t, lease)
	s.close()
	s.now = clock.now
	s.open()
	c := s.create("fifo")
	a, silent := &node{r: registration("a", "V100")}, &node{r: registration("silent", "V100")}
	a.register(t, c)
	id := submit(t, c, &clusterdoc.NewJob{Command: []string{"sleep", "1000"}, GPUs: 1})
	for len(a.running) == 0 {
		if err := a.sync(c, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	silent.register(t, c)
	registered := time.Now()
	for i := 0; ; i++ {
		clock.offS.Store([]int64{7200, -7200, 0, 86400 * 30, -86400}[i%5])
		if err := a.sync(c, 0); err != nil {
			t.Fatalf("the agent is lost when the clock jumps: %v", err)
		}
		agents, err := c.Agents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		past := time.Since(registered)
		if agents[1].State == "lost" {
			if past < lease+lease/4 {
				t.Errorf("a lease of %v, and %v for the end of processes, was over after %v", lease, lease/4, past)
			}
			break
		}
		if past > time.Minute {
			t.Fatal("a lease does not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
	job, err := c.Job(t.Context(), id)
	if err != nil || job.State != clusterdoc.JobRunning || job.Lost != 0 {
		t.Errorf("%+v %v", job, err)
	}
	for task := range a.running {
		a.end(task, 0)
	}
	await(t, c, id, clusterdoc.JobSucceeded, a)
	// The journal goes on where its times go back.
	clock.offS.Store(-86400)
	s.close()
	s.open()
	if job, err := s.cluster().Job(t.Context(), id); err != nil || job.State != clusterdoc.JobSucceeded {
		t.Errorf("%+v %v", job, err)
	}
}
