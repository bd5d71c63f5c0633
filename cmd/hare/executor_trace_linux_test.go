package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/client"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	"github.com/hare-sched/hare/wire"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// tracedJobs are jobs whose ends are at least 249 s apart under each of tracedPolicies, so that a played cluster has
// its events in the order of the simulation. They arrive a second apart.
var tracedJobs = []struct {
	gpus int
	on   map[string]float64
}{
	{1, map[string]float64{"T4": 1400, "V100": 650}}, {2, map[string]float64{"T4": 2200}},
	{1, map[string]float64{"T4": 1900, "V100": 900}}, {1, map[string]float64{"T4": 800, "V100": 350}},
	{1, map[string]float64{"T4": 700}}, {1, map[string]float64{"T4": 1500, "V100": 700}},
	{2, map[string]float64{"T4": 700}}, {1, map[string]float64{"T4": 1600, "V100": 750}},
}

var tracedPolicies = []string{"fifo", "srtf", "hgittins"}

// simulatedOrder is the order of jobs on each GPU in the simulation of each policy.
func simulatedOrder(t *testing.T) map[string]map[string][]string {
	t.Helper()
	var jobs []string
	for i, j := range tracedJobs {
		var on []string
		for _, gpu := range slices.Sorted(maps.Keys(j.on)) {
			on = append(on, fmt.Sprintf(`"%s":{"compute_s":%v}`, gpu, j.on[gpu]))
		}
		jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","release_s":%d,"sync":"rigid","tasks":%d,"on":{%s}}`, i+1, i+1, j.gpus,
			strings.Join(on, ",")))
	}
	path := file(t, "trace.json", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"n1","gpus":{"T4":2,"V100":1}}]},`+
		`"jobs":[`+strings.Join(jobs, ",")+`]}`)
	dir := t.TempDir()
	if _, errs, code := runHare(t, "", "simulate", "--policy", strings.Join(tracedPolicies, ","), "--instance", path,
		"--bound", "never", "--record", dir, "-q"); code != 0 {
		t.Fatal(errs)
	}
	all := map[string]map[string][]string{}
	for _, policy := range tracedPolicies {
		f, err := os.Open(filepath.Join(dir, policy+".result.json"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := wire.DecodeResult(f, wire.Limits{})
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		order := map[string][]string{}
		for _, lane := range res.Schedule.Lanes {
			for _, j := range lane.Job {
				order[lane.GPU] = append(order[lane.GPU], res.Schedule.Jobs[j])
			}
		}
		all[policy] = order
	}
	return all
}

// TestAgentsDecideAsTheSimulator plays a trace on pretended GPUs, and holds what ran where and in which order
// against the simulation of the same policy.
func TestAgentsDecideAsTheSimulator(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	want := simulatedOrder(t)
	for _, speed := range []int{500, 100} {
		got := playTrace(t, speed)
		if reflect.DeepEqual(got, want) {
			return
		}
		// A machine that is late by a quarter of a second changes the order of ends at the greater speed.
		t.Logf("%d times as fast:\ngot  %v\nwant %v", speed, got, want)
	}
	t.Error("the decisions are not those of the simulation")
}

// playTrace plays the jobs under each policy, in a cluster each, and returns the order of jobs on each GPU.
func playTrace(t *testing.T, speed int) map[string]map[string][]string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 3*patience)
	defer stop()
	c, _ := tracedClusters(ctx, t, "T4=2,V100=1", 3, speed)
	all := map[string]map[string][]string{}
	for _, policy := range tracedPolicies {
		for _, j := range tracedJobs {
			if _, err := c.SubmitJob(ctx, policy, &clusterdoc.NewJob{Command: []string{"train"}, GPUs: j.gpus, On: j.on},
				""); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, policy := range tracedPolicies {
		all[policy] = playedOrder(t, ctx, c, policy)
	}
	return all
}

// tracedClusters starts a server at url, and for each of tracedPolicies a cluster of its name, with an agent that
// pretends devices with so many GPUs. It returns when all GPUs are in service.
func tracedClusters(ctx context.Context, t *testing.T, devices string, gpus, speed int) (*client.Client, string) {
	t.Helper()
	url, dir := serve(t, time.Hour).url, t.TempDir()
	start := func(args ...string) {
		c := command(args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { endProcess(c) })
	}
	c, err := client.New(client.Config{URL: url, Retries: 100})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Version(ctx); err != nil {
		t.Fatal(err)
	}
	for _, policy := range tracedPolicies {
		if _, err := c.CreateCluster(ctx, &clusterdoc.NewCluster{Name: policy, Policy: policy}); err != nil {
			t.Fatal(err)
		}
		start("agent", "--server", url, "--cluster", policy, "--name", "n1", "--directory", filepath.Join(dir, policy),
			"--devices", devices, "--speed", fmt.Sprint(speed))
	}
	for _, policy := range tracedPolicies {
		for x := (&clusterdoc.Cluster{}); x.GPUs < gpus; {
			if err := rest(ctx, 20*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if x, err = c.Cluster(ctx, policy); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c, url
}

func endProcess(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}

// playedOrder waits for the jobs of a cluster and returns their order on each GPU.
func playedOrder(t *testing.T, ctx context.Context, c *client.Client, cluster string) map[string][]string {
	t.Helper()
	var jobs []*clusterdoc.Job
	for i := range tracedJobs {
		for {
			job, err := c.ClusterJob(ctx, cluster, fmt.Sprintf("j%d", i+1))
			if err != nil {
				t.Fatal(err)
			}
			if job.State.Final() {
				if job.State != clusterdoc.JobSucceeded || len(job.Attempts) != 1 {
					t.Errorf("%s", clustertext.Job(job, time.Now()))
				}
				jobs = append(jobs, job)
				break
			}
			if err := rest(ctx, 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b *clusterdoc.Job) int { return a.Attempts[0].Ordered.Compare(b.Attempts[0].Ordered) })
	order := map[string][]string{}
	for _, job := range jobs {
		for _, task := range job.Attempts[0].Tasks {
			for _, gpu := range task.GPUs {
				order[gpu] = append(order[gpu], job.ID)
			}
		}
	}
	return order
}
