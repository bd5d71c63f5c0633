package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/hare-sched/hare"
)

// Canonical returns the canonical form of an instance: RFC 8785 with explicit defaults, expanded nodes, merged
// windows, times as integer microseconds, weights as integer millionths, and arrays in their order. A window that is
// always open is [0,null]. The name of the instance and the hints of jobs are left out, since they change no schedule,
// value or bound. The fields of docs/reference/model.md are left out where they have their default, thousandths of
// CPUs are integers cpus_milli, bandwidths are whole bandwidth_mbps, memory of GPU types is memory_milli_gib, the
// values of a label in a selector and users are always an array, predecessors are always objects, and levels with the
// time of the next coarser one are left out. Canonical takes O(size).
func Canonical(inst *hare.Instance) []byte {
	return appendCanonical(make([]byte, 0, 256*len(inst.Jobs)+1024), inst, nil)
}

// appendCanonical appends the canonical form. between, where it is not nil, takes what there is between jobs, and
// returns what stays.
func appendCanonical(b []byte, inst *hare.Instance, between func([]byte) []byte) []byte {
	b = appendCanonicalHardware(append(b, `{"cluster":{`...), &inst.Cluster)
	b = appendList(append(b, `"nodes":`...), inst.Cluster.Nodes, appendCanonicalNode)
	b = appendCanonicalReservations(b, inst.Cluster.Reservations)
	if len(inst.Cluster.Topology) > 0 {
		b = appendList(append(b, `,"topology":`...), inst.Cluster.Topology, AppendString)
	}
	b = append(b, `},"hare":"instance/v1","jobs":[`...)
	for i := range inst.Jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCanonicalJob(b, &inst.Jobs[i])
		if between != nil {
			b = between(b)
		}
	}
	b = append(b, `],"objective":`...)
	b = AppendString(b, inst.Objective)
	b = appendCanonicalQuota(b, inst.Quota)
	return append(b, '}')
}

func appendCanonicalNode(b []byte, n hare.Node) []byte {
	b = appendList(append(b, `{"busy":`...), n.Busy, func(b []byte, busy hare.Busy) []byte {
		b = appendInt(append(b, `{"gpu":`...), int64(busy.GPU))
		return append(appendInt(append(b, `,"until_us":`...), busy.UntilUs), '}')
	})
	b = appendSet(b, `,"cpus_milli":`, n.CPUMilli)
	b = appendCounts(append(b, `,"gpus":`...), utf16Sorted(n.GPUs, func(g hare.TypeCount) string { return g.Type }))
	windows := n.Windows
	if windows == nil {
		windows = []hare.Window{{EndUs: hare.Forever}}
	}
	b = appendList(append(b, `,"in_service_us":`...), windows, func(b []byte, w hare.Window) []byte {
		b = append(appendInt(append(b, '['), w.StartUs), ',')
		if w.EndUs == hare.Forever {
			return append(b, "null]"...)
		}
		return append(appendInt(b, w.EndUs), ']')
	})
	if len(n.Labels) > 0 {
		b = appendCanonicalLabels(append(b, `,"labels":`...), n.Labels)
	}
	b = appendSet(b, `,"memory_mib":`, n.MemoryMiB)
	return append(AppendString(append(b, `,"name":`...), n.Name), '}')
}

func appendCanonicalJob(b []byte, j *hare.Job) []byte {
	begin := len(b)
	b = appendCanonicalAfter(b, j.After)
	b = appendSet(b, `,"cpus_milli_per_task":`, j.CPUMilliPerTask)
	b = appendSet(b, `,"deadline_us":`, j.DeadlineUs)
	if j.DistinctNodes {
		b = append(b, `,"distinct_nodes":true`...)
	}
	b = appendCanonicalDurations(b, j.Durations)
	if len(j.Exclude) > 0 {
		b = appendCanonicalSelector(append(b, `,"exclude":`...), j.Exclude)
	}
	if g := j.TaskGPUs(); g > 1 {
		b = appendSet(b, `,"gpus_per_task":`, g)
	}
	b = append(b, `,"id":`...)
	b[begin] = '{'
	b = AppendString(b, j.ID)
	b = appendSet(b, `,"late_weight_micro":`, j.LateWeightMicro)
	b = appendSet(b, `,"memory_mib_per_task":`, j.MemoryMiBPerTask)
	b = strconv.AppendBool(append(b, `,"mix":`...), j.Mix)
	if j.Shapes == nil {
		b = appendCanonicalProfiles(append(b, `,"on":`...), j.On)
	}
	if len(j.Only) > 0 {
		b = appendCanonicalSelector(append(b, `,"only":`...), j.Only)
	}
	b = appendCanonicalProgress(b, j.Progress)
	b = appendInt(append(b, `,"release_us":`...), j.ReleaseUs)
	if j.Reshape {
		b = appendInt(append(b, `,"reshape_us":`...), j.ReshapeUs)
	}
	b = appendInt(append(b, `,"rounds":`...), j.Rounds)
	b = appendCanonicalShapes(b, j.Shapes)
	b = append(b, `,"sync":"`...)
	b = append(b, j.Sync.String()...)
	b = append(b, '"')
	if j.Shapes == nil {
		b = appendInt(append(b, `,"tasks":`...), j.Tasks)
	}
	b = appendCanonicalNames(b, `,"user":`, j.Users)
	b = appendInt(append(b, `,"weight_micro":`...), j.WeightMicro)
	if j.Within != "" {
		b = AppendString(append(b, `,"within":`...), j.Within)
	}
	return append(b, '}')
}

// SHA256 returns the hex digest of the canonical form of an instance.
func SHA256(inst *hare.Instance) string {
	h := sha256.New()
	rest := appendCanonical(nil, inst, func(b []byte) []byte {
		if len(b) < 1<<16 {
			return b
		}
		h.Write(b)
		return b[:0]
	})
	h.Write(rest)
	return hex.EncodeToString(h.Sum(nil))
}
