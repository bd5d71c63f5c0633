package sessions_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

// TestSessionsOfTenants checks that owners and their counts survive a restart. A session
// whose owner cannot be read belongs to the operator.
func TestSessionsOfTenants(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	with := func() (*sessions.Sessions, *admission.Quotas) {
		t.Helper()
		cfg := sessionsConfig(openSQLite(t, dir))
		cfg.Quotas = admission.NewQuotas(admission.Quota{Sessions: 2}, nil)
		return open(t, cfg), cfg.Quotas
	}
	s, quotas := with()
	cfg := sessions.SessionConfig{Cluster: cluster, Policy: "history"}
	a, err := s.Create(ctx, "a", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, "", cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := send(ctx, a, script(1, 50)); err != nil {
		t.Fatal(err)
	}
	used := quotas.Usage("a")
	if used.Sessions != 1 || used.StoredBytes < 500 {
		t.Errorf("%+v", used)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, quotas = with()
	defer func() { _ = s.Close() }()
	if again := quotas.Usage("a"); again != used {
		t.Errorf("%+v, and after a restart %+v", used, again)
	}
	for tenant, want := range map[string]bool{"a": true, "b": false, "": false} {
		_, err := s.Session(ctx, tenant, a.ID())
		if want != (err == nil) || !want && !errors.Is(err, store.ErrNoSession) {
			t.Errorf("for %q: %v", tenant, err)
		}
		infos, err := s.List(ctx, tenant)
		if err != nil || len(infos) != map[string]int{"a": 1, "": 1}[tenant] {
			t.Errorf("for %q: %d sessions, %v", tenant, len(infos), err)
		}
		if !want {
			if err := s.Delete(ctx, tenant, a.ID()); !errors.Is(err, store.ErrNoSession) {
				t.Errorf("%q deletes: %v", tenant, err)
			}
		}
	}
	if exist, _ := s.Count(); exist != 2 {
		t.Error(exist)
	}
	if err := s.Delete(ctx, "a", a.ID()); err != nil {
		t.Fatal(err)
	}
	if used := quotas.Usage("a"); used != (admission.Quota{}) {
		t.Errorf("left: %+v", used)
	}
}
