package api_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// stored is a solve that a server keeps.
type stored struct {
	id   string
	inst *hare.Instance
	res  *hare.Result
}

func newWhatIfServer(t *testing.T, bound string) (http.Handler, *stored) {
	t.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(example(t)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}, Running: 2})
	kept := servetest.Solves(t, svc)
	id := solved(t, kept, inst, hare.Options{Seed: 1, WorkLimit: 500, Bound: bound})
	res, err := kept.Result(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	return api.New(svc, api.Config{MaxBodyBytes: 1 << 20, Solves: kept, MaxWhatIfs: 1}), &stored{id, inst, res}
}

const someScenarios = `"options":{"work_limit":300},"scenarios":[
 {"id":"more","add_gpus":{"type":"V100","count":2}},
 {"id":"none","remove_gpus":[{"node":"a","count":2},{"node":"b","count":4}]},
 {"id":"nobody","drain":{"node":"c","at_s":1}},
 {"id":"wide","add_jobs":[{"id":"w","tasks":9,"sync":"gang","on":{"V100":{"compute_s":1}}}]},
 {"id":"red","patch":[{"op":"add","path":"/jobs/0/colour","value":"red"}]},
 {"id":"late","patch":[{"op":"replace","path":"/jobs/1/release_s","value":9}],"options":{"seed":3}}]`

func whatIfLines(t *testing.T, w *httptest.ResponseRecorder) []map[string]any {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var out []map[string]any
	for line := range strings.Lines(w.Body.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, v)
	}
	return out
}

func TestWhatIf(t *testing.T) {
	h, _ := newWhatIfServer(t, "")
	body := `{"base":{"instance":` + example(t) + `},"ordered":true,` + someScenarios + `}`
	lines := whatIfLines(t, request(t, h, "POST", "/v1/what-if", body))
	if len(lines) != 8 || lines[0]["line"] != "base" || lines[7]["line"] != "summary" {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for i, want := range []struct{ id, status, termination, code, pointer string }{
		{"more", "succeeded", "work_limit", "", ""},
		{"none", "failed", "", "no_gpus", "/scenarios/1"},
		{"nobody", "failed", "", "unknown_node", "/scenarios/2/drain/node"},
		{"wide", "succeeded", "infeasible", "", ""},
		{"red", "failed", "", "unknown_field", "/scenarios/4/patch/0/value"},
		{"late", "succeeded", "", "", ""},
	} {
		l := lines[i+1]
		if l["id"] != want.id || l["status"] != want.status || want.termination != "" &&
			l["termination"] != want.termination {
			t.Errorf("scenario %d: %v", i, l)
		}
		if want.code == "" {
			continue
		}
		problem := l["error"].(map[string]any)
		fault := problem["errors"].([]any)[0].(map[string]any)
		if problem["status"] != 422.0 || fault["code"] != want.code || fault["pointer"] != want.pointer {
			t.Errorf("scenario %s: %v", want.id, problem)
		}
	}
	if c := lines[7]["counts"].(map[string]any); c["failed"] != 3.0 || c["solved"] != 3.0 {
		t.Errorf("counts %v", c)
	}
}

// The same call gives the same bytes, except for timing.
func TestWhatIfIsReproducible(t *testing.T) {
	h, _ := newWhatIfServer(t, "")
	body := `{"base":{"instance":` + example(t) + `},"ordered":true,` + someScenarios + `}`
	var before []map[string]any
	for range 2 {
		lines := whatIfLines(t, request(t, h, "POST", "/v1/what-if", body))
		for _, l := range lines {
			delete(l, "timing")
			if e, ok := l["error"].(map[string]any); ok {
				delete(e, "request_id")
			}
		}
		if before != nil {
			for i := range lines {
				a, _ := json.Marshal(before[i])
				b, _ := json.Marshal(lines[i])
				if string(a) != string(b) {
					t.Errorf("line %d differs:\n%s\n%s", i, a, b)
				}
			}
		}
		before = lines
	}
}

func TestWhatIfOfAStoredSolve(t *testing.T) {
	h, store := newWhatIfServer(t, "")
	const scenarios = `"scenarios":[{"id":"less","remove_jobs":["vgg"]}],"options":{"work_limit":300}`
	lines := whatIfLines(t, request(t, h, "POST", "/v1/what-if", `{"base":{"solve_id":"`+store.id+`"},`+scenarios+`}`))
	if lines[0]["instance_sha256"] != wire.SHA256(store.inst) || lines[1]["status"] != "succeeded" {
		t.Errorf("%v", lines)
	}
	w := request(t, h, "POST", "/v1/what-if", `{"base":{"solve_id":"two"},`+scenarios+`}`)
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "/base/solve_id") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	var b strings.Builder
	if err := wire.EncodeResult(&b, store.res); err != nil {
		t.Fatal(err)
	}
	with := `{"base":{"instance":` + example(t) + `,"result":` + b.String() + `},` + scenarios + `}`
	if got := whatIfLines(t, request(t, h, "POST", "/v1/what-if", with)); got[1]["value"] != lines[1]["value"] {
		t.Errorf("with the result %v, from the store %v", got[1]["value"], lines[1]["value"])
	}
	lie := strings.Replace(with, `"start_us":[0`, `"start_us":[1`, 1)
	if w := request(t, h, "POST", "/v1/what-if", lie); w.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(w.Body.String(), "/base/result") {
		t.Errorf("a false result: %d: %s", w.Code, w.Body)
	}
}

func TestWhatIfRefusals(t *testing.T) {
	h, _ := newWhatIfServer(t, "")
	in := `"base":{"instance":` + example(t) + `}`
	for _, c := range []struct {
		name, body, pointer, code string
		status                    int
	}{
		{"nothing", `{}`, "", "missing_field", 422},
		{"not JSON", `{`, "", "malformed", 400},
		{"bad base", `{"base":{"instance":{"hare":"instance/v1","jobs":[]}},"scenarios":[]}`, "/base/instance",
			"missing_field", 422},
		{"detail", `{` + in + `,"scenarios":[],"options":{"detail":"lanes"}}`, "/options/detail", "not_allowed", 422},
		{"own option", `{` + in + `,"scenarios":[{"options":{"gap":2}}]}`, "/scenarios/0/options/gap", "out_of_range", 422},
		{"unknown bound", `{` + in + `,"scenarios":[{},{"options":{"bound":"x"}}]}`, "/scenarios/1/options/bound",
			"invalid_option", 422},
		{"unknown field", `{` + in + `,"scenarios":[{"add_gpu":{}}]}`, "/scenarios/0/add_gpu", "unknown_field", 422},
	} {
		w := request(t, h, "POST", "/v1/what-if", c.body)
		var p struct {
			Errors []struct{ Pointer, Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != c.status || len(p.Errors) == 0 ||
			p.Errors[0].Pointer != c.pointer || p.Errors[0].Code != c.code {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	if w := request(t, h, "POST", "/v1/what-if", `{`+in+`,"scenarios":[]}`, "Accept",
		"text/html"); w.Code != http.StatusNotAcceptable {
		t.Errorf("HTML: %d", w.Code)
	}
}

// TestWhatIfQuotaAndCancellation checks that a second what-if of a tenant is
// refused while the first runs, and that a client that disconnects ends its own.
func TestWhatIfQuotaAndCancellation(t *testing.T) {
	h, store := newWhatIfServer(t, "")
	srv := httptest.NewServer(h)
	defer srv.Close()
	client := srv.Client()
	long := `{"base":{"instance":` + example(t) + `},"scenarios":[{"id":"long"}],"options":{"time_limit_s":60,"gap":0}}`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		for {
			req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/v1/what-if", strings.NewReader(long))
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err == nil && resp.StatusCode == http.StatusTooManyRequests {
					continue // the short what-if was there first
				}
			}
			gone <- err
			return
		}
	}()
	post := func() *http.Response {
		resp, err := client.Post(srv.URL+"/v1/what-if", "application/json",
			strings.NewReader(`{"base":{"solve_id":"`+store.id+`"},"scenarios":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp
	}
	refused := false
	for range 1000 {
		if resp := post(); resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" {
			refused = true
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if !refused {
		t.Error("never refused")
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that went: %v", err)
	}
	for n := 0; post().StatusCode != http.StatusOK; n++ {
		if n == 2000 {
			t.Fatal("its place is not given back")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestPrices(t *testing.T) {
	h, store := newWhatIfServer(t, "")
	w := request(t, h, "GET", "/v1/solves/"+store.id+"/prices", "")
	var p struct {
		GridS []float64 `json:"grid_s"`
		Types []struct {
			Type      string
			Total     float64
			BoundFall float64 `json:"bound_fall"`
			Prices    []float64
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d: %v", w.Code, err)
	}
	if len(p.Types) != 2 || len(p.GridS) != len(store.res.Certificate.GridUs) {
		t.Fatalf("%+v", p)
	}
	for _, k := range p.Types {
		sum := 0.0
		for g, x := range k.Prices {
			sum += x * (p.GridS[g+1] - p.GridS[g])
		}
		// The prices by size can only raise the price of the most expensive use.
		if k.Total < sum-1e-6 || k.BoundFall < k.Total-1e-6 {
			t.Errorf("%s: Σ π·len %g, total %g, fall %g", k.Type, sum, k.Total, k.BoundFall)
		}
	}
	w = request(t, h, "GET", "/v1/solves/"+store.id+"/prices", "", "Accept", "text/csv")
	rows := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	cells := len(p.GridS) - 1
	if rows[0] != "type,tasks,from_s,to_s,price" || len(rows) != 1+cells*(2+len(store.res.Certificate.Sizes)) {
		t.Errorf("%d rows, first %q", len(rows), rows[0])
	}
	w = request(t, h, "GET", "/v1/solves/"+store.id+"/prices.svg", "")
	d := xml.NewDecoder(w.Body)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if w := request(t, h, "GET", "/v1/solves/two/prices", ""); w.Code != http.StatusNotFound {
		t.Errorf("another solve: %d", w.Code)
	}
	h, store = newWhatIfServer(t, "machine")
	if w := request(t, h, "GET", "/v1/solves/"+store.id+"/prices", ""); w.Code != http.StatusNotFound ||
		!strings.Contains(w.Body.String(), "no_prices") {
		t.Errorf("a machine bound: %d %s", w.Code, w.Body)
	}
}

func TestWhatIfFollowsItsSchema(t *testing.T) {
	sequential(t)
	doc := specification(t)
	h, store := newWhatIfServer(t, "")
	in := `{"base":{"instance":` + example(t) + `},`
	for _, c := range []struct{ name, method, path, at, body string }{
		{"lines", "POST", "/v1/what-if", "", in + someScenarios + `}`},
		{"pruned", "POST", "/v1/what-if", "", in + `"prune":{"below_s":1000},` + someScenarios + `}`},
		{"refused", "POST", "/v1/what-if", "", in + `"scenarios":[{"x":1}]}`},
		{"no solve", "POST", "/v1/what-if", "", `{"base":{"solve_id":"two"},"scenarios":[]}`},
		{"prices", "GET", "/v1/solves/{id}/prices", "/v1/solves/" + store.id + "/prices", ""},
		{"no prices", "GET", "/v1/solves/{id}/prices", "/v1/solves/two/prices", ""},
		{"picture", "GET", "/v1/solves/{id}/prices.svg", "/v1/solves/" + store.id + "/prices.svg", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := c.at
			if at == "" {
				at = c.path
			}
			w := request(t, h, c.method, at, c.body)
			follows(t, doc, c.method, c.path, w.Code, w.Header(), w.Body.String())
		})
	}
	// The decoder accepts and refuses the same documents as the schema.
	schema := doc.Paths.Value("/v1/what-if").Post.RequestBody.Value.Content["application/json"].Schema.Value
	for _, c := range []struct {
		scenario string
		good     bool
	}{
		{`{"scale_weights":2}`, true},
		{`{"scale_weights":{"vgg":2}}`, true},
		{`{"drain":[{"node":"a","at_s":5}]}`, true},
		{`{"drain":{"node":"a","at_s":5}}`, true},
		{`{"scale_weights":"2"}`, false},
		{`{"patch":[{"op":"jump","path":"/jobs"}]}`, false},
		{`{"drain":[{"node":"a","at":5}]}`, false},
	} {
		text := in + `"scenarios":[` + c.scenario + `],"options":{"work_limit":10}}`
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		valid := doc.ValidateSchemaJSON(schema, v) == nil
		code := request(t, h, "POST", "/v1/what-if", text).Code
		if valid != c.good || (code == http.StatusOK) != c.good {
			t.Errorf("%s: valid %t, status %d", c.scenario, valid, code)
		}
	}
}
