package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/wire"
)

// instanceJSON encodes an instance as a part of a document.
func instanceJSON(inst *hare.Instance) json.RawMessage {
	var b bytes.Buffer
	_ = wire.EncodeInstance(&b, inst) // a bytes.Buffer never fails
	return b.Bytes()
}

// scheduleJSON encodes a result without the fields that only the result of a solve has.
func scheduleJSON(res *hare.Result) (json.RawMessage, error) {
	var text bytes.Buffer
	if err := wire.EncodeResult(&text, res); err != nil {
		return nil, err
	}
	var d followedResult
	if err := json.Unmarshal(text.Bytes(), &d); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

// followedResult is a result without the fields that only a solve has.
type followedResult struct {
	Hare           string          `json:"hare" enums:"result/v1"`
	InstanceSHA256 string          `json:"instance_sha256"`
	Version        string          `json:"version"`
	Objective      string          `json:"objective" enums:"weighted_jct"`
	Value          json.RawMessage `json:"value" swaggertype:"number"`
	Jobs           jobResultsText  `json:"jobs"`
	Schedule       scheduleText    `json:"schedule"`
} //	@name	FollowedResult

// followedJSON is the plan that a session followed.
type followedJSON struct {
	Seq int64           `json:"seq"`
	AtS json.RawMessage `json:"at_s" swaggertype:"number"`
	// Verified says that result is a schedule for instance that verification accepts.
	Verified bool `json:"verified"`
	// Why says why there is no schedule.
	Why string `json:"why,omitempty"`
	// Renamed gives the session's names of GPUs that have other names in the instance, where each GPU that joined or
	// left is a node of its own.
	Renamed  map[string]string  `json:"renamed,omitempty"`
	Instance instanceText       `json:"instance,omitempty"`
	Result   followedResultText `json:"result,omitempty"`
	// Tasks are the tasks that ended, by start. They are there without a result, and are written one a line.
	Tasks tasksText `json:"tasks,omitempty"`
} //	@name	Followed

// The JSON forms of parts of documents.
type (
	instanceText       = json.RawMessage
	followedResultText = json.RawMessage
	jobResultsText     = json.RawMessage
	scheduleText       = json.RawMessage
	tasksText          = json.RawMessage
)

type taskJSON struct {
	Job        string          `json:"job"`
	Round      int64           `json:"round"`
	GPU        string          `json:"gpu"`
	StartS     json.RawMessage `json:"start_s"`
	ComputeEnd json.RawMessage `json:"compute_end_s"`
	SyncEnd    json.RawMessage `json:"sync_end_s"`
}

// encodeFollowed writes the document {seq, at_s, verified, …} with one line for each
// task.
func encodeFollowed(w io.Writer, f *regret.Followed) error {
	b := bufio.NewWriterSize(w, answerBytes)
	head := followedJSON{Seq: f.Seq, AtS: json.RawMessage(hare.FormatMicros(f.AtUs)), Verified: f.Result != nil,
		Why: f.Why, Renamed: f.Renamed}
	if f.Result != nil {
		head.Instance = instanceJSON(f.Instance)
		var err error
		if head.Result, err = scheduleJSON(f.Result); err != nil {
			return err
		}
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if f.Result == nil {
		text = append(text[:len(text)-1], `,"tasks":[`...)
	}
	if _, err := b.Write(text); err != nil {
		return err
	}
	for i, t := range f.Tasks {
		line, err := json.Marshal(taskJSON{t.Job, t.Round, t.GPU, seconds(t.StartUs), seconds(t.ComputeEndUs),
			seconds(t.EndUs)})
		if err != nil {
			return err
		}
		if i > 0 {
			_ = b.WriteByte(',') // a write error is sticky: Flush returns it
		}
		_ = b.WriteByte('\n')
		_, _ = b.Write(line)
	}
	if f.Result == nil {
		_, _ = b.WriteString("]}")
	}
	_ = b.WriteByte('\n')
	return b.Flush()
}

func seconds(us int64) json.RawMessage { return json.RawMessage(hare.FormatMicros(us)) }
