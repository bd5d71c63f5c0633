// Package text prints what a what-if answers for people: a table of the scenarios, and what their proved changes are
// in hours.
package text

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/whatif"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// Answer is what a what-if has answered so far.
type Answer struct {
	Base, Summary *whatif.Line
	Lines         []*whatif.Line // in the order of the scenarios; nil where there is no answer
	labels        []string
	times         *times
}

// New returns an empty answer. The labels name the scenarios that have no id of their own.
func New(base *hare.Instance, labels []string) *Answer {
	return &Answer{Lines: make([]*whatif.Line, len(labels)), labels: labels, times: newTimes(base)}
}

// Scenario notes the instance of the next scenario.
func (a *Answer) Scenario(base, scenario *hare.Instance) { a.times.add(base, scenario) }

// Take takes the next line of the answer.
func (a *Answer) Take(l *whatif.Line) {
	switch {
	case l.Index != nil:
		a.Lines[*l.Index] = l
	case a.Base == nil:
		a.Base = l
	default:
		a.Summary = l
		for _, r := range l.Refined { // what all answers together prove about single scenarios
			line := *a.Lines[r.Index]
			line.OptimumChange = r.OptimumChange
			a.Lines[r.Index] = &line
		}
	}
}

// Table prints a table of all scenarios and what is to be said of it.
func (a *Answer) Table(to io.Writer) error {
	// The bound is rounded down and the gap up, so that both remain proved.
	a.times.head(to, a.Base)
	fmt.Fprintf(to, "base: value %s, bound %s, gap %s\n\n", amountWords(a.Base.Value),
		hundredths(a.Base.Bound, big.ToNegativeInf), percentWords(a.Base.Gap))
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\tvalue\tchange\tbest plan changes by\tgap\tgain\tlose\tmost changed")
	for i, l := range a.Lines {
		switch {
		case l == nil:
			fmt.Fprintf(t, "%s\tnot answered\n", a.Label(i, nil))
		case l.Err != nil:
			fmt.Fprintf(t, "%s\tfailed\n", a.Label(i, l))
		default:
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Label(i, l), valueWords(l), signedWords(l.ValueChange),
				intervalWords(l), percentWords(l.Gap), jobWords(l.Jobs))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	a.inTime(to)
	a.remarks(to)
	if a.Summary != nil {
		c := a.Summary.Counts
		fmt.Fprintf(to, "\n%s: %d solved, %d pruned, %d only bounded, %d failed; %.2f s\n",
			words.Count(c.Scenarios, "scenario"), c.Solved, c.Pruned, c.Bounded, c.Failed, a.Summary.Timing.TotalS)
	}
	return nil
}

// Label names a scenario; l is its answer, or nil.
func (a *Answer) Label(i int, l *whatif.Line) string {
	if l != nil && l.ID != strconv.Itoa(i) {
		return words.Plain(l.ID)
	}
	return words.Plain(a.labels[i])
}

// inTime prints, below the table, the proved changes as times.
func (a *Answer) inTime(to io.Writer) {
	first := true
	for i, l := range a.Lines {
		if l == nil || l.Err != nil {
			continue
		}
		if text := a.times.sentence(i, l); text != "" {
			if first {
				fmt.Fprint(to, "\nthe best plan in time:\n")
			}
			first = false
			fmt.Fprintf(to, "  %s: %s\n", a.Label(i, l), text)
		}
	}
}

// remarks prints, below the table, why scenarios have no plan and which changes have no
// effect.
func (a *Answer) remarks(to io.Writer) {
	noTimes := false
	for i, l := range a.Lines {
		if l == nil {
			continue
		}
		if l.Termination == hare.TerminationInfeasible {
			for _, r := range l.Reasons {
				fmt.Fprintf(to, "%s is infeasible: job %s: %s\n", a.Label(i, l), words.Plain(r.Job), words.Plain(r.Detail))
			}
		}
		for _, note := range l.Notes {
			fmt.Fprintf(to, "%s: %s\n", a.Label(i, l), words.Plain(note))
			noTimes = noTimes || strings.Contains(note, "times for that type")
		}
	}
	if noTimes && a.times.oneType {
		fmt.Fprintln(to, "every job has times for one GPU type alone; those of a table without the column requested_type "+
			"may use all types after hare import history --any-type")
	}
}

func valueWords(l *whatif.Line) string {
	switch {
	case l.Termination == hare.TerminationInfeasible || l.Termination == hare.TerminationNoSchedule:
		return l.Termination
	case l.Pruned != nil && *l.Pruned && l.Value == nil:
		return "pruned"
	case l.Pruned != nil && *l.Pruned:
		return amountWords(l.Value) + " (pruned)"
	}
	return amountWords(l.Value)
}

// amountWords writes an amount to the nearest hundredth.
func amountWords(a *hare.Amount) string { return hundredths(a, big.ToNearestEven) }

// signedWords writes a change to the nearest hundredth, with its sign.
func signedWords(a *hare.Amount) string { return signedHundredths(a, big.ToNearestEven) }

func signedHundredths(a *hare.Amount, mode big.RoundingMode) string {
	text := hundredths(a, mode)
	if minus, negative := strings.CutPrefix(text, "-"); negative {
		return "−" + minus
	}
	if a == nil || text == "0" {
		return text
	}
	return "+" + text
}

// hundredths writes an amount with at most two decimals and never with an exponent. The rounding is exact:
// big.ToNegativeInf gives the greatest hundredth that is not above the amount, and big.ToPositiveInf the least that is
// not below it.
func hundredths(a *hare.Amount, mode big.RoundingMode) string {
	if a == nil {
		return "–"
	}
	unit := big.NewInt(1e10) // of 1e-12 weight-seconds, in a hundredth
	n, rest := new(big.Int).DivMod(a.Big(), unit, new(big.Int))
	twice := new(big.Int).Lsh(rest, 1).Cmp(unit)
	if up := mode == big.ToPositiveInf && rest.Sign() > 0 ||
		mode == big.ToNearestEven && (twice > 0 || twice == 0 && n.Bit(0) == 1); up {
		n.Add(n, big.NewInt(1))
	}
	return strings.TrimSuffix(new(big.Rat).SetFrac(n, big.NewInt(100)).FloatString(2), ".00")
}

// intervalWords writes the proved interval. Its ends are rounded outwards, so that what is printed is proved too.
func intervalWords(l *whatif.Line) string {
	if len(l.OptimumChange) != 2 || l.Termination == hare.TerminationInfeasible {
		return "–"
	}
	low, high := "…", "…"
	if a := l.OptimumChange[0]; a != nil {
		low = signedHundredths(a, big.ToNegativeInf)
	}
	if a := l.OptimumChange[1]; a != nil {
		high = signedHundredths(a, big.ToPositiveInf)
	}
	return low + " to " + high
}

func percentWords(gap *json.Number) string {
	if gap == nil {
		return "–"
	}
	x, err := gap.Float64()
	if err != nil {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", math.Ceil(1e4*x)/100)
}

// jobWords counts the jobs that end earlier and later, and names the job that changes
// most.
func jobWords(c *whatifdoc.JobChanges) string {
	if c == nil {
		return "–\t–\t"
	}
	most := ""
	if len(c.ByWeightedChange) > 0 {
		j := &c.ByWeightedChange[0]
		most = fmt.Sprintf("%s %s", words.Plain(j.ID), signedWords(&j.WeightedChange))
	}
	return fmt.Sprintf("%d\t%d\t%s", c.Gain, c.Lose, most)
}
