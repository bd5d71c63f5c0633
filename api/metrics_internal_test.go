package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/oasdiff/yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// observedServer returns a server that registers every metric.
func observedServer(t *testing.T, tenants int) (*server, http.Handler) {
	t.Helper()
	sessions, err := sessions.Open(t.Context(), sessions.Config{Store: NewTimedStore(store.NewMemory())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sessions.Close() })
	managed, err := clusters.Open(t.Context(), clusters.Config{Store: store.NewMemory(), Sessions: sessions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = managed.Close() })
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}})
	kept, err := solves.Open(t.Context(), solves.Config{Service: svc, Store: store.NewMemorySolves()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	cfg := Config{
		Solves: kept, Sessions: sessions, MetricTenants: tenants, StoreBytes: func() int64 { return 1 },
		Registry: prometheus.NewRegistry(), MaxBodyBytes: 1 << 20,
		Logger: slog.New(slog.DiscardHandler), EngineRestarts: func() int64 { return 0 },
		Engine: func() EngineStats { return EngineStats{Starts: 2, Idle: 1, Available: true} },
	}
	s := &server{svc: svc, cfg: cfg, met: newMetrics(svc, &cfg), calls: make(chan struct{}, 1)}
	s.met.registerSessions(sessions)
	cfg.Registry.MustRegister(newClusterCollector(managed))
	s.metrics = MetricsHandler(cfg.Registry)
	svc.SetHooks(s.hooks())
	h := chi.NewRouter()
	h.Use(s.identify, s.observe)
	h.Post("/v1/solves", s.handle(s.solve)) // the quota of solves applies
	h.Get("/v1/version", s.handle(s.version))
	h.Get("/metrics", s.handle(s.measurements))
	return s, h
}

// described is the description of a metric in the registry.
type described struct {
	help   string
	labels []string
}

var descLine = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)".*variableLabels: \{(.*)\}\}$`)

func registered(t *testing.T) map[string]described {
	t.Helper()
	s, _ := observedServer(t, 0)
	descs := make(chan *prometheus.Desc, 1000)
	s.met.registry.Describe(descs)
	close(descs)
	all := map[string]described{}
	for d := range descs {
		m := descLine.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		var labels []string
		if m[3] != "" {
			labels = strings.Split(m[3], ",")
		}
		all[m[1]] = described{m[2], labels}
	}
	return all
}

func serve(h http.Handler, method, path, body string) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(w, r)
	return w.Code
}

const small = `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},` +
	`"jobs":[{"id":"x","on":{"V100":{"compute_s":1}}}]}}`

func TestMetricsAreClean(t *testing.T) {
	s, h := observedServer(t, 0)
	if code := serve(h, "POST", "/v1/solves", small); code != http.StatusOK {
		t.Fatal(code)
	}
	hooks := s.hooks()
	hooks.Cached(true)
	hooks.Predicted(time.Second, 2*time.Second)
	hooks.Predicted(0, time.Second) // without a prediction there is no ratio
	hooks.Committed(t.Context(), time.Now(), 5, store.ErrStorage)
	s.met.failed.WithLabelValues("internal").Inc()
	s.met.refused(http.StatusTooManyRequests, "quota")
	s.met.refused(http.StatusNotFound, "not_found")
	problems, err := testutil.GatherAndLint(s.met.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, want := range []string{
		`hare_cache_lookups_total{outcome="hit"} 1`, `hare_cache_lookups_total{outcome="miss"} 1`, `hare_cost_ratio_count 2`,
		`hare_solve_commit_failures_total 1`,
		`hare_refused_total{reason="quota"} 1`, `hare_http_in_flight 1`, `hare_queue_wait_seconds_count 1`,
		`hare_solves_total{termination="optimal"} 1`,
		`hare_tenant_solves_total{tenant="none"} 1`, `hare_lp_workers_idle 1`, `hare_lp_available 1`, `hare_store_bytes 1`,
		`hare_ready 1`,
		fmt.Sprintf(`hare_queue_capacity %d`, s.svc.Capacity()),
	} {
		if text := scrape(h); !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
	fresh, of := observedServer(t, 0)
	fresh.hooks().Predicted(time.Second, 2*time.Second)
	fresh.hooks().Committed(t.Context(), time.Now(), 70, nil)
	if !strings.Contains(scrape(of), "hare_solve_commit_bytes_total 70\n") {
		t.Error("the bytes of commits are not counted")
	}
	if !strings.Contains(scrape(of), "hare_cost_ratio_sum 2\n") {
		t.Error("the cost ratio is not true over predicted")
	}
	if strings.Contains(scrape(h), "not_found") {
		t.Error("a 404 counts as refused")
	}
}

func scrape(h http.Handler) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// TestTenantSeriesAreBounded checks that the number of series does not grow with
// the number of tenants, whatever their names, and that a tenant keeps its label.
func TestTenantSeriesAreBounded(t *testing.T) {
	s, h := observedServer(t, 20)
	series := func() int {
		n, err := testutil.GatherAndCount(s.met.registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	serve(h, "GET", "/v1/version", "")
	use := func(tenant string) {
		ctx := context.WithValue(t.Context(), tenantKey{}, tenant)
		r := httptest.NewRequest("GET", "/v1/version", nil)
		s.met.request(ctx, "/v1/version", r.Method, tenant, 200, time.Millisecond)
		s.met.outcome(tenant, &hare.Result{Termination: hare.TerminationOptimal})
	}
	for i := range 20 {
		use(fmt.Sprint("tenant-", i))
	}
	use("one more")
	before := series()
	for i := range 10_000 {
		use(fmt.Sprint("tenant-", i))
	}
	if after := series(); after != before {
		t.Errorf("%d series, with 21 tenants %d", after, before)
	}
	if got := testutil.ToFloat64(s.met.tenants.requests.WithLabelValues("tenant-7", "ok")); got != 2 {
		t.Errorf("tenant-7 has %v requests", got)
	}
	if got := testutil.ToFloat64(s.met.tenants.requests.WithLabelValues(otherTenants, "ok")); got != 9981 {
		t.Errorf("the others have %v requests", got)
	}
	if got := testutil.ToFloat64(s.met.tenants.solves.WithLabelValues(otherTenants)); got != 9981 {
		t.Errorf("the others have %v solves", got)
	}
}

// TestTenantOfARequest checks that a request is counted for a tenant that is only
// found while the request is answered.
func TestTenantOfARequest(t *testing.T) {
	s, _ := observedServer(t, 0)
	h := s.identify(s.observe(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(*recorder).key, w.(*recorder).tenant = "k1", "ours"
		w.WriteHeader(http.StatusOK)
	})))
	r := httptest.NewRequest("GET", "/", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if got := testutil.ToFloat64(s.met.tenants.requests.WithLabelValues("ours", "ok")); got != 1 {
		t.Errorf("%v requests", got)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var pageRow = regexp.MustCompile("(?m)^\\| `(hare_[a-z_]+)(?:\\{([a-z_,]+)\\})?` \\|")

// TestMetricsPage checks that docs/use/operate.md lists exactly the metrics of Hare,
// with their labels.
func TestMetricsPage(t *testing.T) {
	all := registered(t)
	listed := map[string]bool{}
	for _, m := range pageRow.FindAllStringSubmatch(read(t, "../docs/use/operate.md"), -1) {
		d, there := all[m[1]]
		if !there {
			t.Errorf("%s is documented and does not exist", m[1])
		}
		if listed[m[1]] {
			t.Errorf("%s is documented twice", m[1])
		}
		listed[m[1]] = true
		if labels := strings.Join(d.labels, ","); labels != m[2] {
			t.Errorf("%s is documented with the labels {%s}, it has {%s}", m[1], m[2], labels)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "hare_") && !listed[name] {
			t.Errorf("%s is not documented", name)
		}
	}
	if len(listed) < 30 {
		t.Errorf("%d metrics are documented", len(listed))
	}
}

// words lists the words of PromQL that are not metrics.
var words = strings.Fields("by without on ignoring group_left group_right and or unless offset bool sum avg min max " +
	"count topk")

var (
	promString   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	promMatchers = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}`)
	promBy       = regexp.MustCompile(`\b(?:by|without|on)\s*\(([^)]*)\)`)
	promRange    = regexp.MustCompile(`\[[^\]]*\]`)
	promName     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	promLabel    = regexp.MustCompile(`([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)`)
)

// exprFaults returns the metrics and labels of a PromQL expression that do not
// exist.
func exprFaults(expr string, all map[string]described) (faults []string) {
	labels := map[string]bool{"le": true, "job": true, "instance": true}
	check := func(name string) {
		if name == "up" {
			return
		}
		d, there := all[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && !there {
				d, there = all[base]
			}
		}
		if !there {
			faults = append(faults, "no metric "+name)
		}
		for _, l := range d.labels {
			labels[l] = true
		}
	}
	bare := promRange.ReplaceAllString(promString.ReplaceAllString(expr, ""), "")
	names := promBy.ReplaceAllString(promMatchers.ReplaceAllString(bare, "$1"), "")
	for _, name := range promName.FindAllString(names, -1) {
		if strings.HasSuffix(name, "(") || slices.Contains(words, strings.TrimSpace(name)) {
			continue
		}
		check(strings.TrimSpace(name))
	}
	var used []string
	for _, m := range promMatchers.FindAllStringSubmatch(bare, -1) {
		for _, l := range promLabel.FindAllStringSubmatch(m[2], -1) {
			used = append(used, l[1])
		}
	}
	for _, m := range promBy.FindAllStringSubmatch(bare, -1) {
		for _, l := range strings.Split(m[1], ",") {
			used = append(used, strings.TrimSpace(l))
		}
	}
	for _, l := range used {
		if !labels[l] {
			faults = append(faults, "no label "+l)
		}
	}
	return faults
}

func TestExprFaults(t *testing.T) {
	all := map[string]described{"a_total": {}, "b_seconds": {labels: []string{"route"}}}
	for expr, want := range map[string]int{
		`sum by (route) (rate(b_seconds_bucket{route!="x", job="hare"}[5m])) > 3 and up == 0`: 0,
		`rate(a_totl[5m])`:                 1,
		`a_total / on (instance) c_total`:  1,
		`sum(a_total{code=~"5.."})`:        1,
		`sum by (rout) (b_seconds_count)`:  1,
		`label_replace(a_total, "x", "y")`: 0,
	} {
		if got := exprFaults(expr, all); len(got) != want {
			t.Errorf("%s: %q", expr, got)
		}
	}
}

// TestDashboard checks that every panel of the dashboard queries existing metrics,
// and that the panels together show almost all metrics of Hare.
func TestDashboard(t *testing.T) {
	type panel struct {
		ID      int
		Title   string
		Type    string
		Targets []struct{ Expr string }
		Panels  []panel
	}
	var board struct {
		Title, UID string
		Panels     []panel
		Templating struct{ List []struct{ Name, Type string } }
	}
	text := read(t, "../deploy/grafana/hare.json")
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || len(board.Templating.List) == 0 {
		t.Error("the dashboard has no title, uid or data source")
	}
	all := registered(t)
	ids := map[int]bool{}
	shown := ""
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
			for _, fault := range exprFaults(target.Expr, all) {
				t.Errorf("%s: %s in %s", p.Title, fault, target.Expr)
			}
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "hare_") && !strings.Contains(shown, name) {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// TestAlerts checks that every alert queries existing metrics, has a description,
// and has a section in docs/use/operate.md.
func TestAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if _, err := yaml.Unmarshal([]byte(read(t, "../deploy/prometheus/alerts.yml")), &file,
		yaml.DecodeOpts{}); err != nil {
		t.Fatal(err)
	}
	all := registered(t)
	page := read(t, "../docs/use/operate.md")
	tests := read(t, "../deploy/prometheus/alerts_test.yml")
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			for _, fault := range exprFaults(r.Expr, all) {
				t.Errorf("%s: %s", r.Alert, fault)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no severity or summary", r.Alert)
			}
			if !strings.Contains(page, "\n### "+r.Alert+"\n") {
				t.Errorf("docs/use/operate.md does not say what to do about %s", r.Alert)
			}
			if want := "docs/use/operate.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
				t.Errorf("%s: its runbook is %q, not %q", r.Alert, r.Annotations["runbook"], want)
			}
			if !strings.Contains(tests, "alertname: "+r.Alert+"\n") {
				t.Errorf("%s has no test in alerts_test.yml", r.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts", n)
	}
}
