package solves_test

import (
	"testing"

	"github.com/hare-sched/hare/internal/testing/storetest"
	"github.com/hare-sched/hare/serve/store"
)

// The store with injected faults must keep the promises of a store while no fault is
// injected.
func TestMortalIsAStore(t *testing.T) {
	m := newMortal()
	storetest.Solves(t, func(*testing.T) (store.SolveStore, func()) { return m, func() {} })
}
