package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func stateNames() []string {
	names := make([]string, len(clusterdoc.JobStates()))
	for i, s := range clusterdoc.JobStates() {
		names[i] = string(s)
	}
	return names
}

type jobsFlags struct {
	clusterFlags
	once  bool
	state string
	query clusterdoc.JobQuery
}

func jobsCommand() *cobra.Command {
	var jf jobsFlags
	c := &cobra.Command{
		Use:   "jobs [ID]",
		Short: "Show the jobs of a managed cluster, or one job with its attempts",
		Long: `Jobs shows the jobs of a cluster, the oldest first: what each waits for, where it runs,
how it ended. With an ID it shows one job: each of its attempts with nodes, GPUs, exit
codes, and the line that says why it waits or failed.

Where the policy plans, STARTS is when a job is expected to start, if no other job comes,
PLACE is how many waiting jobs start no later, and ENDS NOT BEFORE is proved for the times
that the job states or is believed to take.

On a terminal the table is drawn again each second, until Ctrl-C or until nothing changes
any more; --once, a pipe and --json print it once.

Of more than 1,000 jobs, those that have not ended are shown; --state names others.

States: waiting (for GPUs), starting (its processes are being started), running,
stopping (its processes have been asked to end), succeeded, failed, cancelled.`,
		Example: `  hare jobs
  hare jobs j7
  hare jobs --cluster lab --state failed --once
  hare jobs --user ann --label team=vision --sort -weight
  hare jobs --json | jq '.jobs[] | select(.state == "waiting") | .reason'`,
		Args: atMostOne("an ID of a job"),
		RunE: func(c *cobra.Command, args []string) error { return jf.run(c, args) },
	}
	jf.addCluster(c)
	c.Flags().BoolVar(&jf.once, "once", false, "print once, also on a terminal")
	c.Flags().StringVar(&jf.state, "state", "", "show only the jobs of this state")
	choices(c, "state", stateNames()...)
	c.Flags().StringVar(&jf.query.User, "user", "", "show only the jobs of this user")
	c.Flags().StringVar(&jf.query.Name, "name", "", "show only jobs whose name has this part")
	c.Flags().StringVar(&jf.query.Type, "type", "", "show only jobs that may run, or run, on this GPU type")
	c.Flags().StringArrayVar(&jf.query.Labels, "label", nil,
		"show only jobs with this label, as in team=vision, or team for any value; may be repeated")
	c.Flags().StringVar(&jf.query.Sort, "sort", "", "sort by "+strings.Join(clusterdoc.JobSorts(), ", ")+
		"; - in front turns the order around (default submitted)")
	return c
}

func (jf *jobsFlags) run(c *cobra.Command, args []string) error {
	if jf.state != "" && !slices.Contains(stateNames(), jf.state) {
		return usageError{fmt.Errorf("--state %q: must be one of %s", jf.state, strings.Join(stateNames(), ", "))}
	}
	if sort := strings.TrimPrefix(jf.query.Sort, "-"); sort != "" && !slices.Contains(clusterdoc.JobSorts(), sort) {
		return usageError{fmt.Errorf("--sort %q: must be one of %s, with - in front for the other direction",
			jf.query.Sort, strings.Join(clusterdoc.JobSorts(), ", "))}
	}
	for _, name := range []string{"state", "user", "name", "type", "label", "sort"} {
		if len(args) == 1 && c.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s is for the list: leave the ID out", name)}
		}
	}
	if jf.state != "" {
		jf.query.States = []clusterdoc.JobState{clusterdoc.JobState(jf.state)}
	}
	r, err := jf.open(c.Context())
	if err != nil {
		return err
	}
	defer r.Close()
	if len(args) == 1 {
		err = jf.showJob(c.Context(), r, args[0], jf.once, c.OutOrStdout())
	} else {
		err = jf.showJobs(c.Context(), r, jf.query, jf.once, c.OutOrStdout())
	}
	if err == nil || c.Context().Err() != nil {
		return err
	}
	return jf.jobError(r, strings.Join(args, ""), err)
}

// atMostOne is exactly, for one argument that may be left out.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{fmt.Errorf("%s takes at most %s, got %d arguments (see %s --help)", c.CommandPath(), name,
				len(args), c.CommandPath())}
		}
		return nil
	}
}

// mostShown is the number of jobs up to which the table has those that have ended.
const mostShown = 1000

// collect returns the jobs to show. left counts the jobs that are left out.
func (cf *clusterFlags) collect(ctx context.Context, r *remote, q clusterdoc.JobQuery, all bool) (
	jobs []*clusterdoc.Job, cluster *clusterdoc.Cluster, left int, err error) {
	if cluster, err = r.Cluster(ctx, cf.cluster); err != nil {
		return nil, nil, 0, err
	}
	total := 0
	for _, n := range cluster.Jobs {
		total += n
	}
	whole := len(q.Values()) == 0 || len(q.Values()) == 1 && q.Sort != ""
	if len(q.States) == 0 && total > mostShown && !all {
		q.States = slices.DeleteFunc(clusterdoc.JobStates(), clusterdoc.JobState.Final)
	}
	for job, err := range r.ClusterJobs(ctx, cf.cluster, q) {
		if err != nil {
			return nil, nil, 0, err
		}
		jobs = append(jobs, job)
	}
	if whole {
		left = total - len(jobs)
	}
	return jobs, cluster, max(0, left), nil
}

func (cf *clusterFlags) showJobs(ctx context.Context, r *remote, q clusterdoc.JobQuery, once bool,
	out io.Writer) error {
	if cf.json {
		jobs, _, _, err := cf.collect(ctx, r, q, true)
		if err != nil {
			return err
		}
		if jobs == nil {
			jobs = []*clusterdoc.Job{}
		}
		return printDocument(out, clusterdoc.JobList{Jobs: jobs, Total: len(jobs)})
	}
	return showLive(ctx, out, once, func(height int) (string, bool, error) {
		jobs, cluster, left, err := cf.collect(ctx, r, q, false)
		if err != nil {
			return "", false, err
		}
		if room := height - 3; height > 0 {
			left += max(0, len(jobs)-room)
			if q.Sort == "" {
				jobs = latest(jobs, room)
			}
			jobs = jobs[:min(len(jobs), max(room, 1))]
		}
		unended := slices.ContainsFunc(jobs, func(j *clusterdoc.Job) bool { return !j.State.Final() })
		return clustertext.Jobs(cluster, jobs, left, time.Now()), !unended, nil
	})
}

// latest keeps as many jobs as there is room for: first those that have not ended, then the latest.
func latest(jobs []*clusterdoc.Job, room int) []*clusterdoc.Job {
	for _, drop := range []bool{true, false} {
		for i := 0; i < len(jobs) && len(jobs) > max(room, 1); {
			if jobs[i].State.Final() == drop {
				jobs = slices.Delete(jobs, i, i+1)
			} else {
				i++
			}
		}
	}
	return jobs
}

// showJob shows one job.
func (cf *clusterFlags) showJob(ctx context.Context, r *remote, id string, once bool, out io.Writer) error {
	if cf.json {
		job, err := r.ClusterJob(ctx, cf.cluster, id)
		if err != nil {
			return err
		}
		return printDocument(out, job)
	}
	return showLive(ctx, out, once, func(int) (string, bool, error) {
		job, err := r.ClusterJob(ctx, cf.cluster, id)
		if err != nil {
			return "", false, err
		}
		return clustertext.Job(job, time.Now()), job.State.Final(), nil
	})
}
