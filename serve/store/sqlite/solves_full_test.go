package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// gangs makes a cluster and n gang jobs.
func gangs(n int) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a",
			GPUs: []hare.TypeCount{{Type: "T4", Count: 2}, {Type: "V100", Count: 2}}}}}}
	for i := range n {
		p := 1_000_000 + int64(i*i%17)*250_000
		inst.Jobs = append(inst.Jobs, hare.Job{
			ID: fmt.Sprint("j", i), WeightMicro: 1_000_000 * int64(1+i%4), Rounds: int64(1 + i%20),
			Tasks: int64(1 + i%2), Sync: hare.Gang,
			On: []hare.Profile{{Type: "T4", ComputeUs: 2 * p}, {Type: "V100", ComputeUs: p}},
		})
	}
	return inst
}

// solvesOf opens the solves of a store, until the end of the test at the latest.
func solvesOf(t *testing.T, store *Store) (*service.Service, *solves.Solves) {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test", Workers: 1}, Running: 2})
	s, err := solves.Open(context.Background(),
		solves.Config{Service: svc, Store: store, Checkpoint: time.Hour, Retry: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return svc, s
}

// limit sets the greatest number of pages of the database. 1 means the pages that it has,
// 0 means no limit.
func (s *Store) limit(pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxSize = pages
	if s.write != nil {
		_ = s.write.Close()
		s.write = nil
	}
}

// fillFreePages fills the free space in the pages of the database.
func fillFreePages(t *testing.T, s *Store, blob int64) {
	t.Helper()
	index := 0
	for size := 64 << 10; size > 0; {
		err := s.WriteSolves(t.Context(),
			&store.SolveBatch{Chunks: []store.SolveChunk{{Blob: blob, Index: index, Data: make([]byte, size)}}})
		if err == nil {
			index++
		} else if size /= 2; !errors.Is(err, store.ErrStorage) {
			t.Fatal(err)
		}
	}
}

// TestSolvesOnAFullDisk checks that on a full disk new solves are refused with 507,
// stored solves can be read, and the end of a running solve becomes durable once there is
// space.
func TestSolvesOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	svc, kept := solvesOf(t, store)
	srv := httptest.NewServer(api.New(svc, api.Config{MaxBodyBytes: 1 << 20, Solves: kept}))
	defer srv.Close()
	var inst bytes.Buffer
	if err := wire.EncodeInstance(&inst, gangs(100)); err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string, header ...string) (code int, text string, h http.Header) {
		t.Helper()
		req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b), resp.Header
	}
	post := func(options string) (int, string, string) {
		t.Helper()
		code, text, h := do("POST", "/v1/solves", `{"instance":`+inst.String()+`,"options":`+options+`}`,
			"Content-Type", "application/json", "Prefer", "wait=0")
		return code, text, h.Get("Location")
	}
	status := func(at string) (status, text string) {
		t.Helper()
		code, text, _ := do("GET", at, "")
		var v struct{ Status string }
		if err := json.Unmarshal([]byte(text), &v); code != 200 || err != nil {
			t.Fatalf("%s: %d %s", at, code, text)
		}
		return v.Status, text
	}
	_, _, done := post(`{"seed":1,"work_limit":1}`)
	_, _, long := post(`{"seed":2,"time_limit_s":600,"gap":0}`)
	if s, text := status(done + "?wait=60"); s != "succeeded" {
		t.Fatal(text)
	}
	_, id, _ := strings.Cut(long, "/v1/solves/")
	for ev, err := range kept.Events(t.Context(), "", id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == solves.EventBound {
			break
		}
	}
	views := []string{done, done + "/result", done + "/schedule", done + "/instance", done + "/events",
		"/v1/solves?status=succeeded"}
	before := map[string]string{}
	for _, path := range views {
		_, before[path], _ = do("GET", path, "")
	}

	store.limit(1)
	fillFreePages(t, store, 1<<30)
	for range 3 {
		if code, text, _ := post(`{"seed":3,"work_limit":1}`); code != http.StatusInsufficientStorage ||
			!strings.Contains(text, `"code":"storage_full"`) {
			t.Errorf("a new solve: %d %s", code, text)
		}
	}
	for _, path := range views {
		if code, text, _ := do("GET", path, ""); code != 200 || text != before[path] {
			t.Errorf("GET %s: %d %.300s\nbefore %.300s", path, code, text, before[path])
		}
	}
	// The cancellation may or may not be recorded; the solve ends in both cases.
	if code, text, _ := do("POST", long+"/cancel", ""); code != http.StatusAccepted &&
		code != http.StatusInsufficientStorage {
		t.Errorf("cancel: %d %s", code, text)
	}
	if s, text := status(long + "?wait=1"); s != "running" {
		t.Errorf("on a full disk it ended: %s", text)
	}

	store.limit(0)
	if s, text := status(long + "?wait=60"); s != "cancelled" {
		t.Errorf("with room: %s", text)
	}
	code, result, _ := do("GET", long+"/result", "")
	if res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{}); code != 200 || err != nil ||
		res.Value == nil || res.Bound == nil {
		t.Errorf("%d %v %.300s", code, err, result)
	}
	code, text, next := post(`{"seed":3,"work_limit":1}`)
	if s, _ := status(next + "?wait=60"); code != http.StatusAccepted && code != http.StatusOK || s != "succeeded" {
		t.Errorf("with room, a new solve: %d %s", code, text)
	}
	_, events, _ := do("GET", long+"/events", "")
	if err := errors.Join(kept.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}

	store = openStore(t, dir)
	defer store.Close()
	svc, kept = solvesOf(t, store)
	srv = httptest.NewServer(api.New(svc, api.Config{MaxBodyBytes: 1 << 20, Solves: kept}))
	defer srv.Close()
	for path, want := range map[string]string{long + "/result": result, long + "/events": events,
		done + "/result": before[done+"/result"]} {
		if code, text, _ := do("GET", path, ""); code != 200 || text != want {
			t.Errorf("after a restart, GET %s: %d %.300s\nbefore %.300s", path, code, text, want)
		}
	}
}
