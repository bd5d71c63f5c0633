package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T) (http.Handler, *service.Service) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}, Running: 2, Queue: 1})
	return servetest.New(t, svc, api.Config{MaxBodyBytes: 1 << 20}), svc
}

func request(t *testing.T, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", kindOf(method, path))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// kindOf returns the media type of the body that a path takes.
func kindOf(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case method == "POST" && strings.HasSuffix(path, "/events"):
		return "application/x-ndjson"
	case method == "POST" && (strings.HasSuffix(path, "/logs") || strings.HasSuffix(path, "/checkpoints")):
		return "application/octet-stream"
	}
	return "application/json"
}

func example(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/examples/three-jobs.instance.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quick holds the options of a solve that does no search.
const quick = `{"bound":"machine","order":"wspt","assign":"earliest_finish"}`

func TestSolveThenVerify(t *testing.T) {
	h, _ := newServer(t)
	w := request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":{"work_limit":2000}}`)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	result := w.Body.String()
	res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{})
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
	w = request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":{"work_limit":2000}}`, "Accept",
		"application/x-ndjson")
	if lines := strings.Count(w.Body.String(), "\n"); w.Code != http.StatusOK || lines < 3 {
		t.Errorf("NDJSON: %d, %d lines", w.Code, lines)
	}
}

// Bounds of instances with durations are for the times as they are written, or for the mean.
func TestBoundsOfUncertainJobs(t *testing.T) {
	h, _ := newServer(t)
	const body = `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},"jobs":[` +
		`{"id":"x","sync":"rigid","on":{"V100":{"compute_s":2}},"durations":[{"p":0.5,"factor":1},{"p":0.5,"factor":3}]}]}`
	for more, want := range map[string]string{
		``:                                    `{"method":"price","bound":2,"certified":true,"estimated":true,`,
		`,"expected":true`:                    `{"method":"price","bound":4,"certified":false,"expected":true}`,
		`,"expected":true,"method":"machine"`: `"pointer":"/method"`,
	} {
		if w := request(t, h, "POST", "/v1/bounds", body+more+"}"); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", more, w.Code, w.Body, want)
		}
	}
}

func TestInfeasibleIsAnAnswer(t *testing.T) {
	h, _ := newServer(t)
	w := request(t, h, "POST", "/v1/solves", `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",`+
		`"gpus":{"V100":2}}]},"jobs":[{"id":"x","tasks":4,"sync":"gang","on":{"V100":{"compute_s":1}}}]}}`)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"termination":"infeasible"`) ||
		!strings.Contains(w.Body.String(), `"too_wide"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBadRequests(t *testing.T) {
	h, _ := newServer(t)
	in := func(rest string) string { return `{"instance":` + example(t) + rest + `}` }
	bomb := gzipped(strings.Repeat(" ", 8<<20))
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		"empty":          {"POST", "/v1/solves", "", nil, 400, "malformed"},
		"blank":          {"POST", "/v1/solves", " \n", nil, 400, "malformed"},
		"two documents":  {"POST", "/v1/solves", in(``) + "{}", nil, 400, "malformed"},
		"not an object":  {"POST", "/v1/solves", "[]", nil, 422, "wrong_type"},
		"truncated":      {"POST", "/v1/solves", `{"instance":{"hare":`, nil, 400, "malformed"},
		"brackets":       {"POST", "/v1/solves", strings.Repeat("[", 1<<19), nil, 400, "malformed"},
		"nan":            {"POST", "/v1/solves", in(`,"options":{"gap":NaN}`), nil, 400, "malformed"},
		"duplicate":      {"POST", "/v1/solves", in(`,"instance":{}`), nil, 400, "duplicate_name"},
		"no instance":    {"POST", "/v1/solves", `{}`, nil, 422, "missing_field"},
		"unknown field":  {"POST", "/v1/solves", in(`,"option":{}`), nil, 422, "unknown_field"},
		"unknown option": {"POST", "/v1/solves", in(`,"options":{"time_limit":3}`), nil, 422, "unknown_field"},
		"huge number":    {"POST", "/v1/solves", in(`,"options":{"time_limit_s":1e309}`), nil, 422, "too_large"},
		"1e309 in job": {"POST", "/v1/solves", `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",` +
			`"gpus":{"V100":1}}]},"jobs":[{"id":"x","on":{"V100":{"compute_s":1e309}}}]}}`, nil, 422, "too_large"},
		"durations": {"POST", "/v1/solves", `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",` +
			`"gpus":{"V100":1}}]},"jobs":[{"id":"x","durations":3,"on":{"V100":{"compute_s":1}}}]}}`, nil, 422,
			"wrong_type"},
		"time limit":       {"POST", "/v1/solves", in(`,"options":{"time_limit_s":86401}`), nil, 422, "out_of_range"},
		"gap":              {"POST", "/v1/solves", in(`,"options":{"gap":-0.1}`), nil, 422, "out_of_range"},
		"unknown method":   {"POST", "/v1/solves", in(`,"options":{"bound":"magic"}`), nil, 422, "invalid_option"},
		"bound method":     {"POST", "/v1/bounds", in(`,"method":"magic"`), nil, 422, "unknown_value"},
		"method at solve":  {"POST", "/v1/solves", in(`,"method":"price"`), nil, 422, "unknown_field"},
		"empty method":     {"POST", "/v1/solves", in(`,"method":""`), nil, 422, "unknown_value"},
		"what method":      {"POST", "/v1/bounds", in(`,"method":""`), nil, 422, "unknown_value"},
		"empty bound":      {"POST", "/v1/solves", in(`,"options":{"bound":""}`), nil, 422, "unknown_value"},
		"empty detail":     {"POST", "/v1/solves", in(`,"options":{"detail":""}`), nil, 422, "unknown_value"},
		"options at bound": {"POST", "/v1/bounds", in(`,"options":{"gap":0.5}`), nil, 422, "unknown_field"},
		"no options there": {"POST", "/v1/bounds", in(`,"options":{}`), nil, 422, "unknown_field"},
		"options at check": {"POST", "/v1/verify", in(`,"options":{}`), nil, 422, "unknown_field"},
		"moment of verify": {"POST", "/v1/verify", in(`,"at_s":0`), nil, 422, "unknown_field"},
		"no engine":        {"POST", "/v1/bounds", in(`,"method":"queyranne"`), nil, 422, "no_lp_engine"},
		"infeasible bound": {"POST", "/v1/bounds", `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",` +
			`"gpus":{"V100":2}}]},"jobs":[{"id":"x","on":{"K80":{"compute_s":1}}}]}}`, nil, 422, "infeasible"},
		"no result": {"POST", "/v1/verify", in(``), nil, 422, "missing_field"},
		"path":      {"GET", "/v2/solves", "", nil, 404, "not_found"},
		"method":    {"GET", "/v1/bounds", "", nil, 405, "method_not_allowed"},
		"accept":    {"POST", "/v1/solves", in(``), []string{"Accept", "image/png"}, 406, "not_acceptable"},
		"accept of bounds": {"POST", "/v1/bounds", in(``), []string{"Accept", "application/x-ndjson"}, 406,
			"not_acceptable"},
		"refused by q": {"POST", "/v1/solves", in(``), []string{"Accept", "application/json;q=0"}, 406,
			"not_acceptable"},
		"large":    {"POST", "/v1/solves", strings.Repeat(" ", 2<<20), nil, 413, "body_too_large"},
		"bomb":     {"POST", "/v1/solves", bomb, []string{"Content-Encoding", "gzip"}, 413, "body_too_large"},
		"not gzip": {"POST", "/v1/solves", in(``), []string{"Content-Encoding", "gzip"}, 400, "bad_encoding"},
		"cut gzip": {"POST", "/v1/solves", gzipped(in(``))[:200], []string{"Content-Encoding", "gzip"}, 400,
			"bad_encoding"},
		"not zstd":         {"POST", "/v1/solves", in(``), []string{"Content-Encoding", "zstd"}, 400, "bad_encoding"},
		"zstd bomb":        {"POST", "/v1/solves", zstdBomb(), []string{"Content-Encoding", "zstd"}, 413, "body_too_large"},
		"unknown encoding": {"POST", "/v1/solves", in(``), []string{"Content-Encoding", "br"}, 415, "unsupported_encoding"},
		"media type": {"POST", "/v1/solves", in(``), []string{"Content-Type", "text/plain"}, 415,
			"unsupported_media_type"},
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

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

func zstdBomb() string {
	z, _ := zstd.NewWriter(nil)
	defer func() { _ = z.Close() }()
	return string(z.EncodeAll(make([]byte, 8<<20), nil))
}

// TestPointers checks that one answer reports all faults, with pointers into the
// request document.
func TestPointers(t *testing.T) {
	h, _ := newServer(t)
	w := request(t, h, "POST", "/v1/solves",
		`{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},"jobs":[
		{"id":"ok","on":{"V100":{"compute_s":1}}},{"id":"x","weight":-3,"on":{"V100":{"compute_s":1}}}]},`+
			`"options":{"gap":7,"seeds":1}}`, "X-Request-Id", "mine")
	var p struct {
		RequestID string `json:"request_id"`
		Errors    []struct{ Pointer, Code, Detail string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range p.Errors {
		got = append(got, e.Pointer)
	}
	if want := "[/instance/jobs/1/weight /options/gap /options/seeds]"; fmt.Sprint(got) != want {
		t.Errorf("pointers %v, want %v", got, want)
	}
	if p.RequestID != "mine" || w.Header().Get("X-Request-Id") != "mine" {
		t.Errorf("the client's request id is lost: %q", p.RequestID)
	}
}

// TestBrackets checks that ten megabytes of brackets take little time and memory.
func TestBrackets(t *testing.T) {
	h := servetest.New(t, service.New(service.Config{}), api.Config{})
	began := time.Now()
	w := request(t, h, "POST", "/v1/solves", strings.Repeat("[", 10<<20))
	if w.Code != http.StatusBadRequest || time.Since(began) > 5*time.Second || w.Body.Len() > 2000 {
		t.Errorf("%d after %v: %.200s", w.Code, time.Since(began), w.Body)
	}
}

func TestMethodsOfAPath(t *testing.T) {
	h, _ := newServer(t)
	if w := request(t, h, "DELETE", "/v1/solves", ""); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("%d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	if w := request(t, h, "POST", "/healthz", ""); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	if w := request(t, h, "HEAD", "/healthz", ""); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestAccept(t *testing.T) {
	h, _ := newServer(t)
	for accept, want := range map[string]string{
		"":                                      "application/json",
		"*/*":                                   "application/json",
		"application/*":                         "application/json",
		"application/json":                      "application/json",
		"text/html, application/x-ndjson;q=0.5": "application/x-ndjson",
		"application/json;q=0.4, application/x-ndjson": "application/x-ndjson",
		"application/x-ndjson;q=0.1,application/json":  "application/json",
		"application/json;q=0, application/x-ndjson":   "application/x-ndjson",
		"image/png": "application/problem+json",
		"nonsense":  "application/problem+json",
	} {
		header := []string{"Accept", accept}
		if accept == "" {
			header = nil
		}
		w := request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":`+quick+`}`, header...)
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("Accept %q: %q, want %q", accept, got, want)
		}
	}
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
	body := `{"instance":` + example(t) + `,"options":` + quick + `}`
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	for _, c := range []struct{ body, in, accept, out string }{
		{gzipped(body), "gzip", "gzip", "gzip"},
		{string(z.EncodeAll([]byte(body), nil)), "zstd", "gzip, zstd", "zstd"},
		{body, "", "zstd;q=0.1, gzip;q=0.8", "gzip"},
		{body, "identity", "zstd;q=0, *", "gzip"},
		{body, "", "br", ""},
		{body, "", "gzip;q=0", ""},
	} {
		w := request(t, h, "POST", "/v1/solves", c.body, "Content-Encoding", c.in, "Accept-Encoding", c.accept)
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != c.out ||
			w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v", c.accept, w.Code, w.Header())
			continue
		}
		var plain io.Reader = w.Body
		switch c.out {
		case "gzip":
			plain, err = gzip.NewReader(w.Body)
		case "zstd":
			var d *zstd.Decoder
			d, err = zstd.NewReader(w.Body)
			defer d.Close()
			plain = d
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.DecodeResult(plain, wire.Limits{}); err != nil {
			t.Errorf("%s: %v", c.accept, err)
		}
	}
	if w := request(t, h, "GET", "/v1/version", "", "Accept-Encoding",
		"gzip"); w.Header().Get("Content-Encoding") != "" || w.Body.Len() == 0 {
		t.Error("a short answer was compressed, or lost")
	}
}
