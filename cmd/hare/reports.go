package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/serve/solves"
)

// kindFlag selects, in commands about solves, what else a server keeps of what it was asked.
type kindFlag string

const kindSolve kindFlag = "solve"

var keptKinds = []string{string(kindSolve), solves.KindWhatIf, solves.KindSimulation, solves.KindCapacity}

func (k *kindFlag) add(c *cobra.Command) {
	c.Flags().StringVar((*string)(k), "kind", string(kindSolve), "what to look for: "+strings.Join(keptKinds, ", "))
	choices(c, "kind", keptKinds...)
}

func (k kindFlag) check() error {
	if !slices.Contains(keptKinds, string(k)) {
		return usageError{fmt.Errorf("--kind %q: must be one of %s", string(k), strings.Join(keptKinds, ", "))}
	}
	return nil
}

// word is what people call one of the kind.
func (k kindFlag) word() string {
	if k == solves.KindCapacity {
		return "plan of capacity"
	}
	return string(k)
}

// plural is what people call several.
func (k kindFlag) plural() string {
	if k == solves.KindCapacity {
		return "plans of capacity"
	}
	return string(k) + "s"
}

// reports lists the reports of the kind that a server keeps.
func (k kindFlag) reports(ctx context.Context, r *remote, q url.Values) iter.Seq2[*client.StoredReport, error] {
	switch k {
	case solves.KindWhatIf:
		return r.WhatIfs(ctx, q)
	case solves.KindCapacity:
		return r.CapacityPlans(ctx, q)
	}
	return r.Simulations(ctx, q)
}

// list prints the list of reports of the kind.
func (k kindFlag) list(c *cobra.Command, r *remote, lf *listFlags) error {
	all, err := first(lf.limit, k.reports(c.Context(), r, lf.query()))
	if err != nil {
		return err
	}
	if lf.json {
		return printDocument(c.OutOrStdout(), map[string]any{"reports": all})
	}
	_, err = io.WriteString(c.OutOrStdout(), k.table(all, time.Now()))
	return err
}

func (k kindFlag) table(all []*client.StoredReport, now time.Time) string {
	if len(all) == 0 {
		return "no " + k.plural() + "\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tNAME\tSENT\tTOOK\tLABELS")
	for _, x := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s ago\t%s\t%s\n", x.ID, words.Plain(x.Name), wholeSeconds(now.Sub(x.Created)),
			tookReport(x), labelsOf(x.Labels))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

func tookReport(x *client.StoredReport) string {
	return words.Duration(x.Ended.Sub(x.Created).Round(10 * time.Millisecond).Microseconds())
}

// show prints what the server knows of a report.
func (k kindFlag) show(c *cobra.Command, r *remote, id string, asJSON bool) error {
	x, err := theOne(r, string(k), id, k.reports(c.Context(), r, url.Values{"q": {id}}),
		func(x *client.StoredReport) string { return x.ID })
	if err != nil {
		return err
	}
	if asJSON {
		return printDocument(c.OutOrStdout(), x)
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{k.word(), x.ID}, {"name", words.Plain(x.Name)}, {"labels", labelsOf(x.Labels)},
		{"sent", fmt.Sprintf("%s, %s ago", x.Created.Format(time.DateTime+" MST"), wholeSeconds(time.Since(x.Created)))},
		{"ran for", tookReport(x)}, {"answer", r.base + x.Links["self"]}, {"request", r.base + x.Links["request"]},
	} {
		if row[1] != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
		}
	}
	return w.Flush()
}

// theOne finds what begins with id in a list.
func theOne[T any](r *remote, what, id string, list iter.Seq2[T, error], idOf func(T) string) (found T, err error) {
	count := 0
	for x, err := range list {
		if err != nil {
			return found, err
		}
		if strings.HasPrefix(idOf(x), strings.ToLower(id)) {
			found = x
			count++
		}
	}
	switch count {
	case 0:
		list := "hare solves list"
		if what != string(kindSolve) {
			list += " --kind " + what
		}
		return found, usageError{fmt.Errorf("the server %s has no %s %s: %s shows them", r.base, what, words.Plain(id),
			list)}
	case 1:
		return found, nil
	}
	return found, usageError{fmt.Errorf("%s is the beginning of %s: give more of the ID", words.Plain(id),
		words.Count(count, what))}
}
