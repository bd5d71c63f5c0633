package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

const twoGPUs = `{"nodes":[{"name":"a","gpus":{"V100":1}},{"name":"b","gpus":{"T4":1}}]}`

// fullStore is a store that can be made to refuse appends and to return a damaged
// row.
type fullStore struct {
	store.SessionStore
	full    atomic.Bool
	damaged atomic.Int64 // number of the first event of the damaged row
}

func (s *fullStore) Rows(ctx context.Context, id string, seq int64, most int) ([]store.Row, error) {
	rows, err := s.SessionStore.Rows(ctx, id, seq, most)
	for i := range rows {
		if rows[i].First == s.damaged.Load() {
			rows[i].Sum[0] ^= 1
		}
	}
	return rows, err
}

func (s *fullStore) Append(ctx context.Context, rows []store.Row) error {
	if s.full.Load() {
		return fmt.Errorf("%w: no room", store.ErrStorage)
	}
	return s.SessionStore.Append(ctx, rows)
}

// sessionServer serves sessions on loopback.
type sessionServer struct {
	*httptest.Server
	store    *fullStore
	sessions *sessions.Sessions
	svc      *service.Service
	config   api.Config
	agents   agentSecrets
}

func newSessionServer(t testing.TB, cfg sessions.Config, tune ...func(*api.Config)) *sessionServer {
	t.Helper()
	s := &sessionServer{store: &fullStore{SessionStore: store.NewMemory()},
		svc: service.New(service.Config{Solver: solver.Config{Version: "test"}})}
	cfg.Store = api.NewTimedStore(s.store)
	cfg.Retry = time.Millisecond
	var err error
	if s.sessions, err = sessions.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	served := api.Config{MaxBodyBytes: 1 << 20, Sessions: s.sessions}
	for _, f := range tune {
		f(&served)
	}
	s.config = served
	s.serve(t, servetest.New(t, s.svc, served))
	t.Cleanup(func() {
		s.Close()
		if err := s.sessions.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// impatient starts a second server of the same sessions and solves, which closes connections
// of clients that are too slow after a short time. Clients of s keep their time, however busy
// the machine is.
func (s *sessionServer) impatient(t testing.TB) *sessionServer {
	t.Helper()
	second := &sessionServer{svc: s.svc, sessions: s.sessions, config: s.config}
	second.config.BodyTime = 500 * time.Millisecond
	second.serve(t, servetest.New(t, s.svc, second.config))
	t.Cleanup(second.Close)
	return second
}

// serve starts the server on loopback.
func (s *sessionServer) serve(t testing.TB, h http.Handler) {
	t.Helper()
	s.Server = httptest.NewUnstartedServer(h)
	// The buffers are small so that the server notices slow readers soon.
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(1 << 14)
		return ctx
	}
	s.Config.ErrorLog = log.New(defects{t}, "", 0)
	s.Start()
}

// defects fails the test when the server of net/http logs an error.
type defects struct{ t testing.TB }

func (d defects) Write(b []byte) (int, error) {
	d.t.Errorf("%s", b)
	return len(b), nil
}

// call sends one request and reads the whole answer.
func (s *sessionServer) call(t testing.TB, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kindOf(method, path))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s.agents.show(r)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	s.agents.note(path, body, string(text))
	return resp.StatusCode, string(text), resp.Header
}

// open creates a session and returns its path.
func (s *sessionServer) open(t testing.TB, rest string) string {
	t.Helper()
	if !strings.Contains(rest, `"policy"`) {
		rest += `,"policy":"hlas"`
	}
	code, text, header := s.call(t, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+rest+`}`)
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	return header.Get("Location")
}

const run = `{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"bert/1","weight":2,"tasks":2,` +
	`"on":{"V100":{"compute_s":1.2,"sync_s":0.1},"T4":{}}}}
{"seq":2,"at_s":0.5,"type":"job_arrived","job":{"id":"vgg","on":{"V100":{"compute_s":3}}}}
{"seq":3,"at_s":1.3,"type":"task_ended","job":"bert/1","round":0,"task":1,"gpu":"a/0","compute_s":1.2,"sync_s":0.1}
{"seq":4,"at_s":2.5,"type":"task_ended","job":"bert/1","round":0,"task":0,"gpu":"b/0","compute_s":2.4,"sync_s":0.1}
`

const ranTo = `{"seq":1,"decisions":[{"type":"start","job":"bert/1","round":0,"task":0,"gpu":"b/0","at_s":0},` +
	`{"type":"start","job":"bert/1","round":0,"task":1,"gpu":"a/0","at_s":0}]}
{"seq":2,"decisions":[]}
{"seq":3,"decisions":[{"type":"start","job":"vgg","round":0,"task":0,"gpu":"a/0","at_s":1.3}]}
{"seq":4,"decisions":[{"type":"start","job":"bert/1","round":1,"task":0,"gpu":"b/0","at_s":2.5}]}
`

const endOfRun = `{"seq":5,"at_s":2.5,"type":"job_ended","job":"bert/1"}
{"seq":6,"at_s":4.3,"type":"task_ended","job":"vgg","round":0,"task":0,"gpu":"a/0","compute_s":3}
{"seq":7,"at_s":4.3,"type":"job_ended","job":"vgg"}`

// TestSession uses every operation of a session in a run without faults.
func TestSession(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	if code, text, h := s.call(t, "POST", at+"/events", run); code != 200 || text != ranTo ||
		h.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s", code, text)
	}
	for _, c := range []struct {
		name, path string
		want       []string
	}{
		{"list", "/v1/sessions", []string{`"last_seq":4`, `"policy":"hlas"`, `"gpus":2`}},
		{"one", at, []string{`"status":{`, `"running_tasks":2`, `"active":true`}},
		{"job", at + "/jobs/bert%2F1", []string{`"job":"bert/1"`, `"state":"running"`}},
		{"decisions", at + "/decisions?after=2", []string{"{\"seq\":3,", "{\"seq\":4,"}},
		{"regret", at + "/regret", []string{`"counted":0`, `"running":2`, `"bound":null`, `"regret":null`}},
		{"schedule", at + "/schedule",
			[]string{`"verified":false`, `"why":"no job has ended`, `"compute_end_s":1.2,"sync_end_s":1.3`}},
		{"log", at + "/log?after=3", []string{`{"event":{"seq":4,`}},
		{"log after all numbers", at + "/log?after=9223372036854775807", []string{""}},
	} {
		code, text, _ := s.call(t, "GET", c.path, "")
		for _, want := range c.want {
			if code != 200 || !strings.Contains(text, want) {
				t.Errorf("%s: %d, no %s in %s", c.name, code, want, text)
			}
		}
	}
	// The client reconnects and sends again the events whose answers it did not
	// get.
	code, text, _ := s.call(t, "POST", at+"/events", run+endOfRun)
	if code != 200 || !strings.HasPrefix(text, ranTo) || strings.Count(text, "\n") != 7 ||
		strings.Contains(text, "error") {
		t.Fatalf("%d %s", code, text)
	}
	_, decisions, _ := s.call(t, "GET", at+"/decisions", "")
	if decisions != text {
		t.Errorf("recorded\n%s\nanswered\n%s", decisions, text)
	}
	code, text, _ = s.call(t, "GET", at+"/regret?detail=full", "")
	var regret struct {
		Achieved, Bound, Regret float64
		Instance, Certificate   json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &regret); err != nil || code != 200 || regret.Achieved != 8.8 ||
		regret.Regret < 1 || regret.Bound > regret.Achieved {
		t.Errorf("%d %s", code, text)
	}
	inst, err := wire.DecodeInstanceValue([]byte(regret.Instance), "")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := wire.DecodeCertificate(strings.NewReader(string(regret.Certificate)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Bound(inst, cert); err != nil {
		t.Error(err)
	}
	_, text, _ = s.call(t, "GET", at+"/schedule", "")
	var followed struct {
		Verified         bool
		Instance, Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &followed); err != nil || !followed.Verified {
		t.Fatalf("%v %s", err, text)
	}
	if inst, err = wire.DecodeInstanceValue([]byte(followed.Instance), ""); err != nil {
		t.Fatal(err)
	}
	res, err := wire.DecodeResult(strings.NewReader(string(followed.Result)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK || rep.Value.String() != "8.8" {
		t.Error(rep)
	}
	_, text, _ = s.call(t, "GET", at+"/log", "")
	if lines := strings.Split(text, "\n"); len(lines) != 9 {
		t.Errorf("%d lines", len(lines))
	} else if _, err := wire.DecodeLogHeader([]byte(lines[0])); err != nil {
		t.Error(err)
	}
	if code, text, _ := s.call(t, "DELETE", at, ""); code != http.StatusNoContent || text != "" {
		t.Errorf("%d %s", code, text)
	}
	for _, path := range []string{"", "/decisions", "/log", "/regret", "/schedule", "/jobs/x"} {
		if code, text, _ := s.call(t, "GET", at+path, ""); code != 404 || !strings.Contains(text, `"no_session"`) {
			t.Errorf("%s after the end: %d %s", path, code, text)
		}
	}
	_, text, _ = s.call(t, "GET", "/metrics", "")
	for _, want := range []string{"hare_session_events_total 7\n", "hare_session_duplicates_total 4\n",
		"hare_session_decisions_total 7\n",
		"hare_sessions 0\n", "hare_sessions_active 0\n", "hare_session_commit_events_sum 7\n",
		"hare_session_answer_seconds_count 7\n", "hare_session_commit_failures_total 0\n",
		`hare_session_streams{of="events"} 0`, `hare_session_streams{of="decisions"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

func TestBadSessions(t *testing.T) {
	s := newSessionServer(t, sessions.Config{MaxSessions: 1})
	at := s.open(t, "")
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		"no cluster": {"POST", "/v1/sessions", `{}`, nil, 422, "missing_field"},
		"malformed":  {"POST", "/v1/sessions", `{`, nil, 400, "malformed"},
		"media type": {"POST", "/v1/sessions", `{}`, []string{"Content-Type", "text/plain"}, 415,
			"unsupported_media_type"},
		"large": {"POST", "/v1/sessions", strings.Repeat(" ", 2<<20), nil, 413, "body_too_large"},
		"clock": {"POST", "/v1/sessions", `{"cluster":` + twoGPUs + `,"clock":"sun"}`, nil, 422, "unknown_value"},
		"policy": {"POST", "/v1/sessions", `{"cluster":` + twoGPUs + `,"policy":"best"}`, nil, 422,
			"unknown_policy"},
		"parameter": {"POST", "/v1/sessions", `{"cluster":` + twoGPUs + `,"policy":"hlas","parameters":{"queues":99}}`,
			nil, 422,
			"out_of_range"},
		"one too many":     {"POST", "/v1/sessions", `{"cluster":` + twoGPUs + `}`, nil, 429, "limit"},
		"unknown":          {"GET", "/v1/sessions/none", "", nil, 404, "no_session"},
		"unknown events":   {"POST", "/v1/sessions/none/events", run, nil, 404, "no_session"},
		"unknown deletion": {"DELETE", "/v1/sessions/none", "", nil, 404, "no_session"},
		"unknown job":      {"GET", at + "/jobs/none", "", nil, 404, "no_such_job"},
		"after":            {"GET", at + "/decisions?after=x", "", nil, 400, "bad_query"},
		"limit":            {"GET", "/v1/sessions?limit=1001", "", nil, 400, "bad_query"},
		"after in list":    {"GET", "/v1/sessions?after=x", "", nil, 400, "bad_query"},
		"after in log":     {"GET", at + "/log?after=-1", "", nil, 400, "bad_query"},
		"last event": {"GET", at + "/decisions", "", []string{"Accept", "text/event-stream", "Last-Event-ID", "x"},
			400, "bad_query"},
		"accept": {"GET", at + "/decisions", "", []string{"Accept", "image/png"}, 406, "not_acceptable"},
		"form": {"POST", at + "/events", run, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			"unsupported_media_type"},
		"compressed": {"POST", at + "/events", run, []string{"Content-Encoding", "gzip"}, 415, "unsupported_encoding"},
		"method":     {"PUT", at, "", nil, 405, "method_not_allowed"},
	} {
		code, text, header := s.call(t, c.method, c.path, c.body, c.header...)
		var p struct{ Code, Detail string }
		if err := json.Unmarshal([]byte(text), &p); err != nil || code != c.status || p.Code != c.code || p.Detail == "" ||
			header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	_, refused, _ := s.call(t, "POST", "/v1/sessions",
		`{"cluster":`+twoGPUs+`,"policy":"hlas","parameters":{"queues":99}}`)
	if !strings.Contains(refused, `"pointer":"/parameters/queues"`) {
		t.Error(refused)
	}
	h, _ := newServer(t)
	for _, path := range []string{"/v1/sessions", "/v1/sessions/x"} {
		if w := request(t, h, "GET", path, ""); w.Code != 404 || !strings.Contains(w.Body.String(), "no_sessions") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

func TestListInPages(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	var all, got []string
	for range 7 {
		all = append(all, strings.TrimPrefix(s.open(t, ""), "/v1/sessions/"))
	}
	next := ""
	for pages := 1; ; pages++ {
		code, text, _ := s.call(t, "GET", "/v1/sessions?limit=3&after="+next, "")
		var page struct {
			Sessions []struct{ ID string }
			Next     string
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil || code != 200 {
			t.Fatalf("%d %s", code, text)
		}
		for _, x := range page.Sessions {
			got = append(got, x.ID)
		}
		if next = page.Next; next == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
		// The session after which the next page begins may have been deleted by
		// then.
		s.call(t, "DELETE", "/v1/sessions/"+got[len(got)-1], "")
	}
	if !slices.Equal(got, all) {
		t.Errorf("got %v\nof %v", got, all)
	}
}

// TestRefusedEvents checks that each refused line is answered with its number and
// the reason, and that the stream continues.
func TestRefusedEvents(t *testing.T) {
	s := newSessionServer(t, sessions.Config{MaxJobs: 1})
	at := s.open(t, "")
	job := `,"at_s":1,"type":"job_arrived","job":{"id":"%s","on":{"T4":{}}}}`
	body := `{"seq":1,"at_s":1,"type":"tick"}
not JSON

{"seq":3,"at_s":1,"type":"tick"}
{"seq":2,"at_s":0,"type":"tick"}
{"seq":1,"at_s":2,"type":"tick"}
{"seq":2,"at_s":1,"type":"gpu_left","gpu":"x/1"}
` + strings.Repeat("x", 1<<21) + `
{"seq":2` + fmt.Sprintf(job, "j") + `
{"seq":3` + fmt.Sprintf(job, "k") + `
{"seq":3,"at_s":1,"type":"job_ended","job":7,"x":1}
{"seq":3,"at_s":1,"type":"tick"}`
	_, text, _ := s.call(t, "POST", at+"/events", body)
	lines := strings.Split(text, "\n")
	for i, want := range []string{
		`{"seq":1,"decisions":[]}`,
		`{"seq":null,"error":{"status":422,"line":2,"pointer":"","code":"malformed"`,
		`{"seq":3,"error":{"status":409,"line":4,"pointer":"/seq","code":"out_of_sequence"`,
		`{"seq":2,"error":{"status":422,"line":5,"pointer":"/at_s","code":"time_goes_back"`,
		`{"seq":1,"error":{"status":409,"line":6,"pointer":"","code":"conflict"`,
		`{"seq":2,"error":{"status":422,"line":7,"pointer":"/gpu"`,
		`{"seq":null,"error":{"status":413,"line":8,"pointer":"","code":"body_too_large"`,
		`{"seq":2,"decisions":[{"type":"start"`,
		`{"seq":3,"error":{"status":429,"line":10,"pointer":"","code":"limit"`,
		`{"seq":3,"error":{"status":422,"line":11,"pointer":"/job","code":"wrong_type"`,
		`{"seq":3,"decisions":[]}`,
		``,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d: want %s\n%.3000s", i+1, want, text)
		}
	}
	if !strings.Contains(lines[2], `"expected":2`) || !strings.Contains(lines[9], `"errors":[`) {
		t.Error(text)
	}
}
