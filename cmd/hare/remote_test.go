package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// poorLine is a server behind a network that loses the first answer of each kind of
// request, and that cuts streams after some lines.
type poorLine struct {
	next  http.Handler
	lose  atomic.Bool
	mu    sync.Mutex
	seen  map[string]int
	keys  []string // values of Authorization
	lines int      // number of lines that a stream lasts
}

func (p *poorLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]
	p.mu.Lock()
	p.seen[kind]++
	n := p.seen[kind]
	p.keys = append(p.keys, r.Header.Get("Authorization"))
	p.mu.Unlock()
	switch {
	case !p.lose.Load():
		p.next.ServeHTTP(w, r)
	case kind == "GET /events":
		p.next.ServeHTTP(&cutAfter{ResponseWriter: w, lines: p.lines}, r)
	case n == 1 && r.Method == "POST":
		p.next.ServeHTTP(httptest.NewRecorder(), r) // the server does the work, and the answer is lost
		panic(http.ErrAbortHandler)
	case n == 2 && r.Method == "POST":
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	case n == 1:
		panic(http.ErrAbortHandler)
	default:
		p.next.ServeHTTP(w, r)
	}
}

// cutAfter breaks the connection after a number of lines, in the middle of the next
// one.
type cutAfter struct {
	http.ResponseWriter
	lines int
}

func (c *cutAfter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutAfter) Write(b []byte) (int, error) {
	for i := range b {
		if b[i] == '\n' {
			if c.lines--; c.lines == 0 {
				_, _ = c.ResponseWriter.Write(b[:max(0, i-3)])
				_ = http.NewResponseController(c.ResponseWriter).Flush()
				panic(http.ErrAbortHandler)
			}
		}
	}
	return c.ResponseWriter.Write(b)
}

func newPoorLine(t *testing.T, tune ...func(*http.Client)) (*poorLine, *remote) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: version, Workers: 1}})
	p := &poorLine{next: servetest.New(t, svc, api.Config{}), seen: map[string]int{}, lines: 12}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	for _, f := range tune {
		f(server.Client())
	}
	r, err := newRemote(client.Config{URL: server.URL, Key: "secret", HTTPClient: server.Client(),
		Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

func instanceOf(t *testing.T, name string) *hare.Instance {
	t.Helper()
	inst, err := readInstance(name)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// TestPoorLine checks that over a network that loses answers a solve runs once,
// that every event arrives once and in order, and that the result is the stored
// one.
func TestPoorLine(t *testing.T) {
	p, r := newPoorLine(t)
	p.lose.Store(true)
	inst := instanceOf(t, "../../testdata/examples/three-jobs.instance.json")
	opt := solver.Defaults(hare.Options{Seed: 1, Gap: solver.DefaultGap, WorkLimit: 20_000})
	solve, err := r.submit(t.Context(), inst, opt, wire.Tags{})
	if err != nil || solve.ID == "" {
		t.Fatalf("%+v %v", solve, err)
	}
	events, failed := make(chan client.Event), make(chan error, 1)
	go func() {
		failed <- r.events(t.Context(), solve.ID, events)
		close(events)
	}()
	id := int64(0)
	last := client.Event{}
	for last = range events {
		if id++; last.ID != id {
			t.Fatalf("event %d where %d should be", last.ID, id)
		}
	}
	if err := <-failed; err != nil || last.Type != "done" || last.Status != "succeeded" {
		t.Fatalf("%+v %v", last, err)
	}
	res, err := r.Result(t.Context(), solve.ID)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK {
		t.Error(rep)
	}
	p.lose.Store(false)
	kept := 0
	for _, err := range r.List(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		kept++
	}
	if kept != 1 {
		t.Errorf("%d solves", kept)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen["POST /solves"] < 3 || p.seen["GET /events"] < 3 || p.seen["GET /result"] != 2 {
		t.Errorf("%v", p.seen)
	}
	if slices.ContainsFunc(p.keys, func(k string) bool { return k != "Bearer secret" }) {
		t.Errorf("%q", p.keys)
	}
}

// TestRemoteCancel checks that Ctrl-C cancels the solve on the server, and that the
// best pair is written.
func TestRemoteCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, r := newPoorLine(t, func(c *http.Client) { c.Transport = cancelOn{c.Transport, cancel} })
	inst := instanceOf(t, "../../testdata/instances/standard-200.json.gz")
	out := filepath.Join(t.TempDir(), "r.json")
	opt := solver.Defaults(hare.Options{Seed: 1, TimeLimit: 10 * time.Minute})
	if err := solveRemotely(ctx, r, inst, opt, wire.Tags{}, out, true, false); err != nil {
		t.Fatal(err)
	}
	res, err := readResult(out)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(inst, res); !rep.OK || res.Termination != hare.TerminationCancelled {
		t.Errorf("%s: %v", res.Termination, rep)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen["POST /cancel"] != 1 {
		t.Errorf("%v", p.seen)
	}
}

// cancelOn cancels a context, as Ctrl-C does, when the first plan is printed.
type cancelOn struct {
	http.RoundTripper
	cancel func()
}

func (c cancelOn) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/events") {
		resp.Body = cancellingBody{resp.Body, c.cancel}
	}
	return resp, err
}

type cancellingBody struct {
	io.ReadCloser
	cancel func()
}

func (w cancellingBody) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if bytes.Contains(b[:n], []byte("event: incumbent")) {
		w.cancel()
	}
	return n, err
}

// TestSolveOnAServer checks that the command prints the same table, the same bytes
// and the same exit codes with a server as without one.
func TestSolveOnAServer(t *testing.T) {
	t.Parallel() // one command waits for a server
	svc := service.New(service.Config{Solver: solver.Config{Version: version, Workers: 1}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	h := servetest.New(t, svc, api.Config{})
	go func() { served <- api.Serve(ctx, l, h, svc, time.Second) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	server := "http://" + l.Addr().String() + "/"
	const three = "../../testdata/examples/three-jobs.instance.json"
	far, here := filepath.Join(t.TempDir(), "far.json.gz"), filepath.Join(t.TempDir(), "here.json")
	table, stderr, code := runHare(t, "", "solve", three, "--server", server, "--work-limit", "2000", "--bound",
		"machine", "-o", far)
	if code != 0 || stderr != "" {
		t.Fatalf("%d %s", code, stderr)
	}
	local, _, _ := runHare(t, "", "solve", three, "--work-limit", "2000", "--bound", "machine", "-o", here)
	if before, _, _ := strings.Cut(table, "stopped"); !strings.HasPrefix(local, before) || before == "" {
		t.Errorf("a server says\n%s\nand this program\n%s", table, local)
	}
	a, err := readResult(far)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readResult(here)
	if err != nil {
		t.Fatal(err)
	}
	// These fields depend on the machine: the restarts of workers, and HiGHS.
	for _, res := range []*hare.Result{a, b} {
		res.Timing, res.Engine, res.Reproducible = hare.Timing{}, hare.Engine{}, false
	}
	var texts [2]bytes.Buffer
	for i, res := range []*hare.Result{a, b} {
		if err := wire.EncodeResult(&texts[i], res); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() {
		t.Errorf("a server finds\n%.500s\nand this program\n%.500s", &texts[0], &texts[1])
	}
	stdout, _, code := runHare(t, tiny, "solve", "-", "--server", server, "--detail", "none")
	if _, err := wire.DecodeResult(strings.NewReader(stdout), wire.Limits{}); err != nil || code != 0 {
		t.Errorf("%d %v %s", code, err, stdout)
	}
	wide := `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2}}]},"jobs":[{"id":"x","tasks":4,` +
		`"sync":"gang","on":{"V100":{"compute_s":1}}}]}`
	if _, stderr, code := runHare(t, wide, "solve", "-", "--server", server); code != exitNo ||
		!strings.Contains(stderr, "too_wide") {
		t.Errorf("infeasible: %d %s", code, stderr)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("hare_x_y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"not a URL":        {[]string{"--server", "localhost"}, "must be a URL"},
		"nobody":           {[]string{"--server", "http://" + closed.Addr().String()}, "is hare serve running there?"},
		"no path":          {[]string{"--server", server + "v2"}, "404"},
		"refused":          {[]string{"--server", server, "--gap", "0.0000001"}, "/options/gap"},
		"warm":             {[]string{"--server", server, "--warm", far}, "--warm"},
		"key in the clear": {[]string{"--server", "http://192.0.2.1:8080", "--api-key-file", keyFile}, "use https"},
		"no keyfile": {[]string{"--server", server, "--api-key-file", filepath.Join(t.TempDir(), "none")},
			"--api-key-file"},
	} {
		if _, stderr, code := runHare(t, tiny, append([]string{"solve", "-"}, c.args...)...); code != exitUsage ||
			!strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d %s", name, code, stderr)
		}
	}
}

// TestServersCertificate checks that a call to a server with an untrusted
// certificate fails at once, with an error that names the remedy, and likewise for
// a server that does not speak TLS.
func TestServersCertificate(t *testing.T) {
	svc := service.New(service.Config{Solver: solver.Config{Version: version, Workers: 1}})
	var calls atomic.Int32
	h := servetest.New(t, svc, api.Config{})
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			calls.Add(1)
		}
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(h)
	t.Cleanup(plain.Close)
	ca := file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	instance := file(t, "i.json", tiny)
	spoken := "https" + strings.TrimPrefix(plain.URL, "http")
	elsewhere := "https://localhost:" + server.URL[strings.LastIndex(server.URL, ":")+1:]
	for _, args := range [][]string{
		{"solve", instance, "-q", "--server"},
		{"simulate", "-q", "--policy", "fifo", "--generate", "5", "--server"},
		{"healthcheck"},
		{"agent", "--cluster", "lab", "--devices", "cpu=1", "--directory", t.TempDir(), "--server"},
	} {
		address := func(base string) string {
			if args[0] == "healthcheck" {
				return base + "/healthz"
			}
			return base
		}
		refused := exitUsage
		if args[0] == "healthcheck" {
			refused = exitNo
		}
		for _, c := range []struct {
			name string
			more []string
			code int
			want string
		}{
			{"unknown", []string{address(server.URL)}, refused, "--ca FILE"},
			{"another name", []string{address(elsewhere), "--ca", ca}, refused, "by a name that its certificate has"},
			{"no TLS", []string{address(spoken)}, refused, "use http://"},
			{"no certificates", []string{address(server.URL), "--ca", instance}, exitUsage, "no certificate in PEM"},
			{"trusted", []string{address(server.URL), "--ca", ca}, exitDone, ""},
		} {
			if args[0] == "agent" && c.code == exitDone {
				continue // it would run until it is ended
			}
			calls.Store(0)
			_, errs, code := runHare(t, "", append(slices.Clone(args), c.more...)...)
			if code != c.code || !strings.Contains(errs, c.want) || c.code != exitDone && strings.Count(errs, "\n") != 1 {
				t.Errorf("%s, %s: exit %d: %s", args[0], c.name, code, errs)
			}
			if n := calls.Load(); c.code != exitDone && n > 2 { // one of these calls checks whether the server answers
				t.Errorf("%s, %s: %d connections", args[0], c.name, n)
			}
		}
	}
	t.Setenv("HARE_CA", ca)
	if _, errs, code := runHare(t, "", "solve", instance, "-q", "--server", server.URL); code != exitDone {
		t.Errorf("with HARE_CA: exit %d: %s", code, errs)
	}
}

// TestCommandsWaitForTheServer checks that a command succeeds that is typed at once behind "hare serve &".
func TestCommandsWaitForTheServer(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	list := command("cluster", "list", "--server", "http://"+address)
	var out, errs bytes.Buffer
	list.Stdout, list.Stderr = &out, &errs
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // in which the command is refused, or has not begun on a busy machine
	serve := command("serve", "--listen", address)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
	if err := list.Wait(); err != nil || !strings.Contains(out.String(), "no clusters") {
		t.Errorf("%v: %s%s", err, &out, &errs)
	}
}
