package slurm

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The metrics have the counts of the last loop, each name once.
func TestMetrics(t *testing.T) {
	h := testHelper(t, newFakeSlurm(), t.TempDir(), nil)
	for _, want := range []string{"\nhare_slurm_loops_total 0\n", "\nhare_slurm_loops_total 1\n"} {
		w := httptest.NewRecorder()
		h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d without %q: %s", w.Code, want, w.Body)
		}
		if _, err := h.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// oddSlurm is a Slurm of which one job has a state, a limit and a number of nodes that nobody knows, and one node has
// odd GPUs and a comment in which keys stand.
type oddSlurm struct{ *fakeSlurm }

func (o oddSlurm) Run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	text, err := o.fakeSlurm.Run(ctx, stdin, name, args...)
	switch {
	case name == "env": // the queue by columns
		lines := strings.SplitAfter(string(text), "\n")
		lines[0] = strings.NewReplacer("PENDING", "EXPEDITING", "60:00", "soon").Replace(lines[0])
		text = []byte(strings.Join(lines, ""))
	case name == "sprio":
		text = append([]byte("sprio: be patient\n"), text...)
	case len(args) > 1 && args[0] == "-o":
		text = append(text,
			"NodeName=odd CPUTot=8 Gres=gpu:v100:many State=ASLEEP Partitions=gpu Comment=State=DOWN Gres=gpu:9\n"...)
	}
	return text, err
}

// TestOddValues goes on where values of a job, a node and a priority cannot be read, and counts them.
func TestOddValues(t *testing.T) {
	f := newFakeSlurm()
	for range 6 {
		f.submit(1000)
	}
	h := testHelper(t, f, t.TempDir(), nil)
	h.commands = oddSlurm{f}
	if r, err := h.Step(t.Context()); err != nil || r.Jobs != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	w := httptest.NewRecorder()
	h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := "\nhare_slurm_unread_total 5\n"; !strings.Contains(w.Body.String(), want) {
		t.Errorf("without %q: %s", want, w.Body)
	}
}

// TestWholeNodesByVersion takes OverSubscribe=NO for whole nodes before Slurm 26.05 alone.
func TestWholeNodesByVersion(t *testing.T) {
	columns := map[string][]string{"JobID": {"7"}, "ArrayJobID": {"7"}, "State": {"PENDING"}, "OverSubscribe": {"NO"},
		"SubmitTime": {"1800000000"}, "NumNodes": {"1"}, "tres-per-node": {"gres:gpu:1"}}
	for version, want := range map[string]bool{"25.11.2": true, "26.05.0": false, "27.02.1": false} {
		nodes := []byte("NodeName=n1 Version=" + version + " Gres=gpu:v100:2 State=IDLE\n")
		document, err := readQueue(t.Context(), squeueOf(func(c string) []string { return columns[c] }), nodes)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(nodes, document, nil, 1_800_000_010e6)
		if err != nil || len(s.Jobs) != 1 || s.Jobs[0].Exclusive != want {
			t.Errorf("%s: %+v, %v", version, s, err)
		}
	}
}
