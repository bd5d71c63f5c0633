package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// TestSolveSurvivesTheNetwork checks that the instance is solved once, whatever the
// network loses.
func TestSolveSurvivesTheNetwork(t *testing.T) {
	k := newKeeper(t)
	k.lose["POST /v1/solves"] = 2
	k.fail["POST /v1/solves"] = []fail{{503, 0, "busy"}, {502, -1, ""}}
	c := k.serve(t, nil)
	res, err := c.Solve(t.Context(), client.Request{Instance: instance(t), Options: quick})
	if err != nil || res.Value == nil {
		t.Fatal(err)
	}
	if k.solved != 1 || k.count("POST /v1/solves") != 5 {
		t.Errorf("solved %d times, asked %d", k.solved, k.count("POST /v1/solves"))
	}
}

// TestEventsResume gives every connection of the stream two events, of which the
// first was sent before. The client must return each event once and in order.
func TestEventsResume(t *testing.T) {
	k := newKeeper(t)
	k.cut = 2
	c := k.serve(t, nil)
	var ids []int64
	res, err := c.Solve(t.Context(), client.Request{Instance: instance(t), Options: quick,
		Progress: func(e client.Event) {
			ids = append(ids, e.ID)
			if e.Type == "incumbent" && (*e.Value != float64(100-e.ID) || e.Bound != nil || e.AtS != float64(e.ID)+.5) {
				t.Errorf("%+v", e)
			}
			if e.Type == "done" && (e.Status != "succeeded" || e.Termination != "gap") {
				t.Errorf("%+v", e)
			}
		}})
	if err != nil || res.Value == nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("events %v", ids)
	}
	if len(k.resumed) < 4 || k.resumed[0] != "" || k.resumed[1] != "2" {
		t.Errorf("resumed behind %q", k.resumed)
	}
}

// TestSilentStreamIsTakenUpAgain checks that the client replaces an open connection
// on which nothing arrives.
func TestSilentStreamIsTakenUpAgain(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, func(cfg *client.Config) { cfg.IdleTimeout = 50 * time.Millisecond })
	s, err := c.Submit(t.Context(), client.Request{Instance: instance(t), Options: quick})
	if err != nil {
		t.Fatal(err)
	}
	k.set(func() { k.quiet = true })
	n := 0
	for _, err := range c.Events(t.Context(), s.ID, 3) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	// On a busy machine, a connection that is not silent may count as broken too.
	if n != manyEvents-3 || len(k.resumed) < 2 {
		t.Errorf("%d events in %d connections", n, len(k.resumed))
	}
}

func TestStreamThatGivesNothingEnds(t *testing.T) {
	k := newKeeper(t)
	hasty := k.serve(t, func(cfg *client.Config) { cfg.IdleTimeout, cfg.Retries = 10*time.Millisecond, -1 })
	c := k.serve(t, nil)
	s, err := c.Submit(t.Context(), client.Request{Instance: instance(t), Options: quick})
	if err != nil {
		t.Fatal(err)
	}
	k.set(func() { k.quiet = true })
	for _, err = range hasty.Events(t.Context(), s.ID, 0) {
	}
	if err == nil || !strings.Contains(err.Error(), "nothing came for 10ms") {
		t.Error(err)
	}
	for _, err = range c.Events(t.Context(), "none", 0) {
	}
	if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Error(err)
	}
	for range c.Events(t.Context(), s.ID, 0) {
		break // this also closes the connection
	}
}

// TestCancelledContextCancelsTheSolve checks that the end of the caller's context
// cancels the solve on the server.
func TestCancelledContextCancelsTheSolve(t *testing.T) {
	k := newKeeper(t)
	k.release = make(chan struct{})
	c := k.serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for k.count("GET /v1/solves/s1") == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := c.Solve(ctx, client.Request{Instance: instance(t), Options: quick})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !slices.Equal(k.canceled, []string{"s1"}) {
		t.Errorf("cancelled %v", k.canceled)
	}
}

func TestWait(t *testing.T) {
	k := newKeeper(t)
	k.release = make(chan struct{})
	c := k.serve(t, nil)
	s, err := c.Submit(t.Context(), client.Request{Instance: instance(t), Options: quick, Key: "mine"})
	if err != nil || s.Done() || s.QueuePosition != 1 {
		t.Fatalf("%v %+v", err, s)
	}
	again, err := c.Submit(t.Context(), client.Request{Instance: instance(t), Options: quick, Key: "mine"})
	if err != nil || again.ID != s.ID || k.solved != 1 {
		t.Errorf("%v %+v", err, again)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(short, s.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	k.set(func() { k.lose["GET /v1/solves/s1"] = 1 })
	close(k.release)
	if s, err := c.Wait(t.Context(), s.ID); err != nil || !s.Done() || *s.Value != 3.5 || s.Gap != nil {
		t.Errorf("%v %+v", err, s)
	}
}

func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails []fail
		lose  int
		// create is true for the call that creates a session.
		create bool
		sent   int
		status int // status of the final problem
	}{
		{"busy", []fail{{503, 0, "busy"}, {503, 0, "draining"}}, 0, false, 3, 0},
		{"too often", []fail{{503, 0, "busy"}, {503, 0, "busy"}, {503, 0, "busy"}, {503, 0, "busy"}, {503, 0, "busy"}}, 0,
			false, 5, 503},
		{"a long way off", []fail{{503, 3600, "busy"}}, 0, false, 1, 503},
		{"it would take as long again", []fail{{503, 0, "deadline"}}, 0, false, 1, 503},
		{"a defect", []fail{{500, -1, "internal"}}, 0, false, 1, 500},
		{"quota", []fail{{429, 0, "rate"}}, 0, false, 2, 0},
		{"lost", nil, 3, false, 4, 0},
		{"create: busy", []fail{{503, 0, "busy"}}, 0, true, 2, 0},
		{"create: a proxy", []fail{{502, -1, ""}}, 0, true, 1, 502},
		{"create: lost", nil, 1, true, 1, -1},
		{"create: limit reached", []fail{{429, -1, "limit"}}, 0, true, 1, 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeeper(t)
			cl := k.serve(t, nil)
			path := "POST /v1/bounds"
			if c.create {
				path = "POST /v1/sessions"
			}
			k.fail[path], k.lose[path] = c.fails, c.lose
			var err error
			if c.create {
				_, err = cl.CreateSession(t.Context(), &wire.SessionRequest{Cluster: instance(t).Cluster})
			} else {
				_, err = cl.Bound(t.Context(), instance(t), "machine")
			}
			var p *client.Problem
			switch {
			case c.status == 0 && err != nil, c.status < 0 && (err == nil || errors.As(err, &p)),
				c.status > 0 && (!errors.As(err, &p) || p.Status != c.status || p.RequestID != "r1"):
				t.Errorf("%v", err)
			}
			if n := k.count(path); n != c.sent {
				t.Errorf("sent %d times, not %d", n, c.sent)
			}
		})
	}
}

// TestDeadlineBeforeRetry checks that a client does not wait for a retry that would
// begin after the deadline.
func TestDeadlineBeforeRetry(t *testing.T) {
	k := newKeeper(t)
	k.fail["GET /v1/version"] = []fail{{503, 30, "busy"}}
	c := k.serve(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	_, err := c.Version(ctx)
	var p *client.Problem
	if !errors.As(err, &p) || p.RetryAfter != 30*time.Second || !errors.Is(err, context.DeadlineExceeded) ||
		time.Since(began) > 4*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestLimits(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, func(cfg *client.Config) { cfg.MaxBytes = 100 })
	_, err := c.Solve(t.Context(), client.Request{Instance: instance(t), Options: quick})
	if err == nil || k.count("POST /v1/solves") != 1 {
		t.Errorf("%v, sent %d times", err, k.count("POST /v1/solves"))
	}
}

func TestWhatIf(t *testing.T) {
	k := newKeeper(t)
	k.fail["POST /v1/what-if"] = []fail{{503, 0, "busy"}}
	c := k.serve(t, nil)
	ask := &whatifdoc.Request{Base: whatifdoc.Base{SolveID: "s1"}, Scenarios: []whatifdoc.Scenario{
		{ID: "more", AddGPUs: []whatifdoc.AddedGPUs{{Type: "V100", Count: 2}}},
		{ID: "bad", Drain: []whatifdoc.DrainedNode{{Node: "x", AtUs: 3e6}}},
	}, PruneBelow: new(hare.Product(1e6, 1.5e6))}
	var got []client.Outcome
	for o, err := range c.WhatIf(t.Context(), ask) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o)
	}
	if len(got) != 4 || got[1].ValueChange.String() != "-9.5" || got[1].OptimumChange[0].String() != "-10" ||
		got[2].Error == nil || got[2].Error.Faults[0].Pointer != "/scenarios/1/drain/node" || got[3].Value != nil {
		t.Errorf("%+v", got)
	}
	if want := `{"base":{"solve_id":"s1"},"scenarios":[{"id":"more","add_gpus":[{"type":"V100","count":2}]},` +
		`{"id":"bad","drain":[{"node":"x","at_s":3}]}],"prune":{"below_s":1.5}}` + "\n"; k.asked != want {
		t.Error(k.asked)
	}
	for range c.WhatIf(t.Context(), ask) {
		break
	}
	// The caller gets the part of the answer that arrived, and then an error.
	k.set(func() { k.lose["POST /v1/what-if"] = 1 })
	n, sent := 0, k.count("POST /v1/what-if")
	var last error
	for _, err := range c.WhatIf(t.Context(), ask) {
		if last = err; err == nil {
			n++
		}
	}
	if n == 0 || n == 4 || last == nil || k.count("POST /v1/what-if") != sent+1 {
		t.Errorf("%d outcomes, then %v", n, last)
	}
	ask.Base.SolveID = ""
	for _, err := range c.WhatIf(t.Context(), ask) {
		if err == nil {
			t.Error("there is no base")
		}
	}
}
