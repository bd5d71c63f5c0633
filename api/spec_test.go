package api_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare/openapi"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
)

func specification(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.JSON)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestRoutesAndSpecificationAgree(t *testing.T) {
	h, _ := newServer(t)
	routes := map[string]bool{}
	err := chi.Walk(h.(chi.Routes),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			routes[method+" "+route] = true
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for path, item := range specification(t).Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+path] = true
			if !routes[method+" "+path] {
				t.Errorf("%s %s is documented and not served", method, path)
			}
		}
	}
	for route := range routes {
		if !documented[route] {
			t.Errorf("%s is served and not documented", route)
		}
	}
	if len(routes) < 10 {
		t.Errorf("%d routes", len(routes))
	}
}

// TestQueriesAndSpecificationAgree checks that every route accepts the query
// parameters of the specification and refuses all others.
func TestQueriesAndSpecificationAgree(t *testing.T) {
	h, _ := newServer(t)
	values := strings.NewReplacer("{id}", "x", "{job}", "x", "{tenant}", "x")
	for path, item := range specification(t).Paths.Map() {
		for method, op := range item.Operations() {
			at := values.Replace(path)
			w := request(t, h, method, at+"?foo=1", "")
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "?foo= is unknown here") {
				t.Errorf("%s %s?foo=1: %d %.200s", method, at, w.Code, w.Body)
			}
			for _, p := range op.Parameters {
				if p.Value.In != "query" {
					continue
				}
				if w := request(t, h, method, at+"?"+p.Value.Name+"=1", ""); strings.Contains(w.Body.String(), "is unknown here") {
					t.Errorf("%s %s is documented with %s: %s", method, at, p.Value.Name, w.Body)
				}
				w := request(t, h, method, at+"?"+p.Value.Name+"=1&"+p.Value.Name+"=2", "")
				if once := strings.Contains(w.Body.String(), "may come once"); once == p.Value.Schema.Value.Type.Is("array") {
					t.Errorf("%s %s: %s twice: %d %.200s", method, at, p.Value.Name, w.Code, w.Body)
				}
			}
		}
	}
}

// TestAnswersFollowTheirSchemas checks true answers of the handlers against the
// specification.
func TestAnswersFollowTheirSchemas(t *testing.T) {
	doc := specification(t)
	h, _ := newServer(t)
	in := `{"instance":` + example(t)
	solve := func(options string) string {
		return request(t, h, "POST", "/v1/solves", in+`,"options":`+options+`}`).Body.String()
	}
	wide := `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},` +
		`"jobs":[{"id":"x","tasks":4,"sync":"gang","on":{"V100":{"compute_s":1}}}]}`
	for _, c := range []struct{ name, method, path, body string }{
		{"solve", "POST", "/v1/solves", in + `,"options":{"work_limit":50}}`},
		{"tasks", "POST", "/v1/solves", in + `,"options":{"work_limit":50,"bound":"machine","detail":"tasks"}}`},
		{"jobs", "POST", "/v1/solves", in + `,"options":{"work_limit":50,"bound":"machine","detail":"jobs"}}`},
		{"none", "POST", "/v1/solves", in + `,"options":{"work_limit":50,"bound":"machine","detail":"none"}}`},
		{"by machine", "POST", "/v1/solves", in +
			`,"options":{"bound":"machine","assign":"earliest_finish","order":"arrival"}}`},
		{"infeasible", "POST", "/v1/solves", wide + `}`},
		{"bound", "POST", "/v1/bounds", in + `,"method":"price"}`},
		{"critical path", "POST", "/v1/bounds", in + `,"method":"critical_path"}`},
		{"verify", "POST", "/v1/verify", in + `,"result":` + solve(`{"work_limit":50}`) + `}`},
		{"refused", "POST", "/v1/verify", in + `,"result":` + strings.Replace(solve(`{"work_limit":50}`), `"start_us":[0`,
			`"start_us":[1`, 1) + `}`},
		{"version", "GET", "/v1/version", ""},
		{"policies", "GET", "/v1/policies", ""},
		{"specification", "GET", "/openapi.json", ""},
		{"malformed", "POST", "/v1/solves", `{`},
		{"invalid", "POST", "/v1/bounds", wide + `,"method":"magic","x":1}`},
		{"text", "GET", "/healthz", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := request(t, h, c.method, c.path, c.body)
			follows(t, doc, c.method, c.path, w.Code, w.Header(), w.Body.String())
		})
	}
}

// follows checks one answer against the specification of its path.
func follows(t *testing.T, doc *openapi3.T, method, path string, code int, header http.Header, body string) {
	t.Helper()
	response := doc.Paths.Value(path).GetOperation(method).Responses.Value(strconv.Itoa(code))
	if response == nil {
		t.Fatalf("status %d is not documented", code)
	}
	for name, h := range response.Value.Headers {
		if h.Value.Required && header.Get(name) == "" {
			t.Errorf("the header %s is documented and missing", name)
		}
	}
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	media := response.Value.Content[kind]
	if (code == http.StatusNoContent || code == http.StatusNotModified) && kind == "" && body == "" {
		return
	}
	if media == nil {
		t.Fatalf("%s is not documented for %d", kind, code)
	}
	if kind == "text/event-stream" {
		body, kind = dataOf(body), "application/x-ndjson" // the data of the events are the items of the NDJSON form
	}
	documents, schema := []string{body}, media.Schema.Value
	if item, ok := schema.Extensions["x-item-schema"].(map[string]any); ok {
		documents = strings.Split(strings.TrimSpace(body), "\n")
		if kind == "text/event-stream" {
			documents = nil
			for line := range strings.Lines(body) {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					documents = append(documents, data)
				}
			}
		}
		name, _ := item["$ref"].(string)
		schema = doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")].Value
	} else if kind == "application/x-ndjson" {
		for line := range strings.Lines(body) { // the lines may have several forms
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %s", line)
			}
		}
		return
	}
	for _, document := range documents {
		var v any = document
		if strings.HasSuffix(kind, "json") || kind == "text/event-stream" {
			if err := json.Unmarshal([]byte(document), &v); err != nil {
				t.Fatal(err)
			}
		}
		if err := doc.ValidateSchemaJSON(schema, v); err != nil {
			t.Errorf("%v\n%.2000s", err, document)
		}
		// The answer must not have names that the schema lacks.
		for _, name := range unknown(schema, v, "") {
			t.Errorf("%s is answered and not documented", name)
		}
	}
}

// TestExamplesFollowTheirSchemas checks the examples of answers. They were recorded
// from a server; later versions do not change them.
func TestExamplesFollowTheirSchemas(t *testing.T) {
	doc, n := specification(t), 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, response := range op.Responses.Map() {
				for kind, media := range response.Value.Content {
					if media.Example == nil {
						continue
					}
					code, err := strconv.Atoi(status)
					if err != nil {
						t.Fatal(err)
					}
					text, ok := media.Example.(string)
					if !ok {
						raw, err := json.Marshal(media.Example)
						if err != nil {
							t.Fatal(err)
						}
						text = string(raw)
					}
					header := http.Header{"Content-Type": {kind}}
					for name := range response.Value.Headers {
						header.Set(name, "x")
					}
					n++
					t.Run(op.OperationID+" "+kind, func(t *testing.T) {
						if op.OperationID == "getLog" { // the first line of a log has another form
							_, text, _ = strings.Cut(text, "\n")
						}
						follows(t, doc, method, path, code, header, text)
					})
				}
			}
		}
	}
	if n < 35 {
		t.Errorf("%d examples", n)
	}
}

// dataOf returns the data of server-sent events, one on each line.
func dataOf(events string) string {
	var b strings.Builder
	for line := range strings.Lines(events) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			b.WriteString(data)
		}
	}
	return b.String()
}

func TestSolvesFollowTheirSchemas(t *testing.T) {
	sequential(t)
	doc := specification(t)
	engine := newHeld()
	s := newSolveServer(t, service.Config{})
	h := newSolveServer(t, service.Config{Engine: engine, Running: 1})
	in := `{"instance":` + example(t) + `,"options":{"work_limit":2000}}`
	at := func(s *solveServer, header ...string) string {
		_, _, head := s.call(t, "POST", "/v1/solves", in, header...)
		return head.Get("Location")
	}
	done, deleted, running, queued := at(s), at(s), at(h, "Prefer", "wait=0"),
		at(h, "Prefer", "wait=0", "Idempotency-Key", "k")
	s.call(t, "DELETE", deleted, "")
	<-engine.began
	const all, one = "/v1/solves", "/v1/solves/{id}"
	_, _, head := s.call(t, "GET", done, "")
	for _, c := range []struct {
		name                   string
		s                      *solveServer
		method, path, at, body string
		header                 []string
	}{
		{"solve", s, "POST", all, all, in, nil},
		{"lines", s, "POST", all, all, in, []string{"Accept", "application/x-ndjson"}},
		{"in time", s, "POST", all, all, in, []string{"Prefer", "wait=30", "Idempotency-Key", "a"}},
		{"accepted", h, "POST", all, all, in, []string{"Prefer", "respond-async", "Idempotency-Key", "k"}},
		{"reused key", h, "POST", all, all, in + " ", []string{"Idempotency-Key", "k"}},
		{"other body", h, "POST", all, all, strings.Replace(in, "2000", "2001", 1), []string{"Idempotency-Key", "k"}},
		{"bad preference", s, "POST", all, all, in, []string{"Prefer", "wait=soon"}},
		{"list", s, "GET", all, all + "?limit=1", "", nil},
		{"list of those that run", h, "GET", all, all, "", nil},
		{"bad filter", s, "GET", all, all + "?status=x", "", nil},
		{"ended", s, "GET", one, done, "", nil},
		{"not modified", s, "GET", one, done, "", []string{"If-None-Match", head.Get("ETag")}},
		{"running", h, "GET", one, running, "", nil},
		{"queued", h, "GET", one, queued, "", nil},
		{"none", s, "GET", one, "/v1/solves/x", "", nil},
		{"gone", s, "GET", one, deleted, "", nil},
		{"events", s, "GET", one + "/events", done + "/events", "", nil},
		{"result", s, "GET", one + "/result", done + "/result", "", nil},
		{"result as lines", s, "GET", one + "/result", done + "/result", "", []string{"Accept", "application/x-ndjson"}},
		{"no result", h, "GET", one + "/result", running + "/result", "", nil},
		{"schedule", s, "GET", one + "/schedule", done + "/schedule?from_s=3", "", nil},
		{"schedule as lines", s, "GET", one + "/schedule", done + "/schedule?format=ndjson", "", nil},
		{"schedule as a table", s, "GET", one + "/schedule", done + "/schedule?format=csv", "", nil},
		{"bad job", s, "GET", one + "/schedule", done + "/schedule?job=nobody", "", nil},
		{"picture", s, "GET", one + "/gantt.svg", done + "/gantt.svg", "", nil},
		{"pixels", s, "GET", one + "/gantt.png", done + "/gantt.png?width=500", "", nil},
		{"page", s, "GET", one + "/gantt.html", done + "/gantt.html", "", nil},
		{"certificate", s, "GET", one + "/certificate", done + "/certificate", "", nil},
		{"instance", s, "GET", one + "/instance", done + "/instance", "", nil},
		{"delete too soon", h, "DELETE", one, running, "", nil},
		{"cancel", h, "POST", one + "/cancel", queued + "/cancel", "", nil},
		{"delete", s, "DELETE", one, done, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, text, header := c.s.call(t, c.method, c.at, c.body, c.header...)
			follows(t, doc, c.method, c.path, code, header, text)
		})
	}
}

func TestSessionsFollowTheirSchemas(t *testing.T) {
	doc := specification(t)
	s := newSessionServer(t, sessions.Config{MaxSessions: 2})
	first, second := s.open(t, ""), s.open(t, "")
	const one = "/v1/sessions/{id}"
	for _, c := range []struct{ name, method, path, at, body string }{
		{"too many", "POST", "/v1/sessions", "/v1/sessions", `{"cluster":` + twoGPUs + `}`},
		{"delete", "DELETE", one, second, ""},
		{"create", "POST", "/v1/sessions", "/v1/sessions", `{"cluster":` + twoGPUs +
			`,"policy":"hlas","parameters":{"queues":3},"clock":"server"}`},
		{"create badly", "POST", "/v1/sessions", "/v1/sessions", `{"cluster":` + twoGPUs + `,"parameters":{"kapa":1}}`},
		{"list", "GET", "/v1/sessions", "/v1/sessions", ""},
		{"none yet", "GET", one + "/regret", first + "/regret", ""},
		{"events", "POST", one + "/events", first + "/events", run},
		{"no plan", "GET", one + "/plan", first + "/plan", ""},
		{"refused events", "POST", one + "/events", first + "/events", "x\n" + tick(99) + tick(1)},
		{"status", "GET", one, first, ""},
		{"job", "GET", one + "/jobs/{job}", first + "/jobs/vgg", ""},
		{"no job", "GET", one + "/jobs/{job}", first + "/jobs/x", ""},
		{"jobs", "GET", one + "/jobs", first + "/jobs?sort=-start&state=waiting&state=running", ""},
		{"bad sort of jobs", "GET", one + "/jobs", first + "/jobs?sort=user", ""},
		{"trace", "GET", one + "/schedule", first + "/schedule", ""},
		{"more events", "POST", one + "/events", first + "/events", endOfRun},
		{"decisions", "GET", one + "/decisions", first + "/decisions", ""},
		{"log", "GET", one + "/log", first + "/log?after=1", ""},
		{"regret", "GET", one + "/regret", first + "/regret?detail=full", ""},
		{"regrets", "GET", one + "/regret", first + "/regret?every_s=1&detail=full", ""},
		{"too many regrets", "GET", one + "/regret", first + "/regret?every_s=0.001", ""},
		{"a bad interval", "GET", one + "/regret", first + "/regret?every_s=1h", ""},
		{"schedule", "GET", one + "/schedule", first + "/schedule", ""},
		{"no session", "GET", one, "/v1/sessions/x", ""},
		{"bad query", "GET", one + "/decisions", first + "/decisions?after=x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, text, header := s.call(t, c.method, c.at, c.body)
			follows(t, doc, c.method, c.path, code, header, text)
		})
	}
}

// unknown lists the names in v that its schema lacks.
func unknown(schema *openapi3.Schema, v any, at string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			switch p := schema.Properties[name]; {
			case p != nil:
				out = append(out, unknown(p.Value, inner, at+"/"+name)...)
			case schema.AdditionalProperties.Schema != nil:
				out = append(out, unknown(schema.AdditionalProperties.Schema.Value, inner, at+"/"+name)...)
			case len(schema.Properties) > 0:
				out = append(out, at+"/"+name)
			}
		}
	case []any:
		for _, inner := range v {
			if schema.Items != nil {
				out = append(out, unknown(schema.Items.Value, inner, at)...)
			}
		}
	}
	return out
}

// TestExamplesOfTheSpecification checks that the schemas of requests agree with the
// decoder: both accept the examples, and both refuse an additional name.
// sequential skips a test that sends one request after another where tests are short, as they
// are under the race detector: it would find what it finds in the solver's own tests.
func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("sends one request after another")
	}
}

func TestExamplesOfTheSpecification(t *testing.T) {
	sequential(t)
	doc := specification(t)
	s := newSessionServer(t, sessions.Config{})
	seen := 0
	for path, item := range doc.Paths.Map() {
		op := item.Post
		if op == nil || op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil ||
			strings.Contains(path, "{") {
			continue
		}
		media := op.RequestBody.Value.Content["application/json"]
		for _, extra := range []bool{false, true} {
			v := media.Example.(map[string]any)
			if extra {
				in := v
				if base, ok := v["base"].(map[string]any); ok {
					in = base
				}
				in["colour"] = "red"
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			code, answer, _ := s.call(t, "POST", path, string(text))
			if code == http.StatusNotFound {
				continue // this server has nothing to which the path could refer
			}
			invalid := doc.ValidateSchemaJSON(media.Schema.Value, v) != nil
			if (code >= http.StatusMultipleChoices) != extra || invalid != extra {
				t.Errorf("%s, a name more: %t: status %d, invalid by schema: %t\n%.500s", path, extra, code, invalid, answer)
			}
			seen++
		}
	}
	if seen < 8 {
		t.Errorf("%d requests", seen)
	}
}

// TestExampleOfEvents checks each line of the example of events against the schema
// and the decoder.
func TestExampleOfEvents(t *testing.T) {
	doc := specification(t)
	s := newSessionServer(t, sessions.Config{})
	const path = "/v1/sessions/{id}/events"
	text := doc.Paths.Value(path).Post.RequestBody.Value.Content["application/x-ndjson"].Example.(string)
	_, answers, _ := s.call(t, "POST", s.open(t, "")+"/events", text)
	if n := strings.Count(answers, `"decisions"`); n != strings.Count(text, "\n") {
		t.Errorf("%d of the events are taken: %s", n, answers)
	}
	for line := range strings.Lines(text) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if err := doc.ValidateSchemaJSON(doc.Components.Schemas["Event"].Value, v); err != nil {
			t.Error(err)
		}
	}
}

func TestLimitOfLists(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	for query, want := range map[string]int{"": 200, "?limit=1": 200, "?limit=1000": 200, "?limit=0": 400, "?limit=": 400,
		"?limit=-1": 400, "?limit=1001": 400} {
		if code, text, _ := s.call(t, "GET", "/v1/sessions"+query, ""); code != want {
			t.Errorf("%q: %d %s", query, code, text)
		}
	}
}

func TestFlags(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "") + "/decisions"
	for query, want := range map[string]int{"": 200, "?follow=false": 200, "?follow=null": 400, "?follow=": 400,
		"?follow=true&follow=false": 400} {
		if code, text, _ := s.call(t, "GET", at+query, ""); code != want {
			t.Errorf("%q: %d %s", query, code, text)
		}
	}
}
