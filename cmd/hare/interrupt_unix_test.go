//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// amidst is the time between the start of a command's work and its interruption.
// The outcome is the same at any moment after the command has opened its input.
const amidst = 300 * time.Millisecond

// input is a FIFO. It shows when a command opens its files, because a signal before
// would end the process before the command begins.
type input struct{ path, text string }

func newInput(t *testing.T, text string) *input {
	t.Helper()
	in := &input{filepath.Join(t.TempDir(), "fifo"), text}
	if err := syscall.Mkfifo(in.path, 0o600); err != nil {
		t.Fatal(err)
	}
	return in
}

// give waits until the FIFO is opened for reading, and writes the text.
func (in *input) give(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(in.path, []byte(in.text), 0); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptedSimulation checks that Ctrl-C ends a simulation with one line and
// exit code 1, and that no file is left.
func TestInterruptedSimulation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	faults := newInput(t, "gpu,from_s,until_s\n")
	c := command("simulate", "--policy", "hlas", "--generate", "300", "--arrivals", "none", "--repeat", "1000", "-o", dir,
		"--record", dir, "--faults", faults.path)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	faults.give(t)
	time.Sleep(amidst)
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if _, err := os.Stat(dir); c.ProcessState.ExitCode() != exitNo || out.Len() > 0 ||
		errs.String() != "hare: interrupted before there was an answer\n" || err == nil {
		t.Errorf("%v: %s%s, %v", c.ProcessState, &out, &errs, err)
	}
}

// TestInterrupt checks that Ctrl-C ends a solve with its best pair and exit code 0.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	instance, result := filepath.Join(dir, "i.json"), filepath.Join(dir, "r.json")
	if _, stderr, code := runHare(t, "", "generate", "--jobs", "60", "-o", instance); code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(instance)
	if err != nil {
		t.Fatal(err)
	}
	in := newInput(t, string(text))
	c := command("solve", in.path, "--gap", "0", "--time-limit", "10m", "-o", result)
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in.give(t)
	time.Sleep(amidst)
	began := time.Now()
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ended %v after the signal", took)
	}
	if !strings.Contains(out.String(), "cancelled") {
		t.Errorf("%s", out.String())
	}
	if stdout, _, code := runHare(t, "", "verify", instance, result); code != 0 {
		t.Errorf("%s", stdout)
	}
}
