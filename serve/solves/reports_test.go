package solves_test

import (
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

func readAll(t *testing.T, r io.ReadCloser, size int64, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || int64(len(text)) != size {
		t.Fatalf("%d bytes of %d: %v", len(text), size, err)
	}
	return string(text)
}

// Reports survive a restart, count against the stored bytes of their tenant and are no solves.
func TestReportsAfterARestart(t *testing.T) {
	mortal := newMortal()
	quotas := admission.NewQuotas(admission.Quota{}, nil)
	s := openSolves(t, solves.Config{Store: mortal, Quotas: quotas})
	long := make([]byte, 9<<20) // in several commits
	whatIf := solves.Report{ID: solves.NewID(), Tenant: "a", Tags: wire.Tags{Name: "night"}, Began: time.Now(),
		Request: long, Answer: []byte("x")}
	if err := s.Reports(solves.KindWhatIf).Keep(&whatIf); err != nil {
		t.Fatal(err)
	}
	simulation := solves.Report{ID: solves.NewID(), Tenant: "a", Request: []byte("{}"), Answer: []byte("{}")}
	if err := s.Reports(solves.KindSimulation).Keep(&simulation); err != nil {
		t.Fatal(err)
	}
	solve, _, err := s.Submit(t.Context(), solves.Input{Tenant: "a", Instance: haretest.Gangs(5, 3),
		Options: hare.Options{WorkLimit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), "a", solve.ID); err != nil {
		t.Fatal(err)
	}
	used := quotas.Usage("a").StoredBytes
	if used < int64(len(long)) {
		t.Errorf("%d bytes are stored", used)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	quotas = admission.NewQuotas(admission.Quota{}, nil)
	s = openSolves(t, solves.Config{Store: mortal, Quotas: quotas})
	if u := quotas.Usage("a").StoredBytes; u != used {
		t.Errorf("%d bytes, before the restart %d", u, used)
	}
	whatIfs := s.Reports(solves.KindWhatIf)
	infos, _, err := whatIfs.List(t.Context(), "a", solves.Filter{Text: "NIGHT"})
	if err != nil || len(infos) != 1 || infos[0].ID != whatIf.ID || infos[0].Tags.Name != "night" ||
		infos[0].ResultBytes != 1 || !infos[0].Created.Equal(whatIf.Began.Truncate(time.Microsecond)) {
		t.Errorf("%+v %v", infos, err)
	}
	r, size, err := whatIfs.Request(t.Context(), "a", whatIf.ID)
	if readAll(t, r, size, err) != string(long) {
		t.Error("the request is another")
	}
	r, size, err = whatIfs.Answer(t.Context(), "a", whatIf.ID)
	if readAll(t, r, size, err) != "x" {
		t.Error("the answer is another")
	}
	listed, _, err := s.List(t.Context(), "a", solves.Filter{})
	if err != nil || len(listed) != 1 || listed[0].ID != solve.ID {
		t.Errorf("%+v %v", listed, err)
	}
	records, err := mortal.Solves(t.Context())
	if err != nil || len(records) != 3 {
		t.Fatal(len(records), err)
	}
	for i := range records {
		if err := store.CheckSolve(t.Context(), mortal, &records[i]); err != nil {
			t.Error(err)
		}
	}
	salvaged := store.NewMemorySolves()
	if all, err := store.SalvageSolves(t.Context(), mortal, salvaged); err != nil || len(all) != 3 {
		t.Error(all, err)
	}
	copied := openSolves(t, solves.Config{Store: salvaged})
	r, size, err = copied.Reports(solves.KindWhatIf).Request(t.Context(), "a", whatIf.ID)
	if readAll(t, r, size, err) != string(long) {
		t.Error("the request that was salvaged is another")
	}
	for _, err := range []error{
		s.Reports(solves.KindSimulation).Delete(t.Context(), "a", whatIf.ID), whatIfs.Delete(t.Context(), "b", whatIf.ID),
		s.Delete(t.Context(), "a", whatIf.ID), whatIfs.Delete(t.Context(), "a", solve.ID),
	} {
		if !errors.Is(err, solves.ErrNoSolve) {
			t.Errorf("another's: %v", err)
		}
	}
	for i, want := range []error{nil, solves.ErrGone} {
		if err := whatIfs.Delete(t.Context(), "a", whatIf.ID); !errors.Is(err, want) {
			t.Errorf("deletion %d: %v", i, err)
		}
	}
	if _, err := s.Reports(solves.KindSimulation).Get(t.Context(), "a", whatIf.ID); !errors.Is(err, solves.ErrNoSolve) {
		t.Error(err)
	}
	if u := quotas.Usage("a").StoredBytes; u > used-int64(len(long)) {
		t.Errorf("deleted, %d of %d bytes are stored", u, used)
	}
}

// The first reports and solves to end go first where they take too much space.
func TestReportsExpire(t *testing.T) {
	s := openSolves(t, solves.Config{Store: store.NewMemorySolves(), MaxBytes: 10_000})
	reports := s.Reports(solves.KindSimulation)
	var first, last string
	for range 4 {
		last = solves.NewID()
		if first == "" {
			first = last
		}
		if err := reports.Keep(&solves.Report{ID: last, Request: make([]byte, 2000), Answer: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); ; runtime.Gosched() {
		if _, err := reports.Get(t.Context(), "", first); errors.Is(err, solves.ErrGone) {
			break
		} else if err != nil || time.Since(began) > patience {
			t.Fatal(err)
		}
	}
	if _, err := reports.Get(t.Context(), "", last); err != nil {
		t.Error(err)
	}
}
