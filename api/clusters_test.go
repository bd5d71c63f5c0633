package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// newClusterServer serves managed clusters and sessions on loopback, out of one store.
func newClusterServer(t testing.TB, cfg clusters.Config) *sessionServer {
	t.Helper()
	whole := store.NewMemory()
	kept, err := sessions.Open(t.Context(), sessions.Config{Store: store.WithoutJournals(whole)})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Sessions = store.Journals(whole), kept
	managed, err := clusters.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	t.Cleanup(func() { _ = managed.Close() })
	return newSessionServer(t, sessions.Config{}, func(c *api.Config) { c.Sessions, c.Clusters = kept, managed })
}

// ask sends a document and decodes the answer, which must have a status.
func (s *sessionServer) ask(t *testing.T, status int, method, path, body string, into any) {
	t.Helper()
	got, text, _ := s.call(t, method, path, body)
	if got != status {
		t.Fatalf("%s %s: %d and not %d: %s", method, path, got, status, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

const labAgent = `{"protocol":4,"version":"test","name":"a","incarnation":"0123456789abcdef",` +
	`"devices":[{"type":"V100"},{"type":"V100"}]}`

func TestManagedCluster(t *testing.T) {
	s := newClusterServer(t, clusters.Config{})
	var job clusterdoc.Job
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters/lab/jobs", `{"command":["python","train.py"],"gpus":2}`, &job)
	if job.State != clusterdoc.JobWaiting || job.Name != "python" {
		t.Errorf("%+v", job)
	}
	var agent clusterdoc.Registered
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents", labAgent, &agent)
	var told clusterdoc.Synced
	sync := func(reports string, after, seen int64, wait int) {
		t.Helper()
		told = clusterdoc.Synced{}
		s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents/a/sync", fmt.Sprintf(`{"epoch":%d,"wait_s":%d,`+
			`"reports_after":%d,"orders_seen":%d,"reports":[%s]}`, agent.Epoch, wait, after, seen, reports), &told)
	}
	sync("", 0, 0, 2)
	if len(told.Orders) != 2 || told.Orders[1].Start.Rank != 1 || told.Orders[1].Start.WorldSize != 2 ||
		told.Orders[0].Start.MasterAddress != "127.0.0.1" {
		t.Fatalf("%+v", told)
	}
	sync(`{"job":"j1","attempt":1,"task":0,"state":"running"},`+
		`{"job":"j1","attempt":1,"task":1,"state":"running"}`, 0, 2, 0)
	logs := "/v1/clusters/lab/agents/a/logs?epoch=1&job=j1&attempt=1&task=1&stream=stdout&offset="
	var stored clusterdoc.LogStored
	for _, piece := range []struct{ offset, body string }{{"0", "epoch 1\nepo"}, {"8", "epoch 2\n"}, {"0", "epoch 1\n"}} {
		s.ask(t, http.StatusOK, "POST", logs+piece.offset, piece.body, &stored)
	}
	if stored.Next != 16 {
		t.Errorf("%+v", stored)
	}
	for query, want := range map[string]string{
		"&tail=4": "h 2\n", "&tail=0": "", "&tail=99": "epoch 1\nepoch 2\n", "&tail=9&offset=12": "h 2\n",
	} {
		if _, text, _ := s.call(t, "GET", "/v1/clusters/lab/jobs/j1/logs?task=1"+query, ""); text != want {
			t.Errorf("%s: %q", query, text)
		}
	}
	s.ask(t, http.StatusOK, "GET", "/v1/clusters/lab/jobs/j1", "", &job)
	if job.State != clusterdoc.JobRunning {
		t.Errorf("%+v", job)
	}
	followed := make(chan string)
	go func() {
		_, text, _ := s.call(t, "GET", "/v1/clusters/lab/jobs/j1/logs?task=1&follow=true&offset=8", "")
		followed <- text
	}()
	s.ask(t, http.StatusOK, "POST", logs+"16", "done\n", nil)
	sync(`{"job":"j1","attempt":1,"task":0,"state":"ended","exit_code":0},`+
		`{"job":"j1","attempt":1,"task":1,"state":"ended","exit_code":0}`, 2, 2, 0)
	if text := <-followed; text != "epoch 2\ndone\n" {
		t.Errorf("%q", text)
	}
	s.ask(t, http.StatusOK, "GET", "/v1/clusters/lab/jobs/j1", "", &job)
	if job.State != clusterdoc.JobSucceeded || len(job.Attempts) != 1 {
		t.Errorf("%+v", job)
	}
	var cluster clusterdoc.Cluster
	s.ask(t, http.StatusOK, "GET", "/v1/clusters/lab", "", &cluster)
	if cluster.GPUs != 2 || cluster.FreeGPUs != 2 || cluster.Jobs[clusterdoc.JobSucceeded] != 1 {
		t.Errorf("%+v", cluster)
	}

	_, metrics, _ := s.call(t, "GET", "/metrics", "")
	for _, line := range []string{"hare_clusters 1\n", "hare_cluster_gpus_free 2\n", "hare_cluster_log_bytes_total 21\n",
		`hare_cluster_jobs{state="succeeded"} 1`, "hare_cluster_leases_lost_total 0\n"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %q", line)
		}
	}

	// The cluster alone changes its session; everybody may read the session.
	s.ask(t, http.StatusOK, "GET", "/v1/sessions/"+cluster.Session, "", nil)
	var problem struct{ Code, Detail string }
	s.ask(t, http.StatusConflict, "DELETE", "/v1/sessions/"+cluster.Session, "", &problem)
	if problem.Code != "managed_session" || !strings.Contains(problem.Detail, `"lab"`) {
		t.Errorf("%+v", problem)
	}
	s.ask(t, http.StatusConflict, "POST", "/v1/sessions/"+cluster.Session+"/events", "{}", nil)
	s.ask(t, http.StatusNoContent, "DELETE", "/v1/clusters/lab", "", nil)
	s.ask(t, http.StatusNotFound, "GET", "/v1/sessions/"+cluster.Session, "", nil)
}

// What is wrong is said with its code, and where a field is wrong with its pointer.
func TestManagedClusterRefusals(t *testing.T) {
	s := newClusterServer(t, clusters.Config{MaxJobs: 2})
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents", labAgent, nil)
	s.ask(t, http.StatusCreated, "POST", "/v1/clusters", `{"name":"plain","policy":"fifo"}`, nil)
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/plain/agents", labAgent, nil)
	agent := func(old, new string) string { return strings.Replace(labAgent, old, new, 1) }
	report := func(rest string) string {
		return `{"epoch":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"lost"` + rest + `}]}`
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/v1/clusters/none", "", 404, "no_cluster"},
		{"GET", "/v1/clusters/lab/jobs/j7", "", 404, "no_such_job"},
		{"GET", "/v1/clusters/lab/jobs/%00", "", 404, "no_such_job"},
		{"GET", "/v1/clusters/lab/jobs?state=odd", "", 400, "waiting"},
		{"GET", "/v1/clusters/lab/jobs?limit=0", "", 400, "limit"},
		{"GET", "/v1/clusters/lab/jobs?after=x", "", 400, "after"},
		{"GET", "/v1/clusters/lab/jobs?sort=name&after=j1", "", 400, "after"},
		{"GET", "/v1/clusters/lab/jobs?sort=size", "", 400, "must be one of submitted, place"},
		{"GET", "/v1/clusters/lab/jobs?user=a&user=b", "", 400, "once"},
		{"POST", "/v1/clusters/plain/jobs:preview", `{"command":["a"]}`, 501, "policy rolling has previews"},
		{"POST", "/v1/clusters/none/jobs:preview", `{"command":["a"]}`, 404, "no_cluster"},
		{"POST", "/v1/clusters/lab/jobs:preview", `{"command":["a"],"gpus":-1}`, 422, "/gpus"},
		{"POST", "/v1/clusters/lab/jobs:preview", `{"command":["a"],"user":"\u202e"}`, 422, "/user"},
		{"POST", "/v1/clusters/lab/jobs:preview", `{"command":["a"],"labels":{"a=b":""}}`, 422, "/labels/a=b"},
		{"POST", "/v1/clusters", `{"name":"LAB"}`, 422, "/name"},
		{"POST", "/v1/clusters", `{"name":"../x"}`, 422, "/name"},
		{"POST", "/v1/clusters", `{"name":"x","policy":"odd"}`, 422, "/policy"},
		{"POST", "/v1/clusters", `{"name":"lab"}`, 409, "cluster_exists"},
		{"POST", "/v1/clusters", `{"nam":"x"}`, 422, "/nam"},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"gpus":-1}`, 422, "/gpus"},
		{"POST", "/v1/clusters/lab/jobs", `{"command":"a"}`, 422, "/command"},
		{"POST", "/v1/clusters/lab/jobs", `{"command":"ls -l"}`, 422, `[\"sh\", \"-c\", \"ls -l\"]`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"on":["cpu"]}`, 422, `0 where they are not known: {\"cpu\": 0}`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"on":"cpu"}`, 422, `seconds by GPU type, 0 where`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"on":{"cpu":{}}}`, 422, `{\"cpu\": 0}`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"on":{"cpu":"9"}}`, 422, `/on/cpu: must be the seconds`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"on":7}`, 422, `{\"V100\": 0}`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"gpus":"2"}`, 422, `/gpus: must be a whole number: 2`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"gpus":1.5}`, 422, `/gpus: must be a whole number: 1`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"env":["A=b c"]}`, 422, `{\"A\": \"b c\"}`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"env":{"A":4}}`, 422, `/env/A: must be a text: \"4\"`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"secret_env":"A"}`, 422, `{\"NAME\": \"text\"}`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a",3]}`, 422, `/command/1: must be a text: \"3\"`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"weight":"2.5"}`, 422, `/weight: must be a number: 2.5`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"gpu":2}`, 422, `did you mean \"gpus\"?`},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"xyzzy":2}`, 422, `known are checkpoint_directory, class`},
		{"POST", "/v1/clusters/lab/jobs", `{`, 400, ""},
		{"POST", "/v1/clusters/lab/jobs", `{"command":["a"],"name":null}`, 422, "/name"},
		{"POST", "/v1/clusters/LAB/jobs", `{"command":["a"]}`, 422, "/name"},
		{"POST", "/v1/clusters/lab/jobs/j9/cancel", "", 404, "no_such_job"},
		{"POST", "/v1/clusters/lab/agents", agent("0123456789abcdef", "0123456789abcdeg"), 409, "agent_exists"},
		{"POST", "/v1/clusters/lab/agents", agent(`"protocol":4`, `"protocol":1`), 422, "/protocol"},
		{"POST", "/v1/clusters/lab/agents", agent(`"a"`, `"a/b"`), 422, "/name"},
		{"POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":7}`, 409, "stale_epoch"},
		{"POST", "/v1/clusters/lab/agents/a/sync", strings.Replace(report(""), "{", `{"reports_after":9,`, 1), 409,
			"reports_missing"},
		{"POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"reports_after":-9}`, 422, "/reports_after"},
		{"POST", "/v1/clusters/lab/agents/a/sync", report(`,"error":null`), 422, "/reports/0/error"},
		{"POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"reports":[{"job":"j1"}]}`, 422, "missing_field"},
		{"POST", "/v1/clusters", `{}`, 422, "missing_field"},
		{"POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"orders_seen":-1}`, 422, "/orders_seen"},
		{"POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"faults":{"2":"XID 79"}}`, 422, "/faults/2"},
		{"POST", "/v1/clusters/lab/agents/a/sync", strings.Replace(report(""), "lost", "odd", 1), 422, "/reports/0/state"},
		{"POST", "/v1/clusters/lab/agents/b/sync", `{"epoch":1}`, 409, "unknown_agent"},
		{"POST", "/v1/clusters/lab/agents/b/drain", ``, 404, "no_such_agent"},
		{"POST", "/v1/clusters/lab/agents/a/logs?epoch=1&job=j1&attempt=1&task=0&offset=0", "x", 404, "no_such_job"},
		{"POST", "/v1/clusters/lab/agents/a/logs?epoch=1&job=..%2F..&attempt=1&offset=0", "x", 404, "no_such_job"},
		{"POST", "/v1/clusters/lab/agents/a/logs?epoch=1&job=j1&stream=..", "x", 400, "stdout"},
		{"POST", "/v1/clusters/lab/agents/a/logs?epoch=1&job=j1&attempt=1&offset=-1", "x", 400, "offset"},
		{"GET", "/v1/clusters/lab/jobs/j1/logs", "", 404, "no_such_job"},
	} {
		secret := s.agents.byPath["/v1/clusters/lab/agents/a"] // also for agent b, which there is not
		status, text, header := s.call(t, test.method, test.path, test.body,
			clusterdoc.SecretHeader, secret)
		if status != test.status || !strings.Contains(text, test.says) ||
			header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, status, text)
		}
	}
	for range 2 {
		s.ask(t, http.StatusCreated, "POST", "/v1/clusters/lab/jobs", `{"command":["a"],"gpus":9}`, nil)
	}
	s.ask(t, http.StatusTooManyRequests, "POST", "/v1/clusters/lab/jobs", `{"command":["a"]}`, nil)
	s.ask(t, http.StatusConflict, "DELETE", "/v1/clusters/lab", "", nil)
	var job clusterdoc.Job
	s.ask(t, http.StatusOK, "GET", "/v1/clusters/lab/jobs/j1", "", &job)
	if job.Reason != "wants 9 GPUs of one type: in service are 2 V100" {
		t.Error(job.Reason)
	}
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents/a/drain", "", nil)
	s.ask(t, http.StatusOK, "GET", "/v1/clusters/lab/jobs/j1", "", &job)
	if job.Reason != "wants 9 GPUs of one type, and no GPU is in service: a is draining" {
		t.Error(job.Reason)
	}
	s.ask(t, http.StatusNotFound, "GET", "/v1/clusters/lab/jobs/j1/logs", "", nil)
	s.ask(t, http.StatusAccepted, "POST", "/v1/clusters/lab/jobs/j1/cancel", "", nil)
	s.ask(t, http.StatusAccepted, "POST", "/v1/clusters/lab/jobs/j2/cancel", "", nil)
	for i, c := range []struct{ on, says string }{
		{"V100", "wants 1 GPU out of V100: no GPU of these types is in service: a is draining"},
		{"H100", "wants 1 GPU out of H100: no GPU of these types is in service"},
	} {
		s.ask(t, http.StatusCreated, "POST", "/v1/clusters/lab/jobs", `{"command":["a"],"on":{"`+c.on+`":0}}`, nil)
		s.ask(t, http.StatusOK, "GET", fmt.Sprintf("/v1/clusters/lab/jobs/j%d", 3+i), "", &job)
		if job.Reason != c.says {
			t.Error(job.Reason)
		}
	}
}

// A sync waits for orders, and no longer than a third of the lease.
func TestSyncWaits(t *testing.T) {
	s := newClusterServer(t, clusters.Config{Lease: 900 * time.Millisecond})
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents", labAgent, nil)
	began := time.Now()
	var told clusterdoc.Synced
	s.ask(t, http.StatusOK, "POST", "/v1/clusters/lab/agents/a/sync", `{"epoch":1,"wait_s":1000}`, &told)
	if took := time.Since(began); took < 300*time.Millisecond || told.LeaseS != 0.9 {
		t.Error(took, told)
	}
}
