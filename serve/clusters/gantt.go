package clusters

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// mostSpans is about how many spans of the past, and of the plan, a Gantt chart has.
const mostSpans = 10_000

// Gantt is what held, holds and is planned to have the GPUs from a time until another one.
func (c *Cluster) Gantt(ctx context.Context, from, to time.Time) (*clusterdoc.Gantt, error) {
	var lines *ledger.Timeline
	var past *ledger.Past
	err := c.do(ctx, &request{prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil },
		after: func(l *ledger.Ledger) { lines, past = l.Timeline(from.UnixMicro()), l.Past() }})
	if err != nil {
		return nil, err
	}
	archived, err := past.Held(from.UnixMicro(), mostSpans)
	if err != nil {
		return nil, err
	}
	plan, err := c.session.Plan(ctx)
	if err != nil && !errors.As(err, new(*sessions.NoPlansError)) {
		return nil, err
	}
	g := gantt{d: &clusterdoc.Gantt{Now: c.parent.cfg.Now().UTC().Truncate(time.Microsecond), From: from.UTC(),
		To: to.UTC(), Rows: lines.GPUs, Spans: []*clusterdoc.GanttSpan{}}, rows: map[string]int{},
		free: make([]time.Time, len(lines.GPUs)), running: map[string]*clusterdoc.GanttSpan{}}
	if g.d.Rows == nil {
		g.d.Rows = []clusterdoc.GanttRow{}
	}
	for i := range lines.GPUs {
		g.rows[lines.GPUs[i].GPU] = i
	}
	for _, all := range [][]ledger.Held{archived, lines.Held} {
		for i := range all {
			g.hold(&all[i])
		}
	}
	g.trim()
	if plan != nil {
		g.plan(plan, c.session.Info().Created, lines)
	}
	slices.SortStableFunc(g.d.Spans, func(a, b *clusterdoc.GanttSpan) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(len(a.Job), len(b.Job)), cmp.Compare(a.Job, b.Job))
	})
	return g.d, nil
}

// gantt is a Gantt chart that is being made.
type gantt struct {
	d       *clusterdoc.Gantt
	rows    map[string]int // by GPU
	free    []time.Time    // of rows: when what holds them, or is planned there, ends
	running map[string]*clusterdoc.GanttSpan
}

// hold adds what held GPUs, or holds them.
func (g *gantt) hold(h *ledger.Held) {
	span := &clusterdoc.GanttSpan{Job: h.Job, Name: h.Name, From: time.UnixMicro(h.FromUs).UTC(),
		To: time.UnixMicro(h.ToUs).UTC(), Kind: "past"}
	for _, gpu := range h.GPUs {
		if row, found := g.rows[gpu]; found {
			span.Rows = append(span.Rows, row)
		}
	}
	switch {
	case span.Rows == nil || !span.From.Before(g.d.To):
		return
	case h.ToUs == 0:
		if span.To, span.Kind = g.d.Now, "now"; h.SharesRound {
			span.From = g.d.Now
		}
		g.running[h.Job] = span
	case h.SharesRound:
		return
	}
	slices.Sort(span.Rows)
	g.d.Spans = append(g.d.Spans, span)
}

// trim leaves out the spans that ended first, where there are too many.
func (g *gantt) trim() {
	past := slices.DeleteFunc(slices.Clone(g.d.Spans), func(s *clusterdoc.GanttSpan) bool { return s.Kind != "past" })
	if len(past) <= mostSpans {
		return
	}
	slices.SortFunc(past, func(a, b *clusterdoc.GanttSpan) int { return a.To.Compare(b.To) })
	g.d.From = past[len(past)-mostSpans-1].To
	g.d.Spans = slices.DeleteFunc(g.d.Spans, func(s *clusterdoc.GanttSpan) bool { return !s.To.After(g.d.From) })
}

// plan adds what the plan of a session says, which was created at a time.
func (g *gantt) plan(plan *wire.SessionPlan, created time.Time, lines *ledger.Timeline) {
	at := func(us int64) time.Time { return created.Add(time.Duration(us) * time.Microsecond).UTC() }
	expect := func(span *clusterdoc.GanttSpan, p *wire.SessionPlanJob) {
		if span.To = latest(span.From, g.d.Now); p.EndUs >= 0 {
			span.To = latest(at(p.EndUs), span.To)
		}
		if p.EarliestEndUs >= 0 {
			end := at(p.EarliestEndUs)
			span.EarliestEnd = &end
		}
		for _, row := range span.Rows {
			g.free[row] = latest(g.free[row], span.To)
		}
	}
	for i := range plan.Jobs {
		if span := g.running[plan.Jobs[i].Job]; span != nil {
			expect(span, &plan.Jobs[i])
		}
	}
	free := map[string]*rowHeap{}
	for i, row := range g.d.Rows {
		if !lines.Serving[i] {
			continue
		}
		if free[row.Type] == nil {
			free[row.Type] = &rowHeap{free: g.free}
		}
		free[row.Type].rows = append(free[row.Type].rows, i)
	}
	for _, h := range free {
		heap.Init(h)
	}
	planned := 0
	for i := range plan.Jobs {
		p := &plan.Jobs[i]
		asked, waits := lines.Waiting[p.Job]
		if !waits || p.StartUs < 0 || p.EndUs < 0 || len(p.Types) == 0 || !at(p.StartUs).Before(g.d.To) {
			continue
		}
		if planned++; planned > mostSpans {
			break
		}
		span := &clusterdoc.GanttSpan{Job: p.Job, Name: asked.Name, Rows: []int{}, Kind: "plan",
			From: latest(at(p.StartUs), g.d.Now)}
		h := free[p.Types[0]]
		for h != nil && h.Len() > 0 && len(span.Rows) < int(asked.GPUs) {
			span.Rows = append(span.Rows, heap.Pop(h).(int))
		}
		expect(span, p)
		for _, row := range span.Rows {
			heap.Push(h, row)
		}
		slices.Sort(span.Rows)
		g.d.Spans = append(g.d.Spans, span)
	}
}

// rowHeap has the rows of a type, the one that is free first at the top.
type rowHeap struct {
	rows []int
	free []time.Time
}

func (h *rowHeap) Len() int      { return len(h.rows) }
func (h *rowHeap) Swap(i, j int) { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *rowHeap) Push(row any)  { h.rows = append(h.rows, row.(int)) }

func (h *rowHeap) Less(i, j int) bool {
	a, b := h.rows[i], h.rows[j]
	return cmp.Or(h.free[a].Compare(h.free[b]), cmp.Compare(a, b)) < 0
}

func (h *rowHeap) Pop() any {
	n := len(h.rows) - 1
	row := h.rows[n]
	h.rows = h.rows[:n]
	return row
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}
