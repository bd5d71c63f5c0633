package slurm

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/hare-sched/hare/internal/words"
)

// Print prints what a loop did for people; write is that of Config.
func (r *Result) Print(w io.Writer, write bool) error {
	if _, err := fmt.Fprintf(w, "waiting entries of the queue: %d; %d take part\n", r.Waiting, r.Jobs); err != nil {
		return err
	}
	if err := PrintUpdates(w, r.Updates, write); err != nil || r.Left == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "%d further values follow in the next loops\n", r.Left)
	return err
}

// PrintUpdates prints a table of values that were written, or would have been.
func PrintUpdates(w io.Writer, updates []Update, write bool) error {
	verb := "would write (--write does)"
	if write {
		verb = "wrote"
	}
	if len(updates) == 0 {
		_, err := fmt.Fprintln(w, "nothing to write")
		return err
	}
	fmt.Fprintf(w, "%s %s:\n", verb, words.Count(len(updates), "value"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "job\tfield\told\tnew\twhy")
	for _, u := range words.PlainNames(updates) {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", u.Job, u.Field, cmp.Or(u.Old, "-"), cmp.Or(u.New, "-"), u.Reason)
	}
	return t.Flush()
}
