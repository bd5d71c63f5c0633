package text_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var atNine = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func exampleJob() *clusterdoc.Job {
	started, code := atNine.Add(12*time.Second), 1
	lost := started.Add(90 * time.Second)
	return &clusterdoc.Job{ID: "j3", NewJob: clusterdoc.NewJob{Name: "bert\x1b[31m", Command: []string{"sh", "-c",
		"echo $RANK"}, GPUs: 2, GPUsPerTask: 1, Retries: 2}, State: clusterdoc.JobRunning, Submitted: atNine,
		Started: &started, Failures: 1,
		Attempts: []*clusterdoc.Attempt{
			{Attempt: 1, Result: "failed", Error: "task 1: exit code 1", Ordered: started, Ended: &lost,
				Tasks: []*clusterdoc.TaskInfo{
					{Task: 0, Agent: "n1", GPUs: []string{"n1/0"}, State: clusterdoc.TaskEnded, Signal: "SIGTERM"},
					{Task: 1, Agent: "n2", GPUs: []string{"n2/3"}, State: clusterdoc.TaskEnded, ExitCode: &code}}},
			{Attempt: 2, Ordered: lost, Tasks: []*clusterdoc.TaskInfo{
				{Task: 0, Agent: "n1", GPUs: []string{"n1/0"}, State: clusterdoc.TaskRunning},
				{Task: 1, Agent: "n1", GPUs: []string{"n1/1"}, State: clusterdoc.TaskRunning}}},
		}}
}

func TestJobText(t *testing.T) {
	const want = `job j3 (bert\x1b[31m): running
  command       sh -c 'echo $RANK'
  wants         2 GPUs; retries: 1 of 2 used
  submitted     2026-11-23 09:00:00 UTC, 2h00m ago
  started       2026-11-23 09:00:12 UTC, after 12s
  attempt 1     failed, 1m30s, on n1/0 n2/3: task 1: exit code 1
    task 0      n1/0 ended: SIGTERM
    task 1      n2/3 ended: exit code 1
  attempt 2     goes on, 1h58m, on n1/0,1
    task 0      n1/0 running
    task 1      n1/1 running
`
	if got := text.Job(exampleJob(), atNine.Add(2*time.Hour)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// relaxedJob is a relaxed round job with its parameter server and two tasks of round 7.
func relaxedJob() *clusterdoc.Job {
	round, first, second := int64(7), 0, 3
	return &clusterdoc.Job{ID: "j4", NewJob: clusterdoc.NewJob{Name: "line", Module: "line", Directory: "/jobs",
		Rounds: 20, Tasks: 4, Sync: "relaxed", On: map[string]float64{"V100": 2, "T4": 0}}, State: clusterdoc.JobRunning,
		Submitted: atNine, Started: &atNine, Round: 6, Loss: "0.25", Home: "n1", TasksOut: 2,
		TasksOn: map[string]int64{"V100": 20, "T4": 8},
		Attempts: []*clusterdoc.Attempt{{Attempt: 1, Ordered: atNine, Tasks: []*clusterdoc.TaskInfo{
			{Task: 0, Agent: "n1", State: clusterdoc.TaskRunning},
			{Task: 29, Agent: "n2", GPUs: []string{"n2/1"}, State: clusterdoc.TaskRunning, Round: &round, RoundTask: &first},
			{Task: 32, Agent: "n1", GPUs: []string{"n1/0"}, State: clusterdoc.TaskOrdered, Round: &round,
				RoundTask: &second}}}}}
}

func TestRelaxedJobText(t *testing.T) {
	const want = `job j4 (line): running
  module        line in /jobs
  rounds        6 of 20 saved, the last one with loss 0.25; 4 tasks a round, relaxed
  wants         GPUs round by round, on T4 or V100 (2 s a task)
  tasks         8 on T4, 20 on V100 have ended
  submitted     2026-11-23 09:00:00 UTC, 2h00m ago
  started       2026-11-23 09:00:00 UTC, after 0s
  attempt 1     goes on, 2h00m, on n1/0 n2/1
    parameters  on n1 running
    GPU         n2/1: task 0 of round 7, running
    GPU         n1/0: task 3 of round 7, ordered
`
	if got := text.Job(relaxedJob(), atNine.Add(2*time.Hour)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJobTable(t *testing.T) {
	cluster := &clusterdoc.Cluster{Name: "lab", Agents: 1, GPUs: 4, FreeGPUs: 2,
		Jobs: map[clusterdoc.JobState]int{clusterdoc.JobRunning: 1}}
	const want = `cluster lab: 1 agent, 2 of 4 GPUs free; 1 running
ID  NAME          STATE    GPUS  TIME   WHERE AND WHY
j3  bert\x1b[31m  running  2     2m18s  n1/0,1; attempt 2
7 jobs not shown: hare jobs --state, --once or --json
`
	got := text.Jobs(cluster, []*clusterdoc.Job{exampleJob()}, 7, atNine.Add(150*time.Second))
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// waitingJob waits with a place and times.
func waitingJob() *clusterdoc.Job {
	in, end, earliest := 1750.5, 200_000.0, 3600.0
	return &clusterdoc.Job{ID: "j9", NewJob: clusterdoc.NewJob{Name: "vgg", Command: []string{"x"}, GPUs: 4, User: "ann",
		Labels: map[string]string{"team": "vision"}, On: map[string]float64{"V100": 9000}}, State: clusterdoc.JobWaiting,
		Submitted: atNine, Place: 3, ExpectedInS: &in, ExpectedEndInS: &end, EarliestEndInS: &earliest, Reason: "waits"}
}

func TestTableOfWaitingJobs(t *testing.T) {
	cluster := &clusterdoc.Cluster{Name: "lab", Agents: 1, GPUs: 4, Jobs: map[clusterdoc.JobState]int{
		clusterdoc.JobWaiting: 1}}
	const want = `cluster lab: 1 agent, 0 of 4 GPUs free; 1 waiting
ID  NAME          USER  STATE    GPUS  TIME   PLACE  STARTS           ENDS NOT BEFORE       WHERE AND WHY
j9  vgg           ann   waiting  4     2m00s  3      in about 30 min  2026-11-23 10:02 UTC  waits
j3  bert\x1b[31m        running  2     1m48s                                                n1/0,1; attempt 2
`
	got := text.Jobs(cluster, []*clusterdoc.Job{waitingJob(), exampleJob()}, 0, atNine.Add(2*time.Minute))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const wantJob = `job j9 (vgg): waiting: waits
  command       x
  wants         4 GPUs, on V100 (2 h 30 min)
  user          ann
  label         team=vision
  submitted     2026-11-23 09:00:00 UTC, 2m00s ago
  place         3 of the jobs that wait
  plan          starts in about 30 min
  plan          ends in about 3 days
                and, if its times are right, not before 2026-11-23 10:02 UTC
`
	if got := text.Job(waitingJob(), atNine.Add(2*time.Minute)); got != wantJob {
		t.Errorf("got\n%s\nwant\n%s", got, wantJob)
	}
}

func TestPreviewText(t *testing.T) {
	in, end, earliest := 90.0, 7300.0, 3600.0
	p := &clusterdoc.Preview{Expected: clusterdoc.Expected{ExpectedInS: &in, ExpectedEndInS: &end,
		EarliestEndInS: &earliest, Place: 2, Reason: "It waits."}, Delayed: 2,
		Delays:  []*clusterdoc.Delay{{Job: "j7", ByS: 700}, {Job: "j9", ByS: 4}},
		Assumes: "no other job comes"}
	const want = `would start in about 90 s and end in about 3 h, not before 2026-11-23 10:00 UTC; place 2 of ` +
		`those that wait
It waits.
2 jobs would end later: j7 by 12 min, j9 by 4 s
if no other job comes
`
	job := &clusterdoc.NewJob{GPUs: 4, On: map[string]float64{"V100": 9}}
	if got := text.Preview(job, p, atNine); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, x := range []struct {
		sooner clusterdoc.Sooner
		want   string
	}{
		{clusterdoc.Sooner{GPUs: 2},
			"with --gpus 2 and 2 times its time it would start in about 90 s and end in about 3 h\nif no"},
		{clusterdoc.Sooner{GPUs: 2, Nodes: 2}, "with --gpus 2 --nodes 2 and 2 times its time it would start"},
		{clusterdoc.Sooner{On: []string{"T4"}}, "with --on T4 as well it would start"},
		{clusterdoc.Sooner{Tasks: 2}, "with --tasks 2 it would start in about 90 s"},
	} {
		p.Sooner = &x.sooner
		p.Sooner.Expected = p.Expected
		if got := text.Preview(job, p, atNine); !strings.Contains(got, x.want) {
			t.Errorf("got\n%s\nwant\n%s", got, x.want)
		}
	}
}

func TestChangePreviewText(t *testing.T) {
	in, later := 90.0, 7300.0
	p := &clusterdoc.ChangePreview{Before: clusterdoc.Expected{ExpectedInS: &later, Place: 2},
		After: clusterdoc.Expected{ExpectedInS: &in, ExpectedEndInS: &later, Place: 1}, Delayed: 1,
		Delays: []*clusterdoc.Delay{{Job: "j7", ByS: 700}}, Assumes: "no other job comes"}
	const want = `j9 now would start in about 3 h; place 2 of those that wait
with the change it would start in about 90 s and end in about 3 h; place 1 of those that wait
1 job would end later: j7 by 12 min
no job would end earlier
if no other job comes
`
	if got := text.ChangePreview("j9", p, atNine); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.After = clusterdoc.Expected{Reason: "is held", ReasonCode: "held"}
	if got := text.ChangePreview("j9", p, atNine); !strings.Contains(got, "with the change it is held\n") {
		t.Error(got)
	}
}

func TestAgentTable(t *testing.T) {
	got := text.Agents([]*clusterdoc.Agent{
		{Name: "n1", State: "draining", Reason: "new fans", SeenS: 0.4, Homes: []string{"j4", "j5"},
			Devices: []*clusterdoc.Device{{GPU: "n1/0", Type: "V100", State: "busy", Job: "j3"},
				{GPU: "n1/1", Type: "V100", State: "busy", Job: "j3"},
				{GPU: "n1/2", Type: "T4", State: "quarantined", Reason: "XID 79"}}},
		{Name: "node2", State: "lost", SeenS: 4000, Devices: []*clusterdoc.Device{{GPU: "node2/0", Type: "T4"}}}})
	const want = `NODE   STATE     GPUS         BUSY  SEEN       JOBS AND FAULTS
n1     draining  V100=2,T4=1  2     0s ago     j3 on 0,1; parameters of j4,j5; new fans; GPU 2 quarantined: XID 79
node2  lost      T4=1         0     1h06m ago  
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
