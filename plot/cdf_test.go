package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hare-sched/hare/plot"
)

func TestCDF(t *testing.T) {
	var b bytes.Buffer
	samples := []plot.Sample{{Name: "a <b>", Us: []int64{3e6, 1e6, 2e6}}, {Name: "none"},
		{Name: "long", Us: []int64{4e9}}}
	if err := plot.CDF(&b, samples, plot.Options{Title: "JCT & more"}); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
		t.Errorf("not XML: %v", err)
	}
	for _, want := range []string{"JCT &amp; more", "a &lt;b&gt;: mean 2 s of 3", "none: none",
		"long: mean 66 min 40 s of 1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if err := plot.CDF(io.Discard, []plot.Sample{{Name: "x"}}, plot.Options{}); !errors.Is(err, plot.ErrNoSample) {
		t.Errorf("got %v", err)
	}
}
