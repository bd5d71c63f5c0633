package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/service/sqlite"
)

// BenchmarkEvents sends events over one connection on loopback, pipelined,
// each durable on disk before it is answered: jobs arrive until all GPUs are
// held, and then tasks end one after another.
func BenchmarkEvents(b *testing.B) {
	for _, gpus := range []int{64, 10_000} {
		b.Run(fmt.Sprintf("gpus-%d", gpus), func(b *testing.B) { benchmarkEvents(b, gpus) })
	}
}

func benchmarkEvents(b *testing.B, gpus int) {
	store, err := sqlite.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	sessions, err := service.OpenSessions(b.Context(), service.SessionsConfig{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sessions.Close() }()
	server := httptest.NewServer(api.New(service.New(service.Config{}), api.Config{Sessions: sessions}))
	defer server.Close()
	resp, err := http.Post(server.URL+"/v1/sessions", "application/json", strings.NewReader(fmt.Sprintf(`{"cluster":{"nodes":[{"name":"a","gpus":{"V100":%d}}]}}`, gpus)))
	if err != nil || resp.StatusCode != http.StatusCreated {
		b.Fatal(err, resp)
	}
	_ = resp.Body.Close()
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(b.Context(), "POST", server.URL+resp.Header.Get("Location")+"/events", in)
	if err != nil {
		b.Fatal(err)
	}
	if resp, err = server.Client().Do(req); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answers := bufio.NewReaderSize(resp.Body, 1<<16)
	events := bufio.NewWriterSize(out, 1<<16)
	seq := int64(0)
	send := func(rest string) {
		seq++
		if _, err := fmt.Fprintf(events, `{"seq":%d,"at_s":%d,%s`+"\n", seq, seq/1000, rest); err != nil {
			b.Error(err)
		}
	}
	type place struct {
		round int64
		gpu   string
	}
	places := make([]place, gpus)
	for j := range gpus {
		send(fmt.Sprintf(`"type":"job_arrived","job":{"id":"%d","on":{"V100":{"compute_s":1}}}`, j))
		if err := events.Flush(); err != nil {
			b.Fatal(err)
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			b.Fatal(err)
		}
		a, err := hare.DecodeAnswer(line)
		if err != nil || len(a.Decisions) != 1 {
			b.Fatalf("%v %s", err, line)
		}
		places[j] = place{0, a.Decisions[0].GPU}
	}
	// A round of one task is followed by the next on the same GPU.
	sent := make([]time.Time, b.N)
	b.ResetTimer()
	go func() {
		for i := range b.N {
			p := &places[i%gpus]
			send(fmt.Sprintf(`"type":"task_ended","job":"%d","round":%d,"task":0,"gpu":"%s","compute_s":1`, i%gpus, p.round, p.gpu))
			p.round++
			sent[i] = time.Now()
		}
		_ = events.Flush()
		_ = out.Close()
	}()
	took := make([]time.Duration, b.N)
	for i := range b.N {
		line, err := answers.ReadSlice('\n')
		if err != nil || strings.Contains(string(line), "error") {
			b.Fatalf("%d: %v %s", i, err, line)
		}
		took[i] = time.Since(sent[i])
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
