package executortest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a process that runs, or has just ended.
type Process struct {
	PID       int
	arguments []byte
}

func (p *Process) dir() string { return filepath.Join("/proc", strconv.Itoa(p.PID)) }

// HasWord reports whether an argument of the process begins with a word.
func (p *Process) HasWord(word string) bool {
	return bytes.Contains(append([]byte{0}, p.arguments...), []byte("\x00"+word))
}

// Arguments are the arguments of the process, with the name of the program.
func (p *Process) Arguments() string { return strings.ReplaceAll(string(p.arguments), "\x00", " ") }

// KeepsIn reports whether the process belongs to a job with such a directory for its checkpoints.
func (p *Process) KeepsIn(checkpoints string) bool {
	environment, _ := os.ReadFile(filepath.Join(p.dir(), "environ"))
	at := []byte("\x00HARE_CHECKPOINT_DIR=" + checkpoints)
	_, after, found := bytes.Cut(append([]byte{0}, environment...), at)
	return found && len(after) > 0 && (after[0] == 0 || after[0] == '/')
}

// IsIn reports whether the process works in a directory or below.
func (p *Process) IsIn(dir string) bool {
	at, err := os.Readlink(filepath.Join(p.dir(), "cwd"))
	return err == nil && (at == dir || strings.HasPrefix(at, dir+"/"))
}

// parent is the number of the process that started this one; 0 where it has ended.
func (p *Process) parent() int {
	stat, _ := os.ReadFile(filepath.Join(p.dir(), "stat"))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(fields[1])
	return pid
}

// Processes are the numbers of the processes of this machine of which something holds. A process that another of them
// has forked and that has not begun its own program yet, which takes a while on a busy machine, still has the
// arguments of the other. It is not listed: to kill it does not kill the other.
func Processes(t testing.TB, holds func(p *Process) bool) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]*Process{}
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		arguments, gone := os.ReadFile(file)
		if p := (&Process{pid, arguments}); err == nil && gone == nil && holds(p) {
			found[pid] = p
		}
	}
	for pid, p := range found {
		if by := found[p.parent()]; by == nil || !bytes.Equal(by.arguments, p.arguments) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// KillOne kills one of the processes that a function finds, once it finds any, with SIGKILL.
func KillOne(t testing.TB, rng *rand.Rand, find func() []int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if pids := find(); len(pids) > 0 && syscall.Kill(pids[rng.IntN(len(pids))], syscall.SIGKILL) == nil {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("no process is found that could be killed")
		}
	}
}

// SumOf is the sum of counts, such as those of kills by kind.
func SumOf(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
