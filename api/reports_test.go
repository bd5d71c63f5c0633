package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// reportKinds are the paths of reports with the rest of a request.
var reportKinds = map[string]struct{ rest, media, code, page string }{
	"/v1/what-if": {`"base":{"instance":%s},"options":{"work_limit":200},"scenarios":[{"id":"more <b>",` +
		`"add_gpus":{"type":"V100","count":2}}]`, "application/x-ndjson", "no_what_if", "more &lt;b&gt;"},
	"/v1/simulations": {`"instance":%s,"policies":["hlas"]`, "application/json", "no_simulation", "Simulated schedulers"},
	"/v1/capacity":    {`"instance":%s,"weeks":1,"days":1`, "application/json", "no_capacity", "What this cluster needs"},
}

// report makes a report and returns its id.
func (s *keyedServer) report(t testing.TB, key, path, body string) string {
	t.Helper()
	got := s.call(t, key, "POST", path, body)
	id, ok := strings.CutPrefix(got.header.Get("Location"), path+"/")
	if !ok {
		t.Fatalf("%d %s", got.code, got.body)
	}
	return id
}

// TestReports keeps reports of each kind, finds them by name and label, and reads and deletes them.
func TestReports(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	for path, kind := range reportKinds {
		rest := fmt.Sprintf(kind.rest, example(t))
		list := func(key, query string) (ids []string, next string) {
			t.Helper()
			got := s.call(t, key, "GET", path+query, "")
			var l struct {
				Reports []struct {
					ID     string
					Name   string
					Labels map[string]string
					Links  map[string]string
				}
				Next string
			}
			if err := json.Unmarshal([]byte(got.body), &l); err != nil || got.code != 200 {
				t.Fatalf("%d %s", got.code, got.body)
			}
			for _, x := range l.Reports {
				if x.Links["self"] != path+"/"+x.ID || x.Name != "" && x.Labels["team"] == "" {
					t.Errorf("%+v", x)
				}
				ids = append(ids, x.ID)
			}
			return ids, l.Next
		}
		ask := `{"name":"Night run","labels":{"team":"vision"},` + rest + `}`
		first := s.call(t, a, "POST", path, ask)
		at := first.header.Get("Location")
		if first.code != 200 || !strings.HasPrefix(at, path+"/") {
			t.Fatalf("%d %v %s", first.code, first.header, first.body)
		}
		second := s.call(t, a, "POST", path, "{"+rest+"}", "Accept", "application/x-ndjson")
		last := second.header.Get("Location")
		if second.code != 200 || last == "" || last == at {
			t.Fatalf("%d %v %s", second.code, second.header, second.body)
		}
		for query, want := range map[string]string{
			"": last + at, "?limit=1": last, "?label=team": at, "?label=team=vision&q=NIGHT": at, "?label=team=": "",
			"?label=": "", "?q=" + strings.TrimPrefix(last, path+"/"): last, "?q=nobody": "",
		} {
			ids, _ := list(a, query)
			got := ""
			for _, id := range ids {
				got += path + "/" + id
			}
			if got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		_, next := list(a, "?limit=1")
		if ids, end := list(a, "?limit=1&after="+next); len(ids) != 1 || path+"/"+ids[0] != at || end != "" {
			t.Errorf("the next page: %v %q", ids, end)
		}
		if ids, _ := list(b, ""); len(ids) != 0 {
			t.Errorf("the other tenant has %v", ids)
		}
		for _, query := range []string{"?limit=0", "?limit=x", "?after=!", "?status=failed", "?q=a&q=b"} {
			if got := s.call(t, a, "GET", path+query, ""); got.code != 400 || got.problem() != "bad_query" {
				t.Errorf("%s: %d %s", query, got.code, got.body)
			}
		}
		got := s.call(t, a, "GET", at, "")
		if got.code != 200 || got.body != first.body || got.header.Get("Content-Type") != kind.media {
			t.Errorf("%d %v %s\nwas answered as %s", got.code, got.header, got.body, first.body)
		}
		if got := s.call(t, a, "GET", at+"/request", ""); got.code != 200 || got.body != ask {
			t.Errorf("%d %s\nwas sent as %s", got.code, got.body, ask)
		}
		page := s.call(t, a, "GET", at, "", "Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
		if page.code != 200 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html;") ||
			!strings.Contains(page.body, kind.page) || page.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%d %v %.300s", page.code, page.header, page.body)
		}
		if got := s.call(t, a, "GET", at, "", "Accept", "image/png"); got.code != http.StatusNotAcceptable {
			t.Errorf("%d %s", got.code, got.body)
		}
		for other := range reportKinds {
			for _, of := range []string{at, strings.Replace(at, path, other, 1), strings.Replace(at, path, "/v1/solves", 1),
				other + "/abcdefghijklmnopqrstuvwxyz"} {
				key := a
				if of == at {
					key = b
				} else if other == path && !strings.Contains(of, "abcd") && !strings.Contains(of, "solves") {
					continue // it is there
				}
				for _, method := range []string{"GET", "DELETE"} {
					if got := s.call(t, key, method, of, ""); got.code != 404 || !strings.HasPrefix(got.problem(), "no_") {
						t.Errorf("%s %s: %d %s", method, of, got.code, got.body)
					}
				}
			}
		}
		for tags, pointer := range map[string]string{
			`"name":"` + strings.Repeat("n", 201) + `"`: "/name", `"name":"\u202eevil"`: "/name", `"name":7`: "/name",
			`"labels":"a=b"`: "/labels", `"labels":{"a":7}`: "/labels/a",
		} {
			if got := s.call(t, a, "POST", path, "{"+tags+","+rest+"}"); got.code != 422 ||
				!strings.Contains(got.body, `"pointer":"`+pointer+`"`) {
				t.Errorf("%.40s: %d %s", tags, got.code, got.body)
			}
		}
		if ids, _ := list(a, ""); len(ids) != 2 {
			t.Errorf("what was refused is kept: %v", ids)
		}
		for i, want := range []int{204, 410} {
			if got := s.call(t, a, "DELETE", at, ""); got.code != want {
				t.Errorf("deletion %d: %d %s", i, got.code, got.body)
			}
		}
		if got := s.call(t, a, "GET", at, ""); got.code != 410 || got.problem() != "gone" {
			t.Errorf("%d %s", got.code, got.body)
		}
		if got := s.call(t, b, "GET", at, ""); got.code != 404 || got.problem() != kind.code {
			t.Errorf("%d %s", got.code, got.body)
		}
		if ids, _ := list(a, ""); len(ids) != 1 || path+"/"+ids[0] != last {
			t.Errorf("after the deletion: %v", ids)
		}
	}
	if err := s.ring.Update(t.Context(), func(set *access.KeySet) error {
		return set.SetQuota("a", admission.Quota{StoredBytes: 1})
	}); err != nil {
		t.Fatal(err)
	}
	for path, kind := range reportKinds {
		if got := s.call(t, a, "POST", path, "{"+fmt.Sprintf(kind.rest, example(t))+"}"); got.code != 429 ||
			got.problem() != "quota_stored_bytes" || got.header.Get("Location") != "" {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
}

// The report of a stream is there as soon as its summary can be read, and equals that of the answer in JSON.
func TestReportsOfStreams(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	for path, kind := range reportKinds {
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path,
			strings.NewReader("{"+fmt.Sprintf(kind.rest, example(t))+"}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/x-ndjson")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		at, text := resp.Header.Get("Location"), ""
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			text += lines.Text() + "\n"
			if !strings.HasPrefix(lines.Text(), `{"line":"summary"`) && !strings.HasPrefix(lines.Text(), `{"line":"report"`) {
				continue
			}
			code, got, _ := s.call(t, "GET", at, "")
			if kind.media == "application/json" {
				_, text, _ = s.call(t, "POST", path, "{"+fmt.Sprintf(kind.rest, example(t))+"}")
			}
			if code != 200 || got != text {
				t.Errorf("%d %s\nwas answered as %s", code, got, text)
			}
			text = ""
		}
		_ = resp.Body.Close()
		if text != "" {
			t.Errorf("no summary: %s", text)
		}
	}
}

// fullSolves is a store on a disk that is full.
type fullSolves struct{ *store.MemorySolves }

func (fullSolves) WriteSolves(context.Context, *store.SolveBatch) error { return store.ErrStorage }

// A full disk costs no answer.
func TestReportsOnAFullDisk(t *testing.T) {
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}})
	kept, err := solves.Open(t.Context(), solves.Config{Service: svc, Store: fullSolves{store.NewMemorySolves()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	h := api.New(svc, api.Config{Solves: kept})
	for path, kind := range reportKinds {
		w := request(t, h, "POST", path, "{"+fmt.Sprintf(kind.rest, example(t))+"}")
		if w.Code != 200 || kind.media == "application/json" && w.Header().Get("Location") != "" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if list := request(t, h, "GET", path, ""); !strings.Contains(list.Body.String(), `"reports":[]`) {
			t.Errorf("%s", list.Body)
		}
	}
}
