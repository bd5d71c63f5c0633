package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// heldSolve holds what a client knows about a solve.
type heldSolve struct {
	body, key    string // of the request
	id           string // "" until the solve is acknowledged
	cancel       bool   // the client cancels the solve when it has a pair
	heard        []byte // the events so far, byte for byte
	last         string // id of the last event
	over         bool   // the last event is done
	value, bound *hare.Amount
	result       []byte // nil until the result was read whole
	cancelled    bool   // the answer that acknowledged the cancellation
	deleted      bool
}

// solveBody returns a request for a solve of some gang jobs.
func solveBody(seed int64, jobs int, options string) string {
	rng := rand.New(rand.NewPCG(uint64(seed), 8))
	var b strings.Builder
	b.WriteString(`{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T4":2,"V100":2}}]},` +
		`"jobs":[`)
	for i := range jobs {
		if i > 0 {
			b.WriteByte(',')
		}
		p := 1 + rng.IntN(9)
		fmt.Fprintf(&b, `{"id":"j%d","weight":%d,"rounds":%d,"tasks":%d,"sync":"gang","on":{"T4":{"compute_s":%d},`+
			`"V100":{"compute_s":%d}}}`, i, 1+rng.IntN(4), 1+rng.IntN(20), 1+rng.IntN(2), 2*p, p)
	}
	fmt.Fprintf(&b, `]},"options":{"seed":%d,%s}}`, seed, options)
	return b.String()
}

// solveClient takes one solve after another from submission to its result, and
// continues where it was when the server restarts.
type solveClient struct {
	t     testing.TB
	name  string
	rng   *rand.Rand
	saved func() // called for each checkpoint in the stream
	ended func() // called for each cancellation that was acknowledged

	url string
	now *heldSolve
	all []*heldSolve // the acknowledged solves

	made, checkpoints, tested, resumed, retried int
}

// live works until the server is gone.
func (c *solveClient) live(url string) {
	c.url = url
	if h := c.now; h != nil && h.id != "" && c.rng.IntN(2) == 0 && !c.again(h) {
		return
	}
	for c.step() {
	}
}

// step takes one solve from its present state to its end. It returns false if the
// server is gone.
func (c *solveClient) step() bool {
	h := c.now
	if h == nil {
		h = c.next()
		c.now = h
	}
	if h.id == "" {
		id, ok := c.post(h)
		if !ok {
			return false
		}
		if id == "" {
			c.now = nil
			return true
		}
		h.id = id
		c.all = append(c.all, h)
	}
	if !h.over && !c.follow(h) || !c.read(h) {
		return false
	}
	c.now = nil
	old := c.all[c.rng.IntN(len(c.all))]
	if c.rng.IntN(3) == 0 {
		return c.read(old)
	}
	if c.rng.IntN(6) == 0 && !old.deleted {
		code, _, text, ok := c.do(http.MethodDelete, "/v1/solves/"+old.id, "", nil)
		if ok && code != http.StatusNoContent {
			c.t.Errorf("DELETE: %d %s", code, text)
		}
		old.deleted = ok
		if !ok {
			c.forget(old)
		}
		return ok
	}
	return true
}

// forget drops a solve of which the client cannot know whether it is deleted.
func (c *solveClient) forget(h *heldSolve) {
	for i := range c.all {
		if c.all[i] == h {
			c.all = append(c.all[:i], c.all[i+1:]...)
			return
		}
	}
}

func (c *solveClient) next() *heldSolve {
	c.made++
	h := &heldSolve{key: fmt.Sprint(c.name, "-", c.made)}
	seed := c.rng.Int64N(1 << 40)
	switch c.rng.IntN(6) {
	case 0:
		h.body = solveBody(seed, 8+c.rng.IntN(8), fmt.Sprintf(`"work_limit":%d`, 1+c.rng.IntN(30_000)))
	case 1, 2, 3:
		h.cancel = true
		h.body = solveBody(seed, 25, `"time_limit_s":60,"gap":0`)
	default:
		h.body = solveBody(seed, 80, `"time_limit_s":2,"gap":0`)
	}
	return h
}

// do sends a request. It returns false if the server is gone.
func (c *solveClient) do(method, path, body string,
	header map[string]string) (code int, got http.Header, text []byte, ok bool) {
	resp, ok := c.open(method, path, body, header)
	if !ok {
		return 0, nil, nil, false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, text, err == nil
}

func (c *solveClient) open(method, path, body string, header map[string]string) (*http.Response, bool) {
	req, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return nil, false
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	return resp, err == nil
}

// post submits a solve and returns its id, which is "" if the server refused it as
// too late. It returns false if the server is gone.
func (c *solveClient) post(h *heldSolve) (id string, ok bool) {
	for {
		code, header, text, ok := c.do(http.MethodPost, "/v1/solves", h.body,
			map[string]string{"Content-Type": "application/json", "Prefer": "wait=0", "Idempotency-Key": h.key})
		if !ok {
			return "", false
		}
		id := header.Get("Hare-Solve-Id")
		if id == "" && code == http.StatusServiceUnavailable && !bytes.Contains(text, []byte(`"late"`)) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if id == "" && code != http.StatusServiceUnavailable && (code != http.StatusGone || !h.deleted) {
			c.t.Errorf("%s: %d %.300s", h.key, code, text)
		}
		return id, true
	}
}

// again repeats a submission, which must return the same solve.
func (c *solveClient) again(h *heldSolve) bool {
	id, ok := c.post(h)
	if ok && id != h.id && (id != "" || !h.deleted) {
		c.t.Errorf("the key of %s gives %q", h.id, id)
	}
	c.retried++
	return ok
}

// follow reads the events after the last one until the solve has ended, and cancels
// the solve on the way. It returns false if the server is gone.
func (c *solveClient) follow(h *heldSolve) bool {
	if h.last != "" {
		c.resumed++
	}
	if h.cancel && h.value != nil && !c.cancel(h) {
		return false
	}
	resp, ok := c.open(http.MethodGet, "/v1/solves/"+h.id+"/events", "",
		map[string]string{"Accept": "text/event-stream", "Last-Event-ID": h.last})
	if !ok {
		return false
	}
	defer resp.Body.Close()
	return eachEvent(resp.Body, func(id string, data, text []byte) bool {
		h.heard, h.last = append(h.heard, text...), id
		var ev struct {
			Type         string
			Value, Bound json.Number
		}
		if err := json.Unmarshal(data, &ev); err != nil {
			c.t.Errorf("%s: %v: %s", h.id, err, text)
			return false
		}
		switch ev.Type {
		case "done":
			h.over = true
		case "checkpoint":
			v, err := hare.ParseAmount(ev.Value.String())
			if err != nil {
				c.t.Errorf("%s: %v: %s", h.id, err, text)
				return false
			}
			h.value = &v
			if b, err := hare.ParseAmount(ev.Bound.String()); err == nil {
				h.bound = &b
			}
			c.checkpoints++
			c.saved()
			return !h.cancel || c.cancel(h)
		}
		return !h.over
	}) && h.over
}

// cancel cancels a solve once. It returns false if the server is gone.
func (c *solveClient) cancel(h *heldSolve) bool {
	if h.cancelled {
		return true
	}
	code, _, text, ok := c.do(http.MethodPost, "/v1/solves/"+h.id+"/cancel", "", nil)
	if ok && code != http.StatusAccepted {
		c.t.Errorf("cancel: %d %s", code, text)
	}
	if h.cancelled = ok; ok {
		c.ended()
	}
	return ok
}

// eachEvent calls f with each complete event of a stream and its bytes, until f
// returns false. It returns false if the stream breaks off before.
func eachEvent(stream io.Reader, f func(id string, data, text []byte) bool) bool {
	r := bufio.NewReader(stream)
	var id string
	var data, text []byte
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return false
		}
		text = append(text, line...)
		line = bytes.TrimSuffix(line, []byte("\n"))
		if rest, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			id = string(rest)
		} else if rest, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = rest
		} else if len(line) == 0 {
			if id != "" && !f(id, data, text) {
				return true
			}
			id, data, text = "", nil, nil // a line of retry, or a comment
		}
	}
}

// read reads an ended solve and its result, and compares them with what is known.
// It returns false if the server is gone.
func (c *solveClient) read(h *heldSolve) bool {
	code, _, text, ok := c.do(http.MethodGet, "/v1/solves/"+h.id, "", nil)
	if !ok {
		return false
	}
	if h.deleted {
		if code != http.StatusGone {
			c.t.Errorf("%s was deleted: %d %.300s", h.id, code, text)
		}
		return true
	}
	var info struct{ Status, Termination string }
	if code != http.StatusOK || json.Unmarshal(text, &info) != nil {
		c.t.Errorf("%s: %d %.300s", h.id, code, text)
		return true
	}
	if info.Status == "failed" && info.Termination == "deadline" && h.value == nil {
		return true // on a busy machine the time limit passed before the solve began
	}
	if want := map[bool]string{false: "succeeded", true: "cancelled"}[h.cancelled]; info.Status != want &&
		(!h.cancel || h.cancelled) {
		c.t.Errorf("%s is not %s: %s", h.id, want, text)
		return true
	}
	if h.result, ok = c.same(h, "/result", h.result); !ok {
		return false
	}
	res, err := wire.DecodeResult(bytes.NewReader(h.result), wire.Limits{})
	if err != nil || res.Value == nil || res.Bound == nil {
		c.t.Errorf("%s: %v %.300s", h.id, err, h.result)
		return true
	}
	if h.value != nil && res.Value.Cmp(*h.value) > 0 || h.bound != nil && res.Bound.Cmp(*h.bound) < 0 {
		c.t.Errorf("%s: %v, %v; saved were %v, %v", h.id, res.Value, res.Bound, h.value, h.bound)
	}
	return true
}

// same reads something that must not have changed.
func (c *solveClient) same(h *heldSolve, path string, was []byte) ([]byte, bool) {
	code, _, text, ok := c.do(http.MethodGet, "/v1/solves/"+h.id+path, "", nil)
	if !ok {
		return was, false
	}
	if code != http.StatusOK || was != nil && !bytes.Equal(was, text) {
		c.t.Errorf("%s%s: %d %.300s\nwas %.300s", h.id, path, code, text, was)
	}
	return text, true
}

// replayed reads all events of an ended solve. They must be the events of its
// streams, byte for byte, however many servers sent them.
func (c *solveClient) replayed(h *heldSolve) {
	resp, ok := c.open(http.MethodGet, "/v1/solves/"+h.id+"/events", "", map[string]string{"Accept": "text/event-stream"})
	if !ok {
		c.t.Error("the server is gone")
		return
	}
	defer resp.Body.Close()
	var all []byte
	eachEvent(resp.Body, func(_ string, data, text []byte) bool {
		all = append(all, text...)
		return !bytes.Contains(data, []byte(`"type":"done"`))
	})
	if !bytes.Equal(all, h.heard) {
		c.t.Errorf("%s: heard\n%s\nand afterwards there are\n%s", h.id, h.heard, all)
	}
}

// TestSolvesSurviveKills kills hare serve with SIGKILL at random moments, many of
// them just after a client has read a checkpoint, while clients submit, follow,
// cancel, read and delete solves. Every acknowledged solve exists afterwards; none
// ends worse than its last checkpoint; events and results are unchanged, byte for
// byte; idempotency keys find their solves; and cancelled or deleted solves stay
// so.
func TestSolvesSurviveKills(t *testing.T) {
	kills := 20
	if *soak {
		kills = 200
	}
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--checkpoint", "20ms", "--running", "3"}
	rng := rand.New(rand.NewPCG(6, 6))
	// The server is killed at a random time, or just after a client has read a
	// checkpoint or the acknowledgement of a cancellation.
	saved, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	tell := func(news chan struct{}) func() {
		return func() {
			select {
			case news <- struct{}{}:
			default:
			}
		}
	}
	var clients []*solveClient
	for i := range 3 {
		clients = append(clients, &solveClient{t: t, name: string(rune('a' + i)),
			rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), saved: tell(saved), ended: tell(ended)})
	}
	early := 0
	for range kills {
		after := time.Duration(-1)
		if rng.IntN(8) == 0 {
			after = time.Duration(rng.Int64N(int64(100 * time.Millisecond)))
		}
		s := serve(t, after, args...)
		if s.url == "" {
			early++
		} else {
			for len(saved)+len(ended) > 0 { // signals of the server before
				select {
				case <-saved:
				case <-ended:
				}
			}
			if after < 0 {
				var news chan struct{}
				pause := time.Duration(0)
				switch rng.IntN(6) {
				case 0, 1:
					pause = time.Duration(rng.Int64N(int64(600 * time.Millisecond)))
				case 2:
					news = saved
				case 3:
					news, pause = saved, time.Duration(rng.Int64N(int64(200*time.Millisecond)))
				default:
					news = ended
				}
				go func() {
					if news != nil {
						select {
						case <-news:
						case <-s.done:
						}
					}
					time.Sleep(pause)
					_ = s.cmd.Process.Kill()
				}()
			}
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() { c.live(s.url) })
			}
			wg.Wait()
		}
		if err := s.end(t); err == nil || s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("it ended by itself: %v\n%s", err, s.stderr())
		}
		for _, c := range clients {
			if h := c.now; s.url != "" && h != nil && h.value != nil && !h.over {
				c.tested++
			}
		}
	}
	s := serve(t, -1, args...)
	var sum solveClient
	solves, results, cancelled, deleted := 0, 0, 0, 0
	for _, c := range clients {
		c.url = s.url
		if c.now != nil && !c.step() {
			t.Fatal("the server is gone")
		}
		for _, h := range c.all {
			if !c.again(h) || !c.read(h) {
				t.Fatal("the server is gone")
			}
			if solves++; h.deleted {
				deleted++
				continue
			}
			c.replayed(h)
			if h.result != nil {
				results++
			}
			if h.cancelled {
				cancelled++
			}
		}
		sum.checkpoints, sum.tested, sum.resumed, sum.retried = sum.checkpoints+c.checkpoints, sum.tested+c.tested,
			sum.resumed+c.resumed, sum.retried+c.retried
	}
	s.stop(t)
	t.Logf("%d kills, %d of them before it listened; %d solves acknowledged, %d with a result, %d cancelled, %d "+
		"deleted; %d checkpoints heard of, %d times of a solve that was killed then; %d streams went on, %d requests were "+
		"sent again",
		kills, early, solves, results, cancelled, deleted, sum.checkpoints, sum.tested, sum.resumed, sum.retried)
	if solves < kills/2 || results < (solves-deleted)/2 || sum.tested < kills/4 || sum.resumed < kills/4 ||
		cancelled < kills/20 || deleted < kills/40 {
		t.Error("that proves too little")
	}
}
