package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

func (d *instanceReader) cluster() error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	at := d.root + "/cluster"
	listed, seen, before := false, 0, len(d.faults)
	err := d.Object(clusterFields, func(name string) (bool, error) {
		if name != "nodes" {
			return false, nil
		}
		listed = true
		return true, d.Array(func(i int) error {
			seen++
			return d.node(i, at+"/nodes/"+strconv.Itoa(i))
		})
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	switch {
	case !listed:
		found.Add(at, "missing_field", `"nodes" is missing: give an array of nodes`)
	case seen == 0:
		found.Add(at+"/nodes", "no_gpus", "the cluster has no GPUs: give at least one node with gpus")
	}
	return d.Report(before, found)
}

// node reads a node and appends its copies.
func (d *instanceReader) node(i int, at string) error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	n := hare.Node{}
	count := int64(0) // none given
	badGPUs, before := false, len(d.faults)
	sound := func(from int) bool { return len(d.faults) == from }
	err := d.Object(nodeFields, func(name string) (bool, error) {
		from := len(d.faults)
		switch name {
		case "name":
			return true, d.String(&n.Name)
		case "count":
			return true, d.Integer(&count, 1, hare.MaxGPUs)
		case "gpus":
			err := d.typeCounts(&n)
			badGPUs = !sound(from)
			return true, err
		case "in_service_s":
			n.Windows = []hare.Window{}
			err := d.windows(&n)
			if !sound(from) {
				n.Windows = nil // they would be out of step with the document
			}
			return true, err
		case "busy":
			err := d.Array(func(int) error { return d.busy(&n) })
			if !sound(from) {
				n.Busy = nil
			}
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	found.CheckNode(at, &n, !badGPUs)
	n.Normalise()
	each, copies := n.GPUCount(), max(1, count)
	if d.full {
		return d.Report(before, found)
	}
	if d.gpus += each * copies; d.gpus > hare.MaxGPUs || int64(len(d.nodes))+copies > hare.MaxGPUs {
		found.Add(at, "too_large", "the cluster has more than %d GPUs up to here: split it", hare.MaxGPUs)
		d.full = true
		return d.Report(before, found)
	}
	name := n.Name
	for c := range copies {
		if count > 0 {
			n.Name = name + "-" + strconv.FormatInt(c, 10)
		}
		if first, twice := d.nodes[n.Name]; twice && name != "" {
			found.Add(at+"/name", "duplicate_id", "node %q stands twice, first at %s/cluster/nodes/%d: names must differ", hare.Clip(n.Name), d.root, first)
			break
		}
		d.nodes[n.Name] = i
		if len(d.faults) == before && len(found) == 0 {
			d.inst.Cluster.Nodes = append(d.inst.Cluster.Nodes, n)
		}
	}
	return d.Report(before, found)
}

func (d *instanceReader) typeCounts(n *hare.Node) error {
	err := d.Object(nil, func(name string) (bool, error) {
		c := int64(1) // replaced, or a fault
		err := d.Integer(&c, 1, hare.MaxGPUs)
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

func (d *instanceReader) busy(n *hare.Node) error {
	gpu, b := int64(-1), hare.Busy{UntilUs: -1}
	before := len(d.faults)
	err := d.Object(busyFields, func(name string) (bool, error) {
		switch name {
		case "gpu":
			return true, d.Integer(&gpu, 0, hare.MaxGPUs)
		case "until_s":
			return true, d.Micros(&b.UntilUs, 0)
		}
		return false, nil
	})
	if err != nil || len(d.faults) > before {
		return err
	}
	if gpu < 0 || b.UntilUs < 0 {
		return d.Fault("missing_field", `needs "gpu" (counted from 0 on its node) and "until_s"`)
	}
	b.GPU = int(gpu)
	n.Busy = append(n.Busy, b)
	return nil
}
