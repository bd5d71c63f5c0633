package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-sched/hare"
)

// TracingConfig configures where spans are sent. The sampler, the queue and everything
// else come from the standard OTEL_ environment variables.
type TracingConfig struct {
	// Endpoint is the URL of an OTLP/HTTP collector, to which /v1/traces is added. ""
	// means the endpoint of the environment, and no tracing where the environment has
	// none.
	Endpoint string
	Version  string
	// Logger logs failing exports, at most once a minute; nil means no log.
	Logger *slog.Logger
}

// Tracing sends spans to a collector from a queue of bounded length. While the
// collector is slow or unreachable, spans are dropped; requests never wait for the
// collector.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	counts   *spanCounts
	abort    context.CancelFunc // cancels exports that hang
}

// OpenTracing starts the export of spans; it returns nil where no endpoint is
// configured. Faults of the configuration are *hare.InvalidError with the flag or the
// variable as pointer.
func OpenTracing(ctx context.Context, cfg TracingConfig) (*Tracing, error) {
	var opts []otlptracehttp.Option
	switch {
	case os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return nil, nil
	case cfg.Endpoint != "":
		u, err := url.Parse(cfg.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, &hare.InvalidError{Pointer: "--otlp-endpoint", Code: "invalid_option",
				Detail: "give the URL of an OTLP/HTTP collector, as in http://127.0.0.1:4318"}
		}
		if !strings.HasSuffix(u.Path, "/v1/traces") {
			u = u.JoinPath("/v1/traces")
		}
		opts = append(opts, otlptracehttp.WithEndpointURL(u.String()))
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return nil, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, &hare.InvalidError{Pointer: name, Code: "not_supported",
				Detail: fmt.Sprintf("%q is not supported: traces go by http/protobuf, to port 4318 of most collectors", p)}
		}
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	// The environment's attributes of the resource come last and override the others. A
	// detector that fails is left out.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "hare"), attribute.String("service.version", cfg.Version)),
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	life, abort := context.WithCancel(context.Background())
	counts := &spanCounts{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSpanProcessor(counts),
		sdktrace.WithBatcher(&countingExporter{SpanExporter: exporter, counts: counts, log: cfg.Logger, life: life}))
	return &Tracing{provider: provider, tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version)),
		counts: counts, abort: abort}, nil
}

// Close sends the queued spans and gives up when ctx ends. A nil Tracing may be closed.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer context.AfterFunc(ctx, t.abort)()
	defer t.abort()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

func (m *metrics) registerTracing(t *Tracing) {
	counts := &spanCounts{}
	if t != nil {
		counts = t.counts
	}
	for _, c := range []struct {
		name, help string
		of         *atomic.Int64
	}{
		{"hare_trace_spans_total", "Trace spans that ended and were to be exported.", &counts.ended},
		{"hare_trace_spans_exported_total", "Spans that a collector accepted.", &counts.exported},
		{"hare_trace_spans_failed_total", "Spans that no collector accepted; other spans were dropped, or still wait.",
			&counts.failed},
	} {
		m.registry.MustRegister(counterFunc(c.name, c.help, func() float64 { return float64(c.of.Load()) }))
	}
}

// spanCounts is a span processor that counts spans.
type spanCounts struct{ ended, exported, failed atomic.Int64 }

var _ sdktrace.SpanProcessor = (*spanCounts)(nil)

func (sc *spanCounts) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (sc *spanCounts) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		sc.ended.Add(1)
	}
}

func (*spanCounts) Shutdown(context.Context) error { return nil }

func (*spanCounts) ForceFlush(context.Context) error { return nil }

// countingExporter counts exported and failed spans, logs failures, and lets Close
// cancel an export that hangs.
type countingExporter struct {
	sdktrace.SpanExporter
	counts *spanCounts
	log    *slog.Logger
	life   context.Context // cancelled when exports must end

	mu     sync.Mutex
	logged time.Time
}

func (ce *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ce.life, cancel)()
	err := ce.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		ce.counts.exported.Add(int64(len(spans)))
		return nil
	}
	ce.counts.failed.Add(int64(len(spans)))
	ce.mu.Lock()
	defer ce.mu.Unlock()
	if now := time.Now(); now.Sub(ce.logged) > time.Minute {
		ce.logged = now
		ce.log.Warn("traces are lost: see that the OTLP collector answers", "error", err)
	}
	return nil // the failure is counted and logged
}

// scope is the instrumentation scope of the spans.
const scope = "github.com/hare-sched/hare"
