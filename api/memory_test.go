package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
)

// jobsText returns the request of a solve of many small jobs.
func jobsText(jobs int) string {
	var out strings.Builder
	out.WriteString(`{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},"jobs":[`)
	for i := range jobs {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"id":"%d","rounds":1,"tasks":1,"on":{"V100":{"compute_s":1}}}`, i)
	}
	out.WriteString(`]}}`)
	return out.String()
}

// TestCallMemory checks that calls claim memory before they take it: of many large bodies at once some are refused,
// what is used stays within the budget, and all of it is given back at the end of the call or of the solve.
func TestCallMemory(t *testing.T) {
	const clients = 12
	engine := newHeld()
	s := newSolveServer(t, service.Config{Engine: engine, Running: 2, Queue: 64}, func(c *api.Config) {
		c.Memory = admission.NewMemory(32<<20, false)
	})
	text := gzipped(jobsText(1000)) // a solve of 1000 jobs claims 5.5 MiB
	var wg sync.WaitGroup
	codes := make(chan int, clients)
	for range clients {
		wg.Go(func() {
			code, answer, h := s.call(t, "POST", "/v1/solves", text, "Content-Type", "application/json",
				"Content-Encoding", "gzip", "Prefer", "respond-async")
			if code == http.StatusServiceUnavailable && (h.Get("Retry-After") == "" || !strings.Contains(answer, `"busy"`)) {
				t.Errorf("%v %s", h, answer)
			}
			codes <- code
		})
	}
	wg.Wait()
	close(codes)
	got := map[int]int{}
	for code := range codes {
		got[code]++
	}
	used := s.config.Memory.Used()
	if got[http.StatusAccepted] < 2 || got[http.StatusServiceUnavailable] < 4 || len(got) != 2 || used > 32<<20 ||
		used < 5<<20*int64(got[http.StatusAccepted]) {
		t.Errorf("%v with %d MiB used", got, used>>20)
	}
	// A small solve has memory beside them.
	if code, answer, _ := s.post(t, `{}`, "Prefer", "respond-async"); code != http.StatusAccepted {
		t.Errorf("%d %s", code, answer)
	}
	close(engine.free)
	wait(t, "the memory is free", func() bool { return s.config.Memory.Used() == 0 })
}

// TestSmallTextLargeMemory checks that short bodies which become large are refused by what they become.
func TestSmallTextLargeMemory(t *testing.T) {
	s := newSolveServer(t, service.Config{Engine: ready{&hare.Result{Status: hare.StatusSucceeded}}},
		func(c *api.Config) { c.Memory = admission.NewMemory(16<<20, false) })
	nodes := func(count, gpus int) string {
		return fmt.Sprintf(`{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","count":%d,"gpus":`+
			`{"V100":%d}}]},"jobs":[{"id":"x","rounds":1,"tasks":1,"on":{"V100":{"compute_s":1}}}]}}`, count, gpus)
	}
	for _, c := range []struct {
		name, path, body, code string
		status                 int
	}{
		{"nodes", "/v1/solves", nodes(500_000, 1), "too_much_memory", 413},
		{"GPUs of a node", "/v1/bounds", nodes(1, 1_000_000), "too_much_memory", 413},
		{"a long text of few bytes", "/v1/solves", `{"instance":` + strings.Repeat(" ", 2<<20) + `{}}`,
			"body_too_large", 413},
		{"jobs of a simulation", "/v1/simulations", `{"generate":{"jobs":100000},"gpus":{"V100":8},"policies":["fifo"]}`,
			"too_much_memory", 413},
		{"GPUs of a plan of capacity", "/v1/capacity", strings.TrimSuffix(nodes(1, 1), "}") +
			`,"days":1,"options":["V100=100000"]}`, "too_much_memory", 413},
	} {
		code, answer, _ := s.call(t, "POST", c.path, gzipped(c.body), "Content-Type", "application/json",
			"Content-Encoding", "gzip")
		if code != c.status || !strings.Contains(answer, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", c.name, code, answer)
		}
	}
	wait(t, "the memory is free", func() bool { return s.config.Memory.Used() == 0 })
}

// TestMemoryOfTenants checks that a tenant has half of the memory, and keeps no other from its half.
func TestMemoryOfTenants(t *testing.T) {
	s := newKeyedService(t, admission.Quota{}, service.Config{Engine: newHeld(), Running: 1, Queue: 64})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	text := jobsText(1000)
	post := func(key string) reply {
		return s.call(t, key, "POST", "/v1/solves", text, "Prefer", "respond-async")
	}
	refused := false
	for range 16 {
		got := post(a)
		if refused = got.code == http.StatusTooManyRequests; refused {
			if got.problem() != "quota_memory" || got.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", got.code, got.body)
			}
			break
		}
		if got.code != http.StatusAccepted {
			t.Fatalf("%d %s", got.code, got.body)
		}
	}
	if !refused {
		t.Error("a tenant had more than its half")
	}
	if got := post(b); got.code != http.StatusAccepted {
		t.Errorf("another tenant: %d %s", got.code, got.body)
	}
}
