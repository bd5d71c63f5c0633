package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hare-sched/hare/api"
)

// loggedServer is a server whose log is read line by line.
type loggedServer struct {
	lines chan map[string]any
	ended chan error
	stop  func(syscall.Signal)
}

// serveLogged starts hare serve with a log in JSON. The end of the test stops the
// server.
func serveLogged(t *testing.T, args ...string) *loggedServer {
	t.Helper()
	c := command(append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := &loggedServer{lines: make(chan map[string]any, 1000), ended: make(chan error, 1),
		stop: func(sig syscall.Signal) { _ = c.Process.Signal(sig) }}
	go func() {
		defer close(s.lines)
		in := bufio.NewScanner(pipe)
		for in.Scan() {
			var line map[string]any
			if err := json.Unmarshal(in.Bytes(), &line); err != nil {
				line = map[string]any{"msg": "not JSON: " + in.Text()}
			}
			s.lines <- line
		}
		s.ended <- c.Wait()
	}()
	t.Cleanup(func() { _ = c.Process.Kill() })
	return s
}

// line waits for a line of the log.
func (s *loggedServer) line(t *testing.T, msg string) map[string]any {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-s.lines:
			switch {
			case !ok:
				t.Fatalf("the log ended before %q", msg)
			case strings.HasPrefix(fmt.Sprint(line["msg"]), "not JSON"):
				t.Error(line["msg"])
			case line["msg"] == msg:
				return line
			}
		case <-late:
			t.Fatalf("no line %q", msg)
		}
	}
}

func getAs(t *testing.T, url, host string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestServeObserved checks that profiles and private metrics are served only on the
// loopback address, that solves are logged, and that the last traces are sent
// before the server ends.
func TestServeObserved(t *testing.T) {
	var traces atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			traces.Add(1)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "600000") // longer than the test, so that the spans are sent at the end
	s := serveLogged(t, "--debug-listen", "127.0.0.1:0", "--private-metrics", "--otlp-endpoint", collector.URL,
		"--data-dir", t.TempDir(), "--allow-host", "hare.example,other", "--allow-host=third")
	profiles := strings.TrimSuffix(s.line(t, "profiles")["address"].(string), "/debug/pprof/")
	public := "http://" + s.line(t, "listening")["address"].(string)
	resp, err := http.Post(public+"/v1/solves", "application/json", strings.NewReader(`{"instance":`+tiny+`}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	begins, ends, request := s.line(t, "solve begins"), s.line(t, "solve ends"), s.line(t, "request")
	for key, want := range map[string]any{"jobs": 1.0, "gpus": 2.0} {
		if begins[key] != want {
			t.Errorf("solve begins: %s is %v", key, begins[key])
		}
	}
	if ends["termination"] != "optimal" || ends["gap"] != 0.0 {
		t.Errorf("solve ends: %v", ends)
	}
	id, _ := request["trace_id"].(string)
	if len(id) != 32 || begins["trace_id"] != id || ends["trace_id"] != id ||
		begins["request_id"] != request["request_id"] || request["status"] != 200.0 {
		t.Errorf("the lines do not belong together: %v, %v, %v", begins, ends, request)
	}
	for _, c := range []struct {
		url, host string
		status    int
		want      string
	}{
		{public + "/metrics", "", 404, "not_found"},
		{public + "/debug/pprof/", "", 404, "not_found"},
		{profiles + "/metrics", "", 200, `hare_solves_total{termination="optimal"} 1`},
		{profiles + "/metrics", "localhost", 200, "hare_store_bytes "},
		{profiles + "/metrics", "evil.example", 421, `"unknown_host"`},
		{profiles + "/metrics", "hare.example", 421, `"unknown_host"`},
		{public + "/healthz", "hare.example", 200, ""},
		{public + "/healthz", "third:80", 200, ""},
		{public + "/healthz", "evil.example", 421, "start it with --allow-host evil.example"},
		{profiles + "/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile"},
		{profiles + "/debug/vars", "", 404, ""},
	} {
		if status, body := getAs(t, c.url, c.host); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s as %q: %d %.200s", c.url, c.host, status, body)
		}
	}
	if traces.Load() != 0 {
		t.Error("traces were sent before their time")
	}
	s.stop(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
	if traces.Load() == 0 {
		t.Error("the last traces were not sent")
	}
}

// TestListenersRefusePagesOfOthers checks that profiles and the metrics of helpers are not for pages of other origins.
func TestListenersRefusePagesOfOthers(t *testing.T) {
	named, err := hostsOf([]string{"hare-kube.hare"}, "0.0.0.0:9106")
	if err != nil {
		t.Fatal(err)
	}
	fine := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, h := range map[string]http.Handler{"profiles": debugHandler(prometheus.NewRegistry()),
		"slurm": metricsHandler(fine, &api.Hosts{}), "kube": metricsHandler(fine, named)} {
		for _, c := range []struct {
			host, header, value string
			status              int
		}{
			{"localhost:1", "", "", 200},
			{"127.0.0.1", "Sec-Fetch-Site", "none", 200},
			{"127.0.0.1", "Sec-Fetch-Site", "cross-site", 403},
			{"127.0.0.1", "Origin", "http://evil.example", 403},
			{"evil.example", "", "", 421},
			{"hare-kube.hare:9106", "", "", map[string]int{"kube": 200}[name]},
			{"0.0.0.0:9106", "", "", map[string]int{"kube": 200}[name]},
		} {
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.Host = c.host
			r.Header.Set(c.header, c.value)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != cmp.Or(c.status, 421) {
				t.Errorf("%s as %s, %s %s: %d %s", name, c.host, c.header, c.value, w.Code, w.Body)
			}
		}
	}
}

// TestServeEndsWithoutItsCollector checks that a collector that hangs delays the
// end by the flush time and no longer.
func TestServeEndsWithoutItsCollector(t *testing.T) {
	free := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }))
	defer collector.Close()
	defer close(free)
	s := serveLogged(t, "--otlp-endpoint", collector.URL)
	public := "http://" + s.line(t, "listening")["address"].(string)
	getAs(t, public+"/v1/version", "")
	began := time.Now()
	s.stop(syscall.SIGTERM)
	s.line(t, "the last traces are lost")
	select {
	case err := <-s.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
	if took := time.Since(began); took > flushTime+10*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestObserveFlags(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"profiles for all":  {[]string{"--debug-listen", "0.0.0.0:6060"}, "beyond loopback"},
		"profiles anywhere": {[]string{"--debug-listen", ":6060"}, "beyond loopback"},
		"no port":           {[]string{"--debug-listen", "127.0.0.1"}, "missing port"},
		"metrics nowhere":   {[]string{"--private-metrics"}, "--debug-listen"},
		"form of the log":   {[]string{"--log-format", "xml"}, "text or json"},
		"level of the log":  {[]string{"--log-level", "loud"}, "debug, info, warn or error"},
		"no URL":            {[]string{"--otlp-endpoint", "127.0.0.1:4318"}, "--otlp-endpoint: give the URL"},
		"an address in use": {[]string{"--debug-listen", taken(t)}, "in use"},
		"another's collector": {[]string{"--otlp-endpoint", "http://127.0.0.1:1", "--debug-listen", "192.0.2.1:1"},
			"beyond loopback"},
	} {
		_, stderr, code := runHare(t, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s", name, code, stderr)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, stderr, code := runHare(t, "", "serve", "--listen", "127.0.0.1:0", "--otlp-endpoint",
		"http://127.0.0.1:1"); code != exitUsage || !strings.Contains(stderr, "http/protobuf") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
}

// taken returns an address on which another listener is active.
func taken(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestServeHelpAsks runs the examples of the help of hare serve.
func TestServeHelpAsks(t *testing.T) {
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	sh := newShell(t)
	requests := []pageCommand{{text: "hare serve 2> serve.log &\n"}}
	commands := strings.ReplaceAll(serveCommand().Example+"\n", "\\\n", " ") // a command may take several lines
	for line := range strings.Lines(commands) {
		request, is := strings.CutPrefix(strings.TrimSpace(line), "curl ")
		if !is {
			continue
		}
		const curl = "curl --retry 9 --retry-connrefused -w '\\n%{http_code}' "
		requests = append(requests, pageCommand{text: curl + request + "\n"})
	}
	for i, answer := range sh.paste(requests)[1:] {
		if !strings.Contains(answer.text, "\n20") {
			t.Errorf("%s%s", requests[i+1].text, answer.text)
		}
	}
	if len(requests) == 1 {
		t.Error("the help asks for nothing")
	}
}
