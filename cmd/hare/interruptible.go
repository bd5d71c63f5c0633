package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errInterrupted is the error of reads and writes that were interrupted.
var errInterrupted = errors.New("interrupted")

// interruptibleReader reads in a goroutine, so that Read returns when stop is closed
// even while the reader below blocks, as standard input does. It reads one block ahead.
// The goroutine ends with the reader below or with the process.
type interruptibleReader struct {
	stop   <-chan struct{}
	blocks chan readBlock
	free   chan []byte // buffers to read into
	block  readBlock   // the rest of the block from which Read copies
	buffer []byte      // the buffer of block; nil where there is no block
}

type readBlock struct {
	data []byte
	err  error
}

func newInterruptibleReader(stop <-chan struct{}, below io.Reader) *interruptibleReader {
	const size, buffers = 1 << 16, 2
	r := &interruptibleReader{stop: stop, blocks: make(chan readBlock), free: make(chan []byte, buffers)}
	for range buffers {
		r.free <- make([]byte, size)
	}
	go func() {
		for {
			var buf []byte
			select {
			case buf = <-r.free:
			case <-stop:
				return
			}
			n, err := below.Read(buf)
			select {
			case r.blocks <- readBlock{buf[:n], err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return r
}

// Read returns errInterrupted once stop is closed and the present block has been read.
func (ir *interruptibleReader) Read(p []byte) (int, error) {
	for len(ir.block.data) == 0 {
		if ir.block.err != nil {
			return 0, ir.block.err
		}
		if ir.buffer != nil {
			ir.free <- ir.buffer
			ir.buffer = nil
		}
		select {
		case ir.block = <-ir.blocks:
			ir.buffer = ir.block.data[:cap(ir.block.data)]
		case <-ir.stop:
			return 0, errInterrupted
		}
	}
	n := copy(p, ir.block.data)
	ir.block.data = ir.block.data[n:]
	return n, nil
}

// interruptibleWriter writes in a goroutine, so that Write returns when stop is closed
// even while the writer below blocks. Every later Write fails too, because the
// goroutine still holds the bytes of the interrupted Write.
type interruptibleWriter struct {
	stop  <-chan struct{}
	bytes chan []byte
	done  chan writeEnd
	err   error
}

type writeEnd struct {
	n   int
	err error
}

func newInterruptibleWriter(stop <-chan struct{}, below io.Writer) *interruptibleWriter {
	w := &interruptibleWriter{stop: stop, bytes: make(chan []byte), done: make(chan writeEnd, 1)}
	go func() {
		for p := range w.bytes {
			n, err := below.Write(p)
			w.done <- writeEnd{n, err}
		}
	}()
	return w
}

// Write returns errInterrupted once stop is closed, unless p has been written.
func (iw *interruptibleWriter) Write(p []byte) (int, error) {
	if iw.err != nil {
		return 0, iw.err
	}
	iw.bytes <- p
	select {
	case end := <-iw.done:
		return end.n, end.err
	case <-iw.stop:
		iw.err = errInterrupted
		return 0, iw.err
	}
}

// Close ends the goroutine once its last write has returned.
func (iw *interruptibleWriter) Close() { close(iw.bytes) }

// unreadGrace is the grace period for reading the answers after the first signal.
const unreadGrace = 2 * time.Second

// secondSignal returns a channel that is closed at the second signal, or unreadGrace
// after the first signal has ended ctx. Until then a signal does not end the
// process; a third signal does. The caller must call stop.
func secondSignal(ctx context.Context) (second <-chan struct{}, stop func()) {
	signals, closed, ended := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(closed)
		defer signal.Stop(signals)
		first, grace := ctx.Done(), (<-chan time.Time)(nil)
		for n := 0; n < 2; {
			select {
			case <-signals:
				n++
			case <-first:
				first, grace = nil, time.After(unreadGrace)
			case <-grace:
				return
			case <-ended:
				return
			}
		}
	}()
	return closed, func() { close(ended); <-closed }
}
