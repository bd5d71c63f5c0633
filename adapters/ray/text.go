package ray

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/hare-sched/hare/internal/words"
)

// PrintStarts prints a table of jobs that were submitted, or would have been.
func PrintStarts(w io.Writer, starts []Start, write bool) error {
	if len(starts) == 0 {
		_, err := fmt.Fprintln(w, "nothing to submit")
		return err
	}
	verb := "would submit (--write does)"
	if write {
		verb = "submitted"
	}
	fmt.Fprintf(w, "%s %s:\n", verb, words.Count(len(starts), "job"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "job\tname\tGPUs\ttype\tnode\twhy")
	for _, s := range words.PlainNames(starts) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", s.Job, cmp.Or(s.Name, "-"), s.GPUs, cmp.Or(s.Type, "-"),
			cmp.Or(s.Node, "-"), s.Reason)
	}
	return t.Flush()
}

// PrintJobs prints a table of jobs.
func PrintJobs(w io.Writer, entries []*Entry, now time.Time) error {
	entries = words.PlainNames(entries)
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "no jobs")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "job\tname\tuser\tGPUs\tstate\ttype\tnode\twaited\tran\tlast change")
	for _, e := range entries {
		until := now.UnixMicro()
		if e.State.Ended() {
			until = e.EndUs
		}
		waited, ran := until-e.SubmitUs, int64(0)
		if e.StartUs > 0 {
			waited, ran = e.StartUs-e.SubmitUs, until-e.StartUs
		}
		state := string(e.State)
		if e.Cancel && !e.State.Ended() {
			state += ", being stopped"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, cmp.Or(e.Spec.Name, "-"),
			cmp.Or(e.Spec.User, "-"), e.Spec.GPUs, state, cmp.Or(e.Type, "-"), cmp.Or(e.Node, "-"), shortTime(waited),
			shortTime(ran), cmp.Or(e.Reason, "-"))
	}
	return t.Flush()
}

func shortTime(us int64) string {
	return (time.Duration(max(0, us)) * time.Microsecond).Round(time.Second).String()
}
