package hare

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	instanceFields = []string{"hare", "name", "objective", "cluster", "jobs"}
	clusterFields  = []string{"nodes"}
	nodeFields     = []string{"name", "count", "gpus", "in_service_s", "busy"}
	busyFields     = []string{"gpu", "until_s"}
	jobFields      = []string{"id", "weight", "release_s", "rounds", "tasks", "sync", "mix", "on"}
	profileFields  = []string{"compute_s", "sync_s"}
)

// DecodeInstance reads an instance/v1 document: one JSON object, or NDJSON with
// everything but the jobs on the first line and then a job a line. The error
// is InvalidErrors with every fault of one pass, or the reader's own.
func DecodeInstance(r io.Reader, lim Limits) (*Instance, error) {
	rd, err := newReader(r, lim)
	if err != nil {
		return nil, err
	}
	d := &instanceReader{reader: rd, inst: &Instance{}, ids: map[string]int{}, names: map[string]bool{}}
	err = d.instance()
	if err == nil && !d.hasJobs {
		err = d.jobLines()
	}
	d.prefix = ""
	if err := d.finish(err); err != nil {
		return nil, err
	}
	return d.inst, nil
}

type instanceReader struct {
	*reader
	inst    *Instance
	ids     map[string]int
	names   map[string]bool
	gpus    int
	hasJobs bool
	horizon int64
}

func (d *instanceReader) instance() error {
	form, objective := "", ObjectiveWeightedJCT
	hasCluster := false
	err := d.object(instanceFields, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.str(&form)
		case "name":
			return true, d.str(&d.inst.Name)
		case "objective":
			return true, d.str(&objective)
		case "cluster":
			hasCluster = true
			return true, d.cluster()
		case "jobs":
			d.hasJobs = true
			return true, d.array(func(i int) error { return d.job("/jobs/" + strconv.Itoa(i)) })
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	d.inst.Objective = objective
	if len(d.faults) > 0 && form == "" && !hasCluster {
		return nil
	}
	if form != InstanceForm {
		if err := d.faultAt("/hare", "unknown_form", `must be %q`, InstanceForm); err != nil {
			return err
		}
	}
	if objective != ObjectiveWeightedJCT {
		if err := d.faultAt("/objective", "not_supported", "objective %q is not supported by this version: use %q or leave it out", clip(objective), ObjectiveWeightedJCT); err != nil {
			return err
		}
	}
	if !hasCluster {
		return d.faultAt("", "missing_field", `"cluster" is missing: give {"nodes": [{"name": …, "gpus": {"V100": 4}}]}`)
	}
	if d.gpus == 0 && len(d.faults) == 0 {
		return d.faultAt("/cluster/nodes", "no_gpus", "the cluster has no GPUs: give at least one node with gpus")
	}
	return nil
}

// jobLines reads the jobs of the NDJSON form.
func (d *instanceReader) jobLines() error {
	n := 0
	for ; ; n++ {
		if d.d.PeekKind() == 0 {
			if _, err := d.d.ReadToken(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return d.broken(err)
			}
		}
		d.prefix = "/jobs/" + strconv.Itoa(n)
		if err := d.job(""); err != nil {
			return err
		}
	}
	d.prefix = ""
	if n == 0 {
		return d.faultAt("", "missing_field", `"jobs" is missing: give an array of jobs (it may be empty), or one job a line after this one`)
	}
	return nil
}

func (d *instanceReader) cluster() error {
	seen := false
	err := d.object(clusterFields, func(name string) (bool, error) {
		if name != "nodes" {
			return false, nil
		}
		seen = true
		return true, d.array(func(i int) error { return d.node("/cluster/nodes/" + strconv.Itoa(i)) })
	})
	if err == nil && !seen && len(d.faults) == 0 {
		err = d.faultAt("/cluster", "missing_field", `"nodes" is missing: give an array of nodes`)
	}
	return err
}

func (d *instanceReader) node(at string) error {
	n := Node{}
	var count int64 = -1
	before := len(d.faults)
	err := d.object(nodeFields, func(name string) (bool, error) {
		switch name {
		case "name":
			return true, d.str(&n.Name)
		case "count":
			return true, d.integer(&count, 1, MaxGPUs)
		case "gpus":
			return true, d.typeCounts(&n)
		case "in_service_s":
			n.Windows = []Window{}
			return true, d.windows(&n)
		case "busy":
			return true, d.array(func(int) error { return d.busy(&n) })
		}
		return false, nil
	})
	if err != nil || len(d.faults) > before {
		return err
	}
	for _, f := range checkNode(at, &n) {
		if err := d.faultAt(f.Pointer, f.Code, "%s", f.Detail); err != nil {
			return err
		}
	}
	if len(d.faults) > before {
		return nil
	}
	each := n.gpuCount()
	copies := int(max(1, count))
	if int64(each)*int64(copies)+int64(d.gpus) > MaxGPUs {
		return d.faultAt(at, "too_large", "the cluster has more than %d GPUs: split it", MaxGPUs)
	}
	d.gpus += each * copies
	for c := range copies {
		x := n
		if count > 0 {
			x.Name = fmt.Sprintf("%s-%d", n.Name, c)
		}
		if d.names[x.Name] {
			return d.faultAt(at+"/name", "duplicate_id", "node %q stands twice: names must differ", clip(x.Name))
		}
		d.names[x.Name] = true
		d.inst.Cluster.Nodes = append(d.inst.Cluster.Nodes, x)
	}
	return nil
}

func (n *Node) gpuCount() int {
	sum := 0
	for _, g := range n.GPUs {
		sum += g.Count
	}
	return sum
}

func (d *instanceReader) typeCounts(n *Node) error {
	err := d.object(nil, func(name string) (bool, error) {
		var c int64
		if name == "" {
			if err := d.skip(); err != nil {
				return true, err
			}
			return true, d.fault("empty_name", "a GPU type needs a name")
		}
		err := d.integer(&c, 1, MaxGPUs)
		n.GPUs = append(n.GPUs, TypeCount{name, int(c)})
		return true, err
	})
	slices.SortFunc(n.GPUs, func(a, b TypeCount) int { return strings.Compare(a.Type, b.Type) })
	return err
}

func (d *instanceReader) windows(n *Node) error {
	return d.array(func(int) error {
		w := Window{EndUs: Forever}
		parts := 0
		before := len(d.faults)
		err := d.array(func(i int) error {
			parts++
			switch {
			case i == 0:
				return d.micros(&w.StartUs, 0)
			case i == 1 && d.d.PeekKind() == 'n':
				return d.skip()
			case i == 1:
				return d.micros(&w.EndUs, 0)
			}
			return d.skip()
		})
		if err != nil || len(d.faults) > before {
			return err
		}
		if parts != 2 {
			return d.fault("bad_window", "must be [start, end] with end a number or null for open")
		}
		n.Windows = append(n.Windows, w)
		return nil
	})
}

func (d *instanceReader) busy(n *Node) error {
	gpu, b := int64(-1), Busy{UntilUs: -1}
	before := len(d.faults)
	err := d.object(busyFields, func(name string) (bool, error) {
		switch name {
		case "gpu":
			return true, d.integer(&gpu, 0, MaxGPUs)
		case "until_s":
			return true, d.micros(&b.UntilUs, 0)
		}
		return false, nil
	})
	if err != nil || len(d.faults) > before {
		return err
	}
	if gpu < 0 || b.UntilUs < 0 {
		return d.fault("missing_field", `needs "gpu" (index on its node) and "until_s"`)
	}
	b.GPU = int(gpu)
	n.Busy = append(n.Busy, b)
	return nil
}

func (d *instanceReader) job(at string) error {
	j := Job{WeightMicro: 1e6, Rounds: 1, Tasks: 1}
	sync, mix, hasMix := "relaxed", false, false
	hasOn := false
	before := len(d.faults)
	err := d.object(jobFields, func(name string) (bool, error) {
		switch name {
		case "id":
			return true, d.str(&j.ID)
		case "weight":
			return true, d.micros(&j.WeightMicro, 0)
		case "release_s":
			return true, d.micros(&j.ReleaseUs, 0)
		case "rounds":
			return true, d.integer(&j.Rounds, 1, MaxExact)
		case "tasks":
			return true, d.integer(&j.Tasks, 1, 1<<31-1)
		case "sync":
			if err := d.str(&sync); err != nil {
				return true, err
			}
			switch sync {
			case "relaxed":
			case "gang":
				j.Sync = Gang
			case "rigid":
				j.Sync = Rigid
			default:
				return true, d.fault("unknown_value", "sync %q: must be relaxed, gang or rigid", clip(sync))
			}
			return true, nil
		case "mix":
			hasMix = true
			return true, d.boolean(&mix)
		case "on":
			hasOn = true
			return true, d.profiles(&j)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if !hasOn {
		return d.faultAt(at, "missing_field", `"on" is missing: give {"V100": {"compute_s": 1.2}}`)
	}
	// A relaxed job always may mix, a rigid one never: only the contrary is
	// an error.
	if hasMix && j.Sync == Relaxed && !mix {
		return d.faultAt(at+"/mix", "not_allowed", "relaxed jobs always may mix types: leave mix out, or use sync gang")
	}
	if hasMix && j.Sync == Rigid && mix {
		return d.faultAt(at+"/mix", "not_allowed", "rigid jobs never mix types: leave mix out, or use sync gang")
	}
	j.Mix = mix && j.Sync == Gang
	said := map[string]bool{}
	for _, f := range d.faults[before:] {
		said[f.Pointer] = true
	}
	for _, f := range checkJob(at, &j) {
		if said[d.prefix+f.Pointer] {
			continue
		}
		if err := d.faultAt(f.Pointer, f.Code, "%s", f.Detail); err != nil {
			return err
		}
	}
	if first, twice := d.ids[j.ID]; twice && j.ID != "" {
		return d.faultAt(at+"/id", "duplicate_id", "id %q stands twice, first at /jobs/%d: ids must differ", clip(j.ID), first)
	}
	d.ids[j.ID] = len(d.inst.Jobs)
	d.inst.Jobs = append(d.inst.Jobs, j)
	if len(d.faults) == 0 && !d.inst.lengthen(&d.horizon, &j) {
		return d.faultAt(at, "too_large", "the work of all jobs up to this one, one after another, takes more than 2^53 µs (285 years): split the instance or use larger rounds")
	}
	return nil
}

func (d *instanceReader) profiles(j *Job) error {
	err := d.object(nil, func(kind string) (bool, error) {
		p := Profile{Type: kind, ComputeUs: -1}
		hasCompute := false
		err := d.object(profileFields, func(name string) (bool, error) {
			switch name {
			case "compute_s":
				hasCompute = true
				return true, d.micros(&p.ComputeUs, 1)
			case "sync_s":
				if d.d.PeekKind() == '{' {
					if err := d.skip(); err != nil {
						return true, err
					}
					return true, d.fault("not_supported", "sync_s as an object is not supported by this version: give seconds")
				}
				return true, d.micros(&p.SyncUs, 0)
			}
			return false, nil
		})
		if err != nil {
			return true, err
		}
		if !hasCompute {
			if err := d.fault("missing_field", `"compute_s" is missing: the seconds of compute of one task on %s`, clip(kind)); err != nil {
				return true, err
			}
		}
		j.On = append(j.On, p)
		return true, nil
	})
	slices.SortFunc(j.On, func(a, b Profile) int { return strings.Compare(a.Type, b.Type) })
	return err
}

// DecodeInstanceValue reads an instance that is part of a larger document, at
// the given pointer.
func DecodeInstanceValue(text jsontext.Value, pointer string) (*Instance, error) {
	inst, err := DecodeInstance(strings.NewReader(string(text)), Limits{MaxBytes: int64(len(text)) + 1})
	var all InvalidErrors
	if errors.As(err, &all) {
		for _, f := range all {
			f.Pointer = pointer + f.Pointer
		}
	}
	return inst, err
}
