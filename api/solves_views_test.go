package api_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// TestSolveAndItsViews uses every operation of a solve in a run without faults.
func TestSolveAndItsViews(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	code, result, h := s.post(t, `{"work_limit":2000}`)
	at := h.Get("Location")
	if code != 200 || at == "" || h.Get("Hare-Solve-Id") != strings.TrimPrefix(at, "/v1/solves/") ||
		h.Get("Hare-Cache") != "miss" || h.Get("Preference-Applied") != "" {
		t.Fatalf("%d %v", code, h)
	}
	res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, again, h := s.call(t, "GET", at+"/result", "", "Accept-Encoding", "identity"); again != result ||
		h.Get("Content-Length") != strconv.Itoa(len(result)) {
		t.Errorf("the stored result is another one: %.300s", again)
	}
	v, _ := s.look(t, at)
	if v.Status != "succeeded" || v.Termination != res.Termination || v.Value == nil || *v.Value != res.Value.Float() ||
		*v.Gap <= 0 || v.Links["cancel"] != "" {
		t.Errorf("%+v", v)
	}
	for part, path := range v.Links {
		if code, text, _ := s.call(t, "GET", path, ""); code != 200 {
			t.Errorf("link %s: %d %s", part, code, text)
		}
	}
	_, text, _ := s.call(t, "GET", at+"/instance", "")
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil || wire.SHA256(inst) != res.InstanceSHA256 {
		t.Fatalf("%v %s", err, text)
	}
	_, text, _ = s.call(t, "GET", at+"/certificate", "")
	cert, err := wire.DecodeCertificate(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := verify.Bound(inst, cert); err != nil || b.Sign() <= 0 {
		t.Errorf("%v %v", b, err)
	}
	for _, c := range []struct{ path, kind, has string }{
		{"/gantt.svg", "image/svg+xml", "<svg"}, {"/gantt.svg?width=800", "image/svg+xml", `width="800"`},
		{"/gantt.png", "image/png", "\x89PNG"}, {"/gantt.html", "text/html; charset=utf-8", "<!doctype html>"},
	} {
		code, text, h := s.call(t, "GET", at+c.path, "")
		if code != 200 || h.Get("Content-Type") != c.kind ||
			!strings.Contains(strings.ToLower(text), strings.ToLower(c.has)) ||
			!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v %.200s", c.path, code, h, text)
		}
	}
	// The cache answers the same request again, by another solve with its own id.
	code, cached, h := s.post(t, `{"work_limit":2000}`)
	if code != 200 || cached != result || h.Get("Hare-Cache") != "hit" || h.Get("Location") == at {
		t.Errorf("%d %v", code, h)
	}
	if code, text, _ := s.post(t, `{"work_limit":2000}`, "Accept", "application/x-ndjson"); code != 200 ||
		strings.Count(text, "\n") != len(res.Schedule.Lanes)+1 {
		t.Errorf("NDJSON: %d, %d lines", code, strings.Count(text, "\n"))
	}
	// Every level of detail has the same content as lines; what was left out stays
	// out.
	for _, detail := range []string{"none", "jobs", "lanes", "tasks"} {
		options := `{"bound":"machine","order":"wspt","assign":"earliest_finish","detail":"` + detail + `"}`
		_, whole, _ := s.post(t, options)
		_, lines, _ := s.post(t, options, "Accept", "application/x-ndjson")
		a, err := wire.DecodeResult(strings.NewReader(whole), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := wire.EncodeResultLines(&b, a); err != nil || b.String() != lines ||
			(a.Schedule != nil) != (detail == "lanes" || detail == "tasks") || (len(a.TaskList) > 0) != (detail == "tasks") {
			t.Errorf("%s: %v\n%.500s\n%.500s", detail, err, whole, lines)
		}
	}
	if code, text, _ := s.call(t, "DELETE", at, ""); code != http.StatusNoContent || text != "" {
		t.Errorf("%d %s", code, text)
	}
	for _, path := range []string{"", "/result", "/schedule", "/events", "/gantt.svg", "/gantt.png", "/gantt.html",
		"/certificate", "/instance"} {
		if code, text, _ := s.call(t, "GET", at+path, ""); code != http.StatusGone ||
			!strings.Contains(text, `"code":"gone"`) {
			t.Errorf("%s after the end: %d %s", path, code, text)
		}
	}
	for _, c := range [][2]string{{"POST", "/cancel"}, {"DELETE", ""}} {
		if code, text, _ := s.call(t, c[0], at+c[1], ""); code != http.StatusGone {
			t.Errorf("%s%s: %d %s", c[0], c[1], code, text)
		}
	}
}

// TestScheduleViews checks that the parts of a schedule together are the whole
// schedule, in every form.
func TestScheduleViews(t *testing.T) {
	s := newSolveServer(t, service.Config{})
	_, result, h := s.post(t, `{"work_limit":2000}`)
	at := h.Get("Location") + "/schedule"
	res, err := wire.DecodeResult(strings.NewReader(result), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := wire.DecodeInstance(strings.NewReader(example(t)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	all := res.Schedule.Tasks(inst, 1<<20)
	read := func(query string) []hare.Task {
		t.Helper()
		code, text, _ := s.call(t, "GET", at+query, "")
		if code != 200 {
			t.Fatalf("%s: %d %s", query, code, text)
		}
		part, err := wire.DecodeResult(strings.NewReader(`{"hare":"result/v1","schedule":`+text+`}`), wire.Limits{})
		if err != nil {
			t.Fatalf("%s: %v %s", query, err, text)
		}
		for _, l := range part.Schedule.Lanes {
			if query != "" && len(l.Job) == 0 {
				t.Errorf("%s: the lane %s is empty", query, l.GPU)
			}
		}
		return part.Schedule.Tasks(inst, 1<<20)
	}
	keep := func(f func(hare.Task) bool) (kept []hare.Task) {
		for _, x := range all {
			if f(x) {
				kept = append(kept, x)
			}
		}
		return kept
	}
	if got := read(""); !slices.Equal(got, all) {
		t.Errorf("%d tasks of %d", len(got), len(all))
	}
	job, gpu := inst.Jobs[1].ID, res.Schedule.Lanes[0].GPU
	if got, want := read("?job="+job), keep(func(x hare.Task) bool { return x.Job == job }); !slices.Equal(got, want) ||
		len(want) == 0 {
		t.Errorf("job %s: %d tasks, want %d", job, len(got), len(want))
	}
	if got, want := read("?gpu="+gpu+"&job="+job+"&job="+inst.Jobs[0].ID), keep(func(x hare.Task) bool {
		return x.GPU == gpu && (x.Job == job || x.Job == inst.Jobs[0].ID)
	}); !slices.Equal(got, want) {
		t.Errorf("both: %d tasks, want %d", len(got), len(want))
	}
	// A part has whole rounds: those of a job on a GPU that run in the range.
	for from := int64(0); from < 22_000_000; from += 1_300_000 {
		to := from + 1_000_000
		rounds := map[string][2]int64{}
		name := func(x hare.Task) string { return fmt.Sprint(x.GPU, x.Job, x.Round) }
		for _, x := range all {
			r, ok := rounds[name(x)]
			if !ok {
				r = [2]int64{x.StartUs, x.EndUs}
			}
			rounds[name(x)] = [2]int64{min(r[0], x.StartUs), max(r[1], x.EndUs)}
		}
		want := keep(func(x hare.Task) bool { r := rounds[name(x)]; return r[0] < to && r[1] > from })
		if got := read("?from_s=" + hare.FormatMicros(from) + "&to_s=" + hare.FormatMicros(to)); !slices.Equal(got, want) {
			t.Errorf("from %d: %d tasks, want %d", from, len(got), len(want))
		}
	}
	if got := read("?from_s=1000000"); len(got) != 0 {
		t.Errorf("%d tasks long after the end", len(got))
	}
	_, text, h := s.call(t, "GET", at, "", "Accept", "text/csv")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || !strings.HasPrefix(h.Get("Content-Type"), "text/csv") ||
		strings.Join(rows[0], ",") != "gpu,type,job,round,rounds,tasks,start_s,period_s,compute_end_s,end_s" {
		t.Fatalf("%v %v %.200s", err, h, text)
	}
	ends, tasks := map[string]int64{}, int64(0)
	for _, row := range rows[1:] {
		end, err := hare.ParseMicros(row[9])
		if err != nil {
			t.Fatal(err)
		}
		rounds, _ := strconv.ParseInt(row[4], 10, 64)
		each, _ := strconv.ParseInt(row[5], 10, 64)
		tasks += rounds * each
		ends[row[2]] = max(ends[row[2]], end)
	}
	for _, j := range res.Jobs {
		if ends[j.ID] != j.EndUs {
			t.Errorf("%s ends at %d in the table, at %d in the result", j.ID, ends[j.ID], j.EndUs)
		}
	}
	if tasks != int64(len(all)) {
		t.Errorf("%d tasks in the table of %d", tasks, len(all))
	}
	_, lines, _ := s.call(t, "GET", at+"?format=ndjson", "")
	if n := strings.Count(lines, "\n"); n != len(res.Schedule.Lanes)+1 || !strings.HasPrefix(lines, `{"jobs":["`) {
		t.Errorf("%d lines", n)
	}
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		if !json.Valid([]byte(line)) {
			t.Error(line)
		}
	}
}
