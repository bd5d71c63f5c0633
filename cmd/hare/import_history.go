package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

type historyFlags struct {
	since, until, zone, speeds, at string
	now                            bool
	assume                         time.Duration
	typeLabel                      string
	anyType                        bool
	kubectl                        [3]string // --kubeconfig, --context, --server
	address                        string    // of Ray's dashboard
	gpus                           string    // of clusters whose nodes are in no text
	processors                     int64     // of the Standard Workload Format, per GPU
	cfg                            history.Config
}

func (hf *historyFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&hf.since, "since", "", "from when: a time such as 2026-11-15 or 2026-11-15T08:00, or a time before the "+
		"end of the log such as 7d or 36h (default: the first job)")
	f.StringVar(&hf.until, "until", "", "leave out jobs submitted from this time on, as --since")
	f.StringVar(&hf.zone, "zone", "UTC", "time zone of times that name none, such as Europe/Berlin or Local")
	f.StringVar(&hf.speeds, "speeds", "", "relative speeds of GPU types, e.g. v100=1,t4=0.4 (default: what the log "+
		"shows, then what Hare brings along)")
	f.StringVar(&hf.cfg.Weights, "weights", "one", "weights of jobs: one, share (each user weighs the same in all) or "+
		"slowdown (a job weighs the inverse of its least time)")
	f.BoolVar(&hf.cfg.GPUsOnly, "gpus-only", false, "leave out CPUs and memory")
	f.BoolVar(&hf.cfg.Dependencies, "dependencies", false, "keep what jobs waited for (simulations refuse after)")
	f.BoolVar(&hf.cfg.Reservations, "reservations", false, "keep reservations (simulations refuse them)")
	choices(c, "weights", "one", "share", "slowdown")
}

// addNow adds the flags for what runs and waits now.
func (hf *historyFlags) addNow(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&hf.now, "now", false, "make the instance of what runs and waits now, for planning: running jobs with "+
		"their progress, and waiting jobs")
	f.StringVar(&hf.at, "at", "", "with --now: the time for which files say what runs and waits (default: the last "+
		"time in them)")
	f.DurationVar(&hf.assume, "assume", time.Hour, "with --now: how long jobs take about which nothing is known")
	positive(c, "assume")
}

// addTables adds the flags of tables that do not say where jobs ran.
func (hf *historyFlags) addTables(c *cobra.Command, source string) {
	f := c.Flags()
	f.StringVar(&hf.gpus, "gpus", "", "the cluster of a table that does not say where jobs ran, where no table of "+
		"nodes is given, e.g. A100=2048")
	if source == "swf" {
		f.Int64Var(&hf.processors, "processors-per-gpu", 1, "how many processors count as one GPU")
		positive(c, "processors-per-gpu")
	}
}

// addKube adds the flags of Kubernetes.
func (hf *historyFlags) addKube(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&hf.typeLabel, "type-label", "", "label of nodes that names their GPU type (default: the first of "+
		strings.Join(history.TypeLabels, ", ")+")")
	f.StringVar(&hf.kubectl[0], "kubeconfig", "", "without files: the configuration of kubectl (default: kubectl's own)")
	f.StringVar(&hf.kubectl[1], "context", "", "without files: the context of kubectl")
	f.StringVar(&hf.kubectl[2], "server", "", "without files: the address of the API server")
}

// kubectlArguments returns the flags that kubectl takes over.
func (hf *historyFlags) kubectlArguments() (args []string) {
	for i, name := range []string{"--kubeconfig=", "--context=", "--server="} {
		if hf.kubectl[i] != "" {
			args = append(args, name+hf.kubectl[i])
		}
	}
	return args
}

// read reads the texts of a cluster and fills in the configuration that depends on them.
func (hf *historyFlags) read(source string, names []string) (*history.Log, error) {
	zone, err := time.LoadLocation(hf.zone)
	if err != nil {
		return nil, usageError{fmt.Errorf("--zone %.60q is not a time zone: write UTC, Local or a name such as "+
			"Europe/Berlin", hf.zone)}
	}
	var texts []trace.Source
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, usageError{fmt.Errorf("%s is given twice", name)}
		}
	}
	for _, name := range names {
		f, err := openIn(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		texts = append(texts, trace.Source{Name: name, R: f})
	}
	cfg := history.ReadConfig{Zone: zone, TypeLabel: hf.typeLabel, ProcessorsPerGPU: hf.processors,
		AnyType: hf.anyType}
	if hf.gpus != "" {
		if cfg.GPUs, err = trace.ParseGPUs(hf.gpus); err != nil {
			return nil, usageError{fmt.Errorf("--gpus: %w", err)}
		}
	}
	log, err := history.Read(source, texts, cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return log, hf.configure(log, zone)
}

// fetch reads files, or asks the cluster where no files are given.
func (hf *historyFlags) fetch(ctx context.Context, source string, names []string) (*history.Log, error) {
	switch known := slices.Concat(history.Sources, history.PublicSources); {
	case !slices.Contains(known, source):
		return nil, usageError{fmt.Errorf("unknown source %.60q%s It must be one of %s", source,
			cmp.Or(hare.Guess(source, known), "."), strings.Join(known, ", "))}
	case len(names) > 0:
		return hf.read(source, names)
	case source == "slurm" || source == "kube" || source == "ray":
		return hf.readLive(ctx, source)
	}
	return nil, usageError{fmt.Errorf("import %s takes the files to read: see hare import %s --help", source, source)}
}

// readLive asks the cluster itself.
func (hf *historyFlags) readLive(ctx context.Context, source string) (*history.Log, error) {
	since, err := sinceTime(cmp.Or(hf.since, "7d"), time.Now().UnixMicro(), time.UTC)
	if err != nil {
		return nil, usageError{fmt.Errorf("--since: %w", err)}
	}
	log, err := history.ReadLive(ctx, source, history.LiveConfig{Since: time.UnixMicro(since), Now: hf.now,
		Arguments: hf.kubectlArguments(), Address: hf.address, Read: history.ReadConfig{TypeLabel: hf.typeLabel}})
	if err != nil {
		return nil, err
	}
	return log, hf.configure(log, time.UTC)
}

// configure fills in the configuration that depends on the log.
func (hf *historyFlags) configure(log *history.Log, zone *time.Location) (err error) {
	if hf.cfg.FromUs, err = sinceTime(hf.since, log.NowUs, zone); err != nil {
		return usageError{fmt.Errorf("--since: %w", err)}
	}
	if hf.cfg.UntilUs, err = sinceTime(hf.until, log.NowUs, zone); err != nil {
		return usageError{fmt.Errorf("--until: %w", err)}
	}
	if hf.cfg.AtUs, err = sinceTime(hf.at, log.NowUs, zone); err != nil {
		return usageError{fmt.Errorf("--at: %w", err)}
	}
	if hf.cfg.DefaultUs = hf.assume.Microseconds(); hf.cfg.DefaultUs < 0 {
		return usageError{fmt.Errorf("--assume %v is not a time above 0", hf.assume)}
	}
	hf.cfg.Speeds = history.ShippedSpeeds()
	hf.cfg.Speeds.Learned = log.Learn()
	if hf.speeds != "" {
		if hf.cfg.Speeds.Table, err = history.ParseSpeeds(hf.speeds); err != nil {
			return usageError{fmt.Errorf("--speeds: %w", err)}
		}
	}
	return nil
}

// sinceTime reads a time, or a time before now such as 7d, 36h or 90m. "" gives 0.
func sinceTime(text string, nowUs int64, zone *time.Location) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return max(1, nowUs-int64(n)*86400e6), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return max(1, nowUs-ago.Microseconds()), nil
	}
	return history.ParseTime(text, zone)
}

// historySources say what each subcommand of import reads.
var historySources = []struct{ name, short, long, example string }{
	{"slurm", "Convert what Slurm reports: sacct, squeue, sinfo, scontrol, sacctmgr",
		`Slurm reads what happened on a Slurm cluster (22.05 to 26.05) from saved texts, each known by its
content: sacct -P, scontrol show node, sacctmgr -P show event, and the JSON of
sacct, squeue, sinfo and scontrol show node. It only reads. Make the texts with

  sacct -P -a -D -S now-7days --delimiter=$'\x1f' -o ` + history.SacctFields + ` > jobs.txt
  scontrol show node > nodes.txt
  sacctmgr -P show event start=now-7days > events.txt

Without files it runs these commands itself, from --since on (7d). --now makes the instance of what
runs and waits now instead, from squeue --json, scontrol show node and scontrol show reservation;
the jobs of sacct say how long jobs take.

It writes the instance: every job that had GPUs, with the time that it took, and by
--happened the schedule that Slurm followed, which hare verify checks and hare plot draws.`,
		`  hare import slurm jobs.txt nodes.txt events.txt --since 7d -o week.json --happened was.json
  hare import slurm --since 7d -o week.json --happened was.json
  hare import slurm --now -o now.json
  hare verify week.json was.json
  hare simulate --policy slurm,rolling --instance week.json`},
	{"kube", "Convert what Kubernetes reports: nodes, pods, Jobs, JobSets, PyTorchJobs, Kueue, events",
		`Kube reads objects of Kubernetes as kubectl writes them with -o json, in one file or several, as
lists or single objects: nodes, pods, batch/v1 Jobs, JobSets, PyTorchJobs, events of nodes, and
Kueue's Workloads, ClusterQueues, LocalQueues and ResourceFlavors. It only reads. Make the texts with

  kubectl get nodes,pods,jobs,events -A -o json > cluster.json
  kubectl get workloads,clusterqueues,localqueues,resourceflavors -A -o json > kueue.json

Without files it runs kubectl itself, which must be on the PATH. The users of jobs are their
namespaces. The annotation ` + history.SecondsAnnotation + `, {"Tesla-T4":14} for one, says how many seconds
a job takes on GPU types.`,
		`  hare import kube cluster.json kueue.json -o week.json --happened was.json
  hare import kube --now --context prod -o now.json`},
	{"ray", "Convert what Ray's dashboard reports: jobs, nodes, placement groups, actors",
		`Ray reads answers of Ray's dashboard, each in a file: /api/jobs/, the nodes of /api/v0/nodes or
/nodes?view=summary, and of the state API placement groups and actors, which say which GPUs
jobs have. It only reads. Make the texts with

  curl http://127.0.0.1:8265/api/jobs/ > jobs.json
  curl http://127.0.0.1:8265/api/v0/nodes?detail=1 > nodes.json
  curl http://127.0.0.1:8265/api/v0/placement_groups?detail=1 > groups.json

Without files it asks the dashboard itself. The metadata of a job may name its GPUs (gpus), its user,
its name, when it was submitted, and its seconds by GPU type (hare, {"T4":14}).`,
		`  hare import ray jobs.json nodes.json groups.json -o week.json --happened was.json
  hare import ray --now --address http://head:8265 -o now.json`},
	{"history", "Convert a table of jobs: id, user, name, submit, start, end, gpus, nodes, type, limit, state",
		`History reads a CSV text whose first row names columns: id, user, name, submit, start, end, gpus,
nodes, type, requested_type, gpus_per_task, limit, state, in any order. id, submit and gpus
must be there. Times are 2026-11-22T22:53:01, with a zone where needed, or seconds since
1970; nodes are names with blanks between them, or GPUs such as a-0/0 a-0/1; a limit is in
seconds or 1-12:00:00. requested_type is the type that a job asked for, empty where any
would do: without this column, a job may use only the type on which it ran, or with --any-type
all of them.`,
		`  hare import history jobs.csv -o week.json --happened was.json
  hare import history jobs.csv nodes.csv -o week.json
  hare import history jobs.csv --gpus A100=64 -o week.json`},
	{"swf", "Convert the Standard Workload Format of the Parallel Workloads Archive",
		`Swf reads lines of 18 numbers, where -1 means not known, and the header of comments before them: the
cluster has as many GPUs as MaxProcs says, on MaxNodes nodes, unless --gpus says otherwise, and
time 0 is UnixStartTime. A processor that a job was allocated counts as a GPU, or as many as
--processors-per-gpu says. No line says where a job ran: jobs are placed as far as GPUs are free,
which the report counts as assumed.`,
		`  hare import swf KIT-FH2-2016-1.swf.gz --processors-per-gpu 20 --since 30d -o month.json`},
	{"helios", "Convert SenseTime's Helios traces: cluster_log.csv",
		`Helios reads cluster_log.csv of a cluster of the Helios traces (2020; CC BY 4.0): job_id, user, vc,
gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time. Its times have no zone (--zone).
No row says where a job ran: jobs are placed on the nodes of a table of nodes (node, type, gpus), or
of --gpus, which the report counts as assumed.`,
		`  hare import helios cluster_log.csv --gpus V100=1144 --zone Asia/Shanghai -o venus.json`},
	{"acme", "Convert Shanghai AI Lab's Acme traces: trace_seren.csv, trace_kalos.csv",
		`Acme reads trace_seren.csv or trace_kalos.csv of the Acme traces (2023; CC BY 4.0): job_id, user,
node_num, gpu_num, cpu_num, type, state, submit_time, start_time, end_time. No row says where a job
ran: jobs are placed on the nodes of a table of nodes (node, type, gpus), or of --gpus, which the
report counts as assumed.`,
		`  hare import acme trace_seren.csv nodes.csv -o seren.json
  hare import acme trace_kalos.csv --gpus A100=2416 -o kalos.json`},
	{"pai", "Convert Alibaba's trace of 2020 (PAI): pai_task_table.csv and the tables that come with it",
		`Pai reads tables of Alibaba's cluster-trace-gpu-v2020 (CC BY 4.0), with or without a header:
pai_task_table.csv, which must be there, pai_job_table.csv (users and submissions),
pai_instance_table.csv and pai_machine_spec.csv (where jobs ran), pai_group_tag_table.csv (types that
jobs asked for). All tasks of a job that had GPUs are one job, and parts of GPUs add up.`,
		`  hare import pai pai_task_table.csv pai_job_table.csv pai_machine_spec.csv -o pai.json`},
	{"kai", "Convert a snapshot of the KAI scheduler: snapshot.zip",
		`Kai reads what GET /get-snapshot of the KAI scheduler answers, packed or not: the nodes, pods, pod
groups and claims in it are read as those of kubectl (hare import kube). A snapshot is of one moment: give --now.`,
		`  hare import kai snapshot.zip --now -o now.json`},
}

type importHistoryFlags struct {
	historyFlags
	name, happened, report, out string
}

// importHistoryCommands returns the subcommands of import that read what happened on a cluster.
func importHistoryCommands() (out []*cobra.Command) {
	for _, s := range historySources {
		var hf importHistoryFlags
		c := &cobra.Command{Use: s.name + " FILE...", Short: s.short, Long: s.long, Example: s.example,
			RunE: func(c *cobra.Command, args []string) error { return hf.run(c.Context(), s.name, args) }}
		hf.add(c)
		hf.addNow(c)
		f := c.Flags()
		switch s.name {
		case "kube":
			hf.addKube(c)
		case "kai":
			f.StringVar(&hf.typeLabel, "type-label", "", "label of nodes that names their GPU type (default: the "+
				"first of "+strings.Join(history.TypeLabels, ", ")+")")
		case "history", "swf", "helios", "acme", "pai":
			hf.addTables(c, s.name)
			if s.name == "history" {
				f.BoolVar(&hf.anyType, "any-type", false, "without a column requested_type: let jobs use any GPU type "+
					"(default: only the one on which they ran)")
			}
		case "ray":
			f.StringVar(&hf.address, "address", "http://127.0.0.1:8265", "without files: where Ray's dashboard is")
		}
		f.StringVar(&hf.name, "name", "", "name of the instance (default: "+s.name+")")
		f.StringVar(&hf.happened, "happened", "", "write the schedule that the cluster followed to this file, as a "+
			"result without a bound")
		f.StringVar(&hf.report, "report", "", "write what was assumed and left out to this file, as JSON")
		f.StringVarP(&hf.out, "output", "o", "", "write to this file (.gz, .zst compress)")
		outputs(c, outputData, "happened", "report", "output")
		out = append(out, c)
	}
	return out
}

func (hf *importHistoryFlags) run(ctx context.Context, source string, files []string) error {
	if os.Getenv("GOGC") == "" { // a year of a large cluster in half of the memory
		defer debug.SetGCPercent(debug.SetGCPercent(25))
	}
	log, err := hf.fetch(ctx, source, files)
	if err != nil {
		return err
	}
	hf.cfg.Name = hf.name
	build := log.Build
	if hf.now {
		build = log.BuildNow
	}
	if hf.now && hf.happened != "" {
		return usageError{errors.New("--happened is for what happened: leave it out with --now")}
	}
	built, err := build(hf.cfg)
	if nothing := (*history.NothingError)(nil); errors.As(err, &nothing) {
		err = errors.Join(err, writeReport(hf.report, nothing.Report))
	}
	if err != nil {
		return usageError{err}
	}
	fmt.Fprint(stderr, built.Report)
	if err := writeReport(hf.report, built.Report); err != nil {
		return err
	}
	if hf.happened != "" {
		err := writeOut(hf.happened, func(w io.Writer) error { return wire.EncodeResult(w, built.Happened) })
		if err != nil {
			return err
		}
	}
	return writeOut(hf.out, func(w io.Writer) error { return wire.EncodeInstance(w, built.Instance) })
}

// writeReport writes a report as JSON to the file that --report names.
func writeReport(name string, rep *history.Report) error {
	if name == "" {
		return nil
	}
	return writeOut(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rep)
	})
}

type profileFlags struct {
	hf     historyFlags
	asJSON bool
}

// profileCommand prints how long jobs take on GPU types, by what a log shows.
func profileCommand() *cobra.Command {
	var pf profileFlags
	c := &cobra.Command{
		Use:   "profile SOURCE FILE...",
		Short: "Learn from a cluster's history how long jobs take on each GPU type",
		Long: `Profile reads what happened on a cluster, as hare import SOURCE does, and prints how long jobs
of the same user, name and number of GPUs took on several GPU types: the ratio of the
median times, with an interval that covers the ratio with probability 0.95 where each type has
seven jobs or more. hare import uses these ratios by itself.`,
		Example: "  hare profile slurm jobs.txt nodes.txt",
		RunE:    func(c *cobra.Command, args []string) error { return pf.run(c, args) },
	}
	f := c.Flags()
	f.StringVar(&pf.hf.zone, "zone", "UTC", "time zone of times that name none, such as Europe/Berlin or Local")
	f.BoolVar(&pf.asJSON, "json", false, "print JSON")
	return c
}

func (pf *profileFlags) run(c *cobra.Command, args []string) error {
	if len(args) < 2 {
		return usageError{errors.New("profile takes a source (slurm, history) and files")}
	}
	log, err := pf.hf.read(args[0], args[1:])
	if err != nil {
		return err
	}
	learned := log.Learn()
	if pf.asJSON {
		e := json.NewEncoder(exact(c.OutOrStdout()))
		e.SetIndent("", "  ")
		return e.Encode(learned)
	}
	if len(learned) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "No jobs of one user and name completed on several GPU types.")
		return nil
	}
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "user\tname\tGPUs\ttypes\ttime\tinterval\tjobs")
	for _, l := range words.PlainNames(learned) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s / %s\t%.3f\t%.3f to %.3f\t%d / %d\n", l.User, l.Name, l.GPUs, l.Type, l.Base,
			l.Ratio, l.Low, l.High, l.Jobs, l.BaseJobs)
	}
	return t.Flush()
}

type exportFlags struct {
	folder, origin string
	asJSON         bool
}

// exportCommand writes what happened as a cluster would report it.
func exportCommand() *cobra.Command {
	var ef exportFlags
	c := &cobra.Command{
		Use:   "export FORM INSTANCE RESULT",
		Short: "Write a schedule as Slurm, Kubernetes, Ray or a table of jobs would report it",
		Long: `Export writes an instance and a schedule of its jobs, from hare simulate --record, hare solve or
hare import --happened, as texts that hare import reads: of sacct, scontrol and sacctmgr (slurm), of
kubectl (kube), of Ray's dashboard (ray), or as tables of jobs and nodes (history). Jobs must be rigid,
or gangs that keep their GPUs from start to end. What a form has no place for is counted on standard error.`,
		Example: `  hare simulate --policy fifo --instance week.json --record runs
  hare export slurm runs/instance.json runs/fifo.result.json -o week
  hare import slurm week/*.txt --since 2026-01-05 -o again.json`,
		Args: exactly(3, "a form, an instance and a result"),
		RunE: func(_ *cobra.Command, args []string) error { return ef.run(args) },
	}
	c.Flags().StringVarP(&ef.folder, "output", "o", "export", "folder for the texts")
	c.Flags().BoolVar(&ef.asJSON, "json", false, "with slurm: jobs as sacct --json writes them, in place of sacct -P")
	outputs(c, outputFolder, "output")
	c.Flags().StringVar(&ef.origin, "origin", "2026-01-05", "when time 0 of the instance is")
	return c
}

func (ef *exportFlags) run(args []string) error {
	if !slices.Contains(history.Sources, args[0]) {
		return usageError{fmt.Errorf("%.60q is not a form: it must be one of %s", args[0],
			strings.Join(history.Sources, ", "))}
	}
	if ef.asJSON && args[0] != "slurm" {
		return usageError{fmt.Errorf("--json chooses between two forms of Slurm's jobs: leave it out with %s", args[0])}
	}
	originUs, err := history.ParseTime(ef.origin, time.UTC)
	if err != nil {
		return usageError{fmt.Errorf("--origin: %w", err)}
	}
	inst, err := readInstance(args[1])
	if err != nil {
		return otherWayRound(args[1:], err)
	}
	res, err := readResult(args[2])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(ef.folder, 0o755); err != nil {
		return err
	}
	rep, err := history.Export(args[0], inst, res, history.ExportConfig{OriginUs: originUs, JSON: ef.asJSON,
		Create: func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(ef.folder, name)) }})
	if err != nil {
		return usageError{err}
	}
	fmt.Fprint(stderr, rep)
	return nil
}
