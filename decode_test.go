package hare_test

import (
	"bytes"
	"compress/gzip"
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
