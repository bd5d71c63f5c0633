package ray

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

func (f *fakeRay) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.UnixMicro(f.nowUs)
}

// submitTo adds a job of so many seconds on a V100, and twice as many on a T4.
func submitTo(t *testing.T, f *fakeRay, dir, id string, gpus int64, seconds float64) {
	t.Helper()
	submitSpec(t, f, dir, id, Spec{GPUs: gpus, On: []TypeTime{{"V100", seconds}, {"T4", 2 * seconds}}})
}

func submitSpec(t *testing.T, f *fakeRay, dir, id string, s Spec) {
	t.Helper()
	spec := &s
	s.Entrypoint, s.Name, s.User, s.Retries = "train", id, "ann", 3
	j, err := OpenJournal(dir)
	if err == nil {
		_, err = Submit(t.Context(), j, id, spec, f.now())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newHelper is another process that leads, once the one before has ended.
func newHelper(t *testing.T, f *fakeRay, dir string, change func(*Config)) *Helper {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Write: true, PlanTime: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg, &Dashboard{URL: f.server.URL}, &advice.InProcess{}, j)
	if err != nil {
		t.Fatal(err)
	}
	h.now = f.now
	h.lastPlan = f.now()
	if cfg.Write {
		if led, err := h.Lead(t.Context()); err != nil || !led {
			t.Fatalf("does not lead: %v", err)
		}
	}
	t.Cleanup(h.Resign)
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

func states(h *Helper) string {
	var b strings.Builder
	for _, e := range h.journal.Queue.Entries {
		fmt.Fprintf(&b, "%s:%s ", e.ID, e.State)
	}
	return strings.TrimSpace(b.String())
}

// TestStartsWhatFits checks that jobs start by the plan, as far as they fit beside the work of others,
// and that their ends are read.
func TestStartsWhatFits(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	f.addOthers("theirs", "bbbbbbbb02", 3, 50)
	f.pass(5)
	for i, seconds := range []float64{100, 90, 20, 10} {
		submitTo(t, f, dir, fmt.Sprint("j", i), 1, seconds)
	}
	h := newHelper(t, f, dir, nil)
	r := step(t, h)
	if len(r.Starts) != 2 || r.Starts[0].Job != "j2" || r.Starts[1].Job != "j3" || r.PlanError != nil || r.Waiting != 2 {
		t.Fatalf("%+v", r)
	}
	for range 100 {
		f.pass(5)
		step(t, h)
	}
	if got := states(h); got != "j0:succeeded j1:succeeded j2:succeeded j3:succeeded" {
		t.Error(got)
	}
	for _, e := range h.journal.Queue.Entries {
		if f.starts[e.ID] != 1 || f.done[e.ID] != 1 {
			t.Errorf("%s began %d times and completed %d times", e.ID, f.starts[e.ID], f.done[e.ID])
		}
	}
}

// TestCPUsAndMemory checks that jobs are submitted where their CPUs and their memory fit too: beside jobs of
// the queue, and beside work of others that uses no GPU, whether it has lasted or has just begun.
func TestCPUsAndMemory(t *testing.T) {
	for name, want := range map[string]Spec{"cpus": {CPUs: 10}, "memory": {MemoryMiB: 40 << 10},
		"memory and a fraction of a CPU": {MemoryMiB: 40 << 10, CPUs: 0.5}} {
		t.Run(name, func(t *testing.T) {
			f, dir := newFakeRay(t), t.TempDir()
			want.GPUs = 1
			want.On = []TypeTime{{"V100", 10}}
			submitSpec(t, f, dir, "one", want)
			submitSpec(t, f, dir, "two", want) // the node has a GPU for it, and no more
			submitTo(t, f, dir, "plain", 1, 8)
			h := newHelper(t, f, dir, nil)
			started := func(ids string) {
				t.Helper()
				r := step(t, h)
				var got []string
				for _, s := range r.Starts {
					got = append(got, s.Job)
				}
				if slices.Sort(got); strings.Join(got, " ") != ids || r.PlanError != nil {
					t.Errorf("started %v, not %s: %+v", got, ids, r)
				}
				f.pass(5)
			}
			started("one plain")
			if s := f.get("one"); s.CPUs != want.CPUs || s.Memory != want.MemoryMiB*mib {
				t.Errorf("%+v", s.submission)
			}
			// until lets loops pass in which nothing starts, until a job has ended in Ray.
			until := func(id string) {
				t.Helper()
				for n := 0; f.get(id).status != "SUCCEEDED"; n++ {
					if n == 100 {
						t.Fatalf("%s does not end", id)
					}
					started("")
				}
			}
			until("one")
			started("two")
			until("two")
			// Others use what the next job needs, for seconds and for minutes.
			for i, seconds := range []float64{6, 120} {
				theirs, next := fmt.Sprint("theirs", i), fmt.Sprint("next", i)
				f.addOthersWith(theirs, "aaaaaaaa01", submission{CPUs: 10, Memory: 40 << 30}, seconds)
				f.pass(5)
				submitSpec(t, f, dir, next, want)
				until(theirs)
				for n := 0; f.get(next) == nil; n++ {
					if r := step(t, h); n == 20 || r.PlanError != nil {
						t.Fatalf("%s does not start: %+v", next, r)
					}
					f.pass(5)
				}
				until(next)
			}
		})
	}
}

// TestNoNodeWithEnough checks a job that needs more CPUs than any node has, and one that needs memory where
// Ray tells of none.
func TestNoNodeWithEnough(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	for i := range f.nodes {
		f.nodes[i].has.memoryMiB = 0
	}
	submitSpec(t, f, dir, "cpus", Spec{GPUs: 1, CPUs: 17})
	submitSpec(t, f, dir, "memory", Spec{GPUs: 1, MemoryMiB: 10})
	submitTo(t, f, dir, "plain", 1, 10)
	h := newHelper(t, f, dir, nil)
	if r := step(t, h); r.NoRoom != 2 || len(r.Starts) != 1 || r.Starts[0].Job != "plain" {
		t.Errorf("%+v", r)
	}
}

// TestSteadyUse checks that only use by others that lasts changes what a session is told of a node.
func TestSteadyUse(t *testing.T) {
	var o others
	for i, c := range []struct {
		now, steady int64
	}{{8, 8}, {2, 8}, {9, 8}, {5, 8}, {7, 2}, {6, 2}, {6, 2}, {6, 2}, {9, 6}} {
		o.see(amount{cpuMilli: c.now}, 1+int64(i)*othersWindowUs/4)
		if o.steady.cpuMilli != c.steady {
			t.Errorf("reading %d: %+v", i, o)
		}
	}
}

// TestDryRunSubmitsNothing checks the default, also with another process that leads.
func TestDryRunSubmitsNothing(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "a", 2, 10)
	newHelper(t, f, dir, nil)
	before, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	dry := newHelper(t, f, dir, func(c *Config) { c.Write = false })
	for range 2 {
		if r := step(t, dry); len(r.Starts) != 1 || len(f.jobs) != 0 {
			t.Fatalf("%+v, %d jobs in Ray", r, len(f.jobs))
		}
	}
	if after, _ := os.ReadFile(filepath.Join(dir, journalFile)); string(after) != string(before) {
		t.Errorf("the journal has become %s", after)
	}
}

// TestOneLeads checks that of two processes one leads, and that one which was overtaken writes and
// submits nothing.
func TestOneLeads(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	first := newHelper(t, f, dir, nil)
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := New(Config{Write: true}, first.dashboard, &advice.InProcess{}, j)
	if err != nil {
		t.Fatal(err)
	}
	if led, err := second.Lead(t.Context()); led || err != nil {
		t.Fatalf("two lead: %v", err)
	}
	first.release() // as a file system that loses locks does: the first one still believes that it leads
	if led, err := second.Lead(t.Context()); !led || err != nil {
		t.Fatalf("nobody leads: %v", err)
	}
	defer second.Resign()
	submitTo(t, f, dir, "a", 1, 10)
	if _, err := first.Step(t.Context()); !errors.Is(err, errFenced) || len(f.jobs) > 0 {
		t.Fatalf("%v, %d jobs in Ray", err, len(f.jobs))
	}
}

// brokenAdvisor fails.
type brokenAdvisor struct{ advice.InProcess }

func (*brokenAdvisor) Apply(context.Context, []hare.Event) ([]hare.Answer, error) {
	return nil, errors.New("down")
}

// TestFirstComeFirstServedWithoutPlan checks that jobs start in order after a while without plans, that
// a wide job is not passed on its types, and that plans count again when they come.
func TestFirstComeFirstServedWithoutPlan(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "a", 3, 1000)
	submitTo(t, f, dir, "wide", 4, 10)
	submitTo(t, f, dir, "c", 1, 10)
	h := newHelper(t, f, dir, nil)
	good := h.session.Advisor
	h.session.Advisor = &brokenAdvisor{}
	if r := step(t, h); len(r.Starts) > 0 || r.PlanError == nil {
		t.Fatalf("%+v", r)
	}
	f.pass(61)
	r := step(t, h)
	if len(r.Starts) != 2 || r.Starts[0].Job != "a" || r.Starts[1].Job != "c" ||
		r.Starts[1].Type != "V100" || !r.InOrder {
		t.Fatalf("%+v", r)
	}
	f.pass(20)
	submitTo(t, f, dir, "d", 1, 10)
	h.session.Advisor = good
	if r = step(t, h); r.PlanError != nil || len(r.Starts) != 1 || r.Starts[0].Job != "d" {
		t.Fatalf("%+v", r)
	}
}

// TestCancel checks jobs that wait, run, and stay pending in Ray, which forgets that it was to stop them.
func TestCancel(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "runs", 4, 1000)
	submitTo(t, f, dir, "pends", 2, 1000)
	h := newHelper(t, f, dir, nil)
	step(t, h)
	f.addOthers("first", "aaaaaaaa01", 2, 300)
	slices.Reverse(f.jobs) // Ray begins the other one before
	f.pass(5)
	submitTo(t, f, dir, "waits", 1, 1)
	step(t, h)
	for _, id := range []string{"runs", "pends", "waits"} {
		if err := Cancel(t.Context(), h.journal, id, "ann", f.now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := Cancel(t.Context(), h.journal, "none", "ann", f.now()); err == nil {
		t.Error("a job that is not there was cancelled")
	}
	for range 200 {
		f.pass(5)
		step(t, h)
	}
	if got := states(h); got != "runs:cancelled pends:cancelled waits:cancelled" || f.done["runs"]+f.done["pends"] > 0 {
		t.Error(got, f.done)
	}
	if err := Cancel(t.Context(), h.journal, "runs", "ann", f.now()); !errors.Is(err, ErrEnded) {
		t.Errorf("again: %v", err)
	}
}

// TestManySubmitAtOnce checks that no submission is lost beside others and a loop.
func TestManySubmitAtOnce(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	h := newHelper(t, f, dir, nil)
	done := make(chan error)
	for w := range 8 {
		go func() {
			j, err := OpenJournal(dir)
			for i := 0; i < 10 && err == nil; i++ {
				_, err = Submit(t.Context(), j, "", &Spec{Entrypoint: fmt.Sprint(w, i), GPUs: 1}, f.now())
			}
			done <- err
		}()
	}
	for range 8 {
		step(t, h)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	step(t, h)
	if n := len(h.journal.Queue.Entries); n != 80 {
		t.Errorf("%d jobs", n)
	}
}

// TestRelease checks that all jobs go to Ray once, and that the commands which are printed carry them.
func TestRelease(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	for i := range 4 {
		submitTo(t, f, dir, fmt.Sprint("j", i), 2, 10)
	}
	submitSpec(t, f, dir, "j4", Spec{GPUs: 1, CPUs: 2.5, MemoryMiB: 3})
	h := newHelper(t, f, dir, nil)
	lines := h.Commands(t.Context(), "http://head:8265")
	if len(lines) != 5 || !strings.Contains(lines[0], "--submission-id j0 --entrypoint-num-gpus 2 --entrypoint-res") ||
		!strings.Contains(lines[4], "--entrypoint-num-gpus 1 --entrypoint-num-cpus 2.5 --entrypoint-memory 3145728 ") ||
		!strings.Contains(lines[4], `"cpus":"2.5"`) || !strings.Contains(lines[4], `"memory_mib":"3"`) ||
		!strings.HasSuffix(lines[0], " -- train") {
		t.Errorf("%q", lines)
	}
	for range 2 {
		if _, err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.jobs) != 5 || len(h.Commands(t.Context(), "")) != 0 {
		t.Errorf("%d jobs are in Ray", len(f.jobs))
	}
}

// TestSpecsAreChecked checks what users may give wrong.
func TestSpecsAreChecked(t *testing.T) {
	for name, spec := range map[string]Spec{
		"/entrypoint":              {GPUs: 1},
		"/gpus":                    {Entrypoint: "x"},
		"/cpus":                    {Entrypoint: "x", GPUs: 1, CPUs: math.NaN()},
		"/memory_mib":              {Entrypoint: "x", GPUs: 1, MemoryMiB: -1},
		"/on/1":                    {Entrypoint: "x", GPUs: 1, On: []TypeTime{{"T4", 1}, {"t4", 2}}},
		"/limit_s":                 {Entrypoint: "x", GPUs: 1, LimitS: -1},
		"/retries":                 {Entrypoint: "x", GPUs: 1, Retries: -1},
		"/runtime_env/working_dir": {Entrypoint: "x", GPUs: 1, RuntimeEnv: map[string]any{"working_dir": "."}},
		"/runtime_env/env_vars":    {Entrypoint: "x", GPUs: 1, RuntimeEnv: map[string]any{"env_vars": 3}},
	} {
		var invalid *InvalidError
		if err := spec.Validate(); !errors.As(err, &invalid) || invalid.Pointer != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"V100=0", "V100=x", "V100=-3s", "T4=1e300"} {
		if on, err := ParseOn(text); err == nil {
			t.Errorf("%s: %v", text, on)
		}
	}
	if got := ShellLine([]string{"python", "a b.py", "it's", ""}); got != `python 'a b.py' 'it'"'"'s' ''` {
		t.Error(got)
	}
}

// TestMetrics checks that metrics are written.
func TestMetrics(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "a", 1, 10)
	h := newHelper(t, f, dir, nil)
	shown := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if b := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(b, want) {
			t.Errorf("%d without %q: %s", w.Code, want, b)
		}
	}
	shown("\nhare_ray_submitted_total 0\n")
	step(t, h)
	shown("\n# HELP hare_ray_submitted_total Jobs that were submitted to Ray.\n" +
		"# TYPE hare_ray_submitted_total counter\nhare_ray_submitted_total 1\n")
}

// TestFreesJobsOfDeadNodes lets a node die before Ray begins the job that was sent there: the job runs elsewhere at
// the next look, and once. One that Ray does not begin on a node that lives is counted, and left to Ray.
func TestFreesJobsOfDeadNodes(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitSpec(t, f, dir, "a", Spec{GPUs: 2, On: []TypeTime{{"V100", 10}, {"T4", 20}}})
	h := newHelper(t, f, dir, nil)
	if r := step(t, h); len(r.Starts) != 1 || r.Starts[0].Type != "V100" {
		t.Fatalf("%+v", r)
	}
	f.mu.Lock()
	f.nowUs += 61e6 // Ray is busy
	f.mu.Unlock()
	if step(t, h); h.counted.Stuck != 1 || h.counted.Freed != 0 {
		t.Errorf("%+v", h.counted)
	}
	f.mu.Lock()
	f.nodes[0].dead = true
	f.mu.Unlock()
	h.Resign()
	h = newHelper(t, f, dir, nil)
	if r := step(t, h); h.counted.Freed != 1 || len(r.Starts) != 1 || r.Starts[0].Type != "T4" {
		t.Errorf("%+v, %+v", h.counted, r)
	}
	for range 10 {
		f.pass(5)
		step(t, h)
	}
	if got := states(h); got != "a:succeeded" || f.done["a"] != 1 || f.starts["a"] != 1 {
		t.Errorf("%s, %v", got, f.starts)
	}
}

// TestTypesThatNodesHave checks that jobs are sent to types by the names of resources that nodes have, where Ray takes
// no labels and where jobs are released: by no other name, and not at all where no node has one.
func TestTypesThatNodesHave(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitSpec(t, f, dir, "lower", Spec{GPUs: 1, On: []TypeTime{{"t4", 10}, {"h100", 1}}})
	submitSpec(t, f, dir, "none", Spec{GPUs: 1, On: []TypeTime{{"H100", 1}}})
	h := newHelper(t, f, dir, nil)
	lines := h.Commands(t.Context(), "x")
	if len(lines) != 2 || !strings.Contains(lines[0], `"accelerator_type:T4":0.001`) {
		t.Errorf("%q", lines)
	}
	r, err := h.Release(t.Context())
	if err != nil || len(r.Starts) != 1 || r.NoRoom != 1 || len(f.jobs) != 1 ||
		typeWanted(&f.jobs[0].submission) != "T4" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, resource := range []string{"", "accelerator_type:V100"} {
		n := newNode(&rayNode{NodeID: "aaaaaaaa01", State: "ALIVE",
			Labels:    map[string]string{"ray.io/accelerator-type": "V100"},
			Resources: map[string]float64{"GPU": 1, resource: 1}})
		if got := n.reach(true); got != (resource != "") || !n.reach(false) {
			t.Errorf("a node with the resource %q: %v", resource, got)
		}
	}
}

// TestShownState checks what servers that follow the helper read.
func TestShownState(t *testing.T) {
	f, dir := newFakeRay(t), t.TempDir()
	submitTo(t, f, dir, "j", 1, 100)
	h := newHelper(t, f, dir, nil)
	h.session.Advisor = &advice.InProcess{Dir: dir, Helper: "ray", Every: time.Second}
	step(t, h)
	spec := &h.journal.Queue.Get("j").Spec
	text, err := os.ReadFile(filepath.Join(dir, sessiondoc.HelperFile))
	var s sessiondoc.HelperState
	if err != nil || json.Unmarshal(text, &s) != nil || s.Jobs["j"] != (sessiondoc.HelperJob{Name: spec.Name,
		User: spec.User, Next: true}) {
		t.Fatalf("%+v %v", s.Jobs, err)
	}
	f.pass(5)
	step(t, h)
	if text, err = os.ReadFile(filepath.Join(dir, sessiondoc.HelperFile)); err != nil || strings.Contains(string(text),
		`"next":true`) {
		t.Error(string(text), err)
	}
}
