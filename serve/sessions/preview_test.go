package sessions_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

func previewedJob(rng *rand.Rand, id string) *hare.Job {
	us := int64(60e6 * (1 + rng.IntN(600)))
	return &hare.Job{ID: id, WeightMicro: 1e6, Sync: hare.Rigid, Tasks: int64(1) << rng.IntN(4),
		On: []hare.Profile{{Type: "A100", ComputeUs: us}, {Type: "V100", ComputeUs: us * 2}}}
}

// previewedSession has n jobs of 32 GPUs.
func previewedSession(t testing.TB, rng *rand.Rand, n int, most int64) *sessions.Session {
	t.Helper()
	ss, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	cluster := hare.Cluster{}
	for i := range 4 {
		cluster.Nodes = append(cluster.Nodes, hare.Node{Name: fmt.Sprint("n", i), GPUs: []hare.TypeCount{
			{Type: []string{"A100", "V100"}[i%2], Count: int(most)}}})
	}
	s, err := ss.Create(t.Context(), "", sessions.SessionConfig{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p, err := s.Submit(t.Context(), hare.Event{Seq: int64(i + 1), AtUs: int64(i) * 1e6, Type: hare.EventJobArrived,
			Job: fmt.Sprint("j", i), Arrived: previewedJob(rng, fmt.Sprint("j", i))})
		if err == nil {
			_, err = p.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestPreview compares previews on random sessions with what the sessions plan once the job has arrived, and nothing
// else.
func TestPreview(t *testing.T) {
	starts := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 17))
		n := 1 + rng.IntN(20)
		s := previewedSession(t, rng, n, 1+rng.Int64N(6))
		seq, atUs := int64(n), int64(n+60)*1e6 // from when on plans may be made at once
		settle := func() {
			t.Helper()
			for range 10_000 {
				report, err := s.PlanReport(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				switch report.State {
				case "idle":
					return
				case "ready":
					seq++
					sendEvent(t, s, hare.Event{Seq: seq, AtUs: atUs, Type: hare.EventTick})
				}
				time.Sleep(100 * time.Microsecond)
			}
			t.Fatal("the session does not settle")
		}
		// An outlook that took long to make is kept for a while.
		outlook := func() *sessions.Outlook {
			t.Helper()
			for {
				o, err := s.Outlook(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if o.Seq == seq {
					return o
				}
				time.Sleep(time.Millisecond)
			}
		}
		settle()
		seq++
		sendEvent(t, s, hare.Event{Seq: seq, AtUs: atUs, Type: hare.EventTick})
		settle()
		job := previewedJob(rng, "new")
		preview, err := s.Preview(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outlook().Rows, preview.Before); diff != "" {
			t.Errorf("seed %d: without the job: %s", seed, diff)
		}
		seq++
		sendEvent(t, s, hare.Event{Seq: seq, AtUs: atUs, Type: hare.EventJobArrived, Job: "new", Arrived: job})
		settle()
		after := outlook()
		if diff := cmp.Diff(after.Rows, preview.Rows); diff != "" {
			t.Fatalf("seed %d: with the job: %s", seed, diff)
		}
		if r := after.Row("new"); r.State != "running" && r.StartUs >= 0 {
			starts++
		}
	}
	if starts < 20 {
		t.Errorf("%d jobs wait and have a start", starts)
	}
	ss, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	s, err := ss.Create(t.Context(), "", sessions.SessionConfig{Policy: "fifo"})
	if err != nil {
		t.Fatal(err)
	}
	none := (*sessions.NoPlansError)(nil)
	if _, err := s.Preview(t.Context(), previewedJob(rand.New(rand.NewPCG(1, 1)), "new")); !errors.As(err, &none) {
		t.Error(err)
	}
}

func sendEvent(t *testing.T, s *sessions.Session, e hare.Event) {
	t.Helper()
	p, err := s.Submit(t.Context(), e)
	if err == nil {
		_, err = p.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkPreview(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 17))
			s := previewedSession(b, rng, n, 8)
			for b.Loop() {
				if _, err := s.Preview(b.Context(), previewedJob(rng, "new")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
