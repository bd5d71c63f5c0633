package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/words"
	solvetext "github.com/hare-sched/hare/solver/text"
)

// listFlags choose what a list of a server shows.
type listFlags struct {
	clusterFlags
	labels []string
	text   string
	limit  int
}

func (lf *listFlags) add(c *cobra.Command, what string) {
	lf.clusterFlags.add(c)
	c.Flags().StringArrayVar(&lf.labels, "label", nil, "only "+what+" with this label, NAME=VALUE, or NAME for any "+
		"value; may be given again")
	c.Flags().StringVar(&lf.text, "q", "", "only "+what+" whose id, name or label has this part")
	c.Flags().IntVar(&lf.limit, "limit", 50, "at most so many")
	positive(c, "limit")
}

func (lf *listFlags) query() url.Values {
	q := url.Values{}
	for _, l := range lf.labels {
		q.Add("label", l)
	}
	if lf.text != "" {
		q.Set("q", lf.text)
	}
	return q
}

func solvesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "solves",
		Short: "List, show, cancel and compare the solves of a server",
		Long: `A server keeps the solves that it was sent, with hare solve --server or over HTTP, for
seven days: their state, their plans and their proofs.`,
		Example: `  hare solve lab.json --server http://127.0.0.1:8080 --name tuesday --label team=vision
  hare solves list --label team=vision
  hare solves show 4f6k
  hare solves compare 4f6k 7qzt`,
	}
	c.AddCommand(solvesListCommand(), solvesShowCommand(), solvesCancelCommand(), solvesCompareCommand())
	return c
}

func solvesListCommand() *cobra.Command {
	var lf listFlags
	var kind kindFlag
	var status string
	states := []string{"queued", "running", hare.StatusSucceeded, hare.StatusCancelled, hare.StatusFailed}
	c := &cobra.Command{
		Use:   "list",
		Short: "List the solves of a server, the newest first",
		Long: `List prints the solves that the server keeps: their names, states and gaps. Other commands
take an ID, or as much of its beginning as no other has. With --kind it prints the what-ifs, the
simulations or the plans of capacity that the server keeps.`,
		Example: `  hare solves list
  hare solves list --kind simulation --q night
  hare solves list --label team=vision --q night --status running`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if status != "" && !slices.Contains(states, status) {
				return usageError{fmt.Errorf("--status %q: must be one of %s", status, strings.Join(states, ", "))}
			}
			if err := kind.check(); err != nil {
				return err
			}
			if kind != kindSolve && status != "" {
				return usageError{errors.New("--status is for solves: other kinds are kept once they are answered")}
			}
			return lf.onServer(c, func(r *remote) error {
				if kind != kindSolve {
					return kind.list(c, r, &lf)
				}
				q := lf.query()
				if status != "" {
					q.Set("status", status)
				}
				all, err := first(lf.limit, r.List(c.Context(), q))
				if err != nil {
					return err
				}
				if lf.json {
					return printDocument(c.OutOrStdout(), map[string]any{"solves": all})
				}
				_, err = io.WriteString(c.OutOrStdout(), solveTable(all, time.Now()))
				return err
			})
		},
	}
	lf.add(c, "solves")
	c.Flags().StringVar(&status, "status", "", "only solves in this state")
	choices(c, "status", states...)
	kind.add(c)
	return c
}

// first takes at most limit elements of a list that comes in pages.
func first[T any](limit int, list iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for x, err := range list {
		if err != nil {
			return nil, err
		}
		if len(all) == limit {
			break
		}
		all = append(all, x)
	}
	return all, nil
}

// solveTable is the table of hare solves list.
func solveTable(all []*client.Solve, now time.Time) string {
	if len(all) == 0 {
		return "no solves: hare solve FILE --server URL sends one\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tNAME\tSTATE\tSENT\tTOOK\tJOBS\tGPUS\tGAP\tLABELS")
	for _, s := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s ago\t%s\t%d\t%d\t%s\t%s\n", s.ID, words.Plain(s.Name), s.Status,
			wholeSeconds(now.Sub(s.Created)), tookOf(s, now), s.Jobs, s.GPUs, gapOf(s), labelsOf(s.Labels))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

func wholeSeconds(d time.Duration) string {
	return words.Duration(d.Round(time.Second).Microseconds())
}

// tookOf says for how long a solve ran, or has been running.
func tookOf(s *client.Solve, now time.Time) string {
	switch {
	case s.Started.IsZero():
		return "–"
	case s.Ended.IsZero():
		return wholeSeconds(now.Sub(s.Started))
	}
	return words.Duration(s.Ended.Sub(s.Started).Round(10 * time.Millisecond).Microseconds())
}

// gapOf writes the gap of a solve.
func gapOf(s *client.Solve) string {
	if s.Gap == nil {
		return "–"
	}
	return percentUp(*s.Gap)
}

// percentUp writes a fraction, which has six decimals, as percent, rounded up.
func percentUp(x float64) string {
	return fmt.Sprintf("%.2f %%", math.Ceil(math.Round(x*1e6)/1e2)/1e2)
}

// labelsOf writes labels as flags have them.
func labelsOf(labels map[string]string) string {
	var parts []string
	for name, value := range labels {
		parts = append(parts, words.Plain(name)+"="+words.Plain(value))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// solveOf finds the solve of an ID or of its beginning.
func solveOf(ctx context.Context, r *remote, id string) (*client.Solve, error) {
	s, err := r.Get(ctx, id)
	if no := (*client.Problem)(nil); !errors.As(err, &no) || no.Status != http.StatusNotFound {
		return s, err
	}
	return theOne(r, string(kindSolve), id, r.List(ctx, url.Values{"q": {id}}),
		func(s *client.Solve) string { return s.ID })
}

func solvesShowCommand() *cobra.Command {
	var cf clusterFlags
	var kind kindFlag
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a solve: its state, its gap and where its plan is",
		Long: `Show prints what the server knows of a solve, and the addresses of its Gantt chart, its
certificate and its result. With --kind it shows a what-if, a simulation or a plan of capacity,
whose answer a browser shows as a page.`,
		Example: `  hare solves show 4f6k
  hare solves show 5mz2 --kind what-if
  hare solves show 4f6k --json`,
		Args: exactly(1, "the ID of a solve"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := kind.check(); err != nil {
				return err
			}
			return cf.onServer(c, func(r *remote) error {
				if kind != kindSolve {
					return kind.show(c, r, args[0], cf.json)
				}
				s, err := solveOf(c.Context(), r, args[0])
				if err != nil {
					return err
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), s)
				}
				_, err = io.WriteString(c.OutOrStdout(), solveText(s, r.base, time.Now()))
				return err
			})
		},
	}
	cf.add(c)
	kind.add(c)
	return c
}

// solveText describes a solve.
func solveText(s *client.Solve, base string, now time.Time) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	row("solve", s.ID)
	row("name", words.Plain(s.Name))
	row("labels", labelsOf(s.Labels))
	state := s.Status
	switch {
	case s.QueuePosition > 0:
		state += ", number " + strconv.Itoa(s.QueuePosition) + " in the queue"
	case s.Error != "":
		state += ": " + words.Plain(s.Error)
	case s.Termination != "":
		state += " (" + solvetext.Stop(s.Termination) + ")"
	}
	row("state", state)
	row("sent", fmt.Sprintf("%s, %s ago", s.Created.Format(time.DateTime+" MST"), wholeSeconds(now.Sub(s.Created))))
	row("ran for", strings.TrimPrefix(tookOf(s, now), "–"))
	row("instance", fmt.Sprintf("%s on %s", words.Count(s.Jobs, "job"), words.Count(s.GPUs, "GPU")))
	if s.Gap != nil {
		row("gap", "at most "+gapOf(s)+" above the best possible plan")
	}
	if s.Links["gantt"] != "" {
		row("picture", base+strings.TrimSuffix(s.Links["gantt"], ".svg")+".html")
	}
	if s.Links["result"] != "" {
		row("result", base+s.Links["result"])
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

func solvesCancelCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:   "cancel ID…",
		Short: "Stop solves; each ends with its best plan so far",
		Long: `Cancel asks solves to stop. Each ends with the best certified plan that it has; one that
waits in the queue ends without.`,
		Example: `  hare solves cancel 4f6k`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("hare solves cancel takes the IDs of solves (see hare solves cancel --help)")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return cf.onServer(c, func(r *remote) error {
				for _, id := range args {
					s, err := solveOf(c.Context(), r, id)
					if err != nil {
						return err
					}
					if s.Done() {
						_, _ = fmt.Fprintf(c.ErrOrStderr(), "hare: solve %s has ended already\n", s.ID)
						continue
					}
					if _, err := r.Cancel(c.Context(), s.ID); err != nil {
						return err
					}
					_, _ = fmt.Fprintf(c.ErrOrStderr(), "hare: solve %s is being cancelled\n", s.ID)
				}
				return nil
			})
		},
	}
	cf.add(c)
	return c
}

func solvesCompareCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:   "compare ID ID",
		Short: "Say which of two solves has the better plan, and by how much for certain",
		Long: `Compare prints two solves beside each other. For the same instance the better of both bounds
holds for both plans, and so narrows the gap of either.`,
		Example: `  hare solves compare 4f6k 7qzt`,
		Args:    exactly(2, "the IDs of two solves"),
		RunE: func(c *cobra.Command, args []string) error {
			return cf.onServer(c, func(r *remote) error {
				var both [2]*client.Solve
				for i, id := range args {
					s, err := solveOf(c.Context(), r, id)
					if err != nil {
						return err
					}
					both[i] = s
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), map[string]any{"solves": both})
				}
				_, err := io.WriteString(c.OutOrStdout(), compareText(both[0], both[1], time.Now()))
				return err
			})
		},
	}
	cf.add(c)
	return c
}

// compareText compares two solves.
func compareText(a, b *client.Solve, now time.Time) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name string, of func(s *client.Solve) string) {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", name, of(a), of(b))
	}
	number := func(x *float64) string {
		if x == nil {
			return "–"
		}
		return words.Short(*x)
	}
	row("solve", func(s *client.Solve) string { return s.ID })
	row("name", func(s *client.Solve) string { return words.Plain(s.Name) })
	row("labels", func(s *client.Solve) string { return labelsOf(s.Labels) })
	row("state", func(s *client.Solve) string { return s.Status })
	row("took", func(s *client.Solve) string { return tookOf(s, now) })
	row("value", func(s *client.Solve) string { return number(s.Value) })
	row("bound", func(s *client.Solve) string { return number(s.Bound) })
	row("gap", gapOf)
	_ = w.Flush() // a strings.Builder takes everything
	switch {
	case a.InstanceSHA256 != b.InstanceSHA256:
		out.WriteString("They are of different instances: neither values nor bounds compare.\n")
	case a.Value == nil || b.Value == nil:
		out.WriteString("One of them has no plan yet.\n")
	default:
		out.WriteString("They are of the same instance. " + betterText(a, b))
	}
	return out.String()
}

// betterText says which plan of an instance is better, and how good both are by the better bound.
func betterText(a, b *client.Solve) string {
	if *a.Value > *b.Value {
		a, b = b, a
	}
	text := "Both plans are equally good.\n"
	if *a.Value < *b.Value {
		text = fmt.Sprintf("The plan of %s is better: that of %s has a value %.2f %% above it.\n", a.ID, b.ID,
			100*(*b.Value / *a.Value - 1))
	}
	bound := 0.0
	for _, s := range []*client.Solve{a, b} {
		if s.Bound != nil {
			bound = max(bound, *s.Bound)
		}
	}
	if bound <= 0 {
		return text
	}
	return text + fmt.Sprintf("No plan has a value below %s, so %s is at most %s above the best possible one, and %s at "+
		"most %s.\n", words.Short(bound), a.ID, percentUp(*a.Value/bound-1), b.ID, percentUp(*b.Value/bound-1))
}
