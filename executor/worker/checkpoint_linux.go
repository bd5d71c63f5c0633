package worker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// checkpointForm is the first member of a checkpoint's header.
const checkpointForm = "hare-checkpoint/v1"

// checkpointHeader is the first line of a checkpoint, as JSON. The state follows it.
type checkpointHeader struct {
	Hare       string `json:"hare"`
	Module     string `json:"module"`
	Tasks      int    `json:"tasks"`
	Seed       int64  `json:"seed"`
	Version    int64  `json:"version"`
	StateBytes int64  `json:"state_bytes"`
	// SHA256 is the hash of the header with this member empty, its line break, and the state.
	SHA256 string `json:"sha256"`
}

// CheckpointError says that a file is not a checkpoint of a job.
type CheckpointError struct{ Path, Reason string }

func (e *CheckpointError) Error() string { return e.Path + ": " + e.Reason }

// Save writes the committed state of a job to a file, from which Resume goes on. The file is
// replaced as a whole, when the new one is on disk: where Save returns an error, the file is as it
// was. Save returns the version that it wrote. Rounds may go on meanwhile.
func (n *Node) Save(id, path string) (version int64, err error) {
	j, err := n.job(id)
	if err != nil {
		return 0, err
	}
	state, version, err := j.copyState()
	if err != nil {
		return 0, err
	}
	h := checkpointHeader{Hare: checkpointForm, Module: j.Module, Tasks: j.Tasks, Seed: j.Seed, Version: version,
		StateBytes: int64(len(state))}
	if h.SHA256, err = h.hash(state); err != nil {
		return 0, err
	}
	line, err := json.Marshal(&h)
	if err != nil {
		return 0, fmt.Errorf("worker: %w", err)
	}
	if err := atomicfile.Write(path, 0o600, append(line, '\n'), state); err != nil {
		return 0, fmt.Errorf("worker: checkpoint of job %.60q: %w", id, err)
	}
	return version, nil
}

// hash returns what SHA256 must be.
func (h checkpointHeader) hash(state []byte) (string, error) {
	h.SHA256 = ""
	line, err := json.Marshal(&h)
	if err != nil {
		return "", fmt.Errorf("worker: %w", err)
	}
	sum := sha256.New()
	sum.Write(line)
	sum.Write([]byte{'\n'})
	sum.Write(state)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Resume adds a job as Add does, in the state and round of a checkpoint. The job must have the
// module, tasks and seed of the job that wrote it; its ID and folder may differ. A job that was
// added already is left as it is. Resume returns the version that the job has.
func (n *Node) Resume(ctx context.Context, device int, j Job, path string) (version int64, err error) {
	h, state, err := readCheckpoint(path)
	if err != nil {
		return 0, err
	}
	if h.Module != j.Module || h.Tasks != j.Tasks || h.Seed != j.Seed {
		return 0, &CheckpointError{path, fmt.Sprintf("is of a job with the module %.60q, %d tasks and seed %d; this job "+
			"has %.60q, %d and %d", h.Module, h.Tasks, h.Seed, j.Module, j.Tasks, j.Seed)}
	}
	err = n.add(ctx, device, j, func(added *job) error {
		if added.segment.stateBytes != h.StateBytes {
			return &CheckpointError{path, fmt.Sprintf("has a state of %d bytes; build() makes one of %d", h.StateBytes,
				added.segment.stateBytes)}
		}
		added.version = h.Version
		return added.segment.write(h.Version, state)
	})
	if err != nil {
		return 0, err
	}
	version, _, err = n.Version(j.ID)
	return version, err
}

// ReadCheckpoint reads a checkpoint for another node, and returns its version and its bytes. The error is a
// *CheckpointError where the file is not a checkpoint, or is damaged.
func ReadCheckpoint(path string) (version int64, content []byte, err error) {
	h, _, err := readCheckpoint(path)
	if err != nil {
		return 0, nil, err
	}
	if content, err = os.ReadFile(path); err != nil {
		return 0, nil, fmt.Errorf("worker: %w", err)
	}
	return h.Version, content, nil
}

// WriteCheckpoint writes the bytes of a checkpoint that another node has read. The file is replaced as a whole, when
// the new one is on disk.
func WriteCheckpoint(path string, content []byte) error {
	if err := atomicfile.Write(path, 0o600, content); err != nil {
		return fmt.Errorf("worker: checkpoint: %w", err)
	}
	return nil
}

// readCheckpoint reads and checks a checkpoint.
func readCheckpoint(path string) (*checkpointHeader, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("worker: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	h, line, err := readHeader(r, path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("worker: %w", err)
	case info.Size() != int64(len(line))+h.StateBytes:
		return nil, nil, &CheckpointError{path, fmt.Sprintf("is cut or damaged: it has %d bytes, not %d", info.Size(),
			int64(len(line))+h.StateBytes)}
	}
	state := make([]byte, h.StateBytes)
	if _, err := io.ReadFull(r, state); err != nil {
		return nil, nil, fmt.Errorf("worker: %s: %w", path, err)
	}
	sum, err := h.hash(state)
	if err != nil {
		return nil, nil, err
	}
	if sum != h.SHA256 {
		return nil, nil, &CheckpointError{path, "is damaged: its hash is not that of its header"}
	}
	return h, state, nil
}

// readHeader reads the first line of a checkpoint.
func readHeader(r *bufio.Reader, path string) (h *checkpointHeader, line []byte, err error) {
	if line, err = r.ReadSlice('\n'); err != nil {
		return nil, nil, &CheckpointError{path, "is not a checkpoint: it has no header"}
	}
	h = new(checkpointHeader)
	if err := json.Unmarshal(bytes.TrimSuffix(line, []byte{'\n'}), h, json.RejectUnknownMembers(true)); err != nil {
		return nil, nil, &CheckpointError{path, fmt.Sprintf("is not a checkpoint: %.200v", err)}
	}
	if h.Hare != checkpointForm || h.Version < 0 || h.StateBytes < 1 {
		return nil, nil, &CheckpointError{path, fmt.Sprintf("is not a checkpoint that this version reads: %.60q", h.Hare)}
	}
	return h, line, nil
}

// A CheckpointCheck checks a checkpoint that is written to it from its beginning, in pieces of any size.
type CheckpointCheck struct {
	Version int64

	path, want    string
	stateBytes, n int64
	header        int // bytes of it that are still to come
	sum           hash.Hash
}

// NewCheckpointCheck reads the header of an open file, wherever the file is read otherwise. The error is a
// *CheckpointError where the file is not a checkpoint.
func NewCheckpointCheck(f *os.File) (*CheckpointCheck, error) {
	h, line, err := readHeader(bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<16), 1<<16), f.Name())
	if err != nil {
		return nil, err
	}
	c := &CheckpointCheck{Version: h.Version, path: f.Name(), want: h.SHA256, stateBytes: h.StateBytes,
		header: len(line), sum: sha256.New()}
	h.SHA256 = ""
	if line, err = json.Marshal(h); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	c.sum.Write(append(line, '\n'))
	return c, nil
}

// Write takes the next piece of the file. It returns no error.
func (c *CheckpointCheck) Write(piece []byte) (int, error) {
	skip := min(c.header, len(piece))
	c.header -= skip
	c.n += int64(len(piece) - skip)
	c.sum.Write(piece[skip:])
	return len(piece), nil
}

// Err is a *CheckpointError where what was written is not the whole checkpoint, or is damaged.
func (c *CheckpointCheck) Err() error {
	if c.n != c.stateBytes || hex.EncodeToString(c.sum.Sum(nil)) != c.want {
		return &CheckpointError{c.path, "is cut or damaged: its hash is not that of its header"}
	}
	return nil
}

// VerifyCheckpoint checks a checkpoint, a piece at a time, and returns its version. The error is a *CheckpointError
// where the file is not a checkpoint, or is damaged.
func VerifyCheckpoint(path string) (version int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("worker: %w", err)
	}
	defer f.Close()
	c, err := NewCheckpointCheck(f)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(c, f); err != nil {
		return 0, fmt.Errorf("worker: %s: %w", path, err)
	}
	if err := c.Err(); err != nil {
		return 0, err
	}
	return c.Version, nil
}

// MoveCheckpoint renames a file next to path, when it is on disk, and makes the new name durable.
func MoveCheckpoint(part, path string) error {
	f, err := os.Open(part)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("worker: checkpoint: %w", err)
	}
	return nil
}

// write writes the state of a version into its slot, when no worker knows the job.
func (s *segment) write(version int64, state []byte) error {
	_, err := s.file.WriteAt(state, version%2*s.stateSlotBytes)
	return err
}
