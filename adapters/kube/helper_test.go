package kube

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/adapters/advice"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

func testHelper(t *testing.T, f *fakeKube, change func(*Config)) *Helper {
	t.Helper()
	cfg := Config{Write: true, PlanTime: time.Hour, Logger: slog.New(slog.DiscardHandler), Events: true}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg, f, &advice.InProcess{}, &Journal{})
	if err != nil {
		t.Fatal(err)
	}
	h.now = func() time.Time { return time.Unix(f.nowS, 0) }
	return h
}

func step(t *testing.T, h *Helper) *Result {
	t.Helper()
	r, err := h.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLetsGoWhatFits checks that Jobs are let go on one type each, only as many as fit, and that a
// second loop at the same time lets no more go.
func TestLetsGoWhatFits(t *testing.T) {
	f := newFakeKube()
	for range 10 {
		f.submit(4, 1, 4, 4, 4)
	}
	h := testHelper(t, f, nil)
	r := step(t, h)
	if len(r.Updates) != 6 || f.patches != 6 || f.events != 6 || len(r.Waiting) != 10 {
		t.Fatalf("%d updates, %d patches, %d events, %d waiting", len(r.Updates), f.patches, f.events, len(r.Waiting))
	}
	if n := len(f.expected); n != 4 || !strings.Contains(f.expected[0], "Hare expects the Job to start in ") {
		t.Errorf("%d Jobs were told when they start: %.300s", n, f.expected)
	}
	if r = step(t, h); len(r.Updates) > 0 { // the pods are not made yet
		t.Errorf("before the pods are there: %+v", r.Updates)
	}
	f.run(1)
	if r = step(t, h); len(r.Updates) > 0 {
		t.Errorf("while the pods run: %+v", r.Updates)
	}
	for _, j := range f.jobs {
		if f.mixed(j) || !j.suspend && len(j.on) != 4 {
			t.Errorf("%s is on %v", j.name, j.on)
		}
	}
}

// TestDryRunWritesNothing checks the default.
func TestDryRunWritesNothing(t *testing.T) {
	f := newFakeKube()
	f.submit(4, 1, 4, 8, 2)
	r := step(t, testHelper(t, f, func(c *Config) { c.Write = false }))
	if len(r.Updates) != 1 || f.patches > 0 || f.events > 0 || r.Updates[0].Type != "H100" {
		t.Errorf("%+v, %d patches, %d events", r.Updates, f.patches, f.events)
	}
}

// TestLeavesAlone checks who is not let go, and that the reason is told.
func TestLeavesAlone(t *testing.T) {
	f := newFakeKube()
	f.submit(1, 1, 4, 8, 2).annotations = nil // has not opted in
	f.submit(1, 1, 4, 8, 2).annotations[HoldAnnotation] = "until Monday"
	f.submit(1, 9, 4, 8, 2) // wider than any node
	f.submit(1, 1, 4, 8, 2).selector = map[string]string{"zone": "b"}
	typed := f.submit(1, 1, 4, 8, 2)
	typed.selector = map[string]string{typeLabel: "T4"}
	f.submit(4, 1, 4, 8, 2).cpuMilli = 9000 // no node has as many CPUs
	r := step(t, testHelper(t, f, nil))
	if len(r.Updates) != 1 || r.Updates[0].Job != "default/"+typed.name || typed.selector[typeLabel] != "T4" {
		t.Errorf("%+v", r.Updates)
	}
	want := map[string]int{"is held by the annotation " + HoldAnnotation: 1,
		"fits on no GPU type, even if all nodes were free": 2}
	for reason, n := range want {
		if r.Left[reason] != n {
			t.Errorf("%q: %d, want %d of %v", reason, r.Left[reason], n, r.Left)
		}
	}
	whys := fmt.Sprint(r.Waiting)
	if !strings.Contains(whys, "lack room") {
		t.Errorf("a Job with too many CPUs: %v", r.Waiting)
	}
}

// TestNodesOutOfService checks that cordoned and tainted nodes get nothing.
func TestNodesOutOfService(t *testing.T) {
	f := newFakeKube()
	for i, n := range f.nodes {
		switch {
		case i < 2:
			n.cordoned = true
		case i < 5:
			n.taint = "team"
		}
	}
	for range 3 {
		f.submit(2, 2, 4, 4, 4)
	}
	if r := step(t, testHelper(t, f, nil)); len(r.Updates) != 1 || r.Updates[0].Type != "H100" {
		t.Errorf("%+v", r.Updates)
	}
}

// TestMixedTypes checks that a Job which the cluster has put on two types holds its GPUs in the session.
func TestMixedTypes(t *testing.T) {
	f := newFakeKube()
	other := f.submit(12, 1, 400, 400, 400)
	other.suspend, other.annotations[ManagedAnnotation] = false, ""
	f.run(1)
	for range 4 {
		f.submit(4, 1, 4, 4, 4)
	}
	r := step(t, testHelper(t, f, nil))
	if !f.mixed(other) || len(r.Updates) != 3 || strings.Contains(fmt.Sprint(r.Waiting), "lack room") {
		t.Errorf("mixed %v, %d updates, %+v", f.mixed(other), len(r.Updates), r.Waiting)
	}
}

// TestRelease checks that all Jobs that take part are let go without Hare.
func TestRelease(t *testing.T) {
	f := newFakeKube()
	for range 3 {
		f.submit(4, 1, 4, 8, 2)
	}
	f.submit(1, 1, 4, 8, 2).annotations = nil
	f.submit(1, 1, 4, 8, 2).annotations[HoldAnnotation] = "yes"
	h := testHelper(t, f, func(c *Config) { c.Write = false })
	if r, err := h.Release(t.Context()); err != nil || len(r.Updates) != 3 || f.patches > 0 {
		t.Fatalf("dry: %+v, %v", r, err)
	}
	if r, err := testHelper(t, f, nil).Release(t.Context()); err != nil || len(r.Updates) != 3 || f.patches != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, j := range f.jobs[:3] {
		if j.suspend || len(j.selector) > 0 {
			t.Errorf("%+v", j)
		}
	}
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.ndjson")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeKube()
	f.submit(1, 1, 4, 8, 2)
	h := testHelper(t, f, nil)
	h.journal = j
	f.fail = func(method, _ string) (int, error) {
		if method == http.MethodPatch {
			return http.StatusConflict, nil
		}
		return 0, nil
	}
	step(t, h)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"event":"write","job":"default/job0"`) ||
		!strings.Contains(lines[1], `"event":"conflict"`) || !strings.Contains(lines[1], "pretended") {
		t.Errorf("%s", text)
	}
}

// TestSpreadPods checks that a pod of four GPUs is not let go together with small ones that the
// scheduler may spread over all nodes.
func TestSpreadPods(t *testing.T) {
	f := newFakeKube()
	for _, n := range f.nodes[2:] {
		n.cordoned = true
	}
	f.submit(4, 1, 4, 4, 4)
	f.submit(1, 4, 4, 4, 4)
	h := testHelper(t, f, nil)
	if r := step(t, h); len(r.Updates) != 1 {
		t.Errorf("%+v", r.Updates)
	}
	if r := step(t, h); len(r.Updates) != 0 { // the pods are not bound yet
		t.Errorf("%+v", r.Updates)
	}
	f.run(1)
	if r := step(t, h); len(r.Updates) != 1 {
		t.Errorf("%+v", r.Updates)
	}
}

// TestSuspendedAgain checks that a Job which somebody suspends after it was let go stays so.
func TestSuspendedAgain(t *testing.T) {
	f := newFakeKube()
	j := f.submit(1, 1, 4, 4, 4)
	h := testHelper(t, f, nil)
	step(t, h)
	j.suspend, j.annotations[StartedAnnotation] = true, "H100"
	if r := step(t, h); len(r.Updates) != 0 || !j.suspend || len(r.Reasons()) != 1 {
		t.Errorf("%+v, %v", r.Updates, r.Left)
	}
	delete(j.annotations, StartedAnnotation)
	if r := step(t, h); len(r.Updates) != 1 || j.suspend {
		t.Errorf("%+v, %v", r.Updates, r.Left)
	}
}

// TestOneJobDoesNotStopOthers checks a Job that is absurdly wide, one of another controller, and rules
// that the helper does not understand.
func TestOneJobDoesNotStopOthers(t *testing.T) {
	h := testHelper(t, newFakeKube(), nil)
	var jobs []job
	for _, text := range []string{
		`"spec":{"suspend":true,"parallelism":2000000000,"template":{"spec":{SPEC}}}`,
		`"spec":{"suspend":true,"template":{"spec":{SPEC,"affinity":{"podAntiAffinity":` +
			`{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}}}}`,
		`"spec":{"suspend":true,"template":{"spec":{SPEC,"topologySpreadConstraints":` +
			`[{"whenUnsatisfiable":"DoNotSchedule"}]}}}`,
		`"spec":{"suspend":true,"template":{"spec":{SPEC,"resourceClaims":[{}]}}}`,
		`"spec":{"suspend":true,"template":{"spec":{"containers":[{"resources":{"limits":` +
			`{"nvidia.com/gpu":1,"rdma/hca":1}}}]}}}`,
		`"spec":{"suspend":true,"template":{"spec":{"containers":[{"ports":[{"hostPort":80}],"resources":{"limits":` +
			`{"nvidia.com/gpu":1}}}]}}}`,
		`"spec":{"suspend":true,"template":{"spec":{SPEC}}}`,
		`"spec":{"suspend":true,"template":{"spec":{SPEC}}}`,
	} {
		spec := `"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]`
		owner := ""
		if len(jobs) == 6 {
			owner = `,"ownerReferences":[{"kind":"JobSet","controller":true}]`
		}
		var j job
		whole := fmt.Sprintf(`{"metadata":{"name":"j%d","uid":"u%d","annotations":{"hare.dev/managed":"true"}%s},%s}`,
			len(jobs), len(jobs), owner, strings.Replace(text, "SPEC", spec, 1))
		if err := json.Unmarshal([]byte(whole), &j); err != nil {
			t.Fatalf("%s: %v", whole, err)
		}
		jobs = append(jobs, j)
	}
	var n node
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"a","labels":{"nvidia.com/gpu.product":"V100"}},"status":`+
		`{"allocatable":{"nvidia.com/gpu":4}}}`), &n); err != nil {
		t.Fatal(err)
	}
	s, err := h.arrange([]node{n}, nil, jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.forSession(s); len(s.waiting) != 1 || len(s.left) != 7 {
		t.Errorf("%d wait, %v", len(s.waiting), s.left)
	}
}

// TestShownState checks what servers that follow the helper read: the names of Kubernetes, and what was just let go.
func TestShownState(t *testing.T) {
	f, dir := newFakeKube(), t.TempDir()
	for range 10 {
		f.submit(4, 1, 4, 4, 4)
	}
	h := testHelper(t, f, nil)
	h.session.Advisor = &advice.InProcess{Dir: dir, Helper: "kube", Every: time.Minute}
	r := step(t, h)
	text, err := os.ReadFile(filepath.Join(dir, sessiondoc.HelperFile))
	var s sessiondoc.HelperState
	if err != nil || json.Unmarshal(text, &s) != nil || s.Helper != "kube" || s.EveryS != 60 || len(s.Jobs) != 10 {
		t.Fatal(string(text), err)
	}
	for _, u := range r.Updates {
		namespace, name, _ := strings.Cut(u.Job, "/")
		if got := s.Jobs[u.Job]; got != (sessiondoc.HelperJob{Name: name, User: namespace, Next: true}) {
			t.Errorf("%s: %+v", u.Job, got)
		}
	}
}
