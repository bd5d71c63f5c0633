package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
)

// collector is an OTLP/HTTP collector that stores the spans that it receives.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
	about map[string]string // attributes of the resource
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{about: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		text, err := io.ReadAll(body)
		var req collect.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(text, &req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, kv := range rs.Resource.Attributes {
				c.about[kv.Key] = kv.Value.GetStringValue()
			}
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// take returns the spans so far, sorted by start.
func (c *collector) take() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := c.spans
	c.spans = nil
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int {
		return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano))
	})
	return spans
}

// tree prints the spans below a parent, one on each line.
func tree(spans []*tracepb.Span, parent []byte, indent string, times bool) string {
	var b strings.Builder
	for _, s := range spans {
		if !bytes.Equal(s.ParentSpanId, parent) {
			continue
		}
		fmt.Fprintf(&b, "%s%s", indent, s.Name)
		if times {
			fmt.Fprintf(&b, "  %.3f ms", float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6)
			for _, kv := range s.Attributes {
				if strings.HasPrefix(kv.Key, "hare.") || kv.Key == "http.response.status_code" {
					fmt.Fprintf(&b, " %s=%s", kv.Key, valueOf(s, kv.Key))
				}
			}
		}
		b.WriteString("\n" + tree(spans, s.SpanId, indent+"  ", times))
	}
	return b.String()
}

// valueOf returns an attribute as text, or "" where the span does not have it.
func valueOf(s *tracepb.Span, key string) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			_, text, _ := strings.Cut(kv.Value.String(), ":")
			return strings.Trim(text, `" `)
		}
	}
	return ""
}

func find(t *testing.T, spans []*tracepb.Span, name string) *tracepb.Span {
	t.Helper()
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %q", name)
	}
	return spans[i]
}

func openTracing(t testing.TB, url string, log *slog.Logger) *api.Tracing {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		t.Setenv(name, "")
	}
	tracing, err := api.OpenTracing(t.Context(), api.TracingConfig{Endpoint: url, Version: "test", Logger: log})
	if err != nil || tracing == nil {
		t.Fatal(tracing, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = tracing.Close(ctx) // the collector may be gone
	})
	return tracing
}

// TestTraceOfASolve compares a trace with the tree of spans that a solve has.
func TestTraceOfASolve(t *testing.T) {
	c := newCollector(t)
	tracing := openTracing(t, c.URL, nil)
	var text bytes.Buffer
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}, Running: 2})
	h := servetest.New(t, svc, api.Config{Tracing: tracing, Logger: slog.New(slog.NewJSONHandler(&text, nil))})
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	w := request(t, h, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":{"work_limit":20000}}`,
		"traceparent", "00-"+trace+"-"+parent+"-01", "X-Request-Id", "docs-2")
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	request(t, h, "GET", "/healthz", "") // a health check has no span
	if err := tracing.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.take()
	from, _ := hex.DecodeString(parent)
	for _, s := range spans {
		if hex.EncodeToString(s.TraceId) != trace {
			t.Errorf("%s is of trace %x", s.Name, s.TraceId)
		}
		for _, kv := range s.Attributes {
			if strings.Contains(kv.Value.String(), "bert") {
				t.Errorf("%s says what was in the body: %s", s.Name, kv.Key)
			}
		}
	}
	got := tree(spans, from, "", false)
	if want := `POST /v1/solves
  decode
  queue
  solve
    assign
    bound
    assign
    bound
    plan
    assign
    bound
    plan
    assign
    improve
    bound
    plan
    assign
    improve
    bound
    verify
  encode
`; got != want {
		t.Errorf("the spans are\n%s", got)
	}
	if n := strings.Count(got, "\n"); n != len(spans) {
		t.Errorf("%d of %d spans hang together", n, len(spans))
	}
	solve := find(t, spans, "solve")
	for _, s := range spans {
		if bytes.Equal(s.ParentSpanId, solve.SpanId) && (s.StartTimeUnixNano < solve.StartTimeUnixNano ||
			s.EndTimeUnixNano > solve.EndTimeUnixNano) {
			t.Errorf("%s reaches beyond its solve", s.Name)
		}
	}
	var res struct {
		Value, Bound, Gap json.Number
		Termination       string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	id := w.Header().Get("Hare-Solve-Id")
	for key, want := range map[string]string{"hare.jobs": "3", "hare.gpus": "6", "hare.termination": res.Termination,
		"hare.solve_id": id, "hare.value": res.Value.String(), "hare.bound": res.Bound.String()} {
		if got := valueOf(solve, key); got != want {
			t.Errorf("solve: %s is %q, not %q", key, got, want)
		}
	}
	if valueOf(solve, "hare.gap") == "" || valueOf(find(t, spans, "verify"), "hare.value") != res.Value.String() {
		t.Error("the gap or the last value is missing")
	}
	root := find(t, spans, "POST /v1/solves")
	if root.Kind != tracepb.Span_SPAN_KIND_SERVER || valueOf(root, "http.route") != "/v1/solves" ||
		valueOf(root, "http.response.status_code") != "200" || valueOf(root, "hare.request_id") != "docs-2" {
		t.Errorf("the request: %v", root)
	}
	if c.about["service.name"] != "hare" || c.about["service.version"] != "test" {
		t.Errorf("the resource: %v", c.about)
	}
	t.Logf("\n%s", tree(spans, from, "", true))

	// The log has the trace id beside the request id, and nothing of the body.
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), text.String())
	}
	for i, msg := range []string{"solve begins", "solve ends", "request"} {
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] != msg || line["trace_id"] != trace || line["request_id"] != "docs-2" ||
			strings.Contains(lines[i], "bert") {
			t.Errorf("line %d: %s", i, lines[i])
		}
		if msg == "solve ends" && (line["gap"] == nil || line["improve_s"] == nil || line["solve"] != id) {
			t.Errorf("%s", lines[i])
		}
	}
	t.Logf("\n%s", text.String())
}

// TestTraceOfRefusals checks that a failed request is marked with the kind of its
// error, and nothing else.
func TestTraceOfRefusals(t *testing.T) {
	c := newCollector(t)
	tracing := openTracing(t, c.URL, nil)
	h := servetest.New(t, service.New(service.Config{Running: 1}), api.Config{Tracing: tracing})
	request(t, h, "POST", "/v1/solves", `{"instance":{"secret":1}}`)
	request(t, h, "GET", "/nowhere", "")
	if err := tracing.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.take()
	decode := find(t, spans, "decode")
	if decode.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || decode.Status.GetMessage() != "invalid" {
		t.Errorf("decode: %v", decode.Status)
	}
	if s := find(t, spans, "GET none"); valueOf(s, "http.response.status_code") != "404" {
		t.Errorf("%v", s)
	}
	for _, s := range spans {
		if strings.Contains(s.String(), "secret") {
			t.Errorf("%s says what was in the body", s.Name)
		}
	}
}

// TestCollectorsThatFail checks that a collector which refuses, hangs or does not
// exist delays no request, and delays the shutdown only up to its limit.
func TestCollectorsThatFail(t *testing.T) {
	free := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}))
	defer hanging.Close()
	defer close(free)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer refusing.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	text := `{"instance":` + example(t) + `,"options":` + quick + `}`
	for name, url := range map[string]string{"hangs": hanging.URL, "refuses": refusing.URL, "is gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			// The queue is small, so that it is full soon.
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			tracing := openTracing(t, url, nil)
			svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
			h := servetest.New(t, svc, api.Config{Tracing: tracing})
			began := time.Now()
			for range 50 {
				if w := request(t, h, "POST", "/v1/solves", text); w.Code != http.StatusOK {
					t.Fatal(w.Code, w.Body)
				}
			}
			// An export may take 10 s; the time would show requests that waited for
			// exports.
			if took := time.Since(began); took > patience {
				t.Errorf("50 solves took %v", took)
			}
			if m := request(t, h, "GET", "/metrics", "").Body.String(); !strings.Contains(m,
				"hare_trace_spans_exported_total 0\n") || strings.Contains(m, "hare_trace_spans_total 0\n") {
				t.Error("the metrics do not say that spans are lost")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began = time.Now()
			_ = tracing.Close(ctx)
			if took := time.Since(began); took > 9*time.Second {
				t.Errorf("the end took %v", took)
			}
		})
	}
}

// TestTracesAreFlushedAtTheEnd checks that the spans in the queue are sent at the
// end.
func TestTracesAreFlushedAtTheEnd(t *testing.T) {
	c := newCollector(t)
	tracing := openTracing(t, c.URL, nil)
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
	h := servetest.New(t, svc, api.Config{Tracing: tracing})
	request(t, h, "GET", "/v1/version", "")
	if err := tracing.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	find(t, c.take(), "GET /v1/version")
}

func TestTracingConfig(t *testing.T) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		t.Setenv(name, "")
	}
	open := func(t *testing.T, endpoint string) (*api.Tracing, error) {
		tracing, err := api.OpenTracing(t.Context(), api.TracingConfig{Endpoint: endpoint})
		if tracing != nil {
			t.Cleanup(func() { _ = tracing.Close(context.Background()) })
		}
		return tracing, err
	}
	t.Run("off by default", func(t *testing.T) {
		if tracing, err := open(t, ""); tracing != nil || err != nil {
			t.Error(tracing, err)
		}
	})
	t.Run("by the environment", func(t *testing.T) {
		c := newCollector(t)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
		t.Setenv("OTEL_SERVICE_NAME", "ours")
		tracing, err := open(t, "")
		if tracing == nil || err != nil {
			t.Fatal(tracing, err)
		}
		h := servetest.New(t, service.New(service.Config{}), api.Config{Tracing: tracing})
		request(t, h, "GET", "/v1/version", "")
		if err := tracing.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		find(t, c.take(), "GET /v1/version")
		if c.about["service.name"] != "ours" {
			t.Errorf("%v", c.about)
		}
		t.Setenv("OTEL_SDK_DISABLED", "true")
		if tracing, err := open(t, ""); tracing != nil || err != nil {
			t.Error(tracing, err)
		}
	})
	for _, endpoint := range []string{"127.0.0.1:4318", "ftp://x", "http://", "http://x?key=1", "%"} {
		var invalid *hare.InvalidError
		if _, err := open(t, endpoint); !errors.As(err, &invalid) || invalid.Pointer != "--otlp-endpoint" {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, err := open(t, "http://127.0.0.1:4318"); err == nil || !strings.Contains(err.Error(), "http/protobuf") {
		t.Error(err)
	}
}

// BenchmarkObserved measures what observation costs a request and a solve of three
// jobs that does no search: metrics and a discarded log in all cases, and traces in
// some.
func BenchmarkObserved(b *testing.B) {
	c := newCollector(b)
	text := `{"instance":` + example(b) + `,"options":` + strings.TrimSuffix(quick, "}") + `,"seed":`
	for _, traced := range []bool{false, true} {
		var tracing *api.Tracing
		if traced {
			tracing = openTracing(b, c.URL, nil)
		}
		svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
		h := servetest.New(b, svc, api.Config{Tracing: tracing})
		for _, r := range []struct{ name, method, path, body string }{{"version", "GET", "/v1/version", ""},
			{"solve", "POST", "/v1/solves", text}} {
			b.Run(fmt.Sprintf("%s/traced=%v", r.name, traced), func(b *testing.B) {
				b.ReportAllocs()
				for seed := 0; b.Loop(); seed++ { // an equal solve would be answered from the cache
					body := r.body
					if body != "" {
						body += strconv.Itoa(seed) + "}}"
					}
					w := httptest.NewRecorder()
					q := httptest.NewRequest(r.method, "http://localhost"+r.path, strings.NewReader(body))
					q.Header.Set("Content-Type", "application/json")
					h.ServeHTTP(w, q)
					if w.Code != http.StatusOK {
						b.Fatal(w.Code, w.Body)
					}
				}
			})
		}
	}
}
