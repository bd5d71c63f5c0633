package api_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
)

// tagged are requests with tags, and the filters of lists that find them.
var tagged = []struct {
	tags  string
	found []string
}{
	{`"name":"Night run","labels":{"team":"vision","empty":""}`,
		[]string{"label=team", "label=team=vision", "label=team=vision&label=empty=", "q=night", "q=VISION", "q=t%20r"}},
	{`"name":"other","labels":{"team":"speech"}`, []string{"label=team", "label=team=speech", "q=oth"}},
	{`"name":""`, nil},
}

// checkTags makes what tagged describes, and looks for it in the list of kind.
func checkTags(t *testing.T, call func(method, path, body string) (int, string), path, rest, kind string) {
	var ids []string
	for i, x := range tagged {
		code, text := call("POST", path, "{"+rest+","+x.tags+"}")
		var made struct {
			ID     string
			Name   string
			Labels map[string]string
		}
		var want struct {
			Name   string
			Labels map[string]string
		}
		if err := json.Unmarshal([]byte(text), &made); err != nil || code > 202 {
			t.Fatalf("%d: %d %s", i, code, text)
		}
		if err := json.Unmarshal([]byte("{"+x.tags+"}"), &want); err != nil || made.Name != want.Name ||
			len(made.Labels) != len(want.Labels) {
			t.Errorf("%s is described as %s", x.tags, text)
		}
		ids = append(ids, made.ID)
	}
	filters := map[string]bool{"label=missing": true, "label=team=": true, "q=nobody": true, "label=team=Vision": true}
	for _, x := range tagged {
		for _, f := range x.found {
			filters[f] = true
		}
	}
	for f := range filters {
		_, text := call("GET", path+"?"+f, "")
		for i, x := range tagged {
			wanted := false
			for _, g := range x.found {
				wanted = wanted || f == g
			}
			if strings.Contains(text, ids[i]) != wanted {
				t.Errorf("?%s: %s found: %t", f, x.tags, !wanted)
			}
		}
	}
	for i, id := range ids {
		if _, text := call("GET", path+"?q="+strings.ToUpper(id), ""); !strings.Contains(text, id) {
			t.Errorf("%s %d is not found by its id: %s", kind, i, text)
		}
	}
	many, _ := json.Marshal(strings.Split(strings.Repeat("x", 17), ""))
	labels := strings.NewReplacer("[", "{", "]", "}").Replace(string(many))
	for i := range 17 {
		labels = strings.Replace(labels, `"x"`, `"l`+string(rune('a'+i))+`":""`, 1)
	}
	for tags, at := range map[string]string{
		`"name":"` + strings.Repeat("n", 201) + `"`: "/name", `"name":"\u001b[2J"`: "/name", `"name":"\u202eevil"`: "/name",
		`"name":7`: "/name", `"labels":"a=b"`: "/labels", `"labels":{"a":7}`: "/labels/a", `"labels":{"":"x"}`: "/labels/",
		`"labels":{"a=b":"x"}`:                            "/labels/a=b",
		`"labels":{"` + strings.Repeat("n", 64) + `":""}`: "/labels/" + hare.Clip(strings.Repeat("n", 64)),
		`"labels":{"a":"\u202e"}`:                         "/labels/a", `"labels":` + labels: "/labels",
	} {
		if code, text := call("POST", path, "{"+rest+","+tags+"}"); code != 422 ||
			!strings.Contains(text, `"pointer":"`+at+`"`) {
			t.Errorf("%.60s: %d %s", tags, code, text)
		}
	}
}

func TestTagsOfSolves(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	checkTags(t, func(method, path, body string) (int, string) {
		code, text, h := s.call(t, method, path, body, "Prefer", "respond-async")
		if at := h.Get("Location"); at != "" { // equal solves are answered with the result
			code, text, _ = s.call(t, "GET", at, "")
		}
		return code, text
	}, "/v1/solves", `"instance":`+example(t)+`,"options":{"bound":"machine","work_limit":1}`, "solve")
}

func TestTagsOfSessions(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	checkTags(t, func(method, path, body string) (int, string) {
		code, text, _ := s.call(t, method, path, body)
		return code, text
	}, "/v1/sessions", `"cluster":`+twoGPUs, "session")
	_, text, _ := s.call(t, "GET", "/v1/sessions?q=night", "")
	var list struct{ Sessions []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Sessions) != 1 {
		t.Fatal(text)
	}
	_, log, _ := s.call(t, "GET", "/v1/sessions/"+url.PathEscape(list.Sessions[0].ID)+"/log", "")
	if !strings.Contains(log, `"name":"Night run","labels":{"empty":"","team":"vision"}`) {
		t.Errorf("the log begins with %s", log)
	}
}
