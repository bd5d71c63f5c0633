package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
)

// TestTenantsSeeTheirOwn checks lists, counts, cursors and quotas.
func TestTenantsSeeTheirOwn(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{Sessions: 2})
	a, _ := s.key(t, "a", access.RoleAdmin, 0)
	b, _ := s.key(t, "b", access.RoleAdmin, 0)
	op, _ := s.key(t, "*", access.RoleAdmin, 0)
	mine := s.session(t, a)
	theirs := []string{s.session(t, b), s.session(t, b)}
	if got := s.call(t, b, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`); got.code != 429 ||
		got.problem() != "quota_sessions" {
		t.Errorf("a third session: %d %s", got.code, got.body)
	}
	if got := s.call(t, a, "GET", "/v1/sessions", ""); !strings.Contains(got.body, mine) ||
		strings.Contains(got.body, theirs[0]) {
		t.Error(got.body)
	}
	if got := s.call(t, op, "GET", "/v1/sessions", ""); got.body != "{\"sessions\":[]}\n" {
		t.Error(got.body)
	}
	if got := s.call(t, a, "GET", "/v1/sessions?limit=1&after=0-x", ""); strings.Contains(got.body, "next") ||
		!strings.Contains(got.body, mine) {
		t.Error(got.body)
	}
	if got := s.call(t, a, "GET", "/v1/keys", ""); strings.Contains(got.body, `"b"`) ||
		!strings.Contains(got.body, `"a"`) || strings.Contains(got.body, "hare_") {
		t.Error(got.body)
	}
	if got := s.call(t, a, "GET", "/v1/quota", ""); !strings.Contains(got.body, `"sessions":1,`) {
		t.Error(got.body)
	}
	for _, name := range []string{"b", "nobody", "*"} {
		if got := s.call(t, a, "POST", "/v1/keys", `{"role":"read","tenant":"`+name+`"}`); got.code != 403 {
			t.Errorf("a key of %s: %d", name, got.code)
		}
	}
	// A deletion frees its share of the quota.
	if got := s.call(t, b, "DELETE", "/v1/sessions/"+theirs[0], ""); got.code != 204 {
		t.Fatal(got)
	}
	s.session(t, b)
}

// TestQuotas checks the quotas of rate, body, solves, stored bytes and streams.
func TestQuotas(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	key, _ := s.key(t, "a", access.RoleSolve, 0)
	other, _ := s.key(t, "b", access.RoleSolve, 0)
	set := func(q admission.Quota) {
		t.Helper()
		if err := s.ring.Update(t.Context(), func(set *access.KeySet) error { return set.SetQuota("a", q) }); err != nil {
			t.Fatal(err)
		}
	}
	one := s.session(t, key)
	events := "/v1/sessions/" + one + "/events"
	set(admission.Quota{BodyBytes: 2000})
	long := `{"cluster":` + twoGPUs + strings.Repeat(" ", 2000) + `}`
	if got := s.call(t, key, "POST", "/v1/sessions", long); got.code != 413 || !strings.Contains(got.body, "2000 bytes") {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := s.call(t, key, "POST", "/v1/bounds", strings.Repeat(" ", 2001)); got.code != 413 ||
		!strings.Contains(got.body, "2000 bytes") {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := s.call(t, other, "POST", "/v1/sessions", long); got.code != 201 {
		t.Errorf("%d %s", got.code, got.body)
	}
	set(admission.Quota{StoredBytes: 1})
	if got := s.call(t, key, "POST", events, tick(1)+tick(2)); got.code != 200 || strings.Contains(got.body, "quota") {
		// Both calls came before anything was stored, or the second one was
		// refused.
		if !strings.Contains(got.body, "quota_stored_bytes") {
			t.Errorf("%d %s", got.code, got.body)
		}
	}
	got := s.call(t, key, "POST", events, tick(1)+tick(3))
	if lines := strings.Split(got.body, "\n"); strings.Contains(lines[0], "error") {
		t.Errorf("an event that is recorded is refused: %s", got.body)
	}
	if got := s.call(t, key, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`); got.code != 429 ||
		got.problem() != "quota_stored_bytes" {
		t.Errorf("%d %s", got.code, got.body)
	}
	if used := s.quotas.Usage("a"); used.StoredBytes < 20 || used.Sessions != 1 {
		t.Errorf("%+v", used)
	}
	if got := s.call(t, key, "DELETE", "/v1/sessions/"+one, ""); got.code != 204 {
		t.Errorf("%d %s", got.code, got.body)
	}
	if used := s.quotas.Usage("a"); used != (admission.Quota{}) {
		t.Errorf("%+v", used)
	}
	set(admission.Quota{Solves: 1})
	release, err := s.quotas.Acquire("a")
	if err != nil {
		t.Fatal(err)
	}
	in := `{"instance":` + example(t) + `,"options":` + quick + `}`
	if got := s.call(t, key, "POST", "/v1/solves", in); got.code != 429 || got.problem() != "quota_solves" {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := s.call(t, other, "POST", "/v1/solves", in); got.code != 200 {
		t.Errorf("%d %s", got.code, got.body)
	}
	release()
	if got := s.call(t, key, "POST", "/v1/solves", in); got.code != 200 {
		t.Errorf("%d %s", got.code, got.body)
	}
	wait(t, "the place is free", func() bool { return s.quotas.Usage("a").Solves == 0 })
	set(admission.Quota{Rate: 0.5})
	codes := map[int]int{}
	for range 10 {
		got := s.call(t, key, "GET", "/v1/quota", "")
		codes[got.code]++
		if got.code == 429 && (got.problem() != "quota_rate" || got.header.Get("Retry-After") == "0") {
			t.Error(got)
		}
	}
	if codes[429] < 5 || codes[200] < 1 {
		t.Error(codes)
	}
	if got := s.call(t, other, "GET", "/v1/quota", ""); got.code != 200 {
		t.Error(got)
	}
}

// patience is how long tests wait for what should happen soon before they call it stuck. It
// is long, since a busy machine may take long for little.
const patience = time.Minute

// wait waits until holds returns true, five minutes at most: the time that a busy machine
// takes is not the subject of a test. Near the -timeout of go test it fails earlier, so
// that the failure is not lost among the goroutines that the end by -timeout prints.
func wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(5 * time.Minute)
	if timed, ok := t.(*testing.T); ok {
		if deadline, ok := timed.Deadline(); ok && deadline.Before(end) {
			end = deadline.Add(-5 * time.Second)
		}
	}
	for ; !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

// TestFullServerTellsNothing checks that a server whose total limit is reached does
// not reveal that limit.
func TestFullServerTellsNothing(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{}, func(c *sessions.Config) { c.MaxSessions = 2 })
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	s.session(t, a)
	s.session(t, a)
	got := s.call(t, b, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`)
	if got.code != 503 || got.problem() != "full" || strings.Contains(got.body, "2 ") {
		t.Errorf("%d %s", got.code, got.body)
	}
	if used := s.quotas.Usage("b"); used.Sessions != 0 {
		t.Errorf("%+v", used)
	}
}

// TestGuessing checks that calls with bad keys are slowed down by address, and
// calls with good keys are not.
func TestGuessing(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	good, _ := s.key(t, "a", access.RoleRead, 0)
	codes := map[int]int{}
	for range 60 {
		got := s.call(t, strings.Repeat("x", 70), "GET", "/v1/sessions", "")
		codes[got.code]++
		hardened(t, "guess", got)
	}
	if codes[401] < 20 || codes[429] < 20 {
		t.Error(codes)
	}
	if got := s.call(t, good, "GET", "/v1/sessions", ""); got.code != 200 {
		t.Error(got)
	}
	if got := s.call(t, "x", "GET", "/v1/sessions", "", fromHeader, "[2001:db8::1]:7"); got.code != 401 {
		t.Error("another address:", got)
	}
}

// TestQuotaOfJobs checks that jobs of all clusters of a tenant count until they end, and that other tenants go
// on.
func TestQuotaOfJobs(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{Jobs: 2})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	submit := func(key, cluster string) reply {
		t.Helper()
		return s.call(t, key, "POST", "/v1/clusters/"+cluster+"/jobs", `{"command":["true"]}`)
	}
	for _, cluster := range []string{"one", "two"} {
		if got := submit(a, cluster); got.code != http.StatusCreated {
			t.Fatalf("%d %s", got.code, got.body)
		}
	}
	got := submit(a, "one")
	if got.code != http.StatusTooManyRequests || got.problem() != "quota_jobs" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := submit(b, "one"); got.code != http.StatusCreated {
		t.Errorf("another tenant: %d %s", got.code, got.body)
	}
	if got := s.call(t, a, "GET", "/v1/quota", ""); !strings.Contains(string(got.body), `"jobs":2}}`) {
		t.Errorf("%s", got.body)
	}
	if got := s.call(t, a, "POST", "/v1/clusters/two/jobs/j1/cancel", ""); got.code >= 300 {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if got := submit(a, "one"); got.code != http.StatusCreated {
		t.Errorf("after a cancellation: %d %s", got.code, got.body)
	}
}
