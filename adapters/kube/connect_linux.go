package kube

import (
	"os/exec"
	"syscall"
)

// bindToParent makes the kernel end the child when the thread that starts it ends. A process group of
// its own keeps Ctrl-C on the terminal from the child.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
