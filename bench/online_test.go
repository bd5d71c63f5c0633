package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// eventTrace is a simulation as lines: the events that were sent and the answers.
type eventTrace struct {
	events          []hare.Event
	lines, expected []byte
	out             *sim.Outcome
}

func feed(t *testing.T, inst *hare.Instance, name, parameters string) *eventTrace {
	t.Helper()
	p, err := registry.OpenSession(name, sim.Cluster(inst), []byte(parameters))
	if err != nil {
		t.Fatal(err)
	}
	f := &eventTrace{}
	f.out, err = sim.Run(t.Context(), inst, p, sim.Config{Log: func(r wire.Record) error {
		f.events = append(f.events, r.Event)
		f.lines = append(wire.AppendEvent(f.lines, r.Event), '\n')
		f.expected = append(wire.AppendAnswer(f.expected, hare.Answer{Seq: r.Event.Seq, Decisions: r.Decisions}), '\n')
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// firstJobs keeps the first n jobs.
func firstJobs(inst *hare.Instance, n int) *hare.Instance {
	inst.Jobs = inst.Jobs[:min(n, len(inst.Jobs))]
	return inst
}

// addNodeEvents adds nodes whose GPUs come and go.
func addNodeEvents(inst *hare.Instance) *hare.Instance {
	for i, n := range inst.Cluster.Nodes {
		n.Name += "-spot"
		at := int64(i) * 1e6
		for range 4 {
			n.Windows = append(n.Windows, hare.Window{StartUs: at, EndUs: at + 20e6})
			at += 33e6
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
	}
	return inst
}

// The simulator and sessions run the same core. A session over HTTP with its log in SQLite and a
// session in memory give the same answers to the same events, byte for byte, and the session's
// schedule is the simulator's.
func TestSimulatorAndSessionDecideAlike(t *testing.T) {
	gavel := func(sync string) *hare.Instance {
		gpus, err := trace.ParseGPUs("V100=4,P100=4,K80=4")
		if err != nil {
			t.Fatal(err)
		}
		inst, _, err := trace.Import("gavel", trace.ImportConfig{
			Config: trace.Config{GPUs: gpus, Jobs: 60, Sync: sync, Quantum: gavelRound},
			Trace:  trace.Source{Name: "gavel_trace_generated500_multi.csv"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return inst
	}
	for _, c := range []struct {
		name       string
		inst       *hare.Instance
		policy     string
		parameters string
	}{
		{"gavel", gavel("gang"), "hlas", ""},
		{"gavel, many queues", gavel("gang"), "hlas",
			`{"queues":3,"thresholds_s":[600,7200],"kappa":1,"reference":"V100"}`},
		{"gavel, rigid, first come", gavel("rigid"), "fifo", ""},
		{"relaxed with arrivals", firstJobs(frozen(t, "arrivals-200"), 60), "hlas", `{"thresholds_s":[20]}`},
		{"relaxed, GPUs come and go", addNodeEvents(frozen(t, "relaxed-50")), "hlas", `{"thresholds_s":[5]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := feed(t, c.inst, c.policy, c.parameters)
			store, err := sqlite.Open(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			code, answers, schedule := overHTTP(t, store, c.inst, c.policy, c.parameters, f.lines)
			if code != http.StatusOK || !bytes.Equal(answers, f.expected) {
				t.Errorf("over HTTP: %d, %s", code, differ(answers, f.expected))
			}
			if answers := inMemory(t, c.inst, c.policy, c.parameters, f.events); !bytes.Equal(answers, f.expected) {
				t.Errorf("in memory: %s", differ(answers, f.expected))
			}
			var followed struct {
				Verified bool
				Why      string
				Result   struct{ Value json.Number }
			}
			if err := json.Unmarshal(schedule, &followed); err != nil || !followed.Verified ||
				followed.Result.Value.String() != f.out.Value.String() {
				t.Errorf("the session followed a plan of value %s (verified: %v, %s, %v), the simulator one of %s",
					followed.Result.Value, followed.Verified, followed.Why, err, f.out.Value)
			}
			if f.out.Events < 2000 || len(sim.Cluster(c.inst).Nodes) < len(c.inst.Cluster.Nodes) && f.out.Lost == 0 {
				t.Errorf("%d events, %d tasks lost: too little to compare", f.out.Events, f.out.Lost)
			}
		})
	}
}

// differ shows the first line that differs.
func differ(got, want []byte) string {
	a, b := slices.Collect(bytes.Lines(got)), slices.Collect(bytes.Lines(want))
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i], b[i]) {
			return "line " + strconv.Itoa(i+1) + " of " + strconv.Itoa(len(b)) + ":\n got " +
				string(bytes.Join(a[min(i, len(a)):min(i+1, len(a))], nil)) + "want " +
				string(bytes.Join(b[min(i, len(b)):min(i+1, len(b))], nil))
		}
	}
	return "no line differs"
}

// overHTTP sends lines of events to a session on loopback and reads back the plan that
// the session followed.
func overHTTP(t *testing.T, store store.SessionStore, inst *hare.Instance, policy, parameters string,
	lines []byte) (code int, answers, schedule []byte) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{}})
	all, err := sessions.Open(t.Context(), sessions.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(servetest.New(t, svc, api.Config{Sessions: all}))
	defer func() {
		server.Close()
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	}()
	body := append([]byte(`{"policy":"`+policy+`","cluster":`), wire.AppendCluster(nil, sim.Cluster(inst))...)
	if parameters != "" {
		body = append(append(body, `,"parameters":`...), parameters...)
	}
	call := func(method, path, kind string, body []byte) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, text
	}
	resp, text := call("POST", "/v1/sessions", "application/json", append(body, '}'))
	at := resp.Header.Get("Location")
	if at == "" {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	resp, answers = call("POST", at+"/events", "application/x-ndjson", lines)
	_, schedule = call("GET", at+"/schedule", "", nil)
	return resp.StatusCode, answers, schedule
}

// inMemory submits events to a session without HTTP and disk.
func inMemory(t *testing.T, inst *hare.Instance, policy, parameters string, events []hare.Event) (answers []byte) {
	t.Helper()
	all, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := sessions.SessionConfig{Cluster: *sim.Cluster(inst), Policy: policy}
	if parameters != "" {
		cfg.Parameters = json.RawMessage(parameters)
	}
	session, err := all.Create(t.Context(), "", cfg)
	if err != nil {
		t.Fatal(err)
	}
	promises := make([]*sessions.Promise, len(events))
	for i, e := range events {
		if promises[i], err = session.Submit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range promises {
		a, err := p.Wait(t.Context())
		if err != nil {
			t.Fatalf("event %d: %v", i+1, err)
		}
		answers = append(wire.AppendAnswer(answers, a), '\n')
	}
	return answers
}
