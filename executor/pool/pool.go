// Package pool is the process of a node that computes for relaxed round jobs: any number of jobs share its devices,
// round by round. For some jobs the node is the parameter server, which adds up the gradients of each round and makes
// the steps; for others it computes tasks, takes the parameters from their parameter servers, and brings the gradients
// there. One Python worker a device serves all jobs (package worker).
//
// An agent starts the process under a runner, as it starts a task, so that it ends when the agent's lease runs out.
// The directory of the process has pool.json (what the devices are; by the agent) and socket, where the agent asks. An
// agent that is killed and started again connects again, and gets what goes on and what has ended meanwhile.
package pool

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	fastjson "github.com/go-json-experiment/json"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Names of files in the directory of the process.
const (
	specFile   = "pool.json"
	socketFile = "socket"
)

// Spec is what an agent says of its node.
type Spec struct {
	Devices []Device `json:"devices"`
	// Python is the command of the interpreter; empty means python3.
	Python []string `json:"python,omitempty"`
	// MemoryBytes is the memory of each device for the state of jobs; zero means no limit.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// LogLimit is how many bytes of the output of a parameter server are kept.
	LogLimit int64 `json:"log_limit"`
}

// Device is a device of the node.
type Device struct {
	Type string `json:"type"`
	// Visible is what its worker finds as CUDA_VISIBLE_DEVICES; "" stands for a device that CUDA does not know.
	Visible string `json:"visible"`
}

// WriteSpec writes what the process of a directory finds.
func WriteSpec(dir string, s *Spec) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, specFile), text, 0o600)
}

// RequestType says what an agent asks.
type RequestType string

// The requests of an agent. Only Hold and Ping are answered; what becomes of parameter servers and tasks is reported.
const (
	Serve   RequestType = "home"    // be the parameter server of a job
	Compute RequestType = "compute" // compute a task
	Stop    RequestType = "stop"    // end a parameter server when it has saved, or a task, within the grace
	Kill    RequestType = "kill"    // end a parameter server or task at once
	Forget  RequestType = "forget"  // the server has the end of the parameter server or task
	Hold    RequestType = "hold"    // leave the devices to other programs until the next Hold
	Ping    RequestType = "ping"    // say Pong
	End     RequestType = "end"     // end the process
)

// Request is what an agent asks.
type Request struct {
	Type RequestType `json:"type"`
	// Order is that of Serve and Compute.
	Order *clusterdoc.Order `json:"order,omitempty"`
	// Checkpoint and Output are, of Serve, the path of the checkpoint and the directory that keeps the output.
	Checkpoint string `json:"checkpoint,omitempty"`
	Output     string `json:"output,omitempty"`
	// Task and GraceS are those of Stop, Kill and Forget.
	Task   *clusterdoc.TaskID `json:"task,omitempty"`
	GraceS float64            `json:"grace_s,omitempty"`
	// Number and Devices are those of Hold.
	Number  int64 `json:"number,omitempty"`
	Devices []int `json:"devices,omitempty"`
}

// EventType says what the process tells its agent.
type EventType string

// The events of a process. An agent that has connected gets a Report of each parameter server and task, then Ready.
// The state of one that has not said anything yet is TaskOrdered.
const (
	Report EventType = "report" // where a parameter server or task stands
	Ready  EventType = "ready"
	Held   EventType = "held" // no worker is left on the devices of the Hold with the number
	Pong   EventType = "pong" // the process does what it is asked
)

// Event is what the process tells its agent.
type Event struct {
	Type   EventType              `json:"type"`
	Report *clusterdoc.TaskReport `json:"report,omitempty"`
	Number int64                  `json:"number,omitempty"`
}

// maxMessage is the most bytes of a message between an agent and the process.
const maxMessage = 1 << 20

// MessageError says that the other side sent something that is not a message.
type MessageError struct{ Reason string }

func (e *MessageError) Error() string { return "pool: " + e.Reason }

// appendMessage appends a frame: a length of four bytes, the greatest first, and so many bytes of JSON.
func appendMessage(b []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return b, err
	}
	if len(text) > maxMessage {
		return b, &MessageError{fmt.Sprintf("a message of %d bytes; there may be %d", len(text), maxMessage)}
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...), nil
}

// readMessage reads a frame. It returns io.EOF where r ends before one.
func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 2 || n > maxMessage {
		return &MessageError{fmt.Sprintf("a message of %d bytes; there may be 2 to %d", n, maxMessage)}
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return &MessageError{"the connection ended inside a message"}
	}
	if err := fastjson.Unmarshal(text, v); err != nil { // every task waits for this
		return &MessageError{fmt.Sprintf("what came is not a message: %.100v", err)}
	}
	return nil
}

// check refuses a request that lacks what its type needs.
func (q *Request) check(devices int) error {
	o := q.Order
	switch q.Type {
	case Serve:
		if o == nil || o.Home == nil || q.Checkpoint == "" || q.Output == "" || o.Home.Tasks < 1 {
			return &MessageError{"a parameter server lacks its order, checkpoint or output"}
		}
	case Compute:
		if o == nil || o.Compute == nil || o.Compute.Tasks < 1 {
			return &MessageError{"a task lacks its order"}
		}
		if c := o.Compute; c.Device < 0 || c.Device >= devices || c.Task < 0 || c.Task >= c.Tasks || c.Round < 0 {
			return &MessageError{fmt.Sprintf("task %d of round %d on device %d: the node has %d devices", c.Task, c.Round,
				c.Device, devices)}
		}
	case Stop, Kill, Forget:
		if q.Task == nil || !(q.GraceS >= 0) {
			return &MessageError{"a request names no task"}
		}
	case Hold:
		for _, d := range q.Devices {
			if d < 0 || d >= devices {
				return &MessageError{fmt.Sprintf("device %d of %d", d, devices)}
			}
		}
	case Ping, End:
	default:
		return &MessageError{fmt.Sprintf("the unknown request %.20q", q.Type)}
	}
	return nil
}
