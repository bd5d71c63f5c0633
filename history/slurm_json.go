package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// afterDocument is what becomes of text after a document that has no list of jobs or nodes.
const afterDocument = "text after a document of JSON: it is left out"

// readSlurmJSON reads a document of sacct, squeue, sinfo or scontrol: an object with a list of
// jobs, nodes or groups of nodes, or several such documents. It holds one member of the list at a time.
func (l *slurmReader) readSlurmJSON(name string, in *bufio.Reader) error {
	d := json.NewDecoder(in)
	for doc := 0; ; doc++ {
		at := ""
		if doc > 0 {
			at = "/" + strconv.Itoa(doc)
		}
		token, err := d.Token()
		switch {
		case doc == 0 && err != nil:
			return jsonFault(name, at, d, err)
		case errors.Is(err, io.EOF):
			return nil
		case doc > 0 && token != json.Delim('{'):
			l.Report.setAside(afterDocument, Place{File: name, At: at}, "")
			return nil
		}
		if err := l.readSlurmDocument(name, at, d); err != nil {
			return err
		}
	}
}

// readSlurmDocument reads a document whose { is read. at is its place in the text.
func (l *slurmReader) readSlurmDocument(name, at string, d *json.Decoder) error {
	fault := func(pointer string, err error) error { return jsonFault(name, at+pointer, d, err) }
	known := false
	doc := slurmDocument{l: l}
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
			if key == "meta" {
				doc.readMeta(other)
			}
			if key == "errors" && json.Unmarshal(other, &faults) == nil && len(faults) > 0 {
				var fault struct{ Error, Description string }
				_ = json.Unmarshal(faults[0], &fault)
				l.Report.doubt(fmt.Sprintf("Slurm wrote an error: %.100s", cmp.Or(fault.Error, fault.Description,
					string(faults[0]))), Place{File: name, At: at + "/errors"})
			}
			continue
		}
		known = true
		if token, err := d.Token(); err == nil && token == nil { // null
			l.Report.Files = append(l.Report.Files, File{Name: name, Kind: kind})
			continue
		} else if err != nil || token != json.Delim('[') {
			return fault("/"+key, errors.New("is not a list"))
		}
		f := File{Name: name, Kind: kind}
		jobs, unread := len(l.Jobs), len(l.Report.SetAside)
		for ; d.More(); f.Rows++ {
			pointer := "/" + key + "/" + strconv.Itoa(f.Rows)
			var text json.RawMessage
			if err := d.Decode(&text); err != nil {
				return fault(pointer, err)
			}
			if f.Rows == 0 { // the members of the first one tell which of them are not read
				f.Ignored = ignoredMembers(text, key)
			}
			if err := doc.add(key, text, Place{File: name, At: at + pointer}); err != nil {
				return fault(pointer, err)
			}
		}
		if _, err := d.Token(); err != nil {
			return fault("/"+key, err)
		}
		if key == "jobs" && len(l.Jobs) == jobs && len(l.Report.SetAside) > unread {
			return noneRead(Place{File: name, At: at + "/jobs"}, l.Report.SetAside[unread])
		}
		l.Report.Files = append(l.Report.Files, f)
	}
	if _, err := d.Token(); err != nil {
		return fault("", err)
	}
	switch {
	case !known && at != "":
		l.Report.setAside(afterDocument, Place{File: name, At: at}, "")
		return nil
	case !known:
		return fault("", errors.New("has no list of jobs or nodes: this is not what sacct, squeue, sinfo or scontrol "+
			"write with --json"))
	}
	doc.finish()
	return nil
}

// slurmDocument is what a document of Slurm's JSON tells besides its rows.
type slurmDocument struct {
	l *slurmReader
	// release is the version of Slurm and parser that of its JSON, such as 26.05.3 and v0.0.45; "" is unknown.
	release, parser string
	// shared are the jobs of squeue that OverSubscribe alone calls exclusive, and waits whether a job of squeue waits
	// that does not say whether it is.
	shared []int
	waits  bool
	place  Place
	// noted says that the report has a value of the row at hand that could not be read.
	noted bool
}

// readMeta takes what a document tells of its versions.
func (d *slurmDocument) readMeta(text []byte) {
	var meta struct {
		Plugin struct {
			Parser string `json:"data_parser"`
		}
		Slurm struct{ Release string }
	}
	_ = json.Unmarshal(text, &meta)
	d.release, d.parser = meta.Slurm.Release, meta.Plugin.Parser[strings.LastIndexByte(meta.Plugin.Parser, '/')+1:]
}

// finish says what a document of Slurm 26.05 and later cannot tell: its OverSubscribe says nothing of whole nodes.
func (d *slurmDocument) finish() {
	if !newerVersion(d.release, 26, 5) && !newerVersion(strings.TrimPrefix(d.parser, "v0."), 0, 45) {
		return
	}
	for _, i := range d.shared {
		d.l.Jobs[i].Exclusive = false
	}
	if d.waits || len(d.shared) > 0 {
		d.l.Report.assume("squeue --json of Slurm 26.05 does not tell which jobs want whole nodes: they count as jobs that "+
			"want the GPUs that they name", d.place)
	}
}

// newerVersion reports whether a version such as 26.05.3 is this one or a later one.
func newerVersion(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	return err == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// add adds a row of a list. A row that is no object is set aside.
func (d *slurmDocument) add(list string, text json.RawMessage, place Place) error {
	l := d.l
	before := l.Report.Unread()
	decode := func(to any) bool {
		defer func() { d.noted = l.Report.Unread() > before }()
		if err := l.Report.decode(text, to, place); err != nil {
			l.Report.setAside("a member of "+list+" is no object: it is left out", place, string(text))
			return false
		}
		return true
	}
	switch list {
	case "jobs":
		var j slurmJob
		if decode(&j) {
			return d.addJob(&j, place)
		}
	case "nodes":
		var n slurmNode
		if decode(&n) {
			l.addSlurmNode(&n, place)
		}
	case "reservations":
		var r slurmReservation
		if decode(&r) {
			l.addReservation(&r, place)
		}
	default:
		var g slurmGroup
		if decode(&g) {
			l.addSlurmGroup(&g, place)
		}
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
func (l *slurmReader) addSlurmNode(v *slurmNode, place Place) {
	if v.Name == "" {
		l.Report.setAside("name of a node is not told: the node is left out", place, v.Gres)
		return
	}
	n := l.node(v.Name)
	l.setNode(n, "Gres", v.Gres, place)
	n.CPUMilli = amount(cmp.Or(v.EffectiveCPUs, v.CPUs)) * 1000
	n.MemoryMiB = max(0, amount(v.RealMemory)-amount(v.SpecializedMemory))
	n.Features, n.Partitions = sortedList(v.Features.String()), sortedList(v.Partitions.String())
	n.setState(l, slices.Concat(v.State, v.StateFlags), place)
}

// amount is a number of CPUs or MiB that a node can have; others count as not told.
func amount(n slurmNumber) int64 {
	if n < 0 || n > hare.MaxPerTask/1000 {
		return 0
	}
	return int64(n)
}

// addSlurmGroup adds the nodes of a group; a node that is in several partitions is in several groups.
func (l *slurmReader) addSlurmGroup(g *slurmGroup, place Place) {
	for _, list := range g.Nodes.Nodes {
		names, err := expandHosts(list)
		if err != nil {
			l.Report.setAside("nodes of a group cannot be read: they are left out", place, list)
			continue
		}
		for _, name := range names {
			n := l.node(name)
			l.setNode(n, "Gres", g.Gres.Total, place)
			n.CPUMilli, n.MemoryMiB = amount(g.CPUs.Maximum)*1000, amount(g.Memory.Maximum)
			n.Features = sortedList(g.Features.Total)
			n.setState(l, g.Node.State, place)
			n.Partitions = sortedList(strings.Join(append(n.Partitions, g.Partition.Name), ","))
		}
	}
}

// addJob adds a job of sacct or squeue.
func (d *slurmDocument) addJob(v *slurmJob, place Place) error {
	l := d.l
	fromQueue := v.JobState != nil || v.SubmitTime > 0 || v.UserName != ""
	if v.ID <= 0 {
		if !d.noted {
			l.Report.setAside("job_id is not told: "+left, place, v.Name)
		}
		return nil
	}
	l.countCluster(v.Cluster, place)
	base := itoa(int64(v.ID))
	j := Job{ID: base, Name: v.Name, Place: place, User: v.User, Account: v.Account, Partition: v.Partition,
		QOS: v.QOS, Features: v.Constraints, lined: v.SubmitLine != ""}
	j.confirmed = fromQueue
	j.suspended = v.Time.Suspended > 0 || slices.Contains(append(slices.Clone(v.JobState), v.State.Current...),
		"SUSPENDED")
	row := slurmRow{nodes: max(0, int64(v.NodeCount)), fromAccounting: !fromQueue, noted: d.noted}
	state, tasks := v.State.Current, v.Array.Task
	task := v.Array.TaskID
	array, het, offset, most := v.Array.JobID, v.Het.JobID, v.Het.Offset, v.Array.Limits.Max.Running.Tasks
	times := [5]slurmNumber{v.Time.Submission, v.Time.Eligible, v.Time.Start, v.Time.End, v.Time.Limit}
	asked, got := tresText(v.Tres.Requested), tresText(v.Tres.Allocated)
	if len(v.Reservation.Name) > 2 && v.Reservation.Name[0] == '"' {
		j.Reservation = string(v.Reservation.Name[1 : len(v.Reservation.Name)-1])
	}
	if fromQueue {
		state, tasks, array, het, offset = v.JobState, v.ArrayTaskString, v.ArrayJobID, v.HetJobID, v.HetOffset
		task = v.ArrayTaskID
		most = v.ArrayMaxTasks
		times = [5]slurmNumber{v.SubmitTime, v.EligibleTime, v.StartTime, v.EndTime, v.TimeLimit}
		asked, got = v.TresReq, v.TresAlloc
		j.User, j.Features, j.Reservation = v.UserName, v.Features, v.ResvName
		j.After = dependencies(v.Dependency)
		j.OnHold = v.Hold || strings.HasPrefix(v.StateReason, "JobHeld") || v.StateReason == "JobHoldMaxRequeue"
	}
	for _, word := range v.Exclusive {
		switch strings.ToLower(word) {
		case "true", "node", "exclusive":
			j.Exclusive = true
		}
	}
	for i, to := range []*int64{&j.SubmitUs, &j.EligibleUs, &j.StartUs, &j.EndUs} {
		if times[i] < 0 || times[i] > maxTimeUs/1e6 {
			l.Report.setAside([]string{"submission", "eligible", "start", "end"}[i]+
				" is not between 1970 and 2199: counts as not told", place, itoa(int64(times[i])))
			continue
		}
		*to = int64(times[i]) * 1e6
	}
	j.SubmitUs = cmp.Or(j.SubmitUs, j.EligibleUs, j.StartUs)
	if limit := times[4]; limit > 0 && limit < 1<<31 {
		j.LimitUs = int64(limit) * 60e6
	}
	names, err := expandHosts(v.Nodes)
	if err != nil {
		l.Report.setAside("nodes cannot be read: "+left, place, v.Nodes)
		l.NowUs = max(l.NowUs, j.SubmitUs)
		return nil
	}
	if v.Nodes == "None assigned" {
		names = nil
	}
	row.names = names
	known := false
	for _, word := range state {
		if st, ok := slurmState(word); ok && !known {
			j.State, known = st, true
			if word == completing && j.StartUs > 0 && j.EndUs > 0 {
				j.State = Unknown // how it has ended
			}
		}
		j.OnHold = j.OnHold || slices.Contains(holds, word)
		if (word == "REQUEUED" || word == resizing) && !fromQueue && j.StartUs > 0 && j.EndUs > 0 {
			j.State, j.resizes = Requeued, word == resizing // beside PENDING, for good: what is told is what ended
		}
	}
	if !known {
		if fromQueue {
			j.EndUs = 0
		}
		j.State = guessState(&j, len(names) > 0)
		if !d.noted || len(state) > 0 {
			l.Report.setAside("state is no word that Hare knows: the job counts as what its times and nodes say", place,
				state.String())
		}
	}
	switch j.State {
	case Pending:
		j.StartUs, j.EndUs = 0, 0 // what Slurm believes, not what was
	case Running:
		j.EndUs = 0
	}
	if at := int64(v.ResizeTime) * 1e6; fromQueue && j.StartUs > 0 && at > j.StartUs && at < maxTimeUs {
		j.resizedUs = at
	}
	if !fromQueue && j.StartUs > 0 && j.SubmitUs > j.StartUs {
		j.resizedUs = j.SubmitUs
	}
	if len(names) == 0 && j.State != Running {
		j.StartUs = 0 // squeue gives a job that was cancelled before its start its end as its start
	}
	if v.Time.Suspended > 0 && j.StartUs > 0 {
		l.Report.assume(keptSuspended, place)
	}
	v.read(l, &row, asked, got, place)
	exclusive := j.Exclusive
	l.describe(&j, &row)
	if j.StartUs > 0 && len(j.On) > 0 && len(v.GresDetail) == len(names) && j.parts.none() {
		j.holdDetail(names, v.GresDetail)
	}
	if fromQueue && j.State == Pending {
		d.place, d.waits = place, d.waits || !j.Exclusive && len(v.Exclusive) == 0
		if slices.Contains(v.Shared, "none") || slices.Contains(v.Shared, "exclusive") {
			if !exclusive && !row.told.exclusive && !slices.Contains(v.Shared, "exclusive") {
				d.shared = append(d.shared, len(l.Jobs))
			}
			j.Exclusive = true
		}
	}
	if j.Seconds, err = parseSpeeds(string(v.Comment)); err != nil {
		l.Report.leaveOut(fmt.Sprintf("speeds in a comment that cannot be read: %v", err), place)
	}
	list := ""
	switch {
	case task.set && array > 0:
		j.ID = itoa(int64(array)) + "_" + itoa(task.number)
	case het > 0:
		j.ID = itoa(int64(het)) + "+" + itoa(int64(offset))
	case tasks != "" && j.State == Pending:
		if list = tasks; most > 0 && !strings.Contains(tasks, "%") {
			l.limitTasks(place)
		}
	}
	if j.SubmitUs == 0 {
		if !d.noted {
			l.Report.setAside(noTime, place, "")
		}
		return nil
	}
	return l.addSlurmJobs(&j, base, list)
}

// read takes what the members of a job tell of its resources.
func (v *slurmJob) read(l *slurmReader, row *slurmRow, asked, got string, place Place) {
	for _, list := range []struct {
		name, text string
		to         *resources
	}{{"requested resources", asked, &row.asked}, {"allocated resources", got, &row.got}} {
		if *list.to = parseResources(list.text); list.to.bad != "" {
			l.Report.setAside(list.name+" cannot be read: what stands there counts as not told", place, list.to.bad)
		}
	}
	for _, text := range v.GresDetail {
		g := parseGres(text)
		row.detail.gpus = min(row.detail.gpus+g.gpus, hare.MaxGPUs)
		row.detail.byType = append(row.detail.byType, g.byType...)
		row.detail.parts.shards += g.parts.shards
		row.detail.parts.mps += g.parts.mps
	}
	row.detail.order()
	nodes := v.NodeCount
	if row.asked.nodes > 0 && len(row.names) == 0 {
		nodes = slurmNumber(row.asked.nodes) // the fewest, where squeue counts the most that a waiting job may have
	}
	for _, by := range []struct {
		member, text string
		times        slurmNumber
	}{{"tres_per_node", v.TresPerNode, nodes}, {"tres_per_job", v.TresPerJob, 1}, {"tres_per_task", v.TresPerTask,
		v.Tasks}, {"tres_per_socket", v.TresPerSocket, max(1, v.SocketsPerNode) * max(1, nodes)}} {
		g := parseGres(by.text)
		if g.bad == "" {
			g = g.multiply(int64(min(by.times, hare.MaxGPUs)))
		}
		if g.bad != "" {
			l.Report.setAside(by.member+" cannot be read: what stands there counts as not told", place, by.text)
		}
		if row.request.gpus == 0 && row.request.parts.none() {
			row.request = g
		}
	}
	row.told = v.submission()
}

// submission returns what the job's command line and the members of squeue say.
func (v *slurmJob) submission() submission {
	words := strings.Fields(v.SubmitLine)
	if v.Het.JobID > 0 || v.HetJobID > 0 {
		words = component(words, int64(v.Het.Offset+v.HetOffset)) // of which one is told
	}
	told := readWords(words)
	if len(v.TresPerNode+v.TresPerJob+v.TresPerTask+v.TresPerSocket) > 0 {
		// What stands now, which an operator or a plugin may have changed.
		told.types = nil
		for _, text := range []string{v.TresPerNode, v.TresPerJob, v.TresPerTask, v.TresPerSocket} {
			told.keepTypes(text)
		}
	}
	told.gpus = told.gpus || v.TresPerJob != ""
	told.nodes = told.nodes || v.MaxNodes == 1 || v.TresPerNode != "" || v.TresPerSocket != "" ||
		v.TresPerTask != "" && v.TasksPerNode > 0
	told.sockets = told.sockets || v.TresPerSocket != ""
	if each := parseGres(v.CPUsPerTres); each.bad == "" && each.gpus > 0 {
		told.numbers = append(told.numbers, numbered{"cpus-per-gpu", each.gpus})
	}
	if told.perTask == 0 {
		told.perTask = parseGres(v.TresPerTask).gpus
	}
	for _, list := range []struct {
		text string
		to   *[]string
	}{{v.ExcludedNodes, &told.exclude}, {v.RequiredNodes, &told.require}} {
		if list.text != "" { // what stands now, which an operator may have changed
			*list.to = []string{list.text}
		}
	}
	return told
}

// holdDetail says which GPUs of which types a job has on each node, from texts such as
// gpu:v100:2(IDX:0-1), which stand in the order of the nodes.
func (j *Job) holdDetail(names, details []string) {
	j.On = nil
	for i, name := range names {
		for _, part := range splitOutside(details[i]) {
			g := parseGres(part)
			if g.bad != "" || g.gpus == 0 {
				continue
			}
			h := Held{Node: name, GPUs: g.gpus}
			if len(g.byType) == 1 {
				h.Type = g.byType[0].Type
			}
			if _, list, ok := strings.Cut(part, "(IDX:"); ok {
				h.Numbers = numbers(strings.TrimSuffix(list, ")"), g.gpus)
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
