package hare_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

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
