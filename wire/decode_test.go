package wire_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/wire"
)

func open(t testing.TB, path string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", path))
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
		inst, err := wire.DecodeInstance(open(t, "examples/"+name+".instance.json"), wire.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b bytes.Buffer
		if err := wire.EncodeInstance(&b, inst); err != nil {
			t.Fatal(err)
		}
		again, err := wire.DecodeInstance(&b, wire.Limits{})
		if err != nil {
			t.Fatalf("%s: decoding what was encoded: %v", name, err)
		}
		if wire.SHA256(inst) != wire.SHA256(again) {
			t.Errorf("%s: encoding changed the instance", name)
		}
		res, err := wire.DecodeResult(open(t, "examples/"+name+".result.json"), wire.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var r bytes.Buffer
		if err := wire.EncodeResult(&r, res); err != nil {
			t.Fatal(err)
		}
		var n bytes.Buffer
		if err := wire.EncodeResultLines(&n, res); err != nil {
			t.Fatal(err)
		}
		for _, text := range []*bytes.Buffer{&r, &n} {
			back, err := wire.DecodeResult(text, wire.Limits{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(back.Schedule.Lanes) != len(res.Schedule.Lanes) || back.Value.Cmp(*res.Value) != 0 ||
				back.Certificate.Bound != res.Certificate.Bound {
				t.Errorf("%s: encoding changed the result", name)
			}
		}
	}
}

func TestFrozenInstancesDecode(t *testing.T) {
	files, _ := filepath.Glob("../testdata/instances/*.json.gz")
	if len(files) < 10 {
		t.Fatalf("found %d instances", len(files))
	}
	for _, f := range files {
		rel, _ := filepath.Rel("../testdata", f)
		if _, err := wire.DecodeInstance(open(t, rel), wire.Limits{}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}
