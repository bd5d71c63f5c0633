package history

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// SacctFields are the fields that Hare asks sacct for, for its option -o.
const SacctFields = "JobID,JobIDRaw,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,TimelimitRaw," +
	"NNodes,ReqNodes,ReqTRES,AllocTRES,NodeList,Reservation,Suspended,Constraints,JobName,Comment,SubmitLine"

// slurmStates are the states that Slurm tells, in its long form; a state may have words behind it.
var slurmStates = map[string]State{
	"PENDING": Pending, "CONFIGURING": Pending, "REQUEUE_HOLD": Pending, "RESV_DEL_HOLD": Pending,
	"SPECIAL_EXIT": Pending,
	"RUNNING":      Running, "COMPLETING": Running, "SUSPENDED": Running, "STOPPED": Running, "STAGE_OUT": Running,
	"RESIZING": Running, "SIGNALING": Running,
	"COMPLETED": Completed, "FAILED": Failed, "OUT_OF_MEMORY": Failed, "LAUNCH_FAILED": Failed, "RECONFIG_FAIL": Failed,
	"CANCELLED": Cancelled, "REVOKED": Cancelled, "DEADLINE": TimedOut, "TIMEOUT": TimedOut, "NODE_FAIL": NodeFailed,
	"BOOT_FAIL": NodeFailed, "PREEMPTED": Requeued, "REQUEUED": Requeued, "REQUEUE_FED": Requeued,
}

// slurmState returns the state of a text such as "CANCELLED by 1000".
func slurmState(text string) (State, bool) {
	word, _, _ := strings.Cut(text, " ")
	st, ok := slurmStates[strings.TrimRight(word, "+")]
	return st, ok
}

// readSacct reads what sacct -P writes. Steps of jobs are not jobs; a job that was requeued has a
// row for each attempt (sacct -D), and each attempt becomes a job.
func (l *Log) readSacct(name string, in *bufio.Reader, loc *time.Location) error {
	t, err := newTable(name, in, "jobname", "submitline", "comment", "constraints", "admincomment", "systemcomment",
		"workdir", "reason", "container", "account", "reservation")
	if err != nil {
		return err
	}
	for _, needed := range []string{"jobid", "state", "submit", "start", "end"} {
		if !t.has(needed) {
			return t.fault("there is no column %s: write the file by sacct -P -a -o %s", needed, SacctFields)
		}
	}
	if !t.has("alloctres") && !t.has("allocgres") {
		return t.fault("there is no column AllocTRES, which tells the GPUs of a job: write the file by sacct -P -a -o %s",
			SacctFields)
	}
	t.valid = func() bool {
		if _, ok := slurmState(t.get("state")); !ok {
			return false
		}
		for _, column := range []string{"submit", "start", "end"} {
			if _, err := parseTime(t.get(column), loc); err != nil {
				return false
			}
		}
		_, err := parseResources(t.get("alloctres"))
		return err == nil
	}
	bad, good := Place{}, false // the first row with another number of fields
	for {
		more, err := t.next()
		if errors.Is(err, errFields) {
			if bad.Line == 0 {
				bad = t.place()
			}
			l.Report.leaveOut("the row has another number of fields than the first row: a name or comment has the "+
				"delimiter | or a line end (write the file with --delimiter=$'\\x1f')", t.place())
			continue
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := l.sacctRow(t, loc); err != nil {
			return err
		}
		good = true
	}
	if !good && bad.Line > 0 {
		return &RowError{bad, fmt.Sprintf("no row has as many fields as the first row: %d; this is not what sacct -P writes",
			len(t.names))}
	}
	l.Report.Files = append(l.Report.Files, t.report("sacct -P"))
	return nil
}

// sacctRow adds the job of one row.
func (l *Log) sacctRow(t *table, loc *time.Location) error {
	id := t.get("jobid")
	if strings.Contains(id, ".") {
		l.Report.leaveOut("steps of jobs are parts of their jobs", t.place())
		return nil
	}
	j := Job{ID: id, Name: t.get("jobname"), Place: t.place(), User: t.get("user"), Account: t.get("account"),
		Partition: t.get("partition"), QOS: t.get("qos"), Reservation: t.get("reservation"),
		Features: t.get("constraints")}
	var ok bool
	if j.State, ok = slurmState(t.get("state")); !ok {
		return t.fault("state %.40q is not one that Slurm has", t.get("state"))
	}
	var err error
	for _, field := range []struct {
		column string
		to     *int64
	}{{"submit", &j.SubmitUs}, {"eligible", &j.EligibleUs}, {"start", &j.StartUs}, {"end", &j.EndUs}} {
		if *field.to, err = parseTime(t.get(field.column), loc); err != nil {
			return t.fault("%s: %v", field.column, err)
		}
	}
	if minutes := t.get("timelimitraw"); minutes != "" {
		if n, err := strconv.ParseUint(minutes, 10, 31); err == nil {
			j.LimitUs = int64(n) * 60e6
		}
	} else if j.LimitUs, err = parseLimit(t.get("timelimit")); err != nil {
		return t.fault("timelimit: %v", err)
	}
	asked, err := parseResources(t.get("reqtres"))
	if err != nil {
		return t.fault("reqtres: %v", err)
	}
	got, err := parseResources(t.get("alloctres"))
	if err != nil {
		return t.fault("alloctres: %v", err)
	}
	nodes, _ := parseCount(t.get("nnodes"))
	if text := t.get("allocgres", "reqgres"); got.gpus == 0 && text != "" {
		if got.gpus, got.byType, err = parseGres(text); err != nil {
			return t.fault("allocgres: %v", err)
		}
		got.gpus *= max(1, nodes)
		for i := range got.byType {
			got.byType[i].Count *= int(max(1, nodes))
		}
	}
	if suspended := t.get("suspended"); strings.Trim(suspended, "0:-") != "" {
		l.Report.doubt("the job was suspended for some of its time, which counts as work", t.place())
	}
	told := readSubmission(t.get("submitline"))
	got.gpus = granted(asked, got)
	j.describe(asked, got, nodes, told)
	if err := l.choose(&j, told); err != nil {
		return t.fault("submitline: %v", err)
	}
	if j.Seconds, err = parseSpeeds(t.get("comment")); err != nil {
		l.Report.leaveOut(fmt.Sprintf("speeds in a comment that cannot be read: %v", err), t.place())
	}
	if j.StartUs > 0 && got.gpus > 0 {
		names, err := expandHosts(strings.TrimPrefix(t.get("nodelist"), "None assigned"))
		if err != nil {
			return t.fault("nodelist: %v", err)
		}
		j.hold(names, got)
	}
	if base, _, pending := strings.Cut(id, "_["); pending {
		return l.addPendingArray(t, j, base)
	}
	if err := l.addJob(&j); err != nil {
		return t.fault("%v", err)
	}
	return nil
}

// describe sets what a job asked for: GPUs, nodes, type, CPUs and memory. told is what its command line
// and its tasks say.
func (j *Job) describe(asked, got resources, nodes int64, told submission) {
	r := got
	if r.gpus == 0 {
		r = asked
	}
	j.GPUs, j.Nodes, j.CPUMilli, j.MemoryMiB = r.gpus, max(nodes, r.nodes), r.cpuMilli, r.memoryMiB
	j.chooseType(asked, got, told.gpuTypes())
	if got.gpus > 0 && asked.gpus > 0 && got.gpus > asked.gpus {
		j.Exclusive = true
	}
	j.Exclusive = j.Exclusive || told.exclusive
	switch {
	case told.perTask > 0 && !told.nodes && j.GPUs%told.perTask == 0:
		j.PerTask = told.perTask
	case told.gpus && !told.nodes, asked.nodes > 0 && j.Nodes > asked.nodes:
		j.PerTask = 1
	}
	j.After = append(j.After, told.after...)
}

// granted is how many GPUs a job had that asked for some. AllocTRES leaves those of nodes without types out where
// other nodes of the job have types, and Slurm never gives a job fewer than it asked for on as many nodes.
func granted(asked, got resources) int64 {
	if got.gpus > 0 && got.nodes >= asked.nodes {
		return max(got.gpus, asked.gpus)
	}
	return got.gpus
}

// chooseType sets the GPU types that a job must have: those that Slurm counts for the request, else those that
// named lists, which the request itself names. Slurm counts GPUs by type only where AccountingStorageTRES
// names each type. What the job had speaks against a type that it has not had: somebody changed the request.
func (j *Job) chooseType(asked, got resources, named []string) {
	var counted []string
	typed := int64(0)
	for _, g := range asked.byType {
		counted, typed = append(counted, g.Type), typed+int64(g.Count)
	}
	if typed > 0 && typed == asked.gpus {
		named = counted
	}
	for _, name := range named {
		had := slices.ContainsFunc(got.byType, func(g hare.TypeCount) bool { return strings.EqualFold(g.Type, name) })
		if len(got.byType) > 0 && !had {
			return
		}
	}
	switch len(named) {
	case 0:
	case 1:
		j.Type = named[0]
	default:
		j.Types = named
	}
}

// choose sets the nodes that a job must have and those that it must not have.
func (l *Log) choose(j *Job, told submission) (err error) {
	if j.NotNodes, err = hostSet(told.exclude); err != nil {
		return err
	}
	if j.OnlyNodes, err = hostSet(told.require); err != nil {
		return err
	}
	for _, option := range told.unread {
		l.Report.leaveOut(option+" names a file of nodes, which the log does not have: the job is not kept to them", j.Place)
	}
	return nil
}

// dependencies returns the jobs of a list such as afterok:12:13,afterany:14. after alone waits for
// a start, singleton for no job that is named: these are left out.
func dependencies(list string) (ids []string) {
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '?' }) {
		kind, jobs, ok := strings.Cut(part, ":")
		if !ok || kind == "after" {
			continue
		}
		for _, id := range strings.Split(jobs, ":") {
			id, _, _ = strings.Cut(id, "(")
			if id, _, _ = strings.Cut(id, "+"); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// hold says on which nodes a job was. Numbers by node are known on one node; where they divide evenly, they
// are assumed to be alike; the rest is found with the nodes at hand (see Build).
func (j *Job) hold(names []string, got resources) {
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		h := Held{Node: name}
		if len(got.byType) == 1 && int64(got.byType[0].Count) == got.gpus {
			h.Type = got.byType[0].Type
		}
		if len(got.byType) == 0 {
			h.Type = j.Type // Slurm does not count by type, and gives a job what it asks for
		}
		n := int64(len(names))
		if alike := got.gpus%n == 0 && j.PerTask != 1 && got.gpus/n%max(1, j.PerTask) == 0; alike ||
			n == 1 && len(got.byType) <= 1 {
			h.GPUs, h.Assumed = got.gpus/n, n > 1
		}
		j.On = append(j.On, h)
	}
	if len(got.byType) > 1 && len(names) == 1 {
		j.On = nil
		for _, g := range got.byType {
			j.On = append(j.On, Held{Node: names[0], Type: g.Type, GPUs: int64(g.Count)})
		}
	}
}

// parseGres reads generic resources of a node, such as gpu:v100:2(S:0-1),gpu:4,shard:8.
func parseGres(text string) (gpus int64, byType []hare.TypeCount, err error) {
	for _, part := range splitOutside(text) {
		part, _, _ = strings.Cut(part, "(")
		fields := strings.Split(strings.NewReplacer("gres/", "", "gres:", "", "=", ":").Replace(part), ":")
		if fields[0] != "gpu" {
			continue
		}
		n, name := int64(1), ""
		switch len(fields) {
		case 1:
		case 2:
			if n, err = parseCount(fields[1]); err != nil {
				name, n, err = fields[1], 1, nil
			}
		default:
			name = fields[1]
			n, err = parseCount(fields[2])
		}
		if err != nil {
			return 0, nil, fmt.Errorf("%.60q: %w", part, err)
		}
		if gpus += n; name != "" && n > 0 {
			byType = append(byType, hare.TypeCount{Type: name, Count: int(n)})
		}
	}
	slices.SortFunc(byType, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	return gpus, byType, nil
}

// splitOutside splits at commas that are in no parentheses.
func splitOutside(text string) (parts []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, text[from:i]), i+1
			}
		}
	}
	return append(parts, text[from:])
}

// addPendingArray adds the tasks of an array that have not started, such as 12_[3,5-9%2].
func (l *Log) addPendingArray(t *table, j Job, base string) error {
	list := strings.TrimSuffix(j.ID[len(base)+2:], "]")
	list, _, _ = strings.Cut(list, "%")
	if strings.Contains(list, "...") {
		l.Report.leaveOut("the waiting tasks of an array are not all told (set SLURM_BITSTR_LEN=0 for sacct and squeue)",
			t.place())
		list, _, _ = strings.Cut(list, ",...")
	}
	numbers, err := expandHosts(base + "_[" + list + "]")
	if err != nil {
		return t.fault("jobid: %v", err)
	}
	for _, id := range numbers {
		j.ID = id
		if err := l.addJob(&j); err != nil {
			return t.fault("%v", err)
		}
	}
	return nil
}
