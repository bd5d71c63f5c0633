package ray

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeRay is a dashboard that pretends, in the time of the test: it answers 500 to names that it has,
// leaves jobs pending that find no room, forgets stops of those, and tells the use of GPUs late.
type fakeRay struct {
	mu      sync.Mutex
	nowUs   int64
	restart int
	nodes   []fakeNode
	jobs    []*fakeJob
	usage   map[string]amount // as told
	usageUs int64
	fail    func(method, path string) (before, after bool) // answers 500, before or after the effect
	starts  map[string]int                                 // by HARE_JOB: how often the program began
	done    map[string]int                                 // and completed
	server  *httptest.Server
}

type fakeNode struct {
	id, gpuType string
	has         amount
	dead        bool
}

type fakeJob struct {
	submission
	status, errorType, message string
	submitUs, startUs, endUs   int64
	node                       string
	seconds                    map[string]float64
}

func newFakeRay(t *testing.T) *fakeRay {
	f := &fakeRay{nowUs: 1_800_000_000e6, usage: map[string]amount{}, starts: map[string]int{}, done: map[string]int{},
		nodes: []fakeNode{{id: "aaaaaaaa01", gpuType: "V100", has: amount{2, 16_000, 64 << 10}},
			{id: "bbbbbbbb02", gpuType: "T4", has: amount{4, 16_000, 64 << 10}}}}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeRay) get(id string) *fakeJob {
	for _, j := range f.jobs {
		if j.SubmissionID == id {
			return j
		}
	}
	return nil
}

func (f *fakeRay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, after := false, false
	if f.fail != nil {
		before, after = f.fail(r.Method, r.URL.Path)
	}
	if before {
		http.Error(w, "Traceback\nRuntimeError: no", http.StatusInternalServerError)
		return
	}
	status, answer := f.answer(r)
	if after {
		status, answer = http.StatusInternalServerError, "Traceback\nTimeoutError"
	}
	w.WriteHeader(status)
	if text, ok := answer.(string); ok {
		fmt.Fprint(w, text)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

type object = map[string]any

func (f *fakeRay) answer(r *http.Request) (status int, answer any) {
	id, isJob := strings.CutPrefix(r.URL.Path, "/api/jobs/")
	switch {
	case r.URL.Path == "/api/version":
		return 200, object{"version": "4", "ray_version": "2.60.0", "session_name": fmt.Sprint("session_", f.restart)}
	case r.URL.Path == "/api/v0/nodes":
		list := []object{}
		for _, n := range f.nodes {
			state := "ALIVE"
			if n.dead {
				state = "DEAD"
			}
			list = append(list, object{"node_id": n.id, "node_name": "127.0.0.1", "state": state,
				"resources_total": object{"GPU": n.has.gpus, "CPU": float64(n.has.cpuMilli) / 1000,
					"memory": float64(n.has.memoryMiB)*mib + 1000, "accelerator_type:" + n.gpuType: 1},
				"labels": object{nodeLabel: n.id}})
		}
		return 200, object{"result": true, "data": object{"result": object{"result": list}}}
	case r.URL.Path == "/api/cluster_status":
		use := object{}
		for id, n := range f.usage {
			use[id] = object{"GPU": []float64{float64(n.gpus), 8}, "CPU": []float64{float64(n.cpuMilli) / 1000, 16},
				"memory": []float64{float64(n.memoryMiB) * mib, 64 << 30}}
		}
		return 200, object{"result": true, "data": object{"clusterStatus": object{"time": float64(f.usageUs) / 1e6,
			"loadMetricsReport": object{"usageByNode": use}}}}
	case r.Method == http.MethodPost && strings.HasSuffix(id, "/stop"):
		j := f.get(strings.TrimSuffix(id, "/stop"))
		if j == nil {
			return 404, "does not exist"
		}
		if j.status == "RUNNING" {
			j.status, j.endUs = "STOPPED", f.nowUs
		}
		return 200, object{"stopped": true}
	case r.Method == http.MethodPost && isJob:
		j := &fakeJob{status: "PENDING", submitUs: f.nowUs}
		if err := json.NewDecoder(r.Body).Decode(&j.submission); err != nil {
			return 400, err.Error()
		}
		if f.get(j.SubmissionID) != nil {
			return 500, "Traceback\nValueError: Job with submission_id " + j.SubmissionID + " already exists."
		}
		_ = json.Unmarshal([]byte(j.Metadata["hare"]), &j.seconds)
		f.jobs = append(f.jobs, j)
		return 200, object{"submission_id": j.SubmissionID}
	case isJob && id == "":
		list := []object{}
		for _, j := range f.jobs {
			list = append(list, j.document())
		}
		return 200, list
	case isJob:
		if j := f.get(id); j != nil {
			return 200, j.document()
		}
		return 404, "Job " + id + " does not exist"
	}
	return 404, "not pretended"
}

func (j *fakeJob) document() object {
	var node any
	if j.node != "" {
		node = j.node
	}
	return object{"submission_id": j.SubmissionID, "status": j.status, "message": j.message, "error_type": j.errorType,
		"start_time": j.submitUs / 1000, "end_time": j.endUs / 1000, "driver_node_id": node, "metadata": j.Metadata}
}

// hareJob is the job of the queue that an attempt belongs to.
func (j *fakeJob) hareJob() string {
	vars, _ := j.RuntimeEnv["env_vars"].(map[string]any)
	return fmt.Sprint(vars["HARE_JOB"])
}

// pass lets time pass, with jobs that end and begin.
func (f *fakeRay) pass(seconds float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nowUs += int64(seconds * 1e6)
	used := map[string]amount{}
	for _, j := range f.jobs {
		if j.status == "RUNNING" && f.nowUs-j.startUs >= int64(j.seconds[f.typeOf(j.node)]*1e6) {
			j.status, j.endUs = "SUCCEEDED", f.nowUs
			f.done[j.hareJob()]++
		}
		if j.status == "RUNNING" {
			used[j.node] = used[j.node].plus(j.needs())
		}
		if j.status == "PENDING" && f.nowUs-j.submitUs > 900e6 {
			j.status, j.errorType, j.endUs = "FAILED", startTimeout, f.nowUs
		}
	}
	for _, j := range f.jobs {
		for _, n := range f.nodes {
			wanted := j.Labels[nodeLabel]
			if j.status != "PENDING" || n.dead || !n.has.minus(used[n.id]).covers(j.needs()) || wanted != "" && wanted != n.id {
				continue
			}
			if !slices.Contains([]string{"", fmt.Sprint(n.gpuType)}, typeWanted(&j.submission)) {
				continue
			}
			j.status, j.node, j.startUs = "RUNNING", n.id, f.nowUs
			used[n.id] = used[n.id].plus(j.needs())
			f.starts[j.hareJob()]++
		}
	}
	if f.nowUs-f.usageUs >= 5e6 {
		f.usage, f.usageUs = used, f.nowUs
	}
}

func (j *fakeJob) needs() amount {
	return amount{j.GPUs, int64(j.CPUs * 1000), j.Memory / mib}
}

func typeWanted(s *submission) string {
	for resource := range s.Resources {
		return strings.TrimPrefix(resource, typeResource)
	}
	return ""
}

func (f *fakeRay) typeOf(id string) string {
	for _, n := range f.nodes {
		if n.id == id {
			return n.gpuType
		}
	}
	return ""
}

// addOthers submits a job of somebody else, which runs at once.
func (f *fakeRay) addOthers(name, node string, gpus int64, seconds float64) {
	f.addOthersWith(name, node, submission{GPUs: gpus}, seconds)
}

func (f *fakeRay) addOthersWith(name, node string, s submission, seconds float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := &fakeJob{submission: s, status: "PENDING", submitUs: f.nowUs,
		seconds: map[string]float64{f.typeOf(node): seconds}}
	j.SubmissionID, j.Labels = name, map[string]string{nodeLabel: node}
	f.jobs = append(f.jobs, j)
}
