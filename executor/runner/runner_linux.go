package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// killTime is how long a runner tries to end processes that SIGKILL does not end at once, before it says so.
const killTime = 30 * time.Second

// Main is a runner: it runs the task of a directory to its end. SIGTERM ends the task with its grace, SIGINT at
// once. The error is one of the runner itself; how the task ended is in the directory.
func Main(dir string) error {
	// The parent-death signal of the program is bound to the thread that starts it.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if dir != warmArgument {
		if err := protect(); err != nil {
			return err
		}
	} else {
		var err error
		if dir, err = waitForTask(os.Getenv(guardVariable)); err != nil || dir == "" {
			return err
		}
	}
	spec, err := readSpec(dir)
	if err != nil {
		return err
	}
	if !Claim(dir) {
		return nil // an agent gave the task up before it began
	}
	start, _ := startOf(os.Getpid())
	if err := writeFile(dir, runnerFile, Process{os.Getpid(), start}); err != nil {
		return err
	}
	t := &task{dir: dir, spec: spec, begun: time.Now(), told: func() {}}
	if os.Getenv(pipeVariable) != "" {
		unix.CloseOnExec(pipeFD)
		t.told = func() { _, _ = os.NewFile(pipeFD, "started").Write([]byte{1}) }
	}
	return t.writeExit(t.run(signals))
}

// writeExit writes down how the task ended. Where the disk is full, it waits for space as long as the lease runs: the
// work of the task is done, and would be done again.
func (t *task) writeExit(exit Exit) error {
	text, err := json.Marshal(exit)
	if err != nil {
		return err
	}
	for said := false; ; said = true {
		err := atomicfile.Write(filepath.Join(t.dir, exitFile), 0o600, text)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) || t.lease() <= 0 {
			return err
		}
		if !said {
			fmt.Fprintln(os.Stderr, "hare: the end of the task waits for space on the disk:", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

type task struct {
	dir   string
	spec  *Spec
	begun time.Time
	told  func() // tells the agent that the program runs
	// cgroup is the directory of the task's cgroup; "" where it has none.
	cgroup string
}

// The agent reads from the other end of this descriptor when the program has started.
const (
	pipeVariable = "HARE_RUNNER_PIPE"
	pipeFD       = 3
)

func (t *task) run(signals <-chan os.Signal) Exit {
	if t.spec.PretendS > 0 {
		return t.pretend(signals)
	}
	pid, outputs, err := t.start()
	if err != nil {
		return Exit{Error: err.Error()}
	}
	t.told()
	ended := make(chan unix.WaitStatus, 1)
	go reap(pid, ended)
	exit := t.watch(pid, ended, signals)
	exit.RanS = time.Since(t.begun).Seconds()
	// The end of the task says that its GPUs are free. Processes that SIGKILL does not end, as in a driver that hangs,
	// still have them.
	for {
		err := t.family().kill(killTime)
		if err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, "hare:", err)
	}
	removeCgroup(t.cgroup)
	if err := outputs(); err != nil && exit.Error == "" {
		exit.Error = "its output could not be kept: " + err.Error()
	}
	return exit
}

// start starts the program. outputs waits until all that it wrote is kept.
func (t *task) start() (pid int, outputs func() error, err error) {
	if len(t.spec.Command) == 0 {
		return 0, nil, errors.New("the task has no command")
	}
	path, err := lookPath(t.spec.Command[0], t.spec.Env, t.spec.Directory)
	if err != nil {
		return 0, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	var kept sync.WaitGroup
	errs := make([]error, 2)
	files := []uintptr{null.Fd(), 0, 0}
	var writers []*os.File
	for i, name := range []string{"stdout", "stderr"} {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, nil, err
		}
		writers = append(writers, w)
		files[i+1] = w.Fd()
		kept.Go(func() {
			defer r.Close()
			errs[i] = Keep(t.dir, name, t.spec.LogLimit, r)
		})
	}
	defer func() {
		for _, w := range writers {
			_ = w.Close()
		}
	}()
	attr := &syscall.ProcAttr{Dir: t.spec.Directory, Env: t.spec.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: t.spec.User.credential()}}
	if pid, err = t.forkInCgroup(path, attr); pid == 0 {
		pid, err = syscall.ForkExec(path, t.spec.Command, attr)
	}
	if err != nil {
		removeCgroup(t.cgroup)
		return 0, nil, fmt.Errorf("%s cannot be started: %w", t.spec.Command[0], err)
	}
	return pid, func() error { kept.Wait(); return errors.Join(errs...) }, nil
}

// forkInCgroup starts the program in a cgroup of its own, from its first instruction on. It returns 0 where the task
// is to have none, or where the kernel makes none: the task runs without, and the log of the runner says why.
func (t *task) forkInCgroup(path string, attr *syscall.ProcAttr) (pid int, err error) {
	dir := t.spec.cgroup()
	if dir == "" {
		return 0, nil
	}
	if err = os.Mkdir(dir, 0o700); err == nil {
		var f *os.File
		if f, err = os.Open(dir); err == nil {
			defer f.Close()
			sys := *attr.Sys
			sys.UseCgroupFD, sys.CgroupFD = true, int(f.Fd())
			inside := *attr
			inside.Sys = &sys
			if pid, err = syscall.ForkExec(path, t.spec.Command, &inside); err == nil {
				t.cgroup = dir
				return pid, nil
			}
		}
		removeCgroup(dir)
	}
	fmt.Fprintln(os.Stderr, "hare: the task runs without a cgroup:", err)
	return 0, nil
}

// lookPath finds the program as a shell would, in the PATH of the task.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	for _, v := range env {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			if path := filepath.Join(d, name); filepath.IsAbs(d) && executable(path) == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no such program in the PATH of the agent", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such program on this node", path)
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s: is not executable", path)
	}
	return nil
}

// reap takes the end of the program, and of all other processes that become children of the runner.
func reap(pid int, ended chan<- unix.WaitStatus) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			time.Sleep(20 * time.Millisecond) // children may still come
		case err != nil:
			return
		case got == pid && (status.Exited() || status.Signaled()):
			ended <- status
		}
	}
}

// watch waits for the end of the program and ends it when it must end.
func (t *task) watch(pid int, ended <-chan unix.WaitStatus, signals <-chan os.Signal) Exit {
	var kill <-chan time.Time // when the grace is over
	why := ""
	lease := time.NewTimer(min(t.lease(), time.Second))
	defer lease.Stop()
	for {
		select {
		case status := <-ended:
			if status.Signaled() && t.lease() <= 0 { // another process that watches over the lease was sooner
				why = LeaseOver
			}
			exit := Exit{Error: why}
			if status.Signaled() {
				exit.Signal = unix.SignalName(status.Signal())
			} else {
				code := status.ExitStatus()
				exit.ExitCode = &code
			}
			return exit
		case sig := <-signals:
			if sig == unix.SIGINT || t.spec.GraceS <= 0 {
				t.kill(pid)
			} else if kill == nil {
				for _, p := range t.family().members() {
					_ = unix.Kill(p, unix.SIGTERM)
				}
				kill = time.After(time.Duration(t.spec.GraceS * float64(time.Second)))
			}
		case <-kill:
			t.kill(pid)
		case <-lease.C:
			left := t.lease()
			if left <= 0 {
				why = LeaseOver
				t.kill(pid)
				left = time.Second
			}
			lease.Reset(min(left, time.Second))
		}
	}
}

func (t *task) kill(pid int) {
	_ = unix.Kill(-pid, unix.SIGKILL)
	_ = unix.Kill(pid, unix.SIGKILL)
	go func() { _ = t.family().kill(killTime) }()
}

// family has the processes of the task: all below the runner, which gets those whose parents have ended.
func (t *task) family() family { return family{os.Getpid(), t.spec.Token, t.cgroup} }

// lease is how long the task may go on.
func (t *task) lease() time.Duration { return Lease(t.dir) }

// pretend ends after the time that the task is said to take.
func (t *task) pretend(signals <-chan os.Signal) Exit {
	t.told()
	end := time.NewTimer(time.Duration(t.spec.PretendS * float64(time.Second)))
	lease := time.NewTimer(min(t.lease(), time.Second))
	for {
		select {
		case <-end.C:
			zero := 0
			return Exit{ExitCode: &zero, RanS: t.spec.PretendOf}
		case <-signals:
			return Exit{Signal: "SIGTERM", RanS: time.Since(t.begun).Seconds()}
		case <-lease.C:
			left := t.lease()
			if left <= 0 {
				return Exit{Signal: "SIGKILL", Error: LeaseOver, RanS: time.Since(t.begun).Seconds()}
			}
			lease.Reset(min(left, time.Second))
		}
	}
}

// Lease reads how long the task of a directory may go on; at most 0 where its lease has run out.
func Lease(dir string) time.Duration {
	text, err := os.ReadFile(filepath.Join(dir, leaseFile))
	if err != nil {
		return 0
	}
	until, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return time.Second // it is being written
	}
	return time.Duration(max(until, 0)) - bootTime()
}

// SetLease lets the task of a directory go on for some time from now on.
func SetLease(dir string, until time.Duration) error {
	text := fmt.Sprintf("%020d\n", int64(until))
	f, err := os.OpenFile(filepath.Join(dir, leaseFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Close())
}

// Now is the time that SetLease counts in.
func Now() time.Duration { return bootTime() }

// Start starts the runner of a directory that has a spec and a lease. program is the runner with its arguments, to
// which the directory is added. The runner lives on when the caller ends. started gives one byte when the program
// runs, and ends without it where the program cannot be started; the caller closes it.
func Start(program []string, dir string) (p *os.Process, started *os.File, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	errs, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer errs.Close()
	return start(program, dir, "", []*os.File{null, null, errs})
}

// start starts a runner with an argument and three files. It watches over the tasks of a directory until it has a task
// itself; "" means none.
func start(program []string, argument, guards string, files []*os.File) (p *os.Process, started *os.File, err error) {
	started, tell, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer tell.Close()
	argv := append(append([]string{}, program...), argument)
	p, err = os.StartProcess(program[0], argv, &os.ProcAttr{
		Env:   append(Environment(), pipeVariable+"=1", guardVariable+"="+guards),
		Files: append(files, tell), Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, nil, errors.Join(err, started.Close())
	}
	return p, started, nil
}

// warmArgument takes the place of the directory of a runner that learns it later.
const warmArgument = "-"

// waitForTask reads the directory of its task from standard input, and watches over the tasks of the agent's directory
// meanwhile. When the agent has ended it goes on with that until they have ended, or another process does it. "" says
// that there will be no task.
func waitForTask(guards string) (dir string, err error) {
	ReleaseProgram()
	if err := protect(); err != nil {
		return "", err
	}
	type input struct {
		text []byte
		err  error
	}
	told := make(chan input, 1)
	go func() {
		text, err := io.ReadAll(os.Stdin)
		told <- input{text, err}
	}()
	guard := Guard{Directory: guards}
	look := time.NewTimer(0)
	defer look.Stop()
	for agent := true; ; {
		select {
		case in := <-told:
			dir, whole := strings.CutSuffix(string(in.text), "\n")
			if in.err == nil && whole {
				return dir, logTo(dir)
			}
			agent, told = false, nil
			look.Reset(0)
		case <-look.C:
			left, next := 0, guardEvery
			if guards != "" {
				left, next = guard.Look()
			}
			if !agent && (left == 0 || replaced(guards)) {
				return "", nil
			}
			look.Reset(next)
		}
	}
}

// logTo has what this process says to standard error go to the log of a task.
func logTo(dir string) error {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	return unix.Dup3(int(log.Fd()), 2, 0)
}

// Warm is a runner that has no task yet: the start of the program, which takes longer than all else of a task's
// start, is done.
type Warm struct {
	process *os.Process
	in      *os.File
	started *os.File
}

// Prepare starts a warm runner. Until it has a task it watches over the tasks of the agent's directory ("" means
// none), and ends when the caller has ended or called Close and no task is left there.
func Prepare(program []string, directory string) (*Warm, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p, started, err := start(program, warmArgument, directory, []*os.File{out, null, null})
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if directory != "" { // it takes the place of the one that watches there
		begun, _ := startOf(p.Pid)
		err = writeFile(directory, guardFile, Process{p.Pid, begun})
	}
	w := &Warm{p, in, started}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Ready reports whether the runner waits for a task. One that was stopped goes on.
func (w *Warm) Ready() bool {
	p := Process{PID: w.process.Pid}
	if p.stopped() {
		_ = w.process.Signal(unix.SIGCONT)
	}
	_, ok := startOf(p.PID)
	return ok
}

// Run gives a warm runner its task, as Start does. Where the error is not nil, it has none.
func (w *Warm) Run(dir string) (p *os.Process, started *os.File, err error) {
	if _, err = w.in.WriteString(dir + "\n"); err == nil {
		err = w.in.Close()
	}
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return w.process, w.started, nil
}

// Close says that a warm runner gets no task. It ends once no task is left that it watches over.
func (w *Warm) Close() {
	_ = w.in.Close()
	_ = w.started.Close()
	go func() { _, _ = w.process.Wait() }()
}

// Claim takes the right to run the task of a directory, which is given once: to its runner, or to an agent that
// makes sure that the task does not run any more.
func Claim(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, "claim"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// Find returns the runner of a directory; ok is false where it has ended or never began.
func Find(dir string) (p Process, ok bool) {
	if err := readFile(dir, runnerFile, &p); err != nil {
		return p, false
	}
	return p, p.Alive()
}

// Clear ends what a runner that was killed has left behind.
func Clear(dir string) error {
	var spec Spec
	if err := readFile(dir, specFile, &spec); err != nil || spec.Token == "" {
		return err
	}
	if err := (family{-1, spec.Token, spec.cgroup()}).kill(killTime); err != nil {
		return err
	}
	removeCgroup(spec.cgroup())
	return nil
}
