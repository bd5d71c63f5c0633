package api

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
)

// solveID returns the id of a stored solve, or the id of the request for others.
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
				failSpan(span, err)
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

// committed logs and measures a commit of the store of solves.
func (s *server) committed(ctx context.Context, began time.Time, bytes int, err error) {
	s.met.commits.took.Observe(time.Since(began).Seconds())
	if err == nil {
		s.met.commits.bytes.Add(float64(bytes))
	} else {
		s.met.commits.failures.Inc()
	}
	// A commit that no single request caused has no trace to belong to.
	if s.cfg.Tracing != nil && trace.SpanContextFromContext(ctx).IsValid() {
		_, span := s.cfg.Tracing.tracer.Start(ctx, "commit", trace.WithTimestamp(began),
			trace.WithAttributes(attribute.Int("hare.bytes", bytes)))
		failSpan(span, err)
		span.End()
	}
}

// solving observes one solve: two lines of the log, a span with a child span for each
// phase, and metrics.
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

// solveSpans holds the span of a solve and the span of its current phase. Only the
// goroutine of the solve uses it.
type solveSpans struct {
	tracer trace.Tracer
	span   trace.Span
	name   string
	phase  trace.Span // nil before the first phase
	last   service.PhaseEvent
}

// solve begins the span of a solve, as a child of the request's span where there is
// one.
func (t *Tracing) solve(ctx context.Context, jobs, gpus int, tenant string) (context.Context, *solveSpans) {
	attrs := []attribute.KeyValue{attribute.Int("hare.jobs", jobs), attribute.Int("hare.gpus", gpus),
		attribute.String("hare.solve_id", solveID(ctx))}
	if tenant != "" {
		attrs = append(attrs, attribute.String("hare.tenant", tenant))
	}
	ctx, span := t.tracer.Start(ctx, "solve", trace.WithAttributes(attrs...))
	return ctx, &solveSpans{tracer: t.tracer, span: span}
}

func (ss *solveSpans) progress(e service.PhaseEvent) {
	ss.last = e // the previous phase left the value and the bound that a new phase begins with
	if ss.phase == nil || e.Phase != ss.name {
		ss.endPhase()
		ss.name = e.Phase
		_, ss.phase = ss.tracer.Start(trace.ContextWithSpan(context.Background(), ss.span), e.Phase)
	}
}

func (ss *solveSpans) endPhase() {
	if ss.phase == nil {
		return
	}
	ss.phase.SetAttributes(pair(ss.last.Value, ss.last.Bound)...)
	ss.phase.End()
	ss.phase = nil
}

func (ss *solveSpans) end(res *hare.Result, err error) {
	if res != nil {
		ss.last.Value, ss.last.Bound = res.Value, res.Bound
	}
	ss.endPhase()
	failSpan(ss.span, err)
	if res != nil {
		ss.span.SetAttributes(attribute.String("hare.termination", res.Termination),
			attribute.Bool("hare.reproducible", res.Reproducible))
		ss.span.SetAttributes(pair(res.Value, res.Bound)...)
		if g, ok := res.Gap(); ok {
			f, _ := g.Float64()
			ss.span.SetAttributes(attribute.Float64("hare.gap", f))
		}
	}
	ss.span.End()
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
