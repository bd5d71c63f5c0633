package capacity

import (
	"context"
	"encoding/json"
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
)

// DocumentVersion is the version of the report's form.
const DocumentVersion = 1

// Report is the answer: a row for each option under each policy, what is certain, and what was assumed.
type Report struct {
	Hare    int    `json:"hare"`
	Version string `json:"version"`
	Source  string `json:"source,omitempty"`
	Seed    uint64 `json:"seed"`

	// Jobs and HistoryDays are those of the history, WeekJobs the mean number of a drawn week that count.
	Jobs        int     `json:"jobs"`
	HistoryDays int     `json:"history_days"`
	Weeks       int     `json:"weeks"`
	Days        int     `json:"days"`
	Growth      float64 `json:"growth"`
	Grow        []Like  `json:"grow,omitempty"`
	WeekJobs    float64 `json:"week_jobs"`
	Goal        string  `json:"goal,omitempty"`
	Share       float64 `json:"share,omitempty"`
	// Prices are those of a GPU for an hour, by type.
	Prices map[string]float64 `json:"prices,omitempty"`

	// Decision is what the figures say, in sentences.
	Decision []string `json:"decision"`
	Rows     []Row    `json:"rows"`
	Mixes    []Mix    `json:"mixes,omitempty"`
	// Certain is about CertainJobs jobs of the history.
	Certain     []Certain `json:"certain,omitempty"`
	CertainJobs int       `json:"certain_jobs,omitempty"`
	Assumed     []string  `json:"assumed"`
	// Front are the rows that no other one beats in cost and mean wait, by cost; nil without prices.
	Front []int `json:"front,omitempty"`
}

// Row is an option under a policy. Figures are means over the weeks, each with half of its 95 % interval.
type Row struct {
	Option          string   `json:"option"`
	Policy          string   `json:"policy"`
	MeanWaitS       Estimate `json:"mean_wait_s"`
	P95WaitS        Estimate `json:"p95_wait_s"`
	MeanCompletionS Estimate `json:"mean_completion_s"`
	P95CompletionS  Estimate `json:"p95_completion_s"`
	// SavedS is how much shorter the mean wait is than in the first row, week by week.
	SavedS       Estimate  `json:"mean_wait_saved_s"`
	DeadlinesMet *Estimate `json:"deadlines_met"` // nil: no job has a deadline
	// GPUHours are those that the jobs of a week hold, by type, and Use the share of the GPUs that is held in its days.
	GPUHours map[string]Estimate `json:"gpu_hours"`
	Use      map[string]float64  `json:"use"`
	// CostPerWeek is that of all priced GPUs in seven days, AddedCostPerWeek that of those that the option adds; nil
	// without prices.
	CostPerWeek      *float64 `json:"cost_per_week"`
	AddedCostPerWeek *float64 `json:"added_cost_per_week"`
	// CostPerHourSaved is the added cost for each hour of waiting that is saved; nil where nothing is.
	CostPerHourSaved *float64 `json:"cost_per_hour_saved"`
	// Reached is the share of weeks that reach the goal, with its 95 % interval (Clopper and Pearson 1934).
	Reached *Share `json:"goal_reached"`
	// Marked counts the weeks in which the policy did worse than on a cluster that this one contains, whose figures
	// then stand here.
	Marked int      `json:"marked,omitempty"`
	Why    []string `json:"cannot_help,omitempty"`
	// Queue is how many jobs wait at each hour of a week, a mean over the weeks.
	Queue []float64 `json:"queue"`
}

// Estimate is a mean over weeks with half of its 95 % interval.
type Estimate struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"`
}

// Share is a share of weeks with its 95 % interval.
type Share struct {
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Plan answers a request. Errors are *Error, *hare.InvalidError and hare.InvalidErrors about the request, and those
// of simulations. The same request gives the same report.
func Plan(ctx context.Context, req *Request, cfg Config, first func(Certain)) (*Report, error) {
	p, err := req.read()
	if err != nil {
		return nil, err
	}
	g := newGrid(p, cfg)
	rep := &Report{Hare: DocumentVersion, Version: cfg.Version, Source: p.Source, Seed: p.Seed, Jobs: len(p.History.Jobs),
		HistoryDays: len(p.draw.blocks), Weeks: p.Weeks, Days: p.Days, Growth: p.Growth, Grow: p.draw.likes,
		Goal: p.goal.String(), Prices: p.Prices}
	if rep.Goal != "" {
		rep.Share = p.Share
	}
	cfg.tell(partCertain, 0)
	if rep.Certain, rep.CertainJobs, err = p.certain(ctx, max(1, cfg.Parallel), first); err != nil {
		return nil, err
	}
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	marked := g.settle()
	for i := range g.cells {
		rep.Rows = append(rep.Rows, g.row(&g.cells[i], marked[&g.cells[i]]))
	}
	rep.WeekJobs = g.cells[0].stat(func(f *Figures) float64 { return float64(f.Jobs) }).Mean
	if len(p.buy) > 0 {
		for i, q := range p.policies {
			cfg.tell(partMix, float64(i)/float64(len(p.policies)))
			s := searcher{grid: g, policy: q}
			m, err := s.cheapest(ctx)
			if err != nil {
				return nil, err
			}
			rep.Mixes = append(rep.Mixes, *m)
		}
	}
	rep.front()
	rep.Decision = rep.decide()
	rep.Assumed = g.assumed()
	return rep, nil
}

// weekHours are those of seven days, for which costs are given however long a drawn week is.
const weekHours = 7 * 24

// row computes a row.
func (g *grid) row(c *cell, marked int) Row {
	o, base := &g.options[c.option], &g.cells[0]
	est := func(of func(*Figures) float64) Estimate {
		s := c.stat(of)
		return Estimate{s.Mean, s.Half}
	}
	r := Row{Option: o.text, Policy: g.policies[c.policy].String(), Marked: marked, Why: o.unusable,
		MeanWaitS:       est(func(f *Figures) float64 { return f.MeanWaitS }),
		P95WaitS:        est(func(f *Figures) float64 { return f.P95WaitS }),
		MeanCompletionS: est(func(f *Figures) float64 { return f.MeanCompletionS }),
		P95CompletionS:  est(func(f *Figures) float64 { return f.P95CompletionS }),
		GPUHours:        map[string]Estimate{}, Use: map[string]float64{}}
	var saved sim.Stat
	hoursSaved := 0.0 // in seven days
	for w := range c.weeks {
		less := base.weeks[w].MeanWaitS - c.weeks[w].MeanWaitS
		saved.Add(less)
		hoursSaved += less * float64(c.weeks[w].Jobs) / 3600 / float64(len(c.weeks)) * 7 / float64(g.Days)
	}
	r.SavedS = Estimate{saved.Mean, saved.Half}
	if slices.ContainsFunc(g.History.Jobs, func(j hare.Job) bool { return j.DeadlineUs > 0 }) {
		e := est(func(f *Figures) float64 { return f.DeadlinesMet })
		r.DeadlinesMet = &e
	}
	cost, added := 0.0, 0.0
	hours := 24 * float64(g.Days)
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
	r.Queue = make([]float64, 24*g.Days)
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
func shareOf(share float64, n int) Share {
	k := math.Round(share * float64(n))
	s := Share{Share: share, Low: 0, High: 1}
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
func (rep *Report) decide() (out []string) {
	rows := rep.Rows
	if rep.Goal != "" {
		best := -1
		for i := range rows {
			if rows[i].Reached.Share >= rep.Share-1e-9 && (best < 0 || cheaper(&rows[i], &rows[best])) {
				best = i
			}
		}
		if best >= 0 {
			out = append(out, fmt.Sprintf("%s reaches a %s in %s of weeks%s.", rows[best].sentence(), rep.Goal,
				percent(rows[best].Reached.Share), rows[best].costs()))
		} else if !slices.ContainsFunc(rep.Mixes, func(m Mix) bool { return m.Found }) {
			best = 0
			for i := range rows {
				if a, b := rows[i].Reached.Share, rows[best].Reached.Share; a > b ||
					a == b && rows[i].P95WaitS.Mean < rows[best].P95WaitS.Mean {
					best = i
				}
			}
			out = append(out, fmt.Sprintf("Nothing here reaches a %s in %s of weeks. %s comes nearest, with %s.",
				rep.Goal, percent(rep.Share), rows[best].sentence(), percent(rows[best].Reached.Share)))
		}
	} else if len(rows) > 1 {
		best := 0
		for i := range rows {
			if rows[i].MeanWaitS.Mean < rows[best].MeanWaitS.Mean {
				best = i
			}
		}
		if best > 0 {
			out = append(out, fmt.Sprintf("%s waits least: %s on average, in place of %s%s.", rows[best].sentence(),
				words.Seconds(rows[best].MeanWaitS.Mean), words.Seconds(rows[0].MeanWaitS.Mean), rows[best].costs()))
		} else {
			out = append(out, fmt.Sprintf("Nothing here waits less than the cluster as it is under %s: %s on average.",
				rows[0].Policy, words.Seconds(rows[0].MeanWaitS.Mean)))
		}
	}
	for _, m := range rep.Mixes {
		out = append(out, m.sentence(rep))
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
				"under %s%s.", rows[i].Policy, rows[best].Option, rows[best].Policy, rows[best].costs()))
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

func cheaper(a, b *Row) bool {
	if a.AddedCostPerWeek != nil && *a.AddedCostPerWeek != *b.AddedCostPerWeek {
		return *a.AddedCostPerWeek < *b.AddedCostPerWeek
	}
	return false
}

func (r *Row) name() string { return r.Option + " under " + r.Policy }

// sentence is a row as the subject of a sentence.
func (r *Row) sentence() string {
	if r.Option == AsItIs {
		return "The cluster as it is under " + r.Policy
	}
	return r.name()
}

// costs says what an option adds to the cost.
func (r *Row) costs() string {
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

// text is a mix in words.
func (m *Mix) text() string {
	var parts []string
	for _, a := range m.Add {
		parts = append(parts, fmt.Sprintf("%s=%d", a.Type, a.Count))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ",")
}

func (m *Mix) sentence(rep *Report) string {
	if !m.Found {
		return fmt.Sprintf("Under %s not even %s reaches the goal in %s of weeks: it does in %s.", m.Policy, m.text(),
			percent(rep.Share), percent(m.Share))
	}
	s := fmt.Sprintf("The cheapest mix under %s is %s, for %s a week: it reaches the goal in %s of weeks.", m.Policy,
		m.text(), money(m.CostPerWeek), percent(m.Share))
	if n := m.Next; n != nil {
		s += fmt.Sprintf(" The next cheaper one, %s for %s, does in %s", n.text(), money(n.CostPerWeek), percent(n.Share))
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
