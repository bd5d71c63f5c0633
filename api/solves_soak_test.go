package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// long returns a result of about the given size. Its schedule does not fit inst.
func long(inst *hare.Instance, bytes int) *hare.Result {
	const lanes = 100
	value := hare.Amount{}
	res := &hare.Result{InstanceSHA256: wire.SHA256(inst), Version: "test", Status: hare.StatusSucceeded,
		Termination: hare.TerminationWorkLimit,
		Objective:   hare.ObjectiveWeightedJCT, Value: &value, Bound: &value, Options: hare.Options{Detail: "lanes"},
		Schedule: &hare.Schedule{Jobs: []string{"j"}}}
	for i := range lanes {
		l := hare.Lane{GPU: fmt.Sprint("a/", i)}
		for x := range bytes / lanes / 16 {
			l.Job, l.StartUs = append(l.Job, 0), append(l.StartUs, 10_000_000_000_000+int64(x))
		}
		res.Schedule.Lanes = append(res.Schedule.Lanes, l)
	}
	return res
}

// TestSoakLongResult stores a long result (100 MB with -hare.soak) and reads it
// over HTTP. The result never is in memory as a whole, and it is unchanged, also
// after a restart and after a client that disconnects.
func TestSoakLongResult(t *testing.T) {
	bytes := 6 << 20
	if *soak {
		bytes = 100 << 20
	}
	dir := t.TempDir()
	open := func() (*solves.Solves, *httptest.Server, func()) {
		store, err := sqlite.Open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}})
		kept, err := solves.Open(t.Context(), solves.Config{Service: svc, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(api.New(svc, api.Config{Solves: kept}))
		return kept, srv, func() {
			srv.Close()
			if err := kept.Close(); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	kept, srv, shut := open()
	inst, err := wire.DecodeInstance(strings.NewReader(example(t)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.New()
	began := time.Now()
	info, _, err := kept.Submit(t.Context(),
		solves.Input{Instance: inst, Run: func(context.Context, *hare.Instance, hare.Options, solver.Config) (*hare.Result,
			error) {
			res := long(inst, bytes)
			return res, wire.EncodeResult(want, res)
		}})
	if err == nil {
		info, err = kept.Wait(t.Context(), "", info.ID)
	}
	if err != nil || info.Status != solves.StatusSucceeded || info.ResultBytes < int64(bytes)*9/10 {
		t.Fatalf("%+v %v", info, err)
	}
	t.Logf("%d bytes are durable after %v", info.ResultBytes, time.Since(began).Round(time.Millisecond))
	path := "/v1/solves/" + info.ID + "/result"
	get := func(coding string) (resp *http.Response) {
		t.Helper()
		req, err := http.NewRequest("GET", srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if coding != "" { // otherwise the transport asks for gzip by itself
			req.Header.Set("Accept-Encoding", coding)
		}
		if resp, err = http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		return resp
	}
	read := func(coding string) {
		t.Helper()
		resp := get(coding) // this client disconnects
		_, _ = io.ReadFull(resp.Body, make([]byte, 100_000))
		resp.Body.Close()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		base, most := m.HeapAlloc, uint64(0)
		began := time.Now()
		resp = get(coding)
		defer resp.Body.Close()
		if coding != "" && resp.ContentLength != info.ResultBytes {
			t.Errorf("%d bytes are announced of %d", resp.ContentLength, info.ResultBytes)
		}
		var err error
		got, n := sha256.New(), int64(0)
		for err == nil {
			var k int64
			k, err = io.CopyN(got, resp.Body, 1<<20)
			n += k
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
		if err != io.EOF || n != info.ResultBytes || fmt.Sprintf("%x", got.Sum(nil)) != fmt.Sprintf("%x", want.Sum(nil)) {
			t.Errorf("%d bytes of %d: %v", n, info.ResultBytes, err)
		}
		t.Logf("read in %v; heap %d KiB before, at most %d KiB meanwhile", time.Since(began).Round(time.Millisecond),
			base>>10, most>>10)
		if *soak && most > base+48<<20 {
			t.Error("it stands in memory")
		}
	}
	read("identity")
	shut()
	_, srv, shut = open()
	defer shut()
	read("identity")
	read("")
}
