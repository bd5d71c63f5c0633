package text

import (
	"fmt"
	"strings"
	"time"

	"github.com/hare-sched/hare/internal/words"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// shownDelays is how many delays Preview shows.
const shownDelays = 5

// Preview says what hare submit --dry-run expects of a job, and which job like it would start earlier.
func Preview(job *clusterdoc.NewJob, p *clusterdoc.Preview, now time.Time) string {
	var out strings.Builder
	if p.ExpectedInS == nil {
		fmt.Fprintf(&out, "nobody knows when it would start: %s\n", words.Plain(p.Reason))
	} else {
		fmt.Fprintf(&out, "would start %s\n", startAndEnd(&p.Expected, now))
		if p.Reason != "" {
			fmt.Fprintf(&out, "%s\n", words.Plain(p.Reason))
		}
	}
	if p.Delayed > 0 || p.ExpectedInS != nil {
		delays(&out, "later", p.Delayed, p.Delays)
	}
	if s := p.Sooner; s != nil {
		fmt.Fprintf(&out, "with %s it would start %s", difference(job, s), inAbout(s.ExpectedInS))
		if s.ExpectedEndInS != nil {
			fmt.Fprintf(&out, " and end %s", inAbout(s.ExpectedEndInS))
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "if %s\n", words.Plain(p.Assumes))
	return out.String()
}

// difference says with which flags a smaller job differs from the one that it was made of.
func difference(job *clusterdoc.NewJob, s *clusterdoc.Sooner) string {
	switch {
	case len(s.On) > 0:
		return "--on " + words.Plain(strings.Join(s.On, ",")) + " as well"
	case s.Tasks > 0:
		return fmt.Sprintf("--tasks %d", s.Tasks)
	}
	text := fmt.Sprintf("--gpus %d", s.GPUs)
	if s.Nodes > 0 {
		text += fmt.Sprintf(" --nodes %d", s.Nodes)
	}
	return text + fmt.Sprintf(" and %d times its time", max(1, job.GPUs)/max(1, s.GPUs))
}

// ChangePreview says what --dry-run expects of a change of a job.
func ChangePreview(id string, p *clusterdoc.ChangePreview, now time.Time) string {
	var out strings.Builder
	for _, x := range []struct {
		format string
		e      *clusterdoc.Expected
	}{{id + " now %s\n", &p.Before}, {"with the change it %s\n", &p.After}} {
		text := "would start " + startAndEnd(x.e, now)
		switch {
		case x.e.ReasonCode == "held":
			text = words.Plain(x.e.Reason)
		case x.e.ExpectedInS == nil:
			text = "starts nobody knows when"
			if x.e.Reason != "" {
				text += ": " + words.Plain(x.e.Reason)
			}
		case *x.e.ExpectedInS == 0: // a plan says this of a job that runs, too
			text = "runs or starts " + startAndEnd(x.e, now)
		}
		fmt.Fprintf(&out, x.format, text)
	}
	delays(&out, "later", p.Delayed, p.Delays)
	delays(&out, "earlier", p.Advanced, p.Advances)
	fmt.Fprintf(&out, "if %s\n", words.Plain(p.Assumes))
	return out.String()
}

// startAndEnd says when a job is expected to start and to end.
func startAndEnd(e *clusterdoc.Expected, now time.Time) string {
	text := inAbout(e.ExpectedInS)
	if e.ExpectedEndInS != nil {
		text += " and end " + inAbout(e.ExpectedEndInS)
	}
	if e.EarliestEndInS != nil {
		text += ", not before " + notBefore(e.EarliestEndInS, now)
	}
	if e.Place > 0 {
		text += fmt.Sprintf("; place %d of those that wait", e.Place)
	}
	return text
}

// delays says which other jobs would end later or earlier.
func delays(out *strings.Builder, how string, n int, shown []*clusterdoc.Delay) {
	if n == 0 {
		fmt.Fprintf(out, "no job would end %s\n", how)
		return
	}
	fmt.Fprintf(out, "%s would end %s:", words.Count(n, "job"), how)
	for i, d := range shown[:min(len(shown), shownDelays)] {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, " %s by %s", d.Job, wholeUnits(d.ByS))
	}
	if n > shownDelays {
		out.WriteString(", …")
	}
	out.WriteByte('\n')
}
