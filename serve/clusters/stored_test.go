package clusters_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// onDisk adds up what the server stores: rows of journals and sessions, outputs and copies of checkpoints.
func (k *copier) onDisk() (sum int64) {
	k.t.Helper()
	for _, st := range []store.SessionStore{k.s.journals, k.s.logs} {
		sizes, err := st.Sizes(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		for _, n := range sizes {
			sum += n
		}
	}
	for _, dir := range []string{k.s.logDir, k.s.copyDir} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				info, bad := d.Info()
				err = bad
				sum += info.Size()
			}
			return err
		})
		if err != nil {
			k.t.Fatal(err)
		}
	}
	return sum
}

func (k *copier) used() int64 { return k.s.quotas.Usage("").StoredBytes }

func (k *copier) check(what string) {
	k.t.Helper()
	if used, disk := k.used(), k.onDisk(); used != disk {
		k.t.Errorf("%s: %d bytes count, and %d are there", what, used, disk)
	}
}

func (k *copier) putLog(n int) *clusterdoc.LogStored {
	k.t.Helper()
	at := &clusterdoc.LogChunk{Epoch: k.epoch, Secret: k.secret, TaskID: clusterdoc.TaskID{Job: k.job,
		Attempt: k.attempt}, Stream: clusterdoc.StreamStdout, Offset: k.logged}
	stored, err := k.s.cluster().PutLog(k.t.Context(), k.r.Name, at, bytes.NewReader(make([]byte, n)))
	if err != nil {
		k.t.Fatal(err)
	}
	k.logged = stored.Next
	return stored
}

// full expects that the tenant is told that it may store nothing more.
func (k *copier) full(what string, err error) {
	k.t.Helper()
	var quota *admission.QuotaError
	if !errors.As(err, &quota) || quota.Code != "quota_stored_bytes" {
		k.t.Errorf("%s: %v", what, err)
	}
}

// What managed clusters store counts against the quota of their tenant, also after a restart. Beyond it nothing is
// begun, outputs and copies are not kept, and the jobs go on and end.
func TestClustersStoreWithinTheQuota(t *testing.T) {
	k := newCopier(t, 0)
	k.s.close()
	k.s.logDir = t.TempDir()
	k.s.quota = admission.Quota{StoredBytes: 200_000}
	k.s.open()
	k.register(t, k.s.cluster())
	await(t, k.s.cluster(), k.job, clusterdoc.JobRunning, k.node)
	k.check("at first")
	first := k.used()
	if got := k.putLog(50_000); got.Full || k.used()-first < 50_000 {
		t.Fatal(got, k.used())
	}
	k.mustPut(1, strings.Repeat("x", 60_000), 0, 30_000, 30_000, false)
	k.mustPut(1, strings.Repeat("x", 60_000), 30_000, 60_000, 60_000, true)
	k.check("with an output and a copy")
	k.mustPut(2, strings.Repeat("y", 50_000), 0, 50_000, 50_000, true)
	k.check("with the next copy")
	k.s.close()
	k.s.open()
	k.check("after a restart")
	c := k.s.cluster()
	k.register(t, c)
	if job, err := c.Job(t.Context(), k.job); err != nil || job.State != clusterdoc.JobRunning {
		t.Fatal(job, err)
	}

	// The quota is used up: little by what is written in pieces, and not beyond it.
	k.refuse("quota_stored_bytes", 3, strings.Repeat("z", 150_000), 0, 150_000)
	if got := k.putLog(190_000); !got.Full || k.used() > 200_000 {
		t.Fatal(got, k.used())
	}
	rest := 200_000 - k.used()
	k.s.quotas.Stored("", rest)
	if got := k.putLog(1); !got.Full {
		t.Error(got)
	}
	k.refuse("quota_stored_bytes", 3, "z", 0, 1)
	if _, err := c.Submit(t.Context(), &clusterdoc.NewJob{Command: []string{"true"}}, ""); true {
		k.full("a job", err)
	}
	if _, err := k.s.Create(t.Context(), "", &clusterdoc.NewCluster{Name: "other"}); true {
		k.full("a cluster", err)
	}
	if _, err := c.Register(t.Context(), registration("new", "V100")); true {
		k.full("an agent", err)
	}
	other := registration("a", "V100", "V100")
	if _, err := c.Register(t.Context(), other); true {
		k.full("an agent with more devices", err)
	}
	k.r.Labels = map[string]string{"rack": strings.Repeat("r", 60)}
	before := k.used()
	k.register(t, c)
	if grown := k.used() - before; grown > 600 || k.node.running[clusterdoc.TaskID{Job: k.job, Attempt: 1}] == false {
		t.Error(grown, k.node.running)
	}
	k.end(clusterdoc.TaskID{Job: k.job, Attempt: 1}, 0)
	await(t, c, k.job, clusterdoc.JobSucceeded, k.node)
	if k.used() <= before {
		t.Error("the end of the job is not counted")
	}

	if err := k.s.Delete(t.Context(), "", "lab"); err != nil || k.used() != rest || k.onDisk() != 0 {
		t.Error(err, k.used(), k.onDisk())
	}
}

// The outputs of jobs that have ended make room for those of others, where the quota is used up.
func TestQuotaRemovesOldOutputs(t *testing.T) {
	k := newCopier(t, 0)
	c := k.s.cluster()
	k.putLog(100_000)
	k.end(clusterdoc.TaskID{Job: k.job, Attempt: 1}, 0)
	await(t, c, k.job, clusterdoc.JobSucceeded, k.node)
	k.s.close()
	k.s.logDir, k.s.quota.StoredBytes = k.s.lastLogDir, k.used()+20_000
	k.s.open()
	c = k.s.cluster()
	k.register(t, c)
	old := k.job
	k.job, k.logged = submit(t, c, &clusterdoc.NewJob{}), 0
	await(t, c, k.job, clusterdoc.JobRunning, k.node)
	if got := k.putLog(50_000); got.Full || got.Next != 50_000 {
		t.Error(got)
	}
	if k.used() > k.s.quota.StoredBytes {
		t.Error(k.used())
	}
	if files, _ := filepath.Glob(filepath.Join(k.s.logDir, "*", old, "removed")); len(files) != 1 {
		t.Error("the old output is there")
	}
}

// A registration that brings nothing new leaves the devices and labels out of the journal.
func TestSameRegistrationIsShort(t *testing.T) {
	k := newCopier(t, 0)
	c := k.s.cluster()
	r := registration("wide", strings.Split(strings.Repeat("V100 ", 200), " ")[:200]...)
	n := &node{r: r}
	n.register(t, c)
	await(t, c, k.job, clusterdoc.JobRunning, k.node)
	before := k.used()
	for range 10 {
		n.register(t, c)
	}
	// Tasks that the agent cannot have are left out too.
	n.r.Holds = make([]clusterdoc.TaskReport, 1000)
	for i := range n.r.Holds {
		n.r.Holds[i].TaskID, n.r.Holds[i].State = clusterdoc.TaskID{Job: k.job, Attempt: 1}, clusterdoc.TaskRunning
	}
	if _, err := c.Register(t.Context(), n.r); err != nil {
		t.Error(err)
	}
	if grown := k.used() - before; grown > 6000 {
		t.Error(grown)
	}
	agents, err := c.Agents(t.Context())
	if err != nil || len(agents) != 2 || len(agents[1].Devices) != 200 {
		t.Error(err, len(agents))
	}
}
