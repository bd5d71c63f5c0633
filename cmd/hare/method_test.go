package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSolveMethod lets another scheduler make a plan, which verify accepts, and checks what is refused.
func TestSolveMethod(t *testing.T) {
	const instance = "../../examples/gavel-demo.json"
	result := filepath.Join(t.TempDir(), "r.json")
	if out, errs, code := runHare(t, "", "solve", instance, "--method", "srtf", "--work-limit", "100",
		"-o", result); code != 0 {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	if out, errs, code := runHare(t, "", "verify", instance, result); code != 0 || !strings.Contains(out, "accepted") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{`did you mean "srtf"`, []string{"--method", "srtff"}},
		{"not for the rest of a plan", []string{"--method", "srtf", "--previous", result, "--at", "1"}},
	} {
		if out, errs, code := runHare(t, "", append([]string{"solve", instance}, c.args...)...); code != 2 ||
			!strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: %d: %s%s", c.args, code, out, errs)
		}
	}
}
