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

// Preview says what hare submit --dry-run expects of a job.
func Preview(p *clusterdoc.Preview, now time.Time) string {
	var out strings.Builder
	if p.ExpectedInS == nil {
		fmt.Fprintf(&out, "nobody knows when it would start: %s\n", words.Plain(p.Reason))
	} else {
		fmt.Fprintf(&out, "would start %s", inAbout(p.ExpectedInS))
		if p.ExpectedEndInS != nil {
			fmt.Fprintf(&out, " and end %s", inAbout(p.ExpectedEndInS))
		}
		if p.EarliestEndInS != nil {
			fmt.Fprintf(&out, ", not before %s", notBefore(p.EarliestEndInS, now))
		}
		if p.Place > 0 {
			fmt.Fprintf(&out, "; place %d of those that wait", p.Place)
		}
		out.WriteByte('\n')
		if p.Reason != "" {
			fmt.Fprintf(&out, "%s\n", words.Plain(p.Reason))
		}
	}
	switch {
	case p.Delayed > 0:
		fmt.Fprintf(&out, "%s would end later:", words.Count(p.Delayed, "job"))
		for i, d := range p.Delays[:min(len(p.Delays), shownDelays)] {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, " %s by %s", d.Job, wholeUnits(d.ByS))
		}
		if p.Delayed > shownDelays {
			out.WriteString(", …")
		}
		out.WriteByte('\n')
	case p.ExpectedInS != nil:
		out.WriteString("no job would end later\n")
	}
	fmt.Fprintf(&out, "if %s\n", words.Plain(p.Assumes))
	return out.String()
}
