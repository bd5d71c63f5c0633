package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/regret"
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
	var d struct {
		Hare           string          `json:"hare"`
		InstanceSHA256 string          `json:"instance_sha256"`
		Version        string          `json:"version"`
		Objective      string          `json:"objective"`
		Value          json.RawMessage `json:"value"`
		Jobs           json.RawMessage `json:"jobs"`
		Schedule       json.RawMessage `json:"schedule"`
	}
	if err := json.Unmarshal(text.Bytes(), &d); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

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
	head := struct {
		Seq      int64             `json:"seq"`
		AtS      json.RawMessage   `json:"at_s"`
		Verified bool              `json:"verified"`
		Why      string            `json:"why,omitempty"`
		Renamed  map[string]string `json:"renamed,omitempty"`
		Instance json.RawMessage   `json:"instance,omitempty"`
		Result   json.RawMessage   `json:"result,omitempty"`
	}{Seq: f.Seq, AtS: json.RawMessage(hare.FormatMicros(f.AtUs)), Verified: f.Result != nil, Why: f.Why,
		Renamed: f.Renamed}
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
