// Package link is a connection between the processes of two nodes that train one round job: frames with checksums over
// TLS, in which both sides know the secret of the attempt, and requests that are answered in any order.
package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
)

// A frame is the length of a header as four bytes, the greatest first, the header as JSON, and as many bytes as the
// header says. One side asks, and the other answers under the same number; only the first frame, hello, is not asked
// for.

// Kind says what a frame is. The packages that use connections name their kinds.
type Kind string

// Hello is the first frame of a connection, from the side that has made it.
const Hello Kind = "hello"

// Header is what a frame says besides its bytes. A kind uses the members that it needs.
type Header struct {
	Kind   Kind  `json:"kind"`
	Number int64 `json:"number,omitempty"` // of the request, from 1 in each connection
	Round  int64 `json:"round,omitempty"`
	Task   int   `json:"task,omitempty"`
	Device int   `json:"device,omitempty"` // of the node that computes

	// Of hello.
	Version int    `json:"version,omitempty"`
	Job     string `json:"job,omitempty"`
	Attempt int64  `json:"attempt,omitempty"`
	Rank    int    `json:"rank,omitempty"`

	Loss     *float64 `json:"loss,omitempty"` // of a task
	ComputeS float64  `json:"compute_s,omitempty"`

	// Reason says in an answer why the request is refused.
	Reason string `json:"reason,omitempty"`

	Bytes int64  `json:"bytes,omitempty"`
	CRC   uint32 `json:"crc,omitempty"` // CRC-32C of the bytes
}

// Version is the version of what the two sides tell each other.
const Version = 1

const (
	maxHeader = 64 << 10
	reserved  = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Frame is a header and its bytes.
type Frame struct {
	Header
	Payload []byte
}

// FrameError says that the other side broke the rules of the connection.
type FrameError struct{ Reason string }

func (e *FrameError) Error() string { return "a broken frame: " + e.Reason }

// WriteFrame writes a frame at once, and sets Bytes and CRC.
func WriteFrame(w io.Writer, f *Frame) error {
	f.Bytes = int64(len(f.Payload))
	f.CRC = crc32.Checksum(f.Payload, castagnoli)
	text, err := json.Marshal(&f.Header)
	if err != nil {
		return err
	}
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	if _, err := w.Write(b); err != nil || len(f.Payload) == 0 {
		return err
	}
	_, err = w.Write(f.Payload)
	return err
}

// ReadFrame reads a frame that has at most a number of bytes besides its header. It returns io.EOF where r ends before
// a frame, and a *FrameError for one that breaks the rules.
func ReadFrame(r io.Reader, most int64) (*Frame, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxHeader {
		return nil, &FrameError{fmt.Sprintf("a header of %d bytes", n)}
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, cut(err)
	}
	f := new(Frame)
	if err := json.Unmarshal(text, &f.Header); err != nil {
		return nil, &FrameError{fmt.Sprintf("%.100v", err)}
	}
	if f.Bytes < 0 || f.Bytes > most {
		return nil, &FrameError{fmt.Sprintf("%d bytes, of at most %d", f.Bytes, most)}
	}
	// Of what is promised, not more is reserved before it comes.
	var b bytes.Buffer
	b.Grow(int(min(f.Bytes, reserved)) + bytes.MinRead)
	if got, err := b.ReadFrom(io.LimitReader(r, f.Bytes)); err != nil || got < f.Bytes {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	f.Payload = b.Bytes()
	if crc32.Checksum(f.Payload, castagnoli) != f.CRC {
		return nil, &FrameError{"the checksum of its bytes is not that of its header"}
	}
	return f, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Link is a connection on which requests are answered. Safe for concurrent use.
type Link struct {
	conn  net.Conn
	in    *bufio.Reader
	most  int64         // bytes of a frame that is received
	write chan struct{} // has a token while a frame is written

	mu      sync.Mutex
	number  int64
	pending map[int64]chan *Frame
	err     error         // why the connection is over
	over    chan struct{} // closed when err is set
}

// New returns a connection whose frames have at most a number of bytes.
func New(conn net.Conn, most int64) *Link {
	return &Link{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), most: most, write: make(chan struct{}, 1),
		pending: map[int64]chan *Frame{}, over: make(chan struct{})}
}

// Over is closed when the connection is over.
func (l *Link) Over() <-chan struct{} { return l.over }

// Receive waits for the next frame. The side that answers calls it.
func (l *Link) Receive() (*Frame, error) { return ReadFrame(l.in, l.most) }

// Read hands answers to those who wait for them, until the connection is over. The side that asks calls it.
func (l *Link) Read() {
	for {
		f, err := l.Receive()
		if err == nil {
			l.mu.Lock()
			c := l.pending[f.Number]
			delete(l.pending, f.Number)
			l.mu.Unlock()
			if c != nil {
				c <- f
				continue
			}
			err = &FrameError{fmt.Sprintf("an answer to request %d, which nobody waits for", f.Number)}
		}
		l.End(err)
		return
	}
}

// End ends the connection for a reason.
func (l *Link) End(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.over)
	}
	_ = l.conn.Close()
}

// OverError says that a connection is over. What was asked may be asked again on another one.
type OverError struct{ err error }

func (e *OverError) Error() string { return "the connection is over: " + e.err.Error() }

// Unwrap returns why.
func (e *OverError) Unwrap() error { return e.err }

// Call asks and waits for the answer, which has the kind of the request. The error is an *OverError where the
// connection has ended before. Where ctx ends while the request is written, the connection ends, because the other
// side cannot know where the next frame begins.
func (l *Link) Call(ctx context.Context, f *Frame) (*Frame, error) {
	answer := make(chan *Frame, 1)
	l.mu.Lock()
	l.number++
	f.Number = l.number
	l.pending[f.Number] = answer
	l.mu.Unlock()
	if err := l.send(ctx, f); err != nil {
		l.mu.Lock()
		delete(l.pending, f.Number)
		l.mu.Unlock()
		return nil, err
	}
	var a *Frame
	select {
	case a = <-answer:
	case <-l.over:
		select {
		case a = <-answer: // its last one, which came before the end
		default:
			return nil, &OverError{l.err}
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.Kind != f.Kind {
		err := &FrameError{fmt.Sprintf("the answer %q to %q", a.Kind, f.Kind)}
		l.End(err)
		return nil, &OverError{err}
	}
	return a, nil
}

// send writes a request. An error says that ctx has ended; one of the connection ends that.
func (l *Link) send(ctx context.Context, f *Frame) error {
	select {
	case l.write <- struct{}{}:
	case <-l.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.write }()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	written := context.AfterFunc(ctx, func() { l.End(ctx.Err()) })
	err := WriteFrame(l.conn, f)
	if !written() {
		return ctx.Err()
	}
	if err != nil {
		l.End(err)
	}
	return nil
}

// Send writes a frame; frames of several goroutines follow one another.
func (l *Link) Send(f *Frame) error {
	l.write <- struct{}{}
	defer func() { <-l.write }()
	return WriteFrame(l.conn, f)
}
