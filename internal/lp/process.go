package lp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// process is one worker as its parent sees it. It serves one request at a time.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
	stderr  head
	version string        // of the engine
	done    chan struct{} // closed when the process has been reaped
	seq     uint64
	solves  int
	frame   []byte // kept between requests
	answer  []byte
}

// newProcess prepares a worker; start runs the command.
func newProcess(command, env []string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stderr = &p.stderr
	// A grandchild that holds stderr open must not hold up the reaping.
	p.cmd.WaitDelay = time.Second
	bindToParent(p.cmd)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, out
	return p, nil
}

// reap waits for the process and must run once after a successful start.
func (p *process) reap() {
	_ = p.cmd.Wait() // the exit status says nothing that stderr does not
	close(p.done)
}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) fail(op string, err error) error {
	return &WorkerError{Op: op, Err: err, Stderr: p.stderr.String()}
}

// lastWords is what a dying process wrote, when that comes soon.
func (p *process) lastWords() string {
	select {
	case <-p.done:
	case <-time.After(100 * time.Millisecond):
	}
	return p.stderr.String()
}

// handshake sends the memory limit and learns the engine's version.
func (p *process) handshake(memory int64) error {
	p.frame = binary.LittleEndian.AppendUint32(newFrame(p.frame), protocolVersion)
	p.frame = binary.LittleEndian.AppendUint64(p.frame, uint64(memory))
	t, payload, err := p.exchange(frameConfigure, frameHello, maxHelloBytes)
	if err != nil {
		return err
	}
	if t == frameFailure {
		return decodeFailure(payload)
	}
	c := cursor{rest: payload}
	if v := c.uint32(); c.short || v != protocolVersion {
		return p.fail("answer", fmt.Errorf("protocol version %d, not %d", v, protocolVersion))
	}
	p.version = string(c.rest)
	return nil
}

// solve returns a *WorkerError when the worker must not be used again.
func (p *process) solve(problem *Problem) (*Solution, error) {
	p.seq++
	p.solves++
	p.frame = appendProblem(newFrame(p.frame), p.seq, problem)
	t, payload, err := p.exchange(frameSolve, frameSolution, solutionBytes(problem))
	if err != nil {
		return nil, err
	}
	if t == frameFailure {
		return nil, decodeFailure(payload)
	}
	sol, err := decodeSolution(payload, p.seq, problem)
	if err != nil {
		return nil, p.fail("answer", err)
	}
	return sol, nil
}

// exchange sends p.frame as type ask and reads a frame of type want with at
// most n bytes, or a failure.
func (p *process) exchange(ask, want frameType, n int64) (frameType, []byte, error) {
	if _, err := p.in.Write(seal(p.frame, ask)); err != nil {
		return 0, nil, p.fail("write", err)
	}
	t, payload, err := readFrame(p.out, p.answer, func(t frameType) int64 {
		switch t {
		case want:
			return n
		case frameFailure:
			return maxFailureBytes
		default:
			return -1
		}
	})
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("ended without an answer")
		}
		return 0, nil, p.fail("read", err)
	}
	p.answer = payload
	return t, payload, nil
}

// head keeps the first bytes written to it: a crash says what it is first and
// prints its goroutines afterwards.
type head struct {
	mu  sync.Mutex
	buf []byte
}

const headBytes = 4 << 10

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, b[:min(len(b), headBytes-len(h.buf))]...)
	return len(b), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.TrimSpace(h.buf))
}
