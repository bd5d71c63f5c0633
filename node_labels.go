package hare

import (
	"slices"
	"strconv"
	"strings"
)

// LabelNode is the label under which the selectors of a job find a node by its name. No
// node carries this label.
const LabelNode = "node"

// MaxPerTask limits the thousandths of CPUs and the MiB of memory of a node and of a task,
// so that the sums over all GPUs of a cluster fit into 64 bits.
const MaxPerTask = 1 << 40

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
			es.Add(p, "not_allowed", `"node" is the name of the node itself: use another name for the label`)
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
