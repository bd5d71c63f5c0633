package client_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// live starts a server with stored solves, and with API keys if dir is not "".
func live(t *testing.T, dir string) (url string) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 2, Queue: 8})
	cfg := api.Config{Heartbeat: 50 * time.Millisecond}
	if dir != "" {
		ring, err := access.OpenKeyring(access.FileIn(dir), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Keys, cfg.Quotas = ring, admission.NewQuotas(admission.Quota{}, ring.Quota)
	}
	srv := httptest.NewServer(servetest.New(t, svc, cfg))
	t.Cleanup(srv.Close)
	return srv.URL
}

func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func isProblem(err error, status int, code string) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == status && p.Code == code
}

// TestStoredSolve follows a stored solve from its first event to its deletion, on a
// real server.
func TestStoredSolve(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	ctx, inst := t.Context(), instance(t)
	var seen []client.Event
	req := client.Request{Instance: inst, Options: wire.Options{WorkLimit: 500}, Key: "k",
		Progress: func(e client.Event) { seen = append(seen, e) }}
	res, err := c.Solve(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for i, e := range seen {
		if e.ID != int64(i+1) {
			t.Errorf("event %d has id %d", i, e.ID)
		}
		types = append(types, e.Type)
	}
	if len(seen) == 0 || seen[len(seen)-1].Type != "done" || !slices.Contains(types, "incumbent") ||
		!slices.Contains(types, "bound") {
		t.Fatalf("events %v", types)
	}
	s, err := c.Submit(ctx, req) // returns the same solve, by its idempotency key
	if err != nil || !s.Done() || s.Status != "succeeded" {
		t.Fatalf("%v %+v", err, s)
	}
	var behind []int64
	for e, err := range c.Events(ctx, s.ID, 2) {
		if err != nil {
			t.Fatal(err)
		}
		behind = append(behind, e.ID)
	}
	if len(behind) != len(seen)-2 || behind[0] != 3 {
		t.Errorf("behind event 2 of %d: %v", len(seen), behind)
	}
	again, err := c.Result(ctx, s.ID)
	if err != nil || again.Value.Cmp(*res.Value) != 0 || again.Bound.Cmp(*res.Bound) != 0 {
		t.Errorf("%v, value %v", err, again)
	}
	for accept, first := range map[string]string{"text/csv": "gpu,type,job,", "application/x-ndjson": `{"jobs":[`} {
		var b bytes.Buffer
		if err := c.Schedule(ctx, s.ID, accept, url.Values{"job": {"bert"}}, &b); err != nil ||
			!strings.HasPrefix(b.String(), first) || accept == "text/csv" && strings.Contains(b.String(), "vgg") {
			t.Errorf("%s: %v %s", accept, err, &b)
		}
	}
	found := false
	for x, err := range c.List(ctx, url.Values{"status": {"succeeded"}}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || x.ID == s.ID
	}
	if !found {
		t.Error("the list lacks the solve")
	}
	if err := c.Delete(ctx, s.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(ctx, s.ID); !isProblem(err, http.StatusGone, "gone") {
		t.Error(err)
	}
}

// TestExplainAndPrices compares the explanation with the result.
func TestExplainAndPrices(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	ctx, inst := t.Context(), instance(t)
	s, err := c.Submit(ctx, client.Request{Instance: inst, Options: wire.Options{WorkLimit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = c.Wait(ctx, s.ID); err != nil || s.Status != "succeeded" {
		t.Fatalf("%v %+v", err, s)
	}
	res, err := c.Result(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Jobs(ctx, s.ID, "end", 2)
	if err != nil || list.Count != len(inst.Jobs) || len(list.Jobs) != 2 || list.Jobs[0].EndS > list.Jobs[1].EndS {
		t.Fatalf("%v %+v", err, list)
	}
	for _, job := range res.Jobs {
		x, err := c.Explain(ctx, s.ID, job.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		end := hare.Seconds(job.EndUs)
		if x.Job != job.ID || x.Outcome != "scheduled" || x.EndS != end || x.Timeline[len(x.Timeline)-1].ToS != end ||
			x.Price == nil || len(x.Elsewhere) == 0 || x.Earlier != nil {
			t.Errorf("%+v", x)
		}
	}
	// For the last job to end half a second earlier, the search finds a change or
	// proves that none exists.
	last := slices.MaxFunc(res.Jobs, func(a, b hare.JobResult) int { return int(a.EndUs - b.EndUs) })
	x, err := c.Explain(ctx, s.ID, last.ID, &client.Change{Earlier: 500 * time.Millisecond, TimeLimit: 2 * time.Second})
	if err != nil || x.Earlier == nil || x.Earlier.ByS != hare.Seconds(last.EndUs-500_000) ||
		len(x.Earlier.Changes) == 0 {
		t.Fatalf("%v %+v", err, x)
	}
	if _, err := c.Explain(ctx, s.ID, "ver/t", nil); !isProblem(err, http.StatusNotFound, "no_such_job") {
		t.Error(err)
	}
	p, err := c.Prices(ctx, s.ID)
	if err != nil || p.InstanceSHA256 != res.InstanceSHA256 || len(p.Types) == 0 ||
		len(p.GridS) != len(p.Types[0].Prices)+1 || p.Meaning == "" {
		t.Errorf("%v %+v", err, p)
	}
	lines := 0
	for o, err := range c.WhatIf(ctx, &whatifdoc.Request{Base: whatifdoc.Base{SolveID: s.ID},
		Options:   wire.Options{WorkLimit: 500},
		Scenarios: []whatifdoc.Scenario{{ID: "more", AddGPUs: []whatifdoc.AddedGPUs{{Type: "V100", Count: 2}}}}}) {
		if err != nil {
			t.Fatal(err)
		}
		if lines++; o.Line == "scenario" && (o.Status != "succeeded" || len(o.OptimumChange) != 2 ||
			o.OptimumChange[0].Cmp(*o.OptimumChange[1]) > 0) {
			t.Errorf("%s", o.Data)
		}
	}
	if lines != 3 {
		t.Errorf("%d lines", lines)
	}
}

// TestReports lists, reads and deletes a what-if and a simulation.
func TestReports(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	ctx, tags := t.Context(), wire.Tags{Name: "night", Labels: map[string]string{"team": "vision"}}
	var outcomes []client.Outcome
	for o, err := range c.WhatIf(ctx, &whatifdoc.Request{Base: whatifdoc.Base{Instance: instance(t)}, Tags: tags,
		Options:   wire.Options{WorkLimit: 500},
		Scenarios: []whatifdoc.Scenario{{AddGPUs: []whatifdoc.AddedGPUs{{Type: "V100", Count: 2}}}}}) {
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, o)
	}
	answer, err := c.Simulate(ctx, &simulatedoc.Request{Policies: []string{"hlas"}, Instance: instance(t),
		Name: tags.Name, Labels: tags.Labels})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, list := range []func(context.Context, url.Values) iter.Seq2[*client.StoredReport, error]{c.WhatIfs,
		c.Simulations} {
		for r, err := range list(ctx, url.Values{"label": {"team=vision"}, "q": {"night"}}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Name != tags.Name || r.Labels["team"] != "vision" || r.Created.IsZero() || r.AnswerBytes == 0 {
				t.Errorf("%+v", r)
			}
			ids = append(ids, r.ID)
		}
	}
	if len(ids) != 2 {
		t.Fatal(ids)
	}
	kept, err := c.KeptWhatIf(ctx, ids[0])
	if err != nil || len(kept) != 3 || string(kept[1].Data) != string(outcomes[1].Data) || kept[1].Line != "scenario" {
		t.Errorf("%v %+v", err, kept)
	}
	again, err := c.KeptSimulation(ctx, ids[1])
	if err != nil || !reflect.DeepEqual(again, answer) {
		t.Errorf("%v %+v", err, again)
	}
	for _, err := range []error{c.DeleteWhatIf(ctx, ids[0]), c.DeleteSimulation(ctx, ids[1])} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.KeptWhatIf(ctx, ids[0]); !isProblem(err, http.StatusGone, "gone") {
		t.Error(err)
	}
}

func TestCancelKeepsTheBestPair(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	ctx, none := t.Context(), 0.0
	inst := instance(t)
	s, err := c.Submit(ctx, client.Request{Instance: inst, Options: wire.Options{TimeLimit: time.Minute, Gap: &none}})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Events(ctx, s.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "incumbent" {
			break
		}
	}
	if _, err := c.Cancel(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if s, err = c.Wait(ctx, s.ID); err != nil || !s.Done() || s.Value == nil {
		t.Errorf("%v %+v", err, s)
	}
	if res, err := c.Result(ctx, s.ID); err != nil || res.Schedule == nil {
		t.Error(err)
	}
}

func TestReplan(t *testing.T) {
	c := connect(t, client.Config{URL: live(t, "")})
	inst := instance(t)
	first, err := c.Solve(t.Context(), client.Request{Instance: inst, Options: wire.Options{WorkLimit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Solve(t.Context(), client.Request{Instance: inst, Previous: first, At: 5 * time.Second,
		Options: wire.Options{WorkLimit: 500}})
	if err != nil || res.Replan == nil || res.Replan.Rest == nil {
		t.Errorf("%v %+v", err, res)
	}
}

// TestKeysAndQuotas creates keys and quotas of a tenant as an administrator, and
// checks what the keys may not do.
func TestKeysAndQuotas(t *testing.T) {
	dir := t.TempDir()
	secret, key, err := access.NewKey(access.Operator, access.RoleAdmin, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := access.FileIn(dir).Update(t.Context(), func(set *access.KeySet) error {
		return set.Add(key, time.Now())
	}); err != nil {
		t.Fatal(err)
	}
	at, ctx := live(t, dir), t.Context()
	admin := connect(t, client.Config{URL: at, Key: secret})
	made, err := admin.CreateKey(ctx, client.KeyRequest{Tenant: "blue", Role: "solve", Lasts: time.Hour,
		Note: "of a test"})
	if err != nil || made.Key == "" || made.Tenant != "blue" || made.State != "valid" ||
		made.Expires.Sub(made.Created) != time.Hour {
		t.Fatalf("%v %+v", err, made)
	}
	q, err := admin.SetQuota(ctx, "blue", client.Quota{Solves: 3})
	if err != nil || q.Quota.Solves != 3 {
		t.Errorf("%v %+v", err, q)
	}
	blue := connect(t, client.Config{URL: at, Key: made.Key})
	if q, err = blue.Quota(ctx); err != nil || q.Tenant != "blue" || q.Quota.Solves != 3 {
		t.Errorf("%v %+v", err, q)
	}
	if _, err := blue.Keys(ctx); !isProblem(err, http.StatusForbidden, "forbidden") {
		t.Error(err)
	}
	if _, err := blue.Solve(ctx, client.Request{Instance: instance(t), Options: quick}); err != nil {
		t.Error(err)
	}
	all, err := admin.Keys(ctx)
	if err != nil || len(all) != 2 || !slices.ContainsFunc(all,
		func(k client.Key) bool { return k.ID == made.ID && k.Key == "" && k.Note == "of a test" }) {
		t.Errorf("%v %+v", err, all)
	}
	if err := admin.RevokeKey(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if _, err := blue.Quota(ctx); !isProblem(err, http.StatusUnauthorized, "bad_key") {
		t.Error(err)
	}
}
