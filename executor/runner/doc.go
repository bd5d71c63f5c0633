// Package runner is the process that stands between an agent and one task. It starts the task's program, keeps its
// outputs with a cap, ends all of its processes when it is asked to or when the agent's lease runs out, and writes
// down how the program ended. An agent that dies therefore breaks nothing: the agent that is started after it finds
// the runner in the task's directory and goes on with it.
//
// The directory of a task has these files: spec.json (how to run it; by the agent), command.json (what to run with
// which environment; by the agent, and removed when the runner has read it), lease (how long the task may go on; by
// the agent), runner.json (the runner's process), stdout and stderr, and at the end exit.json.
package runner

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// Names of files in the directory of a task.
const (
	specFile    = "spec.json"
	commandFile = "command.json"
	leaseFile   = "lease"
	runnerFile  = "runner.json"
	exitFile    = "exit.json"
	logFile     = "runner.log" // what the runner itself has to say
)

// Spec is what a runner starts. Command and Env are in a file of their own, which does not outlive the start: both
// may have secrets.
type Spec struct {
	Command   []string `json:"-"`
	Env       []string `json:"-"` // the whole environment
	Directory string   `json:"directory"`
	GraceS    float64  `json:"grace_s"`   // from SIGTERM to SIGKILL
	LogLimit  int64    `json:"log_limit"` // bytes of one output
	// User is who the task runs as; nil means the user of the runner.
	User *User `json:"user,omitempty"`
	// Cgroup is the directory of the cgroup below which the task gets its own; "" means that it gets none.
	Cgroup    string  `json:"cgroup,omitempty"`
	Token     string  `json:"token"`      // in the environment of every process of the task, as HARE_TASK_TOKEN
	PretendS  float64 `json:"pretend_s"`  // above 0: nothing is run, and the task ends after this time
	PretendOf float64 `json:"pretend_of"` // the time that the task is said to have run then
}

// User is a user of the system.
type User struct {
	Name   string   `json:"name"`
	Home   string   `json:"home"`
	Shell  string   `json:"shell"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"` // the supplementary ones
}

// command is the content of commandFile.
type command struct {
	Command []string `json:"command"`
	Env     []string `json:"env"`
}

// Process names a process: its number is used again, its start time is not.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // of /proc/PID/stat, in clock ticks since boot
}

// Exit says how a task ended.
type Exit struct {
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   string  `json:"signal,omitempty"`
	Error    string  `json:"error,omitempty"`
	RanS     float64 `json:"ran_s"`
}

// LeaseOver is the error of a task that was ended because the lease of its agent had run out.
const LeaseOver = "the lease of the agent ran out"

// writeFile replaces a file that is about a process: readers see the old content or the new one. The file is not
// synced, since a loss of power ends the process, too, and the agent, which starts many, does not wait for the disk.
func writeFile(dir, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+name+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func readFile(dir, name string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// ReadExit reads how a task ended; an error that is fs.ErrNotExist says that it has not.
func ReadExit(dir string) (e Exit, err error) {
	return e, readFile(dir, exitFile, &e)
}

// WriteSpec writes what the runner of a directory starts.
func WriteSpec(dir string, s *Spec) error {
	if err := writeFile(dir, commandFile, &command{s.Command, s.Env}); err != nil {
		return err
	}
	return writeFile(dir, specFile, s)
}

// readSpec reads what a runner is to start, once: the command and its environment are gone then.
func readSpec(dir string) (*Spec, error) {
	s, c := new(Spec), new(command)
	err := readFile(dir, specFile, s)
	if err == nil {
		err = readFile(dir, commandFile, c)
	}
	if err != nil {
		return nil, err
	}
	s.Command, s.Env = c.Command, c.Env
	return s, os.Remove(filepath.Join(dir, commandFile))
}
