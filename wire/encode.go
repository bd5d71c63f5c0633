package wire

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"

	"github.com/hare-sched/hare"
)

// EncodeInstance writes the instance/v1 form of an instance, with one node and one
// job on each line.
func EncodeInstance(w io.Writer, inst *hare.Instance) error {
	b := bufio.NewWriter(w)
	doc := &instanceDoc{Instance: inst}
	line := instanceTable.appendFields(nil, doc, "hare", "name", "objective")
	line = append(line, ",\n \"cluster\":{\"nodes\":["...)
	node := nodeDoc{}
	for i := range inst.Cluster.Nodes {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, "\n  "...)
		node.Node = inst.Cluster.Nodes[i]
		line = nodeTable.Append(line, &node)
	}
	line = append(line, ']')
	if len(inst.Cluster.Reservations) > 0 {
		line = appendReservations(append(line, ",\n  \"reservations\":"...), inst.Cluster.Reservations)
	}
	if len(inst.Cluster.Topology) > 0 {
		line = appendList(append(line, ",\n  \"topology\":"...), inst.Cluster.Topology, appendString)
	}
	if len(inst.Cluster.Bandwidths) > 0 {
		line = appendBandwidths(append(line, ",\n  \"bandwidth_gbps\":"...), inst.Cluster.Bandwidths)
	}
	if len(inst.Cluster.GPUTypes) > 0 {
		line = appendGPUTypes(append(line, ",\n  \"gpu_types\":"...), inst.Cluster.GPUTypes)
	}
	line = append(line, '}')
	if len(inst.Quota) > 0 {
		line = appendQuota(append(line, ",\n \"quota\":"...), inst.Quota)
	}
	line = append(line, ",\n \"jobs\":["...)
	job := jobDoc{}
	for i := range inst.Jobs {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, "\n  "...)
		job.Job = &inst.Jobs[i]
		line = jobTable.Append(line, &job)
		if _, err := b.Write(line); err != nil {
			return err
		}
		line = line[:0]
	}
	line = append(line, "]}\n"...)
	if _, err := b.Write(line); err != nil {
		return err
	}
	return b.Flush()
}

// AppendCluster appends the JSON form of a cluster.
func AppendCluster(b []byte, c *hare.Cluster) []byte {
	return clusterTable.Append(b, &clusterDoc{Cluster: c})
}

func appendNodes(b []byte, nodes []hare.Node) []byte {
	var doc nodeDoc
	return appendList(b, nodes, func(b []byte, n hare.Node) []byte {
		doc.Node = n
		return nodeTable.Append(b, &doc)
	})
}

func appendCounts(b []byte, counts []hare.TypeCount) []byte {
	b = append(b, '{')
	for i, g := range counts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, g.Type), ':')
		b = appendInt(b, int64(g.Count))
	}
	return append(b, '}')
}

func appendWindows(b []byte, windows []hare.Window) []byte {
	if windows == nil {
		return b
	}
	return appendList(b, windows, func(b []byte, w hare.Window) []byte {
		b = hare.AppendMicros(append(b, '['), w.StartUs)
		if w.EndUs == hare.Forever {
			return append(b, ",null]"...)
		}
		return append(hare.AppendMicros(append(b, ','), w.EndUs), ']')
	})
}

func appendBusy(b []byte, busy []hare.Busy) []byte {
	if len(busy) == 0 {
		return b
	}
	return appendList(b, busy, func(b []byte, x hare.Busy) []byte {
		return busyTable.Append(b, &busyDoc{int64(x.GPU), x.UntilUs})
	})
}

func appendJobs(b []byte, jobs []hare.Job) []byte {
	var doc jobDoc
	b = append(b, '[')
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		doc.Job = &jobs[i]
		b = jobTable.Append(b, &doc)
	}
	return append(b, ']')
}

func appendSync(b []byte, s hare.Sync) []byte {
	if s == hare.Relaxed {
		return b
	}
	return appendString(b, s.String())
}

func appendMix(b []byte, mix bool) []byte {
	if !mix {
		return b
	}
	return append(b, "true"...)
}

func appendProfiles(b []byte, profiles []hare.Profile, doc *profileDoc) []byte {
	b = append(b, '{')
	for i := range profiles {
		if i > 0 {
			b = append(b, ',')
		}
		doc.Profile = &profiles[i]
		b = append(appendString(b, doc.Type), ':')
		b = profileTable.Append(b, doc)
	}
	return append(b, '}')
}

func appendColumn[T int32 | int64](b []byte, xs []T) []byte {
	b = append(b, '[')
	for i, x := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return append(b, ']')
}

// raw returns the text of a number unchanged.
func raw(s string) json.RawMessage { return json.RawMessage(s) }

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func appendList[T any](b []byte, xs []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, x)
	}
	return append(b, ']')
}

// appendInstance appends the instance/v1 form of an instance on one line.
func appendInstance(b []byte, inst *hare.Instance) []byte {
	return instanceTable.Append(b, &instanceDoc{Instance: inst})
}
