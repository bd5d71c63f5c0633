package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

// large is a session whose GPUs take about 19 MiB in memory as they are counted; the fake policy makes none.
func large() sessions.SessionConfig {
	return sessions.SessionConfig{Policy: "history", Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
		GPUs: []hare.TypeCount{{Type: "V100", Count: 100_000}}}}}}
}

// Sessions leave memory where others need the room, the least recently used first, and come back with all they had.
func TestSessionMemoryUnloads(t *testing.T) {
	ctx := context.Background()
	cfg := sessionsConfig(store.NewMemory())
	cfg.Memory = 50 << 20 // for two of them
	ss := open(t, cfg)
	defer func() { _ = ss.Close() }()
	var all []*sessions.Session
	for range 5 {
		s, err := ss.Create(ctx, "", large())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
		if got, err := send(ctx, s, script(1, 20)); err != nil || !slices.Equal(got, undisturbed(t, script(1, 20))) {
			t.Fatal(err)
		}
		if ss.Memory() > cfg.Memory {
			t.Error(ss.Memory())
		}
	}
	active := func() (s string) {
		for i := range all {
			if all[i].Info().Active {
				s += fmt.Sprint(i)
			}
		}
		return s
	}
	if active() != "34" {
		t.Error(active())
	}
	events := append(script(1, 20), hare.Event{Seq: 21, Type: hare.EventTick, AtUs: 1e9})
	want := undisturbed(t, events)[20]
	for i, s := range all {
		got, err := send(ctx, s, events[20:])
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("session %d: %v %v and not %s", i, got, err, want)
		}
	}
	if err := ss.Delete(ctx, "", all[4].ID()); err != nil || active() != "3" {
		t.Error(err, active())
	}
	// One that is larger than all the room has it alone.
	huge := large()
	huge.Cluster.Nodes[0].GPUs[0].Count = 1_000_000
	s, err := ss.Create(ctx, "", huge)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send(ctx, s, []hare.Event{tick(1)}); err != nil || !s.Info().Active || active() != "" {
		t.Error(err, active())
	}
	events = []hare.Event{{Seq: 22, Type: hare.EventTick, AtUs: 1e9}}
	if _, err := send(ctx, all[0], events); err != nil || s.Info().Active {
		t.Error(err)
	}
}

// held makes policies that wait in New and in Step until they are let go.
type held struct {
	in, free chan struct{}
	mu       sync.Mutex
	now, max int
}

func (h *held) open(name string, c *hare.Cluster, p []byte) (online.Durable, error) {
	if len(c.Nodes) > 0 && c.Nodes[0].Name == "held" {
		h.mu.Lock()
		h.now++
		h.max = max(h.max, h.now)
		h.mu.Unlock()
		h.in <- struct{}{}
		<-h.free
		h.mu.Lock()
		h.now--
		h.mu.Unlock()
	}
	return newHistory(name, c, p)
}

// What is being made counts before it is made; a tenant has half of the memory, so that another one has room too.
func TestSessionMemoryRefuses(t *testing.T) {
	ctx := context.Background()
	h := &held{in: make(chan struct{}, 100), free: make(chan struct{})}
	cfg := sessionsConfig(store.NewMemory())
	cfg.New, cfg.Memory = h.open, 90<<20
	cfg.Quotas = admission.NewQuotas(admission.Quota{}, nil)
	ss := open(t, cfg)
	defer func() { _ = ss.Close() }()
	waits := large()
	waits.Cluster.Nodes[0].Name = "held"
	refused := make(chan error, 100)
	var calls sync.WaitGroup
	try := func(tenant string, n int) {
		for range n {
			calls.Go(func() {
				if _, err := ss.Create(ctx, tenant, waits); err != nil {
					refused <- err
				}
			})
		}
	}
	code := func() (code string) {
		var quota *admission.QuotaError
		err := <-refused
		if errors.As(err, &quota) {
			return quota.Code
		}
		if !errors.As(err, new(*sessions.MemoryError)) {
			t.Error(err)
		}
		return "busy"
	}
	try("a", 40)
	for range 38 {
		if got := code(); got != "quota_session_memory" {
			t.Error(got)
		}
	}
	<-h.in
	<-h.in
	small, err := ss.Create(ctx, "b", sessions.SessionConfig{Cluster: cluster, Policy: "history"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send(ctx, small, script(1, 20)); err != nil {
		t.Error(err)
	}
	try("b", 2)
	<-h.in
	<-h.in
	try("c", 1)
	if got := code(); got != "busy" {
		t.Error(got)
	}
	close(h.free)
	calls.Wait()
	if h.max != 4 || ss.Memory() > 1<<20 {
		t.Error(h.max, ss.Memory())
	}
	// The snapshots of a session of many GPUs count as stored, also after a restart.
	if _, err := ss.Create(ctx, "c", large()); err != nil {
		t.Error(err)
	}
	if used := cfg.Quotas.Usage("c").StoredBytes; used != 210*99_000 {
		t.Error(used)
	}
	cfg.Quotas = admission.NewQuotas(admission.Quota{}, nil)
	again := open(t, cfg)
	if err := again.Close(); err != nil || cfg.Quotas.Usage("c").StoredBytes != 210*99_000 {
		t.Error(err, cfg.Quotas.Usage("c"))
	}
}

// GPUs that join and jobs that arrive count, and a session that is kept is never refused, whatever its tenant stores.
func TestSessionMemoryOfEvents(t *testing.T) {
	ctx := context.Background()
	cfg := sessionsConfig(store.NewMemory())
	cfg.Memory = 200 << 10
	cfg.Quotas = admission.NewQuotas(admission.Quota{StoredBytes: 10 << 20}, nil)
	ss := open(t, cfg)
	defer func() { _ = ss.Close() }()
	s, err := ss.Create(ctx, "a", sessions.SessionConfig{Policy: "history"})
	if err != nil {
		t.Fatal(err)
	}
	job := func(seq int64) []hare.Event {
		id := fmt.Sprint("j", seq)
		return []hare.Event{{Seq: seq, Type: hare.EventJobArrived, Job: id, Arrived: &hare.Job{ID: id, WeightMicro: 1e6,
			Tasks: 1, On: []hare.Profile{{Type: "V100", ComputeUs: 1}}}}}
	}
	seq := int64(1)
	for ; seq < 200 && err == nil; seq++ {
		_, err = send(ctx, s, job(seq))
	}
	var quota *admission.QuotaError
	if !errors.As(err, &quota) || quota.Code != "quota_session_memory" || seq < 10 {
		t.Fatal(seq, err)
	}
	seq--
	full := ss.Memory()
	ended := []hare.Event{{Seq: seq, Type: hare.EventJobEnded, Job: "j1"}}
	if _, err := send(ctx, s, ended); err != nil || ss.Memory() >= full {
		t.Error(err, ss.Memory(), full)
	}
	seq++
	s.Keep()
	cfg.Quotas.Stored("a", 20<<20)
	for range 100 {
		if _, err := send(ctx, s, job(seq)); err != nil {
			t.Fatal(err)
		}
		seq++
	}
	if ss.Memory() < cfg.Memory {
		t.Error(ss.Memory())
	}
	if err := ss.Delete(ctx, "a", s.ID()); err != nil || ss.Memory() != 0 {
		t.Error(err, ss.Memory())
	}
}
