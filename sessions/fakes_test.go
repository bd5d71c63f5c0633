package sessions_test

import (
	"testing"

	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/store/storetest"
)

// The stores that tests let fail keep what they promise while they do not.
func TestFakesAreStores(t *testing.T) {
	for name, s := range map[string]store.SessionStore{
		"picky":    &picky{SessionStore: store.NewMemory(), bad: "none"},
		"failing":  &failing{SessionStore: store.NewMemory(), fail: func() bool { return false }},
		"counting": &counting{SessionStore: store.NewMemory()},
	} {
		t.Run(name, func(t *testing.T) { storetest.Sessions(t, s) })
	}
}
