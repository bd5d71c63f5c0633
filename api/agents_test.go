package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// agentSecrets knows the secrets of the registrations of a test, and shows them in what the agents say. A header that
// a call sets itself stays.
type agentSecrets struct {
	mu     sync.Mutex
	byPath map[string]string
}

func (a *agentSecrets) show(r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(r.Header.Values(clusterdoc.SecretHeader)) > 0 || !strings.Contains(r.URL.Path, "/agents/") {
		return
	}
	r.Header.Set(clusterdoc.SecretHeader, "none")
	for path, secret := range a.byPath {
		if strings.HasPrefix(r.URL.Path, path+"/") {
			r.Header.Set(clusterdoc.SecretHeader, secret)
		}
	}
}

func (a *agentSecrets) note(path, body, answer string) {
	if !strings.HasSuffix(path, "/agents") {
		return
	}
	var is clusterdoc.Registered
	var was clusterdoc.Registration
	if json.Unmarshal([]byte(answer), &is) != nil || is.Secret == "" || json.Unmarshal([]byte(body), &was) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byPath == nil {
		a.byPath = map[string]string{}
	}
	a.byPath[path+"/"+was.Name] = is.Secret
}

// nodeNamed is the registration of a node.
func nodeNamed(name string) string {
	return strings.NewReplacer(`"name":"a"`, fmt.Sprintf(`"name":%q`, name), "0123456789abcdef",
		"the incarnation of "+name).Replace(registration)
}

// Whatever is said in the name of an agent shows the secret of the agent's last registration, with keys and without.
func TestAgentSecrets(t *testing.T) {
	keyed := newKeyedServer(t, admission.Quota{})
	admin, _ := keyed.key(t, "a", access.RoleAdmin, 0)
	key := keyed.agentKey(t, "a", "a")
	keyless := newClusterServer(t, clusters.Config{})
	call := func(method, path, body, secret string) (code int, problem, text string) {
		got := keyed.call(t, key, method, path, body, clusterdoc.SecretHeader, secret)
		status, text2, _ := keyless.call(t, method, path, body, clusterdoc.SecretHeader, secret)
		other := reply{code: status, body: text2}
		if got.code != status || got.problem() != other.problem() {
			t.Errorf("%s %s: %d %s with keys, and %d %s without", method, path, got.code, got.body, status, text2)
		}
		return got.code, got.problem(), got.body
	}
	keyed.cluster(t, admin)
	keyless.ask(t, 200, "POST", "/v1/clusters/c1/agents", registration, nil)
	keyless.ask(t, 201, "POST", "/v1/clusters/c1/jobs", `{"command":["true"]}`, nil)
	secrets := func() (with, without string) {
		return keyed.agents.byPath["/v1/clusters/c1/agents/a"], keyless.agents.byPath["/v1/clusters/c1/agents/a"]
	}
	with, without := secrets()
	if len(with) < 26 || len(without) < 26 || with == without {
		t.Errorf("secrets %q and %q", with, without)
	}
	asked := 0
	for route, g := range guardedRoutes(t) {
		method, path, _ := strings.Cut(route, " ")
		if g.role != access.RoleAgent || !strings.Contains(path, "{agent}") {
			continue
		}
		asked++ // which is the epoch, too
		epoch := func(n int) *strings.Replacer {
			return strings.NewReplacer("epoch=1", fmt.Sprint("epoch=", n), `"epoch":1`, fmt.Sprintf(`"epoch":%d`, n))
		}
		path = strings.NewReplacer("{cluster}", "c1", "{agent}", "a").Replace(path) + g.query
		for _, secret := range []string{"", "0123456789abcdef", with[:len(with)-1], strings.ToLower(with) + "x",
			without + with} {
			code, problem, text := call(method, epoch(asked).Replace(path), epoch(asked).Replace(g.body), secret)
			if code != 403 || problem != "agent_secret" {
				t.Errorf("%s with %q: %d %s", route, secret, code, text)
			}
		}
		// The secret of the registration before is not that of this one.
		got := keyed.call(t, admin, "POST", "/v1/clusters/c1/agents", registration)
		if got.code != 200 || keyed.agents.byPath["/v1/clusters/c1/agents/a"] == with {
			t.Fatal(got.body)
		}
		was := with
		with, _ = secrets()
		now := epoch(asked + 1)
		for secret, want := range map[string]int{was: 403, with: g.want} {
			if got := keyed.call(t, key, method, now.Replace(path), now.Replace(g.body), clusterdoc.SecretHeader,
				secret); got.code != want && !(want == 200 && got.code == 404) { // the task may be lost by now
				t.Errorf("%s: %d and not %d: %s", route, got.code, want, got.body)
			}
		}
		keyless.ask(t, 200, "POST", "/v1/clusters/c1/agents", registration, nil)
	}
	if asked != 4 {
		t.Errorf("%d routes", asked)
	}
}

// A key without a node gets the one that it registers first, in all clusters of its tenant and for good; one with a
// pattern is for the nodes that it matches, and one from before keys had nodes for any.
func TestKeysOfNodes(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	admin, _ := s.key(t, "a", access.RoleAdmin, 0)
	register := func(key, cluster, node string) reply {
		return s.call(t, key, "POST", "/v1/clusters/"+cluster+"/agents", nodeNamed(node))
	}
	expect := func(got reply, code int, problem string) {
		t.Helper()
		if got.code != code || got.problem() != problem {
			t.Errorf("%d %s, want %d %s: %s", got.code, got.problem(), code, problem, got.body)
		}
	}
	report := func(key, cluster, node string) reply {
		return s.call(t, key, "POST", "/v1/clusters/"+cluster+"/agents/"+node+"/sync", `{"epoch":1}`)
	}
	for _, cluster := range []string{"one", "two"} {
		expect(register(admin, cluster, "node2"), 200, "")
	}
	thief := func(key string) reply { // who does not know the incarnation
		return s.call(t, key, "POST", "/v1/clusters/one/agents", strings.Replace(nodeNamed("node2"), "the in", "no in", 1))
	}
	key := s.agentKey(t, "a")
	expect(report(key, "one", "node2"), 403, "other_node")
	expect(register(key, "one", "a/b"), 422, "bad_name") // binds to nothing,
	expect(thief(key), 409, "agent_exists")              // nor does this
	expect(register(key, "one", "node1"), 200, "")
	expect(register(key, "two", "node1"), 200, "")
	expect(report(key, "two", "node1"), 200, "")
	refused := register(key, "two", "node2")
	expect(refused, 403, "other_node")
	if !strings.Contains(refused.body, `node1`) || !strings.Contains(refused.body, "key create --role agent --node") {
		t.Error(refused.body)
	}
	expect(report(key, "two", "node2"), 403, "other_node")
	if got := s.call(t, admin, "GET", "/v1/keys", ""); !strings.Contains(got.body, `"nodes":["node1"]`) {
		t.Error(got.body)
	}

	made := s.call(t, admin, "POST", "/v1/keys", `{"role":"agent","nodes":["rack1-*"]}`)
	var k struct{ Key string }
	if err := json.Unmarshal([]byte(made.body), &k); err != nil || !strings.Contains(made.body, `"nodes":["rack1-*"]`) {
		t.Fatal(err, made.body)
	}
	expect(register(k.Key, "one", "rack1-7"), 200, "")
	expect(register(k.Key, "one", "rack1-8"), 200, "")
	expect(report(k.Key, "one", "rack1-8"), 200, "")
	for _, other := range []string{"rack2-1", "xrack1-1", "rack1", "RACK1-1"} {
		expect(register(k.Key, "one", other), 403, "other_node")
	}
	for body, pointer := range map[string]string{
		`{"role":"solve","nodes":["a"]}`:       "/nodes",
		`{"role":"agent","nodes":["a","["]}`:   "/nodes/1",
		`{"role":"agent","nodes":[""]}`:        "/nodes/0",
		`{"role":"agent","nodes":["a\u0000"]}`: "/nodes/0",
	} {
		if got := s.call(t, admin, "POST", "/v1/keys", body); got.code != 422 || !strings.Contains(got.body, pointer) {
			t.Errorf("%s: %d %s", body, got.code, got.body)
		}
	}

	fresh := s.agentKey(t, "a")
	var group sync.WaitGroup
	var taken atomic.Int64
	for i := range 8 { // at once
		group.Go(func() {
			switch got := register(fresh, "one", fmt.Sprint("fresh", i)); {
			case got.code == 200:
				taken.Add(1)
			case got.problem() != "other_node":
				t.Error(got.body)
			}
		})
	}
	if group.Wait(); taken.Load() != 1 {
		t.Errorf("a key has registered %d nodes", taken.Load())
	}

	old, id := s.key(t, "a", access.RoleAgent, 0)
	if err := s.ring.Update(t.Context(), func(set *access.KeySet) error {
		for i := range set.Keys {
			if set.Keys[i].ID == id {
				set.Keys[i].Nodes = nil
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"old1", "old2"} {
		expect(register(old, "one", node), 200, "")
		expect(report(old, "one", node), 200, "")
	}
}

// A key for one node registers seldom, one for a fleet as often as the fleet needs after a restart; and agents do not
// make clusters without end.
func TestRegistrationsHaveARate(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	fleet, one := s.agentKey(t, "a", "*"), s.agentKey(t, "b")
	var group sync.WaitGroup
	for i := range 600 {
		group.Go(func() {
			if got := s.call(t, fleet, "POST", "/v1/clusters/lab/agents", nodeNamed(fmt.Sprint("n", i))); got.code != 200 {
				t.Error(got.code, got.body)
			}
		})
	}
	group.Wait()
	refused := 0
	for range 40 {
		got := s.call(t, one, "POST", "/v1/clusters/lab/agents", nodeNamed("n"))
		switch {
		case got.code == 429 && got.problem() == "quota_registrations" && got.header.Get("Retry-After") != "":
			refused++
		case got.code != 200:
			t.Fatal(got.code, got.body)
		}
	}
	if refused < 10 {
		t.Errorf("%d of 40 registrations at once were refused", refused)
	}
	made, code := 0, 200
	for ; made < 14; made++ {
		s.call(t, fleet, "POST", fmt.Sprintf("/v1/clusters/more%d/agents", made), nodeNamed("n0"))
	}
	for i := range 8 { // at once into the last one that agents make
		group.Go(func() {
			got := s.call(t, fleet, "POST", "/v1/clusters/more14/agents", nodeNamed(fmt.Sprint("n", i)))
			if got.code != 200 {
				t.Error(got.code, got.body)
			}
		})
	}
	group.Wait()
	for made = 15; code == 200 && made < 50; made++ {
		got := s.call(t, fleet, "POST", "/v1/clusters/"+fmt.Sprint("more", made)+"/agents", nodeNamed("n0"))
		if code = got.code; code != 200 && (code != 403 || got.problem() != "no_cluster") {
			t.Fatal(code, got.body)
		}
	}
	if made != 16 {
		t.Errorf("agents made %d clusters", made)
	}
}

// The values of variables are for who runs the job: of secret ones nobody else sees any, and of all others role read
// sees none. Lists have no variables.
func TestVariablesAreMasked(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	admin, _ := s.key(t, "a", access.RoleAdmin, 0)
	solve, _ := s.key(t, "a", access.RoleSolve, 0)
	read, _ := s.key(t, "a", access.RoleRead, 0)
	agent := s.agentKey(t, "a")
	job := `{"command":["true"],"env":{"LR":"plain-value"},"secret_env":{"TOKEN":"secret-value"}}`
	submit := func(body string) reply {
		return s.call(t, solve, "POST", "/v1/clusters/lab/jobs", body, "Idempotency-Key", "k")
	}
	hidden := func(got reply, plain, names bool) {
		t.Helper()
		if got.code >= 300 || strings.Contains(got.body, "secret-value") ||
			strings.Contains(got.body, "plain-value") == plain || strings.Contains(got.body, "TOKEN") != names {
			t.Errorf("%d %s", got.code, got.body)
		}
	}
	hidden(submit(job), false, true)
	registered := s.call(t, agent, "POST", "/v1/clusters/lab/agents", registration)
	if registered.code != 200 {
		t.Fatal(registered.body)
	}
	orders := s.call(t, agent, "POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"wait_s":5}`)
	if !strings.Contains(orders.body, `"LR":"plain-value","TOKEN":"secret-value"`) {
		t.Error(orders.body)
	}
	look := func() {
		t.Helper()
		for _, key := range []string{admin, solve} {
			hidden(s.call(t, key, "GET", "/v1/clusters/lab/jobs/j1", ""), false, true)
		}
		hidden(s.call(t, read, "GET", "/v1/clusters/lab/jobs/j1", ""), true, true)
		var lab clusterdoc.Cluster
		text := s.call(t, read, "GET", "/v1/clusters/lab", "")
		if err := json.Unmarshal([]byte(text.body), &lab); err != nil {
			t.Fatal(err, text.body)
		}
		for _, path := range []string{"/v1/clusters/lab/jobs", "/v1/clusters/lab/jobs?limit=1", "/v1/clusters/lab/agents",
			"/v1/clusters/lab", "/v1/sessions/" + lab.Session + "/log", "/v1/sessions/" + lab.Session} {
			hidden(s.call(t, admin, "GET", path, ""), true, false)
		}
		hidden(submit(job), false, true)
		for _, other := range []string{strings.Replace(job, "secret-v", "other-v", 1), `{"command":["true"],` +
			`"env":{"LR":"plain-value"}}`, `{"command":["true"],"env":{"LR":"plain-value"},"secret_env":{"TOKEN":"***"}}`} {
			if got := submit(other); got.code != 409 || got.problem() != "key_reused" {
				t.Errorf("%d %s", got.code, got.body)
			}
		}
	}
	look()
	if got := s.call(t, agent, "POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"orders_seen":1,"reports":[{"job":`+
		`"j1","attempt":1,"task":0,"state":"ended","exit_code":0}]}`); got.code != 200 {
		t.Fatal(got.body)
	}
	if got := s.call(t, read, "GET", "/v1/clusters/lab/jobs/j1", ""); !strings.Contains(got.body, `"succeeded"`) {
		t.Error(got.body)
	}
	look()
	if strings.Contains(s.log.String(), "secret-value") {
		t.Error("the log has the value")
	}
	for body, pointer := range map[string]string{
		`{"command":["a"],"env":{"A":"1"},"secret_env":{"A":"secret-value"}}`: "/secret_env/A",
		`{"command":["a"],"secret_env":{"RANK":"secret-value"}}`:              "/secret_env/RANK",
		`{"command":["a"],"secret_env":{"1":"secret-value"}}`:                 "/secret_env/1",
		`{"command":["a"],"secret_env":{"A":7}}`:                              "/secret_env/A",
	} {
		got := s.call(t, solve, "POST", "/v1/clusters/lab/jobs", body)
		if got.code != 422 || !strings.Contains(got.body, pointer) || strings.Contains(got.body, "secret-value") {
			t.Errorf("%s: %d %s", body, got.code, got.body)
		}
	}
}
