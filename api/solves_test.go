package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// solveServer serves solves on loopback; its other methods are those of
// sessionServer.
type solveServer struct {
	sessionServer
	solves *solves.Solves
}

func newSolveServer(t testing.TB, cfg service.Config, tune ...func(*api.Config)) *solveServer {
	t.Helper()
	if cfg.Engine == nil && cfg.Solver.Version == "" {
		cfg.Solver = solver.Config{Version: "test", Workers: 1}
	}
	s := &solveServer{}
	s.svc = service.New(cfg)
	s.solves = servetest.Solves(t, s.svc)
	served := api.Config{MaxBodyBytes: 1 << 20, Solves: s.solves}
	for _, f := range tune {
		f(&served)
	}
	s.config = served
	s.serve(t, api.New(s.svc, served))
	t.Cleanup(s.Close)
	return s
}

// post submits a solve and returns its answer.
func (s *solveServer) post(t testing.TB, options string, header ...string) (code int, text string, h http.Header) {
	t.Helper()
	return s.call(t, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":`+options+`}`,
		append([]string{"Content-Type", "application/json"}, header...)...)
}

type solveView struct {
	ID, Status, Termination string
	QueuePosition           int `json:"queue_position"`
	Value, Bound, Gap       *float64
	Events                  int64
	Links                   map[string]string
}

func (s *solveServer) look(t testing.TB, at string, header ...string) (v solveView, h http.Header) {
	t.Helper()
	code, text, h := s.call(t, "GET", at, "", header...)
	if err := json.Unmarshal([]byte(text), &v); code != 200 || err != nil {
		t.Fatalf("%s: %d %s %v", at, code, text, err)
	}
	return v, h
}

func TestPreferAndWaiting(t *testing.T) {
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine, Running: 1, Queue: 8})
	code, text, h := s.post(t, `{}`, "Prefer", "respond-async")
	at := h.Get("Location")
	if code != 202 || h.Get("Retry-After") == "" || h.Get("Preference-Applied") != "respond-async" ||
		!strings.Contains(text, `"id":"`+h.Get("Hare-Solve-Id")+`"`) || !strings.Contains(text, `"cancel":"`) {
		t.Fatalf("%d %v %s", code, h, text)
	}
	<-engine.began
	_, _, h = s.post(t, `{"seed":2}`, "Prefer", "wait=0")
	second := h.Get("Location")
	if code, _, h = s.post(t, `{"seed":3}`, "Prefer", "wait=1"); code != 202 || h.Get("Preference-Applied") != "wait=1" {
		t.Errorf("%d %v", code, h)
	}
	if v, _ := s.look(t, second); v.Status != "queued" || v.QueuePosition != 1 {
		t.Errorf("%+v", v)
	}
	if v, _ := s.look(t, h.Get("Location")); v.QueuePosition != 2 {
		t.Errorf("%+v", v)
	}
	for _, of := range []string{"/result", "/jobs", "/jobs/bert", "/prices", "/prices.svg"} {
		if code, text, _ := s.call(t, "GET", at+of, ""); code != 404 || !strings.Contains(text, `"no_result"`) {
			t.Errorf("%s: %d %s", of, code, text)
		}
	}
	if code, text, _ := s.call(t, "DELETE", at, ""); code != 409 || !strings.Contains(text, `"not_ended"`) {
		t.Errorf("%d %s", code, text)
	}
	// An answer that the client already has is not sent again until it changes.
	v, h := s.look(t, second)
	tag := h.Get("ETag")
	if code, text, h := s.call(t, "GET", second, "", "If-None-Match", `"x", W/`+tag); code != 304 || text != "" ||
		h.Get("ETag") != tag {
		t.Errorf("%d %s", code, text)
	}
	if code, _, _ := s.call(t, "GET", second+"?wait=1", "", "If-None-Match", tag); code != 304 {
		t.Errorf("without a change: %d", code)
	}
	changed := make(chan solveView, 1)
	go func() {
		v, _ := s.look(t, second+"?wait=20", "If-None-Match", tag)
		changed <- v
	}()
	ended := make(chan solveView, 1)
	go func() {
		v, _ := s.look(t, at+"?wait=20")
		ended <- v
	}()
	s.eventually(t, `hare_session_streams{of="waits"} 2`)
	if code, text, _ := s.call(t, "POST", at+"/cancel", ""); code != 202 || !strings.Contains(text, `"id"`) {
		t.Errorf("%d %s", code, text)
	}
	if v := <-ended; v.Status != "cancelled" || v.Termination != "cancelled" {
		t.Errorf("%+v", v)
	}
	if c := <-changed; c.Status != "running" || c.Events <= v.Events {
		t.Errorf("%+v after %+v", c, v)
	}
	// A second cancellation changes nothing.
	before, _ := s.look(t, at)
	if code, text, _ := s.call(t, "POST", at+"/cancel", ""); code != 202 || !strings.Contains(text, `"cancelled"`) {
		t.Errorf("%d %s", code, text)
	}
	if after, _ := s.look(t, at); after.Events != before.Events {
		t.Errorf("%+v after %+v", after, before)
	}
	close(engine.free)
	if code, text, h := s.post(t, `{"seed":4}`, "Prefer", "wait=20"); code != 200 ||
		!strings.Contains(text, `"optimal"`) || h.Get("Preference-Applied") != "wait=20" {
		t.Errorf("%d %v", code, h)
	}
}

func TestIdempotency(t *testing.T) {
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine, Running: 1})
	var ids sync.Map
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			code, text, h := s.post(t, `{}`, "Idempotency-Key", `"one"`, "Prefer", "wait=0")
			if code != 202 {
				t.Errorf("%d %s", code, text)
			}
			replayed, _ := ids.LoadOrStore(h.Get("Hare-Solve-Id"), new(sync.Map))
			n, _ := replayed.(*sync.Map).LoadOrStore(h.Get("Idempotent-Replayed"), 0)
			replayed.(*sync.Map).Store(h.Get("Idempotent-Replayed"), n.(int)+1)
		})
	}
	clients.Wait()
	n := 0
	ids.Range(func(_, of any) bool {
		n++
		first, _ := of.(*sync.Map).Load("")
		if first != 1 {
			t.Errorf("%v answers are not replayed", first)
		}
		return true
	})
	if n != 1 {
		t.Errorf("%d solves of one key", n)
	}
	<-engine.began
	if code, text, _ := s.post(t, `{"seed":2}`, "Idempotency-Key", "one"); code != 422 ||
		!strings.Contains(text, `"key_reused"`) {
		t.Errorf("%d %s", code, text)
	}
	// With an idempotency key the solve continues without its client, and the next
	// call gets its result.
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/solves", strings.NewReader(body(t)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "two")
	go func() {
		for list, _ := s.solveIDs(t, ""); len(list) < 2; list, _ = s.solveIDs(t, "") {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if resp, err := s.Client().Do(r); err == nil {
		_ = resp.Body.Close()
		t.Error(resp.Status)
	}
	close(engine.free)
	code, text, h := s.call(t, "POST", "/v1/solves", gzipped(body(t)), "Idempotency-Key", "two", "Content-Encoding",
		"gzip")
	if code != 200 || h.Get("Idempotent-Replayed") != "true" || !strings.Contains(text, `"optimal"`) {
		t.Errorf("%d %v %s", code, h, text)
	}
	if code, _, _ := s.call(t, "DELETE", h.Get("Location"), ""); code != 204 {
		t.Error(code)
	}
	if code, text, _ := s.call(t, "POST", "/v1/solves", body(t), "Idempotency-Key", "two"); code != 410 {
		t.Errorf("%d %s", code, text)
	}
}

// TestKeptSolveEndsWithItsClient checks that a solve without Prefer and without a
// key ends when its client disconnects.
func TestKeptSolveEndsWithItsClient(t *testing.T) {
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine})
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/solves", strings.NewReader(body(t)))
	r.Header.Set("Content-Type", "application/json")
	go func() {
		<-engine.began
		cancel()
	}()
	if resp, err := s.Client().Do(r); err == nil {
		_ = resp.Body.Close()
		t.Error(resp.Status)
	}
	select {
	case <-engine.ended:
	case <-time.After(patience):
		t.Fatal("the solve goes on")
	}
	ids, _ := s.solveIDs(t, "?status=cancelled")
	for end := time.Now().Add(patience); len(ids) == 0 && time.Now().Before(end); ids,
		_ = s.solveIDs(t, "?status=cancelled") {
		time.Sleep(time.Millisecond)
	}
	if len(ids) != 1 {
		t.Errorf("%v", ids)
	}
}

// solveIDs lists the ids of one page and the cursor of the next page.
func (s *solveServer) solveIDs(t testing.TB, query string) (ids []string, next string) {
	t.Helper()
	code, text, _ := s.call(t, "GET", "/v1/solves"+query, "")
	var list struct {
		Solves []solveView
		Links  struct{ Next string }
	}
	if err := json.Unmarshal([]byte(text), &list); code != 200 || err != nil {
		t.Fatalf("%s: %d %s", query, code, text)
	}
	for _, v := range list.Solves {
		ids = append(ids, v.ID)
	}
	return ids, strings.TrimPrefix(list.Links.Next, "/v1/solves")
}

func TestListOfSolves(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	var made []string
	for i := range 7 {
		_, _, h := s.post(t, fmt.Sprintf(`{"bound":"machine","order":"wspt","assign":"earliest_finish","seed":%d}`, i))
		made = append(made, h.Get("Hare-Solve-Id"))
	}
	slices.Reverse(made)
	var listed []string
	pages := 0
	for query := "?limit=3&status=succeeded"; query != ""; pages++ {
		var ids []string
		ids, query = s.solveIDs(t, query)
		listed = append(listed, ids...)
	}
	if !slices.Equal(listed, made) || pages != 3 {
		t.Errorf("%d pages: %v, want %v", pages, listed, made)
	}
	inst, err := wire.DecodeInstance(strings.NewReader(example(t)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"": 7, "?status=running": 0, "?termination=optimal": 0, "?instance_sha256=" + wire.SHA256(inst): 7,
		"?instance_sha256=" + strings.Repeat("0", 64): 0, "?status=succeeded&limit=5": 5,
	} {
		if ids, _ := s.solveIDs(t, query); len(ids) != want {
			t.Errorf("%s: %d solves, want %d", query, len(ids), want)
		}
	}
}

func TestBadSolves(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	_, _, h := s.post(t, `{"bound":"machine","detail":"none","work_limit":1}`)
	at := h.Get("Location")
	paths := []string{"", "/result", "/schedule", "/events", "/gantt.svg", "/gantt.png", "/gantt.html", "/certificate",
		"/instance"}
	type refusal struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}
	cases := map[string]refusal{
		"prefer":    {"POST", "/v1/solves", body(t), []string{"Prefer", "wait=1h"}, 400, "bad_header"},
		"long wait": {"POST", "/v1/solves", body(t), []string{"Prefer", "wait=3601"}, 400, "bad_header"},
		"key":       {"POST", "/v1/solves", body(t), []string{"Idempotency-Key", "a b"}, 422, "invalid_key"},
		"long key": {"POST", "/v1/solves", body(t), []string{"Idempotency-Key", strings.Repeat("k", 256)}, 422,
			"invalid_key"},
		"too many tasks": {"POST", "/v1/solves", strings.Replace(body(t), `"rounds"`, `"rounds": 9000000, "x"`, 1),
			[]string{"Prefer", "respond-async"}, 422, "unknown_field"},
		"no engine": {"POST", "/v1/solves", `{"instance":` + example(t) + `,"options":{"bound":"queyranne"}}`,
			[]string{"Prefer", "respond-async"}, 422, "no_lp_engine"},
		"option": {"POST", "/v1/solves", `{"instance":` + example(t) + `,"options":{"bound":"magic"}}`,
			[]string{"Prefer", "respond-async"}, 422, "invalid_option"},
		"bomb": {"POST", "/v1/solves", gzipped(strings.Repeat(" ", 8<<20)),
			[]string{"Content-Encoding", "gzip", "Prefer", "respond-async", "Idempotency-Key", "bomb"}, 413, "body_too_large"},
		"zstd bomb": {"POST", "/v1/solves", zstdBomb(),
			[]string{"Content-Encoding", "zstd", "Idempotency-Key", "zbomb"}, 413, "body_too_large"},
		"wait":           {"GET", at + "?wait=x", "", nil, 400, "bad_query"},
		"wait above":     {"GET", at + "?wait=3601", "", nil, 400, "bad_query"},
		"wait empty":     {"GET", at + "?wait=", "", nil, 400, "bad_query"},
		"wait twice":     {"GET", at + "?wait=1&wait=2", "", nil, 400, "bad_query"},
		"unknown":        {"GET", at + "?colour=red", "", nil, 400, "bad_query"},
		"escape":         {"GET", at + "?wait=%zz", "", nil, 400, "bad_query"},
		"limit":          {"GET", "/v1/solves?limit=0", "", nil, 400, "bad_query"},
		"limit above":    {"GET", "/v1/solves?limit=1001", "", nil, 400, "bad_query"},
		"status":         {"GET", "/v1/solves?status=done", "", nil, 400, "bad_query"},
		"termination":    {"GET", "/v1/solves?termination=", "", nil, 400, "bad_query"},
		"hash":           {"GET", "/v1/solves?instance_sha256=xyz", "", nil, 400, "bad_query"},
		"cursor":         {"GET", "/v1/solves?after=!", "", nil, 400, "bad_query"},
		"format":         {"GET", at + "/schedule?format=xml", "", nil, 400, "bad_query"},
		"range":          {"GET", at + "/schedule?from_s=3&to_s=3", "", nil, 400, "bad_query"},
		"negative range": {"GET", at + "/schedule?from_s=-3", "", nil, 400, "bad_query"},
		"long decimals":  {"GET", at + "/schedule?to_s=1.0000001", "", nil, 400, "bad_query"},
		"width":          {"GET", at + "/gantt.svg?width=9", "", nil, 400, "bad_query"},
		"page width":     {"GET", at + "/gantt.html?width=900", "", nil, 400, "bad_query"},
		"after":          {"GET", at + "/events?after=-1", "", nil, 400, "bad_query"},
		"last event": {"GET", at + "/events", "", []string{"Accept", "text/event-stream", "Last-Event-ID", "x"}, 400,
			"bad_query"},
		"last, lines":    {"GET", at + "/events", "", []string{"Last-Event-ID", "+1"}, 400, "bad_query"},
		"cancel query":   {"POST", at + "/cancel?now=1", "", nil, 400, "bad_query"},
		"accept":         {"GET", at + "/result", "", []string{"Accept", "image/png"}, 406, "not_acceptable"},
		"accept events":  {"GET", at + "/events", "", []string{"Accept", "application/json"}, 406, "not_acceptable"},
		"no schedule":    {"GET", at + "/schedule", "", nil, 404, "no_schedule"},
		"no gantt":       {"GET", at + "/gantt.png", "", nil, 404, "no_schedule"},
		"no certificate": {"GET", at + "/certificate", "", nil, 404, "no_certificate"},
		"method":         {"PUT", at, "", nil, 405, "method_not_allowed"},
		"get cancel":     {"GET", at + "/cancel", "", nil, 405, "method_not_allowed"},
		"post result":    {"POST", at + "/result", "", nil, 405, "method_not_allowed"},
		"other path":     {"GET", at + "/gantt.gif", "", nil, 404, "not_found"},
		"unknown delete": {"DELETE", "/v1/solves/none", "", nil, 404, "no_solve"},
		"unknown cancel": {"POST", "/v1/solves/none/cancel", "", nil, 404, "no_solve"},
	}
	for _, path := range paths {
		cases["unknown solve "+path] = refusal{"GET", "/v1/solves/none" + path, "", nil, 404, "no_solve"}
		cases["strange solve "+path] = refusal{"GET", "/v1/solves/%00%2f..%ff" + path, "", nil, 404, "no_solve"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, text, h := s.call(t, c.method, c.path, c.body, c.header...)
			var p struct {
				Status       int
				Code, Detail string
				RequestID    string `json:"request_id"`
			}
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatalf("%d %v: %s", code, err, text)
			}
			if code != c.status || p.Status != c.status || p.Code != c.code || p.Detail == "" || p.RequestID == "" ||
				h.Get("Content-Type") != "application/problem+json" {
				t.Errorf("got %d %q, want %d %q: %s", code, p.Code, c.status, c.code, text)
			}
		})
	}
}
