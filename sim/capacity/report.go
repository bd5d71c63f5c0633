package capacity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/sim"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// Report is the answer: a row for each option under each policy, what is certain, and what was assumed.
type Report struct{ capacitydoc.Report }

// Plan answers a request. first is called with the first that is certain. When the time of ctx is over, the report has
// the rows that have been played, and says so. Errors are hare.InvalidErrors about the request, and those of
// simulations. The same request gives the same report, unless its time is over.
func Plan(ctx context.Context, req *capacitydoc.Request, cfg Config, first func(capacitydoc.Certain)) (*Report,
	error) {
	p, err := read(req)
	if err != nil {
		return nil, err
	}
	g := &grid{plan: p, cfg: cfg}
	rep := &Report{capacitydoc.Report{Hare: capacitydoc.DocumentVersion, Version: cfg.Version,
		Status: capacitydoc.StatusSucceeded, Source: p.Source, Seed: p.seed, Jobs: len(p.Instance.Jobs),
		HistoryDays: len(p.draw.blocks), Weeks: p.weekCount, Days: p.days, Growth: p.Growth, Goal: p.goal.String(),
		Prices: p.Prices, Rows: []capacitydoc.Row{}}}
	if rep.Goal != "" {
		rep.Share = p.Share
	}
	err = g.fill(ctx, rep, first)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		rep.Status, err = capacitydoc.StatusDeadline, nil
	}
	if err != nil {
		return nil, err
	}
	marked := g.settle()
	for i := range g.cells {
		rep.Rows = append(rep.Rows, g.row(&g.cells[i], marked[&g.cells[i]]))
	}
	if len(g.cells) > 0 {
		rep.WeekJobs = g.cells[0].stat(func(f *Figures) float64 { return float64(f.Jobs) }).Mean
	}
	rep.front()
	rep.Decision = rep.decide(len(p.options) * len(p.policies))
	rep.Assumed = g.assumed()
	return rep, nil
}

// fill computes what is certain, all weeks, and the cheapest mixes.
func (g *grid) fill(ctx context.Context, rep *Report, first func(capacitydoc.Certain)) (err error) {
	g.cfg.tell(partCertain, 0)
	timed, cancel := ctx, context.CancelFunc(func() {})
	if g.cfg.Proof != nil {
		timed, cancel = g.cfg.Proof(ctx)
	}
	proved, err := g.certain(timed, first)
	late := ctx.Err() == nil && errors.Is(timed.Err(), context.DeadlineExceeded)
	cancel()
	switch {
	case err != nil && late:
		rep.Status = capacitydoc.StatusDeadline
	case err != nil:
		return err
	default:
		rep.Certain, rep.CertainJobs = proved.Certain, proved.Jobs
	}
	if err := g.run(ctx); err != nil {
		return err
	}
	for i, q := range g.policies {
		if len(g.buy) == 0 {
			break
		}
		g.cfg.tell(partMix, float64(i)/float64(len(g.policies)))
		s := searcher{grid: g, policy: q}
		m, err := s.cheapest(ctx)
		if err != nil {
			return err
		}
		rep.Mixes = append(rep.Mixes, *m)
	}
	return nil
}

// weekHours are those of seven days, for which costs are given however long a drawn week is.
const weekHours = 7 * 24

// row computes a row.
func (g *grid) row(c *cell, marked int) capacitydoc.Row {
	o, base := &g.options[c.option], &g.cells[0]
	est := func(of func(*Figures) float64) capacitydoc.Estimate {
		s := c.stat(of)
		return capacitydoc.Estimate{Mean: s.Mean, Half: s.Half}
	}
	r := capacitydoc.Row{Option: o.text, Policy: g.policies[c.policy].String(), Marked: marked, Why: o.unusable,
		MeanWaitS:       est(func(f *Figures) float64 { return f.MeanWaitS }),
		P95WaitS:        est(func(f *Figures) float64 { return f.P95WaitS }),
		MeanCompletionS: est(func(f *Figures) float64 { return f.MeanCompletionS }),
		P95CompletionS:  est(func(f *Figures) float64 { return f.P95CompletionS }),
		GPUHours:        map[string]capacitydoc.Estimate{}, Use: map[string]float64{}}
	var saved sim.Stat
	hoursSaved := 0.0 // in seven days
	for w := range c.weeks {
		less := base.weeks[w].MeanWaitS - c.weeks[w].MeanWaitS
		saved.Add(less)
		hoursSaved += less * float64(c.weeks[w].Jobs) / 3600 / float64(len(c.weeks)) * 7 / float64(g.days)
	}
	r.SavedS = capacitydoc.Estimate{Mean: saved.Mean, Half: saved.Half}
	if slices.ContainsFunc(g.Instance.Jobs, func(j hare.Job) bool { return j.DeadlineUs > 0 }) {
		e := est(func(f *Figures) float64 { return f.DeadlinesMet })
		r.DeadlinesMet = &e
	}
	cost, added := 0.0, 0.0
	hours := 24 * float64(g.days)
	there := o.cluster(&g.draw.cluster)
	count := map[string]int{}
	for i := range there.Nodes {
		for _, x := range there.Nodes[i].GPUs {
			count[x.Type] += x.Count
		}
	}
	for _, t := range sortedKeys(count) {
		e := est(func(f *Figures) float64 { return f.HeldH[t] })
		used := c.stat(func(f *Figures) float64 { return f.UsedH[t] })
		r.GPUHours[t], r.Use[t] = e, used.Mean/(hours*float64(count[t]))
		cost += float64(count[t]) * weekHours * g.Prices[t]
		added += float64(o.added(t)) * weekHours * g.Prices[t]
	}
	if len(g.Prices) > 0 {
		r.CostPerWeek, r.AddedCostPerWeek = &cost, &added
		if hoursSaved > 0 && added > 0 {
			x := added / hoursSaved
			r.CostPerHourSaved = &x
		}
	}
	r.Queue = make([]float64, 24*g.days)
	for _, w := range c.weeks {
		for h, n := range w.Queue {
			r.Queue[h] += float64(n) / float64(len(c.weeks))
		}
	}
	if len(g.goal) > 0 {
		s := shareOf(c.share(), len(c.weeks))
		r.Reached = &s
	}
	return r
}

// shareOf is a share of n weeks with its interval.
func shareOf(share float64, n int) capacitydoc.Share {
	k := math.Round(share * float64(n))
	s := capacitydoc.Share{Share: share, Low: 0, High: 1}
	if k > 0 {
		s.Low = distuv.Beta{Alpha: k, Beta: float64(n) - k + 1}.Quantile(0.025)
	}
	if k < float64(n) {
		s.High = distuv.Beta{Alpha: k + 1, Beta: float64(n) - k}.Quantile(0.975)
	}
	return s
}

// front finds the rows that no other beats in cost and waiting.
func (rep *Report) front() {
	var cost, wait []float64
	for _, r := range rep.Rows {
		if r.CostPerWeek == nil {
			return
		}
		cost, wait = append(cost, *r.CostPerWeek), append(wait, r.MeanWaitS.Mean)
	}
	rep.Front = pareto(cost, wait)
}

// decide says in sentences what the figures say.
// all is how many rows were asked for.
func (rep *Report) decide(all int) (out []string) {
	rows := rep.Rows
	switch {
	case rep.Status != capacitydoc.StatusDeadline:
	case len(rows) < all:
		out = append(out, fmt.Sprintf("The time limit passed: %d of %s are here.", len(rows), words.Count(all, "row")))
	default:
		out = append(out, "The time limit passed: all rows are here, but not all that was to be proved or searched.")
	}
	if len(rows) == 0 {
		return out
	}
	if rep.Goal != "" {
		best := -1
		for i := range rows {
			if rows[i].Reached.Share >= rep.Share-1e-9 && (best < 0 || cheaper(&rows[i], &rows[best])) {
				best = i
			}
		}
		if best >= 0 {
			out = append(out, fmt.Sprintf("%s reaches a %s in %s of weeks%s.", subject(&rows[best]), rep.Goal,
				percent(rows[best].Reached.Share), costs(&rows[best])))
		} else {
			best = 0
			for i := range rows {
				if a, b := rows[i].Reached.Share, rows[best].Reached.Share; a > b ||
					a == b && rows[i].P95WaitS.Mean < rows[best].P95WaitS.Mean {
					best = i
				}
			}
			out = append(out, fmt.Sprintf("Nothing here reaches a %s in %s of weeks. %s comes nearest, with %s.",
				rep.Goal, percent(rep.Share), subject(&rows[best]), percent(rows[best].Reached.Share)))
		}
	} else if len(rows) > 1 {
		best := 0
		for i := range rows {
			if rows[i].MeanWaitS.Mean < rows[best].MeanWaitS.Mean {
				best = i
			}
		}
		if best > 0 {
			out = append(out, fmt.Sprintf("%s waits least: %s on average, in place of %s%s.", subject(&rows[best]),
				words.Seconds(rows[best].MeanWaitS.Mean), words.Seconds(rows[0].MeanWaitS.Mean), costs(&rows[best])))
		} else {
			out = append(out, fmt.Sprintf("Nothing here waits less than the cluster as it is under %s: %s on average.",
				rows[0].Policy, words.Seconds(rows[0].MeanWaitS.Mean)))
		}
	}
	for _, m := range rep.Mixes {
		out = append(out, mixSentence(&m, rep))
	}
	// A policy that reaches what a purchase reaches is worth its price.
	for i := range rows {
		if rows[i].Option != AsItIs || rows[i].Policy == rows[0].Policy {
			continue
		}
		best := -1
		for x := range rows {
			if rows[x].Policy != rows[0].Policy || rows[x].Option == AsItIs {
				continue
			}
			if p := rows[x].P95WaitS.Mean; rows[i].P95WaitS.Mean <= p && p < rows[0].P95WaitS.Mean &&
				(best < 0 || p < rows[best].P95WaitS.Mean) {
				best = x
			}
		}
		if best >= 0 {
			out = append(out, fmt.Sprintf("The policy %s reaches on the cluster as it is the p95 wait that %s reaches "+
				"under %s%s.", rows[i].Policy, rows[best].Option, rows[best].Policy, costs(&rows[best])))
		}
	}
	for _, c := range rep.Certain {
		if c.Endless && c.MostS != nil {
			out = append(out, fmt.Sprintf("No number of %s shortens the mean completion of the best plan for %s of the "+
				"history by more than %s (proved).", c.Option, rep.certainOf(), words.Seconds(*c.MostS)))
		}
	}
	return out
}

// certainOf names the jobs that what is proved is about.
func (rep *Report) certainOf() string {
	if rep.CertainJobs == certainJobs {
		return fmt.Sprintf("the last %d jobs", rep.CertainJobs)
	}
	return "the " + words.Count(rep.CertainJobs, "job")
}

func cheaper(a, b *capacitydoc.Row) bool {
	if a.AddedCostPerWeek != nil && *a.AddedCostPerWeek != *b.AddedCostPerWeek {
		return *a.AddedCostPerWeek < *b.AddedCostPerWeek
	}
	return false
}

func nameOf(r *capacitydoc.Row) string { return r.Option + " under " + r.Policy }

// subject is a row as the subject of a sentence.
func subject(r *capacitydoc.Row) string {
	if r.Option == AsItIs {
		return "The cluster as it is under " + r.Policy
	}
	return nameOf(r)
}

// costs says what an option adds to the cost.
func costs(r *capacitydoc.Row) string {
	if r.AddedCostPerWeek == nil || *r.AddedCostPerWeek == 0 {
		return ""
	}
	return ", for " + money(*r.AddedCostPerWeek) + " a week more"
}

func percent(x float64) string {
	return fmt.Sprintf("%s %%", strings.TrimSuffix(fmt.Sprintf("%.1f", x*100), ".0"))
}

// money writes an amount with separators of thousands.
func money(x float64) string {
	digits := fmt.Sprintf("%.0f", math.Abs(x))
	if math.Abs(x) < 100 {
		digits = fmt.Sprintf("%.2f", math.Abs(x))
	}
	whole, rest, _ := strings.Cut(digits, ".")
	var b strings.Builder
	if x < 0 {
		b.WriteString("−")
	}
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	if rest != "" {
		b.WriteString("." + rest)
	}
	return b.String()
}

// mixText is a mix in words.
func mixText(m *capacitydoc.Mix) string {
	var parts []string
	for _, a := range m.Add {
		parts = append(parts, fmt.Sprintf("%s=%d", a.Type, a.Count))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ",")
}

func mixSentence(m *capacitydoc.Mix, rep *Report) string {
	if !m.Found {
		return fmt.Sprintf("Under %s not even %s reaches the goal in %s of weeks: it does in %s.", m.Policy, mixText(m),
			percent(rep.Share), percent(m.Share))
	}
	s := fmt.Sprintf("The cheapest mix under %s is %s, for %s a week: it reaches the goal in %s of weeks.", m.Policy,
		mixText(m), money(m.CostPerWeek), percent(m.Share))
	if n := m.Next; n != nil {
		s += fmt.Sprintf(" The next cheaper one, %s for %s, does in %s", mixText(n), money(n.CostPerWeek), percent(n.Share))
		if n.Missed != "" && n.MissedLimitS > 1 {
			s += fmt.Sprintf(" (%s: %s on average)", n.Missed, words.Seconds(n.MissedMeanS))
		}
		s += "."
	}
	return s
}

// assumed says what the figures rest on.
func (g *grid) assumed() []string {
	s := g.draw
	kinds := "any day of the history"
	if !s.origin.IsZero() {
		kinds = "a day of the history of the same kind: of the same name where there are four, otherwise working day or " +
			"weekend"
	}
	out := []string{
		fmt.Sprintf("each day of a week is drawn from %s, with all that was submitted on it; growth adds what users did on "+
			"other such days. A trend of the history is not continued", kinds),
		fmt.Sprintf("weeks begin with %d drawn days that do not count, so that the queue is not empty, and are simulated "+
			"until their jobs have ended", warmUpDays),
		"jobs take on each GPU type what the history's jobs take; policies know no durations beforehand, but estimates " +
			"and what ended; plans are 30 s late, and at most " + strconv.Itoa(weekPlans) + " are made in a week",
		"policies learn of an outage when it begins",
	}
	if n := len(s.blocks); n < 4*s.days {
		out = append(out, fmt.Sprintf("the history has %s, so that drawn weeks are more alike than real ones, and "+
			"intervals and shares too sure; four times as long as a drawn week is better", words.Count(n, "day")))
	}
	if s.lost.running > 0 {
		out = append(out, words.Count(s.lost.running, "job")+" that ran when the history begins are not drawn")
	}
	if s.lost.after > 0 {
		out = append(out, words.Count(s.lost.after, "job")+" do not wait for the jobs that they waited for")
	}
	if s.lost.nodes > 0 {
		out = append(out, words.Count(s.lost.nodes, "node")+" that left before the history ends are not there")
	}
	if s.lost.busy > 0 {
		out = append(out, "reservations on "+words.Count(s.lost.busy, "node")+" are left out")
	}
	return out
}

// JSON writes the report.
func (rep *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(rep)
}
