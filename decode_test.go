package hare_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

func open(t testing.TB, path string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, ".gz") {
		return bytes.NewReader(text)
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestExamplesDecode(t *testing.T) {
	for _, name := range []string{"three-jobs", "windows", "traps"} {
		inst, err := hare.DecodeInstance(open(t, "examples/"+name+".instance.json"), hare.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b bytes.Buffer
		if err := inst.EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		again, err := hare.DecodeInstance(&b, hare.Limits{})
		if err != nil {
			t.Fatalf("%s: decoding what was encoded: %v", name, err)
		}
		if inst.SHA256() != again.SHA256() {
			t.Errorf("%s: encoding changed the instance", name)
		}
		res, err := hare.DecodeResult(open(t, "examples/"+name+".result.json"), hare.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var r bytes.Buffer
		if err := res.EncodeJSON(&r); err != nil {
			t.Fatal(err)
		}
		var n bytes.Buffer
		if err := res.EncodeNDJSON(&n); err != nil {
			t.Fatal(err)
		}
		for _, text := range []*bytes.Buffer{&r, &n} {
			back, err := hare.DecodeResult(text, hare.Limits{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(back.Schedule.Lanes) != len(res.Schedule.Lanes) || back.Value.Cmp(*res.Value) != 0 || back.Certificate.Bound != res.Certificate.Bound {
				t.Errorf("%s: encoding changed the result", name)
			}
		}
	}
}

func TestFrozenInstancesDecode(t *testing.T) {
	files, _ := filepath.Glob("testdata/instances/*.json.gz")
	if len(files) < 10 {
		t.Fatalf("found %d instances", len(files))
	}
	for _, f := range files {
		rel, _ := filepath.Rel("testdata", f)
		if _, err := hare.DecodeInstance(open(t, rel), hare.Limits{}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

const node = `{"name":"a","gpus":{"V100":2}}`

// with wraps jobs into an instance on two V100s.
func with(jobs string) string {
	return `{"hare":"instance/v1","cluster":{"nodes":[` + node + `]},"jobs":[` + jobs + `]}`
}

func on(nodes string) string {
	return `{"hare":"instance/v1","cluster":{"nodes":[` + nodes + `]},"jobs":[]}`
}

func TestBadInstancesAreNamed(t *testing.T) {
	job := func(fields string) string { return with(`{"id":"j",` + fields + `}`) }
	ok := `"on":{"V100":{"compute_s":1}}`
	for name, c := range map[string]struct{ text, code, pointer string }{
		"empty":            {"", "malformed", ""},
		"truncated":        {with("")[:30], "malformed", ""},
		"not json":         {"hello", "malformed", ""},
		"brackets":         {strings.Repeat("[", 10<<20), "malformed", ""},
		"array":            {"[]", "wrong_type", ""},
		"null":             {"null", "wrong_type", ""},
		"twice":            {with("") + with(""), "", ""},
		"duplicate key":    {`{"hare":"instance/v1","hare":"instance/v1"}`, "duplicate_name", "/hare"},
		"unknown":          {`{"hare":"instance/v1","clutser":{},"jobs":[]}`, "unknown_field", "/clutser"},
		"reserved":         {job(ok + `,"after":["x"]`), "not_supported", "/jobs/0/after"},
		"sync object":      {job(`"on":{"V100":{"compute_s":1,"sync_s":{}}}`), "not_supported", "/jobs/0/on/V100/sync_s"},
		"nan":              {job(ok + `,"weight":NaN`), "malformed", ""},
		"1e309":            {job(ok + `,"weight":1e309`), "too_large", "/jobs/0/weight"},
		"1e999999999999":   {job(ok + `,"weight":1e999999999999`), "too_large", "/jobs/0/weight"},
		"seven decimals":   {job(ok + `,"weight":0.1234567`), "too_many_decimals", "/jobs/0/weight"},
		"negative":         {job(ok + `,"release_s":-1`), "out_of_range", "/jobs/0/release_s"},
		"zero compute":     {job(`"on":{"V100":{"compute_s":0}}`), "out_of_range", "/jobs/0/on/V100/compute_s"},
		"string number":    {job(ok + `,"rounds":"3"`), "wrong_type", "/jobs/0/rounds"},
		"fractional tasks": {job(ok + `,"tasks":1.5`), "wrong_type", "/jobs/0/tasks"},
		"no on":            {job(`"rounds":1`), "missing_field", "/jobs/0"},
		"empty on":         {job(`"on":{}`), "missing_field", "/jobs/0/on"},
		"mix relaxed":      {job(ok + `,"mix":false`), "not_allowed", "/jobs/0/mix"},
		"mix rigid":        {job(ok + `,"sync":"rigid","mix":true`), "not_allowed", "/jobs/0/mix"},
		"sync":             {job(ok + `,"sync":"loose"`), "unknown_value", "/jobs/0/sync"},
		"duplicate id":     {with(`{"id":"j",` + ok + `},{"id":"j",` + ok + `}`), "duplicate_id", "/jobs/1/id"},
		"too long":         {job(`"rounds":9007199254740992,"on":{"V100":{"compute_s":1}}`), "too_large", "/jobs/0"},
		"no gpus":          {on(""), "no_gpus", "/cluster/nodes"},
		"count":            {on(`{"name":"a","count":2000000000,"gpus":{"V100":2}}`), "too_large", "/cluster/nodes/0/count"},
		"many gpus":        {on(`{"name":"a","count":1000000,"gpus":{"V100":2}}`), "too_large", "/cluster/nodes/0"},
		"same node":        {on(node + "," + node), "duplicate_id", "/cluster/nodes/1/name"},
		"windows":          {on(`{"name":"a","gpus":{"V100":2},"in_service_s":[[5,9],[7,null]]}`), "bad_window", "/cluster/nodes/0/in_service_s/1"},
		"busy":             {on(`{"name":"a","gpus":{"V100":2},"busy":[{"gpu":2,"until_s":3}]}`), "out_of_range", "/cluster/nodes/0/busy/0/gpu"},
		"form":             {`{"hare":"instance/v2","cluster":{"nodes":[` + node + `]},"jobs":[]}`, "unknown_form", "/hare"},
		"objective":        {`{"hare":"instance/v1","objective":"makespan","cluster":{"nodes":[` + node + `]},"jobs":[]}`, "not_supported", "/objective"},
		"no jobs":          {`{"hare":"instance/v1","cluster":{"nodes":[` + node + `]}}`, "missing_field", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := hare.DecodeInstance(strings.NewReader(c.text), hare.Limits{})
			var all hare.InvalidErrors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("got %v, want faults", err)
			}
			if c.code != "" && (all[0].Code != c.code || c.pointer != "" && all[0].Pointer != c.pointer) {
				t.Errorf("got %v, want %s at %s", all[0], c.code, c.pointer)
			}
		})
	}
}

func TestAllFaultsInOnePass(t *testing.T) {
	text := with(`{"id":"","weight":-1,"rouns":3,"on":{"V100":{"compute_s":1}}},{"id":"k","on":{"V100":{"compute_s":0,"synk_s":1}}}`)
	_, err := hare.DecodeInstance(strings.NewReader(text), hare.Limits{})
	var all hare.InvalidErrors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range all {
		got[f.Pointer] = f.Code
	}
	for pointer, code := range map[string]string{
		"/jobs/0/weight": "out_of_range", "/jobs/0/rouns": "unknown_field",
		"/jobs/1/on/V100/compute_s": "out_of_range", "/jobs/1/on/V100/synk_s": "unknown_field",
	} {
		if got[pointer] != code {
			t.Errorf("%s: got %q, want %q", pointer, got[pointer], code)
		}
	}
}

func TestLinesAreInstancesToo(t *testing.T) {
	whole := with(`{"id":"j","on":{"V100":{"compute_s":1}}},{"id":"k","on":{"V100":{"compute_s":2}}}`)
	lines := `{"hare":"instance/v1","cluster":{"nodes":[` + node + `]}}
{"id":"j","on":{"V100":{"compute_s":1}}}
{"id":"k","on":{"V100":{"compute_s":2}}}
`
	a, err := hare.DecodeInstance(strings.NewReader(whole), hare.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := hare.DecodeInstance(strings.NewReader(lines), hare.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if a.SHA256() != b.SHA256() {
		t.Error("the two forms differ")
	}
	_, err = hare.DecodeInstance(strings.NewReader(lines+`{"id":"l"}`), hare.Limits{})
	var all hare.InvalidErrors
	if !errors.As(err, &all) || all[0].Pointer != "/jobs/2" {
		t.Errorf("got %v, want a fault at /jobs/2", err)
	}
}

func TestMicrosAreExact(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1e6, "0.000001": 1, "1.5e1": 15e6, "12.5": 12500000, "1e-6": 1, "-2.25": -2250000, "1200000e-5": 12e6, "0e999999999999": 0,
	} {
		if got, err := hare.ParseMicros(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "1e", "1.", ".5", "0.0000001", "1e13", "abc", "1e-7", "--1"} {
		if got, err := hare.ParseMicros(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func FuzzDecodeInstance(f *testing.F) {
	f.Add(with(`{"id":"j","on":{"V100":{"compute_s":1}}}`))
	f.Add(on(`{"name":"a","count":3,"gpus":{"V100":2,"T4":1},"in_service_s":[[0,4],[4,9]],"busy":[{"gpu":2,"until_s":3}]}`))
	f.Fuzz(func(t *testing.T, text string) {
		inst, err := hare.DecodeInstance(strings.NewReader(text), hare.Limits{MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		if err := inst.Validate(); err != nil {
			t.Fatalf("decoded but not valid: %v", err)
		}
		var b bytes.Buffer
		if err := inst.EncodeJSON(&b); err != nil {
			t.Fatal(err)
		}
		again, err := hare.DecodeInstance(&b, hare.Limits{})
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		if inst.SHA256() != again.SHA256() {
			t.Fatal("encoding changed the instance")
		}
		hare.NewModel(inst)
	})
}

func FuzzDecodeResult(f *testing.F) {
	text, err := os.ReadFile("testdata/examples/traps.result.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		res, err := hare.DecodeResult(strings.NewReader(text), hare.Limits{MaxBytes: 1 << 20})
		if err == nil {
			_ = res.EncodeJSON(io.Discard)
		}
	})
}

func FuzzDecodeCertificate(f *testing.F) {
	f.Add(`{"hare":"certificate/v1","method":"price","path":true,"objective":"weighted_jct","bound":"1.000000","grid_us":[0,5],"prices":{"A":[3]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := hare.DecodeCertificate(strings.NewReader(text), hare.Limits{MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		b, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hare.DecodeCertificate(bytes.NewReader(b), hare.Limits{}); err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
	})
}

func FuzzParseMicros(f *testing.F) {
	f.Add("1.25")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := hare.ParseMicros(text)
		if err != nil {
			return
		}
		if again, err := hare.ParseMicros(hare.FormatMicros(n)); err != nil || again != n {
			t.Fatalf("%q: %d became %d, %v", text, n, again, err)
		}
	})
}
