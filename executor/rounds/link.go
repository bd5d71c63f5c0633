package rounds

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

// The programs of a job on several nodes talk over one connection each, from the program of another node to that of
// rank 0, which holds the parameters. A frame is the length of a header as four bytes, the greatest first, the header
// as JSON, and as many bytes as the header says. The program of rank 0 asks, the other answers under the same number;
// only the first frame, hello, is not asked for.

// kind says what a frame is.
type kind string

const (
	kindHello      kind = "hello"      // the rank and the round of the checkpoint
	kindFetch      kind = "fetch"      // asks for the checkpoint
	kindState      kind = "state"      // brings the state of a round
	kindRun        kind = "run"        // asks for the gradient of a task
	kindCheckpoint kind = "checkpoint" // brings a checkpoint to be kept
	kindEnd        kind = "end"        // the job has done its last round
)

// header is what a frame says beside its bytes.
type header struct {
	Kind   kind  `json:"kind"`
	Number int64 `json:"number,omitempty"` // of the request, from 1 in each connection
	Round  int64 `json:"round,omitempty"`
	Task   int   `json:"task,omitempty"`
	Device int   `json:"device,omitempty"` // of the node that computes

	// Of hello, where Round is that of the node's checkpoint, −1 where the node has none.
	Version int    `json:"version,omitempty"`
	Job     string `json:"job,omitempty"`
	Rank    int    `json:"rank,omitempty"`

	Loss     *float64 `json:"loss,omitempty"` // of a task
	ComputeS float64  `json:"compute_s,omitempty"`

	Bytes int64  `json:"bytes,omitempty"`
	CRC   uint32 `json:"crc,omitempty"` // CRC-32C of the bytes
}

// linkVersion is the version of what the programs of a job tell each other.
const linkVersion = 1

const (
	maxHeader = 64 << 10
	reserved  = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is a header and its bytes.
type frame struct {
	header
	payload []byte
}

// frameError says that the other side broke the rules of the connection.
type frameError struct{ reason string }

func (e *frameError) Error() string { return "a broken frame: " + e.reason }

// writeFrame writes a frame at once.
func writeFrame(w io.Writer, f *frame) error {
	f.Bytes = int64(len(f.payload))
	f.CRC = crc32.Checksum(f.payload, castagnoli)
	text, err := json.Marshal(&f.header)
	if err != nil {
		return err
	}
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	if _, err := w.Write(b); err != nil || len(f.payload) == 0 {
		return err
	}
	_, err = w.Write(f.payload)
	return err
}

// readFrame reads a frame whose bytes are at most a number.
func readFrame(r io.Reader, most int64) (*frame, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxHeader {
		return nil, &frameError{fmt.Sprintf("a header of %d bytes", n)}
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, cut(err)
	}
	f := new(frame)
	if err := json.Unmarshal(text, &f.header); err != nil {
		return nil, &frameError{fmt.Sprintf("%.100v", err)}
	}
	if f.Bytes < 0 || f.Bytes > most {
		return nil, &frameError{fmt.Sprintf("%d bytes, of at most %d", f.Bytes, most)}
	}
	// Of what is promised, not more is reserved before it comes.
	var b bytes.Buffer
	b.Grow(int(min(f.Bytes, reserved)) + bytes.MinRead)
	if got, err := b.ReadFrom(io.LimitReader(r, f.Bytes)); err != nil || got < f.Bytes {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	f.payload = b.Bytes()
	if crc32.Checksum(f.payload, castagnoli) != f.CRC {
		return nil, &frameError{"the checksum of its bytes is not that of its header"}
	}
	return f, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// link is a connection on which requests are answered. Safe for concurrent use.
type link struct {
	conn  net.Conn
	most  int64 // bytes of a frame that is received
	write sync.Mutex
	// bring is held while the state of a round is sent. round is the one that the other side has; −1 is none.
	bring sync.Mutex
	round int64

	mu      sync.Mutex
	number  int64
	pending map[int64]chan *frame
	err     error         // why the connection is over
	over    chan struct{} // closed when err is set
}

func newLink(conn net.Conn, most int64) *link {
	return &link{conn: conn, most: most, round: -1, pending: map[int64]chan *frame{}, over: make(chan struct{})}
}

// read hands answers to those who wait for them, until the connection is over.
func (l *link) read(r *bufio.Reader) {
	for {
		f, err := readFrame(r, l.most)
		if err == nil {
			l.mu.Lock()
			c := l.pending[f.Number]
			delete(l.pending, f.Number)
			l.mu.Unlock()
			if c != nil {
				c <- f
				continue
			}
			err = &frameError{fmt.Sprintf("an answer to request %d, which nobody waits for", f.Number)}
		}
		l.end(err)
		return
	}
}

// end ends the connection for a reason.
func (l *link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.over)
	}
	_ = l.conn.Close()
}

// linkError says that a connection is over. What was asked may be asked again on another one.
type linkError struct{ err error }

func (e *linkError) Error() string { return "the connection is over: " + e.err.Error() }

func (e *linkError) Unwrap() error { return e.err }

// call asks and waits for the answer.
func (l *link) call(ctx context.Context, f *frame) (*frame, error) {
	answer := make(chan *frame, 1)
	l.mu.Lock()
	l.number++
	f.Number = l.number
	l.pending[f.Number] = answer
	l.mu.Unlock()
	if err := l.send(f); err != nil {
		l.end(err)
	}
	var a *frame
	select {
	case a = <-answer:
	case <-l.over:
		select {
		case a = <-answer: // its last one, which came before the end
		default:
			return nil, &linkError{l.err}
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.Kind != f.Kind {
		err := &frameError{fmt.Sprintf("the answer %q to %q", a.Kind, f.Kind)}
		l.end(err)
		return nil, &linkError{err}
	}
	return a, nil
}

// send writes a frame; frames of several goroutines follow one another.
func (l *link) send(f *frame) error {
	l.write.Lock()
	defer l.write.Unlock()
	return writeFrame(l.conn, f)
}
