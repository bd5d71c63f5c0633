package solves_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
)

// A solve that goes on after a restart has its place in the tenant's quota again, and the
// stored bytes are counted as before.
func TestQuotasAfterARestart(t *testing.T) {
	store := newMortal()
	quotas := admission.NewQuotas(admission.Quota{Solves: 1}, nil)
	release, err := quotas.Acquire("a")
	if err != nil {
		t.Fatal(err)
	}
	s := openSolves(t, solves.Config{Store: store, Quotas: quotas, Checkpoint: 5 * time.Millisecond})
	info, _, err := s.Submit(t.Context(),
		solves.Input{Tenant: "a", Instance: haretest.Gangs(40, 5), Options: hare.Options{TimeLimit: 20 * time.Second},
			Release: release})
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range s.Events(t.Context(), "a", info.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == solves.EventCheckpoint {
			break
		}
	}
	if u := quotas.Usage("a"); u.Solves != 1 || u.StoredBytes == 0 {
		t.Errorf("%+v", u)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if u := quotas.Usage("a"); u.Solves != 0 {
		t.Errorf("left to the next start, it holds %+v", u)
	}
	quotas = admission.NewQuotas(admission.Quota{Solves: 1}, nil)
	s = openSolves(t, solves.Config{Store: store, Quotas: quotas})
	if u := quotas.Usage("a"); u.Solves != 1 || u.StoredBytes == 0 {
		t.Errorf("%+v", u)
	}
	if _, err := quotas.Acquire("a"); !errors.As(err, new(*admission.QuotaError)) {
		t.Error(err)
	}
	if _, err := s.Cancel(t.Context(), "a", info.ID); err != nil {
		t.Fatal(err)
	}
	if info, err = s.Wait(t.Context(), "a", info.ID); err != nil || !info.Finished() {
		t.Fatalf("%+v %v", info, err)
	}
	ended := quotas.Usage("a")
	if ended.Solves != 0 {
		t.Errorf("ended, it holds %+v", ended)
	}
	_ = s.Close()
	quotas = admission.NewQuotas(admission.Quota{}, nil)
	s = openSolves(t, solves.Config{Store: store, Quotas: quotas})
	if u := quotas.Usage("a"); u != ended {
		t.Errorf("%+v, before the restart %+v", u, ended)
	}
	if err := s.Delete(t.Context(), "a", info.ID); err != nil {
		t.Fatal(err)
	}
	if u := quotas.Usage("a"); u != (admission.Quota{}) {
		t.Errorf("deleted, it leaves %+v", u)
	}
}
