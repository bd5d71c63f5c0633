package executor

import (
	"strings"
	"testing"
)

// TestOneAgentHasTheDirectory checks that a second agent is refused until the first one has let go.
func TestOneAgentHasTheDirectory(t *testing.T) {
	t.Parallel()
	cfg := Config{Directory: t.TempDir()}
	agent := func() *Agent { return &Agent{runners: newRunners(newSession(t.Context(), cfg))} }
	first, second := agent(), agent()
	unlock, err := first.open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.open(); err == nil || !strings.Contains(err.Error(), "give --directory") {
		t.Errorf("a second agent opens the directory: %v", err)
	}
	unlock()
	unlock, err = second.open()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if first.incarnation != second.incarnation {
		t.Error("the directory has two incarnations")
	}
}
