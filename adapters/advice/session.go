package advice

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/atomicfile"
	"github.com/hare-sched/hare/wire"
)

// Session follows a cluster with an online session and asks it for plans. It is not safe for
// concurrent use.
type Session struct {
	Advisor Advisor
	// StateFile keeps, for sessions of a server, what the session knows, so that another process
	// goes on with it; "" means none.
	StateFile string
	// PlanTime limits how long a plan may take; zero means no limit.
	PlanTime time.Duration
	Logger   *slog.Logger
	// Begun counts the sessions that were begun because the one before could not go on.
	Begun int64
	// PlanSeconds is how long the last plan took.
	PlanSeconds float64

	told    *mirror // nil: a session must be opened
	id      string
	pending []hare.Event // were perhaps sent
}

// Plan tells the session what has changed and waits for a plan of it.
func (s *Session) Plan(ctx context.Context, now *State) (*wire.SessionPlan, error) {
	if s.PlanTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.PlanTime)
		defer cancel()
	}
	began := time.Now()
	defer func() { s.PlanSeconds = time.Since(began).Seconds() }()
	plan, err := s.planOnce(ctx, now)
	var opened *openedError
	if err == nil || ctx.Err() != nil || errors.As(err, &opened) {
		if err != nil {
			s.forget()
		}
		return plan, err
	}
	// The session is gone, or has another state than it should: another session begins.
	s.Logger.Warn("the session cannot go on: another begins", "session", s.id, "error", err.Error())
	s.forget()
	s.Begun++
	plan, err = s.planOnce(ctx, now)
	if err != nil {
		s.forget()
	}
	return plan, err
}

// maxPolls limits how often a session is asked whether its plan is made.
const maxPolls = 1000

// openedError is an error of a session that has just begun.
type openedError struct{ err error }

func (e *openedError) Error() string { return e.err.Error() }
func (e *openedError) Unwrap() error { return e.err }

func (s *Session) forget() {
	s.told, s.pending, s.id = nil, nil, ""
}

func (s *Session) planOnce(ctx context.Context, now *State) (*wire.SessionPlan, error) {
	fresh := func(err error) error { return err }
	if s.told == nil {
		fresh = func(err error) error { return &openedError{err} }
		told := newMirror(now.NowUs)
		cluster := told.open(now)
		if len(cluster.Nodes) == 0 {
			return nil, fresh(errors.New("no node with GPUs is in service"))
		}
		session, err := s.Advisor.Open(ctx, cluster)
		if err != nil {
			return nil, fresh(err)
		}
		s.id, s.told = session, told
	}
	if err := s.apply(ctx, s.pending); err != nil { // what a crash kept from being sent, or from being noted
		return nil, fresh(err)
	}
	events := s.told.update(now)
	if err := s.apply(ctx, events); err != nil {
		return nil, fresh(err)
	}
	polls := maxPolls
	here, _ := s.Advisor.(*InProcess)
	if here != nil {
		polls = 1 // it has planned while it applied the events
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		plan, err := s.Advisor.Plan(ctx)
		if err != nil {
			return nil, fresh(err)
		}
		if plan.MadeUs >= s.told.AtUs && !plan.Due && plan.Fallback == "" || len(s.told.Jobs) == 0 {
			if here != nil {
				if err := here.show(s.told, now); err != nil {
					s.Logger.Warn("servers that follow this helper see an old state", "error", err.Error())
				}
			}
			return plan, nil
		}
		if polls--; polls == 0 {
			return nil, fresh(errors.New("the session makes no plan of these jobs and nodes"))
		}
		select {
		case <-ctx.Done():
			return nil, fresh(fmt.Errorf("no plan came in time: %w", ctx.Err()))
		case <-time.After(wait):
		}
		s.told.Seq++
		tick := hare.Event{Seq: s.told.Seq, AtUs: s.told.AtUs, Type: hare.EventTick}
		if err := s.apply(ctx, []hare.Event{tick}); err != nil {
			return nil, fresh(err)
		}
	}
}

// apply tells the session events. They are noted beforehand, so that a helper that begins again
// tells the same.
func (s *Session) apply(ctx context.Context, events []hare.Event) error {
	if len(events) == 0 {
		return nil
	}
	s.pending = events
	if err := s.save(); err != nil {
		return err
	}
	answers, err := s.Advisor.Apply(ctx, events)
	if err != nil {
		return err
	}
	if len(answers) != len(events) {
		return fmt.Errorf("advice: %d of %d events were answered", len(answers), len(events))
	}
	s.told.decided(answers)
	s.pending = nil
	return nil
}

// savedState is what StateFile holds.
type savedState struct {
	Form    string   `json:"hare"`
	Session string   `json:"session"`
	Told    *mirror  `json:"told"`
	Pending []string `json:"pending"` // events, as they are sent
}

const stateForm = "advice/v1"

// save replaces the file of the state.
func (s *Session) save() error {
	if s.StateFile == "" || s.id == "" {
		return nil
	}
	state := savedState{Form: stateForm, Session: s.id, Told: s.told}
	for _, e := range s.pending {
		state.Pending = append(state.Pending, string(wire.AppendEvent(nil, e)))
	}
	text, err := json.Marshal(&state)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.StateFile, 0o600, text)
}

// Resume takes up what an earlier process saved; without it, or where it cannot be read, a session
// begins again, since the cluster tells everything again.
func (s *Session) Resume() {
	if s.StateFile == "" {
		return
	}
	text, err := os.ReadFile(s.StateFile)
	if err != nil {
		return
	}
	var state savedState
	if json.Unmarshal(text, &state) != nil || state.Form != stateForm || state.Told == nil || state.Session == "" {
		return
	}
	for _, line := range state.Pending {
		e, err := wire.DecodeEvent(bytes.TrimSpace([]byte(line)))
		if err != nil {
			return
		}
		s.pending = append(s.pending, e)
	}
	remote, ok := s.Advisor.(*Remote)
	if !ok || remote.Session != "" && remote.Session != state.Session {
		s.pending = nil
		return
	}
	remote.Session, s.id, s.told = state.Session, state.Session, state.Told
}

// Planned is what a plan says of a waiting job.
type Planned struct {
	ID     string
	Place  int      // in the plan, from 1
	Types  []string // the GPU types on which the plan has the job
	StartS int64    // seconds from now; −1 where the plan does not say
	// EndS is a time, in seconds from now, before which the job ends under no plan if it takes as long as is
	// believed; −1 where nothing is known.
	EndS int64
	// Now says that the session has started the job, on these GPUs, by task.
	Now  bool
	GPUs [][]string
}

// Order reads the order of the waiting jobs from a plan.
func (s *Session) Order(plan *wire.SessionPlan) (order []Planned) {
	jobs := slices.Clone(plan.Jobs)
	slices.SortStableFunc(jobs, func(a, b wire.SessionPlanJob) int { return cmp.Compare(startOf(&a), startOf(&b)) })
	for i := range jobs {
		j := &jobs[i]
		t := s.told.Jobs[j.Job]
		if t == nil || t.Started {
			continue
		}
		p := Planned{ID: j.Job, Place: len(order) + 1, Types: j.Types, StartS: -1, EndS: -1}
		if len(t.GPUs) > 0 && len(t.GPUs[0]) > 0 {
			p.Types, p.Now, p.GPUs = []string{s.told.typeOf(t.GPUs[0][0])}, true, t.GPUs
		}
		if j.StartUs >= 0 {
			p.StartS = max(0, j.StartUs-plan.AtUs) / 1e6
		}
		if j.EarliestEndUs >= 0 {
			p.EndS = max(0, j.EarliestEndUs-plan.AtUs) / 1e6
		}
		order = append(order, p)
	}
	return order
}

// startOf is when a job of a plan starts; one of which the plan says nothing comes last.
func startOf(p *wire.SessionPlanJob) int64 {
	if p.StartUs < 0 {
		return 1 << 62
	}
	return p.StartUs
}
