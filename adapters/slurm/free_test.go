package slurm

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/history"
)

// freed reads how many jobs the metrics say were freed.
func freed(t *testing.T, h *Helper) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, after, _ := strings.Cut(w.Body.String(), "\nhare_slurm_freed_total ")
	n, _, _ := strings.Cut(after, "\n")
	return n
}

func mustStep(t *testing.T, h *Helper) *Result {
	t.Helper()
	r, err := h.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// oneOnV100 lets a job wait that the helper has constrained to v100.
func oneOnV100(t *testing.T, dir string) (*fakeSlurm, *fakeJob, *Helper) {
	t.Helper()
	f := newFakeSlurm()
	for range 4 {
		f.submit(1000)
	}
	f.schedule()
	j := f.submit(10)
	j.Features = "v100|t4"
	h := testHelper(t, f, dir, nil)
	mustStep(t, h)
	if j.Features != "v100" {
		t.Fatalf("the job was given %q", j.Features)
	}
	return f, j, h
}

// TestTypedJobsKeepTheirType lets jobs wait whose users name the type, which Slurm counts without it: their type is
// left alone whatever is written, they start, and those of several types are left to Slurm.
func TestTypedJobsKeepTheirType(t *testing.T) {
	for _, gpuType := range []GPUType{TypeConstraints, TypePrefer} {
		for name, ask := range map[string]func(*fakeJob){
			"node":    func(j *fakeJob) { j.TresPerNode = "gres:gpu:t4:1" },
			"job":     func(j *fakeJob) { j.TresPerNode, j.TresPerJob = "", "gres/gpu:t4:1" },
			"task":    func(j *fakeJob) { j.TresPerNode, j.TresPerTask = "", "cpu=1,gres/gpu:t4=1" },
			"socket":  func(j *fakeJob) { j.TresPerNode, j.TresPerSock = "", "gres/gpu:t4" },
			"several": func(j *fakeJob) { j.TresPerNode = "gres/gpu:t4:1,gres/gpu:v100:1" },
		} {
			f := newFakeSlurm()
			j := f.submit(10) // twice as fast on a v100
			ask(j)
			j.TresAlloc = "cpu=1,mem=64M,node=1,billing=1,gres/gpu=1"
			h := testHelper(t, f, t.TempDir(), func(c *Config) { c.GPUType = gpuType })
			mustStep(t, h)
			f.schedule()
			if j.Features != "" || j.Prefer != "" || (j.State == "RUNNING") == (name == "several") {
				t.Errorf("%s, %s: %q, %q, %s %s", gpuType, name, j.Features, j.Prefer, j.State, j.Reason)
			}
		}
	}
}

// TestPreferenceHoldsTheConstraint checks that a preference, which Slurm takes in place of the user's constraint,
// has the constraint in it.
func TestPreferenceHoldsTheConstraint(t *testing.T) {
	f := newFakeSlurm()
	f.nodes[0].feature = "v100,big"
	for features, want := range map[string]string{"": "v100", "big": "", "v100|t4": "v100", "(v100)": ""} {
		f.jobs = nil
		j := f.submit(10)
		j.Features = features
		mustStep(t, testHelper(t, f, t.TempDir(), func(c *Config) { c.GPUType = TypePrefer }))
		if features == "big" { // its nodes are of one type
			want = "big&v100"
		}
		if j.Prefer != want || j.Features != features {
			t.Errorf("%q: prefers %q, not %q, and has the constraint %q", features, j.Prefer, want, j.Features)
		}
	}
}

// TestConstraintNeedsNodes checks that a constraint is good only where nodes that exist satisfy it together with all
// that the job asks for.
func TestConstraintNeedsNodes(t *testing.T) {
	const nodes = `
NodeName=a1 CPUTot=8 RealMemory=1000 AvailableFeatures=a100,big Gres=gpu:a100:4,ssd:1 State=IDLE Partitions=main
NodeName=a2 CPUTot=8 RealMemory=1000 AvailableFeatures=a100 Gres=gpu:a100:2 State=MIXED Partitions=main,short
NodeName=v1 CPUTot=4 RealMemory=500 AvailableFeatures=v100 Gres=gpu:v100:8(S:0-1),ssd:2 State=IDLE Partitions=main
NodeName=v2 CPUTot=64 RealMemory=9000 AvailableFeatures=v100 Gres=gpu:v100:8 State=DOWN* Partitions=main
NodeName=k1 CPUTot=4 RealMemory=500 AvailableFeatures=k80 Gres=gpu:k80:2 State=IDLE+CLOUD+POWERED_DOWN Partitions=main
NodeName=t1 CPUTot=4 RealMemory=500 AvailableFeatures=t4 Gres=gpu:t4:2 State=IDLE+RESERVED Partitions=main
`
	for _, c := range []struct {
		job, features string
		want          bool
	}{
		{`"tres_per_node":"gres/gpu:1"`, "a100", true},
		{`"tres_per_node":"gres/gpu:1"`, "v100", true},
		{`"tres_per_node":"gres/gpu:1"`, "k80", true}, // Slurm starts the node
		{`"tres_per_node":"gres/gpu:1"`, "t4", false}, // is kept for others
		{`"tres_per_node":"gres/gpu:1"`, "h100", false},
		{`"tres_per_node":"gres/gpu:1"`, "a100&big", true},
		{`"tres_per_node":"gres/gpu:1"`, "v100&big", false},
		{`"tres_per_node":"gres/gpu:1"`, "[a100|v100]", false}, // is not understood
		{`"tres_per_node":"gres/gpu:v100:1"`, "a100", false},
		{`"tres_per_node":"gres:gpu:a100:1"`, "a100", true},
		{`"tres_per_job":"gres/gpu:v100:1"`, "a100", false},
		{`"tres_per_task":"cpu=1,gres/gpu:v100=1"`, "a100", false},
		{`"tres_per_socket":"gres/gpu:v100:1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:4"`, "a100", true},
		{`"tres_per_node":"gres/gpu:5"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1,gres/ssd:1"`, "a100", true},
		{`"tres_per_node":"gres/gpu:1,gres/ssd:2"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1,gres/shard:1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:2","node_count":2`, "a100", true},
		{`"tres_per_node":"gres/gpu:4","node_count":2`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","node_count":2`, "v100", false}, // one of the two is down
		{`"tres_per_job":"gres/gpu:6","node_count":2`, "a100", true},
		{`"tres_per_job":"gres/gpu:6"`, "a100", true}, // on as many nodes as Slurm needs
		{`"tres_per_job":"gres/gpu:7"`, "a100", false},
		{`"tres_per_task":"gres/gpu:2","tasks":3`, "a100", true},
		{`"tres_per_task":"gres/gpu:5","tasks":1`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","partition":"short"`, "a100", true},
		{`"tres_per_node":"gres/gpu:1","partition":"short"`, "v100", false},
		{`"tres_per_node":"gres/gpu:4","partition":"short"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","excluded_nodes":"a[1-2]"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","excluded_nodes":"a1"`, "a100", true},
		{`"tres_per_node":"gres/gpu:4","excluded_nodes":"a1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","required_nodes":"v1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","required_nodes":"a2"`, "a100", true},
		{`"tres_per_node":"gres/gpu:1","node_count":2,"required_nodes":"v1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","tres_req_str":"cpu=8,mem=1000M,node=1"`, "a100", true},
		{`"tres_per_node":"gres/gpu:1","tres_req_str":"cpu=9,node=1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","tres_req_str":"cpu=1,mem=1001M,node=1"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","tres_req_str":"cpu=5,node=1"`, "v100", false},
		{`"tres_per_node":"gres/gpu:1","node_count":2,"tres_req_str":"cpu=16,node=2"`, "a100", true},
		{`"tres_per_node":"gres/gpu:1","node_count":2,"tres_req_str":"cpu=17,node=2"`, "a100", false},
		{`"tres_per_node":"gres/gpu:1","resv_name":"maint"`, "a100", false},
	} {
		job := c.job
		if !strings.Contains(job, "partition") {
			job += `,"partition":"main"`
		}
		if !strings.Contains(job, "node_count") {
			job += `,"node_count":1`
		}
		s, err := parse([]byte(nodes), []byte(`{"jobs":[{"job_id":1,"job_state":"PENDING","submit_time":1,`+job+`}]}`),
			[]byte("1|100|0\n"), 0)
		if err != nil || len(s.Jobs) != 1 {
			t.Errorf("%s: %v, %d jobs", c.job, err, len(s.Jobs))
			continue
		}
		s.CPUs, s.Memory = true, true
		if got := s.canStart(s.Records[1], &s.Jobs[0], c.features); got != c.want {
			t.Errorf("%s with %s: %v", c.job, c.features, got)
		}
	}
}

// TestJobsAreFreed gives a job with a constraint of the helper each reason that a constraint may cause: the next look
// gives the user's own one back, counts this once, and gives the job no other one, also after a restart.
func TestJobsAreFreed(t *testing.T) {
	for reason, want := range map[string]bool{"BadConstraints": true, "ReqNodeNotAvail": true, "NodeDown": true,
		"ReqNodeNotAvail, UnavailableNodes:v100-0": true, "ReqNodeNotAvail, May be reserved for other job": true,
		"PartitionConfig": true, "Reservation": true, "Nodes required for job are DOWN, DRAINED or reserved for jobs in " +
			"higher priority partitions": true,
		"Nodes_required_for_job_are_DOWN,_DRAINED": true,
		"Resources": false, "Priority": false, "Dependency": false, "JobHeldUser": false, "QOSMaxGRESPerUser": false,
	} {
		dir := t.TempDir()
		f, j, h := oneOnV100(t, dir)
		j.Reason = reason
		mustStep(t, h)
		if !want {
			if j.Features != "v100" || freed(t, h) != "0" {
				t.Errorf("%s: %q, %s were freed", reason, j.Features, freed(t, h))
			}
			continue
		}
		for i := range 3 {
			if j.Features != "v100|t4" || i < 2 && freed(t, h) != "1" {
				t.Errorf("%s, look %d: %q, %s were freed", reason, i, j.Features, freed(t, h))
			}
			if j.Reason = "Priority"; i == 1 {
				h = testHelper(t, f, dir, nil) // another process
			}
			mustStep(t, h)
		}
		f.nowS += int64(firstFreeWait/time.Second) + 1
		if mustStep(t, h); j.Features != "v100" {
			t.Errorf("%s: %q a while after it was freed", reason, j.Features)
		}
		j.Reason = reason
		mustStep(t, h)
		f.nowS += int64(firstFreeWait/time.Second) + 1
		j.Reason = "Priority"
		if mustStep(t, h); j.Features != "v100|t4" {
			t.Errorf("%s: %q after it was freed twice", reason, j.Features)
		}
	}
}

// TestFreedWithoutPlan drains all nodes of the type, then all nodes, so that there is no plan; and lets another
// process refuse to choose types. The job is freed each time.
func TestFreedWithoutPlan(t *testing.T) {
	f, j, h := oneOnV100(t, t.TempDir())
	f.nodes[0].drained = true // what the job waits for is gone, and Slurm says Resources yet
	mustStep(t, h)
	if j.Features != "v100|t4" || freed(t, h) != "1" {
		t.Errorf("drained: %q, %s were freed", j.Features, freed(t, h))
	}
	dir := t.TempDir()
	f, j, _ = oneOnV100(t, dir)
	f.nodes[0].drained, f.nodes[1].drained = true, true
	h = testHelper(t, f, dir, nil)
	if _, err := h.Step(t.Context()); err == nil || j.Features != "v100|t4" {
		t.Errorf("all drained: %q, %v", j.Features, err)
	}
	dir = t.TempDir()
	f, j, _ = oneOnV100(t, dir)
	f.nodes[0].feature, f.nodes[1].feature = "other", "other"
	var refused *RefusedError
	if err := testHelper(t, f, dir, nil).Check(t.Context()); !errors.As(err, &refused) || j.Features != "v100|t4" {
		t.Errorf("no feature tells types: %q, %v", j.Features, err)
	}
}

// TestFreedWhereScontrolFails checks that a job which scontrol did not free is still known as one that the helper has
// constrained, and is freed later, counted once.
func TestFreedWhereScontrolFails(t *testing.T) {
	dir := t.TempDir()
	f, j, h := oneOnV100(t, dir)
	j.Reason = "BadConstraints"
	f.fail["scontrol"] = errors.New("slurmctld does not answer")
	mustStep(t, h)
	if mustStep(t, h); j.Features != "v100" || freed(t, h) != "1" {
		t.Fatalf("%q, %s were freed", j.Features, freed(t, h))
	}
	f.fail = map[string]error{}
	h = testHelper(t, f, dir, nil)
	if mustStep(t, h); j.Features != "v100|t4" || freed(t, h) != "0" {
		t.Errorf("%q, %s were freed again", j.Features, freed(t, h))
	}
}

// TestFreedOfWhatIsNotKnown lets Slurm not start a job that the plan starts, while its reason tells nothing.
func TestFreedOfWhatIsNotKnown(t *testing.T) {
	f := newFakeSlurm()
	j := f.submit(10)
	h := testHelper(t, f, t.TempDir(), nil)
	mustStep(t, h)
	for range 5 { // the first of these looks finds the job waiting
		f.nowS += int64(patience/time.Second) / 4
		if j.Features != "v100" {
			t.Fatalf("%q at %d", j.Features, f.nowS)
		}
		j.Reason = "Resources"
		mustStep(t, h)
	}
	f.nowS++
	if mustStep(t, h); j.Features != "" || freed(t, h) != "1" {
		t.Errorf("%q, %s were freed", j.Features, freed(t, h))
	}
}

// TestOtherWays checks that a run which does not write constraints, or of which the job is none, gives back what an
// earlier one wrote, and that a dry run says what would be freed.
func TestOtherWays(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"none":   func(c *Config) { c.GPUType = TypeNone },
		"prefer": func(c *Config) { c.GPUType = TypePrefer },
		"others": func(c *Config) { c.OptIn = "mine" },
	} {
		dir := t.TempDir()
		f, j, _ := oneOnV100(t, dir)
		h := testHelper(t, f, dir, change)
		if mustStep(t, h); j.Features != "v100|t4" || freed(t, h) != "0" {
			t.Errorf("%s: %q, %s were freed", name, j.Features, freed(t, h))
		}
	}
	dir := t.TempDir()
	f, j, _ := oneOnV100(t, dir)
	j.Reason = "BadConstraints"
	h := testHelper(t, f, dir, func(c *Config) { c.Write = false })
	r := mustStep(t, h)
	if len(r.Updates) != 1 || r.Updates[0].New != "v100|t4" || j.Features != "v100" || freed(t, h) != "0" ||
		!strings.Contains(fmt.Sprint(r.Updates), "freed: Slurm does not start it: BadConstraints") {
		t.Errorf("dry run: %+v, %q", r.Updates, j.Features)
	}
}

// TestEndingJobRuns keeps a job that is ending among those that run until Slurm tells how it has ended.
func TestEndingJobRuns(t *testing.T) {
	for state, want := range map[string]history.State{"COMPLETING": history.Running, "CONFIGURING": history.Running,
		"COMPLETED": history.Completed, "FAILED": history.Failed} {
		queue := `{"jobs":[{"job_id":1,"job_state":"` + state + `","submit_time":1800000000,"start_time":1800000000,
			"end_time":1800000005,"nodes":"n1","node_count":1,"tres_alloc_str":"gres/gpu=2"}]}`
		s, err := parse([]byte("NodeName=n1 CPUTot=8 Gres=gpu:t4:4 State=IDLE\n"), []byte(queue), nil, 1_800_000_010e6)
		if err != nil || len(s.Jobs) != 1 {
			t.Fatal(err, s)
		}
		if got := s.Jobs[0].State; got != want {
			t.Errorf("%s: the job counts as %s, not as %s", state, got, want)
		}
	}
}
