package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
)

// fakeKueue is a cluster with Kueue: Workloads, one ClusterQueue and its flavors.
type fakeKueue struct {
	*fakeKube
	works  []map[string]any
	queue  map[string]any
	writes int
}

func newFakeKueue() *fakeKueue {
	f := &fakeKueue{fakeKube: newFakeKube()}
	var flavors []any
	for _, gpuType := range []string{"V100", "T4", "H100"} {
		flavors = append(flavors, map[string]any{"name": strings.ToLower(gpuType), "resources": []any{
			map[string]any{"name": "nvidia.com/gpu", "nominalQuota": "8"}}})
	}
	f.queue = map[string]any{"metadata": map[string]any{"name": "gpus", "annotations": map[string]any{
		ManagedAnnotation: "true"}}, "spec": map[string]any{"resourceGroups": []any{map[string]any{"flavors": flavors}}}}
	return f
}

// submitWork makes a Workload that waits, of pod sets with so many pods of one GPU each.
func (f *fakeKueue) submitWork(pods ...int) map[string]any {
	f.version++
	var sets []any
	for i, n := range pods {
		sets = append(sets, map[string]any{"name": fmt.Sprint("set", i), "count": n, "template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{history.SecondsAnnotation: `{"V100":4,"T4":8,"H100":2}`}},
			"spec": map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
				"limits": map[string]any{"nvidia.com/gpu": "1"}}}}}}})
	}
	name := fmt.Sprint("work", len(f.works))
	w := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": "w-" + name,
			"resourceVersion":   strconv.Itoa(f.version),
			"creationTimestamp": fmt.Sprintf("2026-01-01T00:00:%02dZ", len(f.works)),
			"ownerReferences":   []any{map[string]any{"kind": "Job", "uid": "j-" + name, "controller": true}}},
		"spec":   map[string]any{"queueName": "gpus", "active": true, "podSets": sets},
		"status": map[string]any{},
	}
	f.works = append(f.works, w)
	return w
}

// admit lets Kueue reserve quota for a Workload.
func admit(w map[string]any) {
	w["status"] = map[string]any{"conditions": []any{map[string]any{"type": "QuotaReserved", "status": "True"}}}
}

func (f *fakeKueue) Do(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	at, _, _ := strings.Cut(path, "?")
	if !strings.HasPrefix(at, kueueGroup) {
		return f.fakeKube.Do(ctx, method, path, contentType, body)
	}
	if f.fail != nil {
		if status, err := f.fail(method, path); err != nil || status != 0 {
			return status, []byte(`{"message":"pretended"}`), err
		}
	}
	if !strings.HasPrefix(at, kueueGroup+"v1beta1/") { // an older Kueue
		return http.StatusNotFound, []byte(`{"message":"not found"}`), nil
	}
	var items []any
	switch kind := strings.TrimPrefix(at, kueueGroup+"v1beta1/"); kind {
	case "workloads":
		for _, w := range f.works {
			items = append(items, w)
		}
	case "clusterqueues":
		items = []any{f.queue}
	case "localqueues":
		items = []any{map[string]any{"metadata": map[string]any{"name": "gpus", "namespace": "default"},
			"spec": map[string]any{"clusterQueue": "gpus"}}}
	case "resourceflavors":
		for _, gpuType := range []string{"V100", "T4", "H100"} {
			items = append(items, map[string]any{"metadata": map[string]any{"name": strings.ToLower(gpuType)},
				"spec": map[string]any{"nodeLabels": map[string]any{typeLabel: gpuType}}})
		}
	default:
		name, ok := strings.CutPrefix(kind, "namespaces/default/workloads/")
		if !ok || method != http.MethodPatch || contentType != "application/json-patch+json" {
			return http.StatusBadRequest, []byte(`{"message":"what?"}`), nil
		}
		return f.patchWork(name, strings.Contains(path, "dryRun=All"), body)
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	return http.StatusOK, text, err
}

// patchWork makes a JSON patch as RFC 6902 says.
func (f *fakeKueue) patchWork(name string, dryRun bool, body []byte) (int, []byte, error) {
	i := slices.IndexFunc(f.works, func(w map[string]any) bool { return w["metadata"].(map[string]any)["name"] == name })
	var operations []patchOperation
	if err := json.Unmarshal(body, &operations); err != nil || i < 0 {
		return http.StatusBadRequest, []byte(`{"message":"no patch"}`), nil
	}
	w, fault := applied(f.works[i], operations)
	if fault != "" {
		return http.StatusUnprocessableEntity, []byte(`{"message":"` + fault + `"}`), nil
	}
	version := func(w map[string]any) any { return w["metadata"].(map[string]any)["resourceVersion"] }
	if version(w) != version(f.works[i]) {
		return http.StatusConflict, []byte(`{"message":"the object has been modified"}`), nil
	}
	text, _ := json.Marshal(f.works[i])
	if is, _ := json.Marshal(w["status"]); strings.Contains(string(is), "QuotaReserved") {
		return http.StatusUnprocessableEntity, []byte(`{"message":"field is immutable"}`), nil
	}
	if dryRun {
		return http.StatusOK, text, nil
	}
	f.version++
	f.writes++
	w["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
	f.works[i] = w
	text, _ = json.Marshal(w)
	return http.StatusOK, text, nil
}

// applied makes a JSON patch of a copy of an object, and says why it cannot; "" where it can.
func applied(object map[string]any, operations []patchOperation) (w map[string]any, fault string) {
	text, _ := json.Marshal(object)
	_ = json.Unmarshal(text, &w)
	for _, o := range operations {
		steps := strings.Split(o.Path, "/")[1:]
		var in any = w
		for n, s := range steps {
			s = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
			if n < len(steps)-1 {
				if list, ok := in.([]any); ok {
					k, _ := strconv.Atoi(s)
					in = list[k]
				} else {
					in = in.(map[string]any)[s]
				}
				continue
			}
			m, ok := in.(map[string]any)
			_, there := m[s]
			switch {
			case !ok, (o.Op == "remove" || o.Op == "replace") && !there:
				return nil, "no such path"
			case o.Op == "test" && m[s] != o.Value:
				return nil, "test failed"
			case o.Op == "add", o.Op == "replace":
				m[s] = o.Value
			case o.Op == "remove":
				delete(m, s)
			}
		}
	}
	return w, ""
}

// work reads a Workload of the pretended cluster.
func (f *fakeKueue) work(t *testing.T, i int) *workload {
	t.Helper()
	text, _ := json.Marshal(f.works[i])
	w := &workload{}
	if err := json.Unmarshal(text, w); err != nil {
		t.Fatal(err)
	}
	return w
}

func kueueHelper(t *testing.T, f *fakeKueue) *Helper {
	t.Helper()
	h := testHelper(t, f.fakeKube, func(c *Config) { c.Kueue = true })
	h.api = f
	return h
}

// TestKueueTypesAndOrder checks that the Workloads that start next get the selector of a flavor, that all
// stand in the order of the plan, that a second loop writes nothing, and that nothing is left of it at the
// end.
func TestKueueTypesAndOrder(t *testing.T) {
	f := newFakeKueue()
	for range 10 {
		f.submitWork(4)
	}
	f.submitWork(2, 2) // such as a JobSet
	h := kueueHelper(t, f)
	r := step(t, h)
	types, place := map[string]int{}, map[string]int{}
	for _, now := range []bool{true, false} { // those that start now come first
		for _, w := range r.Waiting {
			if now == (w.Why == "") {
				place[w.Job] = len(place)
			}
		}
	}
	last := int64(1)
	line := make([]*workload, len(f.works))
	for i := range f.works {
		w := f.work(t, i)
		line[place["default/"+w.Metadata.Name]] = w
		for _, set := range w.Spec.PodSets {
			if got := set.Template.Spec.NodeSelector[typeLabel]; got != w.chosen() {
				t.Errorf("%s is sent to %q, chosen was %q", w.Metadata.Name, got, w.chosen())
			}
		}
		types[w.chosen()]++
	}
	for _, w := range line {
		if w.Spec.Priority >= last {
			t.Errorf("%s has the priority %d after %d", w.Metadata.Name, w.Spec.Priority, last)
		}
		last = w.Spec.Priority
	}
	if types["V100"] != 2 || types["H100"] != 2 || f.patches > 0 || f.events != 4 {
		t.Errorf("%v, %d patches of Jobs, %d events", types, f.patches, f.events)
	}
	n := f.writes
	if r = step(t, h); len(r.Updates) > 0 || f.writes != n {
		t.Errorf("a second loop writes %+v", r.Updates)
	}
	if _, err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range f.works {
		w := f.work(t, i)
		if w.Spec.Priority != 0 || w.chosen() != "" || w.selectors() != nil ||
			len(w.Spec.PodSets[0].Template.Spec.NodeSelector) > 0 {
			t.Errorf("after the release: %+v", f.works[i])
		}
	}
}

// TestKueueLeavesAlone checks who gets no type and which queues get no order, and that this is told.
func TestKueueLeavesAlone(t *testing.T) {
	f := newFakeKueue()
	spec := func(w map[string]any) map[string]any { return w["spec"].(map[string]any) }
	spec(f.submitWork(1))["active"] = false
	spec(f.submitWork(1))["queueName"] = "none"
	unlike := spec(f.submitWork(1, 1))["podSets"].([]any)[1].(map[string]any)["template"].(map[string]any)
	unlike["spec"].(map[string]any)["nodeSelector"] = map[string]any{"zone": "b"}
	f.submitWork(9) // wider than the quota of any flavor
	classed := f.submitWork(1)
	spec(classed)["priority"], spec(classed)["priorityClassName"] = 500, "urgent"
	h := kueueHelper(t, f)
	h.cfg.Namespaces = []string{"default"}
	r := step(t, h)
	for _, why := range []string{"is not active", "has no ClusterQueue",
		"has pods with GPUs that ask for different things",
		"fits on no GPU type, even if all nodes were free"} {
		if r.Left[why] != 1 {
			t.Errorf("%q: %d of %v", why, r.Left[why], r.Left)
		}
	}
	if w := f.work(t, 4); w.chosen() != "H100" || w.Spec.Priority != 500 || f.writes != 1 {
		t.Errorf("with a priority class: %+v, %d writes", w.Spec, f.writes)
	}
	for what, change := range map[string]func(spec, annotations map[string]any){
		"preempts": func(spec, _ map[string]any) {
			spec["preemption"] = map[string]any{"withinClusterQueue": "LowerPriority"}
		},
		"shares fairly": func(spec, _ map[string]any) {
			spec["fairSharing"], spec["cohortName"] = map[string]any{"weight": "1"}, "all"
		},
		"admits by usage":  func(spec, _ map[string]any) { spec["admissionScope"] = map[string]any{"admissionMode": "x"} },
		"has not opted in": func(_, annotations map[string]any) { delete(annotations, ManagedAnnotation) },
	} {
		f := newFakeKueue()
		change(f.queue["spec"].(map[string]any), f.queue["metadata"].(map[string]any)["annotations"].(map[string]any))
		for range 9 {
			f.submitWork(4)
		}
		h := kueueHelper(t, f)
		h.cfg.Namespaces = []string{"default"}
		r := step(t, h)
		if len(r.Unordered) != 1 || !strings.Contains(r.Unordered[0], "ClusterQueue gpus "+what) || f.writes != 4 {
			t.Errorf("%s: %v, %d writes", what, r.Unordered, f.writes)
		}
		for i := range f.works {
			if f.work(t, i).Spec.Priority != 0 {
				t.Errorf("%s: %+v has a priority", what, f.works[i])
			}
		}
	}
}

// TestKueueQuotas checks that the plan goes by the quotas: of four Workloads of two GPUs, the flavor with the
// fastest GPUs has the quota for one, and that with the second fastest for one more. With more quota, two go to
// the four fastest GPUs.
func TestKueueQuotas(t *testing.T) {
	f := newFakeKueue()
	quota := func(flavor int, gpus string) {
		group := f.queue["spec"].(map[string]any)["resourceGroups"].([]any)[0].(map[string]any)
		resources := group["flavors"].([]any)[flavor].(map[string]any)["resources"].([]any)
		resources[0].(map[string]any)["nominalQuota"] = gpus
	}
	quota(0, "3") // V100
	quota(2, "2") // H100
	for range 4 {
		f.submitWork(2)
	}
	h := kueueHelper(t, f)
	step(t, h)
	count := func() (types map[string]int) {
		types = map[string]int{}
		for i := range f.works {
			types[f.work(t, i).chosen()]++
		}
		return types
	}
	if types := count(); types["H100"] != 1 || types["V100"] != 1 {
		t.Errorf("%v", types)
	}
	quota(2, "8")
	f.nowS += int64(admissionWait.Seconds()) + 1
	step(t, h)
	f.nowS += int64(firstRefusalWait.Seconds()) + 1
	step(t, h)
	if types := count(); types["H100"] != 2 {
		t.Errorf("with more quota: %v", types)
	}
}

// TestKueueTakesBack checks that a type is taken back where Kueue does not admit the Workload, that the
// user's own selectors stay, and that what runs is not touched.
func TestKueueTakesBack(t *testing.T) {
	f := newFakeKueue()
	w := f.submitWork(4)
	own := map[string]any{"kubernetes.io/os": "linux"}
	template := w["spec"].(map[string]any)["podSets"].([]any)[0].(map[string]any)["template"].(map[string]any)
	template["spec"].(map[string]any)["nodeSelector"] = own
	h := kueueHelper(t, f)
	step(t, h)
	if got := f.work(t, 0).Spec.PodSets[0].Template.Spec.NodeSelector; got[typeLabel] != "H100" || len(got) != 2 {
		t.Fatalf("selectors: %v", got)
	}
	f.nowS += int64(admissionWait.Seconds()) + 1
	if r := step(t, h); len(r.Updates) != 1 || !strings.Contains(r.Waiting[0].Why, "Kueue did not admit it") {
		t.Fatalf("%+v", r)
	}
	want := map[string]string{"kubernetes.io/os": "linux"}
	got := f.work(t, 0)
	if !reflect.DeepEqual(got.Spec.PodSets[0].Template.Spec.NodeSelector, want) || got.chosen() != "" {
		t.Fatalf("after it was taken back: %+v", got)
	}
	if n := shown(t, h, "freed_total"); n != "1" {
		t.Errorf("%s were freed", n)
	}
	f.nowS += int64(firstRefusalWait.Seconds()) + 1
	step(t, h)
	admit(f.works[0])
	n := f.writes
	if r := step(t, h); len(r.Updates) > 0 || f.writes != n || len(r.Waiting) > 0 {
		t.Errorf("of a Workload that runs: %+v", r)
	}
}

// TestKueueTakesBackWithoutNodes cordons the nodes of the type that was chosen: it is taken back at the next look.
func TestKueueTakesBackWithoutNodes(t *testing.T) {
	f := newFakeKueue()
	f.submitWork(4)
	h := kueueHelper(t, f)
	step(t, h)
	if got := f.work(t, 0).chosen(); got != "H100" {
		t.Fatalf("on %s", got)
	}
	f.cordon("H100", true)
	step(t, h)
	if got := f.work(t, 0).chosen(); got == "H100" || shown(t, h, "freed_total") != "1" {
		t.Errorf("on %q, %s were freed", got, shown(t, h, "freed_total"))
	}
}

// TestKueueDown checks that faults of the API server end a loop without a write, and that conflicts do not.
func TestKueueDown(t *testing.T) {
	for _, test := range []struct {
		method, part string
		status       int
		err          error
		ends         bool
	}{
		{http.MethodGet, "workloads", 0, errDown, true},
		{http.MethodGet, "clusterqueues", 503, nil, true},
		{http.MethodGet, "localqueues", 403, nil, true},
		{http.MethodGet, "resourceflavors", 0, errors.New("slow"), true},
		{http.MethodGet, "workloads", 404, nil, true},
		{http.MethodPatch, "work0", 409, nil, false},
		{http.MethodPatch, "workloads", 500, nil, true},
	} {
		f := newFakeKueue()
		f.submitWork(4)
		f.submitWork(4)
		f.fail = func(method, path string) (int, error) {
			if method == test.method && strings.Contains(path, test.part) {
				return test.status, test.err
			}
			return 0, nil
		}
		h := kueueHelper(t, f)
		_, err := h.Step(t.Context())
		if (err != nil) != test.ends || test.ends && f.writes > 0 || !test.ends && f.writes == 0 {
			t.Errorf("%+v: %v, %d writes", test, err, f.writes)
		}
	}
}

// TestFalling compares the priorities with those of an exhaustive search.
func TestFalling(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 3000 {
		before := make([]int64, r.IntN(7))
		for i := range before {
			before[i] = r.Int64N(12) - 10
		}
		got := falling(before)
		changed, last := 0, int64(1)
		for i, p := range got {
			if p >= last {
				t.Fatalf("%v becomes %v", before, got)
			}
			last = p
			if p != before[i] {
				changed++
			}
		}
		if least := fewestChanges(before); changed != least {
			t.Fatalf("%v becomes %v with %d changes, %d would do", before, got, changed, least)
		}
	}
	// Where no room is left below, all are numbered again.
	if got := falling([]int64{leastPriority, leastPriority, leastPriority}); got[2] < leastPriority {
		t.Errorf("without room: %v", got)
	}
}

// fewestChanges tries all sets of numbers that stay.
func fewestChanges(before []int64) int {
	n := len(before)
	best := n
	for kept := range 1 << n {
		last, lastAt, changes, ok := int64(1), -1, 0, true
		for i, p := range before {
			if kept>>i&1 == 0 {
				changes++
				continue
			}
			ok = ok && last-p >= int64(i-lastAt)
			last, lastAt = p, i
		}
		if ok {
			best = min(best, changes)
		}
	}
	return best
}
