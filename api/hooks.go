package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
)

// about names a request and its trace in a line of the log.
func about(ctx context.Context) []any {
	line := []any{"request_id", requestID(ctx)}
	if id := traceID(ctx); id != "" {
		line = append(line, "trace_id", id)
	}
	return line
}

// subject names the solve or the session of a request, from the path or from
// the Location of what was created.
func subject(r *http.Request, route string, answer http.Header) (line []any) {
	id := chi.URLParam(r, "id")
	if len(id) > loggedID {
		id = "" // no id is so long, but a key is that got into its place
	}
	for _, kind := range []struct{ path, name string }{{"/v1/solves", "solve"}, {"/v1/sessions", "session"}} {
		if !strings.HasPrefix(route, kind.path) {
			continue
		}
		if id == "" {
			id, _, _ = strings.Cut(strings.TrimPrefix(answer.Get("Location"), kind.path+"/"), "/")
		}
		if id != "" {
			line = append(line, kind.name, id)
		}
	}
	return line
}

// solveID names a solve: one without a record of its own by its request.
func solveID(ctx context.Context) string {
	if id := service.SolveID(ctx); id != "" {
		return id
	}
	return requestID(ctx)
}

// hooks returns the hooks that log and count what the service does.
func (s *server) hooks() service.Hooks {
	return service.Hooks{
		Waited: func(ctx context.Context, began time.Time, err error) {
			s.met.waits.Observe(time.Since(began).Seconds())
			if s.cfg.Tracing != nil {
				_, span := s.cfg.Tracing.tracer.Start(ctx, "queue", trace.WithTimestamp(began))
				fail(span, err)
				span.End()
			}
		},
		Solving: s.solving,
		Predicted: func(predicted, took time.Duration) {
			if predicted > 0 {
				s.met.cost.Observe(took.Seconds() / predicted.Seconds())
			}
		},
		Cached: func(hit bool) {
			outcome := "miss"
			if hit {
				outcome = "hit"
			}
			s.met.cached.WithLabelValues(outcome).Inc()
		},
		Simulated: s.met.plays.simulated,
		Committed: s.committed,
	}
}

// committed follows what becomes durable of a solve.
func (s *server) committed(ctx context.Context, began time.Time, bytes int, err error) {
	s.met.commits.took.Observe(time.Since(began).Seconds())
	if err == nil {
		s.met.commits.bytes.Add(float64(bytes))
	} else {
		s.met.commits.failures.Inc()
	}
	// A commit that belongs to no one call has no trace to stand in.
	if s.cfg.Tracing != nil && trace.SpanContextFromContext(ctx).IsValid() {
		_, span := s.cfg.Tracing.tracer.Start(ctx, "commit", trace.WithTimestamp(began),
			trace.WithAttributes(attribute.Int("hare.bytes", bytes)))
		fail(span, err)
		span.End()
	}
}

// solving follows one solve: two lines in the log, a span with one below it for
// each phase, and the metrics.
func (s *server) solving(ctx context.Context, inst *hare.Instance,
	opt hare.Options) (context.Context, func(service.PhaseEvent), func(*hare.Result, error)) {
	gpus := 0
	for i := range inst.Cluster.Nodes {
		for _, c := range inst.Cluster.Nodes[i].GPUs {
			gpus += c.Count
		}
	}
	var spans *solveSpans
	var progress func(service.PhaseEvent)
	if s.cfg.Tracing != nil {
		ctx, spans = s.cfg.Tracing.solve(ctx, len(inst.Jobs), gpus, tenantOf(ctx))
		progress = spans.progress
	}
	log := s.cfg.Logger
	logged := log.Enabled(ctx, slog.LevelInfo)
	if logged {
		line := append(about(ctx), "solve", solveID(ctx))
		if tenant := tenantOf(ctx); tenant != "" {
			line = append(line, "tenant", tenant)
		}
		log = log.With(line...)
		log.InfoContext(ctx, "solve begins", "jobs", len(inst.Jobs), "gpus", gpus, "time_limit_s", opt.TimeLimit.Seconds(),
			"work_limit", opt.WorkLimit, "seed", opt.Seed)
	}
	return ctx, progress, func(res *hare.Result, err error) {
		if res != nil {
			s.met.outcome(tenantOf(ctx), res)
			if logged {
				log.InfoContext(ctx, "solve ends", outcomeLine(res)...)
			}
		} else {
			kind := "panic"
			if err != nil {
				kind = errorKind(err)
			}
			s.met.failed.WithLabelValues(kind).Inc()
			log.WarnContext(ctx, "solve failed", "kind", kind)
		}
		if spans != nil {
			spans.end(res, err)
		}
	}
}

func outcomeLine(r *hare.Result) []any {
	t := r.Timing
	line := []any{"termination", r.Termination}
	if r.Value != nil {
		line = append(line, "value", r.Value.String())
	}
	if r.Bound != nil {
		line = append(line, "bound", r.Bound.String())
	}
	if g, ok := r.Gap(); ok {
		f, _ := g.Float64()
		line = append(line, "gap", f)
	}
	return append(line, "reproducible", r.Reproducible, "seconds", t.Total.Seconds(), "relax_s", t.Relax.Seconds(),
		"assign_s", t.Assign.Seconds(), "improve_s", t.Improve.Seconds(), "verify_s", t.Verify.Seconds())
}

// solveSpans are the span of a solve and that of the phase it is in. They are
// used from the goroutine of the solve alone.
type solveSpans struct {
	tracer trace.Tracer
	span   trace.Span
	name   string
	phase  trace.Span // nil before the first
	last   service.PhaseEvent
}

// solve begins the span of a solve: below that of its request, if there is one.
func (t *Tracing) solve(ctx context.Context, jobs, gpus int, tenant string) (context.Context, *solveSpans) {
	attrs := []attribute.KeyValue{attribute.Int("hare.jobs", jobs), attribute.Int("hare.gpus", gpus),
		attribute.String("hare.solve_id", solveID(ctx))}
	if tenant != "" {
		attrs = append(attrs, attribute.String("hare.tenant", tenant))
	}
	ctx, span := t.tracer.Start(ctx, "solve", trace.WithAttributes(attrs...))
	return ctx, &solveSpans{tracer: t.tracer, span: span}
}

func (s *solveSpans) progress(e service.PhaseEvent) {
	s.last = e // what a new phase finds, the one before it left
	if s.phase == nil || e.Phase != s.name {
		s.endPhase()
		s.name = e.Phase
		_, s.phase = s.tracer.Start(trace.ContextWithSpan(context.Background(), s.span), e.Phase)
	}
}

func (s *solveSpans) endPhase() {
	if s.phase == nil {
		return
	}
	s.phase.SetAttributes(pair(s.last.Value, s.last.Bound)...)
	s.phase.End()
	s.phase = nil
}

func (s *solveSpans) end(res *hare.Result, err error) {
	if res != nil {
		s.last.Value, s.last.Bound = res.Value, res.Bound
	}
	s.endPhase()
	fail(s.span, err)
	if res != nil {
		s.span.SetAttributes(attribute.String("hare.termination", res.Termination),
			attribute.Bool("hare.reproducible", res.Reproducible))
		s.span.SetAttributes(pair(res.Value, res.Bound)...)
		if g, ok := res.Gap(); ok {
			f, _ := g.Float64()
			s.span.SetAttributes(attribute.Float64("hare.gap", f))
		}
	}
	s.span.End()
}

func pair(value, bound *hare.Amount) (attrs []attribute.KeyValue) {
	if value != nil {
		attrs = append(attrs, attribute.Float64("hare.value", value.Float()))
	}
	if bound != nil {
		attrs = append(attrs, attribute.Float64("hare.bound", bound.Float()))
	}
	return attrs
}
