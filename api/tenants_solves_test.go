package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
)

type solveList struct {
	Solves []struct{ ID string }
	Next   string
}

func (s *keyedServer) list(t *testing.T, key, query string) (ids []string, next string) {
	t.Helper()
	got := s.call(t, key, "GET", "/v1/solves"+query, "")
	var l solveList
	if err := json.Unmarshal([]byte(got.body), &l); err != nil || got.code != 200 {
		t.Fatalf("%d %s %v", got.code, got.body, err)
	}
	for i := range l.Solves {
		ids = append(ids, l.Solves[i].ID)
	}
	return ids, l.Next
}

// TestSolvesAreOfTheirTenant checks that lists, cursors, idempotency keys, the
// cache, and the traces of deleted solves are separate for each tenant.
func TestSolvesAreOfTheirTenant(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	op, _ := s.key(t, "*", access.RoleAdmin, 0)
	ask := `{"instance":` + example(t) + `,"options":` + quick + `}`
	post := func(key, body string, header ...string) reply {
		t.Helper()
		got := s.call(t, key, "POST", "/v1/solves", body, header...)
		if got.code != 200 {
			t.Fatalf("%d %s", got.code, got.body)
		}
		return got
	}
	id := func(r reply) string { return r.header.Get("Hare-Solve-Id") }
	// The cache answers an equal solve of the same tenant only.
	first := post(a, ask)
	for i, want := range []string{"miss", "hit"} {
		if got := post(b, ask); got.header.Get("Hare-Cache") != want {
			t.Errorf("solve %d of b: %s", i, got.header.Get("Hare-Cache"))
		}
	}
	// An idempotency key of another tenant is independent, also with another body.
	other := strings.Replace(ask, `"wspt"`, `"arrival"`, 1)
	mine, theirs := post(a, ask, "Idempotency-Key", "monday"), post(b, other, "Idempotency-Key", "monday")
	if id(mine) == id(theirs) || theirs.header.Get("Idempotent-Replayed") != "" ||
		theirs.header.Get("Hare-Cache") != "miss" {
		t.Errorf("%v %v", mine.header, theirs.header)
	}
	if got := post(a, ask, "Idempotency-Key", "monday"); id(got) != id(mine) ||
		got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%v", got.header)
	}
	hash := strings.Split(strings.Split(first.body, `"instance_sha256":"`)[1], `"`)[0]
	for _, query := range []string{"", "?instance_sha256=" + hash, "?status=succeeded"} {
		ids, _ := s.list(t, a, query)
		if fmt.Sprint(ids) != fmt.Sprint([]string{id(mine), id(first)}) {
			t.Errorf("%q: %v", query, ids)
		}
	}
	if ids, next := s.list(t, op, ""); len(ids) != 0 || next != "" {
		t.Errorf("the operator has %v", ids)
	}
	// A cursor of another tenant is only a position in the caller's own list.
	_, next := s.list(t, b, "?limit=1")
	if ids, _ := s.list(t, a, "?after="+next); fmt.Sprint(ids) != fmt.Sprint([]string{id(mine), id(first)}) {
		t.Errorf("behind %s: %v", next, ids)
	}
	// A deleted solve answers 410 to its tenant and 404 to others.
	if got := s.call(t, a, "DELETE", "/v1/solves/"+id(first), ""); got.code != 204 {
		t.Fatal(got)
	}
	if got := s.call(t, a, "GET", "/v1/solves/"+id(first), ""); got.code != 410 {
		t.Errorf("%d %s", got.code, got.body)
	}
	gone, never := s.call(t, b, "GET", "/v1/solves/"+id(first), ""),
		s.call(t, b, "GET", "/v1/solves/abcdefghijklmnopqrstuvwxyz", "")
	if faceless(gone) != faceless(never) || gone.code != 404 {
		t.Errorf("%s\n%s", faceless(gone), faceless(never))
	}
}

// later submits a solve whose answer comes before its end.
func (s *keyedServer) later(t *testing.T, key, options string, header ...string) (v solveView, got reply) {
	t.Helper()
	got = s.call(t, key, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":`+options+`}`,
		append(header, "Prefer", "respond-async")...)
	if got.code == http.StatusAccepted {
		if err := json.Unmarshal([]byte(got.body), &v); err != nil {
			t.Fatalf("%v %s", err, got.body)
		}
	}
	return v, got
}

// TestQueueTellsANumber checks that a tenant sees its position in the queue, and
// nothing else about the solves of other tenants before it.
func TestQueueTellsANumber(t *testing.T) {
	engine := newHeld()
	s := newKeyedService(t, admission.Quota{}, service.Config{Engine: engine, Running: 1})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	var ids []string
	for seed := range 3 {
		v, got := s.later(t, a, fmt.Sprintf(`{"seed":%d}`, seed))
		if got.code != 202 {
			t.Fatalf("%d %s", got.code, got.body)
		}
		ids = append(ids, v.ID)
	}
	<-engine.began
	v, got := s.later(t, b, `{}`)
	if v.QueuePosition != 3 {
		t.Errorf("position %d", v.QueuePosition)
	}
	text := got.body + fmt.Sprint(got.header)
	for _, path := range []string{"/v1/solves", "/v1/solves/" + v.ID, "/v1/quota"} {
		got := s.call(t, b, "GET", path, "")
		text += got.body + fmt.Sprint(got.header)
	}
	for _, id := range ids {
		if strings.Contains(text, id) {
			t.Errorf("%s is told to b: %s", id, text)
		}
	}
	close(engine.free)
	for _, id := range ids {
		s.call(t, a, "GET", "/v1/solves/"+id+"?wait=10", "")
	}
	s.call(t, b, "GET", "/v1/solves/"+v.ID+"?wait=10", "")
}

// TestQuotaOfSolvesThatGoOn checks that a solve counts in the quota until it ends,
// however it was submitted, and no longer.
func TestQuotaOfSolvesThatGoOn(t *testing.T) {
	engine := newHeld()
	s := newKeyedService(t, admission.Quota{Solves: 1}, service.Config{Engine: engine, Running: 2})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	one, got := s.later(t, a, `{}`, "Idempotency-Key", "one")
	if got.code != 202 {
		t.Fatalf("%d %s", got.code, got.body)
	}
	<-engine.began
	full := func(what string, got reply) {
		t.Helper()
		if got.code != 429 || got.problem() != "quota_solves" || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", what, got.code, got.body)
		}
	}
	in := `{"instance":` + example(t)
	_, got = s.later(t, a, `{"seed":2}`)
	full("a second solve", got)
	_, got = s.later(t, a, `{"seed":2}`, "Idempotency-Key", "two")
	full("a second solve with a key", got)
	full("a bound", s.call(t, a, "POST", "/v1/bounds", in+`,"method":"machine"}`))
	full("a what-if", s.call(t, a, "POST", "/v1/what-if", `{"base":{"instance":`+example(t)+`},"scenarios":[]}`))
	full("an explanation", s.call(t, a, "GET", "/v1/solves/"+one.ID+"/jobs/bert", ""))
	// The same call again returns the same solve.
	again, got := s.later(t, a, `{}`, "Idempotency-Key", "one")
	if got.code != 202 || again.ID != one.ID {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := s.call(t, a, "GET", "/v1/quota", ""); !strings.Contains(got.body, `"solves":1`) {
		t.Error(got.body)
	}
	if _, got := s.later(t, b, `{}`); got.code != 202 {
		t.Errorf("another tenant: %d %s", got.code, got.body)
	}
	for range 3 {
		s.call(t, a, "POST", "/v1/solves/"+one.ID+"/cancel", "")
		if got := s.call(t, a, "GET", "/v1/solves/"+one.ID+"?wait=10", ""); !strings.Contains(got.body,
			`"status":"cancelled"`) {
			t.Fatal(got.body)
		}
		// A client that has seen the end of a solve can submit another one.
		if one, got = s.later(t, a, `{"seed":3}`); got.code != 202 {
			t.Fatalf("%d %s", got.code, got.body)
		}
	}
	close(engine.free)
	if got := s.call(t, a, "GET", "/v1/solves/"+one.ID+"?wait=10", ""); !strings.Contains(got.body,
		`"status":"succeeded"`) {
		t.Fatal(got.body)
	}
	// Solves that are refused, repeated or answered from the cache do not stay in
	// the quota.
	for range 3 {
		for _, c := range []struct {
			body string
			want int
			key  string
		}{{in + `,"options":{"seed":"x"}}`, 422, ""}, {`{`, 400, "bad"}, {in + `,"options":{"bound":"machine"}}`, 200, ""},
			{in + `,"options":{"bound":"machine"}}`, 200, "k"}} {
			var header []string
			if c.key != "" {
				header = []string{"Idempotency-Key", c.key}
			}
			if got := s.call(t, a, "POST", "/v1/solves", c.body, header...); got.code != c.want {
				t.Errorf("%.40s: %d %s", c.body, got.code, got.body)
			}
		}
	}
	wait(t, "all is given back",
		func() bool { return s.quotas.Usage("a").Solves == 0 && s.quotas.Usage("b").Solves == 0 })
}

// TestQuotaOfStoredSolves checks that the stored bytes of solves count until they
// are deleted, and that data which several solves share counts once.
func TestQuotaOfStoredSolves(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{StoredBytes: 20_000})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	var ids []string
	used := int64(0)
	for {
		body := `{"instance":` + example(t) +
			fmt.Sprintf(`,"options":{"bound":"machine","order":"wspt","assign":"earliest_finish","seed":%d}}`, len(ids))
		got := s.call(t, a, "POST", "/v1/solves", body, "Idempotency-Key", fmt.Sprint(len(ids)))
		if got.code == 429 {
			if got.problem() != "quota_stored_bytes" || got.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", got.code, got.body)
			}
			break
		}
		now := s.quotas.Usage("a").StoredBytes
		if got.code != 200 || now < used+2048 || len(ids) > 10 {
			t.Fatalf("%d, %d bytes and %d before: %s", got.code, now, used, got.body)
		}
		used = now
		ids = append(ids, got.header.Get("Hare-Solve-Id"))
	}
	if len(ids) < 2 {
		t.Errorf("%d fit", len(ids))
	}
	// A repeated call stores nothing, and reading still works.
	body := `{"instance":` + example(t) +
		`,"options":{"bound":"machine","order":"wspt","assign":"earliest_finish","seed":0}}`
	if got := s.call(t, a, "POST", "/v1/solves", body, "Idempotency-Key", "0"); got.code != 200 {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := s.call(t, a, "GET", "/v1/solves/"+ids[0]+"/result", ""); got.code != 200 {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := s.call(t, b, "POST", "/v1/solves", body); got.code != 200 {
		t.Errorf("another tenant: %d %s", got.code, got.body)
	}
	for _, id := range ids {
		if got := s.call(t, a, "DELETE", "/v1/solves/"+id, ""); got.code != 204 {
			t.Errorf("%d %s", got.code, got.body)
		}
	}
	if u := s.quotas.Usage("a"); u.StoredBytes != 0 {
		t.Errorf("%+v is left", u)
	}
}

// TestBodyLimitOfTenants checks the limit on every route that has a body.
func TestBodyLimitOfTenants(t *testing.T) {
	s := newKeyedService(t, admission.Quota{BodyBytes: 3000}, service.Config{Solver: solver.Config{Version: "test"}})
	key, _ := s.key(t, "*", access.RoleAdmin, 0)
	session := s.session(t, key)
	long := strings.Repeat(" ", 3000)
	in := `{"instance":` + example(t) + `}`
	for route, body := range map[string]string{
		"POST /v1/solves": in + long, "POST /v1/bounds": in + long, "POST /v1/verify": in + long,
		"POST /v1/what-if":  `{"base":{"instance":` + example(t) + `},"scenarios":[]}` + long,
		"POST /v1/sessions": `{"cluster":` + twoGPUs + `}` + long,
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, header := range [][]string{nil, {"Prefer", "respond-async"}} {
			got := s.call(t, key, method, path, body, header...)
			if got.code != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "3000 bytes") {
				t.Errorf("%s: %d %s", route, got.code, got.body)
			}
		}
	}
	// Events are a stream: the limit applies to each line, and not to the stream.
	if got := s.call(t, key, "POST", "/v1/sessions/"+session+"/events", tick(1)+long+tick(2)); got.code != 200 ||
		strings.Contains(got.body, "error") {
		t.Errorf("%d %s", got.code, got.body)
	}
}
