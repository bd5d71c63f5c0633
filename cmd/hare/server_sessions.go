package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/words"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

func sessionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, ask and delete the online sessions of a server",
		Long: `An online session takes events over HTTP and answers each with decisions. Managed clusters
have one each, which hare cluster delete removes.`,
		Example: `  hare sessions list --label team=vision
  hare sessions show 4f6k…
  hare sessions preview slurm job.json
  hare sessions delete 4f6k…`,
	}
	c.AddCommand(sessionsListCommand(), sessionsShowCommand(), sessionsPreviewCommand(), sessionsDeleteCommand())
	return c
}

func sessionsListCommand() *cobra.Command {
	var lf listFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the online sessions of a server, the oldest first",
		Long:    `List prints the sessions with their policies, GPUs at the beginning and last events.`,
		Example: `  hare sessions list --q night`,
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return lf.onServer(c, func(r *remote) error {
				all, err := first(lf.limit, r.Sessions(c.Context(), lf.query()))
				if err != nil {
					return err
				}
				if lf.json {
					return printDocument(c.OutOrStdout(), map[string]any{"sessions": all})
				}
				_, err = io.WriteString(c.OutOrStdout(), sessionTable(all, time.Now()))
				return err
			})
		},
	}
	lf.add(c, "sessions")
	return c
}

// sessionTable is the table of hare sessions list.
func sessionTable(all []*sessiondoc.Session, now time.Time) string {
	if len(all) == 0 {
		return "no sessions: POST /v1/sessions opens one, and so does a managed cluster\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tNAME\tPOLICY\tOPENED\tGPUS\tEVENTS\tLABELS")
	for _, s := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s ago\t%d\t%d\t%s\n", s.ID, words.Plain(s.Name), words.Plain(s.Policy),
			wholeSeconds(now.Sub(s.Created)), s.GPUs, s.LastSeq, labelsOf(s.Labels))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}

// sessionError says what a user can do about an error of a call that names a session.
func sessionError(r *remote, id string, err error) error {
	if no := (*client.Problem)(nil); errors.As(err, &no) && no.Status == http.StatusNotFound {
		return usageError{fmt.Errorf("the server %s has no session %s: hare sessions list shows them", r.base,
			words.Plain(id))}
	}
	return err
}

func sessionsShowCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a session: its policy, its clock and its state, as JSON",
		Long: `Show prints the document of the session: its configuration, its last event, and the state of
its policy.`,
		Example: `  hare sessions show 4f6k…`,
		Args:    exactly(1, "the ID of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			return cf.onServer(c, func(r *remote) error {
				s, err := r.Session(c.Context(), args[0])
				if err != nil {
					return sessionError(r, args[0], err)
				}
				return printDocument(c.OutOrStdout(), s)
			})
		},
	}
	cf.add(c)
	return c
}

func sessionsPreviewCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:   "preview ID JOB",
		Short: "Say when a job would start if it arrived at a session now",
		Long: `Preview says when a job would start and end if it arrived now and no other did, and which jobs
it would delay. Nothing is recorded, so that the queues of Slurm, Kubernetes and Ray that hare serve
--follow shows can be asked, too. JOB is the file of the job of an event job_arrived, or - for
standard input.`,
		Example: `  echo '{"id": "new", "tasks": 4, "sync": "rigid", "on": {"V100": {}}, "estimate_s": 3600}' |
    hare sessions preview slurm -`,
		Args: exactly(2, "the ID of a session and a job"),
		RunE: func(c *cobra.Command, args []string) error {
			job, err := readDocument(args[1], "a job", func(r io.Reader) (*hare.Job, error) {
				return wire.DecodeArrivingJob(r, wire.Limits{MaxBytes: maxFileBytes})
			})
			if err != nil {
				return err
			}
			return cf.onServer(c, func(r *remote) error {
				p, err := r.PreviewSessionJob(c.Context(), args[0], job)
				switch {
				case err != nil:
					return sessionError(r, args[0], err)
				case cf.json:
					return printDocument(c.OutOrStdout(), p)
				}
				asked := &clusterdoc.NewJob{GPUs: int(job.Tasks * job.TaskGPUs())}
				_, err = io.WriteString(c.OutOrStdout(), clustertext.Preview(asked, p, time.Now()))
				return err
			})
		},
	}
	cf.add(c)
	return c
}

func sessionsDeleteCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:     "delete ID",
		Short:   "End a session and remove its log",
		Long:    `Delete ends a session. Nothing of it is left: keep its log first (GET /v1/sessions/ID/log).`,
		Example: `  hare sessions delete 4f6k…`,
		Args:    exactly(1, "the ID of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			return cf.onServer(c, func(r *remote) error {
				if err := r.DeleteSession(c.Context(), args[0]); err != nil {
					return sessionError(r, args[0], err)
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), map[string]string{"deleted": args[0]})
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "session %s is deleted\n", words.Plain(args[0]))
				return err
			})
		},
	}
	cf.add(c)
	return c
}
