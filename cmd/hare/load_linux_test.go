package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// generated returns an instance; with sync "mixture" it has jobs of every kind.
func generated(t testing.TB, jobs int, sync string, seed int64) *hare.Instance {
	t.Helper()
	n := max(1, jobs/20)
	cfg := trace.GenerateConfig{Jobs: jobs, GPUs: []hare.TypeCount{{Type: "V100", Count: 6 * n},
		{Type: "T4", Count: 5 * n}, {Type: "K80", Count: 3 * n}, {Type: "M60", Count: 2 * n}}, Sync: sync,
		Seed: uint64(seed)}
	if sync == "mixture" {
		cfg.Sync = "relaxed"
	}
	inst, err := trace.Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range inst.Jobs {
		if sync == "mixture" {
			inst.Jobs[i].Sync = []hare.Sync{hare.Relaxed, hare.Gang, hare.Relaxed, hare.Rigid}[i%4]
		}
	}
	return inst
}

// loadBody returns a body of POST /v1/solves.
func loadBody(t testing.TB, inst *hare.Instance, options string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`{"options":` + options + `,"instance":`)
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	b.WriteString("}")
	return b.Bytes()
}

// call sends one request and reads the whole answer.
func (s *served) call(method, path string, body []byte, headers ...string) (int, http.Header, []byte, error) {
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := loadClient.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header, text, err
}

var loadClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}

// cpu returns the processor time that the server has used.
func (s *served) cpu(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(after)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// rss returns the server's resident memory in MiB.
func (s *served) rss(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "VmRSS:" {
			kib, _ := strconv.Atoi(f[1])
			return kib >> 10
		}
	}
	return 0
}

// spans holds measured durations.
type spans struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *spans) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// at returns a percentile in ms, or 0 where there are no durations.
func (s *spans) at(p float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return 0
	}
	slices.Sort(s.all)
	return float64(s.all[int(p*float64(len(s.all)-1))].Microseconds()) / 1e3
}

// BenchmarkServeSolves runs distinct solves of 20 jobs at the smallest work limit
// over eight loopback connections. Each solve is durable before it runs and again
// at its end. The client uses the same cores.
func BenchmarkServeSolves(b *testing.B) {
	for _, detail := range []string{"lanes", "none"} {
		b.Run(detail, func(b *testing.B) {
			s := serve(b, time.Hour, "--data-dir", b.TempDir(), "--retain-size", "100000")
			defer s.stop(b)
			bodies := make([][]byte, b.N)
			for i := range bodies {
				bodies[i] = loadBody(b, generated(b, 20, "relaxed", int64(i)),
					fmt.Sprintf(`{"work_limit":1,"seed":%d,"detail":%q}`, i, detail))
			}
			var took spans
			var next atomic.Int64
			var all sync.WaitGroup
			cpu := s.cpu(b)
			b.ResetTimer()
			for range 8 {
				all.Go(func() {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						began := time.Now()
						code, h, text, err := s.call("POST", "/v1/solves", bodies[i], "Prefer", "wait=60")
						if err != nil || code != 200 || h.Get("Hare-Cache") != "miss" {
							b.Errorf("%d %.200s %v", code, text, err)
							return
						}
						took.add(time.Since(began))
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "solves/s")
			b.ReportMetric(took.at(0.5), "p50-ms")
			b.ReportMetric(took.at(0.99), "p99-ms")
			b.ReportMetric(float64((s.cpu(b)-cpu).Microseconds())/1e3/float64(b.N), "server-cpu-ms/solve")
		})
	}
}

// startSolve submits a solve and returns its path.
func (s *served) startSolve(t testing.TB, body []byte) string {
	t.Helper()
	code, h, text, err := s.call("POST", "/v1/solves", body, "Prefer", "respond-async")
	if err != nil || code != 202 {
		t.Fatalf("%d %.200s %v", code, text, err)
	}
	return h.Get("Location")
}

// BenchmarkServeCancel measures the time from a cancellation to the status that
// shows the end, and from a request to the first event of its stream, for solves
// that are cancelled in their first 2 s.
func BenchmarkServeCancel(b *testing.B) {
	s := serve(b, time.Hour, "--data-dir", b.TempDir(), "--retain-size", "100000")
	defer s.stop(b)
	for _, sync := range []string{"relaxed", "gang", "rigid", "mixture"} {
		for _, jobs := range []int{20, 200, 500} {
			if sync == "mixture" && jobs == 20 {
				continue // the instance is infeasible, because a gang is wider than its type
			}
			b.Run(fmt.Sprintf("%s-%d", sync, jobs), func(b *testing.B) {
				inst := generated(b, jobs, sync, 1)
				var ends, firsts spans
				rng := rand.New(rand.NewPCG(3, 4))
				over := 0
				for i := range b.N {
					body := loadBody(b, inst, fmt.Sprintf(`{"time_limit_s":60,"gap":0,"seed":%d}`, i))
					began := time.Now()
					at := s.startSolve(b, body)
					resp, err := loadClient.Get(s.url + at + "/events")
					if err != nil {
						b.Fatal(err)
					}
					if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
						b.Fatal(err)
					}
					firsts.add(time.Since(began))
					_ = resp.Body.Close()
					time.Sleep(time.Duration(rng.Int64N(2e9)))
					began = time.Now()
					if code, _, text, err := s.call("POST", at+"/cancel", nil); err != nil || code != 202 {
						b.Fatalf("%d %.200s %v", code, text, err)
					}
					_, _, text, err := s.call("GET", at+"?wait=30", nil)
					took := time.Since(began)
					var view struct {
						Status string
						Value  *json.Number
					}
					if err != nil || json.Unmarshal(text, &view) != nil {
						b.Fatal(string(text), err)
					}
					switch {
					case view.Status == "succeeded":
						over++ // the solve was optimal before the cancellation
					case view.Status != "cancelled" || view.Value == nil:
						b.Fatal(string(text))
					default:
						ends.add(took)
					}
				}
				b.ReportMetric(float64(b.N-over), "cancelled")
				b.ReportMetric(ends.at(0.5), "cancel-p50-ms")
				b.ReportMetric(ends.at(1), "cancel-max-ms")
				b.ReportMetric(firsts.at(0.5), "first-event-p50-ms")
				b.ReportMetric(firsts.at(1), "first-event-max-ms")
			})
		}
	}
}
