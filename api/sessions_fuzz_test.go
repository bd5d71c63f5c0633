package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// FuzzEvents checks that every line of a stream of events is answered in JSON,
// either with decisions or with a refusal that names line, pointer and reason; that
// exactly the answered events are recorded; and that the session continues.
func FuzzEvents(f *testing.F) {
	for _, body := range []string{
		"", "\n\n", "x", run, run + endOfRun, strings.Replace(run, `"seq":3`, `"seq":2`, 1),
		strings.ReplaceAll(run, "\n", "\r\n"),
		strings.Replace(run+endOfRun, `"round":0`, `"round":-1`, -1),
		strings.ReplaceAll(run, `"tasks":2`, `"tasks":2,"sync":"gang"`),
		strings.ReplaceAll(run, `"tasks":2`, `"tasks":1,"sync":"rigid"`), run[:len(run)-9], run + run,
		ticks(1, 3) + "\xff\n" + ticks(4, 5),
		`{"seq":1,"at_s":0,"type":"gpu_left","gpu":"a/0"}` + "\n" +
			`{"seq":2,"at_s":9007199254.740991,"type":"gpu_joined","gpu":"a/0","gpu_type":"T4"}` + "\n" + ticks(3, 3),
		`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"\u0000\"\\","weight":9007199254.740992,"tasks":9,` +
			`"on":{"T4":{"compute_s":1e3}},"estimate_s":9e3,"class":{"user":"\u0000","":""}}}`,
		strings.ReplaceAll(run, `"tasks":2`, `"tasks":2,"estimate_s":3.5,"class":{"user":"ann","name":"é"}`),
		`{"seq":1,"at_s":1,"type":"task_failed","job":"j","round":0,"task":0,"gpu":"a/0"}`,
		`{"seq":1,"at_s":1,"type":"compute_ended"}`,
	} {
		f.Add([]byte(body))
	}
	all, err := sessions.Open(f.Context(), sessions.Config{Store: store.NewMemory(), MaxJobs: 8})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = all.Close() })
	h := servetest.New(f, service.New(service.Config{}), api.Config{Sessions: all})
	cluster, err := wire.DecodeCluster(strings.NewReader(twoGPUs), wire.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		session, err := all.Create(t.Context(), "", sessions.SessionConfig{Cluster: *cluster})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = all.Delete(t.Context(), "", session.ID()) }()
		at := "/v1/sessions/" + session.ID()
		post := func(body []byte) [][]byte {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "http://localhost"+at+"/events", bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/x-ndjson")
			h.ServeHTTP(w, r)
			if w.Code != 200 || !utf8.Valid(w.Body.Bytes()) {
				t.Fatalf("%d %q", w.Code, w.Body)
			}
			lines := bytes.SplitAfter(w.Body.Bytes(), []byte("\n"))
			return lines[:len(lines)-1]
		}
		var lines []int // the numbers of the lines that are not blank
		for i, line := range bytes.Split(body, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines = append(lines, i+1)
			}
		}
		answers := post(body)
		if len(answers) != len(lines) {
			t.Fatalf("%d answers to %d lines", len(answers), len(lines))
		}
		accepted := map[int64]string{}
		for i, text := range answers {
			var a struct {
				Seq       *int64
				Decisions json.RawMessage
				Error     *struct {
					Status, Line int
					Pointer      *string
					Code, Detail string
					Expected     int64
				}
			}
			if err := json.Unmarshal(text, &a); err != nil {
				t.Fatalf("%v %q", err, text)
			}
			switch e := a.Error; {
			case e == nil:
				if was, twice := accepted[*a.Seq]; twice && was != string(text) {
					t.Errorf("first %s, then %s", was, text)
				}
				accepted[*a.Seq] = string(text)
			case e.Line != lines[i] || e.Pointer == nil || e.Code == "" || e.Detail == "" || e.Status < 400 || e.Status > 499:
				t.Errorf("line %d: %s", lines[i], text)
			}
		}
		var last hare.Event
		for rec, err := range session.Log(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if last = rec.Event; accepted[last.Seq] != string(
				wire.AppendAnswer(nil, hare.Answer{Seq: last.Seq, Decisions: rec.Decisions}))+"\n" {
				t.Errorf("event %d is recorded, and answered %q", last.Seq, accepted[last.Seq])
			}
		}
		if last.Seq != int64(len(accepted)) {
			t.Errorf("%d events are recorded, %d were accepted", last.Seq, len(accepted))
		}
		next := fmt.Sprintf(`{"seq":%d,"at_s":%s,"type":"tick"}`, last.Seq+1, hare.FormatMicros(last.AtUs))
		if got := post([]byte(next)); len(got) != 1 || !bytes.Contains(got[0], []byte(`"decisions":`)) {
			t.Errorf("%s is answered %q", next, got)
		}
	})
}
