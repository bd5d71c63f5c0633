package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// guarded describes the access rule of a route and an example of a call.
type guarded struct {
	// role is the least one that may use the route. RoleNone means that the route needs no key, and RoleAgent that it is
	// for agents of the node, and for admins.
	role     access.Role
	operator bool
	// the kind of thing that {id}, in the path or the body, or {tenant} names: session, solve, key, tenant
	of    string
	job   string // the name for {job}; "" where the path has none
	query string
	body  string
	want  int // the status for callers who may use the route on their own things
}

// registration is that of an agent called a.
const registration = `{"protocol":4,"version":"test","name":"a","incarnation":"0123456789abcdef",` +
	`"devices":[{"type":"V100"}]}`

// guardedRoutes lists every route; the test fails for a route that is missing.
func guardedRoutes(t *testing.T) map[string]guarded {
	in := `{"instance":` + example(t)
	const agent, read, solve, admin = access.RoleAgent, access.RoleRead, access.RoleSolve, access.RoleAdmin
	return map[string]guarded{
		"POST /v1/solves":                 {role: solve, body: in + `,"options":` + quick + `}`, want: 200},
		"GET /v1/solves":                  {role: read, want: 200},
		"GET /v1/solves/{id}":             {role: read, of: "solve", want: 200},
		"DELETE /v1/solves/{id}":          {role: solve, of: "solve", want: 204},
		"POST /v1/solves/{id}/cancel":     {role: solve, of: "solve", want: 202},
		"GET /v1/solves/{id}/result":      {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/schedule":    {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/gantt.svg":   {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/gantt.png":   {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/gantt.html":  {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/certificate": {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/instance":    {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/events":      {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/jobs":        {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/jobs/{job}":  {role: read, of: "solve", job: "bert", want: 200},
		"GET /v1/solves/{id}/prices":      {role: read, of: "solve", want: 200},
		"GET /v1/solves/{id}/prices.svg":  {role: read, of: "solve", want: 200},
		"POST /v1/what-if": {role: solve, of: "solve",
			body: `{"base":{"solve_id":"{id}"},"options":{"work_limit":1},"scenarios":[{"id":"x","scale_weights":{"bert":2}}]}`,
			want: 200},
		"POST /v1/simulations": {role: solve,
			body: `{"policies":["srtf"],"generate":{"jobs":2}}`, want: 200},
		"GET /v1/what-if":                  {role: read, want: 200},
		"GET /v1/what-if/{id}":             {role: read, of: "what_if", want: 200},
		"GET /v1/what-if/{id}/request":     {role: read, of: "what_if", want: 200},
		"DELETE /v1/what-if/{id}":          {role: solve, of: "what_if", want: 204},
		"GET /v1/simulations":              {role: read, want: 200},
		"GET /v1/simulations/{id}":         {role: read, of: "simulation", want: 200},
		"GET /v1/simulations/{id}/request": {role: read, of: "simulation", want: 200},
		"DELETE /v1/simulations/{id}":      {role: solve, of: "simulation", want: 204},
		"POST /v1/capacity": {role: solve, of: "solve",
			body: `{"solve_id":"{id}","weeks":1,"days":1}`, want: 200},
		"GET /v1/capacity":                 {role: read, want: 200},
		"GET /v1/capacity/{id}":            {role: read, of: "capacity", want: 200},
		"GET /v1/capacity/{id}/request":    {role: read, of: "capacity", want: 200},
		"DELETE /v1/capacity/{id}":         {role: solve, of: "capacity", want: 204},
		"POST /v1/bounds":                  {role: solve, body: in + `,"method":"machine"}`, want: 200},
		"POST /v1/verify":                  {role: solve, body: in + `}`, want: 422},
		"POST /v1/sessions":                {role: solve, body: `{"cluster":` + twoGPUs + `}`, want: 201},
		"GET /v1/sessions":                 {role: read, want: 200},
		"GET /v1/sessions/{id}":            {role: read, of: "session", want: 200},
		"DELETE /v1/sessions/{id}":         {role: solve, of: "session", want: 204},
		"GET /v1/sessions/{id}/jobs":       {role: read, of: "session", want: 200},
		"GET /v1/sessions/{id}/jobs/{job}": {role: read, of: "session", want: 404},
		"GET /v1/sessions/{id}/gantt.svg":  {role: read, of: "session", want: 200},
		"GET /v1/sessions/{id}/gantt.html": {role: read, of: "session", want: 200},
		"GET /v1/sessions/{id}/changes":    {role: read, of: "session", query: "?after=x", want: 400},
		"GET /v1/sessions/{id}/plan":       {role: read, of: "session", want: 200},
		"POST /v1/sessions/{id}/events":    {role: solve, of: "session", body: tick(1), want: 200},
		"GET /v1/sessions/{id}/decisions":  {role: read, of: "session", want: 200},
		"GET /v1/sessions/{id}/log":        {role: read, of: "session", want: 200},
		"GET /v1/sessions/{id}/regret":     {role: read, of: "session", want: 200},
		"GET /v1/sessions/{id}/schedule":   {role: read, of: "session", want: 200},
		"POST /v1/clusters":                {role: solve, body: `{"name":"{new}"}`, want: 201},
		"GET /v1/clusters":                 {role: read, want: 200},
		"GET /v1/clusters/{cluster}":       {role: read, of: "cluster", want: 200},
		"DELETE /v1/clusters/{cluster}":    {role: solve, of: "cluster", want: 409},
		"POST /v1/clusters/{cluster}/jobs": {role: solve, body: `{"command":["true"]}`, want: 201},
		"POST /v1/clusters/{cluster}/jobs:preview": {role: solve,
			of: "cluster", body: `{"command":["true"]}`, want: 200},
		"GET /v1/clusters/{cluster}/jobs":       {role: read, of: "cluster", want: 200},
		"GET /v1/clusters/{cluster}/jobs/{job}": {role: read, of: "cluster", job: "j1", want: 200},
		"PATCH /v1/clusters/{cluster}/jobs/{job}": {role: solve,
			of: "cluster", job: "j1", body: `{"weight":2}`, want: 200},
		"POST /v1/clusters/{cluster}/jobs/{job}/preview": {role: solve,
			of: "cluster", job: "j1", body: `{"weight":2}`, want: 200},
		"POST /v1/clusters/{cluster}/jobs/{job}/cancel": {role: solve,
			of: "cluster", job: "j1", want: 202},
		"GET /v1/clusters/{cluster}/jobs/{job}/logs": {role: read,
			of: "cluster", job: "j1", want: 200},
		"GET /v1/clusters/{cluster}/changes": {role: read, of: "cluster", query: "?after=x", want: 400},
		"GET /v1/clusters/{cluster}/history": {role: read, of: "cluster", want: 200},
		"GET /v1/clusters/{cluster}/gantt":   {role: read, of: "cluster", want: 200},
		"GET /v1/clusters/{cluster}/agents":  {role: read, of: "cluster", want: 200},
		"POST /v1/clusters/{cluster}/agents": {role: agent, body: registration, want: 200},
		"POST /v1/clusters/{cluster}/agents/{agent}/sync": {role: agent,
			of:   "cluster",
			body: `{"epoch":1,"wait_s":0,"reports_after":0,"orders_seen":0}`, want: 200},
		"POST /v1/clusters/{cluster}/agents/{agent}/logs": {role: agent,
			of:    "cluster",
			query: "?epoch=1&job=j1&attempt=1&task=0&stream=stdout&offset=0", body: "hello", want: 200},
		"POST /v1/clusters/{cluster}/agents/{agent}/checkpoints": {role: agent,
			of: "cluster", query: "?epoch=1&job=j1&attempt=1&round=1&bytes=5&offset=0&sha256=" +
				strings.Repeat("0", 64), body: "hello", want: 404}, // j1 is no round job
		"GET /v1/clusters/{cluster}/agents/{agent}/checkpoints": {role: agent,
			of: "cluster", query: "?epoch=1&job=j1&attempt=1&offset=0&sha256=" + strings.Repeat("0", 64),
			want: 404},
		"POST /v1/clusters/{cluster}/agents/{agent}/drain": {role: solve,
			of: "cluster", body: `{}`, want: 200},
		"POST /v1/clusters/{cluster}/agents/{agent}/undrain": {role: solve,
			of: "cluster", want: 200},
		"GET /v1/keys":         {role: admin, want: 200},
		"POST /v1/keys":        {role: admin, body: `{"role":"read"}`, want: 201},
		"DELETE /v1/keys/{id}": {role: admin, of: "key", want: 204},
		"GET /v1/policies":     {role: read, want: 200},
		"GET /v1/quota":        {role: read, want: 200},
		"PUT /v1/quotas/{tenant}": {role: admin, operator: true, of: "tenant", body: `{"sessions":100000}`,
			want: 200},
		"GET /metrics":      {role: admin, operator: true, want: 200},
		"GET /v1/version":   {want: 200},
		"GET /healthz":      {want: 200},
		"GET /readyz":       {want: 200},
		"GET /openapi.json": {want: 200},
		"GET /openapi.yaml": {want: 200},
		"GET /":             {want: 200},
		"GET /docs":         {want: 200},
	}
}

// TestEveryRouteForEveryKey calls each route with each kind of key, for things that
// belong to the caller's tenant, to another tenant, and to nobody.
func TestEveryRouteForEveryKey(t *testing.T) {
	if testing.Short() {
		t.Skip("sends one request after another")
	}
	s := newKeyedServer(t, admission.Quota{Sessions: 100_000})
	table := guardedRoutes(t)
	var routes []string
	err := chi.Walk(s.handler.(chi.Routes),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			routes = append(routes, method+" "+route)
			if _, ok := table[method+" "+route]; !ok {
				t.Errorf("%s %s is in no table: say who may call it", method, route)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) != len(table) {
		t.Errorf("%d routes, %d in the table", len(routes), len(table))
	}
	type caller struct {
		name, key string
		role      access.Role
		operator  bool
		code      string // the code with which every call is refused
		elsewhere bool   // the key is for another node than a
	}
	makeKey := func(tenant string, role access.Role, lasts time.Duration) string {
		secret, _ := s.key(t, tenant, role, lasts)
		return secret
	}
	revoked, id := s.key(t, "a", access.RoleAdmin, 0)
	s.revoke(t, id)
	good := makeKey("a", access.RoleAdmin, 0)
	callers := []caller{
		{name: "none", code: "no_key"},
		{name: "garbage", key: "hare", code: "bad_key"},
		{name: "another secret", key: good[:len(good)-4] + "aaaa", code: "bad_key"},
		{name: "revoked", key: revoked, code: "bad_key"},
		{name: "expired", key: makeKey("a", access.RoleAdmin, -time.Hour), code: "bad_key"},
		{name: "agent", key: s.agentKey(t, "a", "a"), role: access.RoleAgent},
		{name: "agent of a fleet", key: s.agentKey(t, "a", "b*", "*"), role: access.RoleAgent},
		{name: "agent of other nodes", key: s.agentKey(t, "a", "b", "aa*", "A"), role: access.RoleAgent, elsewhere: true},
		{name: "read", key: makeKey("a", access.RoleRead, time.Hour), role: access.RoleRead},
		{name: "solve", key: makeKey("a", access.RoleSolve, 0), role: access.RoleSolve},
		{name: "admin", key: good, role: access.RoleAdmin},
		{name: "operator", key: makeKey("*", access.RoleAdmin, 0), role: access.RoleAdmin, operator: true},
		{name: "operator, read", key: makeKey("*", access.RoleRead, 0), role: access.RoleRead, operator: true},
	}
	other, operator := makeKey("b", access.RoleAdmin, 0), makeKey("*", access.RoleAdmin, 0)
	// thing creates what {id} names: it belongs to the caller's tenant, to b, or to
	// nobody.
	thing := func(of, whose string, c caller) string {
		owner, key := "a", good
		if c.operator {
			owner, key = "*", operator
		}
		if whose == "foreign" {
			owner, key = "b", other
		}
		switch {
		case of == "cluster" && whose == "absent":
			return "nobody"
		case of == "cluster":
			return s.cluster(t, key)
		case of == "session" && whose == "absent":
			return "abcdefghijklmnopqrstuvwxyz"
		case of == "session":
			return s.session(t, key)
		case of == "solve" && whose == "absent":
			return "abcdefghijklmnopqrstuvwxyz"
		case of == "solve":
			return s.solve(t, key, `{"work_limit":50}`)
		case (of == "what_if" || of == "simulation" || of == "capacity") && whose == "absent":
			return "abcdefghijklmnopqrstuvwxyz"
		case of == "what_if":
			return s.report(t, key, "/v1/what-if", `{"base":{"instance":`+example(t)+`},"options":{"work_limit":1},`+
				`"scenarios":[{"scale_weights":{"bert":2}}]}`)
		case of == "simulation":
			return s.report(t, key, "/v1/simulations", `{"policies":["srtf"],"generate":{"jobs":2}}`)
		case of == "capacity":
			return s.report(t, key, "/v1/capacity", `{"instance":`+example(t)+`,"weeks":1,"days":1}`)
		case of == "key" && whose == "absent":
			return "abcdefghijklmnop"
		case of == "key":
			_, id := s.key(t, owner, access.RoleRead, 0)
			return id
		case whose == "absent":
			return "nobody"
		}
		return owner
	}
	calls := 0
	for at, route := range routes {
		g := table[route]
		method, pattern, _ := strings.Cut(route, " ")
		for i, c := range callers {
			var seen []reply
			for _, whose := range []string{"own", "foreign", "absent"} {
				if whose != "own" && g.of == "" {
					continue
				}
				path := pattern
				body := strings.ReplaceAll(g.body, "{new}", fmt.Sprint("new", calls))
				if g.of == "" {
					name := fmt.Sprint("made", calls)
					if g.role == access.RoleAgent { // agents make no cluster of a tenant that has as many as this one
						name = thing("cluster", "own", c)
					}
					path = strings.ReplaceAll(path, "{cluster}", name)
				}
				if g.of != "" {
					named, job := thing(g.of, whose, c), "none"
					if g.job != "" {
						job = g.job
					}
					path = strings.NewReplacer("{id}", named, "{tenant}", named, "{job}", job, "{cluster}", named,
						"{agent}", "a").Replace(pattern) + g.query
					body = strings.ReplaceAll(body, "{id}", named)
				}
				want, code := g.want, ""
				switch {
				case g.role == access.RoleNone:
				case c.code != "":
					want, code = 401, c.code
				case c.role < g.role, g.operator && !c.operator, g.role == access.RoleAgent && c.role != access.RoleAgent &&
					c.role != access.RoleAdmin:
					want, code = 403, "forbidden"
				case c.elsewhere:
					want, code = 403, "other_node"
				case g.of != "key" && g.of != "tenant" && whose != "own":
					want, code = 404, "no_"+g.of
				case g.of == "key" && (whose == "absent" || whose == "foreign" && !c.operator):
					want, code = 404, "no_such_key"
				}
				// Each pair of route and caller has its own client address, because
				// failed attempts are limited by address.
				from := fmt.Sprintf("10.0.%d.%d:1", at, i)
				got := s.call(t, c.key, method, path, body, fromHeader, from)
				calls++
				if got.code != want || code != "" && got.problem() != code {
					t.Errorf("%s, %s, %s: %d %s, want %d %s\n%.300s", route, c.name, whose, got.code, got.problem(), want, code,
						got.body)
				}
				hardened(t, route, got)
				if whose != "own" {
					seen = append(seen, got)
				}
			}
			if g.of == "session" || g.of == "solve" || g.of == "cluster" || g.of == "key" && !c.operator {
				if a, b := faceless(seen[0]), faceless(seen[1]); a != b {
					t.Errorf("%s, %s: another tenant's and nobody's differ:\n%s\n%s", route, c.name, a, b)
				}
			}
		}
	}
	if calls < 900 {
		t.Errorf("%d calls", calls)
	}
	if text := s.log.String(); strings.Contains(text, "hare_") {
		t.Error("the log has a key")
	}
}

// hardened checks the security headers of one answer.
func hardened(t *testing.T, route string, got reply) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "frame-ancestors 'none'",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if !strings.Contains(got.header.Get(name), want) {
			t.Errorf("%s: %s is %q", route, name, got.header.Get(name))
		}
	}
	if got.header.Get("Strict-Transport-Security") != "" {
		t.Errorf("%s: Strict-Transport-Security without TLS", route)
	}
	if got.code == 401 && got.header.Get("WWW-Authenticate") == "" ||
		got.code == 429 && got.header.Get("Retry-After") == "" {
		t.Errorf("%s: %d without its header", route, got.code)
	}
}

var callOwn = regexp.MustCompile(`"request_id":"[^"]*"`)

// faceless returns an answer without its individual parts, such as the request id.
func faceless(r reply) string {
	var lines []string
	for name, values := range r.header {
		if name != "X-Request-Id" && name != "Date" {
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(r.code, lines, callOwn.ReplaceAllString(r.body, ""))
}

// TestRevocationEndsStreams checks that streams of decisions and of events end with
// their key.
func TestRevocationEndsStreams(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{Streams: 2})
	key, id := s.key(t, "a", access.RoleSolve, 0)
	session := s.session(t, key)
	open := func(method, path string, body io.Reader, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.Header.Set("Authorization", "Bearer "+key)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	hold, body := io.Pipe()
	defer body.Close()
	decisions := open("GET", "/v1/sessions/"+session+"/decisions", nil, "Accept", "text/event-stream")
	events := open("POST", "/v1/sessions/"+session+"/events", hold)
	if got := s.call(t, key, "GET", "/v1/sessions/"+session+"/decisions?follow=true", ""); got.code != 429 ||
		got.problem() != "quota_streams" {
		t.Errorf("a third stream: %d %s", got.code, got.body)
	}
	// The key is revoked in the store without the server, as hare key does.
	err := s.store.Update(t.Context(), func(set *access.KeySet) error { return set.Revoke("*", id, time.Now()) })
	if err != nil {
		t.Fatal(err)
	}
	for name, resp := range map[string]*http.Response{"decisions": decisions, "events": events} {
		ended := make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(resp.Body)
			ended <- string(text)
		}()
		select {
		case text := <-ended:
			if !strings.Contains(text, "bad_key") {
				t.Errorf("%s ends without saying why: %q", name, text)
			}
		case <-time.After(patience):
			t.Fatalf("%s: the stream goes on", name)
		}
	}
	if got := s.call(t, key, "GET", "/v1/sessions", ""); got.code != 401 {
		t.Error(got)
	}
	wait(t, "the streams are given back", func() bool { return s.quotas.Usage("a").Streams == 0 })
}

// TestKeysOverHTTP creates a key, uses it and revokes it.
func TestKeysOverHTTP(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	admin, _ := s.key(t, "a", access.RoleAdmin, 0)
	for _, c := range []struct {
		body string
		code int
		want string
	}{
		{`{"role":"root"}`, 422, "/role"},
		{`{"rule":"read"}`, 422, "/rule"},
		{`{"role":5}`, 422, "/role"},
		{`{"role":"read","role":"read"}`, 400, "/role"},
		{`{"role":"read","expires_s":-1}`, 422, "/expires_s"},
		{`{"role":"read","expires_s":1e99}`, 422, "/expires_s"},
		{`{"role":"read","note":"a\nb"}`, 422, "/note"},
		{`[]`, 400, ""},
		{``, 400, ""},
		{`{"role":"read","note":"` + strings.Repeat("x", 17_000) + `"}`, 413, "16384 bytes"},
	} {
		got := s.call(t, admin, "POST", "/v1/keys", c.body)
		if got.code != c.code || !strings.Contains(got.body, c.want) {
			t.Errorf("%.60s: %d %s", c.body, got.code, got.body)
		}
	}
	got := s.call(t, admin, "POST", "/v1/keys", `{"role":"read","expires_s":3600,"note":"for CI"}`)
	var made struct{ ID, Key, Tenant, Expires string }
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || got.code != 201 || made.Tenant != "a" ||
		made.Expires == "" {
		t.Fatalf("%v %d %s", err, got.code, got.body)
	}
	if got.header.Get("Cache-Control") != "no-store" {
		t.Error("the key may be kept by caches")
	}
	if got := s.call(t, made.Key, "GET", "/v1/sessions", ""); got.code != 200 {
		t.Error(got)
	}
	for range 2 {
		if got := s.call(t, admin, "DELETE", "/v1/keys/"+made.ID, ""); got.code != 204 {
			t.Error(got)
		}
	}
	if got := s.call(t, made.Key, "GET", "/v1/sessions", ""); got.code != 401 {
		t.Error(got)
	}
	s.store.mu.Lock()
	s.store.bad = &store.CorruptError{What: "/var/lib/hare/keys.json is damaged"}
	s.store.mu.Unlock()
	for path, method := range map[string]string{"/v1/keys": "POST", "/v1/keys/" + made.ID: "DELETE"} {
		if got := s.call(t, admin, method, path, `{"role":"read"}`); got.code != 500 || got.problem() != "internal" ||
			strings.Contains(got.body, "/var") {
			t.Errorf("%d %s", got.code, got.body)
		}
	}
	s.store.mu.Lock()
	s.store.bad = nil
	s.store.mu.Unlock()
	// A key in the place of its id is answered with 404, and is not logged.
	if got := s.call(t, admin, "DELETE", "/v1/keys/"+made.Key, ""); got.code != 404 {
		t.Error(got)
	}
	s.call(t, admin, "GET", "/v1/sessions/"+made.Key+"?key="+made.Key, "", "X-Request-Id", made.Key)
	if text := s.log.String(); strings.Contains(text, "hare_") || !strings.Contains(text, made.ID) {
		t.Error("the log has a key, or not its id")
	}
}

// TestWithoutKeys checks that all routes are open on a server without keys, and
// that it has no routes for keys.
func TestWithoutKeys(t *testing.T) {
	h, _ := newServer(t)
	for path, code := range map[string]int{"/metrics": 200, "/v1/keys": 404, "/v1/quota": 404} {
		if w := request(t, h, "GET", path, ""); w.Code != code {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// BenchmarkKeyed measures a call with a key, and the same call without one.
func BenchmarkKeyed(b *testing.B) {
	with := newKeyedServer(b, admission.Quota{Rate: 1e9})
	key, _ := with.key(b, "a", access.RoleRead, 0)
	call := func(b *testing.B, h http.Handler) {
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest("GET", "http://localhost/v1/sessions", nil)
			r.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				b.Fatal(w.Code)
			}
		}
	}
	b.Run("with", func(b *testing.B) { call(b, with.handler) })
	b.Run("without", func(b *testing.B) {
		svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
		call(b, servetest.New(b, svc, api.Config{Sessions: with.sessions}))
	})
}
