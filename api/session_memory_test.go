package api_test

import (
	"fmt"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	registry "github.com/hare-sched/hare/sim/policies"
)

// While a session is made that takes all the memory for sessions, its tenant and others are told so, each in its way.
func TestSessionMemoryIsRefused(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s := newKeyedServer(t, admission.Quota{}, func(cfg *sessions.Config) {
		cfg.Memory = 1 << 20
		cfg.New = func(name string, c *hare.Cluster, parameters []byte) (online.Durable, error) {
			if len(c.Nodes) > 0 && c.Nodes[0].Name == "large" {
				close(begun)
				<-end
			}
			return registry.OpenSession(name, c, parameters)
		}
	})
	a, _ := s.key(t, "a", access.RoleSolve, 0)
	b, _ := s.key(t, "b", access.RoleSolve, 0)
	made := make(chan int)
	go func() {
		made <- s.call(t, a, "POST", "/v1/sessions", `{"cluster":{"nodes":[{"name":"large","gpus":{"V100":9000}}]}}`).code
	}()
	<-begun
	for key, want := range map[string]string{a: "429 quota_session_memory 1", b: "503 busy 1"} {
		got := s.call(t, key, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`)
		if text := fmt.Sprint(got.code, " ", got.problem(), " ", got.header.Get("Retry-After")); text != want {
			t.Errorf("%s and not %s", text, want)
		}
	}
	close(end)
	if code := <-made; code != 201 {
		t.Error(code)
	}
	s.session(t, a)
	s.session(t, b)
}
