package wire_test

import (
	"bytes"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

func seeds(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "examples", pattern))
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds: ", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
}

var fuzzLimits = wire.Limits{MaxBytes: 1 << 20}

// What decodes is valid, makes a model, and decodes to itself once encoded.
func FuzzDecodeInstance(f *testing.F) {
	seeds(f, "*.instance.json")
	f.Add(job(`"weight":1e309,"sync":"rigid","mix":false`))
	f.Add(on(`{"name":"a","count":3,"gpus":{"V100":2,"T4":1},"in_service_s":[[0,4],[4,9]],"busy":[{"gpu":2,` +
		`"until_s":3}]}`))
	f.Add(`{"hare":"instance/v1","cluster":{"nodes":[` + node + "]}}\n{\"id\":\"j\"," + runs + "}\n")
	f.Fuzz(func(t *testing.T, text string) {
		inst, err := wire.DecodeInstance(strings.NewReader(text), fuzzLimits)
		if err != nil {
			checkFaults(t, err)
			return
		}
		if err := inst.Validate(); err != nil {
			t.Fatalf("decoded but not valid: %v", err)
		}
		var b bytes.Buffer
		if err := wire.EncodeInstance(&b, inst); err != nil {
			t.Fatal(err)
		}
		again, err := wire.DecodeInstance(&b, wire.Limits{MaxBytes: 1 << 30})
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		if diff := cmp.Diff(inst, again); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(wire.Canonical(inst), wire.Canonical(again)) {
			t.Fatal("the canonical form changed")
		}
		model.New(inst)
	})
}

// checkFaults: each fault has a code and a text, and there are not too many.
func checkFaults(t *testing.T, err error) {
	all, ok := err.(hare.InvalidErrors)
	if !ok || len(all) == 0 || len(all) > 102 {
		t.Fatalf("got %T with %d faults", err, len(all))
	}
	for _, f := range all {
		if f.Code == "" || f.Detail == "" || len(f.Pointer) > 400 || len(f.Detail) > 1000 {
			t.Fatalf("an odd fault: %+v", f)
		}
	}
}

func FuzzDecodeResult(f *testing.F) {
	seeds(f, "*.result.json")
	f.Add(`{"hare":"result/v1","seed":-1,"value":1e3,"bound":null,"timing":{"total_s":1.5},` +
		`"metrics":{"utilization":{"b":1,"a":0.5}},"tasks":[{"job":"j","round":1}]}`)
	f.Add(`{"hare":"result/v1","schedule":{"jobs":["j"],"lanes":[]}}` + "\n" +
		`{"gpu":"a/0","job":[0],"tasks":[1],"start_us":[1e3]}`)
	f.Fuzz(func(t *testing.T, text string) {
		res, err := wire.DecodeResult(strings.NewReader(text), fuzzLimits)
		if err != nil {
			checkFaults(t, err)
			return
		}
		res.Gap()
		res.Options.Detail = "lanes"
		first := encoded(t, res)
		again, err := wire.DecodeResult(strings.NewReader(first), wire.Limits{MaxBytes: 1 << 30})
		if err != nil {
			t.Fatalf("encoded but not decoded: %v\n%s", err, first)
		}
		if second := encoded(t, again); second != first {
			t.Fatalf("encoding changed the result:\n%s\n%s", first, second)
		}
		var lines bytes.Buffer
		if err := wire.EncodeResultLines(&lines, res); err != nil {
			t.Fatal(err)
		}
		again, err = wire.DecodeResult(&lines, wire.Limits{MaxBytes: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if second := encoded(t, again); second != first {
			t.Fatalf("lines changed the result:\n%s\n%s", first, second)
		}
	})
}

func encoded(t *testing.T, res *hare.Result) string {
	var b strings.Builder
	if err := wire.EncodeResult(&b, res); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func FuzzDecodeCertificate(f *testing.F) {
	f.Add(`{"hare":"certificate/v1","method":"price","path":true,"objective":"weighted_jct","bound":"1.000000",` +
		`"grid_us":[0,5],"prices":{"A":[3]}}`)
	f.Add(`{"hare":"certificate/v1","method":"machine","bound":"-0.000001"}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := wire.DecodeCertificate(strings.NewReader(text), fuzzLimits)
		if err != nil {
			checkFaults(t, err)
			return
		}
		first := wire.CertificateJSON(c)
		again, err := wire.DecodeCertificate(bytes.NewReader(first), wire.Limits{})
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		if second := wire.CertificateJSON(again); !bytes.Equal(first, second) {
			t.Fatalf("encoding changed the certificate:\n%s\n%s", first, second)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(`{"instance":` + with("") + `,"options":{"time_limit_s":1.5,"gap":0.01,"seed":7,"detail":"jobs"}}`)
	f.Add(`{"instance":` + with("") + `,"result":{"hare":"result/v1"},"method":"price"}`)
	f.Fuzz(func(t *testing.T, text string) {
		req, err := wire.DecodeRequest(strings.NewReader(text), fuzzLimits)
		if err != nil {
			checkFaults(t, err)
			return
		}
		if req.Instance == nil {
			return
		}
		if err := req.Instance.Validate(); err != nil {
			t.Fatalf("decoded but not valid: %v", err)
		}
	})
}

func FuzzParseMicros(f *testing.F) {
	for _, text := range []string{"1.25", "-1e-6", "0.0000001", "1e999999999", "9223372036854.775807", "1E+5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := hare.ParseMicros(text)
		if err != nil {
			return
		}
		if again, err := hare.ParseMicros(hare.FormatMicros(n)); err != nil || again != n {
			t.Fatalf("%q: %d became %d, %v", text, n, again, err)
		}
		if len(text) > 100 || strings.ContainsAny(text, "eE") && n == 0 {
			return // math/big would write out the exponent
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok || exact.Cmp(big.NewRat(n, 1e6)) != 0 {
			t.Fatalf("%q is %s, not %d millionths", text, exact, n)
		}
	})
}
