package verify_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

func open(t testing.TB, path string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../testdata", path))
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

func instance(t testing.TB, path string) *hare.Instance {
	t.Helper()
	inst, err := wire.DecodeInstance(open(t, path), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func example(t testing.TB, name string) (*hare.Instance, *hare.Result) {
	t.Helper()
	res, err := wire.DecodeResult(open(t, "examples/"+name+".result.json"), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return instance(t, "examples/"+name+".instance.json"), res
}

func TestExamplesExactly(t *testing.T) {
	for name, want := range map[string]struct{ value, bound string }{
		"three-jobs": {"62.12", "63078343/1105000"},
		"windows":    {"64.625", "75229/2000"},
		"traps":      {"73.2125", "19459681/462000"},
	} {
		inst, res := example(t, name)
		rep := verify.Check(inst, res)
		if !rep.OK || rep.Value.String() != want.value {
			t.Errorf("%s: %v", name, rep)
		}
		bound, err := verify.Bound(inst, res.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if exact, _ := new(big.Rat).SetString(want.bound); bound.Cmp(exact) != 0 {
			t.Errorf("%s: bound %s, want %s", name, bound, want.bound)
		}
	}
}

// A result may leave out the gap or state it with six decimals. A false gap is refused.
func TestStatedGap(t *testing.T) {
	inst, res := example(t, "three-jobs") // value 62.12, bound 57.08447330…
	near := new(big.Rat).SetFrac(res.Value.Big(), res.Bound.Big())
	near.Sub(near, big.NewRat(1, 1))
	off := new(big.Rat).Add(near, big.NewRat(1, 500_000))
	for stated, want := range map[string]bool{
		"": true, "null": false, "0": false, "-1": false, "1e-7": false,
		near.FloatString(6): true, off.FloatString(6): false,
	} {
		res.StatedGap = stated
		if rep := verify.Check(inst, res); rep.OK != want {
			t.Errorf("gap %q: %v", stated, rep)
		}
	}
	// Without a bound there is no gap to state.
	res.Bound, res.Certificate = nil, nil
	for stated, want := range map[string]bool{"": true, "null": true, "0": false} {
		res.StatedGap = stated
		if rep := verify.Check(inst, res); rep.OK != want {
			t.Errorf("no bound, gap %q: %v", stated, rep)
		}
	}
}

func TestFrozenPrices(t *testing.T) {
	for name, want := range map[string]float64{"standard-200": 45433.127949, "arrivals-200": 26514.455543} {
		inst := instance(t, "instances/"+name+".json.gz")
		cert, err := wire.DecodeCertificate(open(t, "instances/"+name+".prices.json"), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		bound, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		if f, _ := bound.Float64(); f/want-1 > 1e-9 || f/want-1 < -1e-9 {
			t.Errorf("%s: bound %.6f, want %.6f", name, f, want)
		}
	}
}
