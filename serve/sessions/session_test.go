package sessions_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

func openDir(t testing.TB, dir string) *sessions.Sessions {
	t.Helper()
	return open(t, sessionsConfig(openSQLite(t, dir)))
}

func openSQLite(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestSessionAnswersInOrder(t *testing.T) {
	ctx := context.Background()
	events := script(1, 3000)
	want := undisturbed(t, events)
	for name, s := range map[string]*sessions.Sessions{
		"memory": open(t, sessionsConfig(store.NewMemory())),
		"sqlite": openDir(t, t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			e := create(t, s)
			got, err := send(ctx, e, events)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%d answers of %d differ from an undisturbed run: %v", len(got), len(want), err)
			}
			if e.Info().Last != 3000 || !e.Info().Active {
				t.Error(e.Info())
			}
			i := 0
			for rec, err := range e.Log(ctx, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if line(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}) != want[i] {
					t.Fatal("the log differs at", i+1)
				}
				i++
			}
			if i != 3000 {
				t.Error("the log ends at", i)
			}
			var seen uint64
			if err := e.View(ctx, func(p online.Durable) { seen = p.(*history).Hash }); err != nil || seen == 0 {
				t.Error(err, seen)
			}
		})
	}
}

// TestSessionRefuses checks that a refused event changes nothing and uses up no number.
func TestSessionRefuses(t *testing.T) {
	ctx := context.Background()
	cfg := sessionsConfig(store.NewMemory())
	cfg.MaxJobs, cfg.MaxSessions = 2, 1
	s := open(t, cfg)
	defer s.Close()
	e := create(t, s)
	if _, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: cluster, Policy: "history"}); !errors.As(err,
		new(*admission.LimitError)) {
		t.Error("a second session:", err)
	}
	arrive := func(seq, at int64, id string) hare.Event {
		return hare.Event{Seq: seq, AtUs: at, Type: hare.EventJobArrived, Job: id,
			Arrived: &hare.Job{ID: id, WeightMicro: 1e6, Tasks: 1, On: []hare.Profile{{Type: "V100"}}}}
	}
	var gap *sessions.SequenceError
	for _, c := range []struct {
		name  string
		event hare.Event
		ok    func(error) bool
	}{
		{"zero", arrive(0, 0, "a"), func(err error) bool { return errors.As(err, &gap) && gap.Expected == 1 }},
		{"gap", arrive(2, 0, "a"), func(err error) bool { return errors.As(err, &gap) && gap.Expected == 1 }},
		{"first", arrive(1, 1000, "a"), func(err error) bool { return err == nil }},
		{"again", arrive(1, 1000, "a"), func(err error) bool { return err == nil }},
		{"other content", arrive(1, 1000, "b"),
			func(err error) bool { return errors.As(err, new(*sessions.ConflictError)) }},
		{"back in time", arrive(2, 999, "b"), func(err error) bool { return errors.As(err, new(*hare.InvalidError)) }},
		{"known job", arrive(2, 1000, "a"), func(err error) bool { return errors.As(err, new(*hare.InvalidError)) }},
		{"second", arrive(2, 1000, "b"), func(err error) bool { return err == nil }},
		{"a job too many", arrive(3, 1000, "c"),
			func(err error) bool { return errors.As(err, new(*admission.LimitError)) }},
		{"end", hare.Event{Seq: 3, AtUs: 1000, Type: hare.EventJobEnded, Job: "a"},
			func(err error) bool { return err == nil }},
		{"room again", arrive(4, 1000, "c"), func(err error) bool { return err == nil }},
	} {
		if _, err := send(ctx, e, []hare.Event{c.event}); !c.ok(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if last := e.Info().Last; last != 4 {
		t.Error("last", last)
	}
	if err := s.Delete(ctx, "", e.ID()); err != nil {
		t.Error(err)
	}
	if _, err := e.Submit(ctx, arrive(5, 1000, "d")); !errors.Is(err, store.ErrNoSession) {
		t.Error("after the end:", err)
	}
	if _, err := s.Session(ctx, "", e.ID()); !errors.Is(err, store.ErrNoSession) {
		t.Error(err)
	}
	create(t, s)
}

func TestServerClockNeverGoesBack(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	at := time.Unix(1000, 0)
	var id string
	var last int64
	for round, jump := range []time.Duration{0, -time.Hour, time.Minute} {
		store, err := sqlite.Open(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		cfg := sessionsConfig(store)
		at = at.Add(jump)
		cfg.Now = func() time.Time { return at }
		s := open(t, cfg)
		if round == 0 {
			e, err := s.Create(ctx, "",
				sessions.SessionConfig{Cluster: cluster, Policy: "history", Clock: sessions.ClockServer})
			if err != nil {
				t.Fatal(err)
			}
			id = e.ID()
		}
		e, err := s.Session(ctx, "", id)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			last++
			at = at.Add(time.Second)
			ev := hare.Event{Seq: last}
			if _, err := send(ctx, e, []hare.Event{ev, ev}); err != nil {
				t.Fatal(err)
			}
		}
		var before int64
		for rec, err := range e.Log(ctx, 0) {
			if err != nil || rec.Event.AtUs < before {
				t.Fatal(rec, err)
			}
			before = rec.Event.AtUs
		}
		if before == 0 {
			t.Error("no time was stamped")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSessionSurvivesAnything interleaves duplicates, gaps, unloading and restarts, and
// compares with a run that has none of them.
func TestSessionSurvivesAnything(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		events := script(seed, 1+rng.IntN(600))
		want := undisturbed(t, events)
		dir := t.TempDir()
		s := openDir(t, dir)
		id := create(t, s).ID()
		var next int64 = 1
		for next <= int64(len(events)) {
			e, err := s.Session(ctx, "", id)
			if err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(6) {
			case 0: // restart
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openDir(t, dir)
			case 1: // gap
				var gap *sessions.SequenceError
				ev := events[next-1]
				ev.Seq += 1 + rng.Int64N(3)
				if _, err := send(ctx, e, []hare.Event{ev}); !errors.As(err, &gap) || gap.Expected != next {
					t.Fatalf("seed %d: gap: %v", seed, err)
				}
			default: // some that are known and some that are new
				from := max(1, next-rng.Int64N(50))
				to := min(int64(len(events)), next+rng.Int64N(120))
				got, err := send(ctx, e, events[from-1:to])
				if err != nil || !slices.Equal(got, want[from-1:to]) {
					t.Fatalf("seed %d: events %d to %d: %v", seed, from, to, err)
				}
				next = max(next, to+1)
			}
		}
		e, err := s.Session(ctx, "", id)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for rec, err := range e.Log(ctx, 0) {
			if err != nil || line(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}) != want[i] {
				t.Fatalf("seed %d: log at %d: %v", seed, i+1, err)
			}
			i++
		}
		if i != len(events) {
			t.Fatalf("seed %d: the log ends at %d of %d", seed, i, len(events))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
