package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// shown reads a metric.
func shown(t *testing.T, h *Helper, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, after, _ := strings.Cut(w.Body.String(), "\nhare_kube_"+name+" ")
	n, _, _ := strings.Cut(after, "\n")
	return n
}

// oneOnH100 lets a Job go on H100, before the scheduler has bound its pods.
func oneOnH100(t *testing.T, f *fakeKube) (*fakeJob, *Helper) {
	t.Helper()
	j := f.submit(2, 4, 4, 8, 2)
	h := testHelper(t, f, nil)
	step(t, h)
	if j.suspend || j.selector[typeLabel] != "H100" {
		t.Fatalf("%+v", j)
	}
	return j, h
}

// cordon takes the nodes of a type out of service, or back.
func (f *fakeKube) cordon(gpuType string, out bool) {
	for _, n := range f.nodes {
		if n.gpuType == gpuType {
			n.cordoned = out
		}
	}
}

// TestFreesJobs takes the nodes of the type away after a Job was let go: it is suspended, which is
// counted, loses the selector and goes to another type at the next look; a helper that begins again keeps it off
// the first.
func TestFreesJobs(t *testing.T) {
	f := newFakeKube()
	j, h := oneOnH100(t, f)
	f.cordon("H100", true)
	f.run(1)
	r := step(t, h)
	if !j.suspend || len(r.Freed) != 1 {
		t.Fatalf("%+v, %+v", j, r.Freed)
	}
	step(t, h)
	if j.suspend || j.selector[typeLabel] != "V100" || j.stopped > 0 ||
		shown(t, h, "freed_total") != "1" || !strings.Contains(r.Freed[0].Reason, "freed: no node in service satisfies") {
		t.Fatalf("%+v, %+v, %s were freed", j, r.Updates, shown(t, h, "freed_total"))
	}
	f.cordon("H100", false)
	f.cordon("V100", true)
	f.run(1)
	h = testHelper(t, f, nil)
	step(t, h)
	step(t, h)
	if j.selector[typeLabel] != "T4" {
		t.Errorf("it was freed of H100 and V100, and goes on %s", j.selector[typeLabel])
	}
	f.cordon("T4", true)
	f.run(1)
	step(t, h)
	r = step(t, h)
	if !j.suspend || len(j.selector) > 0 || r.Left["was freed of a GPU type a while ago, and fits on no other"] != 1 {
		t.Errorf("%+v, %v", j, r.Left)
	}
	f.nowS += int64(freeWait/time.Second) + 1
	step(t, h)
	if j.suspend || j.selector[typeLabel] != "H100" {
		t.Errorf("a while later: %+v", j)
	}
	for range 20 {
		f.run(1)
	}
	if j.endS == 0 || j.stopped > 0 {
		t.Errorf("it does not run: %+v", j)
	}
}

// TestFreesWhatFindsNoRoom lets pods of others take the room of a Job that was let go: the Job is freed after a
// minute, but where some of its pods are on nodes, it is counted and left alone.
func TestFreesWhatFindsNoRoom(t *testing.T) {
	for _, bound := range []bool{false, true} {
		f := newFakeKube()
		j, h := oneOnH100(t, f)
		other := f.submit(2, 4, 1000, 1000, 1000)
		if bound {
			other.pods = 1
		}
		other.suspend, other.annotations[ManagedAnnotation], other.selector = false, "", map[string]string{typeLabel: "H100"}
		f.jobs[0], f.jobs[1] = f.jobs[1], f.jobs[0] // the scheduler binds the others' pods first
		f.run(1)
		if step(t, h); j.suspend || shown(t, h, "freed_total") != "0" {
			t.Errorf("at once: %+v", j)
		}
		f.nowS += int64(unboundWait / time.Second)
		step(t, h)
		step(t, h)
		switch {
		case bound && (j.suspend || j.stopped > 0 || shown(t, h, "stuck") != "1" || shown(t, h, "freed_total") != "0"):
			t.Errorf("with a pod that runs: %+v, %s stuck", j, shown(t, h, "stuck"))
		case !bound && (j.suspend || j.selector[typeLabel] != "V100" || shown(t, h, "freed_total") != "1"):
			t.Errorf("without: %+v", j)
		}
	}
}

// TestFreesNoneOfUsers leaves Jobs alone whose users named the type, and those that users let go.
func TestFreesNoneOfUsers(t *testing.T) {
	f := newFakeKube()
	named, own := f.submit(1, 4, 4, 8, 2), f.submit(1, 4, 4, 8, 2)
	named.selector, own.selector = map[string]string{typeLabel: "H100"}, map[string]string{typeLabel: "H100"}
	own.suspend = false
	f.run(1)
	h := testHelper(t, f, nil)
	step(t, h)
	f.cordon("H100", true)
	f.run(100)
	step(t, h)
	if named.suspend || own.suspend || named.selector[typeLabel] != "H100" || shown(t, h, "freed_total") != "0" {
		t.Errorf("%+v, %+v", named, own)
	}
}

// TestFreeingGoesOn lets the API server fail between the writes that free a Job, and refuse the change of its status:
// a later loop, also of another process, takes the selector back, and so does release.
func TestFreeingGoesOn(t *testing.T) {
	for _, release := range []bool{false, true} {
		f := newFakeKube()
		j, h := oneOnH100(t, f)
		f.cordon("H100", true)
		f.run(1)
		step(t, h)
		for _, status := range []int{http.StatusInternalServerError, http.StatusForbidden} {
			f.fail = func(method, path string) (int, error) {
				if method == http.MethodPatch && strings.Contains(path, "/status") {
					return status, nil
				}
				return 0, nil
			}
			if _, err := h.Step(t.Context()); (err != nil) != (status == http.StatusInternalServerError) {
				t.Errorf("%d: %v", status, err)
			}
			if !j.suspend || j.selector[typeLabel] != "H100" || j.annotations[StartedAnnotation] != "" {
				t.Fatalf("%d: %+v", status, j)
			}
		}
		f.fail = nil
		h = testHelper(t, f, nil)
		if release {
			if r, err := h.Release(t.Context()); err != nil || len(r.Updates) != 1 || j.suspend || len(j.selector) > 0 {
				t.Errorf("%+v, %v, %+v", r, err, j)
			}
			continue
		}
		step(t, h)
		if step(t, h); j.suspend || j.selector[typeLabel] != "V100" {
			t.Errorf("%+v", j)
		}
	}
}

// TestOthersGPUs lets a Job that asks for amd.com/gpu wait in a cluster of nvidia.com/gpu: it is not sent there. The
// same for huge pages.
func TestOthersGPUs(t *testing.T) {
	for _, name := range []string{"amd.com/gpu", "hugepages-2Mi"} {
		f := newFakeKube()
		f.submit(1, 1, 4, 8, 2).resource = name
		r := step(t, testHelper(t, f, nil))
		if len(r.Updates) > 0 || r.Left["fits on no GPU type, even if all nodes were free"] != 1 {
			t.Errorf("%s: %+v, %v", name, r.Updates, r.Left)
		}
	}
}

// TestFreesSets does the same for a JobSet and a PyTorchJob.
func TestFreesSets(t *testing.T) {
	f, h := setsHelper(t, true)
	f.jobSet("set", 1, 2, 1)
	f.pyTorchJob("train", 1, 1)
	if r := step(t, h); len(r.Updates) != 2 {
		t.Fatalf("%+v", r)
	}
	f.cordon("H100", true)
	f.cordon("V100", true)
	for _, name := range []string{"set", "train"} {
		for range 2 {
			spec := podsOf(1)["spec"].(map[string]any)
			spec["nodeSelector"] = map[string]any{typeLabel: "H100"}
			f.pods = append(f.pods, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default",
				"ownerReferences": []any{map[string]any{"kind": "X", "uid": "s-" + name, "controller": true}}}, "spec": spec,
				"status": map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled",
					"status": "False", "reason": "Unschedulable", "lastTransitionTime": at(f.nowS)}}}})
		}
	}
	step(t, h)
	f.pods = []any{}
	if shown(t, h, "freed_total") != "2" {
		t.Errorf("%s were freed", shown(t, h, "freed_total"))
	}
	step(t, h)
	step(t, h)
	set, train := f.sets[jobSets][0], f.sets[pyTorchJobs][0]
	got := dig(set, "spec", "replicatedJobs", "1", "template", "spec", "template", "spec", "nodeSelector", typeLabel)
	if got != "T4" || dig(set, "spec", "suspend") != false {
		t.Errorf("the JobSet is sent to %v: %v", got, set)
	}
	for _, role := range []string{"Master", "Worker"} {
		got := dig(train, "spec", "pytorchReplicaSpecs", role, "template", "spec", "nodeSelector", typeLabel)
		if got != "T4" {
			t.Errorf("the PyTorchJob is sent to %v: %v", got, train)
		}
	}
}
