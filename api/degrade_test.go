package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// crowded returns an instance that takes a while to solve.
func crowded(t *testing.T) string {
	t.Helper()
	var jobs []string
	for i := range 40 {
		jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","weight":%d,"release_s":%d,"rounds":%d,"tasks":2,`+
			`"on":{"V100":{"compute_s":%d.5,"sync_s":0.3},"T4":{"compute_s":%d.1,"sync_s":0.2}}}`, i, i%5+1, i*3, 20+i%7, i%4+1,
			i%3+3))
	}
	return `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}},{"name":"b","gpus":{"T4":2}}]},` +
		`"jobs":[` + strings.Join(jobs, ",") + `]}`
}

// TestOverload checks that a call to a full queue is refused with the time that the
// queue will take, and that a call which allows degradation gets an answer marked
// as degraded.
func TestOverload(t *testing.T) {
	s := newSolveServer(t, service.Config{Running: 1, Queue: 2})
	doc := specification(t)
	in := `{"instance":` + crowded(t) + `,"options":`
	var going []string
	for seed := range 3 {
		code, text, h := s.call(t, "POST", "/v1/solves", in+fmt.Sprintf(`{"time_limit_s":40,"gap":0,"seed":%d}}`, seed),
			"Prefer", "respond-async")
		if code != 202 {
			t.Fatalf("%d %s", code, text)
		}
		going = append(going, h.Get("Location"))
	}
	for name, c := range map[string]struct {
		path, options, code string
	}{
		"full":         {"/v1/solves", `{}`, "busy"},
		"full, a rule": {"/v1/solves", quick, "busy"},
		"not allowed":  {"/v1/solves", `{"degrade":false}`, "busy"},
	} {
		for _, header := range [][]string{nil, {"Prefer", "respond-async"},
			{"Idempotency-Key", strings.ReplaceAll(name, " ", "")}} {
			code, text, h := s.call(t, "POST", c.path, in+c.options+`}`, header...)
			follows(t, doc, "POST", "/v1/solves", code, h, text)
			after, _ := strconv.Atoi(h.Get("Retry-After"))
			if code != http.StatusServiceUnavailable || !strings.Contains(text, `"code":"`+c.code+`"`) || after <= 1 ||
				!strings.Contains(text, "degrade") {
				t.Errorf("%s: %d, Retry-After %s: %s", name, code, h.Get("Retry-After"), text)
			}
		}
	}
	// The call waits for the running solve, and no longer.
	type answer struct {
		code int
		text string
		h    http.Header
	}
	done := make(chan answer, 1)
	go func() {
		code, text, h := s.call(t, "POST", "/v1/solves", in+`{"degrade":true}}`)
		done <- answer{code, text, h}
	}()
	wait(t, "it lines up", func() bool {
		waiting, _ := s.svc.Load()
		return waiting == 3
	})
	s.call(t, "POST", going[0]+"/cancel", "")
	got := <-done
	follows(t, doc, "POST", "/v1/solves", got.code, got.h, got.text)
	res, err := wire.DecodeResult(strings.NewReader(got.text), wire.Limits{})
	if err != nil || got.code != 200 || !strings.Contains(got.text, `"degraded":true`) || !res.Degraded ||
		res.Value == nil || res.Bound == nil {
		t.Fatalf("%d %v %.300s", got.code, err, got.text)
	}
	inst, err := wire.DecodeInstance(strings.NewReader(crowded(t)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK || rep.Bound == nil || rep.Value.Cmp(*rep.Bound) < 0 {
		t.Errorf("%s", rep)
	}
	// The stored solve is marked as degraded too, and is not in the cache.
	code, text, h := s.call(t, "GET", got.h.Get("Location"), "")
	follows(t, doc, "GET", "/v1/solves/{id}", code, h, text)
	if !strings.Contains(text, `"degraded":true`) {
		t.Error(text)
	}
	for _, at := range going {
		s.call(t, "POST", at+"/cancel", "")
		s.look(t, at+"?wait=20")
	}
	code, text, h = s.call(t, "POST", "/v1/solves", in+`{"degrade":true,"work_limit":1}}`)
	if code != 200 || strings.Contains(text, `"degraded"`) || h.Get("Hare-Cache") != "miss" {
		t.Errorf("with room: %d, cache %s, %.300s", code, h.Get("Hare-Cache"), text)
	}
}
