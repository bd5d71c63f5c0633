package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tokenVariable is in the environment of every process of a task.
const tokenVariable = "HARE_TASK_TOKEN"

// bootTime is the time since the machine was started, which goes on while it sleeps and which nobody sets.
func bootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // fails only for unknown clocks
	return time.Duration(ts.Nano())
}

// startOf reads when a process started; ok is false where there is none, or where it is a zombie.
func startOf(pid int) (start uint64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(text, ')')
	if err != nil || end < 0 {
		return 0, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, false
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return start, err == nil
}

// stopped reports whether the process was stopped by a signal or by a process that traces it.
func (p Process) stopped() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	_, after, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	return err == nil && ok && len(after) > 0 && (after[0] == 'T' || after[0] == 't')
}

// Alive reports whether the process runs.
func (p Process) Alive() bool {
	start, ok := startOf(p.PID)
	return ok && start == p.Start
}

// Signal sends a signal to the process and to no other that has its number by now.
func (p Process) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ENOSYS) {
		if !p.Alive() {
			return unix.ESRCH
		}
		return unix.Kill(p.PID, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() { // looked at after the descriptor holds the process
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// family is what the processes of a task have in common.
type family struct {
	ancestor int    // they are below this process
	token    string // or have this in their environment
	cgroup   string // or are in this cgroup; "" where the task has none
}

// members lists the processes of a task.
func (f family) members() (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parents := map[int]int{}
	self := os.Getpid()
	token := f.token
	mark := []byte(tokenVariable + "=" + token + "\x00")
	var all []int
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		end := bytes.LastIndexByte(text, ')')
		if err != nil || end < 0 {
			continue
		}
		fields := bytes.Fields(text[end+1:])
		if len(fields) < 2 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
			continue
		}
		parents[p], _ = strconv.Atoi(string(fields[1]))
		all = append(all, p)
	}
	inside := map[int]bool{}
	if f.cgroup != "" {
		for _, p := range inCgroup(f.cgroup) {
			inside[p] = true
		}
	}
	for _, p := range all {
		below := inside[p]
		for q, n := p, 0; q > 1 && n < 1000; q, n = parents[q], n+1 {
			if parents[q] == f.ancestor {
				below = true
				break
			}
		}
		if !below && token != "" && p != self {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p))
			below = err == nil && bytes.Contains(append(env, 0), mark)
		}
		if below && p != self {
			pids = append(pids, p)
		}
	}
	return pids
}

// kill ends the processes of a task, until none is left or the time is over.
func (f family) kill(limit time.Duration) error {
	for until := time.Now().Add(limit); ; {
		if f.cgroup != "" {
			killCgroup(f.cgroup)
		}
		left := f.members()
		if len(left) == 0 {
			return nil
		}
		for _, p := range left {
			_ = unix.Kill(p, unix.SIGKILL)
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d processes do not end, such as %d", len(left), left[0])
		}
		time.Sleep(2 * time.Millisecond)
	}
}
