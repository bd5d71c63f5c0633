package main

import (
	"runtime/debug"
	"testing"
)

// The default of --session-memory follows GOMEMLIMIT where that is the least, and has a floor.
func TestSessionMemoryDefault(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for limit, want := range map[int64]int64{1 << 30: 512 << 20, 3 << 30: 768 << 20} {
		debug.SetMemoryLimit(limit)
		if got := sessionMemory(); got > want || got < 512<<20 || machineMemory() > limit {
			t.Errorf("with %d: %d and not %d", limit, got, want)
		}
	}
}
