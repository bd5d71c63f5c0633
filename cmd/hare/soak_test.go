package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// soak makes some tests as long as they are run before a release.
var soak = flag.Bool("hare.soak", false, "kill the server 300 times")

// undisturbed is a session in this process; its answers are those that the server
// must give.
type undisturbed struct {
	policy online.Policy
	log    []byte // written by wire.AppendRecord
}

func (u *undisturbed) answer(t testing.TB, e hare.Event) (line []byte) {
	t.Helper()
	ds, err := u.policy.Step(e.AtUs, []hare.Event{e})
	if err != nil {
		t.Fatalf("the cluster sent what cannot be true: %v: %s", err, wire.AppendEvent(nil, e))
	}
	u.log = append(wire.AppendRecord(u.log, wire.Record{Event: e, Decisions: ds}), '\n')
	return append(wire.AppendAnswer(nil, hare.Answer{Seq: e.Seq, Decisions: ds}), '\n')
}

// served is hare serve as a child process.
type served struct {
	cmd  *exec.Cmd
	url  string // "" if the server ended before it listened
	mu   sync.Mutex
	log  bytes.Buffer
	done chan struct{} // closed at the end of its standard error
}

func (s *served) stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// serve starts a server and waits until it listens or has ended. The server is
// killed after kill, unless kill is negative.
func serve(t testing.TB, kill time.Duration, args ...string) *served {
	t.Helper()
	return serveAs(t, command(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), kill)
}

// serveAs is serve for the command line of any build.
func serveAs(t testing.TB, cmd *exec.Cmd, kill time.Duration) *served {
	t.Helper()
	s := &served{cmd: cmd, done: make(chan struct{})}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	if kill < 0 {
		kill = time.Minute // no server runs for so long
	}
	time.AfterFunc(kill, func() { _ = s.cmd.Process.Kill() })
	address := make(chan string, 1)
	go func() {
		defer close(s.done)
		defer close(address)
		told := false
		for in := bufio.NewScanner(errs); in.Scan(); {
			s.mu.Lock()
			s.log.WriteString(in.Text() + "\n")
			s.mu.Unlock()
			if _, at, ok := strings.Cut(in.Text(), "msg=listening address="); ok && !told {
				at, _, _ = strings.Cut(at, " ")
				told = true
				address <- "http://" + at
			}
		}
	}()
	s.url = <-address
	return s
}

// end waits until the server has ended, and checks that it did not race or panic.
func (s *served) end(t testing.TB) error {
	t.Helper()
	<-s.done
	err := s.cmd.Wait()
	if text := s.stderr(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
		t.Fatal(text)
	}
	return err
}

// stop ends the server with SIGTERM.
func (s *served) stop(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.end(t); err != nil {
		t.Fatalf("%v\n%s", err, s.stderr())
	}
}

// newSession creates a session with a policy.
func newSession(t testing.TB, url, policy string, cluster *hare.Cluster) (id string) {
	t.Helper()
	body := append(wire.AppendCluster([]byte(`{"policy":"`+policy+`","cluster":`), cluster), '}')
	resp, err := http.Post(url+"/v1/sessions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, err)
	}
	return made.ID
}

// get reads a whole answer.
func get(t testing.TB, url string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}

// link is a stream of events to a session and of its answers.
type link struct {
	in   *io.PipeWriter
	resp chan *http.Response // nil if the connection broke before the answer began
	out  *bufio.Reader
	body io.Closer
}

func connect(s *served, id string) *link {
	r, w := io.Pipe()
	l := &link{in: w, resp: make(chan *http.Response, 1)}
	// A transport whose connection broke reports this only after the body has
	// ended.
	go func() {
		<-s.done
		_ = r.CloseWithError(io.ErrUnexpectedEOF)
	}()
	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/sessions/"+id+"/events", r)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() {
		// The link has its own connection, so that connections to a killed server
		// are not used again.
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			_ = r.CloseWithError(err)
			resp = nil
		}
		l.resp <- resp
		close(l.resp)
	}()
	return l
}

// exchange sends lines and returns the n answers, or fewer if the connection
// breaks.
func (l *link) exchange(lines []byte, n int) (got [][]byte, err error) {
	if _, err := l.in.Write(lines); err != nil {
		return nil, err
	}
	if l.out == nil {
		resp := <-l.resp
		if resp == nil {
			return nil, io.ErrUnexpectedEOF
		}
		l.out, l.body = bufio.NewReader(resp.Body), resp.Body
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
	}
	for len(got) < n {
		line, err := l.out.ReadBytes('\n')
		if err != nil {
			return got, err // an incomplete line is not an answer
		}
		got = append(got, line)
	}
	return got, nil
}

func (l *link) close() {
	_ = l.in.Close()
	if l.body != nil {
		_ = l.body.Close()
	} else if resp := <-l.resp; resp != nil {
		_ = resp.Body.Close()
	}
}

// player drives a session through several servers, each of which is killed.
type player struct {
	machines *simulatedCluster
	want     *undisturbed // nil where the answers depend on time, as with plans made aside
	given    [][]byte     // all answers, where want is nil
	id       string
	sent     []hare.Event // the events of the current batch
	answers  [][]byte     // the answer that each event must get
	answered int          // number of answers so far
	again    int          // number of events that were sent again
	total    int
}

// batch lets the cluster go on once all its events have answers.
func (p *player) batch(t testing.TB) {
	t.Helper()
	if p.answered < len(p.sent) {
		return
	}
	p.sent, p.answers, p.answered = p.machines.next(), nil, 0
	if p.want == nil {
		return
	}
	for _, e := range p.sent {
		p.answers = append(p.answers, p.want.answer(t, e))
	}
}

// heard compares answers with the expected ones, and applies them.
func (p *player) heard(t testing.TB, lines [][]byte) {
	t.Helper()
	for _, line := range lines {
		if p.want == nil {
			p.given = append(p.given, bytes.Clone(line))
		} else if !bytes.Equal(line, p.answers[p.answered]) {
			t.Fatalf("event %d is answered with\n%s, undisturbed it was\n%s", p.sent[p.answered].Seq, line,
				p.answers[p.answered])
		}
		a, err := wire.DecodeAnswer(line)
		if err != nil {
			t.Fatal(err)
		}
		p.answered++
		p.total++
		if err := p.machines.apply(a.Decisions); err != nil {
			t.Fatal(err)
		}
	}
}

// play continues until the connection breaks or enough events have answers.
func (p *player) play(t testing.TB, s *served, enough int) {
	t.Helper()
	l := connect(s, p.id)
	defer l.close()
	for p.total < enough {
		p.batch(t)
		var lines []byte
		for _, e := range p.sent[p.answered:] {
			lines = append(wire.AppendEvent(lines, e), '\n')
		}
		got, err := l.exchange(lines, len(p.sent)-p.answered)
		p.heard(t, got)
		if err != nil {
			p.again += len(p.sent) - p.answered
			return
		}
	}
}

// ask asks the server which events it has, and reads the missing answers. It
// returns early if the server dies.
func (p *player) ask(t testing.TB, url string) {
	t.Helper()
	var seen int64
	if len(p.sent) > 0 {
		seen = p.sent[0].Seq - 1 + int64(p.answered)
	}
	body := func(path string) []byte {
		resp, err := http.Get(url + "/v1/sessions/" + p.id + path)
		if err != nil {
			return nil
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return b[:bytes.LastIndexByte(b, '\n')+1]
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s", path, resp.Status, b)
		}
		return b
	}
	var info struct {
		LastSeq int64 `json:"last_seq"`
	}
	if text := body(""); json.Unmarshal(text, &info) != nil {
		return
	}
	if info.LastSeq < seen || len(p.sent) > 0 && info.LastSeq > p.sent[len(p.sent)-1].Seq {
		t.Fatalf("the server has %d events; %d were answered", info.LastSeq, seen)
	}
	lines := bytes.SplitAfter(body(fmt.Sprintf("/decisions?after=%d", seen)), []byte("\n"))
	p.heard(t, lines[:len(lines)-1])
}

// TestServeSurvivesKills kills hare serve with SIGKILL at random moments, also
// during its start, while a client streams the events of a cluster, which depend on
// the decisions. Every answer and the whole log must be, byte for byte, those of a
// session without kills.
func TestServeSurvivesKills(t *testing.T) {
	kills := 13
	if *soak {
		kills = 300
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(4, 300))
	machines, cluster := newSimulatedCluster(4)
	policy, err := registry.OpenSession("hlas", cluster, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{machines: machines, want: &undisturbed{policy: policy}}
	args := []string{"--data-dir", dir, "--snapshot-every", "250"}
	first := serve(t, -1, args...)
	p.id = newSession(t, first.url, "hlas", cluster)
	p.play(t, first, 300)
	_ = first.cmd.Process.Kill()
	_ = first.end(t)
	early := 0
	for i := 1; i < kills; i++ {
		after := time.Duration(-1)
		if rng.IntN(8) == 0 {
			after = time.Duration(rng.Int64N(int64(100 * time.Millisecond)))
		}
		s := serve(t, after, args...)
		if s.url == "" {
			early++
		} else {
			if after < 0 {
				time.AfterFunc(time.Duration(rng.Int64N(int64(250*time.Millisecond))), func() { _ = s.cmd.Process.Kill() })
			}
			if rng.IntN(2) == 0 {
				p.ask(t, s.url)
			}
			p.play(t, s, 1<<62)
		}
		if err := s.end(t); err == nil || s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("it ended by itself: %v\n%s", err, s.stderr())
		}
	}
	s := serve(t, -1, args...)
	p.play(t, s, p.total+300)
	p.ask(t, s.url)
	code, log := get(t, s.url+"/v1/sessions/"+p.id+"/log")
	_, records, _ := bytes.Cut(log, []byte("\n"))
	if code != http.StatusOK || !bytes.Equal(records, p.want.log) {
		t.Errorf("%d: the log of %d bytes is not that of an undisturbed run, %d bytes", code, len(records), len(p.want.log))
	}
	s.stop(t)
	out, errs, code := runHare(t, string(log), "online", "replay", "-")
	if code != exitDone {
		t.Error(out, errs)
	}
	t.Logf("%d kills, %d of them before it listened; %d events, %d sent again; replay: %s", kills, early, p.total,
		p.again, strings.TrimSpace(out))
}
