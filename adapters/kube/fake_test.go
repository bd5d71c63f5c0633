package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
)

// fakeKube is a cluster that pretends: an API server, the Job controller, the scheduler, and kubelets
// whose pods end after the seconds that their Job's annotation names for the type of their node.
type fakeKube struct {
	nodes   []*fakeNode
	jobs    []*fakeJob
	lease   map[string]any
	version int
	nowS    int64
	page    int // objects a page; 0 means all
	// fail answers a request in place of the cluster where it returns an error or a status.
	fail    func(method, path string) (int, error)
	patches int // that changed something
	// overheadS is how long a pod takes beside its seconds.
	overheadS int64
	events    int
	expected  []string // Events that say when a Job is expected to start
}

type fakeNode struct {
	name, gpuType, taint string
	gpus                 int64
	cordoned             bool
}

type fakeJob struct {
	name         string
	pods, gpus   int64
	cpuMilli     int64
	annotations  map[string]string
	suspend      bool
	selector     map[string]string
	version      int
	createdS     int64
	startS, endS int64
	starts       int // how often the Job was let go
	on           []string
	podStartS    []int64
	deleted      bool
	resource     string // that its pods ask for beside others
	stopped      int    // pods on nodes when it was suspended
}

var errDown = errors.New("connection refused")

const typeLabel = "nvidia.com/gpu.product"

func newFakeKube() *fakeKube {
	f := &fakeKube{nowS: 1_800_000_000}
	for _, gpuType := range []string{"V100", "T4", "H100"} {
		for i := range 2 {
			f.nodes = append(f.nodes, &fakeNode{name: fmt.Sprint(strings.ToLower(gpuType), "-", i), gpuType: gpuType, gpus: 4})
		}
	}
	return f
}

// submit makes a suspended Job that takes part, with its seconds by type.
func (f *fakeKube) submit(pods, gpus int64, v100, t4, h100 int) *fakeJob {
	f.version++
	j := &fakeJob{name: fmt.Sprint("job", len(f.jobs)), pods: pods, gpus: gpus, suspend: true, version: f.version,
		createdS: f.nowS, selector: map[string]string{}, annotations: map[string]string{ManagedAnnotation: "true",
			history.SecondsAnnotation: fmt.Sprintf(`{"V100":%d,"T4":%d,"H100":%d}`, v100, t4, h100)}}
	f.jobs = append(f.jobs, j)
	return j
}

func (f *fakeKube) used() map[string]int64 {
	used := map[string]int64{}
	for _, j := range f.jobs {
		if j.endS == 0 {
			for _, name := range j.on {
				used[name] += j.gpus
			}
		}
	}
	return used
}

func (f *fakeKube) node(name string) *fakeNode {
	i := slices.IndexFunc(f.nodes, func(n *fakeNode) bool { return n.name == name })
	return f.nodes[i]
}

func (j *fakeJob) seconds(gpuType string) int64 {
	var times map[string]int64
	_ = json.Unmarshal([]byte(j.annotations[history.SecondsAnnotation]), &times)
	return times[gpuType]
}

// run lets the cluster work up to a time, second by second.
func (f *fakeKube) run(seconds int) {
	for range seconds {
		f.schedule()
		f.nowS++
	}
	f.schedule()
}

// schedule ends Jobs, makes the pods of those that were let go, and binds what fits, pod by pod.
func (f *fakeKube) schedule() {
	for _, j := range f.jobs {
		if j.endS > 0 || int64(len(j.on)) < j.pods {
			continue
		}
		last := int64(0)
		for i, name := range j.on {
			last = max(last, j.podStartS[i]+f.overheadS+j.seconds(f.node(name).gpuType))
		}
		if f.nowS >= last {
			j.endS = f.nowS
			f.touch(j)
		}
	}
	used := f.used()
	for _, j := range f.jobs {
		if j.suspend || j.endS > 0 || j.deleted {
			continue
		}
		if j.startS == 0 {
			j.startS = f.nowS
		}
		for int64(len(j.on)) < j.pods {
			k := slices.IndexFunc(f.nodes, func(n *fakeNode) bool {
				want := j.selector[typeLabel]
				return !n.cordoned && n.taint == "" && (want == "" || want == n.gpuType) && used[n.name]+j.gpus <= n.gpus
			})
			if k < 0 {
				break
			}
			used[f.nodes[k].name] += j.gpus
			j.on, j.podStartS = append(j.on, f.nodes[k].name), append(j.podStartS, f.nowS)
		}
	}
}

// left counts the Jobs that have not ended.
func (f *fakeKube) left() (n int) {
	for _, j := range f.jobs {
		if !j.deleted && j.endS == 0 {
			n++
		}
	}
	return n
}

func (f *fakeKube) touch(j *fakeJob) {
	f.version++
	j.version = f.version
}

// mixed reports whether pods of a Job are on several types.
func (f *fakeKube) mixed(j *fakeJob) bool {
	return slices.ContainsFunc(j.on, func(name string) bool { return f.node(name).gpuType != f.node(j.on[0]).gpuType })
}

// Do implements API.
func (f *fakeKube) Do(_ context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	if f.fail != nil {
		if status, err := f.fail(method, path); err != nil || status != 0 {
			return status, []byte(`{"kind":"Status","message":"pretended"}`), err
		}
	}
	u, err := url.Parse(path)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case method == http.MethodGet && u.Path == "/api/v1/nodes":
		return f.listed(u, f.nodeObjects())
	case method == http.MethodGet && u.Path == "/api/v1/pods":
		return f.listed(u, f.podObjects())
	case method == http.MethodGet && u.Path == "/apis/batch/v1/jobs":
		return f.listed(u, f.jobObjects())
	case method == http.MethodPatch && strings.HasPrefix(u.Path, "/apis/batch/v1/namespaces/default/jobs/"):
		return f.patch(u, contentType, body)
	case strings.HasPrefix(u.Path, "/apis/coordination.k8s.io/v1/namespaces/default/leases"):
		return f.leases(method, body)
	case method == http.MethodPost && u.Path == "/apis/events.k8s.io/v1/namespaces/default/events":
		if strings.Contains(string(body), "HareExpected") {
			f.expected = append(f.expected, string(body))
		} else {
			f.events++
		}
		return http.StatusCreated, []byte(`{}`), nil
	}
	return http.StatusNotFound, []byte(`{"message":"not pretended"}`), nil
}

func (f *fakeKube) listed(u *url.URL, all []any) (int, []byte, error) {
	from, _ := strconv.Atoi(u.Query().Get("continue"))
	to, next := len(all), ""
	if f.page > 0 && from+f.page < len(all) {
		to = from + f.page
		next = strconv.Itoa(to)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"continue": next}, "items": all[from:to]})
	return http.StatusOK, text, err
}

func (f *fakeKube) nodeObjects() (all []any) {
	for _, n := range f.nodes {
		spec := map[string]any{"unschedulable": n.cordoned}
		if n.taint != "" {
			spec["taints"] = []any{map[string]any{"key": n.taint, "effect": "NoSchedule"}}
		}
		all = append(all, map[string]any{
			"metadata": map[string]any{"name": n.name, "labels": map[string]string{typeLabel: n.gpuType,
				"kubernetes.io/os": "linux"}},
			"spec": spec,
			"status": map[string]any{"allocatable": map[string]string{"nvidia.com/gpu": fmt.Sprint(n.gpus), "cpu": "8",
				"pods": "110"}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		})
	}
	return all
}

func (j *fakeJob) podSpec() map[string]any {
	limits := map[string]string{"nvidia.com/gpu": fmt.Sprint(j.gpus)}
	if j.resource != "" {
		limits[j.resource] = "1"
	}
	return map[string]any{"nodeSelector": j.selector, "containers": []any{map[string]any{"resources": map[string]any{
		"limits":   limits,
		"requests": map[string]string{"cpu": fmt.Sprintf("%dm", j.cpuMilli)}}}}}
}

func at(s int64) string { return time.Unix(s, 0).UTC().Format(time.RFC3339) }

func (f *fakeKube) podObjects() (all []any) {
	for _, j := range f.jobs {
		for i := range j.pods {
			if j.startS == 0 || j.deleted || j.suspend {
				continue
			}
			spec, status := j.podSpec(), map[string]any{"phase": "Pending"}
			if int(i) >= len(j.on) {
				status["conditions"] = []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
					"lastTransitionTime": at(j.startS)}}
			} else {
				spec["nodeName"] = j.on[i]
				status = map[string]any{"phase": "Running", "startTime": at(j.podStartS[i])}
			}
			if j.endS > 0 {
				status["phase"] = "Succeeded"
			}
			all = append(all, map[string]any{"metadata": map[string]any{"name": fmt.Sprint(j.name, "-", i),
				"namespace": "default", "uid": fmt.Sprint(j.name, "-", i), "ownerReferences": []any{map[string]any{"kind": "Job",
					"uid": "uid-" + j.name, "controller": true}}}, "spec": spec, "status": status})
		}
	}
	return all
}

func (f *fakeKube) jobObjects() (all []any) {
	for _, j := range f.jobs {
		if j.deleted {
			continue
		}
		status := map[string]any{}
		if j.startS > 0 {
			status["startTime"] = at(j.startS)
		}
		if j.endS > 0 {
			status["completionTime"] = at(j.endS)
			status["conditions"] = []any{map[string]any{"type": "Complete", "status": "True"}}
		}
		all = append(all, map[string]any{
			"metadata": map[string]any{"name": j.name, "namespace": "default", "uid": "uid-" + j.name,
				"resourceVersion": strconv.Itoa(j.version), "creationTimestamp": at(j.createdS), "annotations": j.annotations},
			"spec": map[string]any{"parallelism": j.pods, "completions": j.pods, "suspend": j.suspend,
				"template": map[string]any{"spec": j.podSpec()}}, "status": status})
	}
	return all
}

// patch changes a Job as the API server does: selectors alone while it is suspended and has no start time.
func (f *fakeKube) patch(u *url.URL, contentType string, body []byte) (int, []byte, error) {
	path, ofStatus := strings.CutSuffix(u.Path, "/status")
	name := path[strings.LastIndex(path, "/")+1:]
	k := slices.IndexFunc(f.jobs, func(j *fakeJob) bool { return j.name == name && !j.deleted })
	if k < 0 {
		return http.StatusNotFound, []byte(`{"message":"not found"}`), nil
	}
	j := f.jobs[k]
	var p struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Suspend  *bool `json:"suspend"`
			Template struct {
				Spec struct {
					NodeSelector map[string]*string `json:"nodeSelector"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
		Status *struct {
			StartTime *string `json:"startTime"`
		} `json:"status"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || contentType != "application/merge-patch+json" ||
		(p.Status != nil) != ofStatus {
		return http.StatusUnprocessableEntity, []byte(`{"message":"no patch that is meant"}`), nil
	}
	if v := p.Metadata.ResourceVersion; v != strconv.Itoa(j.version) && v != "" {
		return http.StatusConflict, []byte(`{"message":"the object has been modified"}`), nil
	}
	goes := p.Spec.Suspend != nil && !*p.Spec.Suspend
	selects := p.Spec.Template.Spec.NodeSelector
	if len(selects) > 0 && (!j.suspend || j.startS > 0) || goes && !j.suspend || ofStatus && !j.suspend {
		return http.StatusUnprocessableEntity, []byte(`{"message":"field is immutable"}`), nil
	}
	if u.Query().Get("dryRun") == "All" {
		return http.StatusOK, []byte(`{}`), nil
	}
	f.patches++
	for name, value := range selects {
		if delete(j.selector, name); value != nil {
			j.selector[name] = *value
		}
	}
	for name, value := range p.Metadata.Annotations {
		if delete(j.annotations, name); value != nil {
			j.annotations[name] = *value
		}
	}
	switch {
	case ofStatus:
		j.startS = 0
	case goes:
		j.suspend = false
		j.starts++
	case p.Spec.Suspend != nil:
		j.suspend = true
		j.stopped += len(j.on)
		j.on, j.podStartS = nil, nil
	}
	f.touch(j)
	return http.StatusOK, fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"}}`, j.version), nil
}

func (f *fakeKube) leases(method string, body []byte) (int, []byte, error) {
	if method == http.MethodGet {
		if f.lease == nil {
			return http.StatusNotFound, []byte(`{"message":"not found"}`), nil
		}
		text, err := json.Marshal(f.lease)
		return http.StatusOK, text, err
	}
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		return http.StatusBadRequest, []byte(`{}`), nil
	}
	m := o["metadata"].(map[string]any)
	if method == http.MethodPost && f.lease != nil ||
		method == http.MethodPut && m["resourceVersion"] != f.lease["metadata"].(map[string]any)["resourceVersion"] {
		return http.StatusConflict, []byte(`{"message":"conflict"}`), nil
	}
	f.version++
	m["resourceVersion"] = strconv.Itoa(f.version)
	f.lease = o
	return http.StatusOK, body, nil
}
