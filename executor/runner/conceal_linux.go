package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Conceal hides from the processes of tasks what this process was started with. It overwrites the block of memory that
// /proc/PID/environ shows, but for what Environment passes on and a token; os.Getenv still finds all variables. And it
// makes the process one that other processes of its user can neither trace nor look into. Root can look into every
// process, but the block has nothing any more.
func Conceal() error {
	if err := overwriteEnvironment(); err != nil {
		return fmt.Errorf("the environment of the agent cannot be hidden from jobs: %w", err)
	}
	return protect()
}

// protect keeps processes of the same user from tracing this one and from looking into its memory, environment and
// open files.
func protect() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// The places in /proc/PID/stat of the addresses of the environment, counted after the name of the program.
const (
	envStart = 50 - 3
	envEnd   = 51 - 3
)

func overwriteEnvironment() error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= envEnd {
		return errors.New("the system does not say where it is")
	}
	from, err := strconv.ParseInt(string(fields[envStart]), 10, 64)
	if err != nil {
		return err
	}
	to, err := strconv.ParseInt(string(fields[envEnd]), 10, 64)
	if err != nil || from <= 0 || to <= from {
		return errors.Join(err, errors.New("the system does not say where it is"))
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	block := make([]byte, to-from)
	if _, err := memory.ReadAt(block, from); err != nil {
		return err
	}
	for rest := block; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			end = len(rest)
		}
		if name, _, _ := bytes.Cut(rest[:end], []byte("=")); !isBare(string(name)) && string(name) != tokenVariable {
			clear(rest[:end])
		}
		rest = rest[min(end+1, len(rest)):]
	}
	_, err = memory.WriteAt(block, from)
	return err
}
