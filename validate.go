package hare

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Validate finds every fault of an instance that a program built, with the
// pointers and codes of DecodeInstance. Its order of types, windows and busy
// GPUs must be that of a decoded instance.
func (inst *Instance) Validate() error {
	var all InvalidErrors
	add := func(pointer, code, format string, a ...any) {
		all = append(all, &InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)})
	}
	if inst.Objective != ObjectiveWeightedJCT {
		add("/objective", "not_supported", "objective %q: must be %q", clip(inst.Objective), ObjectiveWeightedJCT)
	}
	names := map[string]bool{}
	gpus := 0
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		at := "/cluster/nodes/" + strconv.Itoa(i)
		all = append(all, checkNode(at, n)...)
		if names[n.Name] {
			add(at+"/name", "duplicate_id", "node %q stands twice: names must differ", clip(n.Name))
		}
		names[n.Name] = true
		if gpus += n.gpuCount(); gpus > MaxGPUs {
			add(at, "too_large", "the cluster has more than %d GPUs: split it", MaxGPUs)
			break
		}
	}
	if gpus == 0 {
		add("/cluster/nodes", "no_gpus", "the cluster has no GPUs: give at least one node with gpus")
	}
	ids := map[string]bool{}
	var horizon int64
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		at := "/jobs/" + strconv.Itoa(i)
		faults := checkJob(at, j)
		all = append(all, faults...)
		if ids[j.ID] {
			add(at+"/id", "duplicate_id", "id %q stands twice: ids must differ", clip(j.ID))
		}
		ids[j.ID] = true
		if len(faults) == 0 && !inst.lengthen(&horizon, j) {
			add(at, "too_large", "the work of all jobs up to this one, one after another, takes more than 2^53 µs (285 years)")
			break
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// checkNode finds the faults of one node; it sorts and merges its windows.
func checkNode(at string, n *Node) InvalidErrors {
	var all InvalidErrors
	add := func(pointer, code, format string, a ...any) {
		all = append(all, &InvalidError{Pointer: at + pointer, Code: code, Detail: fmt.Sprintf(format, a...)})
	}
	switch {
	case n.Name == "":
		add("/name", "missing_field", "a node needs a name")
	case strings.Contains(n.Name, "/"):
		add("/name", "bad_name", "node name %q must not contain a slash: GPUs are called node/index", clip(n.Name))
	}
	if len(n.GPUs) == 0 {
		add("/gpus", "missing_field", `a node needs "gpus" with at least one type, e.g. {"V100": 4}`)
	}
	for _, g := range n.GPUs {
		if g.Type == "" || g.Count < 1 || g.Count > MaxGPUs {
			add("/gpus", "out_of_range", "type %q has %d GPUs: must be named and between 1 and %d", clip(g.Type), g.Count, MaxGPUs)
		}
	}
	if n.Windows != nil && len(n.Windows) == 0 {
		add("/in_service_s", "bad_window", "has no window, so the node is never in service: leave the node out")
	}
	var merged []Window
	for i, w := range n.Windows {
		p := "/in_service_s/" + strconv.Itoa(i)
		if w.EndUs <= w.StartUs || w.StartUs < 0 || w.StartUs > MaxExact || w.EndUs != Forever && w.EndUs > MaxExact {
			add(p, "bad_window", "must start at 0 or later and end after it starts")
			continue
		}
		if m := len(merged); m > 0 {
			last := &merged[m-1]
			if w.StartUs < last.EndUs {
				add(p, "bad_window", "windows must be in order and disjoint: this one starts at %s, before the last one ends", FormatMicros(w.StartUs))
				continue
			}
			if w.StartUs == last.EndUs {
				last.EndUs = w.EndUs
				continue
			}
		}
		merged = append(merged, w)
	}
	if len(merged) == 1 && merged[0] == (Window{0, Forever}) {
		merged = nil
	}
	if len(all) > 0 {
		return all
	}
	n.Windows = merged
	each := n.gpuCount()
	place := make(map[int]int, len(n.Busy))
	for i, b := range n.Busy {
		p := "/busy/" + strconv.Itoa(i)
		if b.GPU < 0 || b.GPU >= each {
			add(p+"/gpu", "out_of_range", "GPU %d: this node has %d, counted from 0", b.GPU, each)
		}
		if first, twice := place[b.GPU]; twice {
			add(p+"/gpu", "duplicate_id", "GPU %d stands twice, first at busy/%d: give its last until_s once", b.GPU, first)
		}
		place[b.GPU] = i
		if b.UntilUs < 0 || b.UntilUs > MaxExact {
			add(p+"/until_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
		}
	}
	if len(all) == 0 {
		n.Busy = slices.DeleteFunc(n.Busy, func(b Busy) bool { return b.UntilUs == 0 })
		slices.SortFunc(n.Busy, func(a, b Busy) int { return a.GPU - b.GPU })
		if len(n.Busy) == 0 {
			n.Busy = nil
		}
	}
	return all
}

// checkJob finds the faults of one job.
func checkJob(at string, j *Job) InvalidErrors {
	var all InvalidErrors
	add := func(pointer, code, format string, a ...any) {
		all = append(all, &InvalidError{Pointer: at + pointer, Code: code, Detail: fmt.Sprintf(format, a...)})
	}
	if j.ID == "" {
		add("/id", "missing_field", "a job needs an id")
	}
	if j.WeightMicro < 0 || j.WeightMicro > MaxExact {
		add("/weight", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if j.ReleaseUs < 0 || j.ReleaseUs > MaxExact {
		add("/release_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	}
	if j.Rounds < 1 || j.Rounds > MaxExact {
		add("/rounds", "out_of_range", "must be between 1 and 2^53")
	}
	most := int64(1<<31 - 1)
	if j.Sync != Relaxed {
		most = MaxGPUs
	}
	if j.Tasks < 1 || j.Tasks > most {
		add("/tasks", "out_of_range", "must be between 1 and %d for a %s job", most, j.Sync)
	}
	if j.Sync > Rigid {
		add("/sync", "unknown_value", "must be relaxed, gang or rigid")
	}
	if j.Mix && j.Sync != Gang {
		add("/mix", "not_allowed", "mix is a choice of gang jobs alone")
	}
	if len(j.On) == 0 {
		add("/on", "missing_field", `"on" names no GPU type: give at least one, e.g. {"V100": {"compute_s": 1.2}}`)
	}
	for i, p := range j.On {
		at := "/on/" + escapePointer(p.Type)
		switch {
		case p.Type == "":
			add("/on", "empty_name", "a GPU type needs a name")
		case i > 0 && j.On[i-1].Type >= p.Type:
			add(at, "duplicate_name", "types must be in order and differ")
		case p.ComputeUs < 1 || p.ComputeUs > MaxExact:
			add(at+"/compute_s", "out_of_range", "must be positive and at most %s", FormatMicros(MaxExact))
		case p.SyncUs < 0 || p.SyncUs > MaxExact:
			add(at+"/sync_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
		}
	}
	return all
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// lengthen adds the longest time that job j can take, alone and one task after
// another, to *horizon, which starts with the cluster's last change. It
// reports false when the sum passes MaxExact: below it, no time of a schedule
// without needless waiting leaves 53 bits.
func (inst *Instance) lengthen(horizon *int64, j *Job) bool {
	if *horizon == 0 {
		*horizon = 1
		for i := range inst.Cluster.Nodes {
			n := &inst.Cluster.Nodes[i]
			for _, w := range n.Windows {
				*horizon = max(*horizon, w.StartUs)
				if w.EndUs != Forever {
					*horizon = max(*horizon, w.EndUs)
				}
			}
			for _, b := range n.Busy {
				*horizon = max(*horizon, b.UntilUs)
			}
		}
	}
	longest := int64(0)
	for _, p := range j.On {
		longest = max(longest, p.DurationUs())
	}
	units := uint64(j.Rounds)
	if j.Sync == Relaxed {
		hi, lo := bits.Mul64(units, uint64(j.Tasks))
		if hi != 0 || lo > MaxExact {
			return false
		}
		units = lo
	}
	hi, lo := bits.Mul64(units, uint64(longest))
	if hi != 0 || lo > MaxExact {
		return false
	}
	// Releases and work are both added: a bound on any sensible end.
	sum := *horizon + int64(lo)
	if sum > MaxExact || max(sum, j.ReleaseUs+int64(lo)) > MaxExact {
		return false
	}
	*horizon = max(sum, j.ReleaseUs+int64(lo))
	return true
}
