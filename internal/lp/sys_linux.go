package lp

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/internal/timeslice"
)

// selfPath returns a path of the running binary that is valid even if its file was
// replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// bindToParent makes the kernel kill the child when the thread that starts it ends; the
// pool starts children from a thread that lives as long as the pool. A process group of
// its own keeps Ctrl-C on the terminal from the child.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// limitSelf limits the address space of this process to memory bytes beyond what is
// mapped already (the Go runtime reserves much that it never uses). It also makes this
// process the first that the kernel kills when memory runs out.
func limitSelf(memory int64) error {
	timeslice.Ordinary() // the parent serves requests, this process computes
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("core limit: %w", err)
	}
	// A process may raise its own score without privileges. A kernel without this file only
	// loses the preference.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if memory <= 0 {
		return nil
	}
	mapped, err := mappedBytes()
	if err != nil {
		return fmt.Errorf("memory limit: %w", err)
	}
	limit := uint64(mapped) + uint64(memory)
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return fmt.Errorf("memory limit: %w", err)
	}
	return nil
}

func mappedBytes() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmSize:"); ok {
			var kib int64
			_, err := fmt.Sscanf(rest, "%d kB", &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmSize in /proc/self/status")
}

// protectStdout moves the pipe behind os.Stdout to another descriptor and makes
// descriptor 1 standard error.
func protectStdout(out io.Writer) (io.Writer, error) {
	if out != io.Writer(os.Stdout) {
		return out, nil
	}
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("dup: %w", err)
	}
	if err := unix.Dup3(int(os.Stderr.Fd()), int(os.Stdout.Fd()), 0); err != nil {
		return nil, fmt.Errorf("dup: %w", err)
	}
	return os.NewFile(uintptr(fd), "frames"), nil
}
