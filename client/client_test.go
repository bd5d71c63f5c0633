package client_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func instance(t *testing.T) *hare.Instance {
	t.Helper()
	text, err := os.ReadFile("../testdata/examples/three-jobs.instance.json")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := wire.DecodeInstance(bytes.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

var quick = wire.Options{Bound: "machine", Order: "wspt", Assign: "earliest_finish"}

func TestSolveVerifyBound(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	inst := instance(t)
	res, err := c.Solve(t.Context(), client.Request{Instance: inst, Options: quick})
	if err != nil {
		t.Fatal(err)
	}
	if res.Value == nil || res.Bound == nil || res.Value.Cmp(*res.Bound) < 0 || res.Schedule == nil {
		t.Errorf("value %v, bound %v", res.Value, res.Bound)
	}
	rep, err := c.Verify(t.Context(), inst, res)
	if err != nil || !rep.OK {
		t.Errorf("%v %+v", err, rep)
	}
	res.Schedule.Lanes[0].StartUs[0]++
	rep, err = c.Verify(t.Context(), inst, res)
	if err != nil || rep.OK || len(rep.Faults) == 0 || rep.Faults[0].Constraint == "" {
		t.Errorf("%v %+v", err, rep)
	}
	b, err := c.Bound(t.Context(), inst, "machine")
	if err != nil || b.Bound.String() != "30.1" || !b.Certified {
		t.Fatalf("%v %+v", err, b)
	}
	if cert, err := wire.DecodeCertificate(bytes.NewReader(b.Certificate), wire.Limits{}); err != nil ||
		cert.Bound != "30.100000" {
		t.Errorf("%v %+v", err, cert)
	}
	if v, err := c.Version(t.Context()); err != nil || v.Version != "test" {
		t.Errorf("%v %v", v, err)
	}
}

// TestProblems checks that the error of a refused request has the pointers of the
// faults, and that the request is not sent twice.
func TestProblems(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	seven := 7.0
	_, err := c.Solve(t.Context(), client.Request{Instance: instance(t), Options: wire.Options{Gap: &seven}})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity || p.Code != "out_of_range" ||
		p.RequestID == "" || len(p.Faults) != 1 || p.Faults[0].Pointer != "/options/gap" {
		t.Fatalf("%#v", err)
	}
	var fault *hare.InvalidError
	if !errors.As(err, &fault) || fault.Pointer != "/options/gap" {
		t.Error("errors.As does not reach the fault")
	}
	if n := k.count("POST /v1/solves"); n != 1 {
		t.Errorf("sent %d times", n)
	}
	if _, err := c.Get(t.Context(), "a/b?c"); !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	if _, err := c.Bound(t.Context(), nil, ""); err == nil {
		t.Error("nil is an instance")
	}
}

// The error page of a proxy becomes a Problem too.
func TestProblemOfAnotherServer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<html><h1>No</h1>"))
	}))
	defer srv.Close()
	c, err := client.New(client.Config{URL: srv.URL + "/below/"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Version(t.Context())
	if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Status != 403 || err.Error() != "hare: 403: Forbidden" {
		t.Errorf("%v", err)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"scheme":   {URL: "ftp://x"},
		"no host":  {URL: "http://"},
		"query":    {URL: "http://x?a=b"},
		"user":     {URL: "http://u:p@x"},
		"open key": {URL: "http://hare.example", Key: "hare_1"},
		"key":      {URL: "https://hare.example", Key: "a\r\nX: y"},
		"timeout":  {HTTPClient: &http.Client{Timeout: time.Second}},
	} {
		if _, err := client.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, cfg := range map[string]client.Config{
		"none": {}, "loopback": {URL: "http://[::1]:9", Key: "hare_1"}, "tls": {URL: "https://x", Key: "hare_1"},
		"insecure": {URL: "http://x", Key: "k", Insecure: true},
	} {
		if _, err := client.New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyIsSent(t *testing.T) {
	got := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization") + " " + r.URL.EscapedPath()
		_, _ = w.Write([]byte(`{"version":"1"}`))
	}))
	defer srv.Close()
	c, err := client.New(client.Config{URL: srv.URL + "/a%2Fb/", Key: "hare_x"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g := <-got; g != "Bearer hare_x /a%2Fb/v1/version" {
		t.Error(g)
	}
}

func TestLists(t *testing.T) {
	c := newKeeper(t).serve(t, nil)
	var ids []string
	for s, err := range c.List(t.Context(), url.Values{"status": {"failed"}}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID+s.Status[:1])
	}
	if got := strings.Join(ids, " "); got != "s0q t0f s1q t1f s2q t2f" {
		t.Error(got)
	}
	for range c.List(t.Context(), nil) {
		break
	}
}

func TestSessions(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	ctx := t.Context()
	cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}}
	s, err := c.CreateSession(ctx, &wire.SessionRequest{Cluster: *cluster})
	if err != nil {
		t.Fatal(err)
	}
	bert := &hare.Job{ID: "bert", WeightMicro: 1e6, Tasks: 1, On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}}
	events := []hare.Event{
		{Seq: 1, Type: hare.EventJobArrived, Job: "bert", Arrived: bert},
		{Seq: 2, AtUs: 1e6, Type: hare.EventTaskEnded, Job: "bert", GPU: "a/0", ComputeUs: 1e6},
		{Seq: 3, AtUs: 1e6, Type: hare.EventJobEnded, Job: "bert"},
	}
	// The first answers to the events are lost.
	k.set(func() { k.lose["POST /v1/sessions/"+s.ID+"/events"] = 1 })
	answers, err := c.Apply(ctx, s, events...)
	if err != nil || len(answers) != 3 || len(answers[0].Decisions) != 1 || answers[0].Decisions[0].GPU != "a/0" {
		t.Fatalf("%v %+v", err, answers)
	}
	_, err = c.Apply(ctx, s, hare.Event{Seq: 9, AtUs: 2e6})
	if e := (*client.EventError)(nil); !errors.As(err, &e) || e.Expected != 4 || e.Seq != 9 {
		t.Errorf("%v", err)
	}
	if got, err := c.Session(ctx, s.ID); err != nil || got.LastSeq != 3 || got.Status == nil || got.Planning == nil ||
		got.Planning.State == "" {
		t.Errorf("%v %+v", err, got)
	}
	if r, err := c.Regret(ctx, s.ID, ""); err != nil || r.Against != nil || r.Jobs.Counted != 1 || r.Seq != 3 ||
		r.Achieved.String() != "1" || r.Regret == nil || *r.Regret != "1.000000" {
		t.Errorf("%v %+v", err, r)
	}
	if r, err := c.Regret(ctx, s.ID, "srtf"); err != nil || r.Against == nil || r.Against.Policy != "srtf" ||
		r.Against.WeightedJCT == nil || *r.Against.WeightedJCT != *r.Against.Session.WeightedJCT ||
		*r.Against.MeanJCTS != 1 || *r.Against.P99Slowdown != 1 || *r.Against.Regret != "1.000000" {
		t.Errorf("%v %+v", err, r)
	}
	if r, err := c.RegretOf(ctx, s.ID, "makespan"); err != nil || r.Objective != "makespan" || r.Regret == nil ||
		r.Achieved.String() != "1" || *r.Regret != "1.000000" {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := c.Regret(ctx, s.ID, "srft"); !isProblem(err, http.StatusBadRequest, "bad_query") {
		t.Error(err)
	}
	if plan, err := c.SessionPlan(ctx, s.ID); err != nil || plan.Policy != "rolling" || plan.Seq != 3 ||
		plan.AtUs != 1e6 {
		t.Errorf("%v %+v", err, plan)
	}
	var seen []int64
	for a, err := range c.Decisions(ctx, s.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, a.Seq); a.Seq == 3 {
			break
		}
	}
	if !slices.Equal(seen, []int64{2, 3}) {
		t.Error(seen)
	}
	timed, err := c.CreateSession(ctx, &wire.SessionRequest{Cluster: *cluster, Clock: "server", Policy: "fifo"})
	if err != nil {
		t.Fatal(err)
	}
	if answers, err := c.Apply(ctx, timed, hare.Event{Seq: 1, Type: hare.EventTick}); err != nil || len(answers) != 1 {
		t.Errorf("%v %v", answers, err)
	}
	_, err = c.SessionPlan(ctx, timed.ID)
	if e := (*client.Problem)(nil); !errors.As(err, &e) || e.Code != "no_plan" {
		t.Errorf("%v", err)
	}
	var ids []string
	for s, err := range c.Sessions(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	if !slices.Equal(ids, []string{s.ID, timed.ID}) {
		t.Error(ids)
	}
	// The deletion of a session ends the stream of its decisions with an error.
	decisions := "GET /v1/sessions/" + s.ID + "/decisions"
	before := k.count(decisions)
	ended := make(chan error)
	go func() {
		var last error
		for _, err := range c.Decisions(ctx, s.ID, 0) {
			last = err
		}
		ended <- last
	}()
	for k.count(decisions) == before {
		time.Sleep(time.Millisecond)
	}
	k.set(func() { k.lose["DELETE /v1/sessions/"+s.ID] = 1 })
	if err := c.DeleteSession(ctx, s.ID); err != nil {
		t.Error(err)
	}
	if p := (*client.Problem)(nil); !errors.As(<-ended, &p) || p.Status != http.StatusNotFound {
		t.Errorf("%v", p)
	}
	if err := c.DeleteSession(ctx, s.ID); err == nil {
		t.Error("deleted twice")
	}
}

func TestScheduleGoesToTheWriter(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	s, err := c.Submit(t.Context(), client.Request{Instance: instance(t), Options: quick})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Schedule(t.Context(), s.ID, "text/csv", nil, &out); err != nil ||
		!strings.HasPrefix(out.String(), "job,round,gpu\n") {
		t.Errorf("%v %q", err, out.String())
	}
	if err := c.Delete(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Result(t.Context(), s.ID); err == nil {
		t.Error("still there")
	}
}

func TestContextEndsCalls(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := c.Version(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestPlanAgain(t *testing.T) {
	c := newKeeper(t).serve(t, nil)
	inst := instance(t)
	first, err := c.Solve(t.Context(), client.Request{Instance: inst, Options: quick})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Solve(t.Context(), client.Request{Instance: inst, Options: quick, Previous: first,
		PreviousInstance: inst, At: 3 * time.Second, Stability: 0.5})
	if err != nil || again.Value == nil || again.InstanceSHA256 == first.InstanceSHA256 {
		t.Errorf("%v %+v", err, again)
	}
}

// TestVerifyReplan checks a plan for the rest of an earlier plan together with that
// plan.
func TestVerifyReplan(t *testing.T) {
	k := newKeeper(t)
	c := k.serve(t, nil)
	inst := instance(t)
	prev, err := c.Solve(t.Context(), client.Request{Instance: inst, Options: quick})
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Solve(t.Context(), client.Request{Instance: inst, Options: quick, Previous: prev, At: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		prev   *hare.Result
		before *hare.Instance
		ok     bool
	}{"with": {prev, nil, true}, "with both": {prev, inst, true}, "without": {nil, nil, true},
		"of another instance": {prev, res.Replan.Rest, false}} {
		rep, err := c.VerifyReplan(t.Context(), inst, res, x.prev, x.before)
		if err != nil || rep.OK != x.ok || rep.OK != strings.Contains(rep.Note, "this is the rest at 1 s") {
			t.Errorf("%s: %v %+v", name, err, rep)
		}
	}
}
