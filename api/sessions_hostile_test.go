package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/sessions"
)

func tick(seq int) string { return fmt.Sprintf(`{"seq":%d,"at_s":0,"type":"tick"}`+"\n", seq) }

func ticks(first, last int) string {
	var b strings.Builder
	for seq := first; seq <= last; seq++ {
		b.WriteString(tick(seq))
	}
	return b.String()
}

func ticked(first, last int) string {
	var b strings.Builder
	for seq := first; seq <= last; seq++ {
		fmt.Fprintf(&b, `{"seq":%d,"decisions":[]}`+"\n", seq)
	}
	return b.String()
}

// eventually waits until the metrics contain the text want.
func (s *sessionServer) eventually(t *testing.T, want string) {
	t.Helper()
	wait(t, "the metrics say "+want, func() bool {
		_, text, _ := s.call(t, "GET", "/metrics", "")
		return strings.Contains(text, want+"\n")
	})
}

// TestHostileLines checks that every line that is not an event is refused in JSON
// with its number, a pointer and a reason, and that the event after the line is
// applied.
func TestHostileLines(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	lines := []struct{ line, pointer, code string }{
		{"\xff\xfe", "", "malformed"},
		{"\xef\xbb\xbf" + `{"seq":1,"at_s":0,"type":"tick"}`, "", "malformed"},
		{`{"seq":1,"at_s":0,"type":"job_cancelled","job":"` + "\xff" + `"}`, "/job", "malformed"},
		{`{"seq":1,"at_s":0,"type":"tick","seq":2}`, "/seq", "duplicate_name"},
		{`{"seq":1,"at_s":0,"type":"tick"} {"seq":2,"at_s":0,"type":"tick"}`, "", "malformed"},
		{`[{"seq":1,"at_s":0,"type":"tick"}]`, "", "wrong_type"},
		{`null`, "", "wrong_type"},
		{strings.Repeat("[", 20_000), "", ""},
		{`{"seq":1,"at_s":0,"type":"tick","x":` + strings.Repeat(`{"y":`, 20_000), "", ""},
		{strings.Repeat("7", 10<<20), "", "body_too_large"},
		{"\x00", "", "malformed"},
		{`{"seq":1,"at_s":0,"type":"boom"}`, "/type", "unknown_value"},
		{`{"seq":1,"at_s":-1,"type":"tick"}`, "/at_s", "out_of_range"},
		{`{"seq":1,"at_s":1e300,"type":"tick"}`, "/at_s", "too_large"},
		{`{"seq":1,"at_s":0.0000001,"type":"tick"}`, "/at_s", ""},
		{`{"seq":99999999999999999999,"at_s":0,"type":"tick"}`, "/seq", ""},
		{`{"seq":-1,"at_s":0,"type":"tick"}`, "/seq", ""},
		{`{"seq":0,"at_s":0,"type":"tick"}`, "/seq", ""},
		{`{"seq":9223372036854775807,"at_s":0,"type":"tick"}`, "/seq", ""},
		{`{"seq":1,"at_s":0,"type":"tick","job":"j"}`, "/job", ""},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","rounds":3,"on":{"V100":{}}}}`, "/job/rounds", ""},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","after":["i"],"on":{"V100":{}}}}`, "/job/after", ""},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{}}}`, "/job/on", ""},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","tasks":9000000000000000,"on":{"V100":{}}}}`, "", ""},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"V100":{}},"estimate_s":1e12}}`, "/job/estimate_s",
			"too_large"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"V100":{}},"class":{"a/b":[]}}}`, "/job/class/a~1b",
			"wrong_type"},
		{`{"seq":1,"at_s":0,"type":"task_ended","job":"j","round":0,"task":0,"gpu":"a/0","compute_s":1}`, "/job", ""},
		{`{"seq":1,"at_s":0,"type":"gpu_joined","gpu":"a/0","gpu_type":"V100"}`, "/gpu", ""},
		{`{"seq":1,"at_s":0,"type":"gpu_joined","gpu":"` + strings.Repeat("g", 1<<19) + `","gpu_type":"V100"}`, "", ""},
	}
	var body strings.Builder
	for _, l := range lines {
		body.WriteString(l.line + "\n")
	}
	body.WriteString("\r\n \t\n" + strings.TrimSuffix(tick(1), "\n") + "\r\n")
	code, text, _ := s.call(t, "POST", at+"/events", body.String())
	answers := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if code != 200 || len(answers) != len(lines)+1 {
		t.Fatalf("%d, %d answers to %d lines\n%.2000s", code, len(answers), len(lines)+1, text)
	}
	for i, l := range lines {
		var a struct {
			Error *struct {
				Status, Line          int
				Pointer, Code, Detail string
			}
		}
		err := json.Unmarshal([]byte(answers[i]), &a)
		if err != nil || a.Error == nil || a.Error.Line != i+1 || a.Error.Detail == "" || a.Error.Code == "" ||
			a.Error.Status < 400 || a.Error.Status >= 500 ||
			!strings.HasPrefix(a.Error.Pointer, l.pointer) || l.code != "" && a.Error.Code != l.code || len(answers[i]) > 4096 {
			t.Errorf("%.100q: %v %.300s", l.line, err, answers[i])
		}
	}
	if last := answers[len(lines)]; last != `{"seq":1,"decisions":[]}` {
		t.Error(last)
	}
}

// TestTwoWriters lets two clients send the same events at the same time. Both get
// all answers, each event is recorded once, and a client that sends a different
// event under a recorded number gets an error.
func TestTwoWriters(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	const n = 2000
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			if _, text, _ := s.call(t, "POST", at+"/events", ticks(1, n)); text != ticked(1, n) {
				t.Errorf("%.300s", text)
			}
		})
	}
	writers.Wait()
	if _, text, _ := s.call(t, "GET", at+"/decisions", ""); text != ticked(1, n) {
		t.Errorf("recorded %.300s", text)
	}
	s.eventually(t, fmt.Sprintf("hare_session_events_total %d", n))
	s.eventually(t, fmt.Sprintf("hare_session_duplicates_total %d", n))
	if _, text, _ := s.call(t, "POST", at+"/events", `{"seq":7,"at_s":0,"type":"gpu_left",`+
		`"gpu":"a/0"}`); !strings.HasPrefix(text, `{"seq":7,"error":{"status":409,"line":1,"pointer":"","code":"conflict"`) {
		t.Error(text)
	}
}

func TestEventsAfterDelete(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	c := s.talk(t, t.Context(), at)
	c.say(strings.TrimSpace(tick(1)))
	if code, _, _ := s.call(t, "DELETE", at, ""); code != http.StatusNoContent {
		t.Fatal(code)
	}
	if got := c.say(strings.TrimSpace(tick(2))); !strings.HasPrefix(got,
		`{"seq":2,"error":{"status":404,"line":2,"pointer":"","code":"no_session"`) {
		t.Error(got)
	}
	if rest, err := io.ReadAll(c.out); len(rest) > 0 || err != nil {
		t.Errorf("%q %v", rest, err)
	}
	c.end()
	if code, _, _ := s.call(t, "POST", at+"/events", tick(2)); code != http.StatusNotFound {
		t.Error(code)
	}
}

// dial opens a plain TCP connection and sends text.
func (s *sessionServer) dial(t *testing.T, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

func TestBareConnections(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	head := func(at, version, headers string) string {
		return "POST " + at + "/events HTTP/" + version + "\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n" +
			headers + "\r\n"
	}
	status := func(t *testing.T, in *bufio.Reader, want string) {
		t.Helper()
		line, err := in.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Fatalf("%q %v, want %s", line, err, want)
		}
		for line != "\r\n" {
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func(t *testing.T, in *bufio.Reader, want string) {
		t.Helper()
		_, _ = in.ReadString('\n') // the length of the chunk
		if line, err := in.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q %v, want %s", line, err, want)
		}
		_, _ = in.ReadString('\n')
	}
	t.Run("expect", func(t *testing.T) {
		c, in := s.dial(t, head(s.open(t, ""), "1.1", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"))
		status(t, in, "100 Continue")
		_, _ = io.WriteString(c, chunk(tick(1)))
		status(t, in, "200 OK")
		next(t, in, ticked(1, 1))
		_, _ = io.WriteString(c, chunk(tick(2)))
		next(t, in, ticked(2, 2))
	})
	t.Run("end", func(t *testing.T) {
		c, in := s.dial(t, head(s.open(t, ""), "1.1", "Transfer-Encoding: chunked\r\n")+chunk(tick(1)))
		status(t, in, "200 OK")
		next(t, in, ticked(1, 1))
		// The answer ends properly, and the server reads no further request from
		// the connection.
		_, _ = io.WriteString(c, "0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if rest, err := io.ReadAll(in); string(rest) != "0\r\n\r\n" || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("%q %v", rest, err)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		at := s.open(t, "")
		c, in := s.dial(t, head(at, "1.1", "Transfer-Encoding: chunked\r\n")+chunk(tick(1)))
		status(t, in, "200 OK")
		next(t, in, ticked(1, 1))
		s.call(t, "DELETE", at, "")
		// A body that continues or stays open does not occupy the server.
		_, _ = io.WriteString(c, chunk(tick(2))+chunk(tick(3)))
		began := time.Now()
		rest, err := io.ReadAll(in)
		if !strings.Contains(string(rest), `"no_session"`) || !strings.HasSuffix(string(rest), "\r\n0\r\n\r\n") ||
			err != nil && !errors.Is(err, syscall.ECONNRESET) || time.Since(began) > patience {
			t.Errorf("%q %v after %v", rest, err, time.Since(began))
		}
	})
	t.Run("status first", func(t *testing.T) {
		began := time.Now()
		c, in := s.dial(t, head(s.open(t, ""), "1.1", "Transfer-Encoding: chunked\r\n"))
		status(t, in, "200 OK")
		if took := time.Since(began); took > patience {
			t.Errorf("after %v", took)
		}
		_, _ = io.WriteString(c, chunk(tick(1)))
		next(t, in, ticked(1, 1))
	})
	t.Run("refused", func(t *testing.T) {
		at := s.open(t, "")
		began := time.Now()
		answers := map[string]*bufio.Reader{} // each connection stays open for api.refusedTime
		for headers, want := range map[string]string{"": "404", "Content-Type: text/html\r\n": "415",
			"Content-Encoding: gzip\r\n": "415"} {
			path := at
			if want == "404" {
				path = "/v1/sessions/none"
			}
			_, in := s.dial(t, head(path, "1.1", "Transfer-Encoding: chunked\r\n"+headers))
			status(t, in, want)
			answers[headers] = in
		}
		for headers, in := range answers {
			if _, err := io.ReadAll(in); err != nil || time.Since(began) > patience {
				t.Errorf("%q: %v after %v", headers, err, time.Since(began))
			}
		}
	})
	t.Run("HTTP 1.0", func(t *testing.T) {
		body := ticks(1, 50)
		_, in := s.dial(t, head(s.open(t, ""), "1.0", fmt.Sprintf("Content-Length: %d\r\n", len(body)))+body)
		status(t, in, "200 OK")
		if rest, err := io.ReadAll(in); err != nil || string(rest) != ticked(1, 50) {
			t.Errorf("%v %s", err, rest)
		}
	})
	t.Run("broken chunk", func(t *testing.T) {
		at := s.open(t, "")
		_, in := s.dial(t, head(at, "1.1", "Transfer-Encoding: chunked\r\n")+chunk(tick(1))+"zz\r\n"+tick(2))
		status(t, in, "200 OK")
		if rest, _ := io.ReadAll(in); !strings.Contains(string(rest), ticked(1, 1)) ||
			strings.Contains(string(rest), `"seq":2`) {
			t.Errorf("%s", rest)
		}
	})
	t.Run("cut body", func(t *testing.T) {
		at := s.open(t, "")
		c, _ := s.dial(t, head(at, "1.1", "Content-Length: 1000\r\n")+tick(1)+strings.TrimSuffix(tick(2), "\n"))
		s.eventually(t, `hare_session_streams{of="events"} 1`)
		_ = c.Close()
		s.eventually(t, `hare_session_streams{of="events"} 0`)
		// If a body breaks off inside a line, the event of the line does not count,
		// even if the line looks complete.
		if _, text, _ := s.call(t, "GET", at+"/decisions", ""); text != ticked(1, 1) {
			t.Error(text)
		}
	})
	t.Run("compressed session", func(t *testing.T) {
		if code, text, _ := s.call(t, "POST", "/v1/sessions", gzipped(`{"cluster":`+twoGPUs+`}`), "Content-Encoding",
			"gzip"); code != http.StatusCreated {
			t.Errorf("%d %s", code, text)
		}
		if code, text, _ := s.call(t, "POST", "/v1/sessions", gzipped(strings.Repeat(" ", 8<<20)), "Content-Encoding",
			"gzip"); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", code, text)
		}
	})
}

// TestDamagedLog checks that an answer that breaks off at damage does not look
// complete.
func TestDamagedLog(t *testing.T) {
	s := newSessionServer(t, sessions.Config{})
	at := s.open(t, "")
	s.call(t, "POST", at+"/events", ticks(1, 3000))
	s.call(t, "POST", at+"/events", ticks(3001, 3003))
	s.store.damaged.Store(3001)
	for _, path := range []string{"/decisions", "/log"} {
		resp, err := s.Client().Get(s.URL + at + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil || bytes.Contains(text, []byte(`"seq":3001,`)) {
			t.Errorf("%s: %v, %d bytes", path, err, len(text))
		}
		if code, text, _ := s.call(t, "GET", at+path+"?after=3000", ""); code != 500 ||
			!strings.Contains(text, `"corrupt_log"`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, text, _ := s.call(t, "GET", at+"/regret", ""); code != 500 || !strings.Contains(text, `"corrupt_log"`) {
		t.Errorf("%d %s", code, text)
	}
}

// TestLogLines checks that the server's log shows what happened to a session.
func TestLogLines(t *testing.T) {
	var out haretest.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	s := newSessionServer(t, sessions.Config{Logger: logger}, func(c *api.Config) { c.Logger = logger })
	at := s.open(t, "")
	id := strings.TrimPrefix(at, "/v1/sessions/")
	s.call(t, "POST", at+"/events", ticks(1, 3)+"x\n"+ticks(2, 3))
	c := s.talk(t, t.Context(), at)
	s.store.full.Store(true)
	c.say(strings.TrimSpace(tick(4)))
	c.say(strings.TrimSpace(tick(4)))
	c.end()
	s.call(t, "POST", at+"/events", tick(4))
	s.call(t, "POST", at+"/events", tick(4))
	s.store.full.Store(false)
	time.Sleep(5 * time.Millisecond)
	s.call(t, "POST", at+"/events", tick(4))
	s.call(t, "DELETE", at, "")
	s.Close()
	for want, times := range map[string]int{
		`level=INFO msg="session created"`:                                1,
		`level=INFO msg="session deleted"`:                                1,
		`session=` + id + ` recorded=3 duplicates=2 refused=1 last_seq=3`: 1,
		`session=` + id + ` recorded=0 duplicates=0 refused=2 last_seq=0`: 1,
		`session=` + id + ` recorded=1 duplicates=0 refused=0 last_seq=4`: 1,
		`level=WARN msg="events not recorded"`:                            1,
		`level=WARN msg="request refused"`:                                2,
		`level=ERROR msg="events are refused`:                             1,
		`level=INFO msg="events are taken again"`:                         1,
		`level=ERROR`: 1,
		`route=/v1/sessions/{id}/events status=200`: 3,
	} {
		if got := strings.Count(out.String(), want); got != times {
			t.Errorf("%d times %s in\n%s", got, want, out.String())
		}
	}
}
