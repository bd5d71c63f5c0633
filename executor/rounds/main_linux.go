package rounds

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hare-sched/hare/executor/worker"
)

// lastSave is how long the other nodes may take to keep the last checkpoint of a job that is asked to end.
const lastSave = 2 * time.Second

// trainer trains one job.
type trainer struct {
	dir    string
	spec   Spec
	node   *worker.Node
	server *Server // of rank 0
	nodes  *nodes  // of rank 0 of a job on several nodes
	// slots are the devices of the job, those of the other nodes too.
	slots []slot
	saved Progress // on all nodes
}

// Main trains the round job of a directory until its last round, and returns nil then. SIGTERM and SIGINT end it
// when what is done is saved. An error is written to the directory, too, as the progress of the job.
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
		t.saved.Error, t.saved.Apart = err.Error(), unreachable(err)
		if w := writeFile(dir, progressFile, &t.saved); w != nil {
			err = errors.Join(err, w)
		}
	}
	return err
}

func (t *trainer) run(ctx context.Context) (err error) {
	sockets, remove, err := worker.SocketDirectory(t.dir, "sockets", "hare-rounds-")
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
	if p := t.spec.Peers; p != nil && p.Rank > 0 {
		return t.help(ctx)
	}
	t.server = NewServer(ServerConfig{Node: t.node, Job: t.spec.job(), Rounds: t.spec.Rounds,
		Checkpoint: t.spec.Checkpoint, Directory: t.dir, Out: os.Stdout, Use: useFirst,
		Saved: func(ctx context.Context, p Progress) error {
			err := t.nodes.keep(ctx, func(*peer) bool { return true })
			if err == nil {
				t.saved = p
			}
			return err
		}})
	for d := range t.spec.GPUs {
		t.slots = append(t.slots, t.slotOf(d))
	}
	if t.spec.Peers != nil {
		if t.nodes, err = newNodes(&t.spec, t.server); err != nil {
			return err
		}
		defer t.nodes.close()
	}
	if t.spec.Fetch != nil {
		if err := AwaitCopy(ctx, t.dir, os.Stdout); err != nil {
			return err
		}
	}
	if t.nodes != nil {
		if err := t.nodes.gather(ctx); err != nil {
			return err
		}
		t.slots = append(t.slots, t.nodes.slots()...)
	}
	round, err := t.server.Start(ctx)
	if err != nil {
		return err
	}
	if err := t.nodes.spread(ctx, round); err != nil {
		return err
	}
	t.saved = Progress{Round: round}
	if err := writeFile(t.dir, progressFile, &t.saved); err != nil {
		return err
	}
	if err = t.server.Train(ctx, t.compute); err == nil {
		return t.nodes.finish(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	return errors.Join(err, t.server.SaveRemainder(last))
}

// useFirst calls f with the first device, whose worker makes the steps.
func useFirst(ctx context.Context, crashes int, f func(device int) error) error {
	return worker.Again(ctx, crashes, func() error { return f(0) })
}

// slotOf is a device of this node.
func (t *trainer) slotOf(device int) slot {
	return func(ctx context.Context, round int64, task int) error {
		x := worker.Task{Job: t.spec.Job, Round: round, Task: task}
		r, err := t.node.Run(ctx, device, x, nil)
		if err == nil {
			t.server.Took(x, r.Loss)
		}
		return err
	}
}

// job is the job as workers know it.
func (s *Spec) job() worker.Job {
	return worker.Job{ID: s.Job, Module: s.Module, Directory: s.Directory, Tasks: s.Tasks, Seed: s.Seed}
}

// compute computes the tasks of a round on all devices.
func (t *trainer) compute(ctx context.Context, round int64) error {
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
				errs[d] = worker.Again(ctx, MaxCrashes, func() error { return t.slots[d](ctx, round, task) })
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
	return nil
}
