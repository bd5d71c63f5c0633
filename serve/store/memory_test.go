package store_test

import (
	"testing"

	"github.com/hare-sched/hare/internal/testing/storetest"
	"github.com/hare-sched/hare/serve/store"
)

func TestMemory(t *testing.T) { storetest.Sessions(t, store.NewMemory()) }

func TestMemorySolves(t *testing.T) {
	memory := store.NewMemorySolves()
	storetest.Solves(t, func(*testing.T) (store.SolveStore, func()) { return memory, func() {} })
}
