package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// ExportConfig says how an instance and a schedule become texts of a cluster.
type ExportConfig struct {
	// OriginUs is time 0 of the instance, in microseconds since 1970; 0 means 2026-01-05T00:00:00Z.
	OriginUs int64
	// JSON writes Slurm's jobs as sacct --json does, in place of sacct -P.
	JSON bool
	// Create makes a file of the export.
	Create func(name string) (io.WriteCloser, error)
}

// exportOriginUs is a Monday.
const exportOriginUs = 1_767_571_200 * 1_000_000

// Export writes an instance and what happened on it as Slurm, Kubernetes, Ray or a table of jobs would
// tell it, so that Read and Build with Config.FromUs at the origin give the instance back. Jobs are rigid,
// or gangs of one type, each run without a break. What a form cannot tell is in the report: Slurm and
// Kubernetes tell whole seconds. Export takes time in proportion to the texts.
func Export(source string, inst *hare.Instance, happened *hare.Result, cfg ExportConfig) (*Report, error) {
	if cfg.OriginUs = cmp.Or(cfg.OriginUs, exportOriginUs); happened.Schedule == nil {
		return nil, fmt.Errorf("history: the result has no lanes: solve or record with detail lanes")
	}
	e := &exporter{cfg: cfg, inst: inst, rep: &Report{Source: source, Jobs: len(inst.Jobs)}}
	if err := e.readRuns(happened); err != nil {
		return nil, err
	}
	var err error
	switch source {
	case "slurm":
		if cfg.JSON {
			err = e.sacctJSON()
		} else {
			err = e.sacct()
		}
		if err == nil {
			err = e.slurmNodes()
		}
	case "kube":
		err = e.kube()
	case "ray":
		err = e.ray()
	case "history":
		err = e.csv()
	default:
		err = fmt.Errorf("history: unknown form %.60q: it must be one of %s", source, strings.Join(Sources, ", "))
	}
	return e.rep, err
}

// exporter writes texts.
type exporter struct {
	cfg  ExportConfig
	inst *hare.Instance
	rep  *Report
	runs []exportRun // by job
}

// exportRun is when and where a job ran.
type exportRun struct {
	submitUs, startUs, endUs int64
	gpus                     []exportGPU // sorted by node and number
}

type exportGPU struct{ node, number int }

// readRuns finds the GPUs of each job in the lanes.
func (e *exporter) readRuns(happened *hare.Result) error {
	nodes := make(map[string]int, len(e.inst.Cluster.Nodes))
	for i := range e.inst.Cluster.Nodes {
		nodes[e.inst.Cluster.Nodes[i].Name] = i
	}
	gpu := func(name string) (exportGPU, error) {
		slash := strings.LastIndexByte(name, '/')
		number, err := parseCount(name[slash+1:])
		node, known := nodes[name[:max(0, slash)]]
		if err != nil || !known || number >= e.inst.Cluster.Nodes[node].GPUCount() {
			return exportGPU{}, fmt.Errorf("history: the result has a GPU %.60q that the instance does not have", name)
		}
		return exportGPU{node, int(number)}, nil
	}
	index := make(map[string]int, len(e.inst.Jobs))
	for i := range e.inst.Jobs {
		index[e.inst.Jobs[i].ID] = i
	}
	e.runs = make([]exportRun, len(e.inst.Jobs))
	for i := range happened.Jobs {
		j, known := index[happened.Jobs[i].ID]
		if !known {
			return fmt.Errorf("history: the result has a job %.60q that the instance does not have", happened.Jobs[i].ID)
		}
		e.runs[j].startUs, e.runs[j].endUs = happened.Jobs[i].StartUs, happened.Jobs[i].EndUs
	}
	for i := range happened.Schedule.Lanes {
		l := &happened.Schedule.Lanes[i]
		at, err := gpu(l.GPU)
		if err != nil {
			return err
		}
		for x := range l.Job {
			if n := int(l.Job[x]); n < 0 || n >= len(happened.Schedule.Jobs) {
				return fmt.Errorf("history: lane %d of the result has a job that the schedule does not name", i)
			}
			j, known := index[happened.Schedule.Jobs[l.Job[x]]]
			if !known {
				return fmt.Errorf("history: the result has a job %.60q that the instance does not have",
					happened.Schedule.Jobs[l.Job[x]])
			}
			if r := &e.runs[j]; !slices.Contains(r.gpus, at) {
				r.gpus = append(r.gpus, at)
			}
		}
	}
	for i := range e.inst.Jobs {
		if err := e.checkJob(&e.inst.Jobs[i], &e.runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkJob checks that a job can be told, and counts what none of the forms tells.
func (e *exporter) checkJob(j *hare.Job, r *exportRun) error {
	if j.Progress != nil {
		return fmt.Errorf("history: job %.60q runs or ran at time 0: an export begins with idle GPUs", j.ID)
	}
	want := j.Tasks * max(1, j.GPUsPerTask)
	if j.Sync == hare.Relaxed || len(j.Shapes) > 0 || int64(len(r.gpus)) != want {
		return fmt.Errorf("history: job %.60q is not rigid or a gang that ran on the same %d GPUs from begin to end: such "+
			"a job cannot be told as one", j.ID, want)
	}
	if r.endUs <= r.startUs || r.startUs < j.ReleaseUs {
		return fmt.Errorf("history: job %.60q does not run from its release on", j.ID)
	}
	slices.SortFunc(r.gpus, func(a, b exportGPU) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.number, b.number))
	})
	r.submitUs, r.startUs, r.endUs = j.ReleaseUs+e.cfg.OriginUs, r.startUs+e.cfg.OriginUs, r.endUs+e.cfg.OriginUs
	lose := func(is bool, what string) {
		if is {
			e.rep.leaveOut(what, j.ID)
		}
	}
	lose(j.WeightMicro != 1e6, "weights other than 1")
	lose(len(j.After) > 0, "dependencies")
	lose(j.Rounds != 1 || j.Sync != hare.Rigid, "rounds and setups: each job is one piece of work")
	lose(j.Within != "", "levels of the network")
	return nil
}

// seconds rounds times down to whole seconds, which keeps their order.
func (e *exporter) seconds() {
	for i := range e.runs {
		r := &e.runs[i]
		if r.submitUs%1e6 != 0 || r.startUs%1e6 != 0 || r.endUs%1e6 != 0 {
			e.rep.assume("times are rounded down to seconds", e.inst.Jobs[i].ID)
			r.submitUs, r.startUs, r.endUs = r.submitUs/1e6*1e6, r.startUs/1e6*1e6, r.endUs/1e6*1e6
		}
	}
}

// durations writes how long a job takes on each type as {"v100":9,"t4":14}, without blanks.
func durations(j *hare.Job) string {
	var b strings.Builder
	for i, p := range j.On {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", p.Type, hare.FormatMicros((p.ComputeUs+p.SyncUs)*j.Rounds))
	}
	return "{" + b.String() + "}"
}

// typeOf returns the type of a GPU of the cluster.
func (e *exporter) typeOf(g exportGPU) string {
	n := g.number
	for _, t := range e.inst.Cluster.Nodes[g.node].GPUs {
		if n -= t.Count; n < 0 {
			return t.Type
		}
	}
	return ""
}

// onlyTypes returns the types that a job may use, nil where they are all.
func (e *exporter) onlyTypes(j *hare.Job) (types []string) {
	all := map[string]bool{}
	for i := range e.inst.Cluster.Nodes {
		for _, t := range e.inst.Cluster.Nodes[i].GPUs {
			all[t.Type] = true
		}
	}
	for _, p := range j.On {
		types = append(types, p.Type)
	}
	if len(types) == len(all) {
		return nil
	}
	return types
}

// user returns the first and the second user of a job.
func user(j *hare.Job) (first, second string) {
	switch len(j.Users) {
	case 0:
		return "", ""
	case 1:
		return j.Users[0], ""
	}
	return j.Users[0], j.Users[1]
}

// write makes one file.
func (e *exporter) write(name string, rows int, content func(w io.Writer) error) error {
	f, err := e.cfg.Create(name)
	if err != nil {
		return err
	}
	e.rep.Files = append(e.rep.Files, File{Name: name, Kind: e.rep.Source, Rows: rows})
	if err := content(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func isoTime(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05") }

// downTimes returns the times out of service of a node between the origin and the last window.
func downTimes(n *hare.Node) (down []hare.Window) {
	at := int64(0)
	for _, w := range n.Windows {
		if w.StartUs > at {
			down = append(down, hare.Window{StartUs: at, EndUs: w.StartUs})
		}
		at = w.EndUs
	}
	if len(n.Windows) > 0 && at != hare.Forever {
		down = append(down, hare.Window{StartUs: at, EndUs: hare.Forever})
	}
	return down
}
