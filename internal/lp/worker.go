package lp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hare-sched/hare/internal/lp/highs"
)

// workerVariable marks the environment of a worker.
const workerVariable = "HARE_LP_WORKER"

// ServeIfWorker makes a process that a pool started a worker and does not return from
// it; in other processes it does nothing. A program that uses a pool of its own
// executable calls ServeIfWorker first in main, a test in TestMain.
func ServeIfWorker() {
	if os.Getenv(workerVariable) != "" {
		os.Exit(WorkerMain(os.Stdin, os.Stdout))
	}
}

// WorkerMain is the whole of `hare lp-worker`: it reads frames from in and answers on
// out until in ends, and returns the exit status. If out is os.Stdout, the pipe is first
// moved away from file descriptor 1, so that nothing that an engine prints can mix with
// the frames. The signals that ask a service to end are then ignored, since the parent
// ends its workers when it is done.
func WorkerMain(in io.Reader, out io.Writer) int {
	if out == io.Writer(os.Stdout) {
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	}
	out, err := protectStdout(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lp worker:", err)
		return 1
	}
	w := worker{in: bufio.NewReaderSize(in, 1<<16), out: out}
	if err := w.serve(); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "lp worker:", err)
		return 1
	}
	return 0
}

type worker struct {
	in    io.Reader
	out   io.Writer
	input []byte // reused between frames
	frame []byte
	chain *highs.Chain // the problem that is kept; nil if there is none
}

// serve always returns an error: io.EOF when there are no more requests.
func (w *worker) serve() error {
	for {
		t, payload, err := readFrame(w.in, w.input, func(frameType) int64 { return maxRequestBytes })
		if err != nil {
			return err
		}
		w.input = payload
		if err := w.answer(t, payload); err != nil {
			return err
		}
	}
}

func (w *worker) answer(t frameType, payload []byte) error {
	w.frame = newFrame(w.frame)
	switch t {
	case frameConfigure:
		version, err := configure(payload)
		if err != nil {
			return w.fail(err)
		}
		w.frame = binary.LittleEndian.AppendUint32(w.frame, protocolVersion)
		w.frame = append(w.frame, version...)
		return w.send(frameHello)
	case frameSolve, frameBegin, frameContinue:
		seq, p, err := decodeProblem(payload)
		if err != nil {
			return w.fail(err)
		}
		res, err := w.solve(t, highs.Model(*p))
		if err != nil {
			return w.fail(err)
		}
		w.frame = appendSolution(w.frame, seq, &Solution{
			Objective: res.Objective, X: res.X, RowDual: res.RowDual, Iterations: res.Iterations,
		})
		return w.send(frameSolution)
	default:
		return w.fail(fmt.Errorf("unknown frame type %d", t))
	}
}

// solve solves a problem alone, or as the first or a later one of a chain.
func (w *worker) solve(t frameType, m highs.Model) (*highs.Result, error) {
	if w.chain != nil && t != frameContinue {
		w.chain.Close()
		w.chain = nil
	}
	switch {
	case t == frameSolve:
		return highs.Solve(m)
	case t == frameContinue && w.chain == nil:
		return nil, errors.New("there is no problem to continue from")
	case t == frameContinue:
		if err := w.chain.Extend(m); err != nil {
			return nil, err
		}
	default:
		chain, err := highs.Begin(m)
		if err != nil {
			return nil, err
		}
		w.chain = chain
	}
	return w.chain.Solve()
}

// configure applies the limits that the parent sends and returns the engine's version.
func configure(payload []byte) (string, error) {
	c := payloadReader{rest: payload}
	version, memory := c.uint32(), c.uint64()
	if c.short || version != protocolVersion {
		return "", fmt.Errorf("protocol version %d, not %d", version, protocolVersion)
	}
	engine, err := highs.Version()
	if err != nil {
		return "", err
	}
	if err := limitSelf(int64(memory)); err != nil {
		return "", err
	}
	return engine, nil
}

func (w *worker) send(t frameType) error {
	_, err := w.out.Write(seal(w.frame, t))
	return err
}

func (w *worker) fail(err error) error {
	code := failEngine
	var status *highs.StatusError
	switch {
	case errors.Is(err, highs.ErrUnavailable):
		code = failUnavailable
	case errors.As(err, &status) && status.Status == highs.Infeasible, errors.Is(err, ErrInfeasible):
		code = failInfeasible
	case errors.As(err, &status) && status.Status == highs.Unbounded:
		code = failUnbounded
	}
	text := err.Error()
	w.frame = append(newFrame(w.frame), byte(code))
	w.frame = append(w.frame, text[:min(len(text), maxFailureBytes-1)]...)
	return w.send(frameFailure)
}

// decodeFailure is the inverse of fail.
func decodeFailure(payload []byte) error {
	if len(payload) == 0 {
		return errTruncated
	}
	text := string(payload[1:])
	switch failureCode(payload[0]) {
	case failUnavailable:
		return fmt.Errorf("%w: %s", ErrUnavailable, text)
	case failInfeasible:
		return fmt.Errorf("%w (%s)", ErrInfeasible, text)
	case failUnbounded:
		return fmt.Errorf("%w (%s)", ErrUnbounded, text)
	default:
		return &EngineError{Detail: text}
	}
}
