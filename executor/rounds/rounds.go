// Package rounds is the program of a round job: it trains a module on the GPUs of one attempt, and goes on from the
// last checkpoint of the attempts before. An agent starts it as it starts any command, so that it ends when it is
// asked to, and when the agent's lease runs out.
//
// The directory of the attempt has rounds.json (what to train; by the agent), progress.json (how far it is; by
// this program) and, where the agent gets a checkpoint first, fetched.json (that it has; by the agent).
package rounds

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// Names of files in the directory of an attempt.
const (
	specFile     = "rounds.json"
	progressFile = "progress.json"
	fetchedFile  = "fetched.json"
)

// Spec is what a round job is.
type Spec struct {
	Job       string `json:"job"`
	Module    string `json:"module"`
	Directory string `json:"directory"` // that has the module
	Tasks     int    `json:"tasks"`     // of a round
	Rounds    int64  `json:"rounds"`
	Seed      int64  `json:"seed"`
	// Gang says that task i of each round runs on GPU i. Without it a task runs on whichever GPU is free.
	Gang bool `json:"gang"`
	// GPUs are what each worker finds as CUDA_VISIBLE_DEVICES; "" stands for a device that CUDA does not know.
	GPUs []string `json:"gpus"`
	// Checkpoint is the path of the file that outlives the attempt.
	Checkpoint string `json:"checkpoint"`
	// Python is the command of the interpreter; empty means python3.
	Python []string `json:"python,omitempty"`
	// Copied says that the agent brings copies of the checkpoint to the server.
	Copied bool `json:"copied,omitempty"`
	// Fetch is the copy of the server that the agent gets before the program begins; nil where there is none.
	Fetch *Copy `json:"fetch,omitempty"`
	// Peers are the programs of the other nodes of the attempt; nil where the job has one node.
	Peers *Peers `json:"peers,omitempty"`
}

// Copy is a copy of a checkpoint that the server keeps.
type Copy struct {
	Attempt int64  `json:"attempt"`
	Round   int64  `json:"round"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// Fetched says that the agent has got the copy, or has found that there is none.
type Fetched struct {
	// Error says in a line why the job cannot begin.
	Error string `json:"error,omitempty"`
}

// Peers says how the programs of the nodes of an attempt find each other. That of rank 0 holds the parameters and
// makes the steps; the others compute tasks for it.
type Peers struct {
	Rank  int `json:"rank"`
	Nodes int `json:"nodes"`
	// Address is the host and port at which the program of rank 0 listens.
	Address string `json:"address"`
	// Secret is known to the programs of the attempt alone.
	Secret string `json:"secret"`
	// Shared says that all nodes see the same file under Checkpoint. Without it each node keeps a copy.
	Shared bool `json:"shared,omitempty"`
	// PatienceS is how long in seconds a node may be out of reach of the one that holds the parameters before the attempt
	// fails; zero means 120.
	PatienceS float64 `json:"patience_s,omitempty"`
}

// defaultPatience is Peers.PatienceS where it is zero. The server learns sooner of a node that is lost, and of a
// program that has ended.
const defaultPatience = 2 * time.Minute

func (p *Peers) patience() time.Duration {
	if p.PatienceS > 0 {
		return time.Duration(p.PatienceS * float64(time.Second))
	}
	return defaultPatience
}

// Progress is how far a round job is.
type Progress struct {
	// Round is the number of rounds that the checkpoint has.
	Round int64 `json:"round"`
	// Loss is that of the last of these rounds: the mean of its tasks. It is "NaN" where the loss of a task was
	// infinite or not a number, and "" where no round was computed in the attempt.
	Loss string `json:"loss,omitempty"`
	// Error says in a line why the job cannot go on.
	Error string `json:"error,omitempty"`
	// Apart are the ranks that Error says to be out of reach.
	Apart []int `json:"apart,omitempty"`
}

// WriteSpec writes what the program trains that is started with the directory.
func WriteSpec(dir string, s *Spec) error { return writeFile(dir, specFile, s) }

// ReadSpec reads what the program of a directory trains; an error that is fs.ErrNotExist says that it is not a round
// job.
func ReadSpec(dir string) (s Spec, err error) {
	err = readFile(dir, specFile, &s)
	return s, err
}

// WriteFetched lets the program of a directory begin.
func WriteFetched(dir string, f *Fetched) error { return writeFile(dir, fetchedFile, f) }

// ReadFetched reads whether the program of a directory may begin; an error that is fs.ErrNotExist says that not yet.
func ReadFetched(dir string) (f Fetched, err error) {
	err = readFile(dir, fetchedFile, &f)
	return f, err
}

// ReadProgress reads how far the program of a directory is; an error that is fs.ErrNotExist says that it has not
// said anything.
func ReadProgress(dir string) (p Progress, err error) {
	err = readFile(dir, progressFile, &p)
	return p, err
}

// maxFile is the most bytes of a file between agent and program.
const maxFile = 1 << 20

// readFile reads a file that the agent or the program has written. The program may put anything in its place, such as
// a pipe that nobody writes to.
func readFile(dir, name string, v any) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return fmt.Errorf("%s is not a file of a round job", f.Name())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// writeFile replaces a file durably: readers see the old content or the new one.
func writeFile(dir, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, name), 0o600, text)
}
