package kube

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hare-sched/hare/internal/words"
)

// Print prints what a loop did for people; kueue and write are those of Config.
func (r *Result) Print(w io.Writer, kueue, write bool) error {
	r = words.PlainNames(r)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if kueue {
		r.printWorkloads(w, t, write)
	} else {
		r.printJobs(w, t, write)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := true
	for _, j := range r.Waiting {
		if j.Why == "" {
			continue
		}
		if head {
			fmt.Fprintln(t, "waits\ton\tstarts in\twhy")
			head = false
		}
		start := "-"
		if j.StartS >= 0 {
			start = (time.Duration(j.StartS) * time.Second).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", j.Job, cmp.Or(strings.Join(j.Types, ","), "-"), start, j.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, reason := range r.Reasons() {
		if _, err := fmt.Fprintf(w, "left alone: %d, which %s\n", r.Left[reason], reason); err != nil {
			return err
		}
	}
	return nil
}

// printJobs shows the Jobs that were let go; t is a table below w.
func (r *Result) printJobs(w, t io.Writer, write bool) {
	verb := "would let go (--write does)"
	if write {
		verb = "let go"
	}
	if len(r.Freed) > 0 {
		verb := "would take back (--write does)"
		if write {
			verb = "took back"
		}
		fmt.Fprintf(w, "%s %s that cannot start where they were sent:\n", verb, words.Count(len(r.Freed), "Job"))
		for _, u := range r.Freed {
			fmt.Fprintf(w, "  %s from %s: %s\n", u.Job, u.Type, strings.TrimPrefix(u.Reason, "freed: "))
		}
	}
	fmt.Fprintf(w, "%s %d of %d suspended Jobs that take part\n", verb, len(r.Updates), len(r.Updates)+r.waiting())
	if len(r.Updates) > 0 {
		fmt.Fprintln(t, "Job\tGPU type\twhy")
	}
	for _, u := range r.Updates {
		fmt.Fprintf(t, "%s\t%s\t%s\n", u.Job, cmp.Or(u.Type, "-"), u.Reason)
	}
}

// printWorkloads shows the writes on Workloads.
func (r *Result) printWorkloads(w, t io.Writer, write bool) {
	verb := "would change (--write does)"
	if write {
		verb = "changed"
	}
	fmt.Fprintf(w, "%s a type or a priority %s; %s waiting, of those that take part\n", verb,
		words.Count(len(r.Updates), "time"), words.Count(len(r.Waiting), "Workload"))
	for _, why := range r.Unordered {
		fmt.Fprintf(w, "order left alone: %s\n", why)
	}
	if len(r.Updates) > 0 {
		fmt.Fprintln(t, "Workload\tfrom\tto\twhy")
	}
	for _, u := range r.Updates {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", u.Job, u.Old, u.New, u.Reason)
	}
}

// waiting counts the Jobs that wait on.
func (r *Result) waiting() (n int) {
	for _, t := range r.Waiting {
		if t.Why != "" {
			n++
		}
	}
	return n
}
