package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// jsonKinds are the lists of Slurm's JSON that are read.
var jsonKinds = map[string]string{"jobs": "jobs of sacct or squeue --json", "nodes": "nodes of --json",
	"sinfo": "sinfo --json", "reservations": "scontrol show reservation --json"}

// readSlurmJSON reads a document of sacct, squeue, sinfo or scontrol: an object with a list of
// jobs, nodes or groups of nodes. It holds one member of the list at a time.
func (l *Log) readSlurmJSON(name string, in *bufio.Reader) error {
	d := json.NewDecoder(in)
	fault := func(pointer string, err error) error { return jsonFault(name, pointer, d, err) }
	if _, err := d.Token(); err != nil {
		return fault("", err)
	}
	known := false
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return fault("", err)
		}
		key, _ := token.(string)
		kind, listed := jsonKinds[key]
		if !listed {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return fault("/"+key, err)
			}
			var faults []json.RawMessage
			if key == "last_update" {
				var at slurmNumber
				if err := at.UnmarshalJSON(other); err == nil && at > 0 && at < maxTimeUs/1e6 {
					l.NowUs = max(l.NowUs, int64(at)*1e6)
				}
			}
			if key == "errors" && json.Unmarshal(other, &faults) == nil && len(faults) > 0 {
				l.Report.doubt("Slurm reported errors when it wrote the document", Place{File: name, At: "/errors"})
			}
			continue
		}
		known = true
		if token, err := d.Token(); err != nil || token != json.Delim('[') {
			return fault("/"+key, errors.New("is not a list"))
		}
		f := File{Name: name, Kind: kind}
		for ; d.More(); f.Rows++ {
			pointer := "/" + key + "/" + strconv.Itoa(f.Rows)
			decode := d.Decode
			if f.Rows == 0 { // the members of the first one tell which of them are not read
				var first json.RawMessage
				if err := d.Decode(&first); err != nil {
					return fault(pointer, err)
				}
				f.Ignored = ignoredMembers(first, key)
				decode = func(to any) error { return json.Unmarshal(first, to) }
			}
			var err error
			switch key {
			case "jobs":
				var j slurmJob
				if err = decode(&j); err == nil {
					err = l.addSlurmJob(&j, Place{File: name, At: pointer})
				}
			case "nodes":
				var n slurmNode
				if err = decode(&n); err == nil {
					err = l.addSlurmNode(&n)
				}
			case "reservations":
				var r slurmReservation
				if err = decode(&r); err == nil {
					err = l.addReservation(&r, Place{File: name, At: pointer})
				}
			default:
				var g slurmGroup
				if err = decode(&g); err == nil {
					err = l.addSlurmGroup(&g)
				}
			}
			if err != nil {
				return fault(pointer, err)
			}
		}
		if _, err := d.Token(); err != nil {
			return fault("/"+key, err)
		}
		l.Report.Files = append(l.Report.Files, f)
	}
	if _, err := d.Token(); err != nil {
		return fault("", err)
	}
	if !known {
		return fault("", errors.New("has no list of jobs or nodes: this is not what sacct, squeue, sinfo or scontrol "+
			"write with --json"))
	}
	return nil
}

// ignoredMembers lists the members of an object of a list that are not read, in order.
func ignoredMembers(text json.RawMessage, list string) (ignored []trace.Column) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	kind := reflect.TypeFor[slurmJob]()
	switch list {
	case "nodes":
		kind = reflect.TypeFor[slurmNode]()
	case "reservations":
		kind = reflect.TypeFor[slurmReservation]()
	case "sinfo":
		kind = reflect.TypeFor[slurmGroup]()
	}
	known := map[string]bool{}
	for i := range kind.NumField() {
		name := cmp.Or(kind.Field(i).Tag.Get("json"), strings.ToLower(kind.Field(i).Name))
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !known[strings.ToLower(name)] {
			ignored = append(ignored, trace.Column{Name: name, Values: 1})
		}
	}
	return ignored
}

// addSlurmNode adds a node.
func (l *Log) addSlurmNode(v *slurmNode) error {
	if v.Name == "" {
		return errors.New("the node has no name")
	}
	n := l.node(v.Name)
	if err := n.set("Gres", v.Gres); err != nil {
		return err
	}
	n.CPUMilli = int64(cmp.Or(v.EffectiveCPUs, v.CPUs)) * 1000
	n.MemoryMiB = max(0, int64(v.RealMemory)-int64(v.SpecializedMemory))
	n.Features, n.Partitions = sortedList(v.Features.String()), sortedList(v.Partitions.String())
	n.Out = startsNothing(slices.Concat(v.State, v.StateFlags))
	return nil
}

// addSlurmGroup adds the nodes of a group; a node that is in several partitions is in several groups.
func (l *Log) addSlurmGroup(g *slurmGroup) error {
	for _, list := range g.Nodes.Nodes {
		names, err := expandHosts(list)
		if err != nil {
			return err
		}
		for _, name := range names {
			n := l.node(name)
			if err := n.set("Gres", g.Gres.Total); err != nil {
				return err
			}
			n.CPUMilli, n.MemoryMiB = int64(g.CPUs.Maximum)*1000, int64(g.Memory.Maximum)
			n.Features = sortedList(g.Features.Total)
			n.Out = startsNothing(g.Node.State)
			n.Partitions = sortedList(strings.Join(append(n.Partitions, g.Partition.Name), ","))
		}
	}
	return nil
}

// rawNumber reads a task number, which may be null or in an object.
func rawNumber(text json.RawMessage) (n int64, set bool) {
	var v slurmNumber
	if len(text) == 0 || bytes.Equal(text, []byte("null")) || v.UnmarshalJSON(text) != nil {
		return 0, false
	}
	if text[0] == '{' {
		var o struct{ Set bool }
		if json.Unmarshal(text, &o) != nil || !o.Set {
			return 0, false
		}
	}
	return int64(v), true
}

// addSlurmJob adds a job of sacct or squeue.
func (l *Log) addSlurmJob(v *slurmJob, place Place) error {
	fromQueue := len(v.JobState) > 0
	j := Job{ID: itoa(int64(v.ID)), Name: v.Name, Place: place, Account: v.Account, Partition: v.Partition, QOS: v.QOS}
	if v.ID <= 0 {
		return errors.New("job_id is missing")
	}
	state := v.State.Current
	tasks := v.Array.Task
	taskID, isTask := rawNumber(v.Array.TaskID)
	array, het, offset := v.Array.JobID, v.Het.JobID, v.Het.Offset
	times := [5]slurmNumber{v.Time.Submission, v.Time.Eligible, v.Time.Start, v.Time.End, v.Time.Limit}
	asked, got := tresText(v.Tres.Requested), tresText(v.Tres.Allocated)
	j.User, j.Features = v.User, v.Constraints
	if len(v.Reservation.Name) > 2 && v.Reservation.Name[0] == '"' {
		j.Reservation = string(v.Reservation.Name[1 : len(v.Reservation.Name)-1])
	}
	if fromQueue {
		state, tasks, array, het, offset = v.JobState, v.ArrayTaskString, v.ArrayJobID, v.HetJobID, v.HetOffset
		taskID, isTask = rawNumber(v.ArrayTaskID)
		times = [5]slurmNumber{v.SubmitTime, v.EligibleTime, v.StartTime, v.EndTime, v.TimeLimit}
		asked, got = v.TresReq, v.TresAlloc
		j.User, j.Features, j.Reservation = v.UserName, v.Features, v.ResvName
		j.After = dependencies(v.Dependency)
		j.Exclusive = slices.Contains(v.Shared, "none") || slices.Contains(v.Shared, "exclusive") ||
			slices.Contains(v.Exclusive, "true")
		j.OnHold = v.Hold || strings.HasPrefix(v.StateReason, "JobHeld") || v.StateReason == "JobHoldMaxRequeue"
	}
	known := false
	for _, word := range state {
		if st, ok := slurmState(word); ok && !known {
			j.State, known = st, true
		}
	}
	if !known {
		return fmt.Errorf("the state %.60q is not one that Slurm has", state.String())
	}
	for i, to := range []*int64{&j.SubmitUs, &j.EligibleUs, &j.StartUs, &j.EndUs} {
		if times[i] < 0 || times[i] > maxTimeUs/1e6 {
			return fmt.Errorf("the time %d is not between 1970 and 2199", times[i])
		}
		*to = int64(times[i]) * 1e6
	}
	if limit := times[4]; limit > 0 && limit < 1<<31 {
		j.LimitUs = int64(limit) * 60e6
	}
	switch j.State {
	case Pending:
		j.StartUs, j.EndUs = 0, 0 // what Slurm believes, not what was
	case Running:
		j.EndUs = 0
	}
	askedTres, err := parseResources(asked)
	if err != nil {
		return err
	}
	gotTres, err := parseResources(got)
	if err != nil {
		return err
	}
	told, err := v.submission()
	if err != nil {
		return err
	}
	if err := l.choose(&j, told); err != nil {
		return err
	}
	if askedTres.gpus == 0 { // Slurm does not count GPUs without AccountingStorageTRES
		if askedTres.gpus, askedTres.byType, err = v.gpus(); err != nil {
			return err
		}
	}
	names, err := expandHosts(v.Nodes)
	if err != nil || v.Nodes == "None assigned" {
		names = nil
	}
	if len(names) == 0 && j.State != Running {
		j.StartUs = 0 // squeue gives a job that was cancelled before its start its end as its start
	}
	if gotTres.gpus == 0 && j.StartUs > 0 {
		if gotTres.gpus = v.heldGPUs(); gotTres.gpus == 0 {
			gotTres.gpus, gotTres.byType = askedTres.gpus, askedTres.byType
		} else if v.TresPerSocket != "" { // which nodes have sockets is not known before
			askedTres.gpus, askedTres.byType = gotTres.gpus, nil
		}
	}
	gotTres.gpus = granted(askedTres, gotTres)
	j.describe(askedTres, gotTres, max(int64(v.NodeCount), gotTres.nodes), told)
	if j.Seconds, err = parseSpeeds(string(v.Comment)); err != nil {
		l.Report.leaveOut(fmt.Sprintf("speeds in a comment that cannot be read: %v", err), place)
	}
	if v.Time.Suspended > 0 {
		l.Report.doubt("the job was suspended for some of its time, which counts as work", place)
	}
	if j.StartUs > 0 && gotTres.gpus > 0 && len(names) > 0 {
		j.hold(names, gotTres)
		if len(v.GresDetail) == len(names) {
			j.holdDetail(names, v.GresDetail)
		}
	}
	switch {
	case isTask && array > 0:
		j.ID = itoa(int64(array)) + "_" + itoa(taskID)
	case het > 0:
		j.ID = itoa(int64(het)) + "+" + itoa(int64(offset))
	case tasks != "" && j.State == Pending:
		if strings.Contains(tasks, "%") {
			l.Report.leaveOut("the limit of an array's tasks that run at once", place)
		}
		t := &table{file: place.File}
		j.ID = j.ID + "_[" + strings.Trim(tasks, "[]") + "]"
		base, _, _ := strings.Cut(j.ID, "_[")
		return l.addPendingArray(t, j, base)
	}
	return l.addJob(&j)
}

// submission returns what the job's command line and the members of squeue say.
func (v *slurmJob) submission() (submission, error) {
	told := readSubmission(v.SubmitLine)
	if len(v.TresPerNode+v.TresPerJob+v.TresPerTask+v.TresPerSocket) > 0 {
		// What stands now, which an operator or a plugin may have changed.
		told.types = nil
		for _, text := range []string{v.TresPerNode, v.TresPerJob, v.TresPerTask, v.TresPerSocket} {
			told.keepTypes(text)
		}
	}
	told.gpus = told.gpus || v.TresPerJob != ""
	told.nodes = told.nodes || v.TresPerNode != "" || v.TresPerSocket != "" || v.TresPerTask != "" && v.TasksPerNode > 0
	if told.perTask == 0 {
		perTask, _, err := parseGres(v.TresPerTask)
		if err != nil {
			return told, fmt.Errorf("tres_per_task: %w", err)
		}
		told.perTask = perTask
	}
	for _, list := range []struct {
		text string
		to   *[]string
	}{{v.ExcludedNodes, &told.exclude}, {v.RequiredNodes, &told.require}} {
		if list.text != "" { // what stands now, which an operator may have changed
			*list.to = []string{list.text}
		}
	}
	return told, nil
}

// heldGPUs is how many GPUs gres_detail says that a job has, which Slurm tells whatever it counts.
func (v *slurmJob) heldGPUs() (gpus int64) {
	for _, text := range v.GresDetail {
		if n, _, err := parseGres(text); err == nil {
			gpus += n
		}
	}
	return min(gpus, hare.MaxGPUs)
}

// gpus returns the GPUs that a job of squeue asks for, by node, in all, by task or by socket.
func (v *slurmJob) gpus() (gpus int64, byType []hare.TypeCount, err error) {
	for _, by := range []struct {
		member, text string
		times        slurmNumber
	}{{"tres_per_node", v.TresPerNode, v.NodeCount}, {"tres_per_job", v.TresPerJob, 1}, {"tres_per_task", v.TresPerTask,
		v.Tasks}, {"tres_per_socket", v.TresPerSocket, max(1, v.SocketsPerNode) * max(1, v.NodeCount)}} {
		if gpus, byType, err = parseGres(by.text); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", by.member, err)
		}
		if gpus == 0 {
			continue
		}
		times := max(1, int64(by.times))
		if gpus > hare.MaxGPUs || times > hare.MaxGPUs {
			return 0, nil, fmt.Errorf("%s: %d times %d GPUs are more than a cluster has", by.member, times, gpus)
		}
		for i := range byType {
			byType[i].Count *= int(times)
		}
		return gpus * times, byType, nil
	}
	return 0, nil, nil
}

// holdDetail says which GPUs of which types a job has on each node, from texts such as
// gpu:v100:2(IDX:0-1), which stand in the order of the nodes.
func (j *Job) holdDetail(names, details []string) {
	j.On = nil
	for i, name := range names {
		for _, part := range splitOutside(details[i]) {
			gpus, byType, err := parseGres(part)
			if err != nil || gpus == 0 {
				continue
			}
			h := Held{Node: name, GPUs: gpus}
			if len(byType) == 1 {
				h.Type = byType[0].Type
			}
			if _, list, ok := strings.Cut(part, "(IDX:"); ok {
				h.Numbers = numbers(strings.TrimSuffix(list, ")"), gpus)
			}
			j.On = append(j.On, h)
		}
	}
}

// numbers reads a list such as 0-1,3 of so many numbers; nil if the list is of another length.
func numbers(list string, count int64) []int {
	texts, err := expandHosts("[" + list + "]")
	if err != nil || int64(len(texts)) != count {
		return nil
	}
	out := make([]int, len(texts))
	for i, text := range texts {
		if out[i], err = strconv.Atoi(text); err != nil {
			return nil
		}
	}
	return out
}
