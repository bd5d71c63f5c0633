package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

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
	b = append(b, `"nodes":[`...)
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"busy":[`...)
		for x, busy := range n.Busy {
			if x > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"gpu":`...)
			b = strconv.AppendInt(b, int64(busy.GPU), 10)
			b = append(b, `,"until_us":`...)
			b = strconv.AppendInt(b, busy.UntilUs, 10)
			b = append(b, '}')
		}
		b = append(b, ']')
		b = appendSet(b, `,"cpus_milli":`, n.CPUMilli)
		b = append(b, `,"gpus":{`...)
		for x, g := range utf16Sorted(n.GPUs, func(g hare.TypeCount) string { return g.Type }) {
			if x > 0 {
				b = append(b, ',')
			}
			b = appendString(b, g.Type)
			b = append(b, ':')
			b = strconv.AppendInt(b, int64(g.Count), 10)
		}
		b = append(b, `},"in_service_us":[`...)
		windows := n.Windows
		if windows == nil {
			windows = []hare.Window{{EndUs: hare.Forever}}
		}
		for x, w := range windows {
			if x > 0 {
				b = append(b, ',')
			}
			b = append(b, '[')
			b = strconv.AppendInt(b, w.StartUs, 10)
			b = append(b, ',')
			if w.EndUs == hare.Forever {
				b = append(b, "null"...)
			} else {
				b = strconv.AppendInt(b, w.EndUs, 10)
			}
			b = append(b, ']')
		}
		b = append(b, ']')
		if len(n.Labels) > 0 {
			b = appendCanonicalLabels(append(b, `,"labels":`...), n.Labels)
		}
		b = appendSet(b, `,"memory_mib":`, n.MemoryMiB)
		b = append(b, `,"name":`...)
		b = appendString(b, n.Name)
		b = append(b, '}')
	}
	b = append(b, ']')
	b = appendCanonicalReservations(b, inst.Cluster.Reservations)
	if len(inst.Cluster.Topology) > 0 {
		b = appendList(append(b, `,"topology":`...), inst.Cluster.Topology, appendString)
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
	b = appendString(b, inst.Objective)
	b = appendCanonicalQuota(b, inst.Quota)
	return append(b, '}')
}

// appendSet appends a key and its number where the number is not 0.
func appendSet(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
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
	b = appendString(b, j.ID)
	b = appendSet(b, `,"late_weight_micro":`, j.LateWeightMicro)
	b = appendSet(b, `,"memory_mib_per_task":`, j.MemoryMiBPerTask)
	b = append(b, `,"mix":`...)
	b = strconv.AppendBool(b, j.Mix)
	if j.Shapes == nil {
		b = appendCanonicalProfiles(append(b, `,"on":`...), j.On)
	}
	if len(j.Only) > 0 {
		b = appendCanonicalSelector(append(b, `,"only":`...), j.Only)
	}
	b = appendCanonicalProgress(b, j.Progress)
	b = append(b, `,"release_us":`...)
	b = strconv.AppendInt(b, j.ReleaseUs, 10)
	if j.Reshape {
		b = strconv.AppendInt(append(b, `,"reshape_us":`...), j.ReshapeUs, 10)
	}
	b = append(b, `,"rounds":`...)
	b = strconv.AppendInt(b, j.Rounds, 10)
	b = appendCanonicalShapes(b, j.Shapes)
	b = append(b, `,"sync":"`...)
	b = append(b, j.Sync.String()...)
	b = append(b, '"')
	if j.Shapes == nil {
		b = strconv.AppendInt(append(b, `,"tasks":`...), j.Tasks, 10)
	}
	b = appendCanonicalNames(b, `,"user":`, j.Users)
	b = append(b, `,"weight_micro":`...)
	b = strconv.AppendInt(b, j.WeightMicro, 10)
	if j.Within != "" {
		b = appendString(append(b, `,"within":`...), j.Within)
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

// quoted marks the bytes that a JSON string must escape, and the bytes of multibyte
// characters.
var quoted = func() (is [256]bool) {
	for c := range is {
		is[c] = c < 0x20 || c >= 0x7F || c == '"' || c == '\\'
	}
	return is
}()

// appendString appends s as RFC 8785 writes strings.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if quoted[s[i]] {
			out, _ := jsontext.AppendQuote(b, s) // text that is not UTF-8 gets U+FFFD
			return out
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
