package executor_test

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// An attempt whose MASTER_PORT another process of the node has is not counted, and the next one has another port.
func TestMasterPortIsTaken(t *testing.T) {
	s := newServer(t, time.Minute)
	agent(t, s, "a", t.TempDir(), "cpu=2")
	port := func(id string) string {
		job := await(t, s, id, clusterdoc.JobSucceeded, clusterdoc.JobFailed)
		if job.State != clusterdoc.JobSucceeded || job.Failures != 0 {
			t.Fatalf("%+v", job)
		}
		return strings.TrimSpace(output(t, s, id, int64(len(job.Attempts)), "stdout"))
	}
	const script = `echo $MASTER_PORT`
	first := port(submit(t, s, clusterdoc.NewJob{GPUs: 2}, script))
	number, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	next := strconv.Itoa(number + 1)
	l, err := net.Listen("tcp", ":"+next)
	if err != nil {
		t.Skip("another process has the port, too")
	}
	defer l.Close()
	id := submit(t, s, clusterdoc.NewJob{GPUs: 2}, script)
	if got := port(id); got == next {
		t.Errorf("a job has the port %s, which is taken", got)
	}
	job, err := s.Job(t.Context(), id)
	if err != nil || job.Lost == 0 || !strings.Contains(job.Attempts[0].Error, "MASTER_PORT is "+next) {
		t.Errorf("%+v %v", job, err)
	}
}
