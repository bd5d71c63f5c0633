package executor_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor"
	"github.com/hare-sched/hare/executor/device"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func cores(t *testing.T) device.Source {
	t.Helper()
	source, err := device.Parse("cpu=1")
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func awaitGone(t *testing.T, path string) {
	t.Helper()
	for begun := time.Now(); exists(path); time.Sleep(2 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s stays", path)
		}
	}
}

// The checkpoints of a job leave the node when the server says that the job has ended: with all that the job has
// done to its directory, and nothing else.
func TestCheckpointsOfEndedJobsGo(t *testing.T) {
	t.Cleanup(executor.SetLookEvery(20 * time.Millisecond))
	s := newServer(t, time.Minute)
	dir, outside := t.TempDir(), t.TempDir()
	kept := filepath.Join(dir, "checkpoints")
	for _, path := range []string{"j77x", "mine"} { // somebody else's
		if err := os.MkdirAll(filepath.Join(kept, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{"j78": outside, "j79": "/"} {
		if err := os.Symlink(path, filepath.Join(kept, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(kept, "j99", "of an earlier cluster"), 0o700); err != nil {
		t.Fatal(err)
	}
	agentOf(t, s, "a", dir, "cpu=2", 0, func(c *executor.Config) { c.KeepCheckpoints = 0 })
	goes := filepath.Join(outside, "go")
	runs := submit(t, s, clusterdoc.NewJob{}, `echo 1 > $HARE_CHECKPOINT_DIR/state; `+
		`while [ ! -e `+goes+` ]; do sleep 0.01; done`)
	ends := submit(t, s, clusterdoc.NewJob{Retries: 1}, `cd $HARE_CHECKPOINT_DIR; if [ ! -e d ]; then mkdir -p d/e/f; `+
		`ln -s `+outside+` link; ln -s / d/root; echo 1 > d/e/f/state; chmod 0 d/e/f d/e d; exit 1; fi`)
	await(t, s, ends, clusterdoc.JobSucceeded)
	awaitGone(t, filepath.Join(kept, ends))
	awaitGone(t, filepath.Join(kept, "j99"))
	await(t, s, runs, clusterdoc.JobRunning)
	for _, path := range []string{filepath.Join(outside, "file"), filepath.Join(kept, runs), filepath.Join(kept, "j77x"),
		filepath.Join(kept, "mine"), filepath.Join(kept, "j78"), filepath.Join(kept, "j79")} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	if err := os.WriteFile(goes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, s, runs, clusterdoc.JobSucceeded)
	awaitGone(t, filepath.Join(kept, runs))
}

// Checkpoints are kept for a time, also when the agent starts again; what is empty is not. A cluster that was
// deleted and made again has jobs of the same IDs, which must not find them.
func TestCheckpointsAreKeptForATime(t *testing.T) {
	t.Cleanup(executor.SetLookEvery(20 * time.Millisecond))
	s := newServer(t, time.Minute)
	dir := t.TempDir()
	keep := func(d time.Duration) func(*executor.Config) {
		return func(c *executor.Config) { c.KeepCheckpoints = d }
	}
	stop := agentOf(t, s, "a", dir, "cpu=1", 0, keep(time.Hour))
	const script = `ls $HARE_CHECKPOINT_DIR; echo 1 > $HARE_CHECKPOINT_DIR/state`
	id := submit(t, s, clusterdoc.NewJob{}, script)
	await(t, s, id, clusterdoc.JobSucceeded)
	empty := submit(t, s, clusterdoc.NewJob{}, `true`)
	await(t, s, empty, clusterdoc.JobSucceeded)
	path := filepath.Join(dir, "checkpoints", id)
	awaitGone(t, filepath.Join(dir, "checkpoints", empty))
	if !exists(path) {
		t.Fatal("the checkpoints of a job are gone before their time")
	}
	stop()
	stop = agentOf(t, s, "a", dir, "cpu=1", 0, keep(time.Nanosecond))
	awaitGone(t, path)
	stop()
	stop = agentOf(t, s, "a", dir, "cpu=1", 0, keep(time.Hour))
	id = submit(t, s, clusterdoc.NewJob{}, script)
	await(t, s, id, clusterdoc.JobSucceeded)
	stop()
	made := newServer(t, time.Minute)
	stop = agentOf(t, made, "a", dir, "cpu=1", 0, keep(time.Hour))
	for range 3 {
		again := submit(t, made, clusterdoc.NewJob{}, script)
		await(t, made, again, clusterdoc.JobSucceeded)
		if out := output(t, made, again, 1, "stdout"); out != "" {
			t.Errorf("job %s found %q of another cluster", again, out)
		}
	}
	former, _ := filepath.Glob(filepath.Join(dir, "checkpoints-*", id, "state"))
	if len(former) != 1 {
		t.Errorf("the checkpoints of the cluster that was deleted: %v", former)
	}
	stop()
	agentOf(t, made, "a", dir, "cpu=1", 0, keep(0))
	awaitGone(t, filepath.Dir(filepath.Dir(former[0])))
}
