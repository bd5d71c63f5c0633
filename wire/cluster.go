package wire

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

var clusterTable = NewTable("Cluster", "Cluster is a list of machines.",
	NewField("nodes", ListOf(RefTo(nodeTable)),
		func(_ *Reader, v *clusterDoc) error { return v.d.nodeList(&v.seen) },
		func(b []byte, v *clusterDoc) []byte { return AppendNodes(b, v.Nodes) }).
		Required("give an array of nodes").
		About("nodes of the cluster, each with a name of its own.").With("minItems", 1),
	NewField("reservations", ListOf(RefTo(reservationTable)),
		func(r *Reader, v *clusterDoc) error { return readReservations(r, &v.Reservations) },
		func(b []byte, v *clusterDoc) []byte { return appendReservations(b, v.Reservations) }).
		About("reservations keep all jobs but some off some nodes for some time."),
	topologyField.
		About("topology are labels that all nodes have, coarse ones first. The levels are node, these labels, and any: "+
			"nodes share a domain of a label if they agree in the label and in all coarser ones.").
		Example([]string{"zone", "rack"}),
	bandwidthField(),
	gpuTypesField(),
).Check(func(v *clusterDoc, has Members, found *hare.InvalidErrors) {
	if len(v.Topology) > 0 {
		found.CheckTopology("", v.Cluster, func(n int) int { return v.d.nodes[v.Nodes[n].Name] })
	}
	if has.Sound {
		found.CheckHardware("", v.Cluster)
	}
	if has.Has("nodes") && v.seen == 0 && !v.d.mayBeEmpty {
		found.Add("/nodes", "no_gpus", "the cluster has no GPUs: give at least one node with gpus")
	}
})

var topologyField = Strings("topology",
	func(v *clusterDoc) *[]string { return &v.Topology }, hare.MaxTopology, "labels")

// topology reads the topology of a cluster.
func (d *instanceReader) topology() error {
	return topologyField.read(d.Reader, &clusterDoc{Cluster: &d.inst.Cluster, d: d})
}

func (d *instanceReader) cluster() error {
	return clusterTable.Read(d.Reader, &clusterDoc{Cluster: &d.inst.Cluster, d: d})
}

var nodeTable = NewTable("Node",
	"Node is one machine, or count equal ones. A GPU is named node/index, the index running through the node's "+
		"types in sorted order.",
	String("name", func(v *nodeDoc) *string { return &v.Name }).Needed().
		About("name is unique in the cluster.").With("minLength", 1),
	NewField("count", Schema{"type": "integer", "format": "int64", "minimum": 1},
		func(r *Reader, v *nodeDoc) error { return r.Integer(&v.count, 1, hare.MaxGPUs) }, nil).
		About("count makes copies named name-0, name-1 and so on."),
	NewField("gpus", MapOf(Schema{"type": "integer", "format": "int64", "minimum": 1}),
		func(r *Reader, v *nodeDoc) error {
			before := r.Faults()
			err := readTypeCounts(r, &v.Node)
			v.badGPUs = r.Faults() > before
			return err
		},
		func(b []byte, v *nodeDoc) []byte { return appendCounts(b, v.GPUs) }).Needed().
		About("gpus is the number of GPUs by type, each at least 1.").
		Example(Schema{"V100": 2, "T4": 4}).With("minProperties", 1),
	NewField("in_service_s", ListOf(Schema{
		"type": "array", "minItems": 2, "maxItems": 2,
		"prefixItems": []Schema{microsSchema(0), {"type": []string{"number", "null"}, "format": "double",
			"minimum": 0}},
	}),
		func(r *Reader, v *nodeDoc) error {
			before := r.Faults()
			v.Windows = []hare.Window{}
			err := v.d.windows(&v.Node)
			if r.Faults() > before {
				v.Windows = nil // the indices of the windows that remain would differ from the document's
			}
			return err
		},
		func(b []byte, v *nodeDoc) []byte { return appendWindows(b, v.Windows) }).
		About("in_service_s are the windows in service, half-open, in order, disjoint: [start, end], where null is "+
			"open. Left out: always.").
		With("minItems", 1),
	NewField("busy", ListOf(RefTo(busyTable)),
		func(r *Reader, v *nodeDoc) error {
			before := r.Faults()
			err := r.Array(func(int) error {
				busy := busyDoc{GPU: -1, UntilUs: -1}
				err := busyTable.Read(r, &busy)
				v.Busy = append(v.Busy, hare.Busy{GPU: int(busy.GPU), UntilUs: busy.UntilUs})
				return err
			})
			if r.Faults() > before {
				v.Busy = nil
			}
			return err
		},
		func(b []byte, v *nodeDoc) []byte { return appendBusy(b, v.Busy) }).
		About("busy lists GPUs that something outside of the instance holds from time 0 on."),
	Millis("cpus", func(v *nodeDoc) *int64 { return &v.CPUMilli }, 1, hare.MaxPerTask).
		About("cpus is the number of CPUs of the node, with at most three decimals. Left out: no limit.").Example(96),
	Integer("memory_mib", func(v *nodeDoc) *int64 { return &v.MemoryMiB }, 1, hare.MaxPerTask).
		About("memory_mib is the memory of the node. Left out: no limit.").Example(524288),
	NewField("labels", MapOf(Schema{"type": "string"}),
		func(r *Reader, v *nodeDoc) error { return readLabels(r, &v.Labels) },
		func(b []byte, v *nodeDoc) []byte { return appendLabels(b, v.Labels) }).
		About("labels are what the selectors of jobs, only and exclude, go by.").
		Example(Schema{"rack": "r1", "disk": "nvme"}),
).Check(func(v *nodeDoc, has Members, found *hare.InvalidErrors) {
	found.CheckNode("", &v.Node, !v.badGPUs)
	v.Normalise()
	v.d.addNode(v, has.Sound, found)
})

// busyDoc is the form of hare.Busy in the document.
type busyDoc struct{ GPU, UntilUs int64 }

var busyTable = NewTable("Busy", "Busy makes a GPU unavailable from time 0 on, on every copy of its node.",
	Integer("gpu", func(v *busyDoc) *int64 { return &v.GPU }, 0, hare.MaxGPUs).Needed().About("gpu is the index on "+
		"the node."),
	Micros("until_s", func(v *busyDoc) *int64 { return &v.UntilUs }, 0).Needed().
		About("until_s is when the GPU becomes free."),
).Check(func(v *busyDoc, has Members, found *hare.InvalidErrors) {
	if has.Sound && (v.GPU < 0 || v.UntilUs < 0) {
		found.Add("", "missing_field", `needs "gpu" (counted from 0 on its node) and "until_s"`)
	}
})

// nodeList reads the nodes of a cluster.
func (d *instanceReader) nodeList(seen *int) error {
	doc := new(nodeDoc)
	return d.Array(func(i int) error {
		*seen = i + 1
		*doc = nodeDoc{d: d, index: i}
		return nodeTable.Read(d.Reader, doc)
	})
}

// Nodes reads a node that is not part of an instance, with its copies.
func (r *Reader) Nodes() ([]hare.Node, error) {
	d := newInstanceReader(r, "")
	err := nodeTable.Read(r, &nodeDoc{d: d})
	return d.inst.Cluster.Nodes, err
}

// copyBytes is about the memory that a copy of a node takes while a cluster is decoded, with its name and its place in
// the index; fewer copies than claimedCopies are not worth a claim.
const (
	copyBytes     = 400
	claimedCopies = 1000
)

// addNode appends a node and its copies to the cluster; sound means that reading
// the node found no fault.
func (d *instanceReader) addNode(v *nodeDoc, sound bool, found *hare.InvalidErrors) {
	if d.full {
		return
	}
	copies := max(1, v.count)
	if d.gpus += v.GPUCount() * copies; d.gpus > hare.MaxGPUs || int64(len(d.nodes))+copies > hare.MaxGPUs {
		found.Add("", "too_large", "the cluster has more than %d GPUs up to here: split it", hare.MaxGPUs)
		d.full = true
		return
	}
	if copies >= claimedCopies && d.claim != nil {
		if err := d.claim(copies * copyBytes); err != nil {
			d.failed, d.full = err, true
			return
		}
	}
	n := v.Node
	for c := range copies {
		if v.count > 0 {
			n.Name = v.Name + "-" + strconv.FormatInt(c, 10)
		}
		if first, twice := d.nodes[n.Name]; twice && v.Name != "" {
			found.Add("/name", "duplicate_id", "node %q appears twice, first at %s/cluster/nodes/%d: names must differ",
				hare.Clip(n.Name), d.root, first)
			return
		}
		d.nodes[n.Name] = v.index
		if sound && len(*found) == 0 {
			d.inst.Cluster.Nodes = append(d.inst.Cluster.Nodes, n)
		}
	}
}

// readTypeCounts reads the GPUs of a node.
func readTypeCounts(r *Reader, n *hare.Node) error {
	err := r.Object(nil, func(name string) (bool, error) {
		c := int64(1) // replaced, or a fault
		err := r.Integer(&c, 1, hare.MaxGPUs)
		n.GPUs = append(n.GPUs, hare.TypeCount{Type: name, Count: int(c)})
		return true, err
	})
	slices.SortFunc(n.GPUs, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	return err
}

func (d *instanceReader) windows(n *hare.Node) error {
	return d.Array(func(int) error {
		w := hare.Window{EndUs: hare.Forever}
		parts, before := 0, len(d.faults)
		err := d.Array(func(i int) error {
			parts++
			switch {
			case i == 0:
				return d.Micros(&w.StartUs, 0)
			case i == 1 && !d.Is('n'):
				return d.Micros(&w.EndUs, 0)
			}
			return d.Skip()
		})
		if err != nil || len(d.faults) > before {
			return err
		}
		if parts != 2 {
			return d.Fault("bad_window", "must be [start, end] with end a number, or null for open")
		}
		n.Windows = append(n.Windows, w)
		return nil
	})
}

// AppendCluster appends the JSON form of a cluster.
func AppendCluster(b []byte, c *hare.Cluster) []byte {
	return clusterTable.Append(b, &clusterDoc{Cluster: c})
}

func AppendNodes(b []byte, nodes []hare.Node) []byte {
	var doc nodeDoc
	return appendList(b, nodes, func(b []byte, n hare.Node) []byte {
		doc.Node = n
		return nodeTable.Append(b, &doc)
	})
}

func appendCounts(b []byte, counts []hare.TypeCount) []byte {
	return appendObject(b, counts, func(g *hare.TypeCount) string { return g.Type },
		func(b []byte, g *hare.TypeCount) []byte { return appendInt(b, int64(g.Count)) })
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

// DecodeCluster decodes a cluster alone, {"nodes": […]}, or the cluster of a whole
// instance, whose jobs are skipped.
func DecodeCluster(r io.Reader, lim Limits) (*hare.Cluster, error) {
	rd := NewReader(r, lim)
	d := newInstanceReader(rd, "")
	lines, err := d.clusterAlone()
	if lines && err == nil && len(rd.faults) == 0 {
		return &d.inst.Cluster, nil // lines of jobs may follow
	}
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return &d.inst.Cluster, nil
}

// noReservations is what is said of reservations of a cluster alone.
const noReservations = "sessions and simulations do not support reservations in this version: leave them out; a " +
	`session learns of nodes that close and open from gpu_left and gpu_joined, a simulation from "in_service_s"`

// clusterAlone reads the cluster and reports whether it is the first line of an
// instance in NDJSON.
func (d *instanceReader) clusterAlone() (lines bool, err error) {
	if !d.Is('{') {
		_, err := d.Want('{')
		return false, err
	}
	form, seen := "", 0
	hasNodes, hasCluster, before := false, false, len(d.faults)
	hasTopology, beside := false, ""
	known := []string{"nodes", "topology", "bandwidth_gbps", "gpu_types", "cluster"}
	err = d.Object(known, func(name string) (bool, error) {
		switch name {
		case "nodes":
			hasNodes = true
			return true, d.nodeList(&seen)
		case "topology":
			hasTopology = true
			return true, d.topology()
		case "bandwidth_gbps":
			beside = name
			return true, readBandwidths(d.Reader, &d.inst.Cluster.Bandwidths)
		case "gpu_types":
			beside = name
			return true, readGPUTypes(d.Reader, &d.inst.Cluster.GPUTypes)
		case "cluster":
			hasCluster = true
			return true, d.cluster()
		case "hare":
			return true, d.String(&form)
		case "jobs":
			d.hasJobs = true
			return true, d.Skip()
		case "name", "objective":
			return true, d.Skip()
		case "reservations":
			if err := d.Skip(); err != nil {
				return true, err
			}
			return true, d.Fault("not_supported", noReservations)
		case "quota":
			if err := d.Skip(); err != nil {
				return true, err
			}
			return true, d.Fault("not_supported", "a cluster has no quotas: leave them out; a session learns of them from "+
				"set_quota, and a simulation has those of its instance")
		}
		return false, nil
	})
	if err != nil {
		return false, err
	}
	var found hare.InvalidErrors
	if len(d.inst.Cluster.Reservations) > 0 {
		found.Add("/cluster/reservations", "not_supported", noReservations)
	}
	switch {
	case hasNodes && hasCluster:
		found.Add("/nodes", "not_allowed", `"nodes" and "cluster" are both given: give one of them`)
	case hasTopology && hasCluster:
		found.Add("/topology", "not_allowed", `"topology" is outside "cluster": give it inside the cluster`)
	case beside != "" && hasCluster:
		found.Add("/"+beside, "not_allowed", "%q is outside \"cluster\": give it inside the cluster", beside)
	case form != "" && form != InstanceForm:
		found.Add("/hare", "unknown_form", "must be %q", InstanceForm)
	case !hasNodes && !hasCluster:
		found.Add("", "missing_field", `"nodes" is missing: give a cluster, {"nodes": [{"name": "a", "gpus": `+
			`{"V100": 4}}]}, or a whole instance`)
	case hasNodes && seen == 0:
		found.Add("/nodes", "no_gpus", "the cluster has no GPUs: give at least one node with gpus")
	}
	if hasNodes && !hasCluster && len(d.faults) == before {
		found.CheckHardware("", &d.inst.Cluster)
	}
	if hasNodes && hasTopology {
		found.CheckTopology("", &d.inst.Cluster, func(n int) int { return d.nodes[d.inst.Cluster.Nodes[n].Name] })
	}
	if hasNodes {
		for _, f := range d.faults {
			f.Detail = strings.Replace(f.Detail, "first at /cluster/nodes/", "first at /nodes/", 1)
		}
	}
	return form != "" && !d.hasJobs, d.Report(before, found)
}
