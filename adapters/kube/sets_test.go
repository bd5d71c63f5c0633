package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
)

// fakeSets is a cluster with JobSets and PyTorchJobs beside Jobs.
type fakeSets struct {
	*fakeKube
	sets   map[string][]map[string]any // by the path of their list
	pods   []any
	jobs   []any
	writes int
}

var (
	jobSets     = setKinds[0].listPath()
	pyTorchJobs = setKinds[1].listPath()
)

// podsOf is a template of pods of so many GPUs; 0 for pods without.
func podsOf(gpus int) map[string]any {
	limits := map[string]any{"cpu": "1"}
	if gpus > 0 {
		limits["nvidia.com/gpu"] = strconv.Itoa(gpus)
	}
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
		"limits": limits}}}}}
}

// submit makes a suspended object that takes part.
func (f *fakeSets) submit(list, name string, spec map[string]any) map[string]any {
	f.version++
	o := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": "s-" + name,
			"resourceVersion": strconv.Itoa(f.version), "creationTimestamp": at(f.nowS),
			"annotations": map[string]any{ManagedAnnotation: "true",
				history.SecondsAnnotation: `{"V100":4,"T4":8,"H100":2}`}},
		"spec": spec,
	}
	f.sets[list] = append(f.sets[list], o)
	return o
}

// jobSet has a driver without GPUs, and workers.
func (f *fakeSets) jobSet(name string, replicas, parallelism, gpus int) map[string]any {
	one := func(name string, replicas, parallelism, gpus int) map[string]any {
		return map[string]any{"name": name, "replicas": replicas, "template": map[string]any{"spec": map[string]any{
			"parallelism": parallelism, "completions": parallelism, "template": podsOf(gpus)}}}
	}
	return f.submit(jobSets, name, map[string]any{"suspend": true, "replicatedJobs": []any{
		one("driver", 1, 1, 0), one("workers", replicas, parallelism, gpus)}})
}

func (f *fakeSets) pyTorchJob(name string, workers, gpus int) map[string]any {
	return f.submit(pyTorchJobs, name, map[string]any{"runPolicy": map[string]any{"suspend": true},
		"pytorchReplicaSpecs": map[string]any{"Master": map[string]any{"template": podsOf(gpus)},
			"Worker": map[string]any{"replicas": workers, "template": podsOf(gpus)}}})
}

func (f *fakeSets) Do(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	at, query, _ := strings.Cut(path, "?")
	if f.fail != nil {
		if status, err := f.fail(method, path); err != nil || status != 0 {
			return status, []byte(`{"message":"pretended"}`), err
		}
	}
	items, ok := f.sets[at]
	switch {
	case ok && method == http.MethodGet:
		text, err := json.Marshal(map[string]any{"items": items})
		return http.StatusOK, text, err
	case at == podsPath && f.pods != nil:
		return f.listedAll(f.pods)
	case at == jobsPath && f.jobs != nil:
		return f.listedAll(f.jobs)
	}
	for _, list := range []string{jobSets, pyTorchJobs} {
		cut := strings.LastIndex(list, "/")
		name, ok := strings.CutPrefix(at, list[:cut]+"/namespaces/default"+list[cut:]+"/")
		if !ok {
			continue
		}
		k := slices.IndexFunc(f.sets[list], func(o map[string]any) bool {
			return o["metadata"].(map[string]any)["name"] == name
		})
		var operations []patchOperation
		if method != http.MethodPatch || contentType != "application/json-patch+json" || k < 0 ||
			json.Unmarshal(body, &operations) != nil {
			return http.StatusBadRequest, []byte(`{"message":"what?"}`), nil
		}
		o, fault := applied(f.sets[list][k], operations)
		was := f.sets[list][k]["metadata"].(map[string]any)["resourceVersion"]
		switch {
		case fault != "":
			return http.StatusUnprocessableEntity, []byte(`{"message":"` + fault + `"}`), nil
		case o["metadata"].(map[string]any)["resourceVersion"] != was:
			return http.StatusConflict, []byte(`{"message":"the object has been modified"}`), nil
		case !strings.Contains(query, "dryRun=All"):
			f.version++
			f.writes++
			o["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
			f.sets[list][k] = o
			return http.StatusOK, fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"}}`, f.version), nil
		}
		return http.StatusOK, []byte(`{}`), nil
	}
	return f.fakeKube.Do(ctx, method, path, contentType, body)
}

func (f *fakeSets) listedAll(items []any) (int, []byte, error) {
	text, err := json.Marshal(map[string]any{"items": items})
	return http.StatusOK, text, err
}

func setsHelper(t *testing.T, write bool) (*fakeSets, *Helper) {
	t.Helper()
	f := &fakeSets{fakeKube: newFakeKube(), sets: map[string][]map[string]any{jobSets: {}, pyTorchJobs: {}}}
	h := testHelper(t, f.fakeKube, func(c *Config) { c.Write = write })
	h.api = f
	return f, h
}

// dig follows a path in an object; nil where there is nothing.
func dig(o any, path ...string) any {
	for _, step := range path {
		switch in := o.(type) {
		case map[string]any:
			o = in[step]
		case []any:
			k, _ := strconv.Atoi(step)
			o = in[k]
		default:
			return nil
		}
	}
	return o
}

// TestLetsSetsGo checks that JobSets and PyTorchJobs are let go on one type each, with the node selector in
// the templates of pods with GPUs alone, as many as fit, and once.
func TestLetsSetsGo(t *testing.T) {
	f, h := setsHelper(t, true)
	for i := range 4 {
		o := f.jobSet(fmt.Sprint("set", i), 2, 2, 2) // a whole type each
		dig(o, "metadata", "annotations").(map[string]any)[history.SecondsAnnotation] = `{"V100":4,"T4":4,"H100":4}`
	}
	r := step(t, h)
	if f.writes != 3 || len(r.Updates) != 3 {
		t.Fatalf("%d writes, %d updates, %+v", f.writes, len(r.Updates), r.Waiting)
	}
	types := map[any]bool{}
	for _, o := range f.sets[jobSets] {
		if dig(o, "spec", "suspend") != false {
			continue
		}
		spec := func(i string) any {
			return dig(o, "spec", "replicatedJobs", i, "template", "spec", "template", "spec", "nodeSelector")
		}
		types[dig(spec("1"), typeLabel)] = true
		if spec("0") != nil || dig(o, "metadata", "annotations", StartedAnnotation) != dig(spec("1"), typeLabel) {
			t.Errorf("%v", o)
		}
	}
	if len(types) != f.writes {
		t.Errorf("%d JobSets on the types %v", f.writes, types)
	}
	before := f.writes
	if r = step(t, h); f.writes != before { // the pods are not made yet: their room is kept
		t.Errorf("before the pods are there: %+v", r.Updates)
	}
}

// TestLetsPyTorchJobsGo checks the same for a PyTorchJob, and that its pods then hold their GPUs.
func TestLetsPyTorchJobsGo(t *testing.T) {
	f, h := setsHelper(t, true)
	f.pyTorchJob("train", 3, 2)
	r := step(t, h)
	if len(r.Updates) != 1 || r.Updates[0].Job != "pytorchjob:default/train" || r.Updates[0].Type != "H100" {
		t.Fatalf("%+v, %+v, %v", r.Updates, r.Waiting, r.Left)
	}
	o := f.sets[pyTorchJobs][0]
	for _, name := range []string{"Master", "Worker"} {
		if dig(o, "spec", "pytorchReplicaSpecs", name, "template", "spec", "nodeSelector", typeLabel) != "H100" {
			t.Errorf("%s: %v", name, o)
		}
	}
	if dig(o, "spec", "runPolicy", "suspend") != false || f.events != 1 {
		t.Errorf("%v, %d events", o, f.events)
	}
	f.fakeKube.submit(1, 2, 400, 400, 2)
	if r = step(t, h); len(r.Updates) != 0 {
		t.Errorf("while the PyTorchJob has all of the fast type: %+v", r.Updates)
	}
	o["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Succeeded", "status": "True"}}}
	f.sets[pyTorchJobs][0] = o
	f.nowS += 5
	if r = step(t, h); len(r.Updates) != 1 || r.Updates[0].Type != "H100" {
		t.Errorf("after its end: %+v, %+v", r.Updates, r.Waiting)
	}
}

// TestJobsOfJobSets checks that the Jobs which a JobSet has made count once, by its pods.
func TestJobsOfJobSets(t *testing.T) {
	f, h := setsHelper(t, false)
	o := f.jobSet("set", 1, 2, 4)
	o["spec"].(map[string]any)["suspend"] = false
	owned := func(kind, uid string) []any {
		return []any{map[string]any{"kind": kind, "uid": uid, "controller": true}}
	}
	f.jobs = []any{map[string]any{"metadata": map[string]any{"name": "set-workers-0", "namespace": "default",
		"uid": "child", "ownerReferences": owned("JobSet", "s-set")},
		"spec": map[string]any{"parallelism": 2, "template": podsOf(4)}}}
	running := podsOf(4)["spec"].(map[string]any)
	running["nodeName"] = "h100-0"
	driver := podsOf(0)["spec"].(map[string]any)
	driver["nodeName"] = "t4-0"
	f.pods = []any{
		map[string]any{"metadata": map[string]any{"name": "w", "namespace": "default", "uid": "w",
			"ownerReferences": owned("Job", "child")}, "spec": running, "status": map[string]any{"phase": "Running"}},
		map[string]any{"metadata": map[string]any{"name": "d", "namespace": "default", "uid": "d",
			"ownerReferences": owned("Job", "other")}, "spec": driver, "status": map[string]any{"phase": "Running"}},
	}
	s, err := h.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := h.forSession(s)
	gpus := int64(0)
	for _, j := range told.Jobs {
		for _, held := range j.On {
			gpus += held.GPUs
		}
	}
	// One pod runs, and room is kept for the one that is not made yet.
	if len(s.jobs) != 1 || gpus != 8 || len(s.alone) != 0 || len(s.flights) != 1 {
		t.Errorf("%d jobs, %d GPUs, %d alone, %d flights", len(s.jobs), gpus, len(s.alone), len(s.flights))
	}
}

// TestSetsLeftAlone checks who is not let go, and that the reason is told.
func TestSetsLeftAlone(t *testing.T) {
	f, h := setsHelper(t, true)
	first := func(o map[string]any) map[string]any {
		return dig(o, "spec", "replicatedJobs", "1").(map[string]any)
	}
	first(f.jobSet("after", 1, 1, 1))["dependsOn"] = []any{map[string]any{"name": "driver", "status": "Complete"}}
	dig(first(f.jobSet("turns", 1, 1, 1)), "template", "spec").(map[string]any)["completions"] = 4
	dig(f.jobSet("racks", 1, 1, 1), "metadata", "annotations").(map[string]any)[exclusiveTopology] = "rack"
	mixed := dig(f.jobSet("mixed", 1, 1, 1), "spec", "replicatedJobs", "0", "template", "spec")
	mixed.(map[string]any)["template"] = podsOf(2)
	f.jobSet("queued", 1, 1, 1)["metadata"].(map[string]any)["labels"] = map[string]any{kueueQueueLabel: "gpus"}
	f.jobSet("owned", 1, 1, 1)["metadata"].(map[string]any)["ownerReferences"] = []any{
		map[string]any{"kind": "TrainJob", "uid": "t", "controller": true}}
	f.pyTorchJob("elastic", 1, 1)["spec"].(map[string]any)["elasticPolicy"] = map[string]any{"maxReplicas": 4}
	dig(f.pyTorchJob("foreign", 1, 1), "spec", "runPolicy").(map[string]any)["managedBy"] = "kueue.x-k8s.io/multikueue"
	f.jobSet("wide", 1<<40, 1<<40, 8)
	delete(dig(f.jobSet("out", 1, 1, 1), "metadata", "annotations").(map[string]any), ManagedAnnotation)
	f.jobSet("broken", 1, 1, 1)["spec"] = map[string]any{"suspend": "yes"}
	r := step(t, h)
	if f.writes > 0 || len(r.Updates) > 0 || len(r.Left) != 9 {
		t.Errorf("%d writes, %+v, %d reasons: %v", f.writes, r.Updates, len(r.Left), r.Left)
	}
	for _, part := range []string{"dependsOn", "one after another: completions", "exclusive-topology",
		"different things", "queue of Kueue", "belongs to a TrainJob", "elasticPolicy", "managed by kueue", "more than"} {
		if !slices.ContainsFunc(r.Reasons(), func(reason string) bool { return strings.Contains(reason, part) }) {
			t.Errorf("nothing says %q: %v", part, r.Left)
		}
	}
}

// TestUnreadableSets checks that a JobSet which cannot be read stops nobody else, and that the log says so
// once.
func TestUnreadableSets(t *testing.T) {
	f, h := setsHelper(t, true)
	f.jobSet("broken", 1, 1, 1)["spec"] = map[string]any{"suspend": true, "replicatedJobs": 7}
	f.jobSet("empty", 1, 1, 1)["spec"] = nil
	f.jobSet("good", 1, 1, 1)
	var log strings.Builder
	h.cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	step(t, h)
	step(t, h)
	if f.writes != 1 || strings.Count(log.String(), "\n") != 1 ||
		!strings.Contains(log.String(), "default/broken") || !strings.Contains(log.String(), "must not be a number") {
		t.Errorf("%d writes, and the log says %s", f.writes, &log)
	}
}

// TestSetsDown checks that nothing is written where lists of JobSets fail, or where somebody else has
// changed one, and that clusters without them, or accounts without the right, are helped with their Jobs.
func TestSetsDown(t *testing.T) {
	f, h := setsHelper(t, true)
	f.jobSet("set", 1, 1, 1)
	f.fakeKube.submit(1, 1, 4, 8, 2)
	failing := func(list string, status int) {
		f.fail = func(_, p string) (int, error) {
			if !strings.HasPrefix(p, list) {
				return 0, nil
			}
			if status == 0 {
				return 0, errDown
			}
			return status, nil
		}
	}
	for _, list := range []string{jobSets, pyTorchJobs} {
		for _, status := range []int{0, 429, 500} {
			failing(list, status)
			if _, err := h.Step(t.Context()); err == nil || f.writes+f.patches > 0 {
				t.Errorf("%s gives %d: %v, %d writes", list, status, err, f.writes+f.patches)
			}
		}
	}
	f.fail = nil
	good := h.session.Advisor
	h.session.Advisor = &brokenAdvisor{}
	if _, err := h.Step(t.Context()); err == nil || f.writes+f.patches > 0 {
		t.Errorf("without a plan: %v, %d writes", err, f.writes+f.patches)
	}
	h.session.Advisor = good
	// A kind that was there, and is not any more, is no reason to plan without it.
	failing(jobSets, 403)
	if _, err := h.Step(t.Context()); err == nil || f.writes+f.patches > 0 {
		t.Errorf("a right taken away: %v, %d writes", err, f.writes+f.patches)
	}
	for _, status := range []int{403, 404} {
		f, h := setsHelper(t, true)
		f.fakeKube.submit(1, 1, 4, 8, 2)
		f.fail = func(_, p string) (int, error) {
			if strings.HasPrefix(p, jobSets) || strings.HasPrefix(p, pyTorchJobs) {
				return status, nil
			}
			return 0, nil
		}
		if r := step(t, h); len(r.Updates) != 1 || f.patches != 1 {
			t.Errorf("%d: %+v", status, r.Updates)
		}
	}
	f, h = setsHelper(t, true)
	f.jobSet("set", 1, 1, 1)
	f.fail = func(method, _ string) (int, error) { // an operator is faster
		if method == http.MethodPatch {
			f.sets[jobSets][0]["metadata"].(map[string]any)["resourceVersion"] = "changed"
		}
		return 0, nil
	}
	if r := step(t, h); len(r.Updates) > 0 || f.writes > 0 || h.counted.Conflicts != 1 {
		t.Errorf("a conflict: %+v, %d writes, %d conflicts", r.Updates, f.writes, h.counted.Conflicts)
	}
}

// TestReleaseSets checks that release lets JobSets and PyTorchJobs go without a type.
func TestReleaseSets(t *testing.T) {
	f, h := setsHelper(t, true)
	f.jobSet("set", 1, 1, 1)
	f.pyTorchJob("train", 1, 1)
	r, err := h.Release(t.Context())
	if err != nil || len(r.Updates) != 2 || f.writes != 2 {
		t.Fatalf("%v, %+v, %d writes", err, r, f.writes)
	}
	o := f.sets[jobSets][0]
	if dig(o, "spec", "suspend") != false || dig(o, "metadata", "annotations", StartedAnnotation) != nil ||
		dig(o, "spec", "replicatedJobs", "1", "template", "spec", "template", "spec", "nodeSelector") != nil {
		t.Errorf("%v", o)
	}
}
