package hare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// LabelNode is the label under which the selectors of a job find a node by its name. No
// node carries this label.
const LabelNode = "node"

// Limits of the labels of a node and of the selectors of a job.
const (
	MaxLabels      = 64  // labels of a node, and labels of a selector
	MaxLabelValues = 1e5 // values of one label in a selector
	MaxLabelText   = 253 // bytes of a label's name, and of its value
)

// MaxPerTask limits the thousandths of CPUs and the MiB of memory of a node and of a task,
// so that the sums over all GPUs of a cluster fit into 64 bits.
const MaxPerTask = 1 << 40

// Label is one label of a node, such as disk=nvme.
type Label struct {
	Name, Value string
}

// LabelValues is a label and the values of the label that a selector names.
type LabelValues struct {
	Label  string
	Values []string // sorted, each value once, at least one
}

// Label returns the value of a label of the node, LabelNode included.
func (n *Node) Label(name string) (value string, ok bool) {
	if name == LabelNode {
		return n.Name, true
	}
	i, ok := slices.BinarySearchFunc(n.Labels, name, func(l Label, name string) int {
		return strings.Compare(l.Name, name)
	})
	if !ok {
		return "", false
	}
	return n.Labels[i].Value, true
}

// matches reports whether the node carries the label with one of the values. It takes
// O(log labels + log values).
func (lv *LabelValues) matches(n *Node) bool {
	value, ok := n.Label(lv.Label)
	if !ok {
		return false
	}
	_, found := slices.BinarySearch(lv.Values, value)
	return found
}

// AllowsNode reports whether tasks of the job may run on the node, going by the job's
// selectors alone.
func (j *Job) AllowsNode(n *Node) bool {
	for i := range j.Only {
		if !j.Only[i].matches(n) {
			return false
		}
	}
	for i := range j.Exclude {
		if j.Exclude[i].matches(n) {
			return false
		}
	}
	return true
}

// labelFault says what is wrong with the name or value of a label; "" means nothing.
func labelFault(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "must be UTF-8"
	case len(text) > MaxLabelText:
		return fmt.Sprintf("has more than %d bytes", MaxLabelText)
	}
	return ""
}

// checkLabelName adds the fault of a label's name. A missing name is explained by an example.
func (es *InvalidErrors) checkLabelName(at, name, example string) {
	if name == "" {
		es.Add(at, "bad_name", "a label needs a name%s", example)
	} else if fault := labelFault(name); fault != "" {
		es.Add(at, "bad_name", "the name of the label %s", fault)
	}
}

// checkLabels adds the faults of a node's labels.
func (es *InvalidErrors) checkLabels(at string, labels []Label) {
	if len(labels) > MaxLabels {
		es.Add(at, "too_many", "a node has at most %d labels", MaxLabels)
		return
	}
	for i, l := range labels {
		p := at + "/" + EscapePointer(l.Name)
		es.checkLabelName(p, l.Name, "")
		if l.Name == LabelNode {
			es.Add(p, "not_allowed", `"node" is the name of the node itself: call the label otherwise`)
		}
		if fault := labelFault(l.Value); fault != "" {
			es.Add(p, "bad_name", "%s", fault)
		}
		if i > 0 && labels[i-1].Name >= l.Name {
			es.Add(at, "unordered", "labels must be sorted, each once")
		}
	}
}

// checkSelector adds the faults of the member only or exclude of a job.
func (es *InvalidErrors) checkSelector(at string, selector []LabelValues) {
	if len(selector) > MaxLabels {
		es.Add(at, "too_many", "a selector has at most %d labels", MaxLabels)
		return
	}
	for i, lv := range selector {
		p := at + "/" + EscapePointer(lv.Label)
		es.checkLabelName(p, lv.Label, `, e.g. {"disk": "nvme"}; "node" is the name of a node`)
		if i > 0 && selector[i-1].Label >= lv.Label {
			es.Add(at, "unordered", "labels must be sorted, each once")
		}
		if len(lv.Values) == 0 {
			es.Add(p, "missing_field", `names no value: give one, e.g. "nvme", or several, e.g. ["nvme", "ssd"]`)
		}
		if len(lv.Values) > MaxLabelValues {
			es.Add(p, "too_many", "a selector has at most %d values of a label", int(MaxLabelValues))
			continue
		}
		for x, v := range lv.Values {
			if fault := labelFault(v); fault != "" {
				es.Add(p+"/"+strconv.Itoa(x), "bad_name", "%s", fault)
			}
			if x > 0 && lv.Values[x-1] >= v {
				es.Add(p, "unordered", "values must be sorted, each once")
			}
		}
	}
}

// checkPlacement adds the faults of the rules of a job about nodes.
func (es *InvalidErrors) checkPlacement(at string, j *Job) {
	if j.CPUMilliPerTask < 0 || j.CPUMilliPerTask > MaxPerTask {
		es.Add(at+"/cpus_per_task", "out_of_range", "must be between 0 and %s", FormatMillis(MaxPerTask))
	}
	if j.MemoryMiBPerTask < 0 || j.MemoryMiBPerTask > MaxPerTask {
		es.Add(at+"/memory_mib_per_task", "out_of_range", "must be between 0 and %d", int64(MaxPerTask))
	}
	if j.DistinctNodes && j.Sync == Relaxed {
		es.Add(at+"/distinct_nodes", "not_allowed",
			"belongs to gang and rigid jobs, whose tasks run at the same time: leave it out, or use sync gang")
	}
	es.checkWithin(at, j)
	es.checkSelector(at+"/only", j.Only)
	es.checkSelector(at+"/exclude", j.Exclude)
}

// placedBy returns the pointer of the first field of a node or a job that makes nodes matter,
// and "" where there is none.
func (inst *Instance) placedBy() string {
	cpus, memory := false, false
	for i := range inst.Cluster.Nodes {
		cpus = cpus || inst.Cluster.Nodes[i].CPUMilli > 0
		memory = memory || inst.Cluster.Nodes[i].MemoryMiB > 0
	}
	for i := range inst.Jobs {
		j, field := &inst.Jobs[i], ""
		switch {
		case j.TaskGPUs() > 1:
			field = "gpus_per_task"
		case slices.ContainsFunc(j.Shapes, func(s Shape) bool { return s.TaskGPUs() > 1 }):
			field = "shapes"
		case j.DistinctNodes:
			field = "distinct_nodes"
		case j.Within != "":
			field = "within"
		case j.Spreads():
			field = j.spreadField()
		case len(j.Only) > 0:
			field = "only"
		case len(j.Exclude) > 0:
			field = "exclude"
		case cpus && j.CPUMilliPerTask > 0:
			field = "cpus_per_task"
		case memory && j.MemoryMiBPerTask > 0:
			field = "memory_mib_per_task"
		case j.Running():
			field = "progress"
		default:
			continue
		}
		return "/jobs/" + strconv.Itoa(i) + "/" + field
	}
	return ""
}
