package rounds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hare-sched/hare/executor/worker"
)

const (
	// maxCrashes is how often a worker may die at the same call before the job ends.
	maxCrashes = 8
	// RestSaves is how many times the duration of the last save lies between two saves, at the least.
	RestSaves = 10
	// maxSocketPath is the length of the path of a socket directory that workers can use.
	maxSocketPath = 75
	// lastSave is how long the other nodes may take to keep the last checkpoint of a job that is told to end.
	lastSave = 2 * time.Second
)

// trainer trains one job.
type trainer struct {
	dir  string
	spec Spec
	node *worker.Node
	home *home // of the program that holds the parameters of a job on several nodes
	// slots are the devices of the job, those of the other nodes too.
	slots []slot

	saved    Progress
	saveTook time.Duration
	savedAt  time.Time
	loss     string // of the last round that was computed
	line     string // that says so
}

// Main trains the round job of a directory until its last round, and returns nil then. SIGTERM and SIGINT end it
// when what is done is saved. An error stands in the directory, too, as the progress of the job.
func Main(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	t := &trainer{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, specFile))
	if err == nil {
		err = json.Unmarshal(text, &t.spec)
	}
	if err == nil {
		err = t.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		t.saved.Error, t.saved.Apart = err.Error(), apart(err)
		if w := writeFile(dir, progressFile, &t.saved); w != nil {
			err = errors.Join(err, w)
		}
	}
	return err
}

func (t *trainer) run(ctx context.Context) (err error) {
	sockets, remove, err := socketDirectory(t.dir)
	if err != nil {
		return err
	}
	defer remove()
	// Of two values of a variable workers take the last, which is that of the device.
	environment := func(device int) []string { return []string{"CUDA_VISIBLE_DEVICES=" + t.spec.GPUs[device]} }
	t.node, err = worker.NewNode(worker.Config{Python: t.spec.Python, Directory: sockets, Devices: len(t.spec.GPUs),
		Environment: os.Environ(), DeviceEnvironment: environment})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.node.Close()) }()
	for d := range t.spec.GPUs {
		t.slots = append(t.slots, func(ctx context.Context, round int64, task int) (*float64, error) {
			r, err := t.node.Run(ctx, d, worker.Task{Job: t.spec.Job, Round: round, Task: task}, nil)
			return r.Loss, err
		})
	}
	if p := t.spec.Peers; p != nil {
		if p.Rank > 0 {
			return t.help(ctx)
		}
		if t.home, err = newHome(&t.spec, t.node); err != nil {
			return err
		}
		defer t.home.close()
	}
	if t.spec.Fetch != nil {
		if err := AwaitCopy(ctx, t.dir, os.Stdout); err != nil {
			return err
		}
	}
	if t.home != nil {
		if err := t.home.gather(ctx); err != nil {
			return err
		}
		t.slots = append(t.slots, t.home.slots()...)
	}
	round, err := t.begin(ctx)
	if err != nil {
		return err
	}
	if err := t.home.spread(ctx, round); err != nil {
		return err
	}
	if err := t.say(Progress{Round: round}); err != nil {
		return err
	}
	for ; round < t.spec.Rounds; round++ {
		if err = t.round(ctx, round); err != nil {
			break
		}
		fmt.Println(t.line)
		if round+1 < t.spec.Rounds && time.Since(t.savedAt) < RestSaves*t.saveTook {
			continue
		}
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	if err == nil {
		return t.home.finish(ctx)
	}
	if now, _, stale := t.node.Version(t.spec.Job); stale == nil && now > t.saved.Round {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
		defer cancel()
		err = errors.Join(err, t.save(last))
	}
	return err
}

// slot computes a task on a device, of this node or another, and returns its loss.
type slot func(ctx context.Context, round int64, task int) (*float64, error)

// job is the job as workers know it.
func (s *Spec) job() worker.Job {
	return worker.Job{ID: s.Job, Module: s.Module, Directory: s.Directory, Tasks: s.Tasks, Seed: s.Seed}
}

// begin adds the job, in the state of its checkpoint where it has one, and returns the round that it is in.
func (t *trainer) begin(ctx context.Context) (round int64, err error) {
	j := t.spec.job()
	err = worker.Again(ctx, 3, func() error {
		if _, err := os.Stat(t.spec.Checkpoint); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return t.node.Add(ctx, 0, j)
			}
			return err
		}
		round, err = t.node.Resume(ctx, 0, j, t.spec.Checkpoint)
		return err
	})
	if err == nil && round > 0 {
		fmt.Printf("goes on from the checkpoint after %d rounds\n", round)
	}
	return round, err
}

// round computes the tasks of a round on all devices, and makes the step.
func (t *trainer) round(ctx context.Context, round int64) error {
	losses := make([]*float64, t.spec.Tasks)
	errs := make([]error, len(t.slots))
	var next atomic.Int64
	var failed atomic.Bool
	var all sync.WaitGroup
	for d := range t.slots {
		all.Go(func() {
			for done := 0; !failed.Load(); done++ {
				task := d
				if !t.spec.Gang {
					task = int(next.Add(1)) - 1
				} else if done > 0 {
					return
				}
				if task >= t.spec.Tasks {
					return
				}
				errs[d] = worker.Again(ctx, maxCrashes, func() error {
					loss, err := t.slots[d](ctx, round, task)
					losses[task] = loss
					return err
				})
				if errs[d] != nil {
					failed.Store(true)
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	t.loss, t.line = worker.MeanLoss(losses), worker.LossLine(round, losses)
	return worker.Again(ctx, maxCrashes, func() error {
		_, err := t.node.Step(ctx, 0, t.spec.Job, round)
		return err
	})
}

// save writes the checkpoint, on all nodes of the job, and then says how far the job is.
func (t *trainer) save(ctx context.Context) error {
	begun := time.Now()
	round, err := t.node.Save(t.spec.Job, t.spec.Checkpoint)
	if err == nil {
		err = t.home.keep(ctx, func(*peer) bool { return true })
	}
	if err != nil {
		return err
	}
	t.savedAt = time.Now()
	t.saveTook = t.savedAt.Sub(begun)
	return t.say(Progress{Round: round, Loss: t.loss})
}

func (t *trainer) say(p Progress) error {
	t.saved = p
	return writeFile(t.dir, progressFile, &p)
}

// socketDirectory is a directory for the sockets of the workers: in the directory of the attempt where the path is
// short enough for a socket.
func socketDirectory(dir string) (path string, remove func(), err error) {
	path = filepath.Join(dir, "sockets")
	if abs, err := filepath.Abs(path); err == nil && len(abs) <= maxSocketPath {
		return path, func() { _ = os.RemoveAll(path) }, nil
	}
	path, err = os.MkdirTemp("", "hare-rounds-")
	return path, func() { _ = os.RemoveAll(path) }, err
}
