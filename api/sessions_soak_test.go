package api_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// soak makes the test of many sessions as long as it is before a release:
//
//	go test ./api -run Soak -v -args -hare.soak
var soak = flag.Bool("hare.soak", false, "1,000 sessions for a minute")

// TestSoakSessions runs many sessions at the same time, each on its own connection
// and on disk. Jobs arrive, run and end, and memory must not grow.
func TestSoakSessions(t *testing.T) {
	number, length, pause := 50, time.Second, 20*time.Millisecond
	if *soak {
		number, length, pause = 1000, time.Minute, 100*time.Millisecond
	}
	store, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := sessions.Open(t.Context(), sessions.Config{Store: api.NewTimedStore(store)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(servetest.New(t, service.New(service.Config{}), api.Config{Sessions: sessions}))
	defer func() {
		server.Close()
		if err := sessions.Close(); err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var events atomic.Int64
	var ready, talking sync.WaitGroup
	ready.Add(number)
	end := make(chan struct{})
	for i := range number {
		talking.Go(func() {
			if err := talkUntil(client, server.URL, time.Duration(i)*pause/time.Duration(number), pause, ready.Done, end,
				&events); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	began, before := time.Now(), events.Load()
	const samples = 12
	var resident [samples]int64
	for i := range samples {
		time.Sleep(length / samples)
		resident[i] = residentBytes(t)
		t.Logf("after %4.1f s: %d events, %d MiB resident, %d goroutines", time.Since(began).Seconds(), events.Load()-before,
			resident[i]>>20, runtime.NumGoroutine())
	}
	close(end)
	talking.Wait()
	first, last := resident[samples/3], resident[samples-1]
	if *soak && last > first+first/4 {
		t.Errorf("memory grew from %d to %d MiB", first>>20, last>>20)
	}
}

// talkUntil drives one session: it sends an event after each answer and a pause,
// and retries when the server is busy.
func talkUntil(client *http.Client, url string, offset, pause time.Duration, ready func(), end <-chan struct{},
	events *atomic.Int64) error {
	var resp *http.Response
	var err error
	for status := http.StatusServiceUnavailable; status == http.StatusServiceUnavailable; {
		if resp, err = client.Post(url+"/v1/sessions", "application/json",
			strings.NewReader(`{"cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]}}`)); err != nil {
			ready()
			return err
		}
		_ = resp.Body.Close()
		if status = resp.StatusCode; status == http.StatusServiceUnavailable {
			time.Sleep(pause)
		}
	}
	body, in := io.Pipe()
	defer func() { _ = in.Close() }()
	req, err := http.NewRequest("POST", url+resp.Header.Get("Location")+"/events", body)
	if err == nil {
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err = client.Do(req)
	}
	ready()
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	out := bufio.NewReader(resp.Body)
	time.Sleep(offset)
	for seq := int64(1); ; seq++ {
		job, step := (seq-1)/4, (seq-1)%4
		rest := ""
		switch step {
		case 0:
			rest = fmt.Sprintf(`"job_arrived","job":{"id":"j%d","on":{"V100":{"compute_s":1}}}`, job)
		case 1, 2:
			rest = fmt.Sprintf(`"task_ended","job":"j%d","round":%d,"task":0,"gpu":"a/0","compute_s":1`, job, step-1)
		case 3:
			rest = fmt.Sprintf(`"job_ended","job":"j%d"`, job)
		}
		if _, err := fmt.Fprintf(in, `{"seq":%d,"at_s":%d,"type":%s}`+"\n", seq, seq, rest); err != nil {
			return err
		}
		line, err := out.ReadSlice('\n')
		if err != nil || !bytes.Contains(line, []byte(`"decisions"`)) {
			return fmt.Errorf("%w %s", err, line)
		}
		events.Add(1)
		select {
		case <-end:
			return nil
		case <-time.After(pause):
		}
	}
}

// residentBytes returns the resident memory of this process, which is client and
// server; 0 where the system does not report it.
func residentBytes(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
