package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// Protocol is the version of the protocol; a worker of another version is refused.
const Protocol = 2

// MaxFrame is the most bytes of JSON in a frame.
const MaxFrame = 1 << 20

// Type says what a message is.
type Type string

// Requests of the agent, each with the answer of the worker after it. A worker that cannot
// do what was asked answers Faulted instead.
const (
	Register Type = "register" // Registered: the module is imported and the model built
	Attach   Type = "attach"   // Attached: the shared memory that came with the frame is mapped
	Run      Type = "run"      // Done: the gradient of a task is in shared memory
	Step     Type = "step"     // Committed: the gradients were summed and one step was made
	Prefetch Type = "prefetch" // Prefetched: the state is in the device's memory
	Evict    Type = "evict"    // Evicted: it no longer is
	Forget   Type = "forget"   // Forgotten: the job has ended
	Shutdown Type = "shutdown" // Ended: the worker ends
)

// Answers of the worker. Hello is the first message, before any request.
const (
	Hello      Type = "hello"
	Registered Type = "registered"
	Attached   Type = "attached"
	Done       Type = "done"
	Committed  Type = "committed"
	Prefetched Type = "prefetched"
	Evicted    Type = "evicted"
	Forgotten  Type = "forgotten"
	Ended      Type = "ended"
	Faulted    Type = "fault"
)

// answers has the answer that belongs to each request.
var answers = map[Type]Type{Register: Registered, Attach: Attached, Run: Done, Step: Committed,
	Prefetch: Prefetched, Evict: Evicted, Forget: Forgotten, Shutdown: Ended}

// Message is what the JSON of a frame holds. A type uses the fields that it needs.
type Message struct {
	Type Type `json:"type"`
	// Epoch is the number of the worker's start, given by the agent. A message with
	// another epoch is of another process and ends the connection.
	Epoch int64 `json:"epoch"`
	// Seq numbers the requests of an epoch from 1, without gaps; an answer has its request's.
	Seq      int64 `json:"seq"`
	Protocol int   `json:"protocol,omitzero"`
	PID      int   `json:"pid,omitzero"`

	Job       string `json:"job,omitzero"`
	Module    string `json:"module,omitzero"`
	Directory string `json:"directory,omitzero"`
	Tasks     int    `json:"tasks,omitzero"`
	Seed      int64  `json:"seed,omitzero"`
	// Environment is that of a job, as NAME=value.
	Environment []string `json:"environment,omitzero"`
	Round       int64    `json:"round,omitzero"`
	Task        int      `json:"task,omitzero"`
	Version     int64    `json:"version,omitzero"`
	// Initialise asks that the state of build() be written to the shared memory.
	Initialise bool `json:"initialise,omitzero"`

	StateBytes    int64 `json:"state_bytes,omitzero"`
	GradientBytes int64 `json:"gradient_bytes,omitzero"`
	// Loss is nil where the loss was infinite or not a number.
	Loss     *float64 `json:"loss,omitzero"`
	ComputeS float64  `json:"compute_s,omitzero"`

	// Kind of a fault is "module" (the user's code), "oom" (out of memory) or "device" (the
	// device failed, and the worker must be started again).
	Kind           string `json:"kind,omitzero"`
	Reason         string `json:"reason,omitzero"`
	FootprintBytes int64  `json:"footprint_bytes,omitzero"`
}

// ProtocolError says that the other side sent something that is not a message, or that does not
// belong where it came. The connection cannot go on.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "worker: protocol: " + e.Reason }

func protocolErrorf(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// AppendMessage appends the frame of m to b.
func AppendMessage(b []byte, m *Message) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return b, fmt.Errorf("worker: %w", err)
	}
	if len(body) > MaxFrame {
		return b, protocolErrorf("a message of %d bytes; there may be %d", len(body), MaxFrame)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...), nil
}

// ReadMessage reads one frame. It returns io.EOF where r ends before a frame, and a
// *ProtocolError for a frame that is cut, too long, or no message.
func ReadMessage(r io.Reader) (*Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, protocolErrorf("the connection ended inside a frame")
		}
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length < 2 || length > MaxFrame {
		return nil, protocolErrorf("a frame of %d bytes; there may be 2 to %d", length, MaxFrame)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, protocolErrorf("the connection ended inside a frame")
		}
		return nil, err
	}
	m := new(Message)
	if err := json.Unmarshal(body, m, json.RejectUnknownMembers(true)); err != nil {
		return nil, protocolErrorf("a frame that is not a message: %.200v", err)
	}
	return m, m.validate()
}

// validate refuses values that no worker sends.
func (m *Message) validate() error {
	switch {
	case m.Epoch < 1:
		return protocolErrorf("a message of epoch %d", m.Epoch)
	case m.Seq < 0:
		return protocolErrorf("a message with seq %d", m.Seq)
	case m.Round < 0 || m.Task < 0 || m.Version < 0 || m.Tasks < 0:
		return protocolErrorf("a message with a round, task, tasks or version below 0")
	case m.StateBytes < 0 || m.GradientBytes < 0 || m.FootprintBytes < 0:
		return protocolErrorf("a message with a size below 0")
	case !(m.ComputeS >= 0):
		return protocolErrorf("a message with compute_s %v", m.ComputeS)
	}
	return nil
}
