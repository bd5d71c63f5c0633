package trace

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// Philly reads a flat Philly trace with the columns arrival_s, duration_s and num_gpus.
// The trace names no models and one GPU type, called GPU unless cfg.GPUs gives the type
// another name. A job is rigid: one round of its duration. With Sync gang, a job is cut
// into rounds of about a quantum. The default cluster has 2,490 GPUs.
func Philly(trace Source, cfg Config) (*hare.Instance, *Report, error) {
	cfg, err := cfg.resolve("philly", trace, "rigid", "GPU=2490")
	if err != nil {
		return nil, nil, err
	}
	t, err := newTable(trace, "arrival_s", "duration_s", "num_gpus")
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder("philly", trace, cfg, clusterOf(cfg.GPUs))
	types := gpuTypes(b.inst.Cluster)
	for {
		if ok, err := b.next(t); err != nil {
			return nil, nil, err
		} else if !ok {
			break
		}
		if err := b.phillyRow(t, types); err != nil && !b.aside(err) {
			return nil, nil, err
		}
	}
	b.rep.Renamed = &Renamed{As: "philly-N, with N the row from 0",
		Why: "the reader takes no names from a Philly trace"}
	b.rep.Measured = "arrivals, run times and numbers of GPUs"
	b.rep.Assumed = []string{"the trace names no models and one GPU type: every type of the cluster takes the same " +
		"time",
		"durations hold all of a job's GPUs from start to end; synchronisation is part of them; weights are 1",
		"node boundaries are left out"}
	return b.finish(t)
}

func (b *builder) phillyRow(t *table, types []string) (err error) {
	job := hare.Job{ID: "philly-" + strconv.Itoa(b.rep.Rows-1), WeightMicro: 1e6, Sync: b.cfg.syncRule()}
	if job.ReleaseUs, err = t.decimal("arrival_s", 6); err != nil {
		return err
	}
	if job.Tasks, err = t.count("num_gpus", 1); err != nil {
		return err
	}
	return b.duration(t, "duration_s", &job, types)
}

// Openb reads the pods of Alibaba's openb trace (pod, arrival_s, num_gpu, gpu_milli,
// gpu_spec, run_s) on its nodes (node, gpu_type, gpus). A pod is a rigid job of one
// round of its run time on the types of gpu_spec ('|' separates alternatives, an empty
// field allows every type). With Sync gang, a pod is cut into rounds of about a quantum.
// Pods without a run time are skipped. Pods that share a GPU are skipped or count a
// whole GPU (Config.Shared).
func Openb(pods, nodes Source, cfg Config) (*hare.Instance, *Report, error) {
	cfg, err := cfg.resolve("openb", pods, "rigid", "")
	if err != nil {
		return nil, nil, err
	}
	own, err := readOpenbNodes(nodes)
	if err != nil {
		return nil, nil, err
	}
	cluster := own
	if cfg.GPUs != nil {
		cluster = clusterOf(cfg.GPUs)
	}
	t, err := newOpenbPods(pods)
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder("openb", pods, cfg, cluster)
	all := gpuTypes(cluster)
	known := map[string]bool{}
	for _, name := range append(gpuTypes(own), all...) {
		known[name] = true
	}
	shared := 0
	for {
		if ok, err := b.next(t); err != nil {
			return nil, nil, err
		} else if !ok {
			break
		}
		whole, err := b.openbRow(t, all, known)
		if err != nil && b.aside(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if whole {
			shared++
		}
	}
	if t.derive != nil {
		b.beginAtZero()
	}
	b.rep.Measured = "nodes and their GPU types; pods' arrivals, run times, numbers of GPUs and type constraints"
	b.rep.Assumed = []string{"a pod runs as long on any type it may use (the trace has no speeds)",
		"pods are not training jobs as such; each is one rigid round; CPU, memory and node boundaries are left out; " +
			"weights are 1"}
	if shared > 0 {
		b.rep.Assumed = append(b.rep.Assumed, strconv.Itoa(shared)+" pods that ask for a part of a GPU hold a "+
			"whole one")
	}
	return b.finish(t)
}

func readOpenbNodes(src Source) (hare.Cluster, error) {
	var c hare.Cluster
	t, err := newEither(src, [3]string{"node", "gpu_type", "gpus"}, [3]string{"sn", "model", "gpu"})
	if err != nil {
		return c, err
	}
	names := map[string]bool{}
	var total int64
	for {
		if ok, err := t.next(); err != nil {
			return c, err
		} else if !ok {
			break
		}
		if t.derive != nil && t.text("gpus") == "0" {
			continue // the public file has nodes without GPUs
		}
		name, kind := strings.Clone(t.text("node")), strings.Clone(t.text("gpu_type"))
		if name == "" || strings.Contains(name, "/") {
			return c, t.errorAt("node", "a node needs a name without slashes")
		}
		if names[name] {
			return c, t.errorAt("node", "%q appears twice", truncate(name))
		}
		names[name] = true
		if kind == "" {
			return c, t.errorAt("gpu_type", "empty")
		}
		n, err := t.count("gpus", 1)
		if err != nil {
			return c, err
		}
		if total += n; n > hare.MaxGPUs || total > hare.MaxGPUs {
			return c, t.errorAt("gpus", "more than %d GPUs in all", hare.MaxGPUs)
		}
		c.Nodes = append(c.Nodes, hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: int(n)}}})
	}
	if len(c.Nodes) == 0 {
		return c, &RowError{t.file, 1, 1, "no rows"}
	}
	return c, nil
}

// newOpenbPods opens a list of pods: in Hare's columns, or in those of the public files, whose run time follows
// from when a pod was scheduled and deleted.
func newOpenbPods(src Source) (*table, error) {
	t, err := newEither(src, [3]string{"pod", "arrival_s", "run_s"}, [3]string{"name", "creation_time", ""})
	if err != nil {
		return nil, err
	}
	needed := []string{"num_gpu", "gpu_milli", "gpu_spec"}
	if t.derive != nil {
		needed = append(needed, "deletion_time", "scheduled_time")
		t.column["run_s"] = len(t.names)
		t.derive = func() { t.row = append(t.row, t.runTime()) }
	}
	for _, name := range needed {
		if _, ok := t.column[name]; !ok {
			return nil, &RowError{t.file, 1, 1, fmt.Sprintf("no column %q; needed are pod,arrival_s,run_s (or "+
				"name,creation_time) and %s", name, strings.Join(needed, ","))}
		}
	}
	return t, nil
}

// newEither opens a table whose columns have the names ours or theirs; rows of the second have derive set. A name
// "" is of a column that is derived.
func newEither(src Source, ours, theirs [3]string) (*table, error) {
	t, err := newTable(src)
	if err != nil {
		return nil, err
	}
	if _, ok := t.column[ours[0]]; ok {
		theirs = ours
	}
	for i, name := range theirs {
		at, ok := t.column[name]
		if !ok && name != "" {
			return nil, &RowError{t.file, 1, 1, fmt.Sprintf("no column %q; needed are %s", ours[i],
				strings.Join(ours[:], ","))}
		}
		t.column[ours[i]] = at
	}
	if theirs != ours {
		t.derive = func() {}
	}
	return t, nil
}

// runTime is how long the pod of a row ran; "" if that is not known.
func (t *table) runTime() string {
	until, ok := strconv.ParseFloat(t.text("deletion_time"), 64)
	from, ok2 := strconv.ParseFloat(t.text("scheduled_time"), 64)
	if ok != nil || ok2 != nil || !(until >= from) {
		return ""
	}
	return strconv.FormatFloat(until-from, 'f', 6, 64)
}

// beginAtZero has the first job arrive at 0.
func (b *builder) beginAtZero() {
	first := int64(hare.MaxExact)
	for i := range b.inst.Jobs {
		first = min(first, b.inst.Jobs[i].ReleaseUs)
	}
	for i := range b.inst.Jobs {
		b.inst.Jobs[i].ReleaseUs -= first
	}
}

// openbRow reads a pod. whole says whether a shared GPU was counted as a whole GPU.
func (b *builder) openbRow(t *table, all []string, known map[string]bool) (whole bool, err error) {
	job := hare.Job{WeightMicro: 1e6, Sync: b.cfg.syncRule()}
	if t.derive != nil && t.text("num_gpu") == "0" {
		b.rep.skip(t, "asks for no GPUs")
		return false, nil
	}
	if job.ID, err = b.identify(t, "pod"); err != nil {
		return false, err
	}
	if job.ReleaseUs, err = t.decimal("arrival_s", 6); err != nil {
		return false, err
	}
	if job.Tasks, err = t.count("num_gpu", 1); err != nil {
		return false, err
	}
	milli, err := t.count("gpu_milli", 0)
	if err != nil {
		return false, err
	}
	types := all
	if spec := t.text("gpu_spec"); spec != "" {
		types = nil
		for name := range strings.SplitSeq(spec, "|") {
			if !known[name] {
				return false, t.errorAt("gpu_spec", "unknown GPU %q: no node has this type", truncate(name))
			}
			types = append(types, strings.Clone(name))
		}
	}
	if t.text("run_s") == "" {
		b.rep.skip(t, "no run time (still pending when the trace ends)")
		return false, nil
	}
	if milli < 1000 && b.cfg.Shared == "skip" {
		b.rep.skip(t, "asks for a part of a GPU (gpu_milli < 1000)")
		return false, nil
	}
	before := len(b.inst.Jobs)
	err = b.duration(t, "run_s", &job, types)
	return milli < 1000 && len(b.inst.Jobs) > before, err
}

// duration gives the job the row's duration on each of types and adds the job. A rigid
// job is one round; a gang job has as many equal rounds as quanta were begun.
func (b *builder) duration(t *table, column string, job *hare.Job, types []string) error {
	us, err := t.decimal(column, 6)
	if err != nil {
		return err
	}
	if us == 0 {
		b.rep.skip(t, "ran for no time")
		return nil
	}
	job.Rounds = 1
	if quantum := b.cfg.Quantum.Microseconds(); job.Sync == hare.Gang {
		job.Rounds = (us-1)/quantum + 1
	}
	p, _ := roundHalfUp(big.NewRat(us, job.Rounds))
	seen := map[string]bool{}
	for _, name := range types {
		if !seen[name] {
			seen[name] = true
			job.On = append(job.On, hare.Profile{Type: name, ComputeUs: max(1, p)})
		}
	}
	sortProfiles(job.On)
	b.add(t, *job)
	return nil
}

// gpuTypes returns the GPU types of a cluster in order of appearance.
func gpuTypes(c hare.Cluster) []string {
	var out []string
	seen := map[string]bool{}
	for _, n := range c.Nodes {
		for _, g := range n.GPUs {
			if !seen[g.Type] {
				seen[g.Type] = true
				out = append(out, g.Type)
			}
		}
	}
	return out
}
