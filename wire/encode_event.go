package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// AppendEvent appends the JSON form of an event, without a newline. DecodeEvent is
// the inverse.
func AppendEvent(b []byte, e hare.Event) []byte { return appendEvent(b, e, true) }

// AppendUntimedEvent appends an event without its time, for a session whose server keeps
// the time. DecodeUntimedEvent is the inverse.
func AppendUntimedEvent(b []byte, e hare.Event) []byte { return appendEvent(b, e, false) }

func appendEvent(b []byte, e hare.Event, timed bool) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, e.Seq, 10)
	if timed {
		b = append(b, `,"at_s":`...)
		b = hare.AppendMicros(b, e.AtUs)
	}
	b = append(b, `,"type":"`...)
	b = append(b, e.Type.String()...)
	b = append(b, '"')
	if int(e.Type) >= len(eventNeeds) {
		return append(b, '}')
	}
	fields := eventNeeds[e.Type]
	switch {
	case e.Type == hare.EventJobArrived && e.Arrived != nil:
		b = appendArriving(append(b, `,"job":`...), e.Arrived)
	case fields&fieldJob != 0:
		b = appendString(append(b, `,"job":`...), e.Job)
	}
	if fields&fieldRound != 0 {
		b = strconv.AppendInt(append(b, `,"round":`...), e.Round, 10)
		b = strconv.AppendInt(append(b, `,"task":`...), e.Task, 10)
	}
	if fields&fieldGPU != 0 {
		b = appendString(append(b, `,"gpu":`...), e.GPU)
	}
	if fields&fieldGPUType != 0 {
		b = appendString(append(b, `,"gpu_type":`...), e.GPUType)
	}
	if e.Change != nil {
		b = appendChange(b, e.Change, fields)
	}
	if fields&fieldCompute != 0 {
		b = hare.AppendMicros(append(b, `,"compute_s":`...), e.ComputeUs)
		if e.SyncUs != 0 {
			b = hare.AppendMicros(append(b, `,"sync_s":`...), e.SyncUs)
		}
	}
	return append(b, '}')
}

// appendChange appends what an event of its type's fields says of a node or a quota.
func appendChange(b []byte, c *hare.Change, fields fieldSet) []byte {
	if c.Node != nil && fields&(fieldNode|fieldGPUType) != 0 {
		b = appendEventNode(b, c.Node, fields)
	}
	if c.Quota != nil && fields&fieldQuota != 0 {
		b = quotaTable.Append(append(b, `,"quota":`...), &quotaDoc{*c.Quota})
	}
	return b
}

// appendEventNode appends the node of an event of its type's fields.
func appendEventNode(b []byte, n *hare.Node, fields fieldSet) []byte {
	if fields&fieldGPUs != 0 {
		b = appendCounts(append(b, `,"gpus":`...), n.GPUs)
	}
	if fields&fieldNode != 0 {
		b = appendString(append(b, `,"node":`...), n.Name)
	}
	if n.CPUMilli > 0 {
		b = append(append(b, `,"cpus":`...), hare.FormatMillis(n.CPUMilli)...)
	}
	if n.MemoryMiB > 0 {
		b = strconv.AppendInt(append(b, `,"memory_mib":`...), n.MemoryMiB, 10)
	}
	if len(n.Labels) > 0 {
		b = appendLabels(append(b, `,"labels":`...), n.Labels)
	}
	return b
}

func appendArriving(b []byte, j *hare.Job) []byte {
	b = appendString(append(b, `{"id":`...), j.ID)
	b = hare.AppendMicros(append(b, `,"weight":`...), j.WeightMicro)
	b = strconv.AppendInt(append(b, `,"tasks":`...), j.Tasks, 10)
	if j.Sync != hare.Relaxed {
		b = append(b, `,"sync":"`...)
		b = append(b, j.Sync.String()...)
		b = append(b, '"')
	}
	if j.Mix {
		b = append(b, `,"mix":true`...)
	}
	b = append(b, `,"on":{`...)
	for i, p := range j.On {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, p.Type), ":{"...)
		if p.ComputeUs != 0 {
			b = hare.AppendMicros(append(b, `"compute_s":`...), p.ComputeUs)
			if p.SyncUs != 0 || p.SyncAt != nil {
				b = appendSyncTime(append(b, `,"sync_s":`...), &p)
			}
		}
		b = append(b, '}')
	}
	b = append(b, '}')
	if h := j.Hints; h != nil && h.EstimateUs != 0 {
		b = hare.AppendMicros(append(b, `,"estimate_s":`...), h.EstimateUs)
	}
	if h := j.Hints; h != nil && len(h.Class) > 0 {
		b = appendClass(append(b, `,"class":`...), h.Class)
	}
	b = appendPlacement(b, j)
	if len(j.Users) > 0 {
		b = appendUsers(append(b, `,"user":`...), j.Users)
	}
	if j.Progress != nil {
		b = progressTable.Append(append(b, `,"progress":`...), j.Progress)
	}
	return append(b, '}')
}

// AppendAnswer appends the JSON form of an answer, without a newline.
func AppendAnswer(b []byte, a hare.Answer) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, a.Seq, 10)
	b = AppendDecisions(append(b, `,"decisions":`...), a.Decisions)
	return append(b, '}')
}

// AppendDecisions appends decisions as a JSON array.
func AppendDecisions(b []byte, ds []hare.Decision) []byte {
	b = append(b, '[')
	for i := range ds {
		if i > 0 {
			b = append(b, ',')
		}
		d := &ds[i]
		b = append(b, `{"type":"`...)
		b = append(b, d.Type.String()...)
		b = appendString(append(b, `","job":`...), d.Job)
		b = strconv.AppendInt(append(b, `,"round":`...), d.Round, 10)
		b = strconv.AppendInt(append(b, `,"task":`...), d.Task, 10)
		b = appendString(append(b, `,"gpu":`...), d.GPU)
		if d.Others != "" {
			b = appendList(append(b, `,"gpus":`...), d.GPUs(), appendString)
		}
		b = hare.AppendMicros(append(b, `,"at_s":`...), d.AtUs)
		b = append(b, '}')
	}
	return append(b, ']')
}

// MaxPlanBytes limits the length of a plan in a log.
const MaxPlanBytes = 4 << 20

// Record is one line of the log of a session: an accepted event and the decisions
// that answered it.
type Record struct {
	Event hare.Event
	// Plan is the plan that the policy took just before the event, a JSON object on one
	// line for which CheckPlan returns nil, byte for byte as the policy was given it; nil
	// where the policy took none.
	Plan      []byte
	Decisions []hare.Decision
}

// AppendRecord appends the JSON form of a record, without a newline.
func AppendRecord(b []byte, r Record) []byte {
	b = AppendEvent(append(b, `{"event":`...), r.Event)
	if len(r.Plan) > 0 {
		b = append(append(b, `,"plan":`...), r.Plan...)
	}
	b = AppendDecisions(append(b, `,"decisions":`...), r.Decisions)
	return append(b, '}')
}

// CheckPlan says why a plan cannot stand in a log; nil where it can.
func CheckPlan(plan []byte) error {
	switch {
	case len(plan) > MaxPlanBytes:
		return fmt.Errorf("the plan has %d bytes, and %d are the most", len(plan), MaxPlanBytes)
	case len(plan) == 0 || plan[0] != '{' || plan[len(plan)-1] != '}' ||
		!jsontext.Value(plan).IsValid(jsontext.AllowDuplicateNames(true)):
		return errors.New("the plan is not a JSON object")
	case bytes.ContainsAny(plan, "\n\r"):
		return errors.New("the plan is not on one line")
	}
	return nil
}

// DecodeRecord strictly decodes one line of a log.
func DecodeRecord(line []byte) (Record, error) {
	var r Record
	if err := recordTable.Decode(newLineReader(line), &r); err != nil {
		return Record{}, err
	}
	return r, nil
}

var recordTable = NewTable("Record", "Record is a line of a session's log after the first line.",
	NewField("event", RefTo(eventTable), func(r *Reader, v *Record) error {
		return eventTable.Read(r, &eventDoc{Event: &v.Event, timed: true})
	}, nil).Required(""),
	NewField("plan", Schema{"type": "object", "additionalProperties": Schema{}}, readPlan, nil).
		About("plan is the plan that the policy began to follow just before the event, in a form of the policy's own. "+
			"It is left out where there was no new plan."),
	Objects("decisions", func(v *Record) *[]hare.Decision { return &v.Decisions }, decisionTable).
		Required(decisionsRemedy),
).Growing()

// readPlan reads a plan and keeps the bytes as they are written.
func readPlan(r *Reader, v *Record) error {
	if ok, err := r.Want('{'); !ok {
		return err
	}
	plan, err := r.d.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	if err := CheckPlan(plan); err != nil {
		return r.Fault(CodeMalformed, "%v", err)
	}
	v.Plan = bytes.Clone(plan)
	return nil
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
const noReservations = "sessions and simulations do not know reservations in this version: leave them out; a " +
	`session is told of nodes that close and open by gpu_left and gpu_joined, a simulation by "in_service_s"`

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
			return true, d.Fault("not_supported", "a cluster has no quotas: leave them out; a session is told of them by "+
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
		found.Add("/nodes", "not_allowed", `"nodes" stands beside "cluster": give one of them`)
	case hasTopology && hasCluster:
		found.Add("/topology", "not_allowed", `"topology" stands beside "cluster": give it in the cluster`)
	case beside != "" && hasCluster:
		found.Add("/"+beside, "not_allowed", "%q stands beside \"cluster\": give it in the cluster", beside)
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
