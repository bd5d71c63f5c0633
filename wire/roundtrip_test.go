package wire_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/wire"
)

var sameAmounts = cmp.Comparer(func(a, b hare.Amount) bool { return a.Cmp(b) == 0 })

// Decoding what was encoded gives the same instance; so does the NDJSON form,
// another order of fields, and white space.
func TestInstancesSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inst := haretest.Instance(t)
		if err := inst.Validate(); err != nil {
			t.Fatalf("the generator made a faulty instance: %v", err)
		}
		var b bytes.Buffer
		if err := wire.EncodeInstance(&b, inst); err != nil {
			t.Fatal(err)
		}
		back, err := wire.DecodeInstance(bytes.NewReader(b.Bytes()), wire.Limits{})
		if err != nil {
			t.Fatalf("%v\n%s", err, b.Bytes())
		}
		if diff := cmp.Diff(inst, back); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(wire.Canonical(inst), wire.Canonical(back)) {
			t.Fatal("the canonical form changed")
		}
		// The standard library sorts fields and knows nothing of ours.
		var doc map[string]any
		d := json.NewDecoder(bytes.NewReader(b.Bytes()))
		d.UseNumber()
		if err := d.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		jobs := doc["jobs"].([]any)
		indented, err := json.MarshalIndent(doc, "\r\n", "\t ")
		if err != nil {
			t.Fatal(err)
		}
		delete(doc, "jobs")
		var lines bytes.Buffer
		for _, x := range append([]any{doc}, jobs...) {
			if err := json.NewEncoder(&lines).Encode(x); err != nil {
				t.Fatal(err)
			}
		}
		forms := []io.Reader{bytes.NewReader(indented)}
		if len(jobs) > 0 {
			forms = append(forms, &lines)
		}
		for _, form := range forms {
			other, err := wire.DecodeInstance(form, wire.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(inst, other); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// The canonical form is RFC 8785: the standard library's view of it, written
// again in that way, gives the same bytes.
func TestCanonicalFormIsJSON(t *testing.T) {
	const text = `{"jobs":[{"on":{"\uFFFD":{"compute_s":1.5e1,"sync_s":0.25},"\uD83D\uDC07":{"compute_s":3}},` +
		`"id":"\u0065\n<","mix":true,"sync":"gang","weight":2e-6}],
		"cluster":{"nodes":[{"count":2,"name":"b","busy":[{"gpu":1,"until_s":9},{"gpu":0,"until_s":1}],"gpus":{"T4":1,` +
		`"K80":1},"in_service_s":[[0,4],[4,9],[10,null]]},{"name":"a","gpus":{"T4":1},"in_service_s":[[0,3],[3,null]],` +
		`"busy":[{"gpu":0,"until_s":0}]}]},
		"name":"free","hare":"instance/v1"}`
	const want = `{"cluster":{"nodes":[` +
		`{"busy":[{"gpu":0,"until_us":1000000},{"gpu":1,"until_us":9000000}],"gpus":{"K80":1,"T4":1},` +
		`"in_service_us":[[0,9000000],[10000000,null]],"name":"b-0"},` +
		`{"busy":[{"gpu":0,"until_us":1000000},{"gpu":1,"until_us":9000000}],"gpus":{"K80":1,"T4":1},` +
		`"in_service_us":[[0,9000000],[10000000,null]],"name":"b-1"},` +
		`{"busy":[],"gpus":{"T4":1},"in_service_us":[[0,null]],"name":"a"}]},` +
		`"hare":"instance/v1","jobs":[{"id":"e\n<","mix":true,"on":{"` + "\U0001F407" +
		`":{"compute_us":3000000,"sync_us":0},"` + "\uFFFD" + `":{"compute_us":15000000,"sync_us":250000}},` +
		`"release_us":0,"rounds":1,"sync":"gang","tasks":1,"weight_micro":2}],"objective":"weighted_jct"}`
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(wire.Canonical(inst)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid(wire.Canonical(inst)) {
		t.Error("not JSON")
	}
	// printf '%s' '…' | sha256sum
	if got := wire.SHA256(inst); len(got) != 64 {
		t.Errorf("got %s", got)
	}
}

func amount(t *rapid.T, label string) *hare.Amount {
	a := hare.Product(rapid.Int64Range(0, 1<<53).Draw(t, label), rapid.Int64Range(0, 1<<53).Draw(t, label))
	return &a
}

func randomResult(t *rapid.T) *hare.Result {
	r := &hare.Result{
		InstanceSHA256: strings.Repeat("9f", 32), Version: "0.1.0", Seed: rapid.Int64().Draw(t, "seed"),
		Status: hare.StatusSucceeded, Termination: hare.TerminationGap,
		Reproducible: rapid.Bool().Draw(t, "reproducible"), Objective: hare.ObjectiveWeightedJCT,
		Value: amount(t, "value"), Bound: amount(t, "bound"),
		Options: hare.Options{TimeLimit: 1500 * time.Millisecond, WorkLimit: 7, Gap: 0.01, Seed: 3, Bound: "price",
			Order: "wspt", Assign: "insertion", Detail: "lanes"},
		Engine: hare.Engine{HiGHS: "1.15.1"},
		Metrics: &hare.Metrics{Setups: &hare.SetupMetrics{Count: 3, TimeSeconds: 1.5},
			MeanJCTSeconds: 0.1, WeightedMeanJCTSeconds: 1e9 / 3,
			MakespanUs: haretest.Micros(t, 0, "makespan"), Switches: 9, JainIndex: 2. / 3, BoundMethod: "price",
			Tasks:       12,
			Utilization: []hare.TypeUse{{Type: "K80", Use: 0.25}, {Type: "T4", Use: 1}}},
		GapReport: &hare.GapReport{Excess: 3.5, ReducedCost: 3, IdleCapacity: 0.5,
			IdleByType: []hare.TypeIdle{{Type: "K80", Idle: 0.5}, {Type: "T4"}},
			Jobs:       []hare.JobExcess{{ID: "a", ReducedCost: 2}, {ID: "b\"", ReducedCost: 1}}},
		Timing: hare.Timing{Total: time.Second, Relax: 123456 * time.Microsecond, Assign: time.Microsecond,
			Improve: 2 * time.Hour, Verify: 5 * time.Millisecond},
		Reasons: []hare.Reason{{Pointer: "/jobs/0", Job: "a\"b", Code: "too_wide", Detail: "é"},
			{Code: "x", Detail: "y"}},
	}
	ids := haretest.Types(t, "ids")
	for _, id := range ids {
		r.Jobs = append(r.Jobs, hare.JobResult{ID: id, StartUs: haretest.Micros(t, -1, "start"),
			EndUs: haretest.Micros(t, -1, "end")})
	}
	s := &hare.Schedule{Jobs: ids}
	column := func(n int, def int64, label string) []int64 {
		if rapid.Bool().Draw(t, label+" left out") {
			return nil
		}
		xs := rapid.SliceOfN(rapid.Int64Range(0, hare.MaxExact), n, n).Draw(t, label)
		xs[0] = def + 1
		return xs
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "lanes") {
		n := rapid.IntRange(1, 4).Draw(t, "entries")
		s.Lanes = append(s.Lanes, hare.Lane{
			GPU: haretest.Names[i], Job: rapid.SliceOfN(rapid.Int32Range(0, int32(len(ids)-1)), n, n).Draw(t, "job"),
			Round: column(n, 0, "round"), Rounds: column(n, 1, "rounds"), Tasks: column(n, 1, "tasks"),
			PeriodUs: column(n, 0, "period"),
			StartUs:  rapid.SliceOfN(rapid.Int64Range(0, hare.MaxExact), n, n).Draw(t, "start"),
		})
	}
	if len(s.Lanes) > 0 || rapid.Bool().Draw(t, "schedule") {
		r.Schedule = s
	}
	if rapid.Bool().Draw(t, "certificate") {
		r.Certificate = &hare.Certificate{Method: hare.MethodPrice, Path: rapid.Bool().Draw(t, "path"),
			InstanceSHA256: strings.Repeat("9f", 32), Objective: hare.ObjectiveWeightedJCT,
			Bound: r.Bound.Bound6(), GridUs: []int64{0, 5, hare.MaxExact},
			Prices: []hare.TypePrices{{Type: "K80", Nanos: []int64{0, 9}}, {Type: "T4", Nanos: []int64{1, 2}}}}
		if rapid.Bool().Draw(t, "sizes") {
			r.Certificate.StepUs = 5
			r.Certificate.Sizes = []hare.SizePrices{{Type: "K80", Tasks: 2, Nanos: []int64{3, 0}},
				{Type: "K80", Tasks: 16, Nanos: []int64{1, 1}}, {Type: "T4", Tasks: 4, Nanos: []int64{0, 7}}}
		}
	}
	return r
}

// Results that were kept under the other spelling are read on.
func TestUtilizationHasOneSpelling(t *testing.T) {
	for _, name := range []string{"utilization", "utilisation"} {
		res, err := wire.DecodeResult(strings.NewReader(`{"hare":"result/v1","metrics":{"`+name+`":{"T4":0.5}}}`),
			wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Metrics.Utilization; len(got) != 1 || got[0] != (hare.TypeUse{Type: "T4", Use: 0.5}) {
			t.Errorf("%s: %v", name, got)
		}
		var b bytes.Buffer
		if err := wire.EncodeResult(&b, res); err != nil || !strings.Contains(b.String(), `"utilization":{"T4":0.5}`) {
			t.Errorf("%s: %v in %s", name, err, &b)
		}
	}
}

func TestResultsSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		res := randomResult(t)
		for name, encode := range map[string]func(io.Writer, *hare.Result) error{"json": wire.EncodeResult,
			"ndjson": wire.EncodeResultLines} {
			var b bytes.Buffer
			if err := encode(&b, res); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if name == "json" && !json.Valid(b.Bytes()) {
				t.Fatalf("not JSON: %s", text)
			}
			back, err := wire.DecodeResult(&b, wire.Limits{})
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if diff := cmp.Diff(res, back, sameAmounts, cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(hare.Result{}, "StatedGap")); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
			want := "null"
			if gap, ok := res.Gap(); ok {
				want = strings.TrimSuffix(strings.TrimRight(gap.FloatString(6), "0"), ".")
			}
			if back.StatedGap != want {
				t.Fatalf("%s: stated gap %q, want %q", name, back.StatedGap, want)
			}
		}
	})
}

// A gap may be larger than any amount.
func TestHugeGap(t *testing.T) {
	most := hare.Product(1<<53, 1<<53)
	least := hare.Product(1, 1)
	res := &hare.Result{Objective: hare.ObjectiveWeightedJCT, Value: &most, Bound: &least}
	var b bytes.Buffer
	if err := wire.EncodeResult(&b, res); err != nil {
		t.Fatal(err)
	}
	back, err := wire.DecodeResult(&b, wire.Limits{})
	if err != nil || back.StatedGap != "81129638414606681695789005144063" {
		t.Errorf("stated gap %q, %v", back.StatedGap, err)
	}
}

func TestDetailSaysHowMuch(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(with(`{"id":"j","rounds":2,"tasks":2,`+
		`"on":{"V100":{"compute_s":1.5,"sync_s":0.25}}}`)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	res := &hare.Result{Jobs: []hare.JobResult{{ID: "j", EndUs: 6500000}},
		Certificate: &hare.Certificate{Method: hare.MethodMachine},
		Schedule: &hare.Schedule{Jobs: []string{"j"}, Lanes: []hare.Lane{{GPU: "a/1", Job: []int32{0},
			Rounds: []int64{2}, Tasks: []int64{2}, PeriodUs: []int64{3250000}, StartUs: []int64{0}}}}}
	for detail, want := range map[string]string{
		"none": "", "jobs": "jobs certificate", "lanes": "jobs certificate schedule", "": "jobs certificate schedule",
		"tasks": "jobs certificate tasks schedule",
	} {
		res.Options.Detail = detail
		res.TaskList = nil
		if detail == "tasks" {
			res.TaskList = res.Schedule.Tasks(inst, 100)
		}
		var b bytes.Buffer
		if err := wire.EncodeResult(&b, res); err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b.Bytes(), &fields); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"jobs", "certificate", "tasks", "schedule"} {
			if fields[name] != nil {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", detail, got, want)
		}
		const tasks = `[{"job":"j","round":0,"gpu":"a/1","start_s":0,"compute_end_s":1.5,"sync_end_s":1.75},` +
			`{"job":"j","round":0,"gpu":"a/1","start_s":1.5,"compute_end_s":3,"sync_end_s":3.25},` +
			`{"job":"j","round":1,"gpu":"a/1","start_s":3.25,"compute_end_s":4.75,"sync_end_s":5},{"job":"j",` +
			`"round":1,"gpu":"a/1","start_s":4.75,"compute_end_s":6.25,"sync_end_s":6.5}]`
		if detail == "tasks" && string(fields["tasks"]) != tasks {
			t.Errorf("got  %s\nwant %s", fields["tasks"], tasks)
		}
		back, err := wire.DecodeResult(&b, wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(res.TaskList, back.TaskList); diff != "" {
			t.Error(diff)
		}
	}
	res.Options.Detail = "tasks"
	res.Metrics = &hare.Metrics{Tasks: hare.MaxTaskObjects + 1}
	if got := faults1(wire.EncodeResult(io.Discard, res)); got != "too_many_tasks /options/detail" {
		t.Errorf("got %s", got)
	}
}

func TestGapIsRoundedUp(t *testing.T) {
	for _, c := range []struct{ value, bound, want string }{
		{"2", "1", "1"}, {"1", "1", "0"}, {"0", "0", "0"}, {"1", "0", "null"}, {"1", "-1", "null"}, {"1", "", "null"},
		{"", "1", "null"},
		{"1.000000000001", "1", "0.000001"}, {"1.000001", "1", "0.000001"}, {"1.000001000001", "1", "0.000002"},
		{"4", "3", "0.333334"}, {"812.4", "790.113204", "0.028208"},
		{"1e20", "0.000001", "99999999999999999999999999"},
	} {
		res := &hare.Result{}
		for to, text := range map[**hare.Amount]string{&res.Value: c.value, &res.Bound: c.bound} {
			if text == "" {
				continue
			}
			a, err := hare.ParseAmount(text)
			if err != nil {
				t.Fatal(err)
			}
			*to = &a
		}
		var b bytes.Buffer
		if err := wire.EncodeResult(&b, res); err != nil {
			t.Fatal(err)
		}
		var got struct{ Gap json.RawMessage }
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Gap) != c.want {
			t.Errorf("%s over %s: got %s, want %s", c.value, c.bound, got.Gap, c.want)
		}
	}
}

// A gap is printed as 0 only where value and bound are equal.
func TestGapZeroIsExact(t *testing.T) {
	for _, c := range []struct{ value, bound, want string }{
		{"5", "5", "0"},
		{"0", "0", "0"},
		{"5.000000000001", "5", "0.000001"},
		{"1000000", "999999.999999", "0.000001"},
		{"5.000005", "5", "0.000001"},
		{"5.0000051", "5", "0.000002"},
		{"6", "5", "0.2"},
		{"1", "0", "null"},
		{"1", "-1", "null"},
	} {
		value, err1 := hare.ParseAmount(c.value)
		bound, err2 := hare.ParseAmount(c.bound)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := string(wire.GapJSON(&hare.Result{Value: &value, Bound: &bound})); got != c.want {
			t.Errorf("value %s, bound %s: gap %s, want %s", c.value, c.bound, got, c.want)
		}
	}
}
