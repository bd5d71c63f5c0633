package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// sacct writes jobs.txt (sacct -P).
func (e *exporter) sacct() error {
	e.seconds()
	return e.write("jobs.txt", len(e.inst.Jobs), func(out io.Writer) error {
		w := bufio.NewWriter(out)
		fields := strings.Split(SacctFields, ",")
		fmt.Fprintln(w, strings.Join(fields, "\x1f"))
		for i := range e.inst.Jobs {
			row := e.sacctFields(&e.inst.Jobs[i], &e.runs[i])
			for x, name := range fields {
				if x > 0 {
					fmt.Fprint(w, "\x1f")
				}
				fmt.Fprint(w, row[name])
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	})
}

// sacctJSON writes jobs.json (sacct --json), in which the numbers of jobs are numbers.
func (e *exporter) sacctJSON() error {
	e.seconds()
	return e.write("jobs.json", len(e.inst.Jobs), func(out io.Writer) error {
		w := bufio.NewWriter(out)
		fmt.Fprint(w, `{"jobs":[`)
		comma := ""
		for i := range e.inst.Jobs {
			text, err := json.Marshal(e.sacctObject(i))
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\n%s", comma, text)
			comma = ","
		}
		fmt.Fprint(w, "\n],\"errors\":[],\"warnings\":[]}\n")
		return w.Flush()
	})
}

// sacctObject is a job in the form of data_parser/v0.0.43, with the members that are read.
func (e *exporter) sacctObject(i int) object {
	j, r := &e.inst.Jobs[i], &e.runs[i]
	row := e.sacctFields(j, r)
	number, err := strconv.ParseInt(j.ID, 10, 32)
	if err != nil || number <= 0 || itoa(number) != j.ID {
		number = int64(i) + 1
		e.rep.assume("names of jobs are numbers, in the order of the instance", j.ID)
	}
	return object{"job_id": number, "name": row["JobName"], "user": row["User"], "account": row["Account"],
		"partition": row["Partition"], "constraints": row["Constraints"], "nodes": row["NodeList"],
		"submit_line": row["SubmitLine"], "comment": object{"administrator": "", "job": row["Comment"], "system": ""},
		"state": object{"current": []string{"COMPLETED"}, "reason": "None"},
		"time": object{"submission": r.submitUs / 1e6, "eligible": r.submitUs / 1e6, "start": r.startUs / 1e6,
			"end": r.endUs / 1e6, "limit": object{"set": false, "infinite": true, "number": 0}},
		"tres": object{"allocated": tresObjects(row["AllocTRES"]), "requested": tresObjects(row["ReqTRES"])}}
}

// tresObjects turns resources in the form of sacct -P into those of its JSON.
func tresObjects(text string) (list []object) {
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		count, _ := strconv.ParseInt(strings.TrimSuffix(value, "M"), 10, 64)
		kind, rest, _ := strings.Cut(name, "/")
		list = append(list, object{"type": kind, "name": rest, "count": count})
	}
	return list
}

// slurmNodes writes nodes.txt (scontrol show node) and events.txt (sacctmgr -P show event).
func (e *exporter) slurmNodes() error {
	err := e.write("nodes.txt", len(e.inst.Cluster.Nodes), func(out io.Writer) error {
		w := bufio.NewWriter(out)
		for i := range e.inst.Cluster.Nodes {
			e.scontrolNode(w, &e.inst.Cluster.Nodes[i])
		}
		return w.Flush()
	})
	if err != nil {
		return err
	}
	return e.write("events.txt", 0, func(out io.Writer) error {
		w := bufio.NewWriter(out)
		fmt.Fprintln(w, "NodeName|TimeStart|TimeEnd|State|Reason")
		for i := range e.inst.Cluster.Nodes {
			n := &e.inst.Cluster.Nodes[i]
			for _, d := range downTimes(n) {
				end := "Unknown"
				if d.EndUs != hare.Forever {
					end = isoTime(d.EndUs + e.cfg.OriginUs)
				}
				fmt.Fprintf(w, "%s|%s|%s|DOWN|export\n", n.Name, isoTime(d.StartUs+e.cfg.OriginUs), end)
			}
		}
		return w.Flush()
	})
}

// slurmLabel returns the feature or partition that a label tells.
func slurmLabel(label, value string) (feature, partition string) {
	if value != "yes" {
		return "", ""
	}
	if f, ok := strings.CutPrefix(label, "feature."); ok {
		return f, ""
	}
	p, _ := strings.CutPrefix(label, "partition.")
	if p == label {
		return "", ""
	}
	return "", p
}

// scontrolNode writes a node. A partition is told by the labels that import makes of partitions.
func (e *exporter) scontrolNode(w io.Writer, n *hare.Node) {
	var gres, features, partitions []string
	for _, g := range n.GPUs {
		gres = append(gres, fmt.Sprintf("gpu:%s:%d", g.Type, g.Count))
		if strings.ContainsAny(g.Type, " :,=|(") {
			e.rep.doubt("a GPU type whose name Slurm cannot tell", n.Name)
		}
	}
	for _, l := range n.Labels {
		f, p := slurmLabel(l.Name, l.Value)
		switch {
		case f != "":
			features = append(features, f)
		case p != "":
			partitions = append(partitions, p)
		default:
			e.rep.leaveOut("labels of nodes that are neither features nor partitions", n.Name)
		}
	}
	fmt.Fprintf(w, "NodeName=%s CPUTot=%d RealMemory=%d Gres=%s\n", n.Name, n.CPUMilli/1000, n.MemoryMiB,
		strings.Join(gres, ","))
	fmt.Fprintf(w, "   AvailableFeatures=%s\n   Partitions=%s\n   State=IDLE\n\n",
		cmp.Or(strings.Join(features, ","), "(null)"), cmp.Or(strings.Join(partitions, ","), "(null)"))
	if len(n.Busy) > 0 {
		e.rep.leaveOut("GPUs that are busy at the begin", n.Name)
	}
}

// sacctFields returns the fields of a job.
func (e *exporter) sacctFields(j *hare.Job, r *exportRun) map[string]string {
	first, second := user(j)
	if len(j.Users) > 2 {
		e.rep.leaveOut("users beyond the second", j.ID)
	}
	row := map[string]string{"JobID": j.ID, "JobIDRaw": j.ID, "User": first, "Account": second, "State": "COMPLETED",
		"JobName": "job", "Submit": isoTime(r.submitUs), "Eligible": isoTime(r.submitUs), "Start": isoTime(r.startUs),
		"End": isoTime(r.endUs), "Comment": commentPrefix + durations(j)}
	var nodes, constraints []string
	byType := map[string]int{}
	var types []string
	for _, g := range r.gpus {
		nodes = append(nodes, e.inst.Cluster.Nodes[g.node].Name)
		t := e.typeOf(g)
		if byType[t] == 0 {
			types = append(types, t)
		}
		byType[t]++
	}
	slices.Sort(types)
	nodes = slices.Compact(nodes)
	row["NodeList"], row["NNodes"] = strings.Join(nodes, ","), itoa(int64(len(nodes)))
	cpus, memory := j.CPUMilliPerTask*j.Tasks, j.MemoryMiBPerTask*j.Tasks
	if cpus%1000 != 0 {
		e.rep.assume("CPUs are rounded to whole ones", j.ID)
	}
	tres := func(typed bool) string {
		s := fmt.Sprintf("cpu=%d,gres/gpu=%d", (cpus+999)/1000, len(r.gpus))
		for _, t := range types {
			if typed {
				s += fmt.Sprintf(",gres/gpu:%s=%d", t, byType[t])
			}
		}
		return s + fmt.Sprintf(",mem=%dM,node=%d", memory, len(nodes))
	}
	only := e.onlyTypes(j)
	row["AllocTRES"], row["ReqTRES"] = tres(true), tres(len(only) == 1)
	if len(only) > 1 {
		e.rep.leaveOut("several types, but not all, that a job may use", j.ID)
	}
	submit := "sbatch"
	switch {
	case j.GPUsPerTask <= 1 && j.Tasks > 1 && !j.DistinctNodes:
		submit += fmt.Sprintf(" --gpus=%d", j.Tasks)
	case j.Tasks > 1 && !j.DistinctNodes:
		submit += fmt.Sprintf(" -n %d --gpus-per-task=%d", j.Tasks, j.GPUsPerTask)
	}
	for _, o := range j.Only {
		f, p := "", ""
		if len(o.Values) == 1 {
			f, p = slurmLabel(o.Label, o.Values[0])
		}
		switch {
		case f != "":
			constraints = append(constraints, f)
		case p != "" && row["Partition"] == "":
			row["Partition"] = p
		case o.Label == hare.LabelNode && len(o.Values) >= len(nodes):
			submit += " -w " + strings.Join(o.Values, ",")
		default:
			e.rep.leaveOut("nodes that a job selects by more than features, a partition and names", j.ID)
		}
	}
	for _, o := range j.Exclude {
		if o.Label == hare.LabelNode {
			submit += " -x " + strings.Join(o.Values, ",")
			continue
		}
		e.rep.leaveOut("nodes that a job excludes by labels", j.ID)
	}
	if submit != "sbatch" {
		row["SubmitLine"] = submit
	}
	row["Constraints"] = strings.Join(constraints, "&")
	return row
}
