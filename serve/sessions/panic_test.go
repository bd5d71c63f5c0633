package sessions_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

// fragile is the policy history with a fault that can be switched on.
type fragile struct {
	*history
	fault func(e hare.Event) error // nil: no fault
}

func (p *fragile) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	if p.fault != nil {
		if err := p.fault(events[0]); err != nil {
			return nil, err
		}
	}
	return p.history.Step(nowUs, events)
}

// fragileConfig makes policies that have the fault where they have parameters.
func fragileConfig(kept store.SessionStore, fault func(e hare.Event) error) sessions.Config {
	cfg := sessionsConfig(kept)
	cfg.New = func(name string, c *hare.Cluster, parameters []byte) (online.Durable, error) {
		return &fragile{history: &history{Breaks: len(parameters) > 0}}, nil // to be restored before its first event
	}
	cfg.Restore = func(_ string, state []byte) (online.Durable, error) {
		h, err := restoreHistory("", state)
		if err != nil {
			return nil, err
		}
		p := &fragile{history: h.(*history)}
		if p.Breaks {
			p.fault = fault
		}
		return p, nil
	}
	return cfg
}

// gated is a store whose first Append waits until it is opened.
type gated struct {
	store.SessionStore
	entered, open chan struct{}
}

func (g *gated) Append(ctx context.Context, rows []store.Row) error {
	select {
	case g.entered <- struct{}{}:
		<-g.open
	default:
	}
	return g.SessionStore.Append(ctx, rows)
}

// A policy fails with a plain error while so many events wait for the disk that a
// snapshot is due. The earlier decisions are recorded, and the session goes on from them.
func TestPlainErrorBeforeASnapshot(t *testing.T) {
	ctx := t.Context()
	kept := &gated{SessionStore: store.NewMemory(), entered: make(chan struct{}, 1), open: make(chan struct{})}
	broken := false
	cfg := fragileConfig(kept, func(e hare.Event) error {
		if e.Seq == 4 && !broken {
			broken = true // of the session's own goroutine alone
			return errors.New("a defect")
		}
		return nil
	})
	cfg.SnapshotEvery = 2
	s := open(t, cfg)
	e, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: cluster, Policy: "history", Parameters: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	events := script(3, 20)
	want := undisturbed(t, events)
	var promises []*sessions.Promise
	for i, ev := range events[:4] {
		p, err := e.Submit(ctx, ev)
		if err != nil {
			t.Fatal(err)
		}
		promises = append(promises, p)
		if i == 0 {
			<-kept.entered // the others wait for the first one
		}
	}
	close(kept.open)
	for i, p := range promises {
		a, err := p.Wait(ctx)
		if i < 3 && (err != nil || line(a) != want[i]) {
			t.Errorf("event %d: %v", i+1, err)
		}
		if i == 3 && (err == nil || !strings.Contains(err.Error(), "a defect")) {
			t.Errorf("event 4: %v", err)
		}
	}
	if got, err := send(ctx, e, events[3:]); err != nil || !slices.Equal(got, want[3:]) {
		t.Errorf("behind the fault: %d answers, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A policy panics. Its session takes no more events and says why, its log can be read,
// and the other sessions go on.
func TestPanicQuarantinesTheSession(t *testing.T) {
	ctx := t.Context()
	var log haretest.Buffer
	cfg := fragileConfig(store.NewMemory(), func(e hare.Event) error {
		if e.Seq == 8 {
			panic("a defect")
		}
		return nil
	})
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, cfg)
	bad, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: cluster, Policy: "history",
		Parameters: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	good := create(t, s)
	events := script(5, 30)
	want := undisturbed(t, events)
	got, err := send(ctx, bad, events)
	var quarantined *sessions.QuarantineError
	if !errors.As(err, &quarantined) || quarantined.Session != bad.ID() || quarantined.Seq != 8 ||
		!slices.Equal(got, want[:7]) {
		t.Fatalf("%d answers, %v", len(got), err)
	}
	// The session stays quarantined, whatever is called, and the panic is logged once.
	for range 3 {
		if _, err := send(ctx, bad, events[7:8]); !errors.As(err, &quarantined) {
			t.Errorf("again: %v", err)
		}
		if err := bad.View(ctx, func(online.Durable) { t.Error("its state is shown") }); !errors.As(err,
			&quarantined) {
			t.Errorf("a look: %v", err)
		}
	}
	if n := strings.Count(log.String(), "quarantined"); n != 1 || !strings.Contains(log.String(), "a defect") {
		t.Errorf("told %d times: %s", n, log.String())
	}
	if lines, err := logOf(bad); err != nil || !slices.Equal(lines, want[:7]) {
		t.Errorf("its log has %d events: %v", len(lines), err)
	}
	if got, err := send(ctx, good, events); err != nil || !slices.Equal(got, want) {
		t.Errorf("the other session: %d answers, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The server survives a panic in each method of the policy.
func TestPanicOfAView(t *testing.T) {
	ctx := t.Context()
	s := open(t, sessionsConfig(store.NewMemory()))
	e := create(t, s)
	events := script(1, 5)
	if _, err := send(ctx, e, events[:3]); err != nil {
		t.Fatal(err)
	}
	if err := e.View(ctx, func(online.Durable) { panic("a defect") }); !errors.As(err,
		new(*sessions.QuarantineError)) {
		t.Errorf("%v", err)
	}
	if _, err := send(ctx, e, events[3:]); !errors.As(err, new(*sessions.QuarantineError)) {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// slowCreate is a store whose Create waits until it is opened.
type slowCreate struct {
	store.SessionStore
	entered, open chan struct{}
}

func (c *slowCreate) Create(ctx context.Context, m store.Meta) error {
	close(c.entered)
	<-c.open
	return c.SessionStore.Create(ctx, m)
}

// A session that is created while the server ends takes no events afterwards.
func TestCreateDuringClose(t *testing.T) {
	ctx := t.Context()
	kept := &slowCreate{SessionStore: store.NewMemory(), entered: make(chan struct{}), open: make(chan struct{})}
	s := open(t, sessionsConfig(kept))
	made := make(chan *sessions.Session, 1)
	go func() {
		e, err := s.Create(ctx, "", sessions.SessionConfig{Cluster: cluster, Policy: "history"})
		if err != nil {
			t.Error(err)
		}
		made <- e
	}()
	<-kept.entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for {
		if _, err := s.Session(ctx, "", "none"); errors.Is(err, admission.ErrDraining) {
			break // Close has begun
		}
	}
	close(kept.open)
	e := <-made
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if e == nil {
		return
	}
	if _, err := e.Submit(ctx, script(1, 1)[0]); !errors.Is(err, admission.ErrDraining) {
		t.Errorf("submitted to a closed server: %v", err)
	}
}
