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

// errInterrupted is the error of reads and writes that were given up.
var errInterrupted = errors.New("interrupted")

// interruptibleReader reads in a goroutine, so that Read returns when stop is
// closed although the reader below waits, as standard input does. It reads one
// block ahead. The goroutine ends with the reader below or with the process.
type interruptibleReader struct {
	stop   <-chan struct{}
	blocks chan readBlock
	free   chan []byte // buffers to read into
	block  readBlock   // what is left of the block that Read hands out
	buffer []byte      // where that block lies; nil when none does
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

// Read returns errInterrupted once stop is closed and the block is used up.
func (r *interruptibleReader) Read(p []byte) (int, error) {
	for len(r.block.data) == 0 {
		if r.block.err != nil {
			return 0, r.block.err
		}
		if r.buffer != nil {
			r.free <- r.buffer
			r.buffer = nil
		}
		select {
		case r.block = <-r.blocks:
			r.buffer = r.block.data[:cap(r.block.data)]
		case <-r.stop:
			return 0, errInterrupted
		}
	}
	n := copy(p, r.block.data)
	r.block.data = r.block.data[n:]
	return n, nil
}

// interruptibleWriter writes in a goroutine, so that Write returns when stop is
// closed although nobody reads what was written. Every later Write fails too:
// the goroutine still holds the bytes of the one that was given up.
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

// Write returns errInterrupted once stop is closed and p was not written yet.
func (w *interruptibleWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.bytes <- p
	select {
	case end := <-w.done:
		return end.n, end.err
	case <-w.stop:
		w.err = errInterrupted
		return 0, w.err
	}
}

// Close ends the goroutine once its last write is done.
func (w *interruptibleWriter) Close() { close(w.bytes) }

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
