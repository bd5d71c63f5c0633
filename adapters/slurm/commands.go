package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Commands runs commands of Slurm. Tests give one that pretends.
type Commands interface {
	// Run runs a command with a standard input and returns its standard output. An error of a
	// command that failed has what it wrote to standard error.
	Run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error)
}

// Exec runs the commands of Slurm that the search path finds.
type Exec struct{}

var _ Commands = Exec{}

// maxErrorText limits what is kept of a command's standard error.
const maxErrorText = 2000

// Run runs the command, and kills it when ctx ends.
func (Exec) Run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = time.Second
	var out, faults bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &out, &faults
	err := c.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not installed: run hare slurm where Slurm's client commands are (Debian: "+
			"apt-get install slurm-client)", name)
	}
	text := strings.TrimSpace(faults.String())
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + " …"
	}
	return out.Bytes(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
		strings.ReplaceAll(text, "\n", "; "))
}
