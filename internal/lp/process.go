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

// process is one worker as its parent sees it. A process serves one request at a time.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
	stderr  prefixBuffer
	version string        // the version of the engine
	done    chan struct{} // closed when the process has been reaped
	seq     uint64
	solves  int
	frame   []byte // reused between requests
	answer  []byte
}

// newProcess prepares a worker; the caller starts the command.
func newProcess(command, env []string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stderr = &p.stderr
	// A grandchild that holds stderr open must not delay the reaping.
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

// reap waits for the process to end. It must run once after a successful start.
func (ps *process) reap() {
	_ = ps.cmd.Wait() // the exit status adds nothing to stderr
	close(ps.done)
}

func (ps *process) kill() { _ = ps.cmd.Process.Kill() }

func (ps *process) exited() bool {
	select {
	case <-ps.done:
		return true
	default:
		return false
	}
}

func (ps *process) fail(op string, err error) error {
	return &WorkerError{Op: op, Err: err, Stderr: ps.stderr.String()}
}

// finalStderr returns what a dying process wrote, if it ends within 100 ms.
func (ps *process) finalStderr() string {
	select {
	case <-ps.done:
	case <-time.After(100 * time.Millisecond):
	}
	return ps.stderr.String()
}

// handshake sends the memory limit and reads the engine's version.
func (ps *process) handshake(memory int64) error {
	ps.frame = binary.LittleEndian.AppendUint32(newFrame(ps.frame), protocolVersion)
	ps.frame = binary.LittleEndian.AppendUint64(ps.frame, uint64(memory))
	t, payload, err := ps.exchange(frameConfigure, frameHello, maxHelloBytes)
	if err != nil {
		return err
	}
	if t == frameFailure {
		return decodeFailure(payload)
	}
	c := payloadReader{rest: payload}
	if v := c.uint32(); c.short || v != protocolVersion {
		return ps.fail("answer", fmt.Errorf("protocol version %d, not %d", v, protocolVersion))
	}
	ps.version = string(c.rest)
	return nil
}

// solve sends a problem, or the part of it that the worker lacks, and returns the solution of the whole. It returns a
// *WorkerError if the worker must not be used again.
func (ps *process) solve(ask frameType, part, problem *Problem) (*Solution, error) {
	ps.seq++
	ps.solves++
	ps.frame = appendProblem(newFrame(ps.frame), ps.seq, part)
	t, payload, err := ps.exchange(ask, frameSolution, solutionBytes(problem))
	if err != nil {
		return nil, err
	}
	if t == frameFailure {
		return nil, decodeFailure(payload)
	}
	sol, err := decodeSolution(payload, ps.seq, problem)
	if err != nil {
		return nil, ps.fail("answer", err)
	}
	return sol, nil
}

// exchange sends ps.frame as type ask and reads a frame of type want with at most n
// bytes, or a failure.
func (ps *process) exchange(ask, want frameType, n int64) (frameType, []byte, error) {
	if _, err := ps.in.Write(seal(ps.frame, ask)); err != nil {
		return 0, nil, ps.fail("write", err)
	}
	t, payload, err := readFrame(ps.out, ps.answer, func(t frameType) int64 {
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
		return 0, nil, ps.fail("read", err)
	}
	ps.answer = payload
	return t, payload, nil
}

// prefixBuffer keeps the first bytes written to it: a crash prints its reason first and
// its goroutines afterwards.
type prefixBuffer struct {
	mu  sync.Mutex
	buf []byte
}

const headBytes = 4 << 10

func (pb *prefixBuffer) Write(b []byte) (int, error) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	pb.buf = append(pb.buf, b[:min(len(b), headBytes-len(pb.buf))]...)
	return len(b), nil
}

func (pb *prefixBuffer) String() string {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	return string(bytes.TrimSpace(pb.buf))
}
