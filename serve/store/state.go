package store

import (
	"encoding/json"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// SolveState is the content of a record, in JSON.
type SolveState struct {
	Tenant      string          `json:"tenant,omitempty"`
	Status      string          `json:"status"`
	Termination string          `json:"termination,omitempty"`
	CreatedUs   int64           `json:"created_us"`
	BeganUs     int64           `json:"began_us"`
	StartedUs   int64           `json:"started_us,omitempty"`
	EndedUs     int64           `json:"ended_us,omitempty"`
	Hash        string          `json:"instance_sha256"`
	Options     StoredOptions   `json:"options"`
	Jobs        int             `json:"jobs"`
	GPUs        int             `json:"gpus"`
	Value       json.RawMessage `json:"value,omitempty"`
	Bound       json.RawMessage `json:"bound,omitempty"`
	Error       string          `json:"error,omitempty"`
	Events      int64           `json:"events,omitempty"` // the number of events, set at the end
	Attached    bool            `json:"attached,omitempty"`
	Cancelled   bool            `json:"cancelled,omitempty"` // a caller asked for the end of the solve
	Cached      bool            `json:"cached,omitempty"`
	Resumed     bool            `json:"resumed,omitempty"`
	Degraded    bool            `json:"degraded,omitempty"`
	Kind        string          `json:"kind,omitempty"`
	Tags        wire.Tags       `json:"tags,omitzero"`
	Parameters  []byte          `json:"parameters,omitempty"`
	Key         string          `json:"key,omitempty"`
	Digest      *Sum            `json:"digest,omitempty"`
	Content     *Sum            `json:"content,omitempty"` // key in the cache, of a reproducible result
	Instance    *BlobRef        `json:"instance,omitempty"`
	Warm        *BlobRef        `json:"warm,omitempty"`
	Replan      *BlobRef        `json:"replan,omitempty"` // the replan request, until the solve has ended
	Checkpoint  *CheckpointRef  `json:"checkpoint,omitempty"`
	Request     *BlobRef        `json:"request,omitempty"` // of a report
	Result      *BlobRef        `json:"result,omitempty"`
	GoneUs      int64           `json:"gone_us,omitempty"` // when the solve was removed: only a tombstone is left
}

// CheckpointRef refers to the best pair of schedule and bound that was saved.
type CheckpointRef struct {
	BlobRef
	Value json.RawMessage `json:"value"`
	Bound json.RawMessage `json:"bound,omitempty"`
}

// StoredOptions are hare.Options with JSON names of their own: renaming an option there
// does not change stored records.
type StoredOptions struct {
	TimeLimit time.Duration `json:"time_limit_ns,omitempty"`
	WorkLimit int64         `json:"work_limit,omitempty"`
	Gap       float64       `json:"gap"`
	Seed      int64         `json:"seed"`
	Bound     string        `json:"bound"`
	Order     string        `json:"order"`
	Assign    string        `json:"assign"`
	Detail    string        `json:"detail"`
	Objective string        `json:"objective,omitempty"`
	Method    string        `json:"method,omitempty"`
	Degrade   bool          `json:"degrade,omitempty"`
}

// Blobs returns the blobs to which the record refers.
func (st *SolveState) Blobs() []BlobRef {
	var refs []BlobRef
	for _, r := range []*BlobRef{st.Instance, st.Warm, st.Replan, st.Request, st.Result} {
		if r != nil {
			refs = append(refs, *r)
		}
	}
	if st.Checkpoint != nil {
		refs = append(refs, st.Checkpoint.BlobRef)
	}
	return refs
}

// Finished says that the state is final: succeeded, cancelled or failed.
func Finished(status string) bool {
	return status == hare.StatusSucceeded || status == hare.StatusCancelled || status == hare.StatusFailed
}

// DecodeSolve checks and reads a record.
func DecodeSolve(rec *SolveRecord) (st SolveState, err error) {
	if rec.Checksum() != rec.Sum {
		return st, &CorruptError{Solve: rec.ID, What: "the checksum of its record does not fit its content"}
	}
	if err := json.Unmarshal(rec.Data, &st); err != nil {
		return st, &CorruptError{Solve: rec.ID, What: "its record: " + err.Error()}
	}
	for _, text := range []json.RawMessage{st.Value, st.Bound} {
		if _, err := ReadAmount(text); err != nil {
			return st, &CorruptError{Solve: rec.ID, What: "its record: " + err.Error()}
		}
	}
	if st.Cached && st.Result == nil {
		return st, &CorruptError{Solve: rec.ID, What: "its record has no result"}
	}
	return st, nil
}
