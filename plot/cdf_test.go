package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
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
	if steps := regexp.MustCompile(`d="M[^"L]*H[^"L]*V[^"L]*"`).FindAllString(b.String(), -1); len(steps) != 2 ||
		!strings.Contains(b.String(), "logarithmic axis") {
		t.Errorf("no steps: %q", steps)
	}
	// Every range has enough marks, none of which touch.
	for _, r := range [][2]int64{{1, 2}, {900e6, 1000e6}, {3e6, 4e9}, {60e6, 86400e6}, {1, 4e14}, {3600e6, 7200e6},
		{1e6, 1e6}, {2000e6, 40000e6}, {1, 9e15}} {
		var b bytes.Buffer
		if err := plot.CDF(&b, []plot.Sample{{Name: "x", Us: r[:]}}, plot.Options{}); err != nil {
			t.Fatal(err)
		}
		labels := regexp.MustCompile(`text-anchor="middle"[^>]*>[0-9]`).FindAllString(b.String(), -1)
		if least := 4; len(labels) < least && r[1]-r[0] > 5 || len(labels) > 20 {
			t.Errorf("%v: %d labels\n%s", r, len(labels), b.String())
		}
	}
	if err := plot.CDF(io.Discard, []plot.Sample{{Name: "x"}}, plot.Options{}); !errors.Is(err, plot.ErrNoSample) {
		t.Errorf("got %v", err)
	}
}
