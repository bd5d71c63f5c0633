package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
)

// Each refusal of docs/reference/model.md is one line with a pointer and a remedy, and exit code 2.
func TestRefusalsNamePointerAndRemedy(t *testing.T) {
	for _, c := range haretest.Refusals() {
		t.Run(c.Name, func(t *testing.T) {
			root := newRoot()
			root.SetArgs([]string{"bound", file(t, "i.json", c.Instance), "-o", t.TempDir() + "/bound.json"})
			err := root.ExecuteContext(t.Context())
			var bad *hare.InvalidError
			if !errors.As(err, &bad) || exitCode(err) != exitUsage {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(err.Error(), ": "+c.Pointer+": ") || !strings.HasSuffix(err.Error(), "("+c.Code+")") ||
				!strings.Contains(err.Error(), c.Remedy) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant %s, %q (%s)", err, c.Pointer, c.Remedy, c.Code)
			}
		})
	}
}

// An instance without a schedule gives the reason and exit code 1.
func TestInfeasibleInstancesSayWhy(t *testing.T) {
	for _, c := range haretest.Infeasible() {
		t.Run(c.Name, func(t *testing.T) {
			_, errs, code := runHare(t, c.Instance, "solve", "-", "--work-limit", "10", "-o", t.TempDir()+"/result.json")
			if code != exitNo || !strings.Contains(errs, "infeasible: "+c.Pointer+": ") ||
				!strings.Contains(errs, c.Remedy) || !strings.Contains(errs, "("+c.Code+")") {
				t.Errorf("exit code %d: %s\nwant %s, %q (%s)", code, errs, c.Pointer, c.Remedy, c.Code)
			}
		})
	}
}
