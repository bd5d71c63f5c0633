package api

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traced records each request as a span that continues the client's trace (header
// traceparent). Without tracing it adds nothing. Probes and scrapes have no spans.
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

// step begins a child span of the span in ctx; end ends the child. Without tracing both
// do nothing.
func (s *server) step(ctx context.Context, name string) (_ context.Context, end func(error)) {
	if s.cfg.Tracing == nil {
		return ctx, func(error) {}
	}
	ctx, span := s.cfg.Tracing.tracer.Start(ctx, name)
	return ctx, func(err error) {
		failSpan(span, err)
		span.End()
	}
}

// failSpan marks a span as failed. The span gets only the kind of the error, because
// the text of the error may quote the client's data.
func failSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, errorKind(err))
	}
}

// nameSpan gives the span of a request its route, which is known once the request has
// ended.
func nameSpan(ctx context.Context, method, route, requestID, tenant string) {
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

// traceID returns the id of a sampled trace; "" where the trace is not sampled.
func traceID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		return span.TraceID().String()
	}
	return ""
}
