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
	Metadata     map[string]string
	StartTime    float64 `json:"start_time"`
	EndTime      float64 `json:"end_time"`
	DriverNodeID string  `json:"driver_node_id"`
	// It is in what a job was submitted with, which some versions return too.
	EntrypointGPUs float64 `json:"entrypoint_num_gpus"`
}

// rayNode holds the members of a node of /nodes?view=summary and of /api/v0/nodes.
type rayNode struct {
	Hostname, IP string
	GPUs         []struct{ Name string }
	Raylet       struct {
		NodeID         string
		State          string
		ResourcesTotal map[string]float64
		Labels         map[string]string
		StartTimeMs    rayNumber
	}
	NodeID         string             `json:"node_id"`
	NodeIP         string             `json:"node_ip"`
	NodeName       string             `json:"node_name"`
	State          string             `json:"state"`
	ResourcesTotal map[string]float64 `json:"resources_total"`
	Labels         map[string]string  `json:"labels"`
	StartTimeMs    float64            `json:"start_time_ms"`
	EndTimeMs      float64            `json:"end_time_ms"`
}

// rayNumber is a number that Ray's summary of nodes writes as a text.
type rayNumber float64

// UnmarshalJSON reads a number, or a text that is one.
func (n *rayNumber) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil {
		return fmt.Errorf("%.40q is no number", text)
	}
	*n = rayNumber(v)
	return nil
}

// rayHolder holds the members of a placement group or of an actor of the state API.
type rayHolder struct {
	State            string
	CreatorJobID     string `json:"creator_job_id"` // of a placement group
	PlacementGroupID string `json:"placement_group_id"`
	Bundles          []struct {
		NodeID        string             `json:"node_id"`
		UnitResources map[string]float64 `json:"unit_resources"`
	}
	ActorID           string             `json:"actor_id"` // of an actor
	JobID             string             `json:"job_id"`
	NodeID            string             `json:"node_id"`
	RequiredResources map[string]float64 `json:"required_resources"`
}

// rayLog gathers jobs and what they hold until all texts are read.
type rayLog struct {
	jobs    []rayJob
	places  []Place
	nodes   map[string]string // name by ID
	holders map[string][]rayHolder
}

// readRay reads an answer of Ray's dashboard: the list of jobs, the nodes of /nodes?view=summary, or the
// nodes, placement groups or actors of the state API.
func (l *Log) readRay(name string, in *bufio.Reader) error {
	if l.ray == nil {
		l.ray = &rayLog{nodes: map[string]string{}, holders: map[string][]rayHolder{}}
	}
	d := json.NewDecoder(in)
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return jsonFault(name, "", d, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &RowError{Place{File: name}, "a second document follows the first: give each answer in a file"}
	}
	if text[0] == '[' {
		return l.rayList(name, "", "jobs", text)
	}
	var answer struct {
		Result json.RawMessage
		Msg    string
		Data   struct {
			Summary json.RawMessage
			Result  struct {
				Total, NumAfterTruncation int64
				Result                    json.RawMessage
				PartialFailureWarning     string `json:"partial_failure_warning"`
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return jsonFault(name, "", d, err)
	}
	if string(answer.Result) == "false" {
		return &RowError{Place{File: name, At: "/result"}, fmt.Sprintf("Ray answered with an error: %.200s", answer.Msg)}
	}
	switch r := &answer.Data.Result; {
	case answer.Data.Summary != nil:
		return l.rayList(name, "/data/summary", "nodes", answer.Data.Summary)
	case r.Result != nil:
		if r.PartialFailureWarning != "" {
			l.Report.doubt("Ray could not ask all nodes", Place{File: name, At: "/data/result/partial_failure_warning"})
		}
		return l.rayList(name, "/data/result/result", "", r.Result)
	}
	return &RowError{Place{File: name}, "is no answer of Ray's dashboard: save /api/jobs/, /nodes?view=summary or " +
		"/api/v0/nodes"}
}

// rayList takes the items of a list; a kind of "" is told by the first item.
func (l *Log) rayList(name, at, kind string, text json.RawMessage) error {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return &RowError{Place{File: name, At: at}, "is not a list"}
	}
	f := File{Name: name, Rows: len(items)}
	for i, item := range items {
		place := Place{File: name, At: at + "/" + strconv.Itoa(i)}
		if kind == "" {
			switch {
			case bytes.Contains(item, []byte(`"actor_id"`)):
				kind = "actors"
			case bytes.Contains(item, []byte(`"bundles"`)):
				kind = "placement groups"
			case bytes.Contains(item, []byte(`"resources_total"`)):
				kind = "nodes"
			default:
				return &RowError{place, "is no node, placement group or actor: save them with detail=1"}
			}
		}
		var err error
		switch kind {
		case "jobs":
			var j rayJob
			if err = json.Unmarshal(item, &j); err == nil {
				l.ray.jobs, l.ray.places = append(l.ray.jobs, j), append(l.ray.places, place)
			}
		case "nodes":
			var n rayNode
			if err = json.Unmarshal(item, &n); err == nil {
				err = l.addRayNode(&n, place)
			}
		default:
			var h rayHolder
			if err = json.Unmarshal(item, &h); err == nil {
				job := cmp.Or(h.CreatorJobID, h.JobID)
				if h.ActorID == "" || h.PlacementGroupID == "" { // an actor in a group holds nothing beside the group
					l.ray.holders[job] = append(l.ray.holders[job], h)
				}
			}
		}
		if err != nil {
			return &RowError{place, err.Error()}
		}
	}
	f.Kind = cmp.Or(kind, "an empty list") + " of Ray"
	l.Report.Files = append(l.Report.Files, f)
	return nil
}

// addRayNode adds a node.
func (l *Log) addRayNode(v *rayNode, place Place) error {
	id, has := cmp.Or(v.NodeID, v.Raylet.NodeID), v.ResourcesTotal
	if id == "" {
		return errors.New("the node has no ID")
	}
	if has == nil {
		has = v.Raylet.ResourcesTotal
	}
	if _, twice := l.ray.nodes[id]; twice {
		l.Report.leaveOut("a node that is told twice: the first counts", place)
		return nil
	}
	name := cmp.Or(v.NodeName, v.Hostname, v.NodeIP, v.IP, id)
	if l.has(name) {
		name = id
	}
	l.ray.nodes[id] = name
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
	gpus := has["GPU"]
	if !(gpus >= 0 && gpus <= hare.MaxGPUs && has["CPU"] >= 0 && has["CPU"] < 1e9 && has["memory"] >= 0 &&
		has["memory"] < 1e18) {
		return fmt.Errorf("a node has %v GPUs, %v CPUs and %v bytes of memory", gpus, has["CPU"], has["memory"])
	}
	if gpus >= 1 {
		if gpuType == "" {
			l.Report.assume("a node with GPUs and without their type: they count as the type \"gpu\"", place)
		}
		n.addGPUs(cmp.Or(gpuType, untyped), int(gpus))
	}
	n.CPUMilli, n.MemoryMiB = int64(has["CPU"]*1000), int64(has["memory"])>>20
	from, err := milliseconds(max(v.StartTimeMs, float64(v.Raylet.StartTimeMs)))
	if err != nil {
		return err
	}
	until, err := milliseconds(v.EndTimeMs)
	if err != nil {
		return err
	}
	if from > 1 {
		n.addDown(1, from)
	}
	if state := strings.ToUpper(cmp.Or(v.State, v.Raylet.State)); state != "" && state != "ALIVE" {
		n.Out = true
		if until > 0 {
			n.addDown(until, hare.Forever)
		}
	}
	return nil
}

// milliseconds reads a time of Ray.
func milliseconds(ms float64) (int64, error) {
	if !(ms >= 0 && ms*1000 <= maxTimeUs) {
		return 0, fmt.Errorf("the time %v ms is not between 1970 and 2199", ms)
	}
	return int64(math.Round(ms * 1000)), nil
}

var rayStates = map[string]State{"PENDING": Pending, "RUNNING": Running, "STOPPED": Cancelled, "SUCCEEDED": Completed,
	"FAILED": Failed}

// finishRay makes jobs of what the texts told.
func (l *Log) finishRay() error {
	r := l.ray
	l.ray = nil
	for i := range r.jobs {
		v := &r.jobs[i]
		if err := l.addRayJob(r, v, r.places[i]); err != nil {
			return &RowError{r.places[i], fmt.Sprintf("job %.60q: %v", cmp.Or(v.SubmissionID, v.JobID), err)}
		}
	}
	return nil
}

// addRayJob adds a job with the GPUs that its placement groups and actors hold, or that its metadata name.
func (l *Log) addRayJob(r *rayLog, v *rayJob, place Place) error {
	j := Job{ID: cmp.Or(v.SubmissionID, v.JobID), Place: place, Name: cmp.Or(v.Metadata[rayName], v.Entrypoint),
		User: v.Metadata[rayUser], PerTask: 1}
	if j.ID == "" {
		return errors.New("has neither a submission_id nor a job_id")
	}
	var ok bool
	if j.State, ok = rayStates[v.Status]; !ok {
		return fmt.Errorf("the status %.40q is not one that Ray has", v.Status)
	}
	var err error
	if j.StartUs, err = milliseconds(v.StartTime); err != nil {
		return err
	}
	if j.EndUs, err = milliseconds(v.EndTime); err != nil {
		return err
	}
	j.SubmitUs = j.StartUs
	if text := v.Metadata[raySubmitted]; text != "" {
		if j.SubmitUs, err = parseTime(text, time.UTC); err != nil {
			return fmt.Errorf("metadata.%s: %w", raySubmitted, err)
		}
	} else {
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
	if text := v.Metadata[rayGPUs]; text != "" {
		n, err := parseCount(text)
		if err != nil || n > hare.MaxGPUs {
			return fmt.Errorf("metadata.%s: %.40q is not a number of GPUs up to %d", rayGPUs, text, hare.MaxGPUs)
		}
		if n != j.GPUs {
			j.GPUs, j.On = n, nil
		}
	} else if j.GPUs == 0 && v.EntrypointGPUs > 0 && v.EntrypointGPUs <= hare.MaxGPUs {
		j.GPUs = int64(math.Ceil(v.EntrypointGPUs))
	}
	if text := v.Metadata[rayCPUs]; text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= 0 && n <= hare.MaxPerTask/1000) {
			return fmt.Errorf("metadata.%s: %.40q is not a number of CPUs", rayCPUs, text)
		}
		j.CPUMilli = int64(math.Round(n * 1000))
	}
	if text := v.Metadata[rayMemory]; text != "" {
		if j.MemoryMiB, err = strconv.ParseInt(text, 10, 64); err != nil || j.MemoryMiB < 0 ||
			j.MemoryMiB > hare.MaxPerTask {
			return fmt.Errorf("metadata.%s: %.40q is not a number of MiB", rayMemory, text)
		}
	}
	if node := r.nodes[v.DriverNodeID]; len(j.On) == 0 && j.GPUs > 0 && node != "" && j.State != Pending {
		if n := l.node(node); len(n.GPUs) == 1 && int64(n.GPUs[0].Count) >= j.GPUs {
			j.On = []Held{{Node: node, GPUs: j.GPUs}}
			l.Report.assume("had its GPUs on the node of its driver", place)
		}
	}
	j.Nodes = int64(len(j.On))
	if text := v.Metadata[raySeconds]; text != "" {
		if j.Seconds, err = parseSpeeds(commentPrefix + strings.TrimPrefix(text, commentPrefix)); err != nil {
			l.Report.leaveOut(fmt.Sprintf("speeds in metadata that cannot be read: %v", err), place)
		}
	}
	l.Jobs = append(l.Jobs, j)
	return nil
}

// rayHolds counts the GPUs of the placement groups and actors of a job, those that are there now if the
// job runs. Parts of a GPU count as a whole one.
func (l *Log) rayHolds(r *rayLog, v *rayJob, j *Job) {
	gpus := map[string]int64{}
	hold := func(nodeID string, resources map[string]float64) {
		n := resources["GPU"]
		node := r.nodes[nodeID]
		if !(n > 0 && n <= hare.MaxGPUs) || node == "" {
			return
		}
		if n != math.Ceil(n) {
			l.Report.assume("a part of a GPU counts as a whole one", j.Place)
		}
		gpus[node] += int64(math.Ceil(n))
	}
	if v.JobID == "" {
		return
	}
	for _, h := range r.holders[v.JobID] {
		if j.State == Running && (h.State == "REMOVED" || h.State == "DEAD") {
			continue
		}
		hold(h.NodeID, h.RequiredResources)
		for _, b := range h.Bundles {
			hold(b.NodeID, b.UnitResources)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(gpus)) {
		j.On = append(j.On, Held{Node: node, GPUs: gpus[node]})
		j.GPUs += gpus[node]
	}
}
