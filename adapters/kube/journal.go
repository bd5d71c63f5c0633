package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Journal is the file in which every write is before it is made, one JSON object a line. It is for
// people: the helper reads from the cluster what stands.
type Journal struct{ file *os.File }

// OpenJournal appends to a journal; an empty path means none.
func OpenJournal(path string) (*Journal, error) {
	if path == "" {
		return &Journal{}, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// record appends a line and waits until it is on disk.
func (j *Journal) record(event string, u *Update, fault error, now time.Time) error {
	if j.file == nil {
		return nil
	}
	line := struct {
		Time  string `json:"time"`
		Event string `json:"event"` // write, conflict or refused
		*Update
		Error string `json:"error,omitempty"`
	}{now.UTC().Format(time.RFC3339Nano), event, u, ""}
	if fault != nil {
		line.Error = fault.Error()
	}
	text, err := json.Marshal(&line)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return j.file.Sync()
}

// Update is one Job that the helper lets go, or would let go.
type Update struct {
	Job    string `json:"job"` // namespace/name
	UID    string `json:"uid"`
	Type   string `json:"type"` // GPU type of the node selector
	Old    string `json:"old"`
	New    string `json:"new"`
	Reason string `json:"reason"`
	path   string
	patch  []byte // of what is not a Workload
	of     *job   // nil for Workloads
	frees  bool   // the Job, which was let go before

	work       *workload // that is patched; nil for Jobs
	operations []patchOperation
}

// jsonPatch is the patch of a Workload, whose version may have changed by an earlier patch of the loop.
func (u *Update) jsonPatch() []byte {
	text, _ := json.Marshal(append([]patchOperation{{"replace", "/metadata/resourceVersion",
		u.work.Metadata.ResourceVersion}}, u.operations...)) // strings, numbers and maps of strings are always JSON
	return text
}
