package plot

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func timeline() *Timeline {
	const minute = 60e6
	return &Timeline{Title: "Session abc", NowUs: 90 * minute, EndUs: 200 * minute,
		GPUs: []TimelineGPU{{Name: "a/0", Type: "V100"}, {Name: "b/0", Type: "T4"}, {Name: "a/1", Type: "V100"}},
		Jobs: []string{"bert", "vgg <b>", "gpt"},
		Spans: []TimelineSpan{{0, 0, -10 * minute, 60 * minute}, {0, 2, 0, 60 * minute}, {1, 0, 62 * minute, 120 * minute},
			{2, 0, 125 * minute, 300 * minute}, {2, 1, 90 * minute, 110 * minute}, {1, 1, 80 * minute, 90 * minute}}}
}

func TestTimeline(t *testing.T) {
	var svg bytes.Buffer
	if err := timeline().SVG(&svg, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 jobs · 3 GPUs · 90 min until now, and 110 min of the plan", "planned (lighter)",
		"runs now", ">now<", ">+1 h<", ">−1 h<", "vgg &lt;b&gt;: 28 min ago to in about 30 min"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(svg.String(), "time 0") || strings.Contains(svg.String(), "synchronising") {
		t.Error("the picture has words of schedules")
	}
	const golden = "testdata/timeline.svg"
	if *update {
		if err := os.WriteFile(golden, svg.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(want, svg.Bytes()) {
		t.Error("the picture has changed: run with -update and look at it", err)
	}
	for _, bad := range []TimelineSpan{{3, 0, 0, 1}, {0, 3, 0, 1}, {0, 0, 2, 1}, {-1, 0, 0, 1}} {
		x := timeline()
		x.Spans = append(x.Spans, bad)
		if x.SVG(&svg, Options{}) == nil {
			t.Errorf("%+v is drawn", bad)
		}
	}
	if err := new(Timeline).SVG(&svg, Options{}); err != nil {
		t.Error("nothing at all:", err)
	}
	var page bytes.Buffer
	if err := timeline().HTML(&page); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), `"end":12000000000,"now":5400000000,`) {
		t.Error("the page does not know what is now")
	}
}
