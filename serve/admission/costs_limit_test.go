package admission

import (
	"testing"
	"time"

	"github.com/hare-sched/hare"
)

// Solves that take their whole time limit, as predicted, are what a busy server
// sees most of: the model must come to trust itself by them, and not by those
// that their callers cancel.
func TestCostsTrustLimits(t *testing.T) {
	w := Work{Jobs: 2000, Tasks: 400_000, Options: hare.Options{TimeLimit: 500 * time.Millisecond}}
	c := NewCosts()
	if p := c.Predict(w); p != w.Options.TimeLimit {
		t.Fatalf("predicted %v, want the limit", p)
	}
	for range 100 {
		c.Learn(w, 100*time.Millisecond, true)
	}
	if f, _ := c.Error(); f < firstError-0.01 {
		t.Errorf("trusts itself by a factor of %.2f after cancelled solves", f)
	}
	for range 100 {
		c.Learn(w, 490*time.Millisecond, true)
	}
	if f, _ := c.Error(); f > 1.1 {
		t.Errorf("is unsure by a factor of %.2f after 100 solves as predicted", f)
	}
	if p := c.Predict(w); p != w.Options.TimeLimit {
		t.Errorf("predicted %v, want the limit", p)
	}
}
