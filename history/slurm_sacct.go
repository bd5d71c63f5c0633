package history

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// SacctFields are the fields that Hare asks sacct for, for its option -o.
const SacctFields = "JobID,JobIDRaw,Cluster,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw," +
	"TimelimitRaw,NNodes,ReqTRES,AllocTRES,NodeList,Reservation,Suspended,Constraints,JobName,Comment,SubmitLine"

// TextFields are the fields of sacct, in lower case, in which users write what they like, the delimiter too.
var TextFields = []string{"jobname", "submitline", "comment", "constraints", "admincomment", "systemcomment",
	"workdir", "reason", "container", "account", "reservation"}

// slurmStates are the states that Slurm tells, in its long form; a state may have words behind it.
var slurmStates = map[string]State{
	"PENDING": Pending, "REQUEUE_HOLD": Pending, "RESV_DEL_HOLD": Pending, "SPECIAL_EXIT": Pending,
	"RUNNING": Running, "CONFIGURING": Running, "POWER_UP_NODE": Running, "COMPLETING": Running,
	"SUSPENDED": Running, "STOPPED": Running, "STAGE_OUT": Running, "RESIZING": Running, "SIGNALING": Running,
	"COMPLETED": Completed, "FAILED": Failed, "OUT_OF_MEMORY": Failed, "LAUNCH_FAILED": Failed, "RECONFIG_FAIL": Failed,
	"CANCELLED": Cancelled, "REVOKED": Cancelled, "DEADLINE": TimedOut, "TIMEOUT": TimedOut, "NODE_FAIL": NodeFailed,
	"BOOT_FAIL": NodeFailed, "PREEMPTED": Requeued, "REQUEUED": Requeued, "REQUEUE_FED": Requeued,
}

// completing is the state of a job that has ended, and whose nodes are not yet free.
const completing = "COMPLETING"

// holds are the states of jobs that wait until somebody releases them.
var holds = []string{"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}

// resizing is the state of what accounting tells of a job until it changed its size. What it tells of the job since
// then has the time of the change as its submission, and the start of the whole job.
const resizing = "RESIZING"

// slurmState returns the state of a text such as "CANCELLED by 1000".
func slurmState(text string) (State, bool) {
	word, _, _ := strings.Cut(text, " ")
	st, ok := slurmStates[strings.TrimRight(word, "+")]
	return st, ok
}

// readSacct reads what sacct -P writes. Steps of jobs are not jobs; a job that was requeued has a
// row for each attempt (sacct -D), and each attempt becomes a job.
func (l *slurmReader) readSacct(name string, in *bufio.Reader, loc *time.Location) error {
	t, err := newTable(name, l.skipped, in, TextFields...)
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
	r := &sacctReader{l: l, t: t, loc: loc}
	r.columns()
	t.valid = func() bool {
		if _, ok := slurmState(t.field(r.state)); !ok {
			return false
		}
		for _, column := range []int{r.submit, r.start, r.end} {
			if _, err := parseTime(t.field(column), loc); err != nil {
				return false
			}
		}
		return parseResources(t.field(r.alloc)).bad == ""
	}
	bad, good, jobs, unread := Place{}, false, len(l.Jobs), len(l.Report.SetAside)
	for {
		more, err := t.next()
		if errors.Is(err, errFields) {
			if bad.Line == 0 {
				bad = t.place()
			}
			l.Report.leaveOut("the row has another number of fields than the first row: a name or comment has the "+
				"delimiter "+strings.Trim(strconv.Quote(t.delimiter), `"`)+" or a line end (write the file with "+
				"--delimiter=$'\\x1f')", t.place())
			continue
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.row(); err != nil {
			return err
		}
		good = true
	}
	if !good && bad.Line > 0 && t.delimiter == "," {
		return &RowError{bad, "commas cut the lists of resources: write the file with --delimiter=$'\\x1f'"}
	}
	if !good && bad.Line > 0 {
		return &RowError{bad, fmt.Sprintf("no row has as many fields as the first row: %d; this is not what sacct -P writes",
			len(t.names))}
	}
	if len(l.Jobs) == jobs && len(l.Report.SetAside) > unread {
		return noneRead(Place{File: name, Line: 2}, l.Report.SetAside[unread])
	}
	l.Report.Files = append(l.Report.Files, t.report("sacct -P"))
	return nil
}

// sacctReader reads the rows of one text. Its numbers are those of columns, -1 for one that is not there.
type sacctReader struct {
	l   *slurmReader
	t   *table
	loc *time.Location

	id, rawID, cluster, name, user, account, partition, qos, reservation, features, state int
	submit, eligible, start, end, elapsed, suspended                                      int
	minutes, limit, nodes, reqNodes, nodeList                                             int
	request, alloc, gres, line, comment                                                   int
	// untold says that the text cannot tell what jobs ask for.
	untold bool
	words  []string // of the command line of a row
}

// submission reads the command line of the row of a job.
func (r *sacctReader) submission(id string) submission {
	r.words = slices.AppendSeq(r.words[:0], strings.FieldsSeq(r.t.field(r.line)))
	if _, offset, ok := strings.Cut(id, "+"); ok {
		if number, err := parseCount(offset); err == nil {
			return readWords(component(r.words, number))
		}
	}
	return readWords(r.words)
}

// columns finds the columns.
func (r *sacctReader) columns() {
	for _, c := range []struct {
		to    *int
		names []string
	}{{&r.id, []string{"jobid"}}, {&r.rawID, []string{"jobidraw"}}, {&r.cluster, []string{"cluster"}},
		{&r.name, []string{"jobname"}}, {&r.user, []string{"user"}}, {&r.account, []string{"account"}},
		{&r.partition, []string{"partition"}}, {&r.qos, []string{"qos"}}, {&r.reservation, []string{"reservation"}},
		{&r.features, []string{"constraints"}}, {&r.state, []string{"state"}}, {&r.submit, []string{"submit"}},
		{&r.eligible, []string{"eligible"}}, {&r.start, []string{"start"}}, {&r.end, []string{"end"}},
		{&r.elapsed, []string{"elapsedraw", "elapsed"}}, {&r.suspended, []string{"suspended"}},
		{&r.minutes, []string{"timelimitraw"}}, {&r.limit, []string{"timelimit"}}, {&r.nodes, []string{"nnodes",
			"allocnodes"}},
		{&r.reqNodes, []string{"reqnodes"}}, {&r.nodeList, []string{"nodelist"}}, {&r.request, []string{"reqtres"}},
		{&r.alloc, []string{"alloctres"}}, {&r.gres, []string{"allocgres", "reqgres"}}, {&r.line, []string{"submitline"}},
		{&r.comment, []string{"comment"}}} {
		*c.to = r.t.use(c.names...)
	}
	r.untold = r.request < 0 && r.gres < 0
}

// setAside counts a value of the row that cannot be read.
func (r *sacctReader) setAside(column, effect, value string) {
	r.l.Report.setAside(column+" cannot be read: "+effect, r.t.place(), value)
}

// left is what becomes of a job without whose value nothing can be said.
const left = "the job is left out"

// noTime says why a job is left out of which no time is told.
const noTime = "no text tells when the job was submitted, could start or started: " + left

// isStep reports whether a row is of a step, such as 12.batch and 12_3.0, and not of a job.
func isStep(id string) bool {
	return strings.IndexByte(id[strings.LastIndexByte(id, ']')+1:], '.') >= 0
}

// isJob reports whether an ID is one of a job, of a task, of a component or of an array that waits.
func isJob(id string) bool {
	digits := 0
	for digits < len(id) && id[digits] >= '0' && id[digits] <= '9' {
		digits++
	}
	rest := id[digits:]
	switch {
	case digits == 0:
		return false
	case strings.HasPrefix(rest, "_["):
		return strings.IndexByte(rest, ']') == len(rest)-1
	}
	return strings.Trim(rest, "0123456789_+") == ""
}

// times reads the times of the row. It says false where the job cannot be placed in time.
func (r *sacctReader) times(j *Job) bool {
	t := r.t
	known := jobTimes{elapsedUs: -1}
	unread := [4]string{}
	for i, column := range []int{r.submit, r.eligible, r.start, r.end} {
		var err error
		if known.at[i], err = parseClock(t.field(column), r.loc); err != nil {
			unread[i] = t.field(column)
			known.endUnread = i == 3
		}
	}
	if st, ok := slurmState(t.field(r.state)); ok && st != Pending && st != Running && known.at[3].us == 0 {
		known.endUnread = true
	}
	if text := t.field(r.elapsed); text != "" {
		us, err := parseSeconds(text)
		if err != nil {
			us, err = parseLimit(text)
		}
		if known.elapsedUs = us; err != nil {
			known.elapsedUs = -1
			r.setAside("elapsed", "what start and end say counts", text)
		}
	}
	if text := t.field(r.suspended); strings.Trim(text, "0:-") != "" {
		var err error
		if known.suspendedUs, err = parseLimit(text); err != nil {
			r.setAside("suspended", "the job counts as never suspended", text)
		}
	}
	ran := r.l.settleTimes(j, &known, t.place())
	effects := [4]string{"the job counts as submitted when it could start", "the job could start when it was submitted",
		"the job began its elapsed time before its end", "the job ended its elapsed time after its start"}
	ok := true
	for i, column := range []string{"submit", "eligible", "start", "end"} {
		if unread[i] == "" {
			continue
		}
		effect := effects[i]
		if i == 0 && j.SubmitUs == 0 || i >= 2 && !ran {
			effect, ok = left, false
		}
		r.setAside(column, effect, unread[i])
	}
	if !ok {
		r.l.NowUs = max(r.l.NowUs, j.SubmitUs, j.StartUs, j.EndUs)
	}
	return ok
}

// row adds the job of one row.
func (r *sacctReader) row() error {
	t, l := r.t, r.l
	id := t.field(r.id)
	if id == "" {
		id = t.field(r.rawID)
	}
	switch {
	case isStep(id):
		l.Report.leaveOut(stepsLeft, t.place())
		return nil
	case strings.EqualFold(id, t.names[r.id]) && strings.EqualFold(t.field(r.state), "state"):
		l.Report.leaveOut("the names of the columns again, of a text that follows another", t.place())
		return nil
	}
	if raw := t.field(r.rawID); !isJob(id) && id != raw { // which are the same where hare export wrote them
		if !isJob(raw) {
			r.setAside("jobid", left, id)
			return nil
		}
		r.setAside("jobid", "the job has its raw number", id)
		id = raw
	}
	l.countCluster(t.field(r.cluster), t.place())
	j := Job{ID: id, Name: t.field(r.name), Place: t.place(), User: t.field(r.user), Account: t.field(r.account),
		Partition: t.field(r.partition), QOS: t.field(r.qos), Reservation: t.field(r.reservation),
		Features: t.field(r.features), lined: t.field(r.line) != ""}
	if !r.times(&j) {
		return nil
	}
	if j.SubmitUs == 0 {
		l.Report.setAside(noTime, t.place(), "")
		return nil
	}
	nodeList := strings.TrimPrefix(t.field(r.nodeList), "None assigned")
	names, err := expandHosts(nodeList)
	if err != nil {
		r.setAside("nodelist", left, nodeList)
		return nil
	}
	var ok bool
	if j.State, ok = slurmState(t.field(r.state)); !ok {
		j.State = guessState(&j, r.nodeList < 0 || len(names) > 0)
		l.Report.setAside("state is no word that Hare knows: the job counts as what its times and nodes say",
			t.place(), t.field(r.state))
	}
	if j.resizes = j.EndUs > 0 && t.field(r.state) == resizing; j.resizes {
		j.State = Requeued
	} else if ok && j.State == Running {
		j.EndUs = 0
	}
	if j.StartUs > 0 && j.SubmitUs > j.StartUs {
		j.resizedUs = j.SubmitUs
	}
	j.suspended = j.suspended || strings.HasPrefix(t.field(r.state), "SUSP")
	row := slurmRow{names: names, untold: r.untold, told: r.submission(id), fromAccounting: true}
	if minutes := t.field(r.minutes); minutes != "" {
		if n, err := strconv.ParseUint(minutes, 10, 31); err == nil {
			j.LimitUs = int64(n) * 60e6
		} else if _, err := parseLimit(minutes); err != nil { // a word for no limit
			r.setAside("timelimitraw", "the job counts as one without a limit", minutes)
		}
	} else if j.LimitUs, err = parseLimit(t.field(r.limit)); err != nil {
		r.setAside("timelimit", "the job counts as one without a limit", t.field(r.limit))
	}
	for _, list := range []struct {
		column string
		at     int
		to     *resources
	}{{"reqtres", r.request, &row.asked}, {"alloctres", r.alloc, &row.got}} {
		if *list.to = parseResources(t.field(list.at)); list.to.bad != "" {
			row.noted = true
			r.setAside(list.column, "what stands there counts as not told", list.to.bad)
		}
	}
	for _, column := range []struct {
		name string
		at   int
		to   *int64
	}{{"nnodes", r.nodes, &row.nodes}, {"reqnodes", r.reqNodes, &row.reqNodes}} {
		if text := t.field(column.at); text != "" {
			if *column.to, err = parseCount(text); err != nil {
				r.setAside(column.name, "counts as not told", text)
			}
		}
	}
	if text := t.field(r.gres); row.got.gpus == 0 && text != "" {
		each := parseGres(text)
		if each.bad != "" {
			r.setAside("allocgres", "what stands there counts as not told", each.bad)
		}
		row.got.gres = each.multiply(max(row.nodes, int64(len(names))))
	}
	if len(names) == 0 && r.nodeList >= 0 && j.State != Running {
		j.StartUs = 0 // a job that was cancelled before its start has the time of its end as its start
	}
	if j.State == Pending && j.EndUs > 0 && j.StartUs > 0 && len(names) > 0 {
		j.State = Requeued
	}
	if j.Seconds, err = parseSpeeds(t.field(r.comment)); err != nil {
		l.Report.leaveOut(fmt.Sprintf("speeds in a comment that cannot be read: %v", err), t.place())
	}
	l.describe(&j, &row)
	base, list, pending := strings.Cut(id, "_[")
	if !pending {
		list = ""
	}
	return l.addSlurmJobs(&j, base, list)
}

// guessState is the state of a job whose state cannot be read.
func guessState(j *Job, placed bool) State {
	switch {
	case j.StartUs == 0 && j.EndUs > 0 || !placed && j.EndUs > 0:
		return Cancelled
	case j.EndUs > 0:
		return Completed
	case j.StartUs > 0 && placed:
		return Running
	}
	return Pending
}

// addSlurmJobs adds a job, or the tasks of an array that have not started, such as 3,5-9%2.
func (l *slurmReader) addSlurmJobs(j *Job, base, list string) error {
	if j.GPUs > 0 && strings.Contains(j.ID, "+") {
		l.Report.assume("a component of a heterogeneous job is a job of its own, which may start apart from the others",
			j.Place)
	}
	if list == "" {
		if err := l.addJob(j); err != nil {
			return &RowError{j.Place, err.Error()}
		}
		return nil
	}
	tasks, cut, limit, bad := arrayTasks(list, l.maxJobs+1)
	if limit {
		l.limitTasks(j.Place)
	}
	if cut {
		l.Report.leaveOut("the waiting tasks of an array are not all told: those that the list was cut off before (set "+
			"SLURM_BITSTR_LEN=0 for sacct and squeue)", j.Place)
	}
	if bad != "" {
		l.Report.setAside("tasks of a waiting array cannot be read: they are left out", j.Place, bad)
	}
	for _, task := range tasks {
		one := *j
		one.ID = base + "_" + strconv.Itoa(task)
		if err := l.addJob(&one); err != nil {
			return &RowError{j.Place, err.Error()}
		}
	}
	return nil
}

// limitTasks says that not all tasks of an array may run at once.
func (l *slurmReader) limitTasks(place Place) {
	l.Report.leaveOut("the limit of an array's tasks that run at once", place)
}

// slurmRow is what Slurm tells of a job besides its names, times and state.
type slurmRow struct {
	// asked and got are what the job asked for and had, in all; detail is what it has, by gres_detail, and request
	// what the members tres_per_node and so on ask for.
	asked, got      resources
	detail, request gres
	nodes, reqNodes int64
	names           []string // of the nodes on which it ran
	told            submission
	// untold says that the text cannot tell what jobs ask for, and fromAccounting that it is of sacct.
	untold, fromAccounting bool
	// noted says that the report has told already that a value of the row could not be read.
	noted bool
}

// yearUs is the limit that Slurm gives jobs of a partition without any.
const yearUs = 365 * 24 * 3600 * 1e6

// describe sets what a job asked for and what it had. What accounting does not count stands elsewhere: in
// gres_detail, in what the job asks for on each node, or on its command line.
func (l *slurmReader) describe(j *Job, row *slurmRow) {
	asked, got, told := &row.asked, &row.got, &row.told
	if row.fromAccounting {
		l.accounted++
		if asked.gpus > 0 || got.gpus > 0 {
			l.countedGPUs++
		}
	}
	if j.LimitUs == yearUs && !told.limit {
		j.LimitUs = 0
		l.Report.assume("a limit of 365 days that nobody asks for is Slurm's word for none", j.Place)
	}
	nodes := max(row.nodes, row.got.nodes)
	asked.nodes = cmp.Or(asked.nodes, row.reqNodes)
	if asked.gpus == 0 && asked.parts.none() {
		asked.gres = row.request
	}
	if asked.gpus == 0 && asked.parts.none() && row.detail.gpus+got.gpus == 0 && got.parts.none() {
		if asked.gres = told.total(max(nodes, asked.nodes)); asked.gpus > 0 {
			j.guessed = true
		}
		if asked.gpus > 0 && !row.noted {
			l.Report.assume("no other text than its command line tells the GPUs of the job (Slurm counts them where "+
				"AccountingStorageTRES has gres/gpu)", j.Place)
		}
	}
	j.asked = got.gpus+row.detail.gpus == 0 && got.parts.none()
	if j.StartUs > 0 {
		switch {
		case got.gpus == 0 && row.detail.gpus > 0:
			got.gpus, got.byType = row.detail.gpus, row.detail.byType
			if told.sockets { // which nodes have sockets is not known before
				asked.gpus, asked.byType = got.gpus, nil
			}
		case got.gpus == 0 && got.parts.none():
			got.gres = asked.gres
			if row.detail.gpus == 0 && !row.detail.parts.none() {
				got.gres = gres{parts: row.detail.parts}
			}
		default:
			got.gpus = max(got.gpus, row.detail.gpus)
		}
	}
	if j.resizedUs == 0 && !told.sockets {
		got.gpus = granted(*asked, *got)
	}
	j.set(*asked, *got, nodes, *told)
	l.choose(j, *told)
	j.stays = row.untold && j.Type == "" && j.Types == nil && len(told.asks) == 0
	if j.parts = cmp.Or(got.parts, asked.parts); j.GPUs > 0 {
		j.parts = parts{}
	}
	if !j.parts.none() {
		got.gpus = int64(max(1, len(row.names)))
		j.GPUs = got.gpus
	}
	if j.StartUs > 0 && got.gpus > 0 && len(row.names) > 0 {
		j.hold(row.names, *got)
	}
}

// set sets GPUs, nodes, type, CPUs and memory of a job. told is what its command line and its tasks say.
func (j *Job) set(asked, got resources, nodes int64, told submission) {
	r := got
	if r.gpus == 0 {
		r = asked
	}
	j.GPUs, j.Nodes = r.gpus, max(nodes, r.nodes)
	j.CPUMilli, j.MemoryMiB = cmp.Or(got.cpuMilli, asked.cpuMilli), cmp.Or(got.memoryMiB, asked.memoryMiB)
	j.chooseType(asked, got, told.gpuTypes())
	if each := told.number("cpus-per-gpu"); got.cpuMilli == 0 && j.GPUs > 0 {
		j.CPUMilli = max(j.CPUMilli, each*j.GPUs*1000) // accounting counts those of tasks alone while a job waits
	}
	if got.gpus > 0 && asked.gpus > 0 && got.gpus > asked.gpus && j.resizedUs == 0 {
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
// other nodes of the job have types, and Slurm gives a job as many as it asked for on as many nodes, unless it asks
// for them by socket.
func granted(asked, got resources) int64 {
	if got.gpus > 0 && got.nodes > 1 && got.nodes >= asked.nodes {
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
func (l *slurmReader) choose(j *Job, told submission) {
	for _, list := range []struct {
		name  string
		texts []string
		to    *[]string
	}{{"excluded", told.exclude, &j.NotNodes}, {"required", told.require, &j.OnlyNodes}} {
		var bad string
		if *list.to, bad = hostSet(list.texts); bad != "" {
			l.Report.setAside("a list of "+list.name+" nodes cannot be read: the job is not kept to it", j.Place, bad)
		}
	}
	for _, option := range told.unread {
		l.Report.leaveOut(option+" names a file of nodes, which the log does not have: the job is not kept to them", j.Place)
	}
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
