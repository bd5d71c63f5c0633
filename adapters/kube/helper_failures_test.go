package kube

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
)

// TestFailures checks that nothing is written where the API server or the planner fails, and that
// conflicts and refusals pass.
func TestFailures(t *testing.T) {
	f := newFakeKube()
	for range 3 {
		f.submit(4, 1, 4, 8, 2)
	}
	h := testHelper(t, f, nil)
	for _, path := range []string{"/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"} {
		for _, status := range []int{0, 403, 500} {
			f.fail = func(_, p string) (int, error) {
				if !strings.HasPrefix(p, path) {
					return 0, nil
				}
				if status == 0 {
					return 0, errDown
				}
				return status, nil
			}
			if _, err := h.Step(t.Context()); err == nil || f.patches > 0 {
				t.Errorf("%s gives %d: %v, %d patches", path, status, err, f.patches)
			}
		}
	}
	for _, status := range []int{http.StatusConflict, http.StatusUnprocessableEntity} {
		f.fail = func(method, _ string) (int, error) {
			if method == http.MethodPatch {
				return status, nil
			}
			return 0, nil
		}
		if r, err := h.Step(t.Context()); err != nil || len(r.Updates) > 0 || f.patches > 0 {
			t.Errorf("%d: %v, %+v", status, err, r)
		}
	}
	f.fail = nil
	if r := step(t, h); len(r.Updates) > 0 {
		t.Errorf("right after a refusal: %+v", r.Updates)
	}
	f.nowS += 61
	if r := step(t, h); len(r.Updates) != 3 {
		t.Errorf("a minute later: %+v", r.Updates)
	}
}

// brokenAdvisor fails.
type brokenAdvisor struct{ advice.InProcess }

func (*brokenAdvisor) Apply(context.Context, []hare.Event) ([]hare.Answer, error) {
	return nil, errDown
}

func TestNothingIsWrittenWithoutPlan(t *testing.T) {
	f := newFakeKube()
	f.submit(4, 1, 4, 8, 2)
	h := testHelper(t, f, nil)
	good := h.session.Advisor
	h.session.Advisor = &brokenAdvisor{}
	if _, err := h.Step(t.Context()); err == nil || f.patches > 0 {
		t.Fatalf("%v, %d patches", err, f.patches)
	}
	h.session.Advisor = good
	if r := step(t, h); len(r.Updates) != 1 {
		t.Errorf("after that: %+v", r)
	}
}

// TestPagesAndExpiredPages reads lists in pages of two, one of which expires.
func TestPagesAndExpiredPages(t *testing.T) {
	f := newFakeKube()
	f.page = 2
	for range 7 {
		f.submit(1, 1, 4, 8, 2)
	}
	expired := false
	f.fail = func(_, path string) (int, error) {
		if !expired && strings.Contains(path, "continue=4") {
			expired = true
			return http.StatusGone, nil
		}
		return 0, nil
	}
	if r := step(t, testHelper(t, f, nil)); len(r.Updates) != 7 || !expired {
		t.Errorf("%d updates, expired %v", len(r.Updates), expired)
	}
}

// TestLease checks that one of two helpers writes, and that the other takes over.
func TestLease(t *testing.T) {
	f := newFakeKube()
	clock := time.Unix(0, 0)
	helper := func(holder string) *Helper {
		return testHelper(t, f, func(c *Config) {
			c.Lease = &Lease{Namespace: "default", Name: "hare-kube", Holder: holder, Duration: 15 * time.Second,
				Now: func() time.Time { return clock }}
		})
	}
	a, b := helper("a"), helper("b")
	f.submit(4, 1, 4, 8, 2)
	if r := step(t, a); !r.Leads || len(r.Updates) != 1 {
		t.Fatalf("a: %+v", r)
	}
	f.submit(4, 1, 4, 8, 2)
	for range 3 {
		if r := step(t, b); r.Leads {
			t.Fatal("b leads beside a")
		}
		clock = clock.Add(10 * time.Second)
		if r := step(t, a); !r.Leads {
			t.Fatal("a lost the lease that it renews")
		}
	}
	step(t, b)
	clock = clock.Add(16 * time.Second)
	if a.cfg.Lease.Held() {
		t.Error("a believes that it has a lease that has run out")
	}
	f.submit(4, 1, 4, 8, 2)
	if r := step(t, b); !r.Leads || len(r.Updates) != 1 {
		t.Errorf("b after a has gone: %+v", r)
	}
	if r := step(t, a); r.Leads {
		t.Error("a writes again beside b")
	}
	if err := b.cfg.Lease.GiveUp(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if r := step(t, a); !r.Leads {
		t.Error("a does not take a lease that was given up")
	}
}

// TestHelperSurvives kills the helper at random points, while an operator cordons nodes and deletes
// Jobs: every other Job is let go once, on one type, and ends.
func TestHelperSurvives(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 3))
		f := newFakeKube()
		h := testHelper(t, f, nil)
		kills := 0
		for round := 0; ; round++ {
			if round < 20 {
				for range 1 + rng.IntN(2) {
					gpus := int64(1) << rng.IntN(3)
					s := 2 + rng.IntN(20)
					f.submit(1+rng.Int64N(8/gpus), gpus, 2*s, 4*s, s)
				}
			} else if round%4 == 0 {
				for _, n := range f.nodes {
					n.cordoned = false
				}
			}
			if rng.IntN(3) == 0 && round < 20 {
				f.nodes[rng.IntN(len(f.nodes))].cordoned = rng.IntN(2) == 0
			}
			if rng.IntN(10) == 0 && round < 20 {
				if j := f.jobs[rng.IntN(len(f.jobs))]; j.startS == 0 {
					j.deleted = true
				}
			}
			dieAt := 1 + rng.IntN(12)
			f.fail = func(string, string) (int, error) {
				if dieAt--; dieAt == 0 {
					return 0, errDown
				}
				return 0, nil
			}
			if _, err := h.Step(t.Context()); err != nil {
				kills++
				h = testHelper(t, f, nil) // another process
			}
			f.fail = nil
			f.run(1 + rng.IntN(5))
			left := 0
			for _, j := range f.jobs {
				if !j.deleted && j.endS == 0 {
					left++
				}
			}
			if left == 0 && round >= 20 {
				break
			}
			if round > 600 {
				t.Fatalf("seed %d: %d Jobs are left", seed, left)
			}
		}
		for _, j := range f.jobs {
			if !j.deleted && (j.starts != 1 || f.mixed(j)) {
				t.Errorf("seed %d: %s was let go %d times, on %v", seed, j.name, j.starts, j.on)
			}
		}
		if kills < 5 {
			t.Errorf("seed %d: only %d kills", seed, kills)
		}
	}
}

// TestGarbage checks that answers that are not those of an API server are errors, over real HTTP.
func TestGarbage(t *testing.T) {
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	api := &HTTP{Base: server.URL, Token: func() (string, error) { return "secret", nil }}
	h, err := New(Config{Write: true, Logger: slog.New(slog.DiscardHandler)}, api, &advice.InProcess{}, &Journal{})
	if err != nil {
		t.Fatal(err)
	}
	for _, answer = range []string{"", "{", "[]", `{"items":{}}`, `{"items":[{"metadata":7}]}`,
		`{"items":[{"status":{"allocatable":{"nvidia.com/gpu":"many"}}}]}`, strings.Repeat("[", 100_000),
		`{"items":[{"metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"T4"}},"status":{"allocatable":` +
			`{"nvidia.com/gpu":"99999999999999"}}}]}`} {
		if _, err := h.Step(t.Context()); err == nil {
			t.Errorf("%.60q is taken", answer)
		}
	}
	answer = `{"items":null}`
	if _, err := h.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "no node with GPUs") {
		t.Errorf("an empty cluster: %v", err)
	}
	api.Token = nil
	if _, err := h.Step(t.Context()); statusOf(err) != http.StatusUnauthorized {
		t.Errorf("without a token: %v", err)
	}
}
