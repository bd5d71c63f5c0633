package sqlite

import (
	"testing"

	"github.com/hare-sched/hare/internal/testing/storetest"
	"github.com/hare-sched/hare/serve/store"
)

func TestSuite(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	storetest.Sessions(t, s)
}

func TestSuiteOfSolves(t *testing.T) {
	dir := t.TempDir()
	storetest.Solves(t, func(t *testing.T) (store.SolveStore, func()) {
		s := openStore(t, dir)
		return s, func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
