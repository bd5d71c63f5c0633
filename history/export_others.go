package history

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// object is an object of a JSON text that is written.
type object map[string]any

// kube writes cluster.json, a List of nodes, Jobs, pods and events.
func (e *exporter) kube() error {
	e.seconds()
	return e.write("cluster.json", len(e.inst.Jobs), func(out io.Writer) error {
		w := bufio.NewWriter(out)
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"List","items":[`)
		comma := ""
		item := func(o object) error {
			text, err := json.Marshal(o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "%s\n%s", comma, text)
			comma = ","
			return err
		}
		for i := range e.inst.Cluster.Nodes {
			if err := e.kubeNode(&e.inst.Cluster.Nodes[i], item); err != nil {
				return err
			}
		}
		for i := range e.inst.Jobs {
			if err := e.kubeJob(&e.inst.Jobs[i], &e.runs[i], item); err != nil {
				return err
			}
		}
		fmt.Fprint(w, "\n]}\n")
		return w.Flush()
	})
}

// kubeNode writes a node and the events that tell its times out of service.
func (e *exporter) kubeNode(n *hare.Node, item func(object) error) error {
	labels := object{}
	for _, l := range n.Labels {
		labels[l.Name] = l.Value
	}
	if len(n.GPUs) != 1 {
		return fmt.Errorf("history: node %.60q has %d GPU types: a node of Kubernetes has one", n.Name, len(n.GPUs))
	}
	labels[TypeLabels[0]] = n.GPUs[0].Type
	amounts := object{"nvidia.com/gpu": itoa(int64(n.GPUs[0].Count))}
	if n.CPUMilli > 0 {
		amounts["cpu"] = itoa(n.CPUMilli) + "m"
	}
	if n.MemoryMiB > 0 {
		amounts["memory"] = itoa(n.MemoryMiB) + "Mi"
	}
	down := downTimes(n)
	out := len(down) > 0 && down[len(down)-1].EndUs == hare.Forever
	err := item(object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": n.Name, "labels": labels},
		"spec": object{"unschedulable": out}, "status": object{"allocatable": amounts}})
	for _, d := range down {
		for _, at := range []struct {
			us     int64
			reason string
		}{{d.StartUs, "NodeNotReady"}, {d.EndUs, "NodeReady"}} {
			if at.us == hare.Forever || err != nil {
				continue
			}
			err = item(object{"apiVersion": "v1", "kind": "Event", "metadata": object{"name": "e"}, "reason": at.reason,
				"involvedObject": object{"kind": "Node", "name": n.Name}, "lastTimestamp": kubeTime(at.us + e.cfg.OriginUs)})
		}
	}
	return err
}

func kubeTime(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339) }

// kubeJob writes a Job and its pods, one a task.
func (e *exporter) kubeJob(j *hare.Job, r *exportRun, item func(object) error) error {
	namespace, second := user(j)
	id := j.ID
	if rest, ok := strings.CutPrefix(id, namespace+"/"); ok && namespace != "" {
		id = rest
	} else if namespace != "" {
		e.rep.assume("names of jobs begin with their user, the namespace", j.ID)
	}
	if second != "" {
		e.rep.leaveOut("users beyond the first", j.ID)
	}
	if j.DistinctNodes {
		e.rep.leaveOut("that tasks must be on distinct nodes", j.ID)
	}
	each := max(1, j.GPUsPerTask)
	amounts := object{"nvidia.com/gpu": itoa(each)}
	if j.CPUMilliPerTask > 0 {
		amounts["cpu"] = itoa(j.CPUMilliPerTask) + "m"
	}
	if j.MemoryMiBPerTask > 0 {
		amounts["memory"] = itoa(j.MemoryMiBPerTask) + "Mi"
	}
	spec := object{"containers": []object{{"name": "c", "resources": object{"limits": amounts}}}}
	var expressions []object
	expression := func(label, operator string, values []string) {
		if label == hare.LabelNode {
			e.rep.leaveOut("nodes that a job names", j.ID)
			return
		}
		expressions = append(expressions, object{"key": label, "operator": operator, "values": values})
	}
	for _, o := range j.Only {
		expression(o.Label, "In", o.Values)
	}
	for _, o := range j.Exclude {
		expression(o.Label, "NotIn", o.Values)
	}
	switch only := e.onlyTypes(j); {
	case len(only) == 1:
		expression(TypeLabels[0], "In", only)
	case len(only) > 1:
		e.rep.leaveOut("several types, but not all, that a job may use", j.ID)
	}
	if expressions != nil {
		spec["affinity"] = object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{
			"nodeSelectorTerms": []object{{"matchExpressions": expressions}}}}}
	}
	created := kubeTime(r.submitUs)
	err := item(object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": id, "namespace": namespace,
		"uid": "job " + j.ID, "creationTimestamp": created, "annotations": object{SecondsAnnotation: durations(j)}},
		"spec": object{"parallelism": j.Tasks, "completions": j.Tasks, "template": object{"spec": spec}}})
	for task := int64(0); task < j.Tasks && err == nil; task++ {
		pod := object{"nodeName": e.inst.Cluster.Nodes[r.gpus[task*each].node].Name}
		for name, value := range spec {
			pod[name] = value
		}
		err = item(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": id + "-" + itoa(task),
			"namespace": namespace, "uid": "pod " + itoa(task) + " " + j.ID, "creationTimestamp": created,
			"ownerReferences": []object{{"kind": "Job", "name": id, "uid": "job " + j.ID, "controller": true}}},
			"spec": pod, "status": object{"phase": "Succeeded", "startTime": kubeTime(r.startUs), "containerStatuses": []object{
				{"state": object{"terminated": object{"finishedAt": kubeTime(r.endUs)}}}}}})
	}
	return err
}

// ray writes jobs.json, nodes.json and groups.json.
func (e *exporter) ray() error {
	ids := func(node int) string { return "node-" + itoa(int64(node)) }
	list := func(name string, wrapped bool, rows []object) error {
		return e.write(name, len(rows), func(out io.Writer) error {
			var content any = rows
			if wrapped {
				content = object{"result": true, "data": object{"result": object{"total": len(rows), "result": rows}}}
			}
			return json.NewEncoder(out).Encode(content)
		})
	}
	nodes := []object{}
	for i := range e.inst.Cluster.Nodes {
		n := &e.inst.Cluster.Nodes[i]
		if len(n.GPUs) != 1 {
			return fmt.Errorf("history: node %.60q has %d GPU types: a node of Ray has one", n.Name, len(n.GPUs))
		}
		if len(n.Labels) > 0 || len(n.Windows) > 0 || len(n.Busy) > 0 {
			e.rep.leaveOut("labels, windows and busy GPUs of nodes", n.Name)
		}
		nodes = append(nodes, object{"node_id": ids(i), "node_name": n.Name, "state": "ALIVE", "resources_total": object{
			"GPU": n.GPUs[0].Count, "CPU": float64(n.CPUMilli) / 1000, "memory": n.MemoryMiB << 20,
			"accelerator_type:" + n.GPUs[0].Type: 1}})
	}
	if err := list("nodes.json", true, nodes); err != nil {
		return err
	}
	jobs, groups := []object{}, []object{}
	for i := range e.inst.Jobs {
		j, r := &e.inst.Jobs[i], &e.runs[i]
		first, second := user(j)
		if second != "" {
			e.rep.leaveOut("users beyond the first", j.ID)
		}
		if j.CPUMilliPerTask > 0 || j.MemoryMiBPerTask > 0 || len(j.Only) > 0 || len(j.Exclude) > 0 ||
			j.GPUsPerTask > 1 || j.DistinctNodes || e.onlyTypes(j) != nil {
			e.rep.leaveOut("CPUs, memory, tasks of several GPUs, and nodes and types to which a job is kept", j.ID)
		}
		job := fmt.Sprintf("%08x", i+1)
		metadata := object{rayGPUs: itoa(int64(len(r.gpus))), raySubmitted: hare.FormatMicros(r.submitUs),
			raySeconds: durations(j), rayName: "job"}
		if first != "" {
			metadata[rayUser] = first
		}
		jobs = append(jobs, object{"type": "SUBMISSION", "job_id": job, "submission_id": j.ID, "status": "SUCCEEDED",
			"entrypoint": "job", "start_time": float64(r.startUs) / 1000, "end_time": float64(r.endUs) / 1000,
			"metadata": metadata})
		bundles := []object{}
		for _, g := range r.gpus {
			bundles = append(bundles, object{"node_id": ids(g.node), "unit_resources": object{"GPU": 1}})
		}
		groups = append(groups, object{"placement_group_id": "group-" + job, "creator_job_id": job, "state": "REMOVED",
			"bundles": bundles})
	}
	if err := list("jobs.json", false, jobs); err != nil {
		return err
	}
	return list("groups.json", true, groups)
}

// csv writes jobs.csv, a table of jobs, and nodes.csv, a table of nodes.
func (e *exporter) csv() error {
	err := e.write("nodes.csv", len(e.inst.Cluster.Nodes), func(out io.Writer) error {
		w := csv.NewWriter(out)
		_ = w.Write(NodeColumns)
		for i := range e.inst.Cluster.Nodes {
			n := &e.inst.Cluster.Nodes[i]
			if len(n.Labels) > 0 || len(n.Windows) > 0 || len(n.Busy) > 0 {
				e.rep.leaveOut("labels, windows and busy GPUs of nodes", n.Name)
			}
			for _, g := range n.GPUs {
				_ = w.Write([]string{n.Name, g.Type, itoa(int64(g.Count)), hare.FormatMillis(n.CPUMilli), itoa(n.MemoryMiB)})
			}
		}
		w.Flush()
		return w.Error()
	})
	if err != nil {
		return err
	}
	return e.write("jobs.csv", len(e.inst.Jobs), func(out io.Writer) error {
		w := csv.NewWriter(out)
		_ = w.Write([]string{"id", "user", "submit", "start", "end", "gpus", "nodes", "gpus_per_task", "seconds", "state"})
		for i := range e.inst.Jobs {
			j, r := &e.inst.Jobs[i], &e.runs[i]
			first, second := user(j)
			if second != "" {
				e.rep.leaveOut("users beyond the first", j.ID)
			}
			if j.CPUMilliPerTask > 0 || j.MemoryMiBPerTask > 0 || len(j.Only) > 0 || len(j.Exclude) > 0 ||
				j.DistinctNodes || e.onlyTypes(j) != nil {
				e.rep.leaveOut("CPUs, memory, distinct nodes, and nodes and types to which a job is kept", j.ID)
			}
			var gpus []string
			for _, g := range r.gpus {
				gpus = append(gpus, e.inst.Cluster.Nodes[g.node].Name+"/"+itoa(int64(g.number)))
			}
			at := func(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z") }
			_ = w.Write([]string{j.ID, first, at(r.submitUs), at(r.startUs), at(r.endUs), itoa(int64(len(r.gpus))),
				strings.Join(gpus, " "), itoa(max(1, j.GPUsPerTask)), durations(j), "completed"})
		}
		w.Flush()
		return w.Error()
	})
}
