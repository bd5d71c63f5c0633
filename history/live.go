package history

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/trace"
)

// LiveConfig says what ReadLive asks a cluster.
type LiveConfig struct {
	// Since is from when jobs are asked for.
	Since time.Time
	// Now asks for what runs and waits too, for BuildNow.
	Now bool
	// Arguments stand before the arguments of kubectl, such as --context=NAME.
	Arguments []string
	// Address is where Ray's dashboard is; "" means http://127.0.0.1:8265.
	Address string
	// Read says how the answers are read.
	Read ReadConfig
	// Run runs a command and returns what it writes; nil means RunCommand. Tests replace it.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// liveCommand is a command that only reads.
type liveCommand struct {
	name   string
	args   []string
	needed bool
}

// slurmCommands are the commands that ReadLive runs. Slurm's own programs take times in the zone of
// TZ, which is UTC for them.
func (cfg *LiveConfig) slurmCommands() []liveCommand {
	since := cfg.Since.UTC().Format("2006-01-02T15:04:05")
	return []liveCommand{
		{"scontrol", []string{"show", "node"}, true},
		{"squeue", []string{"--json"}, cfg.Now},
		{"sacct", []string{"-P", "-a", "-D", "-S", since, "--delimiter=\x1f", "-o", SacctFields}, !cfg.Now},
		{"sacctmgr", []string{"-P", "show", "event", "start=" + since}, false},
		{"scontrol", []string{"show", "reservation"}, false},
	}
}

// kubeCommands are the commands that ReadLive runs. kubectl finds the cluster and who asks, by its
// configuration or inside of a pod, and reads long lists in pages. Kinds of which a cluster has no
// definition fail, and their failure is left out.
func (cfg *LiveConfig) kubeCommands() (commands []liveCommand) {
	for _, kind := range []string{"nodes", "pods", "jobs.batch", "events", "jobsets.jobset.x-k8s.io",
		"pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org", "tfjobs.kubeflow.org", "trainjobs.trainer.kubeflow.org",
		"rayjobs.ray.io", "rayclusters.ray.io", "leaderworkersets.leaderworkerset.x-k8s.io", "jobs.batch.volcano.sh",
		"workloads.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io",
		"resourceflavors.kueue.x-k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io",
		"resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io"} {
		args := append(slices.Clone(cfg.Arguments), "get", kind, "-A", "-o", "json")
		if kind == "events" {
			args = append(args, "--field-selector", "involvedObject.kind=Node")
		}
		commands = append(commands, liveCommand{"kubectl", args, len(commands) < 3})
	}
	return commands
}

// rayCommands are the requests that ReadLive makes of Ray's dashboard. The state API tells nodes with
// their times, placement groups and actors; where it fails, the summary of nodes remains.
func (cfg *LiveConfig) rayCommands() (commands []liveCommand) {
	base := strings.TrimRight(cmp.Or(cfg.Address, "http://127.0.0.1:8265"), "/")
	for _, path := range []string{"/api/jobs/", "/api/v0/nodes?detail=1&limit=10000", "/nodes?view=summary",
		"/api/v0/placement_groups?detail=1&limit=10000", "/api/v0/actors?detail=1&limit=10000"} {
		commands = append(commands, liveCommand{"GET", []string{base + path}, len(commands) == 0})
	}
	return commands
}

// get asks an address and returns the answer.
func get(ctx context.Context, _ string, args ...string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBytes+1))
	if len(text) > maxBytes {
		err = fmt.Errorf("more than %d MiB", maxBytes>>20)
	}
	return text, err
}

// ReadLive asks the cluster: for slurm by scontrol, squeue, sacct and sacctmgr and for kube by kubectl,
// which are on the PATH, for ray by GET at the dashboard. All of these only read. A command that fails
// is an error if nothing can be told without it, and else a line of the report.
func ReadLive(ctx context.Context, source string, cfg LiveConfig) (*Log, error) {
	var commands []liveCommand
	switch source {
	case "slurm":
		commands = cfg.slurmCommands()
		cfg.Read.Zone = time.UTC
	case "kube":
		commands = cfg.kubeCommands()
	case "ray":
		commands = cfg.rayCommands()
	default:
		return nil, fmt.Errorf("history: %s is not read live by commands", source)
	}
	run := cfg.Run
	switch {
	case run == nil && source == "ray":
		run = get
	case run == nil:
		run = RunCommand
	}
	asked := time.Now()
	var texts []trace.Source
	var notes []string
	for _, c := range commands {
		name := strings.ReplaceAll(strings.Join(append([]string{c.name}, c.args...), " "), "\x1f", `\x1f`)
		out, err := run(ctx, c.name, c.args...)
		switch {
		case err != nil && (c.needed || ctx.Err() != nil):
			return nil, fmt.Errorf("%s: %w", name, err)
		case err != nil && strings.Contains(err.Error(), "the server doesn't have a resource type"):
		case err != nil:
			notes = append(notes, fmt.Sprintf("%s failed: %v", name, err))
		case len(bytes.TrimSpace(out)) > 0 && !bytes.HasPrefix(out, []byte("No ")):
			texts = append(texts, trace.Source{Name: name, R: bytes.NewReader(out)})
		}
	}
	log, err := Read(source, texts, cfg.Read)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		log.Report.leaveOut(note, "live")
	}
	log.NowUs = max(log.NowUs, asked.UnixMicro())
	return log, nil
}

// RunCommand runs a program with the time zone UTC and returns what it writes on standard
// output. An error has the last line that the program wrote on standard error.
func RunCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = 5 * time.Second
	c.Env = append(os.Environ(), "TZ=UTC", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=0")
	var out, faults bytes.Buffer
	c.Stdout, c.Stderr = &limitedBuffer{&out}, &limitedBuffer{&faults}
	err := c.Run()
	switch lines := strings.Split(strings.TrimSpace(faults.String()), "\n"); {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s is not on the PATH: run Hare where it works, or give saved texts", name)
	case err != nil && lines[0] != "":
		return nil, fmt.Errorf("%s (%w)", strings.TrimSpace(lines[len(lines)-1]), err)
	case err != nil:
		return nil, err
	}
	return out.Bytes(), nil
}

// limitedBuffer refuses more than the greatest text that Read takes.
type limitedBuffer struct{ b *bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > maxBytes {
		return 0, fmt.Errorf("more than %d MiB", maxBytes>>20)
	}
	return l.b.Write(p)
}
