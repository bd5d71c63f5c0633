package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CrashError says that a worker process has ended, or was ended because it broke the protocol.
// What it was asked to do may be asked of another process.
type CrashError struct {
	// Reason says how the process ended, and what it wrote to standard error last.
	Reason string
}

func (e *CrashError) Error() string { return "worker: the process has ended: " + e.Reason }

// FaultError is a fault that the worker reports; the worker goes on.
type FaultError struct {
	Job string
	// Kind is "module", "oom" or "device".
	Kind, Reason string
	// FootprintBytes is the state of all jobs in the device's memory, where Kind is "oom".
	FootprintBytes int64
}

func (e *FaultError) Error() string {
	if e.Kind == "oom" {
		return fmt.Sprintf("job %.60s is out of memory with %d bytes of models on its device: %s", e.Job,
			e.FootprintBytes, e.Reason)
	}
	return fmt.Sprintf("job %.60s: %s", e.Job, e.Reason)
}

// process is one Python process. Its calls may be made by several goroutines; the worker
// does them one after another.
type process struct {
	cmd   *exec.Cmd
	conn  *net.UnixConn
	epoch int64
	said  *tail
	ended chan struct{} // closed when the process is dead and crash is set
	crash *CrashError

	reap   sync.Mutex
	reaped bool

	mu      sync.Mutex
	seq     int64
	pending map[int64]call
	out     []byte
}

// call is a request that waits for its answer.
type call struct {
	request Type
	job     string
	then    func(*Message, error)
}

// startProcess starts a worker and waits for its greeting. ctx ends the start, not the process.
func startProcess(ctx context.Context, cfg *Config, device int, epoch int64) (*process, error) {
	path := filepath.Join(cfg.Directory, fmt.Sprintf("worker-%d-%d", device, epoch))
	listener, err := Listen(path)
	if err != nil {
		return nil, err
	}
	defer listener.Close() // which removes the socket, too
	argv := append(append([]string(nil), cfg.Python...), "-m", "hare_worker", "--socket", path,
		"--epoch", strconv.FormatInt(epoch, 10))
	p := &process{epoch: epoch, said: new(tail), ended: make(chan struct{}), pending: map[int64]call{}}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = cfg.environment(device)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	// A process that the user's code starts may hold the pipe open when the worker has ended.
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("worker: start: %w: install Python on this node, or name an interpreter that is there "+
			"(hare agent --python)", err)
	}
	exited := make(chan struct{})
	go func() {
		p.await()
		close(exited)
	}()
	started, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	stop := context.AfterFunc(started, func() {
		_ = listener.Close()
		p.kill()
	})
	defer stop()
	dead := make(chan struct{})
	go func() {
		select {
		case <-exited:
			_ = listener.Close()
		case <-dead:
		}
	}()
	p.conn, err = Accept(listener, os.Geteuid())
	close(dead)
	if err == nil {
		var hello *Message
		// No request is under way yet, so that nothing is lost with this reader's buffer.
		deadline, _ := started.Deadline()
		_ = p.conn.SetReadDeadline(deadline)
		hello, err = ReadMessage(p.conn)
		_ = p.conn.SetReadDeadline(time.Time{})
		if err == nil {
			err = checkHello(hello, epoch)
		}
	}
	if err != nil {
		p.kill()
		<-exited
		if p.conn != nil {
			_ = p.conn.Close()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var version *versionError
		if errors.As(err, &version) {
			return nil, fmt.Errorf("worker: the package hare-worker of %s %w", cfg.Python[0], version)
		}
		var protocol *ProtocolError
		if errors.As(err, &protocol) {
			return nil, &CrashError{Reason: err.Error()}
		}
		if strings.HasSuffix(p.said.last(), noWorker) {
			return nil, fmt.Errorf("worker: %s has no package hare-worker: install it on this node by pip install "+
				"./worker in Hare's source, name an interpreter that has it (hare agent --python), or, where PYTHONPATH "+
				"leads to it, pass that on (--pass-env PYTHONPATH)", cfg.Python[0])
		}
		return nil, &CrashError{Reason: p.epitaph()}
	}
	go p.read(exited)
	return p, nil
}

// noWorker is the end of what an interpreter says that does not find the package.
const noWorker = "No module named hare_worker"

// versionError says that the package hare-worker is that of another version of Hare. Another process would say
// the same, so that this is not a *CrashError.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("speaks version %d of the protocol and this agent version %d: install on this node that of the "+
		"agent's version (pip install ./worker in Hare's source)", e.got, Protocol)
}

func checkHello(hello *Message, epoch int64) error {
	switch {
	case hello.Type != Hello || hello.Seq != 0:
		return protocolErrorf("a worker that begins with %q", hello.Type)
	case hello.Epoch != epoch:
		return protocolErrorf("a worker of epoch %d, not %d", hello.Epoch, epoch)
	case hello.Protocol != Protocol:
		return &versionError{got: hello.Protocol}
	}
	return nil
}

// Listen makes a socket; only this user may connect.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > 100 {
		return nil, fmt.Errorf("worker: the path of the socket has more than 100 bytes: %s", path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("worker: %w", err)
	}
	return l, nil
}

// Accept waits for a process of user uid. Connections of others are closed.
func Accept(l *net.UnixListener, uid int) (*net.UnixConn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if CheckPeer(conn, uid) == nil {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// CheckPeer refuses a connection to a process of another user than uid.
func CheckPeer(conn *net.UnixConn, uid int) error {
	peer, err := peerOf(conn)
	if err == nil && int(peer.Uid) != uid {
		err = fmt.Errorf("the other end belongs to user %d", peer.Uid)
	}
	return err
}

func peerOf(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	err2 := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return peer, errors.Join(err, err2)
}

// read gives answers to those who wait for them, until the process has ended.
func (p *process) read(exited <-chan struct{}) {
	r := bufio.NewReaderSize(p.conn, 4096)
	var err error
	for err == nil {
		var m *Message
		if m, err = ReadMessage(r); err == nil {
			err = p.give(m)
		}
	}
	if errors.Is(err, io.EOF) {
		// The process is about to end by itself, and its status says why.
		select {
		case <-exited:
		case <-time.After(time.Second):
		}
	}
	p.kill()
	<-exited
	_ = p.conn.Close()
	p.crash = &CrashError{Reason: p.epitaph()}
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		p.crash.Reason = err.Error()
	}
	p.mu.Lock()
	waiting := p.pending
	p.pending = nil
	p.mu.Unlock()
	close(p.ended)
	for _, c := range waiting {
		c.then(nil, p.crash)
	}
}

// give finds the request that m answers. The answers come in the order of the requests.
func (p *process) give(m *Message) error {
	if m.Epoch != p.epoch {
		return protocolErrorf("an answer of epoch %d in epoch %d", m.Epoch, p.epoch)
	}
	p.mu.Lock()
	c, ok := p.pending[m.Seq]
	delete(p.pending, m.Seq)
	_, earlier := p.pending[m.Seq-1]
	p.mu.Unlock()
	switch {
	case !ok || earlier:
		return protocolErrorf("an answer to request %d, which does not wait for one", m.Seq)
	case m.Type == Faulted && m.Job == c.job:
		c.then(nil, &FaultError{Job: m.Job, Kind: m.Kind, Reason: m.Reason, FootprintBytes: m.FootprintBytes})
	case m.Type != answers[c.request] || m.Job != c.job:
		c.then(nil, &CrashError{Reason: "it broke the protocol"})
		return protocolErrorf("the answer %q for job %.60q to the request %q for job %.60q", m.Type, m.Job,
			c.request, c.job)
	default:
		c.then(m, nil)
	}
	return nil
}

// send sends a request; then is called once, with the answer or an error, by the goroutine that reads
// answers or by send itself. then must not block.
func (p *process) send(m *Message, file *os.File, then func(*Message, error)) {
	p.mu.Lock()
	if p.pending == nil {
		p.mu.Unlock()
		<-p.ended
		then(nil, p.crash)
		return
	}
	p.seq++
	m.Epoch, m.Seq = p.epoch, p.seq
	out, err := AppendMessage(p.out[:0], m)
	if err != nil {
		p.seq--
		p.mu.Unlock()
		then(nil, err)
		return
	}
	p.out = out
	p.pending[m.Seq] = call{request: m.Type, job: m.Job, then: then}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	n, _, err := p.conn.WriteMsgUnix(out, rights, nil)
	if err == nil && n < len(out) {
		_, err = p.conn.Write(out[n:])
	}
	p.mu.Unlock()
	if err != nil {
		p.kill() // The reader tells all who wait.
	}
}

// answer is what a request came to.
type answer struct {
	m   *Message
	err error
}

// call sends a request and waits for its answer.
func (p *process) call(ctx context.Context, m *Message, file *os.File) (*Message, error) {
	return p.wait(ctx, p.begin(m, file))
}

// begin sends a request.
func (p *process) begin(m *Message, file *os.File) <-chan answer {
	done := make(chan answer, 1)
	p.send(m, file, func(m *Message, err error) { done <- answer{m, err} })
	return done
}

// wait waits for the answer. Where ctx ends before, the process is killed: a task cannot be
// interrupted otherwise.
func (p *process) wait(ctx context.Context, done <-chan answer) (*Message, error) {
	select {
	case r := <-done:
		return r.m, r.err
	case <-ctx.Done():
		p.kill()
		<-p.ended
		return nil, ctx.Err()
	}
}

// kill ends the process and those of its group.
func (p *process) kill() {
	p.reap.Lock()
	defer p.reap.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// await waits until the process has ended, ends the others of its group, and takes its status.
// The number of the group may belong to others only after that.
func (p *process) await() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.kill()
	p.reap.Lock()
	p.reaped = true
	p.reap.Unlock()
	_ = p.cmd.Wait()
}

// dead reports whether the process has ended.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// epitaph says how the process ended and what it said last.
func (p *process) epitaph() string {
	how := "it cannot be started"
	if p.cmd.ProcessState != nil {
		how = p.cmd.ProcessState.String()
	}
	if said := p.said.last(); said != "" {
		how += ": " + said
	}
	return how
}

// tail keeps the end of what a process writes.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailBytes = 4096

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(b), nil
}

// last returns the last line that says something.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return strings.ToValidUTF8(strings.TrimSpace(lines[len(lines)-1]), "?")
}
