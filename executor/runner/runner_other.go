//go:build !linux

package runner

import (
	"errors"
	"os"
	"time"
)

var errLinux = errors.New("agents run on Linux alone")

// Main is a runner, on Linux alone.
func Main(string) error { return errLinux }

// Start starts a runner, on Linux alone.
func Start([]string, string) (p *os.Process, started *os.File, err error) { return nil, nil, errLinux }

// Warm is a runner without a task, on Linux alone.
type Warm struct{}

// Prepare starts a warm runner, on Linux alone.
func Prepare([]string, string) (*Warm, error) { return nil, errLinux }

// Run gives a warm runner its task, on Linux alone.
func (*Warm) Run(string) (p *os.Process, started *os.File, err error) { return nil, nil, errLinux }

// Close ends a warm runner, on Linux alone.
func (*Warm) Close() {}

// ReleaseProgram gives memory back, on Linux alone.
func ReleaseProgram() {}

// Find finds a runner, on Linux alone.
func Find(string) (p Process, ok bool) { return p, false }

// Claim takes the right to run a task, on Linux alone.
func Claim(string) bool { return false }

// Clear ends processes, on Linux alone.
func Clear(string) error { return errLinux }

// SetLease sets a lease, on Linux alone.
func SetLease(string, time.Duration) error { return errLinux }

// Now is a time, on Linux alone.
func Now() time.Duration { return 0 }

// Conceal hides the environment, on Linux alone.
func Conceal() error { return errLinux }
