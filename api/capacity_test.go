package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/sim/capacity"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// historyOf is an instance of a week with jobs on one node.
func historyOf(jobs int) string {
	var b strings.Builder
	b.WriteString(`{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},"jobs":[`)
	for i := range jobs {
		fmt.Fprintf(&b, `{"id":"j%d","sync":"gang","release_s":%d,"rounds":20,"on":{"V100":{"compute_s":600}}},`, i,
			i%7*86400+i*977%80000)
	}
	return strings.TrimSuffix(b.String(), ",") + "]}"
}

// TestCapacity checks that a plan of a server is that of package capacity, byte for byte, in both forms of the answer,
// that what is kept can be read as JSON, CSV and as a page, and that all follows the specification.
func TestCapacity(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	doc := specification(t)
	body := `{"instance":` + historyOf(40) + `,"options":["V100=2","drop a from 4h to 6h"],` +
		`"policies":["now","hgittins"],` +
		`"prices":{"V100":2.5},"goal":"p95 wait <= 1h","buy":{"V100":4},"weeks":2,"days":2,"name":"next year?"}`
	req, err := capacitydoc.Decode(strings.NewReader(body), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := capacity.Plan(t.Context(), req, capacity.Config{Version: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	text, _ := json.Marshal(rep)
	_ = json.Compact(&want, text)
	w := request(t, h, "POST", "/v1/capacity", body)
	follows(t, doc, "POST", "/v1/capacity", w.Code, w.Header(), w.Body.String())
	if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || !sameJSON(t, got, want.String()) {
		t.Fatalf("%d %s\nwant %s", w.Code, got, want.String())
	}
	lines := request(t, h, "POST", "/v1/capacity", body, "Accept", "application/x-ndjson")
	follows(t, doc, "POST", "/v1/capacity", lines.Code, lines.Header(), lines.Body.String())
	kinds := ""
	for line := range strings.Lines(lines.Body.String()) {
		var l struct {
			Line   string
			Report json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Report != nil && !sameJSON(t, string(l.Report), want.String()) {
			t.Errorf("%s", line)
		}
		kinds += l.Line + " "
	}
	if !strings.HasPrefix(kinds, "progress proved ") || !strings.HasSuffix(kinds, " report ") {
		t.Error(kinds)
	}
	at := w.Header().Get("Location")
	for media, part := range map[string]string{"application/json": `"decision":[`, "text/csv": "V100=2,hgittins,",
		"text/html": "Cost against waiting"} {
		got := request(t, h, "GET", at, "", "Accept", media)
		if media == "application/json" {
			follows(t, doc, "GET", "/v1/capacity/{id}", got.Code, got.Header(), got.Body.String())
		}
		if got.Code != 200 || !strings.Contains(got.Body.String(), part) {
			t.Errorf("%s: %d %.300s", media, got.Code, got.Body)
		}
	}
}

// sameJSON reports whether two texts are the same document, however they escape.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

// TestCapacityRefusals checks that each fault of a request is named by its pointer, all at once.
func TestCapacityRefusals(t *testing.T) {
	h, _ := newSimulationServer(t, service.Config{})
	inst := `"instance":` + historyOf(7)
	for body, want := range map[string]string{
		`{}`: "  missing_field", `{` + inst + `,"solve_id":"x"}`: "  not_allowed",
		`{` + inst + `,"optons":[]}`: " /optons unknown_field",
		`{` + inst + `,"options":["V100=2","v100=2","more","drop z","V100=2"],"policies":["now","nobody"],"now":"slrm",` +
			`"prices":{"T4":1},"goal":"p95","buy":{"V100":200000}}`: " /goal bad_goal /now unknown_policy " +
			"/policies/1 unknown_policy /options/1 unknown_type /options/2 bad_option /options/3 bad_option " +
			"/options/4 duplicate /buy/V100 out_of_range /prices/T4 unknown_type",
		`{` + inst + `,"goal":"wait","days":8}`:               " /goal bad_goal /days out_of_range",
		`{` + inst + `,"buy":{"V100":2}}`:                     " /prices missing_field /goal missing_field",
		`{` + inst + `,"options":["drop a from fri to sat"]}`: " /options/0 bad_option",
		`{` + inst + `,"options":["V100=60000,T4=60000"]}`:    " /options/0 too_large",
		`{` + inst + `,"weeks":1000,"options":["V100=1","V100=2","V100=3","V100=4","V100=5","V100=6","V100=7","V100=8",` +
			`"V100=9","V100=10","V100=11","V100=12","V100=13","V100=14","V100=15","V100=16","V100=17","V100=18",` +
			`"V100=19","V100=20"]}`: " /weeks too_large",
		`{"instance":` + strings.Replace(historyOf(7), `"jobs":[`, `"jobs":[{"id":"x","rounds":90000000,"on":{"V100":`+
			`{"compute_s":1}}},`, 1) + `}`: " /instance/jobs too_large",
		`{"instance":` + strings.Replace(historyOf(7), `"sync":"gang"`, `"tasks":3,"sync":"gang"`, 1) +
			`,"weeks":1}`: " /instance stalled",
		`{"instance":` + strings.Replace(historyOf(7), `"sync":"gang"`, `"sync":"gang","durations":[{"p":0.5,"factor":1},`+
			`{"p":0.5,"factor":2}]`, 1) + `}`: " /instance/jobs/0/durations not_supported",
	} {
		w := request(t, h, "POST", "/v1/capacity", body)
		var p struct {
			Errors []struct{ Pointer, Code string }
		}
		_ = json.Unmarshal(w.Body.Bytes(), &p)
		got := ""
		for _, e := range p.Errors {
			got += " " + e.Pointer + " " + e.Code
		}
		if w.Code != http.StatusUnprocessableEntity || got != want {
			t.Errorf("%.200s: %d %q, want %q\n%s", body, w.Code, got, want, w.Body)
		}
	}
	if w := request(t, h, "POST", "/v1/capacity", `{"solve_id":"abcdefghijklmnopqrstuvwxyz"}`); w.Code != 404 ||
		!strings.Contains(w.Body.String(), `"pointer":"/solve_id"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// longCapacity is a plan of minutes.
func longCapacity(more string) string {
	return `{"instance":` + historyOf(700) + `,"policies":["rolling"],"options":["V100=2"],"weeks":100` + more + `}`
}

// TestCapacityDeadline checks that a plan whose time limit passes says so, and that a page can be made of the rows.
func TestCapacityDeadline(t *testing.T) {
	h, svc := newSimulationServer(t, service.Config{Running: 1})
	w := request(t, h, "POST", "/v1/capacity", longCapacity(`,"time_limit_s":0.3`))
	var rep capacitydoc.Report
	if err := json.Unmarshal(w.Body.Bytes(), &rep); err != nil || w.Code != 200 || rep.Status != "deadline" ||
		len(rep.Rows) > 1 || len(rep.Decision) == 0 || !strings.Contains(rep.Decision[0], "of 2 rows are here") {
		t.Fatalf("%v %d %.500s", err, w.Code, w.Body)
	}
	if waiting, running := svc.Load(); waiting+running != 0 {
		t.Errorf("%d wait and %d run", waiting, running)
	}
	for _, media := range []string{"text/html", "text/csv"} {
		if got := request(t, h, "GET", w.Header().Get("Location"), "", "Accept", media); got.Code != 200 {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	}
}

// TestCapacityOfAClientThatLeaves checks that a plan ends and leaves the queue when its client disconnects, and that
// nothing is kept of it.
func TestCapacityOfAClientThatLeaves(t *testing.T) {
	h, svc := newSimulationServer(t, service.Config{Running: 1})
	srv := httptest.NewServer(h)
	defer srv.Close()
	for _, kind := range []string{"application/json", "application/x-ndjson"} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/v1/capacity", strings.NewReader(longCapacity("")))
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
	if list := request(t, h, "GET", "/v1/capacity", ""); !strings.Contains(list.Body.String(), `"reports":[]`) {
		t.Errorf("%s", list.Body)
	}
}
