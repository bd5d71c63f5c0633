package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// memoryKeys is a KeyStore in memory.
type memoryKeys struct {
	mu  sync.Mutex
	set access.KeySet
	gen int
	bad error // error that Update returns
}

func (m *memoryKeys) Read() (*access.KeySet, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &access.KeySet{Keys: slices.Clone(m.set.Keys), Quotas: m.set.Quotas}, nil
}

func (m *memoryKeys) Update(_ context.Context, change func(*access.KeySet) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bad != nil {
		return m.bad
	}
	m.gen++
	return change(&m.set)
}

func (m *memoryKeys) State() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.gen)
}

// keyedServer serves with API keys on loopback.
type keyedServer struct {
	*httptest.Server
	handler  http.Handler
	store    *memoryKeys
	ring     *access.Keyring
	quotas   *admission.Quotas
	sessions *sessions.Sessions
	clusters *clusters.Clusters
	made     int // clusters
	svc      *service.Service
	solves   *solves.Solves
	log      *haretest.Buffer
	agents   agentSecrets
}

// fromHeader is the header that sets the client address of a call in these tests.
const fromHeader = "X-Test-From"

func newKeyedServer(t testing.TB, quota admission.Quota, tune ...func(*sessions.Config)) *keyedServer {
	t.Helper()
	return newKeyedService(t, quota, service.Config{Solver: solver.Config{Version: "test"}}, tune...)
}

func newKeyedService(t testing.TB, quota admission.Quota, work service.Config,
	tune ...func(*sessions.Config)) *keyedServer {
	t.Helper()
	if quota.Rate == 0 {
		quota.Rate = 1e6
	}
	s := &keyedServer{store: &memoryKeys{}, log: &haretest.Buffer{}}
	var err error
	if s.ring, err = access.OpenKeyring(s.store, nil, nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go s.ring.Follow(ctx)
	s.quotas = admission.NewQuotas(quota, s.ring.Quota)
	keep := sessions.Config{Store: store.NewMemory(), Quotas: s.quotas}
	for _, f := range tune {
		f(&keep)
	}
	if s.sessions, err = sessions.Open(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	s.svc = service.New(work)
	s.solves, err = solves.Open(t.Context(), solves.Config{Service: s.svc, Store: store.NewMemorySolves(),
		Quotas: s.quotas})
	if err != nil {
		t.Fatal(err)
	}
	s.clusters, err = clusters.Open(t.Context(), clusters.Config{Store: store.NewMemory(), Sessions: s.sessions,
		Quotas: s.quotas, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s.handler = api.New(s.svc, api.Config{
		Memory:       admission.NewMemory(64<<20, true),
		MaxBodyBytes: 1 << 20, Sessions: s.sessions, Clusters: s.clusters, Solves: s.solves, Keys: s.ring, Quotas: s.quotas,
		Heartbeat: 50 * time.Millisecond,
		Logger:    slog.New(slog.NewTextHandler(s.log, nil)),
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get(fromHeader); from != "" {
			r.RemoteAddr = from
		}
		s.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		stop()
		if err := s.solves.Close(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(s.clusters.Close(), s.sessions.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// key creates an API key.
func (s *keyedServer) key(t testing.TB, tenant string, role access.Role, lasts time.Duration) (secret, id string) {
	t.Helper()
	now := time.Now()
	if lasts < 0 {
		now, lasts = now.Add(2*lasts), -lasts // the key has expired already
	}
	secret, k, err := access.NewKey(tenant, role, "", now, lasts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ring.Update(t.Context(), func(set *access.KeySet) error { return set.Add(k, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	return secret, k.ID
}

// agentKey creates a key for the agents of nodes; without any it is for the node that it registers first.
func (s *keyedServer) agentKey(t testing.TB, tenant string, nodes ...string) string {
	t.Helper()
	secret, k, err := access.NewKey(tenant, access.RoleAgent, "", time.Now(), 0)
	if err == nil {
		err = access.CheckNodes(k.Role, nodes)
	}
	if k.Nodes = append(k.Nodes, nodes...); err == nil {
		err = s.ring.Update(t.Context(), func(set *access.KeySet) error { return set.Add(k, time.Now()) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (s *keyedServer) revoke(t testing.TB, id string) {
	t.Helper()
	if err := s.ring.Update(t.Context(),
		func(set *access.KeySet) error { return set.Revoke(access.Operator, id, time.Now()) }); err != nil {
		t.Fatal(err)
	}
}

type reply struct {
	code   int
	header http.Header
	body   string
}

// call sends one request; key may be "".
func (s *keyedServer) call(t testing.TB, key, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kindOf(method, path))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s.agents.show(r)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	s.agents.note(path, body, string(text))
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (r reply) problem() string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(r.body), &p)
	return p.Code
}

// session creates a session of the tenant of a key and returns its id.
func (s *keyedServer) session(t testing.TB, key string) string {
	t.Helper()
	got := s.call(t, key, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`)
	if got.code != http.StatusCreated {
		t.Fatalf("%d %s", got.code, got.body)
	}
	return strings.TrimPrefix(got.header.Get("Location"), "/v1/sessions/")
}

// cluster makes a cluster of the tenant of a key, in which job j1 is ordered on agent a, and returns its name.
func (s *keyedServer) cluster(t testing.TB, key string) string {
	t.Helper()
	s.made++
	name := fmt.Sprint("c", s.made)
	for path, body := range map[string]string{"agents": registration, "jobs": `{"command":["true"]}`} {
		if got := s.call(t, key, "POST", "/v1/clusters/"+name+"/"+path, body); got.code >= 300 {
			t.Fatalf("%d %s", got.code, got.body)
		}
	}
	for {
		got := s.call(t, key, "GET", "/v1/clusters/"+name+"/jobs/j1", "")
		if strings.Contains(string(got.body), `"attempt":1`) {
			return name
		}
		time.Sleep(time.Millisecond)
	}
}

// solve submits a solve of the tenant of a key, waits for its end, and returns its
// id.
func (s *keyedServer) solve(t testing.TB, key, options string, header ...string) string {
	t.Helper()
	got := s.call(t, key, "POST", "/v1/solves", `{"instance":`+example(t)+`,"options":`+options+`}`, header...)
	if got.code != http.StatusOK {
		t.Fatalf("%d %s", got.code, got.body)
	}
	return got.header.Get("Hare-Solve-Id")
}
