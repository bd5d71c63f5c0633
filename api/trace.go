package api

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/study"
)

// scope names who makes the spans.
const scope = "github.com/hare-sched/hare"

// traced puts each request into a span that continues the client's trace
// (traceparent). Without tracing it is not there. Probes and scrapes have none.
func (s *server) traced(next http.Handler) http.Handler {
	if s.cfg.Tracing == nil {
		return next
	}
	return otelhttp.NewHandler(next, "request",
		otelhttp.WithTracerProvider(s.cfg.Tracing.provider), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics"
		}))
}

// step begins a span below that of ctx; end ends it. Without tracing it costs
// nothing.
func (s *server) step(ctx context.Context, name string) (_ context.Context, end func(error)) {
	if s.cfg.Tracing == nil {
		return ctx, func(error) {}
	}
	ctx, span := s.cfg.Tracing.tracer.Start(ctx, name)
	return ctx, func(err error) {
		fail(span, err)
		span.End()
	}
}

// fail marks a span. What the error says may have words of the client in it, so
// the span gets its kind alone.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, errorKind(err))
	}
}

// errorKind sorts errors for metrics and traces.
func errorKind(err error) string {
	var faults hare.InvalidErrors
	var fault *hare.InvalidError
	var status *statusError
	var run *study.RunError
	switch {
	case errors.As(err, &run):
		return run.Code
	case errors.Is(err, admission.ErrBusy):
		return "busy"
	case errors.Is(err, admission.ErrLate):
		return "late"
	case errors.Is(err, admission.ErrDraining):
		return "draining"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(err, store.ErrStorage):
		return "storage"
	case errors.Is(err, service.ErrInfeasible):
		return "infeasible"
	case errors.As(err, &faults), errors.As(err, &fault):
		return "invalid"
	case errors.As(err, &status):
		return status.code
	}
	return "internal"
}

// named gives the span of a request its route, which is known when it ends.
func named(ctx context.Context, method, route, requestID, tenant string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetName(method + " " + route)
	span.SetAttributes(attribute.String("http.route", route), attribute.String("hare.request_id", requestID))
	if tenant != "" {
		span.SetAttributes(attribute.String("hare.tenant", tenant))
	}
}

// traceID is that of a trace that is kept, or "".
func traceID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		return span.TraceID().String()
	}
	return ""
}
