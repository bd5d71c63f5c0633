package sessions_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// rejecting is a store that cannot write the rows of one session, nor any batch with such
// rows.
type rejecting struct {
	store.SessionStore
	bad string
}

var errPicky = errors.New("the page of that row is broken")

func (p *rejecting) Append(ctx context.Context, rows []store.Row) error {
	if slices.ContainsFunc(rows, func(r store.Row) bool { return r.Session == p.bad }) {
		return errPicky
	}
	return p.SessionStore.Append(ctx, rows)
}

// TestOneFaultIsNotThatOfOthers writes the rows of sound sessions together with those of
// a faulty one: the sound sessions get answers, and the fault is logged.
func TestOneFaultIsNotThatOfOthers(t *testing.T) {
	ctx := context.Background()
	db := &rejecting{SessionStore: store.NewMemory()}
	var log haretest.Buffer
	cfg := sessionsConfig(db)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, cfg)
	defer s.Close()
	sessions := make([]*sessions.Session, 20)
	for i := range sessions {
		sessions[i] = create(t, s)
	}
	db.bad = sessions[7].ID()
	var wg sync.WaitGroup
	for i, e := range sessions {
		wg.Go(func() {
			events := script(uint64(i), 200)
			want := undisturbed(t, events)
			if i == 7 {
				for range 5 {
					if got, err := send(ctx, e, events[:10]); !errors.Is(err, errPicky) || len(got) > 0 {
						t.Errorf("the faulty one: %d answers, %v", len(got), err)
					}
				}
				return
			}
			for from := 0; from < len(events); from += 10 {
				if got, err := send(ctx, e, events[from:from+10]); err != nil ||
					!slices.Equal(got, want[from:from+10]) {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if !strings.Contains(log.String(), "events were not recorded") {
		t.Error(log.String())
	}
}

// TestDamageIsLoggedOnce checks that damage is logged once, and that the log of the
// session is not read again for every event.
func TestDamageIsLoggedOnce(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openDir(t, dir)
	e := create(t, s)
	events := script(1, 90)
	if _, err := send(ctx, e, events[:80]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	alter(t, dir, "DELETE FROM snapshot")
	alter(t, dir, "UPDATE log SET sum = zeroblob(32) WHERE key = (SELECT max(key) FROM log)")
	disk, err := sqlite.Open(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	db := &counting{SessionStore: disk}
	var log haretest.Buffer
	cfg := sessionsConfig(db)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s = open(t, cfg)
	defer s.Close()
	if e, err = s.Session(ctx, "", e.ID()); err != nil {
		t.Fatal(err)
	}
	for _, ev := range events[80:] {
		p, err := e.Submit(ctx, ev)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(ctx); !errors.As(err, new(*store.CorruptError)) {
			t.Fatal(err)
		}
	}
	if n := db.rows.Load(); n != 1 {
		t.Errorf("it was loaded %d times", n)
	}
	if n := strings.Count(log.String(), "a session is damaged"); n != 1 {
		t.Error(log.String())
	}
}
