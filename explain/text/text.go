// Package text prints explanations for people.
package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Explanation prints an explanation and, with draw, the timeline of a job that has a schedule.
func Explanation(w io.Writer, x *explaindoc.Answer, draw bool) error {
	x = words.PlainNames(x)
	p := &printer{w: w}
	p.explanation(x)
	if draw && x.Outcome == "scheduled" {
		p.lane(x)
	}
	return p.err
}

// printer prints lines; err is the first write error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", a...)
	}
}

// Jobs prints a list of jobs, of which the instance has all in number.
func Jobs(w io.Writer, all int, jobs []explaindoc.ListedJob) error {
	jobs = words.PlainNames(jobs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "job\tweight\trelease\tstart\tend\twait\tJCT\tstretch\tof value\t")
	for _, j := range jobs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.1f %%\t\n", j.Job, j.Weight, words.Duration(j.ReleaseS),
			words.Duration(j.StartS), words.Duration(j.EndS), words.Duration(j.WaitS), words.Duration(j.JCTS), j.Stretch,
			100*j.Share)
	}
	if err := t.Flush(); err != nil || len(jobs) == all {
		return err
	}
	_, err := fmt.Fprintf(w, "(%d of %s: --limit gives more)\n", len(jobs), words.Count(all, "job"))
	return err
}

func (p *printer) explanation(x *explaindoc.Answer) {
	if x.Times == nil {
		p.line("%s has no schedule: %s", x.Job, x.Outcome)
		for _, r := range x.Reasons {
			p.line("  %s (%s)", r.Detail, r.Code)
		}
		p.notes(x)
		return
	}
	p.line("%s (%s, weight %s) is released at %s, starts at %s and ends at %s.", x.Job, x.Sync, x.Weight,
		words.Duration(x.ReleaseS), words.Duration(x.StartS), words.Duration(x.EndS))
	p.line("It takes %s; no plan does it in less than %s. It is %.1f %% of the plan's value.", words.Duration(x.JCTS),
		words.Duration(x.LeastS), 100*x.Share)
	if x.LateS != nil && *x.LateS > 0 {
		p.line("It ends %s after its deadline at %s.", words.Duration(*x.LateS), words.Duration(*x.DeadlineS))
	} else if x.LateS != nil {
		p.line("It meets its deadline at %s.", words.Duration(*x.DeadlineS))
	}
	p.line("")
	for i := range x.Timeline {
		p.span(&x.Timeline[i], x.JCTS/20)
	}
	if c := x.Price; c != nil {
		p.line("")
		var paid []string
		for _, t := range c.ByType {
			paid = append(paid, fmt.Sprintf("%s for %s GPU-s of %s", words.Short(t.Paid), t.GPUs, t.Type))
		}
		cost := c.Cost.String()
		if c.Weight != nil {
			cost += fmt.Sprintf(" (with weight %s, as the certificate moves weight along dependencies)", c.Weight)
		}
		if len(paid) == 0 {
			paid = []string{"none"}
		}
		p.line("Price: weighted time %s + GPU time %s (%s).", cost, words.Short(c.Paid), strings.Join(paid, ", "))
		p.line("At these prices it could not cost less than %s: %s above that, %.1f %% of the plan's gap.",
			words.Short(c.Least), words.Short(c.Reduced), 100*c.ReducedShare)
		for _, t := range x.Elsewhere {
			on := t.Type
			if t.Label != "" {
				on += " of " + t.Label + " " + t.Place
			}
			switch {
			case t.Least == nil:
				p.line("  on %s alone: %s", on, t.Detail)
			case t.EndS == nil:
				p.line("  on %s alone: at least %s", on, words.Short(*t.Least))
			default:
				p.line("  on %s alone: at least %s, ending at %s", on, words.Short(*t.Least), words.Duration(*t.EndS))
			}
		}
	}
	if x.Earlier != nil {
		p.line("")
		p.earlier(x)
	}
	p.notes(x)
}

func (p *printer) notes(x *explaindoc.Answer) {
	for _, n := range x.Notes {
		p.line("Note: %s.", n)
	}
	if x.Earlier != nil {
		p.line("(%s)", x.About)
	}
}

// span prints a part of the job's time, and those causes of waits that lasted at least
// briefly.
func (p *printer) span(s *explaindoc.Span, briefly hare.Seconds) {
	at := fmt.Sprintf("%12s to %12s  ", words.Duration(s.FromS), words.Duration(s.ToS))
	if s.State == "running" {
		var gpus []string
		for kind, n := range s.GPUs {
			gpus = append(gpus, fmt.Sprintf("%d %s", n, kind))
		}
		slices.Sort(gpus)
		text := fmt.Sprintf("runs round %d", s.Round)
		if s.Rounds > 1 {
			text = fmt.Sprintf("runs rounds %d to %d", s.Round, s.Round+s.Rounds-1)
		}
		if len(s.Shapes) > 0 {
			text = fmt.Sprintf("runs %s (from unit %d)", words.Count(s.Rounds, "round"), s.Round)
		}
		text += " on " + strings.Join(gpus, ", ")
		for i, x := range s.Shapes {
			if i == 0 && len(s.Shapes) == 1 {
				text += fmt.Sprintf(" in shape %d", x.Shape)
				break
			}
			text += fmt.Sprintf(", %d of them in shape %d", x.Rounds, x.Shape)
		}
		if s.PausedS > 0 {
			text += fmt.Sprintf(", pausing %s in all", words.Duration(s.PausedS))
		}
		p.line("%s%s", at, text)
		for _, x := range s.Spread {
			if x.MoreS > 0 {
				p.line("%28s%s over the level %s, %s each and %s more in all", "",
					words.Count(x.Rounds, "round")+" spread", x.Level, words.Duration(x.RoundS), words.Duration(x.MoreS))
			}
		}
		return
	}
	if s.ToS-s.FromS <= briefly {
		p.line("%swaits for round %d, briefly (--json says for what)", at, s.Round)
		return
	}
	p.line("%swaits for round %d", at, s.Round)
	for i := range s.Waits {
		p.line("%28s%s", "", waitWords(&s.Waits[i]))
	}
}

// waitWords describes one cause of a wait.
func waitWords(w *explaindoc.Wait) string {
	kind := w.Type
	need := "a " + kind
	if w.Need > 1 {
		need = fmt.Sprintf("%d %s together", w.Need, kind)
	}
	if w.PerTask > 1 {
		need = fmt.Sprintf("%d × %d %s together", w.Need/w.PerTask, w.PerTask, kind)
	}
	if w.Shape != nil {
		need += fmt.Sprintf(" (shape %d)", *w.Shape)
	}
	if w.Within != "" {
		need += " in one " + w.Within
	}
	var text string
	switch w.Cause {
	case "no_service":
		text = fmt.Sprintf("%s: too few in service", need)
	case "after":
		var jobs []string
		for _, h := range w.Jobs {
			jobs = append(jobs, h.Job)
		}
		text = "after " + strings.Join(jobs, ", ") + ": may not start"
	case "reserved":
		text = fmt.Sprintf("%s: reserved for others", need)
	case "quota":
		text = fmt.Sprintf("%s: at most %d free, and over the quota of %s; taken by %s", need, w.Free, w.User,
			holderWords(w))
	case "busy":
		text = fmt.Sprintf("%s: busy with what ran before", need)
	case "held":
		text = fmt.Sprintf("%s: at most %d free; taken by %s", need, w.Free, holderWords(w))
	case "not_allowed":
		text = fmt.Sprintf("%s: the nodes that the job may use never have them", need)
	case "fragmented":
		if len(w.Nodes) == 0 {
			text = fmt.Sprintf("%s: never there", need)
			break
		}
		text = fmt.Sprintf("%s: up to %d free, but not together on nodes%s; taken by %s", need, w.Free, nodeWords(w),
			holderWords(w))
	case "cpus", "memory":
		enough, few := "enough CPUs", "too few CPUs"
		if w.Cause == "memory" {
			enough, few = "enough memory", "too little memory"
		}
		if len(w.Nodes) == 0 {
			text = fmt.Sprintf("%s: the nodes never have %s", need, enough)
			break
		}
		text = fmt.Sprintf("%s: up to %d free, but %s next to them%s; taken by %s", need, w.Free, few, nodeWords(w),
			holderWords(w))
	case "too_short":
		text = fmt.Sprintf("%s: free, but not for %s without a break", need, words.Duration(w.NeedS))
	case "setup":
		text = fmt.Sprintf("%s: free, and to be set up for %s", need, words.Duration(w.SetupS))
	case "reshape":
		text = "changes its shape"
	case "shape":
		text = fmt.Sprintf("%s: could have started in this shape; the plan waits for another", need)
	default:
		text = fmt.Sprintf("%s: could have started; the plan waits for better", need)
	}
	if w.UntilS != nil {
		text += fmt.Sprintf(" until %s", words.Duration(*w.UntilS))
	}
	if w.ForS == w.ToS-w.FromS {
		return fmt.Sprintf("%s (%s to %s)", text, words.Duration(w.FromS), words.Duration(w.ToS))
	}
	return fmt.Sprintf("%s (%s of %s to %s)", text, words.Duration(w.ForS), words.Duration(w.FromS),
		words.Duration(w.ToS))
}

// holderWords names up to four jobs that have what a wait needs.
func holderWords(w *explaindoc.Wait) string {
	var by []string
	for _, h := range w.Jobs[:min(4, len(w.Jobs))] {
		by = append(by, fmt.Sprintf("%s (%d until %s)", h.Job, h.GPUs, words.Duration(h.UntilS)))
	}
	if more := w.Others + len(w.Jobs) - len(by); more > 0 {
		by = append(by, fmt.Sprintf("%d more", more))
	}
	return strings.Join(by, ", ")
}

// nodeWords says what is free on up to four nodes.
func nodeWords(w *explaindoc.Wait) string {
	var nodes []string
	for i := range w.Nodes[:min(4, len(w.Nodes))] {
		n := &w.Nodes[i]
		text := fmt.Sprintf("%s %d", n.Node, n.GPUs)
		if w.Cause == "cpus" && n.CPUs != nil {
			text += fmt.Sprintf(" and %s CPUs", n.CPUs)
		}
		if w.Cause == "memory" && n.MemoryMiB != nil {
			text += fmt.Sprintf(" and %d MiB", *n.MemoryMiB)
		}
		nodes = append(nodes, text)
	}
	if more := w.OtherNodes + len(w.Nodes) - len(nodes); more > 0 {
		nodes = append(nodes, fmt.Sprintf("%d more", more))
	}
	if len(nodes) == 0 {
		return ""
	}
	return " (" + strings.Join(nodes, ", ") + ")"
}

func (p *printer) earlier(x *explaindoc.Answer) {
	e := x.Earlier
	if e.Already {
		p.line("It ends by %s as it is, at %s.", words.Duration(e.ByS), words.Duration(e.EndS))
		return
	}
	p.line("To end by %s instead of %s (no plan ends it before %s):", words.Duration(e.ByS), words.Duration(e.EndS),
		words.Duration(e.EarliestS))
	for i := range e.Changes {
		mark := " "
		if e.Cheapest != nil && *e.Cheapest == i {
			mark = "*"
		}
		p.line("%s %s", mark, changeWords(&e.Changes[i]))
		for _, m := range e.Changes[i].Jobs[:min(3, len(e.Changes[i].Jobs))] {
			if e.Changes[i].Does {
				p.line("      %s ends %s later, at %s", m.Job, words.Duration(m.ByS), words.Duration(m.EndS))
			}
		}
	}
	if e.Cheapest != nil {
		p.line("* costs the other jobs least.")
	}
	if !e.Finished {
		p.line("Not finished after %s: %s.", words.Count(e.Solves, "solve"), e.Unfinished)
	}
}

func changeWords(c *explaindoc.Change) string {
	var text string
	switch c.Kind {
	case "add_gpu":
		text = fmt.Sprintf("one %s more %s", c.Type, doesIt(c, 1))
		if c.GPUs > 1 {
			text = fmt.Sprintf("one node of %d %s more %s", c.GPUs, c.Type, doesIt(c, 1))
		}
	case "weight":
		text = "a greater weight " + doesIt(c, 1)
		if c.Weight != nil && c.Does {
			text = fmt.Sprintf("weight %s %s", c.Weight, doesIt(c, 1))
		}
		if c.NotWeight != nil {
			text += fmt.Sprintf(", %s does not", c.NotWeight)
		}
	default:
		text = "fewer rounds " + doesIt(c, 2)
		if c.Rounds != nil && c.Does {
			text = fmt.Sprintf("%s %s", words.Count(*c.Rounds, "round"), doesIt(c, *c.Rounds))
		}
		if c.NotRounds != nil {
			text += fmt.Sprintf(", %d %s not", *c.NotRounds, verb(*c.NotRounds, "does", "do"))
		}
	}
	if c.Detail != "" {
		text += ": " + c.Detail
	}
	if c.EndS != nil {
		text += fmt.Sprintf(": it ends at %s; of the others %d %s later and %d sooner, their weighted time changes by %s",
			words.Duration(*c.EndS), c.Delayed, verb(c.Delayed, "ends", "end"), c.Sooner, c.OthersCost)
	}
	return text
}

// doesIt says whether a change does what was asked; n is the number of its subject.
func doesIt(c *explaindoc.Change, n int64) string {
	text := verb(n, "does", "do")
	if !c.Does {
		text += " not do"
	}
	text += " it"
	if !c.Finished {
		text += " as far as was tried"
	}
	return text
}

// verb returns the form of a verb for n things.
func verb[N int | int64](n N, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// lane draws the job's time from its release to its end, and below that time the jobs
// that had GPUs for which the job waited.
func (p *printer) lane(x *explaindoc.Answer) {
	const width = 60
	from, to := x.ReleaseS, x.EndS
	column := func(t hare.Seconds) int {
		return int(float64(max(from, min(to, t))-from) / float64(max(1, to-from)) * width)
	}
	draw := func(name string, fill func(row []byte)) {
		row := []byte(strings.Repeat(" ", width))
		fill(row)
		p.line("%12.12s |%s|", name, row)
	}
	put := func(row []byte, a, b hare.Seconds, with byte) {
		for i := column(a); i < max(column(b), column(a)+1) && i < width; i++ {
			row[i] = with
		}
	}
	p.line("")
	draw(x.Job, func(row []byte) {
		for _, s := range x.Timeline {
			if s.State == "running" {
				put(row, s.FromS, s.ToS, '#')
			} else {
				put(row, s.FromS, s.ToS, '.')
			}
		}
	})
	type block struct{ from, to hare.Seconds }
	held := map[string][]block{}
	for _, s := range x.Timeline {
		for _, w := range s.Waits {
			for _, h := range w.Jobs {
				held[h.Job] = append(held[h.Job], block{w.FromS, min(h.UntilS, w.ToS)})
			}
		}
	}
	names := make([]string, 0, len(held))
	for name := range held {
		names = append(names, name)
	}
	first := func(name string) hare.Seconds { return held[name][0].from }
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), 8)] {
		draw(name, func(row []byte) {
			for _, b := range held[name] {
				put(row, b.from, b.to, '=')
			}
		})
	}
	end := words.Duration(to)
	p.line("%12s  %-*s%s", "", width+2-len(end), words.Duration(from), end)
	p.line("%14s# runs  . waits  = has GPUs that it waits for", "")
}
