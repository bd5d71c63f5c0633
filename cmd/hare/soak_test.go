package main

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// soak makes some tests as long as they are before a release.
var soak = flag.Bool("hare.soak", false, "kill the server 300 times")

// answerUs is how long decisions take to reach the simulated cluster: what
// happens within it does not hang on them, so that much is sent at once.
const answerUs = 200_000

// shortestUs is the least time that anything takes there.
const shortestUs = answerUs

// crew is a cluster that does what it is told, on a clock of its own. What it
// sends next follows from the answers that it got alone.
type crew struct {
	rng     *rand.Rand
	seq     int64
	due     happenings
	ordered int64
	jobs    map[string]*crewJob
	gpus    map[string]string // name to type
	names   []string          // in service
	made    int
}

type crewJob struct {
	rounds int64 // until it ends
	tasks  int64
	ended  map[int64]int64 // tasks by round
	gone   bool
}

// happening is an event to come. A task that is withdrawn takes its events
// along by way of valid.
type happening struct {
	event hare.Event
	order int64
	valid *bool
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if h[i].event.AtUs != h[j].event.AtUs {
		return h[i].event.AtUs < h[j].event.AtUs
	}
	return h[i].order < h[j].order
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newCrew(seed uint64) (*crew, *hare.Cluster) {
	c := &crew{rng: rand.New(rand.NewPCG(seed, 7)), jobs: map[string]*crewJob{}, gpus: map[string]string{}}
	cluster := &hare.Cluster{}
	for i, kind := range []string{"A100", "V100", "T4"} {
		n := hare.Node{Name: string(rune('a' + i)), GPUs: []hare.TypeCount{{Type: kind, Count: 16}}}
		for g := range 16 {
			name := fmt.Sprintf("%s/%d", n.Name, g)
			c.gpus[name] = kind
			c.names = append(c.names, name)
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	c.plan(hare.Event{AtUs: 0, Type: hare.EventJobArrived}, nil)
	c.plan(hare.Event{AtUs: 40_000_000, Type: hare.EventGPULeft}, nil)
	c.plan(hare.Event{AtUs: 50_000_000, Type: hare.EventGPUJoined}, nil)
	c.plan(hare.Event{AtUs: 90_000_000, Type: hare.EventJobCancelled}, nil)
	return c, cluster
}

func (c *crew) plan(e hare.Event, valid *bool) {
	if valid == nil {
		valid = new(true)
	}
	c.ordered++
	heap.Push(&c.due, happening{e, c.ordered, valid})
}

// next returns the events that can be sent before the answer to the first of
// them is known.
func (c *crew) next() (events []hare.Event) {
	var until int64
	for len(c.due) > 0 && (len(events) == 0 || c.due[0].event.AtUs < until) {
		x := heap.Pop(&c.due).(happening)
		if !*x.valid {
			continue
		}
		if len(events) == 0 {
			until = x.event.AtUs + answerUs
		}
		from := len(events)
		events = c.happen(events, x.event)
		last := events[len(events)-1].Type
		if len(events) > from && (last == hare.EventGPULeft || last == hare.EventTaskFailed || last == hare.EventJobCancelled) {
			break // it may void others: what, the answer says
		}
	}
	for i := range events {
		c.seq++
		events[i].Seq = c.seq
	}
	return events
}

// happen makes the events of what was planned.
func (c *crew) happen(events []hare.Event, e hare.Event) []hare.Event {
	later := func(least, most int64) hare.Event {
		e := e
		e.AtUs += least + c.rng.Int64N(most-least)
		return e
	}
	switch e.Type {
	case hare.EventJobArrived:
		c.plan(later(100_000, 3_000_000), nil)
		if len(c.jobs) < 40 {
			e.Arrived = c.newJob()
			e.Job = e.Arrived.ID
			return append(events, e)
		}
		e.Type = hare.EventTick
	case hare.EventGPULeft:
		c.plan(later(20_000_000, 60_000_000), nil)
		if len(c.names) > 30 {
			i := c.rng.IntN(len(c.names))
			e.GPU = c.names[i]
			c.names = slices.Delete(c.names, i, i+1)
			delete(c.gpus, e.GPU)
			return append(events, e)
		}
		e.Type = hare.EventTick
	case hare.EventGPUJoined:
		c.plan(later(20_000_000, 60_000_000), nil)
		c.made++
		e.GPU, e.GPUType = fmt.Sprintf("x/%d", c.made), []string{"A100", "V100", "T4", "H100"}[c.rng.IntN(4)]
		c.gpus[e.GPU] = e.GPUType
		c.names = append(c.names, e.GPU)
	case hare.EventJobCancelled:
		c.plan(later(50_000_000, 200_000_000), nil)
		ids := make([]string, 0, len(c.jobs))
		for id := range c.jobs {
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			e.Type = hare.EventTick
			break
		}
		slices.Sort(ids)
		e.Job = ids[c.rng.IntN(len(ids))]
		c.jobs[e.Job].gone = true
		delete(c.jobs, e.Job)
	case hare.EventTaskEnded:
		j := c.jobs[e.Job]
		if j.ended[e.Round]++; j.ended[e.Round] == j.tasks && e.Round+1 == j.rounds {
			events = append(events, e)
			j.gone = true
			delete(c.jobs, e.Job)
			e = hare.Event{AtUs: e.AtUs, Type: hare.EventJobEnded, Job: e.Job}
		}
	}
	return append(events, e)
}

func (c *crew) newJob() *hare.Job {
	c.made++
	j := &hare.Job{ID: fmt.Sprintf("job-%d", c.made), WeightMicro: 1_000_000 * (1 + c.rng.Int64N(3)), Tasks: 1 + c.rng.Int64N(6)}
	if c.rng.IntN(2) == 0 {
		j.Sync = hare.Gang
	}
	for _, kind := range []string{"A100", "H100", "T4", "V100"} {
		if kind == "V100" || c.rng.IntN(3) > 0 {
			p := hare.Profile{Type: kind}
			if c.rng.IntN(3) > 0 { // else its speed is to be learned
				p.ComputeUs, p.SyncUs = shortestUs+c.rng.Int64N(2_000_000), c.rng.Int64N(300_000)
			}
			j.On = append(j.On, p)
		}
	}
	c.jobs[j.ID] = &crewJob{rounds: 1 + c.rng.Int64N(30), tasks: j.Tasks, ended: map[int64]int64{}}
	return j
}

// running finds what is planned for a task.
func (c *crew) running(d *hare.Decision) (found []*bool) {
	for i := range c.due {
		e := &c.due[i].event
		if e.Job == d.Job && e.Round == d.Round && e.Task == d.Task && e.GPU == d.GPU &&
			(e.Type == hare.EventTaskEnded || e.Type == hare.EventComputeEnded || e.Type == hare.EventTaskFailed) {
			found = append(found, c.due[i].valid)
		}
	}
	return found
}

// obey plans what follows from decisions.
func (c *crew) obey(ds []hare.Decision) error {
	for i := range ds {
		d := &ds[i]
		if d.Type == hare.DecisionWithdraw {
			for _, valid := range c.running(d) {
				*valid = false
			}
			continue
		}
		if len(slices.DeleteFunc(c.running(d), func(valid *bool) bool { return !*valid })) > 0 {
			return fmt.Errorf("%v runs already", *d)
		}
		e := hare.Event{Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU, AtUs: d.AtUs + answerUs}
		valid := new(true)
		e.ComputeUs, e.SyncUs = shortestUs+c.rng.Int64N(2_000_000), c.rng.Int64N(300_000)
		if c.rng.IntN(300) == 0 {
			e.Type, e.AtUs = hare.EventTaskFailed, e.AtUs+e.ComputeUs/2+answerUs
			e.ComputeUs, e.SyncUs = 0, 0
			c.plan(e, valid)
			continue
		}
		end := e
		end.Type, end.AtUs = hare.EventTaskEnded, e.AtUs+e.ComputeUs+e.SyncUs
		c.plan(end, valid)
		if c.rng.IntN(2) == 0 && e.SyncUs > 0 {
			e.Type, e.AtUs = hare.EventComputeEnded, e.AtUs+e.ComputeUs
			e.ComputeUs, e.SyncUs = 0, 0
			c.plan(e, valid)
		}
	}
	return nil
}

// undisturbed is a session in this process: what the server must answer.
type undisturbed struct {
	policy online.Policy
	log    []byte // lines of hare.AppendRecord
}

func (u *undisturbed) answer(t testing.TB, e hare.Event) (line []byte) {
	t.Helper()
	ds, err := u.policy.Step(e.AtUs, []hare.Event{e})
	if err != nil {
		t.Fatalf("the cluster sent what cannot be true: %v: %s", err, hare.AppendEvent(nil, e))
	}
	u.log = append(hare.AppendRecord(u.log, hare.Record{Event: e, Decisions: ds}), '\n')
	return append(hare.AppendAnswer(nil, hare.Answer{Seq: e.Seq, Decisions: ds}), '\n')
}

// served is a hare serve as a child process.
type served struct {
	cmd  *exec.Cmd
	url  string // "" when it ended before it listened
	mu   sync.Mutex
	log  bytes.Buffer
	done chan struct{} // closed when its standard error has ended
}

func (s *served) stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// serve starts a server and waits until it listens or has ended. It is killed
// after kill, if that is not negative.
func serve(t testing.TB, kill time.Duration, args ...string) *served {
	t.Helper()
	s := &served{cmd: command(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), done: make(chan struct{})}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	if kill < 0 {
		kill = time.Minute // none runs for so long
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
			if _, at, ok := strings.Cut(in.Text(), "address="); ok && !told {
				at, _, _ = strings.Cut(at, " ")
				told = true
				address <- "http://" + at
			}
		}
	}()
	s.url = <-address
	return s
}

// end waits until the server has ended; it must not have raced or panicked.
func (s *served) end(t testing.TB) error {
	t.Helper()
	<-s.done
	err := s.cmd.Wait()
	if text := s.stderr(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
		t.Fatal(text)
	}
	return err
}

// stop ends the server as an operator does.
func (s *served) stop(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.end(t); err != nil {
		t.Fatalf("%v\n%s", err, s.stderr())
	}
}

// newSession creates a session of HLAS.
func newSession(t testing.TB, url string, cluster *hare.Cluster) (id string) {
	t.Helper()
	body := append(append([]byte(`{"policy":"hlas","cluster":`), hare.AppendCluster(nil, cluster)...), '}')
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

// link is a stream of events to a session, and of answers from it.
type link struct {
	in   *io.PipeWriter
	resp chan *http.Response // nil where the connection broke first
	out  *bufio.Reader
	body io.Closer
}

func connect(s *served, id string) *link {
	r, w := io.Pipe()
	l := &link{in: w, resp: make(chan *http.Response, 1)}
	// A transport whose connection broke waits for the body to end before it
	// says so.
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
		// A connection of its own: those to a killed server are not used again.
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

// exchange sends lines, and returns the lines that came back, n or, with a
// broken connection, fewer.
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
			return got, err // a line that is cut was not answered
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

// player drives a session through servers that die.
type player struct {
	crew     *crew
	want     *undisturbed
	id       string
	sent     []hare.Event // the events of this batch
	answers  [][]byte     // what each must get
	answered int          // of them
	again    int          // events sent again
	total    int
}

// batch lets the cluster go on when all it said is answered.
func (p *player) batch(t testing.TB) {
	t.Helper()
	if p.answered < len(p.sent) {
		return
	}
	p.sent, p.answers, p.answered = p.crew.next(), nil, 0
	for _, e := range p.sent {
		p.answers = append(p.answers, p.want.answer(t, e))
	}
}

// heard compares answers with the ones wanted, and obeys them.
func (p *player) heard(t testing.TB, lines [][]byte) {
	t.Helper()
	for _, line := range lines {
		if !bytes.Equal(line, p.answers[p.answered]) {
			t.Fatalf("event %d is answered with\n%s, undisturbed it was\n%s", p.sent[p.answered].Seq, line, p.answers[p.answered])
		}
		a, err := hare.DecodeAnswer(line)
		if err != nil {
			t.Fatal(err)
		}
		p.answered++
		p.total++
		if err := p.crew.obey(a.Decisions); err != nil {
			t.Fatal(err)
		}
	}
}

// play goes on until the connection breaks, or enough is answered.
func (p *player) play(t testing.TB, s *served, enough int) {
	t.Helper()
	l := connect(s, p.id)
	defer l.close()
	for p.total < enough {
		p.batch(t)
		var lines []byte
		for _, e := range p.sent[p.answered:] {
			lines = append(hare.AppendEvent(lines, e), '\n')
		}
		got, err := l.exchange(lines, len(p.sent)-p.answered)
		p.heard(t, got)
		if err != nil {
			p.again += len(p.sent) - p.answered
			return
		}
	}
}

// ask learns from the server which events it has, and reads the answers that
// did not come. It returns early where the server dies meanwhile.
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
// while it starts, under a client that streams the events of a cluster, which
// follow from the decisions. Whatever is answered must be what a session that
// nothing happened to answers, byte for byte, and so must be the whole log.
func TestServeSurvivesKills(t *testing.T) {
	kills := 20
	if *soak {
		kills = 300
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(4, 300))
	crew, cluster := newCrew(4)
	policy, err := online.New("hlas", cluster, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &player{crew: crew, want: &undisturbed{policy: policy}}
	args := []string{"--data-dir", dir, "--snapshot-every", "250"}
	first := serve(t, -1, args...)
	p.id = newSession(t, first.url, cluster)
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
	t.Logf("%d kills, %d of them before it listened; %d events, %d sent again; replay: %s", kills, early, p.total, p.again, strings.TrimSpace(out))
}
