package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
)

func newSimulationServer(t *testing.T, cfg service.Config) (http.Handler, *service.Service) {
	t.Helper()
	cfg.Solver = solver.Config{Version: "test"}
	svc := service.New(cfg)
	return servetest.New(t, svc, api.Config{MaxBodyBytes: 1 << 20}), svc
}

// shortTrace is a trace in Gavel's format; its first job takes 100 leases of 360 s.
const shortTrace = `job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight
0,0,ResNet-18 (batch size 64),20000,1,1
1,100,LM (batch size 20),10000,1,2
2,500,ResNet-50 (batch size 32),8000,2,1
`

func traceBody(t *testing.T, policies, more string) string {
	t.Helper()
	text, err := json.Marshal(shortTrace)
	if err != nil {
		t.Fatal(err)
	}
	return `{"policies":[` + policies + `],"trace":{"text":` + string(text) + `},"gpus":{"V100":2,"K80":2}` + more + `}`
}

type simulationAnswer struct {
	Status string
	Asked  int
	Runs   []map[string]any
	Means  []map[string]any
}

func simulated(t *testing.T, h http.Handler, body string) (string, simulationAnswer) {
	t.Helper()
	w := request(t, h, "POST", "/v1/simulations", body)
	var a simulationAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	return w.Body.String(), a
}

// TestSimulationByHand runs a job of two rounds of 5 s and a job of one round of 4
// s on one GPU. By first come, first served they end at 10 and 14 s. By shortest
// remaining time the second job runs between the rounds of the first, and they end
// at 14 and 9 s.
func TestSimulationByHand(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	const body = `{"policies":["fifo","srtf"],"detail":"jobs","instance":{"hare":"instance/v1",` +
		`"cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},
		"jobs":[{"id":"long","rounds":2,"on":{"V100":{"compute_s":5}}},{"id":"short","on":{"V100":{"compute_s":4}}}]}}`
	text, a := simulated(t, h, body)
	if a.Status != "succeeded" || a.Asked != 2 || len(a.Runs) != 2 {
		t.Fatalf("%s", text)
	}
	for i, want := range []struct {
		policy       string
		mean, end    float64
		verification bool
	}{{"fifo", 12, 14, true}, {"srtf", 11.5, 9, true}} {
		r := a.Runs[i]
		jobs := r["each"].([]any)
		if r["policy"] != want.policy || r["mean_jct_s"] != want.mean || r["makespan_s"] != 14.0 ||
			r["verified"] != want.verification || len(jobs) != 2 || jobs[1].(map[string]any)["end_s"] != want.end {
			t.Errorf("%v", r)
		}
	}
	if again, _ := simulated(t, h, body); again != text {
		t.Errorf("the second time\n%s\nthe first\n%s", again, text)
	}
}

// TestSimulationLines checks that the answer as one document and the answer line by
// line have the same runs, for leases and tasks and with repeats.
func TestSimulationLines(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	body := traceBody(t, `"gavel:fifo","gavel:max_min_fairness_perf","hlas"`, `,"repeat":2,"seed":3,"cdf":true`)
	text, a := simulated(t, h, body)
	if len(a.Runs) != 6 || len(a.Means) != 3 || a.Runs[1]["seed"] != 4.0 {
		t.Fatalf("%s", text)
	}
	w := request(t, h, "POST", "/v1/simulations", body, "Accept", "application/x-ndjson", "Accept-Encoding", "gzip")
	var runs []map[string]any
	var summary map[string]any
	for line := range strings.Lines(w.Body.String()) {
		var l struct {
			Line         string
			Run, Summary map[string]any
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch l.Line {
		case "run":
			runs = append(runs, l.Run)
		case "summary":
			summary = l.Summary
		case "progress":
		default:
			t.Errorf("%s", line)
		}
	}
	one, _ := json.Marshal(a.Runs)
	two, _ := json.Marshal(runs)
	if string(one) != string(two) {
		t.Errorf("the lines have\n%s\nthe document\n%s", two, one)
	}
	if summary["status"] != "succeeded" || summary["runs"] != 6.0 || len(summary["means"].([]any)) != 3 {
		t.Errorf("%v", summary)
	}
}

func TestSimulationRefusals(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	const inst = `"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},` +
		`"jobs":[{"id":"x","on":{"V100":{"compute_s":1}}}]}`
	for _, c := range []struct {
		name, body, pointer, code, detail string
		status                            int
	}{
		{"nothing", `{}`, "", "missing_field", "policies", 422},
		{"not JSON", `{`, "", "malformed", "", 400},
		{"unknown field", `{"policies":["hlas"],"polices":1}`, "/polices", "unknown_field", `did you mean \"policies\"`,
			422},
		{"unknown policy", `{"policies":["hlas","tiresas"],` + inst + `}`, "/policies/1", "unknown_policy",
			`did you mean \"tiresias\"`, 422},
		{"no policies", `{"policies":[],` + inst + `}`, "/policies", "out_of_range", "", 422},
		{"twice", `{"policies":["hlas","hlas"],` + inst + `}`, "/policies/1", "duplicate", "", 422},
		{"no jobs", `{"policies":["hlas"]}`, "", "one_source", "", 422},
		{"two sources", `{"policies":["hlas"],"generate":{},` + inst + `}`, "", "one_source", "", 422},
		{"no such trace", `{"policies":["hlas"],"trace":{"name":"../../etc/passwd"}}`, "/trace/name", "unknown_trace", "",
			422},
		{"a bad trace", `{"policies":["hlas"],"trace":{"text":"a,b\n1,2\n"}}`, "/trace/text", "unknown_format", "", 422},
		{"no such job", `{"policies":["hlas"],"jobs":[0,7],` + inst + `}`, "/jobs", "out_of_range", "1 job,", 422},
		{"too many runs", `{"policies":["hlas","srtf"],"repeat":501,` + inst + `}`, "/repeat", "too_large", "1000", 422},
		{"too many jobs", `{"policies":["hlas"],"generate":{"jobs":100001}}`, "/generate/jobs", "too_large", "", 422},
		{"too many jobs in all", `{"policies":["hlas"],"repeat":1000,"generate":{"jobs":1001}}`, "/generate/jobs",
			"too_large", "", 422},
		{"too many tasks", `{"policies":["hlas"],` + strings.Replace(inst, `"id":"x"`, `"id":"x","rounds":10000001`, 1) +
			`}`, "/instance", "too_large", "", 422},
		{"no pairs", `{"policies":["srtf","gavel:gandiva"],` + inst + `}`, "/policies/1", "no_pair_rates", "gavel:gandiva",
			422},
		{"no GPU", `{"policies":["srtf"],"gpus":{"T4":1},` + inst + `}`, "", "no_gpu", "", 422},
		{"no such GPU", `{"policies":["srtf"],"faults":[{"gpu":"a/7","from_s":1}],` + inst + `}`, "/faults/0", "unknown_gpu",
			"a/7", 422},
		{"faults that overlap", `{"policies":["srtf"],"faults":[{"gpu":"a/0","from_s":1},{"node":"a","from_s":5}],` + inst +
			`}`, "/faults/1", "overlap", "a/0", 422},
		{"stragglers of leases", `{"policies":["gavel:fifo"],"stragglers":true,` + inst + `}`, "/stragglers", "needs_tasks",
			"gavel:fifo", 422},
		{"restart", `{"policies":["srtf"],"lease_s":1,"restart_s":1,` + inst + `}`, "/restart_s", "out_of_range", "", 422},
	} {
		for _, kind := range []string{"application/json", "application/x-ndjson"} {
			w := request(t, h, "POST", "/v1/simulations", c.body, "Accept", kind)
			var p struct {
				Errors []struct{ Pointer, Code string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != c.status || len(p.Errors) == 0 ||
				p.Errors[0].Pointer != c.pointer || p.Errors[0].Code != c.code || !strings.Contains(w.Body.String(), c.detail) {
				t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			}
		}
	}
	if w := request(t, h, "POST", "/v1/simulations", `{`, "Accept", "text/html"); w.Code != http.StatusNotAcceptable {
		t.Errorf("HTML: %d", w.Code)
	}
}

// endless returns a request for a run that ends at once and one that takes minutes.
func endless(more string) string {
	return `{"policies":["srtf","hlas"],"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",` +
		`"gpus":{"V100":2}}]},"jobs":[{"id":"x","on":{"V100":{"compute_s":1}}}]}` + more + `}`
}

// TestSimulationDeadline checks that a simulation whose time limit passes reports
// this and returns the runs that had ended.
func TestSimulationDeadline(t *testing.T) {
	h, svc := newSimulationServer(t, service.Config{Running: 1})
	body := `{"policies":["gavel:fifo","gavel:max_min_fairness_perf"],` +
		`"trace":{"name":"gavel_trace_continuous5600_single.csv"},"time_limit_s":%}`
	began := time.Now()
	text, a := simulated(t, h, strings.Replace(body, "%", "0.001", 1))
	if a.Status != "deadline" || a.Asked != 2 || len(a.Runs) != 0 || a.Runs == nil || len(a.Means) != 0 {
		t.Errorf("%.300s", text)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("1 ms took %v", took)
	}
	if waiting, running := svc.Load(); waiting+running != 0 {
		t.Errorf("%d wait and %d run", waiting, running)
	}
}

// TestSimulationOfAClientThatLeaves checks that a simulation ends and leaves the
// queue when its client disconnects.
func TestSimulationOfAClientThatLeaves(t *testing.T) {
	h, svc := newSimulationServer(t, service.Config{Running: 1})
	srv := httptest.NewServer(h)
	defer srv.Close()
	body := `{"policies":["gavel:fifo","gavel:max_min_fairness_perf"],` +
		`"trace":{"name":"gavel_trace_continuous5600_single.csv"},"repeat":80}` // a minute, unless it is stopped
	for _, kind := range []string{"application/json", "application/x-ndjson"} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/v1/simulations", strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", kind)
			resp, err := srv.Client().Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			gone <- err
		}()
		wait(t, "running", func() bool { _, running := svc.Load(); return running == 1 })
		cancel()
		if err := <-gone; err == nil {
			t.Error("it was answered")
		}
		wait(t, "its place back", func() bool { _, running := svc.Load(); return running == 0 })
	}
}

// TestSimulationQueues checks that a simulation is refused, as a solve is, when the
// queue is full and while the server drains.
func TestSimulationQueues(t *testing.T) {
	h, svc := newSimulationServer(t, service.Config{Running: 1, Queue: -1})
	srv := httptest.NewServer(h)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/v1/simulations",
			strings.NewReader(`{"policies":["gavel:max_min_fairness_perf"],`+
				`"trace":{"name":"gavel_trace_continuous5600_single.csv"},"repeat":100}`))
		req.Header.Set("Content-Type", "application/json")
		if resp, err := srv.Client().Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	wait(t, "running", func() bool { _, running := svc.Load(); return running == 1 })
	w := request(t, h, "POST", "/v1/simulations", endless(""))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(w.Body.String(), `"busy"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	cancel()
	// The handler gives its own place back after the service has given back the slot.
	wait(t, "its place back", func() bool {
		return request(t, h, "POST", "/v1/simulations", endless("")).Code == http.StatusOK
	})
	svc.Drain(t.Context())
	if w := request(t, h, "POST", "/v1/simulations", endless("")); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), `"draining"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSimulationFollowsItsSchema(t *testing.T) {
	doc := specification(t)
	h, _ := newSimulationServer(t, service.Config{})
	media := doc.Paths.Value("/v1/simulations").Post.RequestBody.Value.Content["application/json"]
	example, err := json.Marshal(media.Example)
	if err != nil {
		t.Fatal(err)
	}
	stalls := `{"policies":["slurm"],"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",` +
		`"gpus":{"V100":1},"in_service_s":[[0,5]]}]},"jobs":[{"id":"x","on":{"V100":{"compute_s":9}}}]}}`
	for _, c := range []struct{ name, body string }{
		{"example", string(example)},
		{"everything", traceBody(t, `"gavel:fifo","hlas","gavel:min_total_duration_perf"`,
			`,"repeat":2,"seed":3,"cdf":true,"detail":"jobs","jobs":[1,2],"lease_s":60,"reset_s":0,"restart_s":1,`+
				`"time_limit_s":20`)},
		{"generated", `{"policies":["srtf"],"generate":{"jobs":5,"arrivals":"uniform:10","sync":"gang","grain_s":0.5},` +
			`"cluster":{"nodes":[{"name":"a","gpus":{"V100":16}}]}}`},
		{"a bad world", traceBody(t, `"hlas","srtf"`,
			`,"faults":[{"gpu":"v100/0","from_s":100,"until_s":5000}],"failures":{"per_gpu_hour":0.5},"stragglers":true,`+
				`"switch_s":2`)},
		{"late", strings.Replace(string(example), "{", `{"time_limit_s":0.000001,`, 1)},
		{"stalls", stalls},
		{"refused", `{"policies":["srt"],"generate":{}}`},
	} {
		for _, kind := range []string{"application/json", "application/x-ndjson"} {
			t.Run(c.name+" "+kind, func(t *testing.T) {
				w := request(t, h, "POST", "/v1/simulations", c.body, "Accept", kind)
				follows(t, doc, "POST", "/v1/simulations", w.Code, w.Header(), w.Body.String())
				want := http.StatusOK
				if c.name == "stalls" || c.name == "refused" {
					want = http.StatusUnprocessableEntity
				}
				if w.Code != want {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
	}
	// The decoder accepts and refuses the same documents as the schema.
	for _, c := range []struct {
		more string
		good bool
	}{
		{`"jobs":[0,1]`, true}, {`"jobs":[0]`, false}, {`"jobs":[0,1,2]`, false}, {`"repeat":0`, false},
		{`"seed":-1`, false}, {`"time_limit_s":0`, false},
		{`"reset_s":0`, true}, {`"detail":"job"`, false}, {`"gpus":{"V100":0}`, false}, {`"gpus":{}`, false},
		{`"colour":1`, false}, {`"cdf":1`, false},
		{`"faults":[{"gpu":"a/0","from_s":1,"until_s":2.5},{"node":"a","from_s":7,"until_s":9}],` +
			`"fault_rate":{"gpu_mean_s":1000,"gpu_repair_s":1}`, true},
		{`"interval_s":30`, true}, {`"interval_s":30.0`, true}, {`"interval_s":0`, false}, {`"interval_s":1.5`, false},
		{`"interval_s":1000000001`, false}, {`"interval_s":"30"`, false},
		{`"prices":{"V100":0.74}`, true}, {`"prices":{}`, false}, {`"prices":{"V100":0}`, false},
		{`"prices":{"V100":-1}`, false}, {`"prices":{"V100":"1"}`, false}, {`"prices":[1]`, false},
		{`"faults":[{"gpu":"a/0","from_s":1,"until_s":0}]`, false}, {`"faults":[{"gpu":"a/0"}]`, false},
		{`"failures":{"probability":1}`, false}, {`"merge_s":0`, false}, {`"merge_s":1`, true}, {`"switch_s":-1`, false},
	} {
		text := strings.Replace(string(example), "{", "{"+c.more+",", 1)
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		valid := doc.ValidateSchemaJSON(media.Schema.Value, v) == nil
		w := request(t, h, "POST", "/v1/simulations", text)
		if valid != c.good || (w.Code == http.StatusOK) != c.good {
			t.Errorf("%s: valid %t, status %d %.300s", c.more, valid, w.Code, w.Body)
		}
	}
}

// TestSimulationThatStalls: node b leaves at 6 s, so the job wide can only run
// before that. By shortest time it does; by first come, first served it does not,
// and then waits for ever. The error names the policy; after the first line has
// been sent, the error is the last line.
func TestSimulationThatStalls(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	const body = `{"policies":["srtf","kueue"],"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a",` +
		`"gpus":{"V100":2}},{"name":"b","gpus":{"V100":2},"in_service_s":[[0,6]]}]},"jobs":[
		{"id":"first","tasks":4,"sync":"gang","on":{"V100":{"compute_s":1}}},
		{"id":"long","release_s":0.2,"tasks":2,"sync":"gang","on":{"V100":{"compute_s":4}}},
		{"id":"wide","release_s":0.3,"tasks":4,"sync":"gang","on":{"V100":{"compute_s":3}}}]}}`
	w := request(t, h, "POST", "/v1/simulations", body)
	const fault = `"pointer":"/policies/1","code":"stalled","detail":"policy kueue`
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), fault) ||
		!strings.Contains(w.Body.String(), `wide`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = request(t, h, "POST", "/v1/simulations", body, "Accept", "application/x-ndjson")
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	if w.Code != http.StatusOK || len(lines) != 2 ||
		!strings.HasPrefix(lines[0], `{"line":"run","run":{"policy":"srtf"`) ||
		!strings.HasPrefix(lines[1], `{"line":"error","error":{`) || !strings.Contains(lines[1], fault) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	follows(t, specification(t), "POST", "/v1/simulations", w.Code, w.Header(), w.Body.String())
}
