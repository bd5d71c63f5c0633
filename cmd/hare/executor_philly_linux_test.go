package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var phillyJobs = flag.Int("philly-jobs", 24, "how many jobs of Philly's trace agents play")

const (
	phillyGPUs  = 4
	phillySpeed = 2000
	phillyFirst = 30
)

// phillyJob is a job of Microsoft's trace.
type phillyJob struct {
	arrival, duration, gpus int
}

// readPhilly reads jobs that have at most four GPUs and run for at most four hours, behind the first, which wait for
// nothing.
func readPhilly(t *testing.T, n int) (jobs []phillyJob) {
	t.Helper()
	f, err := os.Open("../../trace/data/philly_week_2017-10-02.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		var j phillyJob
		for i, x := range []*int{&j.arrival, &j.duration, &j.gpus} {
			if *x, err = strconv.Atoi(row[i]); err != nil {
				t.Fatal(err)
			}
		}
		if j.gpus <= 4 && j.duration > 0 && j.duration <= 4*3600 {
			jobs = append(jobs, j)
		}
	}
	return jobs[phillyFirst:][:n]
}

// TestAgentsDecideAsTheSimulatorOnPhilly plays a part of Philly's trace on pretended GPUs under each policy. The
// simulation of the same jobs, with the times at which they arrived and ended there, has the same decisions, byte for
// byte and with their times.
func TestAgentsDecideAsTheSimulatorOnPhilly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	jobs := readPhilly(t, *phillyJobs)
	for cluster, log := range playPhilly(t, jobs) {
		played, times := readPlayed(t, log)
		var late []int64 // by which jobs took longer than they say, in microseconds
		for i, j := range jobs {
			x := times[fmt.Sprint("j", i+1)]
			late = append(late, x.ended-x.started-int64(j.duration)*1e6/phillySpeed)
		}
		slices.Sort(late)
		// Clocks may differ by a millisecond, and an end is seen some hundredths of a second late, more on a busy machine.
		if late[0] < -1e3 || late[len(late)/2] > 2e6 {
			t.Errorf("%s: jobs took between %d and %d µs longer than they say, half of them more than %d", cluster, late[0],
				late[len(late)-1], late[len(late)/2])
		}
		got := simulatePhilly(t, cluster, jobs, times)
		waited := 0
		for _, x := range times {
			if x.started > x.arrived {
				waited++
			}
		}
		if len(played) < len(jobs) || waited < len(jobs)/5 {
			t.Errorf("%s: %d decisions for %d jobs, of which %d have waited", cluster, len(played), len(jobs), waited)
		}
		if diff := cmp.Diff(played, got); diff != "" {
			t.Errorf("%s: the simulation decides otherwise: %.2000s", cluster, diff)
		}
		t.Logf("%s: %d decisions are those of the simulation; %d of %d jobs have waited", cluster, len(played), waited,
			len(jobs))
	}
}

// playPhilly plays the jobs in a cluster for each policy and returns the logs of the sessions.
func playPhilly(t *testing.T, jobs []phillyJob) map[string][]byte {
	t.Helper()
	span := time.Duration(jobs[len(jobs)-1].arrival/phillySpeed) * time.Second
	ctx, stop := context.WithTimeout(t.Context(), 3*patience+2*span)
	defer stop()
	c, url := tracedClusters(ctx, t, fmt.Sprintf("GPU=%d", phillyGPUs), phillyGPUs, phillySpeed)
	begun := time.Now()
	for _, j := range jobs {
		at := time.Duration(float64(j.arrival-jobs[0].arrival) / phillySpeed * float64(time.Second))
		if err := rest(ctx, time.Until(begun.Add(at))); err != nil {
			t.Fatal(err)
		}
		for _, name := range tracedPolicies {
			n := &clusterdoc.NewJob{Command: []string{"train"}, GPUs: j.gpus,
				On: map[string]float64{"GPU": float64(j.duration)}}
			if _, err := c.SubmitJob(ctx, name, n, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	logs := map[string][]byte{}
	for _, name := range tracedPolicies {
		var x *clusterdoc.Cluster
		for {
			var err error
			if x, err = c.Cluster(ctx, name); err != nil {
				t.Fatal(err)
			}
			if x.Jobs[clusterdoc.JobSucceeded] == len(jobs) {
				break
			}
			if err := rest(ctx, 50*time.Millisecond); err != nil {
				t.Fatalf("%s: %+v", name, x)
			}
		}
		resp, err := http.Get(url + "/v1/sessions/" + x.Session + "/log")
		if err != nil {
			t.Fatal(err)
		}
		logs[name], err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, resp.Status)
		}
	}
	return logs
}

// playedTimes are the times of a job in a session, in microseconds.
type playedTimes struct{ arrived, started, ended int64 }

// readPlayed has the decisions of a session's log, each with its time, and the times of the jobs. The ends of the
// tasks of a job, and its own end, are events of the session some microseconds apart: they count as one, at the time
// of the last. The session does not know that jobs have one round: what it decides of a second one, and takes back
// when the job has ended, is left out.
func readPlayed(t *testing.T, log []byte) (decisions []string, times map[string]*playedTimes) {
	t.Helper()
	type event struct {
		At   json.Number `json:"at_s"`
		Type string      `json:"type"`
		Job  any         `json:"job"`
	}
	type decision struct {
		Type string `json:"type"`
		Job  string `json:"job"`
		Task int64  `json:"task"`
		GPU  string `json:"gpu"`
		At   any    `json:"at_s"`

		Round int64 `json:"round"`
	}
	times = map[string]*playedTimes{}
	var waiting []decision // of the tasks of a job, until the job has ended
	for line := range bytes.Lines(log) {
		var rec struct {
			Event     event      `json:"event"`
			Decisions []decision `json:"decisions"`
		}
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if rec.Event.At == "" {
			continue // the head of the log
		}
		at := microsOf(t, rec.Event.At.String())
		waiting = append(waiting, rec.Decisions...)
		switch rec.Event.Type {
		case "task_ended":
			continue
		case "job_arrived":
			id, _ := rec.Event.Job.(map[string]any)["id"].(string)
			times[id] = &playedTimes{arrived: at}
		case "job_ended":
			id, _ := rec.Event.Job.(string)
			times[id].ended = at
		}
		for _, d := range waiting {
			if d.Round > 0 {
				continue
			}
			times[d.Job].started = at
			decisions = append(decisions, decisionText(d.Type, d.Job, d.Task, d.GPU, at))
		}
		waiting = nil
	}
	return decisions, times
}

func decisionText(what, job string, task int64, gpu string, atUs int64) string {
	return fmt.Sprintf(`{"type":%q,"job":%q,"round":0,"task":%d,"gpu":%q,"at_us":%d}`, what, job, task, gpu, atUs)
}

func microsOf(t *testing.T, seconds string) int64 {
	t.Helper()
	whole, part, _ := strings.Cut(seconds, ".")
	us, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return us
}

// simulatePhilly simulates the jobs with the times that they had, and returns the decisions as readPlayed does.
func simulatePhilly(t *testing.T, name string, jobs []phillyJob, times map[string]*playedTimes) (decisions []string) {
	t.Helper()
	var list []string
	for i, j := range jobs {
		id := fmt.Sprint("j", i+1)
		at := times[id].arrived
		list = append(list, fmt.Sprintf(`{"id":%q,"release_s":%d.%06d,"sync":"rigid","tasks":%d,`+
			`"on":{"GPU":{"compute_s":%d}}}`, id, at/1e6, at%1e6, j.gpus, j.duration))
	}
	text := fmt.Sprintf(`{"hare":"instance/v1","cluster":{"nodes":[{"name":"n1","gpus":{"GPU":%d}}]},"jobs":[%s]}`,
		phillyGPUs, strings.Join(list, ","))
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := registry.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := info.NewTask(t.Context(), inst, policies.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sim.Run(t.Context(), inst, p, sim.Config{
		Times: func(job int, _, _ int64, _ string) sim.TaskTimes {
			x := times[inst.Jobs[job].ID]
			return sim.TaskTimes{ComputeUs: x.ended - x.started}
		},
		Log: func(r wire.Record) error {
			for i := range r.Decisions {
				d := &r.Decisions[i]
				if d.Round > 0 {
					continue
				}
				for _, gpu := range d.GPUs() {
					decisions = append(decisions, decisionText(d.Type.String(), d.Job, d.Task, gpu, r.Event.AtUs))
				}
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}
