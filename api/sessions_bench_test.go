package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/wire"
)

// connection is one loopback connection to a server with a data directory. The
// session has as many jobs as GPUs, each with one task a round, so that the answer
// to each end of a task is the start of the next task.
type connection struct {
	churn   int64 // a job comes or leaves with each event of a multiple of this number; 0: none does
	b       *testing.B
	dir     string
	in      *io.PipeWriter
	events  *bufio.Writer
	answers *bufio.Reader
	seq     int64
	ended   int64 // tasks
	buf     []byte
	rounds  []int64
	on      []string // GPU of each job
}

func newConnection(b *testing.B, policy string, gpus int) *connection {
	w := &connection{b: b, dir: b.TempDir(), rounds: make([]int64, gpus), on: make([]string, gpus)}
	store, err := sqlite.Open(b.Context(), w.dir)
	if err != nil {
		b.Fatal(err)
	}
	sessions, err := sessions.Open(b.Context(), sessions.Config{Store: api.NewTimedStore(store)})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(servetest.New(b, service.New(service.Config{}), api.Config{Sessions: sessions}))
	b.Cleanup(func() {
		server.Close()
		_ = sessions.Close()
	})
	resp, err := http.Post(server.URL+"/v1/sessions", "application/json",
		strings.NewReader(fmt.Sprintf(`{"policy":%q,"cluster":{"nodes":[{"name":"a","gpus":{"V100":%d}}]}}`, policy, gpus)))
	if err != nil || resp.StatusCode != http.StatusCreated {
		b.Fatal(err, resp)
	}
	_ = resp.Body.Close()
	var body *io.PipeReader
	body, w.in = io.Pipe()
	req, err := http.NewRequestWithContext(b.Context(), "POST", server.URL+resp.Header.Get("Location")+"/events", body)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	if resp, err = server.Client().Do(req); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = w.in.Close()
		_ = resp.Body.Close()
	})
	w.answers, w.events = bufio.NewReaderSize(resp.Body, 1<<16), bufio.NewWriterSize(w.in, 1<<16)
	go func() {
		for j := range gpus {
			w.begin()
			w.buf = append(strconv.AppendInt(append(w.buf, `"type":"job_arrived","job":{"id":"j`...), int64(j), 10),
				`","on":{"V100":{"compute_s":1}}}}`...)
			w.send()
		}
		w.flush()
	}()
	for j := range gpus {
		a, err := wire.DecodeAnswer(bytes.TrimSpace(w.read()))
		if err != nil || len(a.Decisions) != 1 {
			b.Fatalf("job %d: %v %+v", j, err, a)
		}
		w.on[j] = a.Decisions[0].GPU
	}
	return w
}

func (w *connection) begin() {
	w.seq++
	w.buf = strconv.AppendInt(append(w.buf[:0], `{"seq":`...), w.seq, 10)
	w.buf = append(strconv.AppendInt(append(w.buf, `,"at_s":`...), w.seq/1000, 10), ',')
}

func (w *connection) send() {
	if _, err := w.events.Write(append(w.buf, '\n')); err != nil {
		w.b.Error(err)
	}
}

func (w *connection) flush() {
	if err := w.events.Flush(); err != nil {
		w.b.Error(err)
	}
}

// end sends the end of the task that has run longest, or what makes a plan due.
func (w *connection) end() {
	if w.churn > 0 && (w.seq+1)%w.churn == 0 {
		w.begin()
		if w.seq/w.churn%2 == 1 {
			w.buf = append(w.buf, `"type":"job_arrived","job":{"id":"guest","on":{"T4":{"compute_s":1}}}}`...)
		} else {
			w.buf = append(w.buf, `"type":"job_cancelled","job":"guest"}`...)
		}
		w.send()
		return
	}
	j := int(w.ended) % len(w.on)
	w.ended++
	w.begin()
	w.buf = append(strconv.AppendInt(append(w.buf, `"type":"task_ended","job":"j`...), int64(j), 10), `","round":`...)
	w.buf = append(strconv.AppendInt(w.buf, w.rounds[j], 10), `,"task":0,"gpu":"`...)
	w.buf = append(append(w.buf, w.on[j]...), `","compute_s":1}`...)
	w.rounds[j]++
	w.send()
}

// read returns the next answer, which is valid until the next call.
func (w *connection) read() []byte {
	line, err := w.answers.ReadSlice('\n')
	if err != nil || bytes.Contains(line, []byte(`"error"`)) ||
		w.churn == 0 && !bytes.Contains(line, []byte(`"start"`)) {
		w.b.Fatalf("%v %s", err, line)
	}
	return line
}

// BenchmarkEvents measures the rate of durable events over HTTP, pipelined on one
// connection: one op is one event. With plans, a job comes or leaves with each hundredth
// event, so that a plan is being made most of the time; the
// job waits for a type that there is not.
func BenchmarkEvents(b *testing.B) {
	for _, c := range []struct {
		name, policy string
		gpus         int
		churn        int64
	}{
		{"gpus=64", "hlas", 64, 0},
		{"gpus=10000", "hlas", 10_000, 0},
		{"rolling/gpus=64", "rolling", 64, 0},
		{"plans/gpus=64", "rolling", 64, 100},
		{"plans/gpus=1000", "rolling", 1000, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newConnection(b, c.policy, c.gpus)
			w.churn = c.churn
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for range b.N {
					w.end()
				}
				w.flush()
			}()
			for range b.N {
				w.read()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkEventLatency sends events at a constant rate. It reports the 99th
// percentile of the time from the moment at which each event was due to its durable
// decision at the client. For comparison it measures appends of two pages with
// fsync to a file in the same directory: once on the idle disk before each second,
// and once at the same time as the events, 50 times a second.
func BenchmarkEventLatency(b *testing.B) {
	for _, c := range []struct {
		policy string
		churn  int64
		rate   int
	}{{"hlas", 0, 10_000}, {"hlas", 0, 50_000}, {"rolling", 100, 1000}, {"rolling", 100, 10_000}} {
		rate := c.rate
		b.Run(fmt.Sprintf("%s/rate=%d", c.policy, rate), func(b *testing.B) {
			w := newConnection(b, c.policy, 64)
			w.churn = c.churn
			var took, idle, meanwhile []time.Duration
			for b.Loop() {
				idle = append(idle, fsyncs(b, w.dir, 100, 0, nil)...)
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					meanwhile = append(meanwhile, fsyncs(b, w.dir, 1<<30, 20*time.Millisecond, stop)...)
				}()
				took = append(took, w.steady(rate)...)
				close(stop)
				<-stopped
			}
			_, p99 := report(b, took, "")
			for of, disk := range map[string][]time.Duration{"idle-fsync-": idle, "meanwhile-fsync-": meanwhile} {
				half, most := report(b, disk, of)
				b.ReportMetric(p99/half, "p99/"+of+"p50")
				b.ReportMetric(p99/most, "p99/"+of+"p99")
			}
		})
	}
}

// report reports the median and the 99th percentile in µs.
func report(b *testing.B, took []time.Duration, of string) (p50, p99 float64) {
	slices.Sort(took)
	p50, p99 = float64(took[len(took)/2].Microseconds()), float64(took[len(took)*99/100].Microseconds())
	b.ReportMetric(p50, of+"p50-µs")
	b.ReportMetric(p99, of+"p99-µs")
	return p50, p99
}

// steady sends events for one second; each event has a time at which it is due.
func (w *connection) steady(rate int) []time.Duration {
	start := time.Now()
	due := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second / time.Duration(rate)) }
	go func() {
		for i := range rate {
			if wait := time.Until(due(i)); wait > 50*time.Microsecond {
				w.flush()
				time.Sleep(wait)
			}
			w.end()
		}
		w.flush()
	}()
	took := make([]time.Duration, rate)
	for i := range took {
		w.read()
		took[i] = time.Since(due(i))
	}
	return took
}

// fsyncs measures up to n appends of two pages with fsync to a file in dir, at
// intervals of pace, until stop is closed.
func fsyncs(b *testing.B, dir string, n int, pace time.Duration, stop <-chan struct{}) (took []time.Duration) {
	f, err := os.CreateTemp(dir, "fsync")
	if err != nil {
		b.Error(err)
		return nil
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 8192)
	for len(took) < n {
		if pace > 0 {
			select {
			case <-stop:
				return took
			case <-time.After(pace):
			}
		}
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			b.Error(err)
		}
		if err := f.Sync(); err != nil {
			b.Error(err)
		}
		took = append(took, time.Since(start))
	}
	return took
}
