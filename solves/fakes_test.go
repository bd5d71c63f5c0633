package solves_test

import (
	"testing"

	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/store/storetest"
)

// The store that tests let fail keeps what it promises while it does not.
func TestMortalIsAStore(t *testing.T) {
	m := newMortal()
	storetest.Solves(t, func(*testing.T) (store.SolveStore, func()) { return m, func() {} })
}
