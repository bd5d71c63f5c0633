package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oasdiff/yaml"

	hare "github.com/hare-sched/hare"
)

// maxYAML limits the bytes of a specification of Armada's simulator, which is held in memory.
const maxYAML = 16 << 20

// armadaCluster is a cluster specification of Armada's simulator. Values that may have several forms are any, so that
// one that cannot be read costs its template alone.
type armadaCluster struct {
	Clusters []struct {
		Name          string
		NodeTemplates []struct {
			Number         any
			Labels         map[string]any
			Taints         []any
			TotalResources struct{ Resources map[string]any }
		}
	}
}

// armadaWorkload is a workload specification of Armada's simulator.
type armadaWorkload struct {
	Queues []struct {
		Name         string
		Weight       any
		JobTemplates []armadaTemplate
	}
}

// armadaTemplate is a template of jobs.
type armadaTemplate struct {
	Number       any
	ID           string
	Requirements struct {
		NodeSelector         map[string]any
		ResourceRequirements struct{ Requests, Limits map[string]any }
	}
	Dependencies        []any
	EarliestSubmitTime  any
	RuntimeDistribution struct{ Minimum, TailMean any }
	GangCardinality     any
	Repeat              *struct{ NumTimes, Period any }
}

// armadaTypeLabels are the labels of nodes that name their GPU type; the first that a node has counts.
var armadaTypeLabels = []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator",
	"amd.com/gpu.product-name",
	"armadaproject.io/gpuType", "gpu-type", "gpu_type"}

// Armada reads a workload specification of Armada's simulator and its cluster specification, which may be given in
// either order. A job is rigid, with the mean of its run time; a gang is one job with a task for each member. Queues
// are users, and their weights the weights of their jobs. Jobs without GPUs are skipped.
func Armada(workload, clusters Source, cfg Config) (*hare.Instance, *Report, error) {
	cfg, err := cfg.resolve("armada", workload, "rigid", "")
	if err != nil {
		return nil, nil, err
	}
	text, nodes, err := armadaTexts(workload, clusters)
	if err != nil {
		return nil, nil, err
	}
	b := &armadaBuilder{file: cmp.Or(workload.Name, "input")}
	cluster := clusterOf(cfg.GPUs)
	var spread bool
	if cfg.GPUs == nil {
		if nodes == nil {
			return nil, nil, &RowError{b.file, 1, 1, "there is no cluster: give Armada's cluster specification " +
				"(--table), or --gpus"}
		}
		if cluster, spread, err = b.nodes(nodes); err != nil {
			return nil, nil, err
		}
	}
	b.builder = newBuilder("armada", workload, cfg, cluster)
	b.rep.Skipped = append(b.rep.Skipped, b.early...)
	b.types, b.spread = gpuTypes(cluster), spread
	if err := b.workload(text); err != nil {
		return nil, nil, err
	}
	b.rep.Measured = "nothing: a workload of Armada's simulator is a model"
	b.rep.Assumed = append(b.rep.Assumed, "a job takes the mean of its run time (minimum and tailMean), as long on "+
		"any GPU "+
		"type that it may use", "weights are those of queues")
	return b.finish(&table{file: b.file})
}

// armadaTexts tells workload and clusters apart and reads both; nodes is nil where no clusters are given.
func armadaTexts(workload, clusters Source) (work *armadaWorkload, nodes *armadaCluster, err error) {
	for _, src := range []Source{workload, clusters} {
		if src.R == nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(src.R, maxYAML+1))
		fault := func(reason string) error { return &RowError{cmp.Or(src.Name, "input"), 1, 1, reason} }
		if err != nil {
			return nil, nil, fault(err.Error())
		}
		if len(text) > maxYAML {
			return nil, nil, fault("the text has more than 16 MiB")
		}
		var both struct {
			armadaCluster
			armadaWorkload
		}
		if _, err := yaml.Unmarshal(text, &both, yaml.DecodeOpts{}); err != nil {
			return nil, nil, fault(truncate(strings.ReplaceAll(err.Error(), "\n", " ")))
		}
		if both.Queues == nil && both.Clusters == nil {
			return nil, nil, fault("has neither clusters nor queues: this is no specification of Armada's simulator")
		}
		if both.Queues != nil {
			if work != nil {
				return nil, nil, fault("both texts have queues: one must have the clusters")
			}
			work = &both.armadaWorkload
		}
		if both.Clusters != nil {
			nodes = &both.armadaCluster
		}
	}
	if work == nil {
		return nil, nil, &RowError{cmp.Or(workload.Name, "input"), 1, 1,
			"has no queues: give Armada's workload specification"}
	}
	return work, nodes, nil
}

// armadaBuilder makes an instance of Armada's specifications.
type armadaBuilder struct {
	*builder
	file   string
	types  []string
	spread bool      // there are several clusters, and nodes have their names as a label
	early  []Skipped // before there is a report
}

// armadaClusterLabel is the label of nodes that names their cluster.
const armadaClusterLabel = "armadaproject.io/clusterName"

// skipTemplate says that so many nodes or jobs of a template are left out, or what of them is not read.
func (b *armadaBuilder) skipTemplate(rows int64, reason, place string) {
	if b.builder == nil {
		b.early = append(b.early, Skipped{reason, int(rows), b.file + ", " + place})
		return
	}
	b.rep.skipAt(reason, b.file+", "+place)
	for i := range b.rep.Skipped {
		if b.rep.Skipped[i].Reason == reason {
			b.rep.Skipped[i].Rows += int(rows) - 1
		}
	}
}

// nodes makes the nodes of all clusters that have GPUs.
func (b *armadaBuilder) nodes(spec *armadaCluster) (c hare.Cluster, spread bool, err error) {
	total, names := int64(0), map[string]bool{}
	for ci, cluster := range spec.Clusters {
		for ti, t := range cluster.NodeTemplates {
			place := fmt.Sprintf("clusters/%d/nodeTemplates/%d", ci, ti)
			number, ok := armadaCount(t.Number, 1)
			gpus, ok2 := armadaGPUs(t.TotalResources.Resources)
			cpu, ok3 := armadaAmount(t.TotalResources.Resources["cpu"])
			mem, ok4 := armadaAmount(t.TotalResources.Resources["memory"])
			if !ok || !ok2 || !ok3 || !ok4 {
				b.skipTemplate(max(1, number), "nodes with a value that cannot be read", place)
				continue
			}
			if gpus == 0 || number == 0 {
				b.skipTemplate(number, "nodes without GPUs", place)
				continue
			}
			if len(t.Taints) > 0 {
				b.skipTemplate(number, "taints of nodes are not read: jobs may run there", place)
			}
			if total += number * gpus; total > hare.MaxGPUs || number > hare.MaxGPUs {
				return c, false, &RowError{b.file, 1, 1, fmt.Sprintf("%s: more than %d GPUs in all", place, hare.MaxGPUs)}
			}
			node := hare.Node{CPUMilli: int64(cpu * 1000), MemoryMiB: int64(mem / (1 << 20)),
				GPUs: []hare.TypeCount{{Type: armadaType(t.Labels), Count: int(gpus)}}}
			for name, value := range t.Labels {
				node.Labels = append(node.Labels, hare.Label{Name: name, Value: fmt.Sprint(value)})
			}
			node.Labels = slices.DeleteFunc(node.Labels, func(l hare.Label) bool { return l.Name == armadaClusterLabel })
			node.Labels = append(node.Labels, hare.Label{Name: armadaClusterLabel, Value: cluster.Name})
			slices.SortFunc(node.Labels, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
			for i := range number {
				node.Name = fmt.Sprintf("%s-%d-%d", cmp.Or(strings.ReplaceAll(cluster.Name, "/", "-"), "cluster"), ti, i)
				if names[node.Name] {
					return c, false, &RowError{b.file, 1, 1, place + ": two clusters have the name " +
						strconv.Quote(truncate(cluster.Name))}
				}
				names[node.Name] = true
				c.Nodes = append(c.Nodes, node)
			}
		}
	}
	if len(c.Nodes) == 0 {
		return c, false, &RowError{b.file, 1, 1, "no node of the clusters has GPUs (nvidia.com/gpu)"}
	}
	if spread = len(spec.Clusters) > 1; spread {
		c.Topology = []string{armadaClusterLabel}
	}
	return c, spread, nil
}

// armadaType is the GPU type of a node.
func armadaType(labels map[string]any) string {
	for _, name := range armadaTypeLabels {
		if value := fmt.Sprint(labels[name]); labels[name] != nil && value != "" {
			return value
		}
	}
	return "gpu"
}

// workload makes the jobs of all queues.
func (b *armadaBuilder) workload(spec *armadaWorkload) error {
	for qi, q := range spec.Queues {
		weight, ok := armadaAmount(q.Weight)
		if !ok || weight <= 0 || weight > 1e6 {
			weight = 1
		}
		for ti := range q.JobTemplates {
			t := &q.JobTemplates[ti]
			place := fmt.Sprintf("queues/%d/jobTemplates/%d", qi, ti)
			name := fmt.Sprintf("%s-%s", cmp.Or(q.Name, strconv.Itoa(qi)), cmp.Or(t.ID, strconv.Itoa(ti)))
			if b.template(t, q.Name, name, place, int64(weight*1e6)) {
				continue
			}
			return &RowError{b.file, 1, 1, fmt.Sprintf("%s: more than %d jobs in all", place, hare.MaxGPUs)}
		}
	}
	return nil
}

// template makes the jobs of one template; false says that there are too many.
func (b *armadaBuilder) template(t *armadaTemplate, queue, name, place string, weight int64) bool {
	number, ok := armadaCount(t.Number, 1)
	gang, ok2 := armadaCount(t.GangCardinality, 0)
	gpus, ok3 := armadaGPUs(t.Requirements.ResourceRequirements.Requests)
	if gpus == 0 && ok3 {
		gpus, ok3 = armadaGPUs(t.Requirements.ResourceRequirements.Limits)
	}
	cpu, ok4 := armadaAmount(t.Requirements.ResourceRequirements.Requests["cpu"])
	mem, ok5 := armadaAmount(t.Requirements.ResourceRequirements.Requests["memory"])
	submit, ok6 := armadaSeconds(t.EarliestSubmitTime)
	least, ok7 := armadaSeconds(t.RuntimeDistribution.Minimum)
	tail, ok8 := armadaSeconds(t.RuntimeDistribution.TailMean)
	times, period, ok9 := int64(1), 0.0, true
	if t.Repeat != nil {
		var ok10 bool
		times, ok9 = armadaCount(t.Repeat.NumTimes, 1)
		period, ok10 = armadaSeconds(t.Repeat.Period)
		ok9 = ok9 && ok10
	}
	us := int64(math.Round((least + tail) * 1e6))
	switch {
	case !(ok && ok2 && ok3 && ok4 && ok5 && ok6 && ok7 && ok8 && ok9):
		b.skipTemplate(max(1, number), "jobs with a value that cannot be read", place)
		return true
	case number == 0 || times == 0:
		return true
	case gpus == 0:
		b.skipTemplate(number*times, "ask for no GPUs", place)
		return true
	case us == 0:
		b.skipTemplate(number*times, "take no time", place)
		return true
	case gang > 1 && number%gang != 0:
		b.skipTemplate(number*times, "gangs whose size does not divide the number of jobs", place)
		return true
	case number > hare.MaxGPUs || times > hare.MaxGPUs || number*times > hare.MaxGPUs:
		return false
	}
	if len(t.Dependencies) > 0 {
		b.skipTemplate(number*times, "what jobs wait for (dependencies) is left out", place)
	}
	gang = max(1, gang)
	job := hare.Job{WeightMicro: weight, Rounds: 1, Tasks: gang, Sync: b.cfg.syncRule(), Users: []string{queue},
		CPUMilliPerTask: int64(math.Ceil(cpu * 1000)), MemoryMiBPerTask: int64(math.Ceil(mem / (1 << 20)))}
	if b.cfg.GPUs != nil {
		job.CPUMilliPerTask, job.MemoryMiBPerTask = 0, 0
	}
	if gpus > 1 {
		job.GPUsPerTask = gpus
	}
	if gang > 1 && b.spread {
		job.Within = armadaClusterLabel
	}
	for label, value := range t.Requirements.NodeSelector {
		job.Only = append(job.Only, hare.LabelValues{Label: label, Values: []string{fmt.Sprint(value)}})
	}
	slices.SortFunc(job.Only, func(a, c hare.LabelValues) int { return strings.Compare(a.Label, c.Label) })
	if quantum := b.cfg.Quantum.Microseconds(); job.Sync == hare.Gang {
		job.Rounds = (us-1)/quantum + 1
	}
	for _, gpuType := range b.types {
		job.On = append(job.On, hare.Profile{Type: gpuType, ComputeUs: max(1, us/job.Rounds)})
	}
	sortProfiles(job.On)
	for repeat := range times {
		release := int64(math.Round((submit + float64(repeat)*period) * 1e6))
		for i := range number / gang {
			if b.cfg.Jobs > 0 && len(b.inst.Jobs) >= b.cfg.Jobs {
				return true
			}
			if len(b.inst.Jobs) >= hare.MaxGPUs {
				return false
			}
			one := job
			one.ID, one.ReleaseUs = fmt.Sprintf("%s-%d", name, repeat*(number/gang)+i), release
			if b.ids[one.ID] {
				one.ID = fmt.Sprintf("%s-%s", one.ID, strings.ReplaceAll(place, "/", "."))
			}
			b.ids[one.ID] = true
			b.rep.Rows++
			b.addArmada(one, place)
		}
	}
	return true
}

// addArmada keeps a job, or skips it where no nodes can hold it at once.
func (b *armadaBuilder) addArmada(job hare.Job, place string) {
	if b.cfg.Releases == "zero" {
		job.ReleaseUs = 0
	}
	if b.cfg.Weights == "one" {
		job.WeightMicro = 1e6
	}
	fits := map[string]int64{}
	for i := range b.inst.Cluster.Nodes {
		n := &b.inst.Cluster.Nodes[i]
		if !job.AllowsNode(n) {
			continue
		}
		for _, g := range n.GPUs {
			tasks := int64(g.Count) / job.TaskGPUs()
			if job.CPUMilliPerTask > 0 && n.CPUMilli > 0 {
				tasks = min(tasks, n.CPUMilli/job.CPUMilliPerTask)
			}
			if job.MemoryMiBPerTask > 0 && n.MemoryMiB > 0 {
				tasks = min(tasks, n.MemoryMiB/job.MemoryMiBPerTask)
			}
			fits[g.Type] += tasks
		}
	}
	if !slices.ContainsFunc(job.On, func(p hare.Profile) bool { return fits[p.Type] >= job.Tasks }) {
		b.skipTemplate(1, "no nodes of the clusters can hold the job", place)
		return
	}
	b.inst.Jobs = append(b.inst.Jobs, job)
}

// armadaGPUs adds up the GPUs of a list of resources.
func armadaGPUs(resources map[string]any) (gpus int64, ok bool) {
	for resource, value := range resources {
		if !strings.HasSuffix(resource, "/gpu") {
			continue
		}
		amount, fine := armadaAmount(value)
		if !fine || amount > hare.MaxGPUs {
			return 0, false
		}
		gpus += int64(math.Ceil(amount))
	}
	return gpus, true
}

// armadaCount reads a whole number; nil is what else says.
func armadaCount(value any, otherwise int64) (int64, bool) {
	if value == nil {
		return otherwise, true
	}
	x, ok := armadaAmount(value)
	return int64(x), ok && x == math.Trunc(x) && x <= hare.MaxGPUs
}

// armadaUnits are the suffixes of quantities of Kubernetes.
var armadaUnits = []struct {
	suffix string
	factor float64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"m", 1e-3}, {"k", 1e3},
	{"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"", 1}}

// armadaAmount reads a quantity, a number or a text such as 32Gi; nil is 0.
func armadaAmount(value any) (float64, bool) {
	if value == nil {
		return 0, true
	}
	text := strings.TrimSpace(fmt.Sprint(value))
	for _, unit := range armadaUnits {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(digits, 64)
		x *= unit.factor
		return x, err == nil && x >= 0 && x <= hare.MaxPerTask*(1<<20)/1000
	}
	return 0, false
}

// armadaSeconds reads a duration such as 5m, or a number of seconds; nil is 0.
func armadaSeconds(value any) (float64, bool) {
	const most = 10 * 365 * 86400
	switch v := value.(type) {
	case nil:
		return 0, true
	case float64:
		return v, v >= 0 && v <= most
	case string:
		d, err := time.ParseDuration(strings.TrimSpace(v))
		return d.Seconds(), err == nil && d >= 0 && d.Seconds() <= most
	}
	return 0, false
}
