package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
)

// keeper serves package api, and stored solves by the contract of docs/reference/http.md#clients.
// It can inject the faults that a network and a server may have.
type keeper struct {
	api http.Handler

	mu       sync.Mutex
	byKey    map[string]string // ids of solves by idempotency key
	results  map[string]string
	calls    map[string]int // number of calls by method and path
	solved   int
	resumed  []string // the Last-Event-IDs of the requests
	canceled []string
	asked    string        // the last request for a what-if
	release  chan struct{} // ends running solves when it is closed

	lose  map[string]int    // number of answers that never arrive, by method and path
	fail  map[string][]fail // the refusals that come before the answers
	cut   int               // number of events on one connection; 0 means all
	quiet bool              // streams stay open and send nothing
}

type fail struct {
	status, after int
	code          string
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	svc := service.New(service.Config{Solver: solver.Config{Version: "test"}, Running: 2, Queue: 8})
	sessions, err := sessions.Open(t.Context(), sessions.Config{Store: store.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sessions.Close() })
	k := &keeper{
		api:   servetest.New(t, svc, api.Config{Sessions: sessions, Heartbeat: 50 * time.Millisecond}),
		byKey: map[string]string{}, results: map[string]string{}, calls: map[string]int{},
		lose: map[string]int{}, fail: map[string][]fail{}, release: make(chan struct{}),
	}
	close(k.release)
	return k
}

// serve starts a server of the keeper and returns a client of it.
func (k *keeper) serve(t *testing.T, change func(*client.Config)) *client.Client {
	t.Helper()
	srv := httptest.NewServer(k)
	t.Cleanup(srv.Close)
	cfg := client.Config{URL: srv.URL, Backoff: time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// set changes the keeper, which may be serving.
func (k *keeper) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *keeper) count(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[name]
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.Method + " " + r.URL.Path
	k.mu.Lock()
	k.calls[name]++
	var f fail
	if fs := k.fail[name]; len(fs) > 0 {
		f, k.fail[name] = fs[0], fs[1:]
	}
	lose := f.status == 0 && k.lose[name] > 0
	if lose {
		k.lose[name]--
	}
	k.mu.Unlock()
	if f.status != 0 {
		if f.after >= 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.after))
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(f.status)
		fmt.Fprintf(w, `{"type":"about:blank","title":"x","status":%d,"code":"%s","detail":"told so","request_id":"r1"}`,
			f.status, f.code)
		return
	}
	if lose {
		// The server does the work, and the answer breaks off.
		rec := httptest.NewRecorder()
		k.route(rec, r)
		if rec.Code == http.StatusNoContent {
			panic(http.ErrAbortHandler) // half of the answer would look like a whole one
		}
		w.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()+10))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	k.route(w, r)
}

func (k *keeper) route(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/what-if" {
		body, _ := io.ReadAll(r.Body)
		k.set(func() { k.asked = string(body) })
		_, _ = io.WriteString(w, whatIfLines)
		return
	}
	rest, mine := strings.CutPrefix(r.URL.Path, "/v1/solves")
	if !mine {
		k.api.ServeHTTP(w, r)
		return
	}
	id, part, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch {
	case id == "" && r.Method == http.MethodPost:
		k.post(w, r)
	case id == "":
		k.list(w, r)
	case k.result(id) == "":
		k.problem(w, http.StatusNotFound, "no_solve")
	case part == "events":
		k.events(w, r)
	case part == "result":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, k.result(id))
	case part == "schedule":
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		_, _ = io.WriteString(w, "job,round,gpu\nbert,0,a/0\n")
	case part == "cancel":
		k.mu.Lock()
		k.canceled = append(k.canceled, id)
		k.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		k.describe(w, id)
	case r.Method == http.MethodDelete:
		k.mu.Lock()
		delete(k.results, id)
		k.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		if wait, _ := strconv.Atoi(r.URL.Query().Get("wait")); wait > 0 {
			select {
			case <-k.release:
			case <-r.Context().Done():
			}
		}
		k.describe(w, id)
	}
}

func (k *keeper) result(id string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.results[id]
}

func (k *keeper) problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":%d,"code":"%s","detail":"d","title":"t","request_id":"r"}`, status, code)
}

func (k *keeper) done() bool {
	select {
	case <-k.release:
		return true
	default:
		return false
	}
}

func (k *keeper) describe(w io.Writer, id string) {
	status, more := "running", `"queue_position":1,`
	if k.done() {
		status, more = "succeeded", `"termination":"work_limit",`
	}
	fmt.Fprintf(w, `{"id":"%s","status":"%s",%s"created":"2026-11-21T10:00:00Z","value":3.5,"bound":3,"gap":null,`+
		`"news":[1],"links":{"self":"/v1/solves/%s"}}`, id, status, more, id)
}

func (k *keeper) post(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		k.api.ServeHTTP(w, r)
		return
	}
	k.mu.Lock()
	id := k.byKey[key]
	k.mu.Unlock()
	if id == "" {
		rec := httptest.NewRecorder()
		plain := r.Clone(r.Context())
		for _, name := range []string{"Accept-Encoding", "Idempotency-Key", "Prefer"} {
			plain.Header.Del(name)
		}
		k.api.ServeHTTP(rec, plain)
		if rec.Code != http.StatusOK {
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes())
			return
		}
		k.mu.Lock()
		k.solved++
		id = "s" + strconv.Itoa(k.solved)
		k.byKey[key], k.results[id] = id, rec.Body.String()
		k.mu.Unlock()
	}
	w.Header().Set("Hare-Solve-Id", id)
	if strings.Contains(r.Header.Get("Prefer"), "async") || !k.done() {
		w.Header().Set("Location", "/v1/solves/"+id)
		w.WriteHeader(http.StatusAccepted)
		k.describe(w, id)
		return
	}
	_, _ = io.WriteString(w, k.result(id))
}

const whatIfLines = `{"line":"base","status":"succeeded","value":30,"bound":30,"gap":0,"timing":{}}
{"line":"scenario","index":0,"id":"more","status":"succeeded","value":20.5,"bound":20,"gap":0.025,` +
	`"value_change":-9.5,"optimum_change":[-10,-9.5]}
{"line":"scenario","index":1,"id":"bad","status":"failed","value":null,"bound":null,"gap":null,` +
	`"optimum_change":[null,null],"error":{"status":422,"code":"unknown_node","detail":"no node x",` +
	`"errors":[{"pointer":"/scenarios/1/drain/node","code":"unknown_node","detail":"no node x"}]}}
{"line":"summary","status":"succeeded","value":null,"bound":null,"gap":null,"counts":{"scenarios":2}}
`

// manyEvents is the number of events of a solve; the last event is done.
const manyEvents = 9

func (k *keeper) events(w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get("Last-Event-ID")
	k.mu.Lock()
	k.resumed = append(k.resumed, last)
	cut, quiet := k.cut, k.quiet
	k.quiet = false
	k.mu.Unlock()
	from, _ := strconv.Atoi(last)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "retry: 1000\n\n: alive\n\n")
	w.(http.Flusher).Flush()
	if quiet {
		<-r.Context().Done()
		return
	}
	// An event that was sent before is sent again.
	for id, sent := max(1, from), 0; id <= manyEvents; id++ {
		kind, data := "incumbent", fmt.Sprintf(`{"at_s":%d.5,"value":%d,"bound":null,"new":{}}`, id, 100-id)
		if id == manyEvents {
			kind, data = "done", "{\"status\":\"succeeded\",\ndata: \"termination\":\"gap\"}"
		}
		text := fmt.Sprintf("id: %d\r\nevent: %s\r\ndata: %s\r\n\r\n", id, kind, data)
		if sent++; cut > 0 && sent > cut {
			fmt.Fprint(w, text[:len(text)/2]) // an incomplete event does not count
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, text)
		w.(http.Flusher).Flush()
	}
}

func (k *keeper) list(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("after"))
	page := map[string]any{"solves": []any{map[string]any{"id": "s" + strconv.Itoa(from), "status": "queued"},
		map[string]any{"id": "t" + strconv.Itoa(from), "status": r.URL.Query().Get("status")}}}
	if from < 2 {
		page["next"] = strconv.Itoa(from + 1)
	}
	_ = json.NewEncoder(w).Encode(page)
}
