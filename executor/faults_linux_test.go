package executor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/device"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// A device that is not well loses its job, which goes on on another one, and gets nothing until it is well.
func TestDeviceThatIsNotWell(t *testing.T) {
	was := device.FaultFile
	device.FaultFile = filepath.Join(t.TempDir(), "faults")
	t.Cleanup(func() { device.FaultFile = was }) // when the agent has ended
	s := newServer(t, time.Minute)
	agent(t, s, "a", t.TempDir(), "cpu=2")
	free := filepath.Join(t.TempDir(), "free")
	id := submit(t, s, clusterdoc.NewJob{}, `while [ ! -e `+free+` ]; do sleep 0.01; done`)
	ill := await(t, s, id, clusterdoc.JobRunning).Attempts[0].Tasks[0].GPUs[0]
	say := func(text string) {
		t.Helper()
		part := filepath.Join(t.TempDir(), "faults")
		if os.WriteFile(part, []byte(text), 0o600) != nil || os.Rename(part, device.FaultFile) != nil {
			t.Fatal("the fault cannot be written")
		}
	}
	// becomes waits until the device stands in a state, and returns its reason.
	becomes := func(state string) string {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			all, err := s.Agents(t.Context())
			if err != nil || len(all) != 1 || time.Since(begun) > time.Minute {
				t.Fatalf("GPU %s is never %s: %+v %v", ill, state, all, err)
			}
			at := slices.IndexFunc(all[0].Devices, func(d *clusterdoc.Device) bool { return d.GPU == ill })
			if at >= 0 && all[0].Devices[at].State == state {
				return all[0].Devices[at].Reason
			}
		}
	}
	say(strings.TrimPrefix(ill, "a/") + " XID 79: the GPU has fallen off the bus\n")
	if why := becomes("quarantined"); why != "XID 79: the GPU has fallen off the bus" {
		t.Errorf("GPU %s is not well: %q", ill, why)
	}
	var job *clusterdoc.Job
	for begun := time.Now(); job == nil || len(job.Attempts) < 2 || job.State != clusterdoc.JobRunning; {
		var err error
		if job, err = s.Job(t.Context(), id); err != nil || time.Since(begun) > time.Minute {
			t.Fatalf("the job does not go on: %+v %v", job, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	first, second := job.Attempts[0], job.Attempts[1]
	if want := "GPU " + ill + ": XID 79: the GPU has fallen off the bus"; first.Result != "lost" || first.Error != want ||
		second.Tasks[0].GPUs[0] == ill || job.Failures != 0 || job.Lost != 1 {
		t.Errorf("%+v: %+v %+v", job, first, second)
	}
	// The other device is busy, and this one gets nothing.
	next := submit(t, s, clusterdoc.NewJob{}, "exit 0")
	if err := os.WriteFile(free, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	job = await(t, s, next, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if at := job.Attempts[0].Tasks[0].GPUs[0]; job.State != clusterdoc.JobSucceeded || at == ill {
		t.Errorf("a job ran on GPU %s, which is not well: %+v", at, job)
	}
	if job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed); len(job.Attempts) != 2 {
		t.Errorf("%+v", job)
	}
	say("")
	if why := becomes("free"); why != "" {
		t.Errorf("a GPU that is well has the reason %q", why)
	}
	id = submit(t, s, clusterdoc.NewJob{GPUs: 2}, "exit 0")
	both := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
	if both.State != clusterdoc.JobSucceeded {
		t.Errorf("%+v", both)
	}
}
