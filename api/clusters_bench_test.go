package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/solver"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// BenchmarkAgentsOverHTTP is BenchmarkAgents of package clusters with requests over loopback: agents, submitters and
// the server share the process.
func BenchmarkAgentsOverHTTP(b *testing.B) {
	for _, policy := range []string{"fifo", "hgittins", "rolling"} {
		b.Run(policy, func(b *testing.B) { benchmarkHTTPAgents(b, policy) })
	}
}

func benchmarkHTTPAgents(b *testing.B, policy string) {
	const agents, submitters = 500, 256
	st, err := sqlite.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	kept, err := sessions.Open(b.Context(), sessions.Config{Store: store.WithoutJournals(st), MaxJobs: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	managed, err := clusters.Open(b.Context(), clusters.Config{Store: store.Journals(st), Sessions: kept,
		LogDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer managed.Close()
	srv := httptest.NewServer(servetest.New(b, service.New(service.Config{Solver: solver.Config{Version: "test"}}),
		api.Config{MaxBodyBytes: 1 << 20, Sessions: kept, Clusters: managed}))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: agents + submitters}}
	post := func(path, secret string, body, into any) {
		text, err := json.Marshal(body)
		if err != nil {
			b.Error(err)
			return
		}
		req, err := http.NewRequest(http.MethodPost, srv.URL+path, bytes.NewReader(text))
		if err != nil {
			b.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(clusterdoc.SecretHeader, secret)
		resp, err := client.Do(req)
		if err != nil {
			b.Error(err)
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			b.Error(path, resp.Status)
		}
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			b.Error(err)
		}
	}
	post("/v1/clusters", "", &clusterdoc.NewCluster{Name: "lab", Policy: policy}, &clusterdoc.Cluster{})
	var ended atomic.Int64
	over := make(chan struct{})
	var group, ready sync.WaitGroup
	exit := 0
	for i := range agents {
		r := &clusterdoc.Registration{Protocol: clusterdoc.ProtocolVersion, Name: fmt.Sprintf("n%03d", i),
			Incarnation: "an incarnation", Address: "127.0.0.1"}
		r.Incarnation = fmt.Sprintf("incarnation %08d", i)
		for k := range 8 {
			r.Devices = append(r.Devices, clusterdoc.AgentDevice{Type: []string{"V100", "T4"}[k/4]})
		}
		ready.Add(1)
		group.Go(func() {
			var me clusterdoc.Registered
			post("/v1/clusters/lab/agents", "", r, &me)
			ready.Done()
			ask := clusterdoc.Sync{Epoch: me.Epoch, WaitS: 2}
			for {
				var told clusterdoc.Synced
				post("/v1/clusters/lab/agents/"+r.Name+"/sync", me.Secret, &ask, &told)
				ask.Reports, ask.ReportsAfter = nil, told.ReportsSeen
				for i := range told.Orders {
					o := &told.Orders[i]
					ask.OrdersSeen = o.Number
					ask.Reports = append(ask.Reports, clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning},
						clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskEnded, ExitCode: &exit, RanS: 1})
					if ended.Add(1) == int64(b.N) {
						close(over)
					}
				}
				select {
				case <-over:
					if len(ask.Reports) == 0 || b.Failed() {
						return
					}
				default:
				}
			}
		})
	}
	ready.Wait()
	b.ResetTimer()
	var next atomic.Int64
	for range submitters {
		group.Go(func() {
			for next.Add(1) <= int64(b.N) {
				post("/v1/clusters/lab/jobs", "", &clusterdoc.NewJob{Command: []string{"true"}}, &clusterdoc.Job{})
			}
		})
	}
	<-over
	b.StopTimer()
	b.ReportMetric(5*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	group.Wait()
}
