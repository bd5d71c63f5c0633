package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

type submitFlags struct {
	clusterFlags
	job          clusterdoc.NewJob
	directory    string
	perNode      int
	on           []string
	seconds      []string
	env          []string
	secretEnv    []string
	class        []string
	labels       []string
	weight       float64
	grace        time.Duration
	estimate     time.Duration
	key          string
	wait, follow bool
	dry          bool
}

func submitCommand() *cobra.Command {
	var sf submitFlags
	c := &cobra.Command{
		Use:   "submit [flags] -- COMMAND [ARGUMENT…] | submit [flags] --module NAME --directory DIR --rounds N",
		Short: "Run a command, or rounds of a Python module, on GPUs of a managed cluster",
		Long: `Submit hands a command to a managed cluster. The job waits until the cluster's policy
gives it GPUs; then the agents of their nodes start it. Submit prints the job's ID and
returns at once. The job is on the server's disk by then: it survives a crash of the
server, and the end of your terminal.

COMMAND is started as it is, without a shell: write sh -c '…' where you want one.
It runs in an empty directory of its own unless --dir names one, and must be on the
nodes: nothing is copied there.

Each GPU gets a process of its own, or each --gpus-per-task GPUs. All processes start
together and end together. They find the variables of torchrun (RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR, …), CUDA_VISIBLE_DEVICES, and HARE_CHECKPOINT_DIR, where what
they write outlives a restart. --env gives them variables of yours, which whoever may
submit jobs can read; tokens and passwords belong in --secret-env.

A command fails when a process ends with an exit code other than 0, or by a signal; the
others are ended then. It is started again --retries times. A start that is lost with
its node is repeated in any case, so that the command must be able to begin again or to
go on from its checkpoint.

--module submits a round job instead of a command: in each of --rounds rounds --tasks
tasks compute a gradient each; the gradients are summed in the order of the tasks, and
the optimiser makes one step (docs/use/run-jobs.md#round-jobs). The tasks go to whichever GPUs of the
cluster the policy gives, task by task: types mix, and jobs share GPUs round by round.
With --gpus, on one node or on --nodes, the job has GPUs of its own until its end. The
job goes on from its last checkpoint when it is started again.

--dry-run submits nothing: it says when the job would start and end if no other job came,
and which jobs would end later for it.

Exit codes: 0 submitted, or with --wait and --follow succeeded; 1 the job failed or was
cancelled, or Ctrl-C came first (the job goes on); 2 wrong use.`,
		Example: `  hare submit --cluster lab -- python train.py --epochs 3
  hare submit --gpus 2 --on V100,T4 --name bert --follow -- python train.py
  hare submit --gpus 16 --nodes 2 --gpus-per-task 8 -- torchrun-less-train.sh
  hare submit --seconds V100=3600,T4=9000 --retries 3 --checkpoint-dir /shared/bert -- python train.py
  ID=$(hare submit --gpus 1 -- sleep 60)
  hare submit --module line --directory executor/python/examples --rounds 4 --tasks 8
  hare submit --module line --directory executor/python/examples --rounds 4 --gpus 2`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && sf.job.Module != "":
				return usageError{fmt.Errorf("hare submit takes a command or --module, and not both: leave %q out", args[0])}
			case len(args) == 0 && sf.job.Module == "":
				return usageError{errors.New("hare submit needs a command after --, as in: hare submit --gpus 1 -- python " +
					"train.py (see hare submit --help)")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			sf.job.Command = args
			return sf.run(c)
		},
	}
	sf.addCluster(c)
	f := c.Flags()
	f.SetInterspersed(false) // flags after the command are the command's
	f.StringVar(&sf.job.Name, "name", "", "what to call the job (default: its command)")
	f.StringVar(&sf.job.User, "user", "", "whose job it is, for hare jobs --user")
	f.StringArrayVar(&sf.labels, "label", nil, "a label for hare jobs --label, as in team=vision; may be repeated")
	f.StringVar(&sf.job.Module, "module", "", "Python module of a round job, without .py")
	f.StringVar(&sf.directory, "directory", "",
		"directory on the nodes that has the module; a relative path is taken from here")
	f.Int64Var(&sf.job.Rounds, "rounds", 0, "rounds of a round job")
	f.IntVar(&sf.job.Tasks, "tasks", 0, "tasks of a round (default: as many as --gpus, or 1)")
	f.StringVar(&sf.job.Sync, "sync", "", "relaxed: a task of a round runs on any GPU of the types of --on, and "+
		"jobs share these GPUs; rigid: on whichever is free of the job's own GPUs; gang: task i on GPU i (default relaxed, "+
		"or rigid with --gpus or --nodes)")
	f.Int64Var(&sf.job.Seed, "seed", 0, "seed of the first parameters and of all tasks of a round job")
	f.IntVar(&sf.job.GPUs, "gpus", 1, "GPUs in all; a relaxed round job has none of its own")
	f.IntVar(&sf.job.Nodes, "nodes", 0, "spread the GPUs equally over this many nodes")
	f.IntVar(&sf.perNode, "gpus-per-node", 0, "spread the GPUs over nodes, this many on each")
	f.IntVar(&sf.job.GPUsPerTask, "gpus-per-task", 0, "GPUs of one process, all on one node (default 1)")
	f.StringSliceVar(&sf.on, "on", nil, "the GPU types that will do, as in V100,T4 (default: all of the cluster)")
	f.StringSliceVar(&sf.seconds, "seconds", nil,
		"how many seconds the job takes by type, as in V100=3600,T4=9000: a command, a round of a rigid or gang round job, "+
			"a task of a relaxed one; a type that --on lacks is added")
	f.StringArrayVar(&sf.env, "env", nil, "a variable of the job's environment, as in NAME=VALUE; NAME alone takes yours")
	f.StringArrayVar(&sf.secretEnv, "secret-env", nil, "NAME of a variable of your environment that the job gets, and "+
		"that nobody is shown: for tokens")
	f.StringVar(&sf.job.Directory, "dir", "", "working directory on the nodes (default: an empty one)")
	f.StringVar(&sf.job.CheckpointDirectory, "checkpoint-dir", "",
		"directory for checkpoints that the nodes share (default: one of the job on the node)")
	f.IntVar(&sf.job.Retries, "retries", 0, "how often to start the job again after it has failed")
	f.DurationVar(&sf.grace, "grace", 10*time.Second, "time between SIGTERM and SIGKILL, as in 30s")
	f.DurationVar(&sf.estimate, "estimate", 0, "how long you expect the job to run, as in 2h: a hint, never a limit")
	f.StringArrayVar(&sf.class, "class", nil,
		"a label of jobs whose durations are alike, as in user=ann; may be repeated")
	f.Float64Var(&sf.weight, "weight", 1, "weight of the job's completion time")
	f.StringVar(&sf.key, "idempotency-key", "",
		"a name of this submission: given again, it gives the same job and no second one")
	f.BoolVar(&sf.wait, "wait", false, "wait for the end of the job")
	f.BoolVar(&sf.follow, "follow", false, "print what the job prints in all its attempts, and wait for its end")
	f.BoolVar(&sf.dry, "dry-run", false, "submit nothing: say when the job would start, whom it would "+
		"delay, and which smaller job would start sooner")
	anyValue(c, "seed")
	choices(c, "sync", ledger.SyncRelaxed, ledger.SyncRigid, ledger.SyncGang)
	_ = c.MarkFlagDirname("directory")
	positive(c, "rounds", "tasks", "gpus", "nodes", "gpus-per-node", "gpus-per-task", "estimate", "weight")
	_ = c.MarkFlagDirname("dir") // cannot fail: the flag exists
	_ = c.MarkFlagDirname("checkpoint-dir")
	return c
}

func (sf *submitFlags) run(c *cobra.Command) error {
	if err := sf.fill(c); err != nil {
		return usageError{err}
	}
	if sf.json && sf.follow {
		return usageError{errors.New("--follow prints what the job prints: take --wait with --json")}
	}
	for _, name := range []string{"wait", "follow", "idempotency-key"} {
		if sf.dry && c.Flags().Changed(name) {
			return usageError{fmt.Errorf("--dry-run submits nothing: leave --%s out", name)}
		}
	}
	ctx := c.Context()
	r, err := sf.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	if sf.dry {
		return sf.preview(ctx, r, c.OutOrStdout())
	}
	job, err := r.SubmitJob(ctx, sf.cluster, &sf.job, sf.key)
	if err != nil {
		return sf.clusterError(r, err)
	}
	sf.noteNewCluster(ctx, r, job.ID, c.ErrOrStderr())
	follow := sf.wait || sf.follow
	switch {
	case sf.json && !follow:
		return printDocument(c.OutOrStdout(), job)
	case !follow:
		_, err = fmt.Fprintln(c.OutOrStdout(), job.ID)
		return err
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "hare: job %s is submitted to cluster %s\n", job.ID, sf.cluster)
	l := logFlags{clusterFlags: sf.clusterFlags, follow: true}
	if sf.follow {
		err = l.copy(ctx, r, job.ID, 1, c.OutOrStdout(), c.ErrOrStderr())
	}
	if err == nil {
		job, err = sf.waitFor(ctx, r, job.ID)
	}
	if err != nil {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintf(c.ErrOrStderr(), "hare: job %s goes on: hare logs --follow %s shows its output, hare cancel %s "+
				"ends it\n", job.ID, job.ID, job.ID)
			return errNo
		}
		return sf.clusterError(r, err)
	}
	return sf.ended(c.OutOrStdout(), c.ErrOrStderr(), job)
}

// preview says what would come of the job.
func (sf *submitFlags) preview(ctx context.Context, r *remote, out io.Writer) error {
	p, err := r.PreviewJob(ctx, sf.cluster, &sf.job, true)
	switch {
	case err != nil:
		return sf.clusterError(r, err)
	case sf.json:
		return printDocument(out, p)
	}
	_, err = io.WriteString(out, clustertext.Preview(&sf.job, p, time.Now()))
	return err
}

// noteNewCluster says that the first job of a cluster without agents is the cluster's first, where the server has
// others: the name may be mistyped.
func (sf *submitFlags) noteNewCluster(ctx context.Context, r *remote, job string, w io.Writer) {
	if job != "j1" {
		return
	}
	all, err := r.Clusters(ctx)
	if err != nil {
		return // the job is submitted all the same
	}
	var others []string
	for _, c := range all {
		switch {
		case c.Name != sf.cluster:
			others = append(others, c.Name)
		case c.Agents > 0:
			return
		}
	}
	if len(others) > 0 {
		_, _ = fmt.Fprintf(w, "hare: cluster %s is new and has no agent; the server also has %s\n", sf.cluster,
			strings.Join(others[:min(5, len(others))], ", "))
	}
}

// fill turns flags into fields of the job.
func (sf *submitFlags) fill(c *cobra.Command) (err error) {
	j, given := &sf.job, c.Flags().Changed
	if err := sf.fillRounds(given); err != nil {
		return err
	}
	if len(sf.on) > 0 || len(sf.seconds) > 0 {
		j.On = map[string]float64{}
	}
	for _, t := range sf.on {
		if strings.Contains(t, "=") {
			return fmt.Errorf("--on %s: only names of GPU types: give seconds by --seconds %s", t, t)
		}
		if name, number, found := strings.Cut(t, ":"); found {
			if _, err := strconv.Atoi(number); err == nil {
				return fmt.Errorf("--on %s: only names of GPU types: write --gpus %s --on %s", t, number, name)
			}
		}
		j.On[t] = 0
	}
	for _, text := range sf.seconds {
		t, number, _ := strings.Cut(text, "=")
		s, err := strconv.ParseFloat(number, 64)
		if err != nil || t == "" || !(s > 0) || math.IsInf(s, 0) {
			return fmt.Errorf("--seconds %s: must be a GPU type and a positive number of seconds, as in V100=3600", text)
		}
		j.On[t] = s
	}
	if sf.perNode > 0 {
		if j.GPUs%sf.perNode != 0 {
			return fmt.Errorf("--gpus-per-node %d: %d GPUs are not a multiple of it: change --gpus", sf.perNode, j.GPUs)
		}
		if n := j.GPUs / sf.perNode; j.Nodes != 0 && j.Nodes != n {
			return fmt.Errorf("--gpus-per-node %d: %d GPUs are on %d nodes then, not on %d: leave --nodes out", sf.perNode,
				j.GPUs, n, j.Nodes)
		}
		j.Nodes = j.GPUs / sf.perNode
	}
	if j.Env, err = pairs("--env", sf.env, os.LookupEnv); err != nil {
		return err
	}
	if j.SecretEnv, err = secrets(sf.secretEnv, os.LookupEnv); err != nil {
		return err
	}
	if j.Class, err = pairs("--class", sf.class, nil); err != nil {
		return err
	}
	if j.Labels, err = pairs("--label", sf.labels, nil); err != nil {
		return err
	}
	if given("weight") {
		j.Weight = &sf.weight
	}
	if given("grace") {
		s := sf.grace.Seconds()
		j.GraceS = &s
	}
	if given("estimate") {
		s := sf.estimate.Seconds()
		j.EstimateS = &s
	}
	return nil
}

// fillRounds fills in what a round job needs.
func (sf *submitFlags) fillRounds(given func(string) bool) (err error) {
	j := &sf.job
	if j.Module == "" {
		for _, name := range []string{"directory", "rounds", "tasks", "sync", "seed"} {
			if given(name) {
				return fmt.Errorf("--%s belongs to a round job: give --module, too", name)
			}
		}
		return nil
	}
	if !given("gpus") && !given("gpus-per-node") && (j.Sync == "" && j.Nodes == 0 || j.Sync == ledger.SyncRelaxed) {
		j.GPUs = 0 // a relaxed job has none of its own
	}
	if j.Sync == ledger.SyncRelaxed {
		for _, name := range []string{"gpus", "nodes", "gpus-per-node", "gpus-per-task"} {
			if given(name) {
				return fmt.Errorf("--sync relaxed: the job shares the GPUs of the cluster round by round: leave --%s out, or "+
					"take --sync rigid for GPUs of its own", name)
			}
		}
	}
	switch {
	case given("directory") && given("dir"):
		return errors.New("--dir and --directory name the same: leave --dir out")
	case given("directory"):
		if j.Directory, err = filepath.Abs(sf.directory); err == nil && !utf8.ValidString(j.Directory) {
			return notUTF8("--directory, below this working directory,")
		}
	case !given("dir"):
		return errors.New("--module needs --directory: the directory on the nodes that has the module")
	}
	if j.Rounds == 0 {
		return errors.New("--module needs --rounds: how many rounds to train")
	}
	return err
}

// pairs reads NAME=VALUE texts; lookup, where not nil, gives the value of a NAME alone.
func pairs(flag string, texts []string, lookup func(string) (string, bool)) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		if !found && lookup != nil && name != "" {
			if value, found = lookup(name); !found {
				return nil, fmt.Errorf("%s %s: your environment has no such variable: write %s=VALUE", flag, name, name)
			}
			if !utf8.ValidString(value) {
				return nil, notUTF8(flag + " " + name + ": the value in your environment")
			}
		}
		if !found || name == "" {
			return nil, fmt.Errorf("%s %q: must be NAME=VALUE", flag, text)
		}
		if old, twice := all[name]; twice && old != value {
			return nil, fmt.Errorf("%s %s is given twice, with different values", flag, name)
		}
		all[name] = value
	}
	return all, nil
}

// secrets takes variables from the environment. Their values do not stand on the command line, which every user of the
// machine can read.
func secrets(names []string, lookup func(string) (string, bool)) (map[string]string, error) {
	for _, text := range names {
		name, _, found := strings.Cut(text, "=")
		if _, known := lookup(name); !found && !known {
			return nil, fmt.Errorf("--secret-env %s: your environment has no such variable: set it there", name)
		}
		if found {
			return nil, fmt.Errorf("--secret-env %s: every user of the machine can read a value on the command line: set %s "+
				"in your environment, and give its name alone", name, name)
		}
	}
	return pairs("--secret-env", names, lookup)
}

// waitFor waits until a job has ended.
func (cf *clusterFlags) waitFor(ctx context.Context, r *remote, id string) (*clusterdoc.Job, error) {
	return poll(ctx, func() (*clusterdoc.Job, bool, error) {
		job, err := r.ClusterJob(ctx, cf.cluster, id)
		return job, err == nil && job.State.Final(), err
	})
}

// poll asks again and again, less and less often, until the answer is final, asking fails, or ctx ends.
func poll[T any](ctx context.Context, ask func() (answer T, final bool, err error)) (T, error) {
	for pause := 100 * time.Millisecond; ; pause = min(pause*3/2, 2*time.Second) {
		answer, final, err := ask()
		if err == nil && !final {
			err = rest(ctx, pause)
		}
		if err != nil || final {
			return answer, err
		}
	}
}

// rest waits for a while, or until ctx ends, which is an error.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ended says how a job ended, and returns errNo where it did not succeed.
func (cf *clusterFlags) ended(out, errs io.Writer, job *clusterdoc.Job) error {
	if cf.json {
		if err := printDocument(out, job); err != nil {
			return err
		}
	} else {
		_, _ = fmt.Fprintf(errs, "hare: job %s %s\n", job.ID, clustertext.Outcome(job))
	}
	if job.State != clusterdoc.JobSucceeded {
		return errNo
	}
	return nil
}
