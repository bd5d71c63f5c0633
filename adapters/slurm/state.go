package slurm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// State is what Slurm says of its cluster at one time.
type State struct {
	NowUs int64 // since 1970
	Nodes []Node
	// Jobs are the jobs with GPUs that wait or run or have ended lately, by submission.
	Jobs []Job
	// Records are the pending entries of Slurm's queue by ID; an array that waits is one entry.
	Records map[int64]*Record
	// CPUs and Memory say that Slurm gives a job no node that lacks them.
	CPUs, Memory bool
	// Unread counts the values that could not be read, and FirstUnread is one of them. Each costs its own job or
	// node alone.
	Unread      int64
	FirstUnread string
}

// Node is a node in Slurm.
type Node struct {
	history.Node
	// Reserved says that the node is kept for the jobs of a reservation.
	Reserved bool
	gres     map[string]int64 // by gresCounts
}

// Job is a job, or one task of an array.
type Job struct {
	history.Job
	// Entry is the number by which scontrol knows the job, and by which Records finds it.
	Entry int64
	// Ready says that a waiting job waits for GPUs, or until others have started.
	Ready bool
}

// Record is a pending entry of Slurm's queue, with what the helper may change.
type Record struct {
	ID                           int64
	SubmitS                      int64
	Comment, AdminComment        string
	Partition, QOS, User, Reason string
	Features, Prefer             string
	Nice                         int64
	// Priority and Site are the job's priority and the site factor in it, as sprio tells
	// them. Known says whether sprio did.
	Priority, Site int64
	Known          bool
	asked          asked
}

// number is a number of Slurm's JSON: plain, null, or an object, by version.
type number int64

// UnmarshalJSON reads any form of a number. What is not a number counts as 0: package history reports it.
func (n *number) UnmarshalJSON(text []byte) error {
	*n = 0
	text = bytes.TrimSpace(text)
	if len(text) > 0 && text[0] == '{' {
		var v struct {
			Set, Infinite bool
			Number        float64
		}
		if json.Unmarshal(text, &v) == nil && v.Set && !v.Infinite {
			*n = number(v.Number)
		}
		return nil
	}
	if x, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64); err == nil {
		*n = number(x)
	}
	return nil
}

// queueDocument holds the members of squeue --json that package history does not read.
type queueDocument struct {
	Jobs []struct {
		ID           number          `json:"job_id"`
		ArrayJob     number          `json:"array_job_id"`
		Comment      string          `json:"comment"`
		AdminComment string          `json:"admin_comment"`
		Partition    string          `json:"partition"`
		QOS          string          `json:"qos"`
		User         string          `json:"user_name"`
		Reason       string          `json:"state_reason"`
		Features     string          `json:"features"`
		Prefer       string          `json:"prefer"`
		Nice         number          `json:"nice"`
		Priority     number          `json:"priority"`
		Submit       number          `json:"submit_time"`
		State        json.RawMessage `json:"job_state"`
		PerNode      string          `json:"tres_per_node"`
		PerJob       string          `json:"tres_per_job"`
		PerTask      string          `json:"tres_per_task"`
		PerSocket    string          `json:"tres_per_socket"`
	} `json:"jobs"`
}

// readyReasons are the reasons of jobs that wait for GPUs, or until others have started, as Slurm
// writes them.
var readyReasons = []string{"", "None", "Priority", "Resources"}

// Read asks Slurm for its nodes, its queue and the priorities: three commands, or four where the
// queue is needed as JSON, one request to slurmctld each.
func Read(ctx context.Context, commands Commands, now func() time.Time) (*State, error) {
	nodes, err := commands.Run(ctx, nil, "scontrol", "-o", "show", "node")
	if err != nil {
		return nil, err
	}
	queue, err := readQueue(ctx, commands, nodes)
	if err != nil {
		return nil, err
	}
	priorities, err := commands.Run(ctx, nil, "sprio", "-h", "-o", "%i|%Y|%S")
	if err != nil {
		return nil, err
	}
	return parse(nodes, queue, priorities, now().UnixMicro())
}

// parse makes a state of what the three commands of Read write.
func parse(nodes, queue, priorities []byte, nowUs int64) (*State, error) {
	log, err := history.Read("slurm", []trace.Source{{Name: "scontrol show node", R: bytes.NewReader(nodes)},
		{Name: "squeue --json", R: bytes.NewReader(queue)}}, history.ReadConfig{})
	if err != nil {
		return nil, fmt.Errorf("slurm: %w", err)
	}
	var document queueDocument
	// A member of another kind leaves its field empty.
	err, wrong := json.Unmarshal(queue, &document), new(json.UnmarshalTypeError)
	if err != nil && !errors.As(err, &wrong) {
		return nil, fmt.Errorf("slurm: squeue --json: %w", err)
	}
	s := &State{NowUs: nowUs, Records: map[int64]*Record{}, Unread: log.Report.Unread()}
	if s.Unread > 0 {
		s.FirstUnread = log.Report.SetAside[0].First
	}
	for i := range document.Jobs {
		d := &document.Jobs[i]
		if !strings.Contains(string(d.State), "PENDING") {
			continue
		}
		s.Records[int64(d.ID)] = &Record{ID: int64(d.ID), SubmitS: int64(d.Submit), Comment: d.Comment,
			AdminComment: d.AdminComment, Partition: d.Partition, QOS: d.QOS, User: d.User, Reason: d.Reason,
			Features: d.Features, Prefer: d.Prefer, Nice: int64(d.Nice), Priority: int64(d.Priority),
			asked: asked{perNode: d.PerNode, perJob: d.PerJob, perTask: d.PerTask, perSocket: d.PerSocket}}
	}
	s.readPriorities(priorities)
	split := splitTasks(&document, s.Records)
	lines := nodeLines(nodes)
	for _, n := range log.Nodes {
		l := lines[n.Name]
		s.Nodes = append(s.Nodes, Node{Node: n, gres: gresCounts(l.gres), Reserved: strings.Contains(l.state, "RESERVED")})
	}
	for i := range log.Jobs {
		j := Job{Job: log.Jobs[i]}
		if j.GPUs == 0 {
			continue
		}
		if j.State == history.Unknown { // a job that is ending: how it has ended is told in a later look
			j.State, j.EndUs = history.Running, 0
		}
		text, _, _ := strings.Cut(j.ID, "#")
		base, _, array := strings.Cut(text, "_")
		j.Entry, err = strconv.ParseInt(strings.ReplaceAll(base, "+", ""), 10, 64)
		if err != nil || strings.Contains(base, "+") {
			continue // components of heterogeneous jobs start together, which no order tells
		}
		if j.State == history.Pending {
			record := s.Records[j.Entry]
			if record == nil && array { // a task that was split from its array has an entry of its own
				if record = split[splitKey{j.Entry, j.SubmitUs}]; record != nil {
					j.Entry = record.ID
				}
			}
			j.Ready = record != nil && record.Known && slices.Contains(readyReasons, record.Reason)
		}
		s.Jobs = append(s.Jobs, j)
	}
	s.nameTypes()
	slices.SortStableFunc(s.Jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.SubmitUs, b.SubmitUs), cmp.Compare(a.Entry, b.Entry))
	})
	return s, nil
}

// splitKey names the tasks of an array that were submitted at one time.
type splitKey struct{ array, submitUs int64 }

// splitTasks finds for tasks of arrays whose own entry is gone the first entry that was split from the array.
func splitTasks(document *queueDocument, records map[int64]*Record) map[splitKey]*Record {
	out := map[splitKey]*Record{}
	for i := range document.Jobs {
		d := &document.Jobs[i]
		key := splitKey{int64(d.ArrayJob), int64(d.Submit) * 1e6}
		if r := records[int64(d.ID)]; d.ArrayJob > 0 && r != nil && out[key] == nil {
			out[key] = r
		}
	}
	return out
}

// readPriorities takes the lines of sprio: ID, priority, site factor. Another line is passed over: the job
// counts as one without a priority.
func (s *State) readPriorities(text []byte) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		var values [3]int64
		fields := strings.Split(line, "|")
		good := len(fields) == len(values)
		for i := 0; good && i < len(values); i++ {
			v, err := strconv.ParseFloat(strings.TrimSpace(fields[i]), 64)
			values[i], good = int64(v), err == nil
		}
		if !good {
			s.Unread++
			s.FirstUnread = cmp.Or(s.FirstUnread, fmt.Sprintf("sprio wrote %.60q in place of ID|PRIORITY|SITE", line))
			continue
		}
		if r := s.Records[values[0]]; r != nil {
			r.Priority, r.Site, r.Known = values[1], values[2], true
		}
	}
}

// nodeLine is what a line of scontrol -o show node says that package history does not read.
type nodeLine struct{ state, gres string }

// nodeLines reads what scontrol -o show node writes, by node.
func nodeLines(text []byte) map[string]nodeLine {
	out := map[string]nodeLine{}
	for line := range strings.Lines(string(text)) {
		var name string
		var l nodeLine
		for _, word := range strings.Fields(line) {
			key, v, _ := strings.Cut(word, "=")
			if key == "Comment" || key == "Extra" || key == "Reason" {
				break // what people write, to the end of the line
			}
			switch key {
			case "NodeName":
				name = v
			case "State":
				l.state = strings.ToUpper(v)
			case "Gres":
				l.gres = v
			}
		}
		out[name] = l
	}
	return out
}

// typesOf returns the GPU types of the nodes in service, sorted.
func (s *State) typesOf() (types []string) {
	for i := range s.Nodes {
		if s.Nodes[i].Out {
			continue
		}
		for _, g := range s.Nodes[i].GPUs {
			types = append(types, g.Type)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// nameTypes gives the GPUs that running jobs have the type of their node, where Slurm does not say it.
func (s *State) nameTypes() {
	types := map[string]string{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; len(n.GPUs) == 1 {
			types[n.Name] = n.GPUs[0].Type
		}
	}
	for i := range s.Jobs {
		for k := range s.Jobs[i].On {
			if h := &s.Jobs[i].On[k]; h.Type == "" {
				h.Type = types[h.Node]
			}
		}
	}
}

// asked is what a waiting job asks of each node or in all, in Slurm's form, such as gres/gpu:v100:2.
type asked struct{ perNode, perJob, perTask, perSocket string }

// ofNode are the counts that each node of the job must have.
func (a *asked) ofNode() []map[string]int64 {
	return []map[string]int64{gresCounts(a.perNode), gresCounts(a.perTask), gresCounts(a.perSocket)}
}

// gresCounts counts generic resources by name, such as ssd and gpu, and by name and type, such as gpu:v100, in a
// text such as gpu:v100:2(S:0-1),ssd:1. Trackable resources of other kinds, such as cpu=2, are left out.
func gresCounts(text string) map[string]int64 {
	counts := map[string]int64{}
	depth := 0
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth == 0
	}) {
		part, _, _ = strings.Cut(part, "(")
		part = strings.TrimPrefix(strings.TrimPrefix(part, "gres/"), "gres:")
		fields := strings.Split(strings.ReplaceAll(part, "=", ":"), ":")
		n, last := int64(1), len(fields)-1
		if v, err := strconv.ParseInt(fields[last], 10, 64); err == nil && last > 0 {
			n, fields = v, fields[:last]
		}
		if slices.Contains([]string{"", "(null)", "N/A", "cpu", "mem", "node", "billing", "none"}, fields[0]) {
			continue
		}
		counts[fields[0]] += n
		if len(fields) > 1 {
			counts[strings.Join(fields[:2], ":")] += n
		}
	}
	return counts
}

func sortedKeys(m map[int64]*Record) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
