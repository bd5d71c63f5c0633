package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// fakeSlurm is a Slurm with two nodes that pretends: it starts jobs by priority, as far as GPUs and
// features allow, when the test says so.
type fakeSlurm struct {
	nodes    []*fakeNode
	jobs     []*fakeJob
	config   string
	fail     map[string]error // by command
	dieAfter int              // scontrol stops after so many updates; 0 means never
	updates  int
	nowS     int64
}

type fakeNode struct {
	name, gpuType string
	gpus          int
	drained       bool
	feature       string // empty means the GPU type
}

func (n *fakeNode) features() string { return cmp.Or(n.feature, n.gpuType) }

type fakeJob struct {
	ID           int64    `json:"job_id"`
	Name         string   `json:"name"`
	User         string   `json:"user_name"`
	Partition    string   `json:"partition"`
	Comment      string   `json:"comment"`
	Features     string   `json:"features"`
	Prefer       string   `json:"prefer"`
	State        string   `json:"job_state"`
	Reason       string   `json:"state_reason"`
	TresPerNode  string   `json:"tres_per_node"`
	Nodes        string   `json:"nodes"`
	Submit       int64    `json:"submit_time"`
	Start        int64    `json:"start_time"`
	End          int64    `json:"end_time"`
	Limit        int64    `json:"time_limit"`
	NodeCount    int64    `json:"node_count"`
	Nice         int64    `json:"nice"`
	GresDetail   []string `json:"gres_detail"`
	Excluded     string   `json:"excluded_nodes"`
	TresAlloc    string   `json:"tres_alloc_str"`
	TresPerJob   string   `json:"tres_per_job"`
	TresPerTask  string   `json:"tres_per_task"`
	TresPerSock  string   `json:"tres_per_socket"`
	ArrayTasks   string   `json:"array_task_id,omitempty"` // of a waiting array, as [0-9]
	site, starts int64
}

var errKilled = errors.New("killed")

func newFakeSlurm() *fakeSlurm {
	return &fakeSlurm{jobs: []*fakeJob{}, nodes: []*fakeNode{{name: "v100-0", gpuType: "v100", gpus: 2},
		{name: "t4-0", gpuType: "t4", gpus: 2}},
		config: "PriorityType = priority/multifactor\nPrioritySiteFactorPlugin = (null)\n" +
			"SelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY\n", fail: map[string]error{},
		nowS: 1_800_000_000}
}

func (f *fakeSlurm) submit(seconds int) *fakeJob {
	j := &fakeJob{ID: int64(len(f.jobs) + 1), Name: "job", User: "ann", Partition: "gpu", State: "PENDING",
		Reason: "Priority", TresPerNode: "gres:gpu:1", Submit: f.nowS, Limit: 60, NodeCount: 1,
		Comment: fmt.Sprintf(`hare={"v100":%d,"t4":%d}`, seconds, 2*seconds)}
	f.jobs = append(f.jobs, j)
	return j
}

func (f *fakeSlurm) Run(_ context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	if err := f.fail[name]; err != nil && (name != "scontrol" || len(args) == 0) {
		return nil, err
	}
	if name == "env" {
		if err := f.fail["squeue"]; err != nil {
			return nil, err
		}
		return f.columns(args[len(args)-1]), nil
	}
	switch name + " " + strings.Join(args, " ") {
	case "scontrol -o show node":
		var b strings.Builder
		for _, n := range f.nodes {
			state := "IDLE"
			if n.drained {
				state = "IDLE+DRAIN"
			}
			fmt.Fprintf(&b, "NodeName=%s CPUTot=8 AvailableFeatures=%s Gres=gpu:%s:%d State=%s Partitions=gpu\n",
				n.name, n.features(), n.gpuType, n.gpus, state)
		}
		return []byte(b.String()), nil
	case "squeue -h -a -t PENDING -o %A|%x":
		var b strings.Builder
		for _, j := range f.jobs {
			if j.State == "PENDING" {
				fmt.Fprintf(&b, "%d|%s\n", j.ID, j.Excluded)
			}
		}
		return []byte(b.String()), nil
	case "squeue --json":
		return json.Marshal(map[string]any{"jobs": f.jobs})
	case "sprio -h -o %i|%Y|%S":
		var b strings.Builder
		for _, j := range f.jobs {
			if j.State == "PENDING" && j.Reason != "BadConstraints" { // whose priority is 0
				fmt.Fprintf(&b, "%d|%d|%d\n", j.ID, 100+j.site-j.Nice, j.site)
			}
		}
		return []byte(b.String()), nil
	case "scontrol show config":
		return []byte(f.config), nil
	case "scontrol ":
		return nil, f.update(string(stdin))
	}
	return nil, fmt.Errorf("%s %v is not pretended", name, args)
}

// columns writes the queue as squeue -O does.
func (f *fakeSlurm) columns(format string) []byte {
	var b strings.Builder
	for _, j := range f.jobs {
		text, err := json.Marshal(j)
		var members map[string]any
		if err == nil {
			err = json.Unmarshal(text, &members)
		}
		if err != nil {
			panic(err)
		}
		members["array_job_id"], members["time_limit"] = members["job_id"], fmt.Sprintf("%d:00", j.Limit)
		for i, spec := range strings.Split(format, ",") {
			_, mark, _ := strings.Cut(spec, ":")
			value := "N/A"
			switch v := members[cmp.Or(queueColumns[i].member, "job_id")].(type) {
			case float64:
				value = strconv.FormatInt(int64(v), 10)
			case string:
				value = cmp.Or(v, "(null)")
			}
			b.WriteString(value + mark)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// update takes lines such as update JobId=3 SiteFactor=16.
func (f *fakeSlurm) update(text string) error {
	var fault error
	for line := range strings.Lines(text) {
		if f.dieAfter > 0 && f.updates >= f.dieAfter {
			return errKilled
		}
		f.updates++
		words := strings.Fields(line)
		id, err := strconv.ParseInt(strings.TrimPrefix(words[1], "JobId="), 10, 64)
		if err != nil || words[0] != "update" {
			return fmt.Errorf("%q is no update", line)
		}
		j := f.jobs[id-1]
		if j.State != "PENDING" {
			fault = errors.New("slurm_update error: Job/step already completing or completed")
			continue
		}
		for _, word := range words[2:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "SiteFactor":
				j.site, err = strconv.ParseInt(value, 10, 64)
			case "Nice":
				j.Nice, err = strconv.ParseInt(value, 10, 64)
			case "Features":
				j.Features = value
				if j.Reason == "BadConstraints" { // Slurm looks at the job again
					j.Reason = "Priority"
				}
			case "Prefer":
				j.Prefer = value
			case "Comment":
				j.Comment = value
			default:
				err = fmt.Errorf("%s must not be written", key)
			}
			if err != nil {
				return err
			}
		}
	}
	return fault
}

// schedule starts what fits, by priority, and ends jobs whose time is over.
func (f *fakeSlurm) schedule() {
	used := map[string]int{}
	for _, j := range f.jobs {
		if j.State == "RUNNING" && f.nowS >= j.Start+j.seconds(f.nodeOf(j.Nodes).gpuType) {
			j.State, j.End = "COMPLETED", f.nowS
		}
		if j.State == "RUNNING" {
			used[j.Nodes]++
		}
	}
	for _, j := range f.jobs {
		if j.State == "PENDING" {
			f.judge(j)
		}
	}
	for {
		var next *fakeJob
		var on *fakeNode
		for _, j := range f.jobs {
			if j.State != "PENDING" || j.Reason == "BadConstraints" || next != nil && j.site-j.Nice <= next.site-next.Nice {
				continue
			}
			for _, n := range f.nodes {
				if !n.drained && used[n.name] < n.gpus && j.may(n) {
					next, on = j, n
					break
				}
			}
		}
		if next == nil {
			return
		}
		next.State, next.Start, next.Nodes, next.Reason = "RUNNING", f.nowS, on.name, "None"
		next.GresDetail = []string{fmt.Sprintf("gpu:%s:1(IDX:%d)", on.gpuType, used[on.name])}
		next.starts++
		used[on.name]++
	}
}

// may reports whether a job may have a node, by its constraint and the type that it names.
func (j *fakeJob) may(n *fakeNode) bool {
	c, ok := parseConstraint(j.Features)
	if !ok || !c.admits([]string{n.features()}) {
		return false
	}
	for _, text := range []string{j.TresPerNode, j.TresPerJob, j.TresPerTask, j.TresPerSock} {
		if !has(gresCounts(fmt.Sprintf("gpu:%s:%d", n.gpuType, n.gpus)), gresCounts(text)) {
			return false
		}
	}
	return true
}

// judge gives a job the reason that Slurm gives those that no node satisfies, or none in service.
func (f *fakeSlurm) judge(j *fakeJob) {
	fits, up := false, false
	for _, n := range f.nodes {
		fits, up = fits || j.may(n), up || j.may(n) && !n.drained
	}
	switch {
	case !fits:
		j.Reason = "BadConstraints"
	case !up:
		j.Reason = "ReqNodeNotAvail, UnavailableNodes:x"
	case j.Reason != "BadConstraints":
		j.Reason = "Priority"
	}
}

func (f *fakeSlurm) nodeOf(name string) *fakeNode {
	for _, n := range f.nodes {
		if n.name == name {
			return n
		}
	}
	return &fakeNode{}
}

// seconds is how long a job takes on a type, by its comment.
func (j *fakeJob) seconds(gpuType string) int64 {
	var times map[string]int64
	_ = json.Unmarshal([]byte(strings.TrimPrefix(j.Comment, "hare=")), &times)
	return times[gpuType]
}
