package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// Ray's metadata of a job are texts by name. These names mean something to Hare.
const (
	rayGPUs      = "gpus" // how many GPUs the job takes, its tasks and actors together
	rayCPUs      = "cpus" // how many CPUs it takes beside them
	rayMemory    = "memory_mib"
	rayUser      = "user"      // who submitted the job
	rayName      = "name"      // what the job is called, for learning speeds
	raySubmitted = "submitted" // when the job was submitted, where it waited outside of Ray
	raySeconds   = "hare"      // seconds by GPU type, such as {"T4":14}
)

// rayJob holds the members of a job of /api/jobs/. Times are milliseconds.
type rayJob struct {
	Type         string
	JobID        string `json:"job_id"`
	SubmissionID string `json:"submission_id"`
	Status       string
	Entrypoint   string
	Metadata     map[string]rayWord
	StartTime    rayMoment `json:"start_time"`
	EndTime      rayMoment `json:"end_time"`
	DriverNodeID string    `json:"driver_node_id"`
	// They are in what a job was submitted with, which some versions return too.
	EntrypointGPUs      rayNumber            `json:"entrypoint_num_gpus"`
	EntrypointCPUs      rayNumber            `json:"entrypoint_num_cpus"`
	EntrypointResources map[string]rayNumber `json:"entrypoint_resources"`
}

// rayNode holds the members of a node of /nodes?view=summary and of /api/v0/nodes.
type rayNode struct {
	Hostname, IP string
	GPUs         []struct{ Name string }
	Raylet       struct {
		NodeID         string
		State          string
		ResourcesTotal map[string]rayNumber
		Labels         map[string]string
		StartTimeMs    rayMoment
	}
	NodeID         string               `json:"node_id"`
	NodeIP         string               `json:"node_ip"`
	NodeName       string               `json:"node_name"`
	State          string               `json:"state"`
	ResourcesTotal map[string]rayNumber `json:"resources_total"`
	Labels         map[string]string    `json:"labels"`
	StartTimeMs    rayMoment            `json:"start_time_ms"`
	EndTimeMs      rayMoment            `json:"end_time_ms"`
}

// rayNumber is a number, which Ray's summary of nodes writes as a text, and ray list, where it counts bytes, as one
// such as 5.224 GiB.
type rayNumber float64

// rayUnits are the units of ray list.
var rayUnits = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// UnmarshalJSON reads a number, or a text that is one.
func (n *rayNumber) UnmarshalJSON(text []byte) error {
	if string(text) == "null" || string(text) == `""` {
		return nil
	}
	word, unit, _ := strings.Cut(strings.Trim(string(text), `"`), " ")
	v, err := strconv.ParseFloat(word, 64)
	of, known := rayUnits[unit]
	if err != nil || !known || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%.40q is no number", text)
	}
	*n = rayNumber(v * of)
	return nil
}

// rayMoment is a time: milliseconds, or what ray list makes of them in the time zone where it runs.
type rayMoment struct {
	ms    rayNumber
	clock time.Time // as UTC; zero where the time is told in milliseconds
}

// UnmarshalJSON reads a number of milliseconds, or a date with a time of day.
func (m *rayMoment) UnmarshalJSON(text []byte) error {
	if at, err := time.Parse(`"2006-01-02 15:04:05"`, string(text)); err == nil {
		m.clock = at
		return nil
	}
	return m.ms.UnmarshalJSON(text)
}

// rayWord is a text of metadata, which some clients write as a number.
type rayWord string

// UnmarshalJSON reads a text, a number, or true or false.
func (w *rayWord) UnmarshalJSON(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*w = rayWord(v)
	case float64, bool:
		*w = rayWord(text)
	case map[string]any, []any:
		return fmt.Errorf("%.40q is no text", text)
	}
	return nil
}

// rayHolder holds the members of a placement group, of an actor or of a task of the state API.
type rayHolder struct {
	State            string
	CreatorJobID     string `json:"creator_job_id"` // of a placement group
	PlacementGroupID string `json:"placement_group_id"`
	Bundles          []struct {
		NodeID        string               `json:"node_id"`
		UnitResources map[string]rayNumber `json:"unit_resources"`
	}
	ActorID           string               `json:"actor_id"` // of an actor
	Name              string               `json:"name"`
	JobID             string               `json:"job_id"`
	NodeID            string               `json:"node_id"`
	RequiredResources map[string]rayNumber `json:"required_resources"`
}

// raySupervisor begins the name of the actor that holds the GPUs of a job's entrypoint; the submission ID follows. The
// actor belongs to the dashboard's own job.
const raySupervisor = "_ray_internal_job_actor_"

// rayLog gathers jobs and what they hold until all texts are read.
type rayLog struct {
	zone    *time.Location // of times without a zone
	jobs    []rayJob
	places  []Place
	unread  []bool            // whether a value of the job could not be read
	nodes   map[string]string // name by ID
	holders map[string][]rayHolder
	entries map[string][]rayHolder // by submission ID, what holds the GPUs of its entrypoint
}

// notFinite finds the numbers that Python writes and JSON does not have.
var notFinite = regexp.MustCompile(`([:,\[]\s*)(NaN|-?Infinity)\b`)

// rayReader reads answers of Ray.
type rayReader struct {
	*reader
	*rayLog // nil until a text is read, and once jobs are made
}

// readRay reads an answer of Ray's dashboard: the list of jobs, the nodes of /nodes?view=summary, or the
// nodes, placement groups or actors of the state API, or the list of any of them, as ray list --format json writes it.
func (l *rayReader) readRay(name string, in *bufio.Reader, zone *time.Location) error {
	if l.rayLog == nil {
		l.rayLog = &rayLog{zone: zone, nodes: map[string]string{}, holders: map[string][]rayHolder{},
			entries: map[string][]rayHolder{}}
	}
	switch first, err := firstByte(in); {
	case errors.Is(err, io.EOF):
		l.Report.doubt("the text is empty: nothing was read of it", Place{File: name})
		return nil
	case err != nil:
		return &RowError{Place{File: name}, err.Error()}
	case first != '{' && first != '[':
		return &RowError{Place{File: name, Line: 1}, "is no answer of Ray's dashboard: save /api/jobs/, " +
			"/nodes?view=summary or /api/v0/nodes, or write ray list with --format json --detail"}
	}
	whole, err := io.ReadAll(in)
	if err != nil {
		return &RowError{Place{File: name}, err.Error()}
	}
	if !json.Valid(whole) {
		if text := notFinite.ReplaceAll(whole, []byte("${1}null")); json.Valid(text) {
			whole = text
		}
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return jsonFault(name, "", d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &RowError{Place{File: name}, "a second document follows the first: give each answer in a file"}
	}
	if text[0] == '[' {
		return l.rayList(name, "", "", text)
	}
	type list struct {
		Total   int64
		After   int64 `json:"num_after_truncation"`
		Result  json.RawMessage
		Warning string `json:"partial_failure_warning"`
	}
	var answer struct {
		Result json.RawMessage
		Msg    string
		Data   struct {
			Summary json.RawMessage
			Result  json.RawMessage
		}
	}
	if err := l.Report.decode(text, &answer, Place{File: name}); err != nil {
		return jsonFault(name, "", d, err)
	}
	if string(answer.Result) == "false" {
		return &RowError{Place{File: name, At: "/result"}, fmt.Sprintf("Ray answered with an error: %.200s", answer.Msg)}
	}
	switch {
	case answer.Data.Summary != nil:
		return l.rayList(name, "/data/summary", "nodes", answer.Data.Summary)
	case len(answer.Data.Result) > 0 && answer.Data.Result[0] == '[':
		return l.rayList(name, "/data/result", "", answer.Data.Result)
	case len(answer.Data.Result) > 0 && answer.Data.Result[0] == '{':
		var r list
		at := Place{File: name, At: "/data/result"}
		if err := l.Report.decode(answer.Data.Result, &r, at); err != nil {
			return jsonFault(name, at.At, d, err)
		}
		if r.Result == nil {
			break
		}
		at.At += "/result"
		if r.Warning != "" {
			l.Report.doubt("Ray could not ask all nodes", Place{File: name, At: "/data/result/partial_failure_warning"})
		}
		var items []json.RawMessage
		if json.Unmarshal(r.Result, &items) == nil {
			if there := max(r.Total, r.After); int64(len(items)) < there {
				l.Report.doubt(fmt.Sprintf("a list was cut: has %d of %d entries (ask with &limit=10000)", len(items), there),
					at)
			}
		}
		return l.rayList(name, at.At, "", r.Result)
	case rayKind(text) == "jobs": // of one job
		return l.rayList(name, "", "jobs", slices.Concat([]byte("["), text, []byte("]")))
	}
	return &RowError{Place{File: name}, "is no answer of Ray's dashboard: save /api/jobs/, /nodes?view=summary or " +
		"/api/v0/nodes"}
}

// rayKind tells the kind of an item of a list by its members; "" for none.
func rayKind(item json.RawMessage) string {
	var has map[string]json.RawMessage
	if json.Unmarshal(item, &has) != nil {
		return ""
	}
	for _, k := range []struct{ member, kind string }{{"actor_id", "actors"}, {"bundles", "placement groups"},
		{"placement_group_id", "placement groups"}, {"submission_id", "jobs"}, {"entrypoint", "jobs"},
		{"task_id", "tasks"}, {"raylet", "nodes"}, {"resources_total", "nodes"}, {"node_id", "nodes"},
		{"job_id", "jobs"}, {"status", "jobs"}} {
		if _, ok := has[k.member]; ok {
			return k.kind
		}
	}
	return ""
}

// rayList takes the items of a list; a kind of "" is told by the members of each item.
func (l *rayReader) rayList(name, at, kind string, text json.RawMessage) error {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return &RowError{Place{File: name, At: at}, "is not a list"}
	}
	var fault *RowError
	rows := map[string]int{}
	for i, item := range items {
		place := Place{File: name, At: at + "/" + strconv.Itoa(i)}
		as := cmp.Or(kind, rayKind(item))
		before := l.Report.Unread()
		reason := l.rayItem(as, item, place)
		if reason == "" {
			rows[as]++
			continue
		}
		if l.Report.Unread() == before { // else what could not be read says so
			l.Report.setAside("an entry that "+reason+": left out", place, string(item))
		}
		if fault == nil {
			fault = &RowError{place, reason}
		}
	}
	if len(rows) == 0 && fault != nil {
		return fault
	}
	if len(items) == 0 {
		rows[cmp.Or(kind, "an empty list")] = 0
	}
	for _, as := range sortedStrings(rows) {
		l.Report.Files = append(l.Report.Files, File{Name: name, Kind: as + " of Ray", Rows: rows[as]})
	}
	return nil
}

// rayItem takes one entry of a list, and returns why it could not be read; "" where it was.
func (l *rayReader) rayItem(kind string, item json.RawMessage, place Place) string {
	before := l.Report.Unread()
	read := func(v any) bool { return item[0] == '{' && l.Report.decode(item, v, place) == nil }
	switch kind {
	case "jobs":
		var j rayJob
		if !read(&j) {
			break
		}
		unread := l.Report.Unread() > before
		if j.SubmissionID == "" && j.JobID == "" {
			return "has neither a submission_id nor a job_id"
		}
		l.rayLog.jobs, l.rayLog.places = append(l.rayLog.jobs, j), append(l.rayLog.places, place)
		l.rayLog.unread = append(l.rayLog.unread, unread)
		return ""
	case "nodes":
		var n rayNode
		if read(&n) {
			return l.addRayNode(&n, place)
		}
	case "actors", "placement groups":
		var h rayHolder
		if read(&h) {
			l.addRayHolder(h, place, l.Report.Unread() > before)
			return ""
		}
	case "tasks":
		l.Report.leaveOut("tasks of Ray: what they hold is not told for long enough", place)
		return ""
	}
	return "is no job, node, placement group or actor of Ray (save them with detail=1)"
}

// addRayHolder takes what holds GPUs. An actor in a placement group holds nothing beside the group.
func (l *rayReader) addRayHolder(h rayHolder, place Place, unread bool) {
	submission, supervises := strings.CutPrefix(h.Name, raySupervisor)
	switch {
	case h.ActorID != "" && h.PlacementGroupID != "":
	case h.RequiredResources == nil && h.Bundles == nil && !unread:
		l.Report.doubt("an actor or placement group without its resources (ask with detail=1)", place)
	case supervises:
		l.rayLog.entries[submission] = append(l.rayLog.entries[submission], h)
	default:
		job := cmp.Or(h.CreatorJobID, h.JobID)
		l.rayLog.holders[job] = append(l.rayLog.holders[job], h)
	}
}

// addRayNode adds a node.
func (l *rayReader) addRayNode(v *rayNode, place Place) (fault string) {
	id, has := cmp.Or(v.NodeID, v.Raylet.NodeID), v.ResourcesTotal
	if id == "" {
		return "is a node without an ID"
	}
	if has == nil {
		has = v.Raylet.ResourcesTotal
	}
	if _, twice := l.rayLog.nodes[id]; twice {
		l.Report.leaveOut("a node that is told twice: the first counts", place)
		return ""
	}
	name := cmp.Or(v.NodeName, v.Hostname, v.NodeIP, v.IP, id)
	if l.has(name) {
		name = id
	}
	l.rayLog.nodes[id] = name
	n := l.node(name)
	gpuType := cmp.Or(v.Labels["ray.io/accelerator-type"], v.Raylet.Labels["ray.io/accelerator-type"])
	for _, resource := range slices.Sorted(maps.Keys(has)) {
		kind, t, ok := strings.Cut(resource, ":")
		if ok && gpuType == "" && (kind == "accelerator_type" || kind == "acceleratorType") {
			gpuType = t
		}
	}
	if gpuType == "" && len(v.GPUs) > 0 {
		gpuType = v.GPUs[0].Name
	}
	amount := func(name string, most rayNumber) rayNumber {
		v := has[name]
		if v >= 0 && v <= most {
			return v
		}
		l.Report.setAside("a node's "+name+": it counts as one of which that is not known", place, fmt.Sprint(v))
		return 0
	}
	gpus, cpus, memory := amount("GPU", maxNodeGPUs), amount("CPU", 1e9), amount("memory", 1e18)
	if gpus >= 1 {
		if gpuType == "" {
			l.Report.assume("a node with GPUs and without their type: they count as the type \"gpu\"", place)
		}
		n.addGPUs(cmp.Or(gpuType, untyped), int(gpus))
	}
	if part := gpus - rayNumber(int(gpus)); part > 0 {
		l.Report.assume("a node with a part of a GPU: counts without the part", place)
	}
	n.CPUMilli, n.MemoryMiB = int64(cpus*1000), int64(memory)>>20
	from := max(l.rayTime(v.StartTimeMs, place), l.rayTime(v.Raylet.StartTimeMs, place))
	until := l.rayTime(v.EndTimeMs, place)
	if from > 1 {
		n.addDown(1, from)
	}
	if state := strings.ToUpper(cmp.Or(v.State, v.Raylet.State)); state != "" && state != "ALIVE" {
		n.Out = true
		if until > 0 {
			n.addDown(until, hare.Forever)
		}
	}
	return ""
}

// rayTime returns a time in microseconds; 0 for one that cannot be, which is set aside.
func (l *rayReader) rayTime(m rayMoment, place Place) int64 {
	if c := m.clock; c.Year() > 1970 {
		at := time.Date(c.Year(), c.Month(), c.Day(), c.Hour(), c.Minute(), c.Second(), c.Nanosecond(), l.rayLog.zone)
		return us(at)
	}
	if !(m.ms >= 0 && m.ms*1000 <= maxTimeUs) {
		l.Report.setAside("a time that is not between 1970 and 2199: counts as not known", place,
			strconv.FormatFloat(float64(m.ms), 'g', -1, 64)+" ms")
		return 0
	}
	return int64(math.Round(float64(m.ms) * 1000))
}

var rayStates = map[string]State{"PENDING": Pending, "RUNNING": Running, "STOPPED": Cancelled, "SUCCEEDED": Completed,
	"FAILED": Failed}

// finishRay makes jobs of what the texts told.
func (l *rayReader) finishRay() error {
	r := l.rayLog
	defer func() { l.rayLog = nil }()
	for i := range r.jobs {
		if err := l.addRayJob(r, &r.jobs[i], r.places[i], r.unread[i]); err != nil {
			return &RowError{r.places[i], err.Error()}
		}
	}
	l.keepBounds()
	return nil
}

// addRayJob adds a job with the GPUs that its entrypoint, its placement groups and its actors hold, or that its
// metadata name. An error means that there are more jobs than may be.
func (l *rayReader) addRayJob(r *rayLog, v *rayJob, place Place, unread bool) error {
	meta := func(name string) string { return string(v.Metadata[name]) }
	aside := func(what, value string) { l.Report.setAside(what, place, value) }
	j := Job{ID: cmp.Or(v.SubmissionID, v.JobID), Place: place, Name: cmp.Or(meta(rayName), v.Entrypoint),
		User: meta(rayUser), PerTask: 1}
	j.StartUs, j.EndUs = l.rayTime(v.StartTime, place), l.rayTime(v.EndTime, place)
	var ok bool
	if j.State, ok = rayStates[strings.ToUpper(v.Status)]; !ok {
		// A state of another version: what the times tell counts.
		if j.State = Unknown; j.EndUs == 0 {
			j.State = Running
		}
		if v.Status != "" || !unread {
			aside("a job's status: the job counts as its times tell", v.Status)
		}
	}
	j.SubmitUs = j.StartUs
	submitted := false
	if text := meta(raySubmitted); text != "" {
		at, err := parseTime(text, time.UTC)
		if submitted = err == nil; submitted {
			j.SubmitUs = at
		} else {
			aside("metadata."+raySubmitted+": the job counts as submitted at its start", text)
		}
	}
	if !submitted {
		l.Report.assume("Ray tells one time for submission and start: waiting in Ray counts as work", place)
	}
	j.EligibleUs = j.SubmitUs
	switch j.State {
	case Pending:
		j.StartUs, j.EndUs = 0, 0
	case Running:
		j.EndUs = 0
	}
	l.rayHolds(r, v, &j)
	if text := meta(rayGPUs); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !(n >= 0 && n <= hare.MaxGPUs):
			aside("metadata."+rayGPUs+": the job counts with the GPUs that it held", text)
		case int64(math.Ceil(n)) != j.GPUs:
			j.GPUs, j.PerTask, j.On = int64(math.Ceil(n)), 1, nil
			if n != math.Ceil(n) {
				l.Report.assume(partNote, place)
			}
		}
	}
	if text := meta(rayCPUs); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= 0 && n <= hare.MaxPerTask/1000) {
			aside("metadata."+rayCPUs+": the job counts as one without them", text)
		} else {
			j.CPUMilli = int64(math.Round(n * 1000))
		}
	}
	if text := meta(rayMemory); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > hare.MaxPerTask {
			aside("metadata."+rayMemory+": the job counts as one without them", text)
		} else {
			j.MemoryMiB = n
		}
	}
	if node := r.nodes[v.DriverNodeID]; len(j.On) == 0 && j.GPUs > 0 && node != "" && j.State != Pending {
		if n := l.node(node); len(n.GPUs) == 1 && int64(n.GPUs[0].Count) >= j.GPUs {
			j.On = []Held{{Node: node, GPUs: j.GPUs}}
			l.Report.assume("had its GPUs on the node of its driver", place)
		}
	}
	j.Nodes = int64(len(j.On))
	if text := meta(raySeconds); text != "" {
		var err error
		if j.Seconds, err = parseSpeeds(commentPrefix + strings.TrimPrefix(text, commentPrefix)); err != nil {
			aside("metadata."+raySeconds+": the job counts as one without times by GPU type", text)
		}
	}
	return l.addJob(&j)
}

// rayHolds counts the GPUs of the entrypoint, the placement groups and the actors of a job, those that are there now
// if the job runs. Parts of GPUs on a node add up before they are rounded. An actor or a bundle has its GPUs on one
// node: where all have the same whole number of GPUs, each is a task.
func (l *rayReader) rayHolds(r *rayLog, v *rayJob, j *Job) {
	milli := map[string]float64{}
	waits := 0.0 // what has no node yet
	each, alike := 0.0, true
	task := func(n float64) { alike, each = alike && (each == 0 || each == n) && n == math.Floor(n), n }
	hold := func(nodeID string, resources map[string]rayNumber) {
		n := float64(resources["GPU"])
		switch node := r.nodes[nodeID]; {
		case !(n > 0 && n <= hare.MaxGPUs):
			return
		case node != "":
			milli[node] += n * 1000
		case nodeID == "":
			waits += n * 1000
		default:
			milli[nodeID] += n * 1000
			l.Report.assume("had GPUs on a node that the lists of nodes do not have", j.Place)
		}
		task(n)
	}
	var holders []rayHolder
	if v.SubmissionID != "" {
		holders = append(holders, r.entries[v.SubmissionID]...)
	}
	entry := len(holders) > 0
	if v.JobID != "" {
		holders = append(holders, r.holders[v.JobID]...)
	}
	for _, h := range holders {
		if j.State == Running && (h.State == "REMOVED" || h.State == "DEAD") {
			continue
		}
		hold(h.NodeID, h.RequiredResources)
		for _, b := range h.Bundles {
			hold(b.NodeID, b.UnitResources)
		}
	}
	if n := float64(v.EntrypointGPUs); !entry && n > 0 && n <= hare.MaxGPUs {
		task(n)
		if node := r.nodes[v.DriverNodeID]; node != "" && j.State != Pending {
			milli[node] += n * 1000
		} else {
			waits += n * 1000
		}
	}
	total := 0.0
	for _, node := range slices.Sorted(maps.Keys(milli)) {
		n := milli[node]
		if has := l.gpusOf(node); has > 0 && n > float64(has)*1000 {
			n, alike = float64(has)*1000, false
			l.Report.assume("had more GPUs on a node, one after another, than the node has: counts with those of the node",
				j.Place)
		}
		gpus := int64(math.Ceil(n/1000 - 1e-6))
		if total += n; float64(gpus)*1000-n > 1e-3 {
			l.Report.assume(partNote, j.Place)
		}
		j.On = append(j.On, Held{Node: node, GPUs: min(gpus, hare.MaxGPUs)})
		j.GPUs += gpus
	}
	if len(milli) == 0 && waits > 0 {
		if j.GPUs = int64(math.Ceil(waits/1000 - 1e-6)); float64(j.GPUs)*1000-waits > 1e-3 {
			l.Report.assume(partNote, j.Place)
		}
	}
	if alike && each > 1 {
		j.PerTask = int64(each)
	}
	j.GPUs = min(j.GPUs, hare.MaxGPUs)
	if total < 1000-1e-3 && len(j.On) == 1 {
		j.PartMicro = int64(math.Ceil(total-1e-6)) * 1000
	}
}

// gpusOf counts the GPUs of a node; 0 where they are not known.
func (l *rayReader) gpusOf(node string) (gpus int64) {
	if l.has(node) {
		for _, g := range l.node(node).GPUs {
			gpus += int64(g.Count)
		}
	}
	return gpus
}
