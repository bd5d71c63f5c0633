package sessions_test

import (
	"testing"

	"github.com/hare-sched/hare/internal/testing/storetest"
	"github.com/hare-sched/hare/serve/store"
)

// Stores with injected faults must keep the promises of a store while no fault is
// injected.
func TestFakesAreStores(t *testing.T) {
	for name, s := range map[string]store.SessionStore{
		"rejecting": &rejecting{SessionStore: store.NewMemory(), bad: "none"},
		"failing":   &failing{SessionStore: store.NewMemory(), fail: func() bool { return false }},
		"counting":  &counting{SessionStore: store.NewMemory()},
	} {
		t.Run(name, func(t *testing.T) { storetest.Sessions(t, s) })
	}
}
