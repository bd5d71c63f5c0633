package main

import (
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
)

// heldSolve is what a client knows of a solve that was acknowledged to it.
type heldSolve struct {
	body         string // of the request
	key          string
	result       []byte // nil before it was read whole
	value, bound *hare.Amount
}

// solveBody asks for a solve of some gang jobs.
func solveBody(seed int64, jobs int, options string) string {
	rng := rand.New(rand.NewPCG(uint64(seed), 8))
	var b strings.Builder
	b.WriteString(`{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T4":2,"V100":2}}]},"jobs":[`)
	for i := range jobs {
		if i > 0 {
			b.WriteByte(',')
		}
		p := 1 + rng.IntN(9)
		fmt.Fprintf(&b, `{"id":"j%d","weight":%d,"rounds":%d,"tasks":%d,"sync":"gang","on":{"T4":{"compute_s":%d},"V100":{"compute_s":%d}}}`, i, 1+rng.IntN(4), 1+rng.IntN(20), 1+rng.IntN(2), 2*p, p)
	}
	fmt.Fprintf(&b, `]},"options":{"seed":%d,%s}}`, seed, options)
	return b.String()
}

// solver is a client of a server that dies: it submits, follows and reads.
type solveClient struct {
	mu    sync.Mutex
	known map[string]*heldSolve // by id
	made  int
	saved int // checkpoints heard of
}

// submit sends solves one after another until the server is gone.
func (c *solveClient) submit(t testing.TB, url string, rng *rand.Rand) {
	for {
		c.mu.Lock()
		c.made++
		n := c.made
		c.mu.Unlock()
		h := &heldSolve{key: fmt.Sprint("key-", n)}
		if n%3 == 0 {
			h.body = solveBody(int64(n), 25, `"time_limit_s":4`)
		} else {
			h.body = solveBody(int64(n), 8+rng.IntN(8), fmt.Sprintf(`"work_limit":%d`, 1+rng.IntN(30_000)))
		}
		id, ok := c.post(t, url, h)
		if !ok {
			return
		}
		if id == "" {
			continue
		}
		c.mu.Lock()
		c.known[id] = h
		c.mu.Unlock()
		if n%3 == 0 {
			go c.follow(url, id, h)
		}
		if !c.read(t, url, id, h, "?wait=1") {
			return
		}
	}
}

// post submits a solve and returns its id, or false where the server is gone.
func (c *solveClient) post(t testing.TB, url string, h *heldSolve) (string, bool) {
	for {
		req, _ := http.NewRequest(http.MethodPost, url+"/v1/solves", strings.NewReader(h.body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "wait=0")
		req.Header.Set("Idempotency-Key", h.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", false
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return "", false
		}
		if resp.StatusCode == http.StatusServiceUnavailable {
			if bytes.Contains(text, []byte(`"late"`)) {
				return "", true // its time was over in the queue, which is its end
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		_, id, _ := strings.Cut(resp.Header.Get("Location"), "/v1/solves/")
		if id == "" {
			_, id, _ = strings.Cut(resp.Header.Get("Content-Location"), "/v1/solves/")
		}
		if (resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusOK) || id == "" {
			t.Errorf("%s: %s %.300s", resp.Status, id, text)
			return "", false
		}
		return id, true
	}
}

// follow listens for checkpoints.
func (c *solveClient) follow(url, id string, h *heldSolve) {
	req, _ := http.NewRequest(http.MethodGet, url+"/v1/solves/"+id+"/events", nil)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	all := newLines(resp.Body)
	for line, err := all(); err == nil; line, err = all() {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		var ev struct {
			Type         string
			Value, Bound json.Number
		}
		if !ok || json.Unmarshal(data, &ev) != nil || ev.Type != "checkpoint" {
			continue
		}
		v, err := hare.ParseAmount(ev.Value.String())
		if err != nil {
			continue
		}
		c.mu.Lock()
		c.saved++
		h.value = &v
		if b, err := hare.ParseAmount(ev.Bound.String()); err == nil {
			h.bound = &b
		}
		c.mu.Unlock()
	}
}

// newLines reads whole lines alone.
func newLines(r io.Reader) func() ([]byte, error) {
	var rest []byte
	buf := make([]byte, 4096)
	return func() ([]byte, error) {
		for {
			if line, after, ok := bytes.Cut(rest, []byte("\n")); ok {
				rest = after
				return line, nil
			}
			n, err := r.Read(buf)
			rest = append(bytes.Clone(rest), buf[:n]...)
			if err != nil && n == 0 {
				return nil, err
			}
		}
	}
}

// read waits for the end of a solve and reads its result, or compares it with
// what was read before; false where the server is gone.
func (c *solveClient) read(t testing.TB, url, id string, h *heldSolve, wait string) bool {
	resp, err := http.Get(url + "/v1/solves/" + id + wait)
	if err != nil {
		return false
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return false
	}
	var info struct{ Status, Termination, Error string }
	if resp.StatusCode != http.StatusOK || json.Unmarshal(text, &info) != nil {
		t.Errorf("%s: %s %.300s", id, resp.Status, text)
		return true
	}
	if info.Status == "queued" || info.Status == "running" {
		if wait != "?wait=1" {
			t.Errorf("%s does not end: %s", id, text)
		}
		return true
	}
	if info.Status != "succeeded" {
		if info.Termination != "deadline" || h.value != nil { // late in the queue
			t.Errorf("%s: %s", id, text)
		}
		return true
	}
	resp, err = http.Get(url + "/v1/solves/" + id + "/result")
	if err != nil {
		return false
	}
	text, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return false
	}
	res, err := hare.DecodeResult(bytes.NewReader(text), hare.Limits{})
	if resp.StatusCode != http.StatusOK || err != nil || res.Value == nil || res.Bound == nil {
		t.Errorf("%s: %s %v %.300s", id, resp.Status, err, text)
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.result != nil && !bytes.Equal(h.result, text) {
		t.Errorf("%s: the result is not what it was", id)
	}
	if h.value != nil && res.Value.Cmp(*h.value) > 0 || h.bound != nil && res.Bound.Cmp(*h.bound) < 0 {
		t.Errorf("%s: %v, %v; saved were %v, %v", id, res.Value, res.Bound, h.value, h.bound)
	}
	h.result = text
	return true
}

// TestSolvesSurviveKills kills hare serve with SIGKILL at random moments under
// clients that submit, follow and read solves. Every solve that was
// acknowledged is there afterwards, those that were finished byte for byte, and
// none ends worse than its last checkpoint.
func TestSolvesSurviveKills(t *testing.T) {
	kills := 20
	if *soak {
		kills = 200
	}
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--checkpoint", "40ms"}
	rng := rand.New(rand.NewPCG(6, 6))
	c := &solveClient{known: map[string]*heldSolve{}}
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
			if after < 0 {
				time.AfterFunc(20*time.Millisecond+time.Duration(rng.Int64N(int64(700*time.Millisecond))), func() { _ = s.cmd.Process.Kill() })
			}
			var wg sync.WaitGroup
			for i := range 2 {
				own := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
				wg.Go(func() { c.submit(t, s.url, own) })
			}
			wg.Wait()
		}
		if err := s.end(t); err == nil || s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("it ended by itself: %v\n%s", err, s.stderr())
		}
	}
	s := serve(t, -1, args...)
	read, known := 0, c.known
	for id, h := range known {
		if again, ok := c.post(t, s.url, h); !ok || again != id && again != "" {
			t.Errorf("the key of %s gives %s", id, again)
		}
		if !c.read(t, s.url, id, h, "?wait=9") {
			t.Fatal("the server is gone")
		}
		if h.result != nil {
			read++
		}
	}
	if read < len(known)/2 || len(known) < kills {
		t.Errorf("%d solves were acknowledged, %d have a result", len(known), read)
	}
	s.stop(t)
	t.Logf("%d kills, %d of them before it listened; %d solves acknowledged, %d with a result, %d checkpoints heard of", kills, early, len(known), read, c.saved)
}
