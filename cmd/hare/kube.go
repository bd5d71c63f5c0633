package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/adapters/kube"
	"github.com/hare-sched/hare/history"
)

type kubeFlags struct {
	besideFlags
	cfg                             kube.Config
	api, context, kubeconfig, lease string
	dir                             string
	allow                           []string
	write, json                     bool
	react, leaseTime                time.Duration
}

func kubeCommand() *cobra.Command {
	var kf kubeFlags
	c := &cobra.Command{
		Use:   "kube",
		Short: "Start suspended Jobs of a running Kubernetes, each on the GPU type of Hare's plan",
		Long: `Kube reads nodes, pods and Jobs of a Kubernetes cluster, lets a session plan with the policy
rolling, and says which suspended Job should run next on which GPU type. Without
--write the API server only checks each write (dryRun=All): this is the way to begin.

With --write it lets suspended Jobs go when there is room for all of their pods: one
patch sets the node selector of the GPU type and ends the suspension. A Job takes part
when it is created suspended, with an annotation:

  metadata:
    annotations:
      hare.dev/managed: "true"
      hare.dev/seconds: '{"Tesla-V100-SXM2-16GB": 3600, "Tesla-T4": 9000}'
  spec:
    suspend: true

The seconds say how long the Job takes on each type, where that is known. Without them, a Job counts
as taking a quarter of its activeDeadlineSeconds until Jobs that end say more. JobSets and
PyTorchJobs that are created suspended take part in the same way.

Hare stops and deletes nothing that runs. A Job that it let go and none of whose pods
finds a node of the type is suspended again, and goes to another type. Jobs that Kueue
starts are left alone. With --kueue it does the opposite: it chooses the GPU type of Kueue's Workloads
that start next, orders ClusterQueues that opted in, and touches no Job.

Where the API server, the service or the planner is down, slow (--plan-time) or fails,
nothing is written; suspended Jobs then wait, and "hare kube release --write" lets them
go without Hare. In a pod the service account is used, elsewhere kubectl.

Exit codes: 0 done, 2 wrong use, 3 a loop failed (with --once).`,
		Example: `  hare kube --once                                  # what would be let go now
  hare kube --dir /var/lib/hare/kube --write         # a loop every 30 s
  hare kube --kueue --once                           # under Kueue: types and order of its Workloads
  hare kube release                                  # the Jobs that would wait for ever without Hare
  hare kube release --write                          # let them go`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return kf.run(c) },
	}
	kf.add(c, "let the API server check what would be written, and write nothing", "Tesla-V100-SXM2-16GB=1,Tesla-T4=0.4")
	kf.connection(c)
	f := c.Flags()
	f.StringVar(&kf.dir, "dir", "", "directory of journal.ndjson, state.json and the logs of sessions; --write needs it")
	f.DurationVar(&kf.interval, "interval", 30*time.Second,
		"longest time between loops; after failures up to ten times as long")
	f.DurationVar(&kf.react, "react", time.Second, "time from a change of Jobs or pods to the next loop, in which "+
		"further changes come together; 0s waits for the whole interval")
	f.DurationVar(&kf.cfg.PlanTime, "plan-time", 5*time.Second, "how long a plan may take; a later one is not written")
	f.BoolVar(&kf.cfg.Events, "events", true, "with --write: report by Events when a Job is expected to "+
		"start, and why and where it was let go")
	f.StringVar(&kf.lease, "lease", "", "NAMESPACE/NAME of the Lease by which several helpers agree who writes, "+
		"or none (default: hare-kube, in the namespace of the pod or else in default)")
	f.DurationVar(&kf.leaseTime, "lease-time", 0, "how long a lease lasts that is not renewed (default: three intervals)")
	f.StringVar(&kf.metrics, "metrics", "", "serve Prometheus metrics on this address, e.g. 127.0.0.1:9106")
	f.StringSliceVar(&kf.allow, allowHost, nil, "names by which --metrics may be asked for, besides localhost and the "+
		"address where it listens, such as that of a Service; * stands for all")
	positive(c, "plan-time", "max-updates", "interval")
	c.AddCommand(kf.release())
	return c
}

// connection adds the flags that release has too.
func (kf *kubeFlags) connection(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&kf.api, "api", "", "address of an API server or proxy that asks for no key, e.g. http://127.0.0.1:8001")
	f.StringVar(&kf.context, "context", "", "context of kubectl")
	f.StringVar(&kf.kubeconfig, "kubeconfig", "", "configuration of kubectl")
	f.BoolVar(&kf.cfg.Kueue, "kueue", false, "work on the Workloads of Kueue in place of Jobs")
	f.BoolVar(&kf.write, "write", false, "let Jobs go (default: let the API server check that they could be)")
	f.BoolVar(&kf.json, "json", false, "print what was done as JSON, a line a loop")
	f.StringSliceVar(&kf.cfg.Namespaces, "namespace", nil,
		"all suspended Jobs of these namespaces take part, without the annotation")
	f.StringVar(&kf.cfg.TypeLabel, "type-label", history.TypeLabels[0], "label of nodes that names their GPU type")
	f.IntVar(&kf.cfg.MaxUpdates, "max-updates", 100, "most Jobs that one loop lets go")
}

func (kf *kubeFlags) release() *cobra.Command {
	c := &cobra.Command{
		Use:   "release",
		Short: "Let the Jobs that wait for Hare go without it, the oldest first",
		Long: `Release is for the day when Hare is taken away: suspended Jobs that take part would wait for
ever. It lists them; with --write it lets them go, on any GPU type, and the scheduler of the cluster
starts them in its own order. With --kueue it takes back the types and
priorities of the Workloads that wait. Run it again where --max-updates left some.`,
		Example: "  hare kube release\n  hare kube release --write --max-updates 1000",
		Args:    exactly(0, "no arguments"),
	}
	rf := kubeFlags{}
	rf.connection(c)
	positive(c, "max-updates")
	c.RunE = func(c *cobra.Command, _ []string) error {
		h, stop, err := rf.helper(c)
		if err != nil {
			return err
		}
		defer stop()
		result, err := h.Release(c.Context())
		if result != nil && result.Updates != nil {
			err = errors.Join(err, rf.print(c.OutOrStdout(), result))
		}
		if err == nil && len(result.Updates) == 0 {
			nothing := "no suspended Job waits for Hare"
			if rf.cfg.Kueue {
				nothing = "no Workload that waits has a type or a priority of Hare"
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), nothing)
		}
		return err
	}
	return c
}

// helper connects and makes the helper.
func (kf *kubeFlags) helper(c *cobra.Command) (h *kube.Helper, stop func(), err error) {
	kf.cfg.Logger, kf.cfg.Write = warnings(c), kf.write
	if kf.cfg.Speeds, err = kf.speedTable(); err != nil {
		return nil, nil, err
	}
	var journalPath string
	if journalPath, kf.cfg.StateFile, err = journalIn(kf.dir); err != nil {
		return nil, nil, err
	}
	advisor, err := kf.advisor("kube", kf.dir)
	if err != nil {
		return nil, nil, err
	}
	api, stopAPI, err := kf.connect(c)
	if err != nil {
		return nil, nil, err
	}
	journal, err := kube.OpenJournal(journalPath)
	if err != nil {
		stopAPI()
		return nil, nil, err
	}
	stop = func() {
		if kf.cfg.Lease != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*time.Second)
			_ = kf.cfg.Lease.GiveUp(ctx, api)
			cancel()
		}
		_ = journal.Close()
		stopAPI()
	}
	if h, err = kube.New(kf.cfg, api, advisor, journal); err != nil {
		stop()
		return nil, nil, usageError{err}
	}
	return h, stop, nil
}

// connect finds the API server: at --api, in the pod's cluster, or by kubectl.
func (kf *kubeFlags) connect(c *cobra.Command) (api kube.API, stop func(), err error) {
	stop = func() {}
	if kf.api != "" {
		if !strings.HasPrefix(kf.api, "http://") && !strings.HasPrefix(kf.api, "https://") {
			return nil, nil, usageError{fmt.Errorf("--api %.60q: give an address such as http://127.0.0.1:8001", kf.api)}
		}
		return &kube.HTTP{Base: kf.api}, stop, nil
	}
	if kf.context == "" && kf.kubeconfig == "" {
		inside, err := kube.InCluster()
		if err == nil {
			return inside, stop, nil
		}
		if !errors.Is(err, kube.ErrNotInCluster) {
			return nil, nil, err
		}
	}
	var arguments []string
	if kf.context != "" {
		arguments = append(arguments, "--context="+kf.context)
	}
	if kf.kubeconfig != "" {
		arguments = append(arguments, "--kubeconfig="+kf.kubeconfig)
	}
	proxy, stop, err := kube.Kubectl(context.WithoutCancel(c.Context()), arguments...)
	if err != nil {
		return nil, nil, err
	}
	return proxy, stop, nil
}

// podNamespace holds the namespace of a pod.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leaseOf reads --lease, or finds the namespace of the pod; nil means that no lease is asked for.
func (kf *kubeFlags) leaseOf() (*kube.Lease, error) {
	holder, _ := os.Hostname()
	l := &kube.Lease{Name: "hare-kube", Holder: fmt.Sprintf("%s_%d", holder, os.Getpid()), Duration: kf.leaseTime}
	if l.Duration == 0 {
		l.Duration = max(15*time.Second, 3*kf.interval)
	}
	if l.Duration < kf.interval*3/2 {
		return nil, fmt.Errorf("--lease-time must be at least one and a half intervals, %s", kf.interval*3/2)
	}
	if kf.lease == "none" {
		return nil, nil
	}
	if kf.lease != "" {
		var ok bool
		if l.Namespace, l.Name, ok = strings.Cut(kf.lease, "/"); !ok || l.Namespace == "" || l.Name == "" {
			return nil, fmt.Errorf("--lease %.80q: give NAMESPACE/NAME, or none", kf.lease)
		}
		return l, nil
	}
	l.Namespace = "default"
	if text, err := os.ReadFile(podNamespace); err == nil && kf.api == "" && kf.context == "" && kf.kubeconfig == "" {
		l.Namespace = strings.TrimSpace(string(text))
	}
	return l, nil
}

func (kf *kubeFlags) run(c *cobra.Command) error {
	err := kf.check(kf.write, time.Second)
	switch {
	case err != nil:
		return err
	case kf.write && kf.dir == "":
		return usageError{errors.New("--write needs --dir, where the journal of all writes is kept")}
	case kf.react < 0:
		return usageError{errors.New("--react must not be negative")}
	}
	if kf.cfg.Lease, err = kf.leaseOf(); err != nil {
		return usageError{err}
	}
	h, stop, err := kf.helper(c)
	if err != nil {
		return err
	}
	defer stop()
	if kf.metrics != "" {
		hosts, err := hostsOf(kf.allow, kf.metrics)
		if err != nil {
			return err
		}
		stopMetrics, err := serveMetrics(kf.metrics, hosts, h.Metrics())
		if err != nil {
			return err
		}
		defer stopMetrics()
	}
	waits, last := false, "-"
	pause := func(ctx context.Context, longest time.Duration) bool { return h.Wait(ctx, longest, kf.react) }
	return stepping(c, kf.interval, kf.once, pause, func(ctx context.Context) error {
		result, err := h.Step(ctx)
		if err != nil && (result == nil || len(result.Updates) == 0) {
			return err
		}
		if !result.Leads {
			if !waits {
				_, err = fmt.Fprintln(c.OutOrStdout(), "another helper holds the lease: this one waits")
			}
			waits = true
			return err
		}
		waits = false
		now := waitingKey(result)
		if len(result.Updates)+len(result.Freed) == 0 && now == last {
			return err // nothing has changed but the times
		}
		last = now
		return errors.Join(err, kf.print(c.OutOrStdout(), result))
	})
}

// print shows what a loop did.
func (kf *kubeFlags) print(w io.Writer, r *kube.Result) error {
	if kf.json {
		return json.NewEncoder(exact(w)).Encode(map[string]any{"updates": r.Updates, "freed": r.Freed, "turns": r.Waiting,
			"left": r.Left})
	}
	return r.Print(w, kf.cfg.Kueue, kf.write)
}

// waitingKey tells apart results whose waiting Jobs differ, or why they wait.
func waitingKey(r *kube.Result) string {
	var b strings.Builder
	for _, t := range r.Waiting {
		fmt.Fprint(&b, t.Job, t.Why, "\n")
	}
	for _, reason := range r.Reasons() {
		fmt.Fprint(&b, r.Left[reason], reason, "\n")
	}
	return b.String()
}
