package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"go.uber.org/goleak"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/openapi"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/solver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T) (http.Handler, *service.Service) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}, Running: 2, Queue: 1})
	return api.New(svc, api.Config{MaxBodyBytes: 1 << 20}), svc
}

func request(t *testing.T, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/examples/three-jobs.instance.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSolveThenVerify(t *testing.T) {
	h, _ := newServer(t)
	w := request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":{"work_limit":2000}}`)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	result := w.Body.String()
	res, err := hare.DecodeResult(strings.NewReader(result), hare.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Value == nil || res.Bound == nil || res.Value.Cmp(*res.Bound) < 0 {
		t.Errorf("value %v, bound %v", res.Value, res.Bound)
	}
	w = request(t, h, "POST", "/v1/verify", `{"instance":`+example(t)+`,"result":`+result+`}`)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ok":true`) {
		t.Errorf("verify: %d %s", w.Code, w.Body)
	}
	w = request(t, h, "POST", "/v1/bounds", `{"instance":`+example(t)+`,"method":"machine"}`)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"certified":true`) {
		t.Errorf("bounds: %d %s", w.Code, w.Body)
	}
	w = request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":{"work_limit":2000}}`, "Accept", "application/x-ndjson")
	if lines := strings.Count(w.Body.String(), "\n"); w.Code != http.StatusOK || lines < 3 {
		t.Errorf("NDJSON: %d, %d lines", w.Code, lines)
	}
}

func TestInfeasibleIsAnAnswer(t *testing.T) {
	h, _ := newServer(t)
	w := request(t, h, "POST", "/v1/solves", `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},"jobs":[{"id":"x","tasks":4,"sync":"gang","on":{"V100":{"compute_s":1}}}]}}`)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"termination":"infeasible"`) || !strings.Contains(w.Body.String(), `"too_wide"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBadRequests(t *testing.T) {
	h, _ := newServer(t)
	in := func(rest string) string { return `{"instance":` + example(t) + rest + `}` }
	bomb := func() string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.Copy(z, io.LimitReader(zeros{}, 50<<20))
		_ = z.Close()
		return b.String()
	}()
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		"empty":            {"POST", "/v1/solves", "", nil, 400, "malformed"},
		"truncated":        {"POST", "/v1/solves", `{"instance":{"hare":`, nil, 400, "malformed"},
		"brackets":         {"POST", "/v1/solves", strings.Repeat("[", 1<<19), nil, 400, "malformed"},
		"nan":              {"POST", "/v1/solves", in(`,"options":{"gap":NaN}`), nil, 400, "malformed"},
		"duplicate":        {"POST", "/v1/solves", in(`,"instance":{}`), nil, 400, "duplicate_name"},
		"no instance":      {"POST", "/v1/solves", `{}`, nil, 422, "missing_field"},
		"unknown field":    {"POST", "/v1/solves", in(`,"option":{}`), nil, 422, "unknown_field"},
		"unknown option":   {"POST", "/v1/solves", in(`,"options":{"time_limit":3}`), nil, 422, "unknown_field"},
		"huge number":      {"POST", "/v1/solves", in(`,"options":{"time_limit_s":1e309}`), nil, 422, "too_large"},
		"unknown method":   {"POST", "/v1/solves", in(`,"options":{"bound":"magic"}`), nil, 422, "invalid_option"},
		"bound method":     {"POST", "/v1/bounds", in(`,"method":"magic"`), nil, 422, "unknown_value"},
		"no result":        {"POST", "/v1/verify", in(``), nil, 422, "missing_field"},
		"path":             {"GET", "/v2/solves", "", nil, 404, "not_found"},
		"method":           {"GET", "/v1/solves", "", nil, 405, "method_not_allowed"},
		"accept":           {"POST", "/v1/solves", in(``), []string{"Accept", "image/png"}, 406, "not_acceptable"},
		"large":            {"POST", "/v1/solves", strings.Repeat(" ", 2<<20), nil, 413, "body_too_large"},
		"bomb":             {"POST", "/v1/solves", bomb, []string{"Content-Encoding", "gzip"}, 413, "body_too_large"},
		"not gzip":         {"POST", "/v1/solves", in(``), []string{"Content-Encoding", "gzip"}, 400, "bad_encoding"},
		"unknown encoding": {"POST", "/v1/solves", in(``), []string{"Content-Encoding", "br"}, 415, "unsupported_encoding"},
		"media type":       {"POST", "/v1/solves", in(``), []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type"},
	} {
		t.Run(name, func(t *testing.T) {
			w := request(t, h, c.method, c.path, c.body, c.header...)
			var p struct {
				Status    int
				Code      string
				RequestID string `json:"request_id"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if w.Code != c.status || p.Status != c.status || p.Code != c.code || p.RequestID == "" {
				t.Errorf("got %d %q, want %d %q", w.Code, p.Code, c.status, c.code)
			}
			if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("Content-Type %q", ct)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestDrainingRefuses(t *testing.T) {
	h, svc := newServer(t)
	if w := request(t, h, "GET", "/readyz", ""); w.Code != http.StatusOK {
		t.Errorf("ready: %d", w.Code)
	}
	svc.Drain(t.Context())
	if w := request(t, h, "GET", "/readyz", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("draining: %d", w.Code)
	}
	w := request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`}`)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("solve while draining: %d", w.Code)
	}
}

func TestCompressedBothWays(t *testing.T) {
	h, _ := newServer(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(`{"instance":` + example(t) + `,"options":{"work_limit":500}}`))
	_ = z.Close()
	w := request(t, h, "POST", "/v1/solves", b.String(), "Content-Encoding", "gzip", "Accept-Encoding", "gzip")
	if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	u, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hare.DecodeResult(u, hare.Limits{}); err != nil {
		t.Error(err)
	}
}

func TestSpecificationHasEveryRoute(t *testing.T) {
	h, _ := newServer(t)
	var spec struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(openapi.JSON, &spec); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := chi.Walk(h.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		n++
		if spec.Paths[route][strings.ToLower(method)] == nil {
			t.Errorf("%s %s is not in the specification", method, route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	documented := 0
	for _, verbs := range spec.Paths {
		documented += len(verbs)
	}
	if documented != n {
		t.Errorf("%d routes, %d documented", n, documented)
	}
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs", "/healthz", "/metrics", "/v1/version"} {
		if w := request(t, h, "GET", path, ""); w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
	}
}
