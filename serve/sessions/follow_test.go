package sessions_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/store"
)

// TestSessionChanges checks that a follower that is told now and then knows which jobs and GPUs are there.
func TestSessionChanges(t *testing.T) {
	ctx := t.Context()
	cfg := sessionsConfig(store.NewMemory())
	cfg.Idle = time.Hour
	s := open(t, cfg)
	defer s.Close()
	e := create(t, s)
	now, cancel := context.WithCancel(ctx)
	cancel() // waits for no change
	var after int64 = -1
	resets := 0
	jobs, gone := map[string]bool{}, map[string]bool{}
	read := func() {
		for {
			found := false
			for c, err := range e.Changes(now, after) {
				if found = err == nil; !found {
					break
				}
				if after = c.Seq; c.Reset {
					resets++
				}
				for _, x := range c.Things {
					if x.Kind == changes.Job {
						jobs[x.Name] = !x.Gone
					} else if x.Kind == changes.GPU {
						gone[x.Name] = x.Gone
					}
				}
				break
			}
			if !found {
				return
			}
		}
	}
	read() // what follows is remembered from here on
	there, left := map[string]bool{}, map[string]bool{}
	events := script(3, 2000)
	for i := range events {
		x := &events[i]
		if x.Type == hare.EventTick {
			x.Type, x.GPU = []hare.EventType{hare.EventGPUJoined, hare.EventGPULeft}[i%2], "b/0"
		}
		if _, err := send(ctx, e, events[i:i+1]); err != nil {
			t.Fatal(err)
		}
		for rec := range e.Log(ctx, int64(i)) {
			for _, d := range rec.Decisions {
				there[d.Job] = true
			}
		}
		switch {
		case x.Type == hare.EventJobEnded || x.Type == hare.EventJobCancelled:
			there[x.Job] = false
		case x.Job != "":
			there[x.Job] = true
		default:
			left[x.GPU] = x.Type == hare.EventGPULeft
		}
		if i%97 == 0 {
			read()
			for job, is := range there {
				if jobs[job] != is {
					t.Fatalf("event %d: job %s is there: %v, and the follower has %v", i, job, is, jobs[job])
				}
			}
			if !maps.Equal(left, gone) {
				t.Fatalf("event %d: %v and %v", i, left, gone)
			}
		}
	}
	if resets != 1 || len(there) < 20 || len(left) == 0 {
		t.Errorf("%d resets, %d jobs, %d GPUs", resets, len(there), len(left))
	}
}
