package trace_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare/trace"
)

// The format of every shipped trace is detected, and so is Gavel's own form.
func TestDetectFormat(t *testing.T) {
	for _, name := range trace.ShippedTraces() {
		src, err := trace.Shipped(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trace.DetectFormat(src)
		if want, _, _ := strings.Cut(name, "_"); got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for text, want := range map[string]string{
		"A3C\tc\td\ta\t0\t1000\t1\t1\t-1\t0.0\n":                          "gavel",
		"\ufeffarrival_s,duration_s,num_gpus,vc\r\n1,2,3,x\r\n":           "philly",
		"vc,num_gpus,duration_s,arrival_s":                                "philly",
		"job_id,arrival_s,job_type,total_steps,scale_factor,batch_mode,x": "shockwave",
	} {
		if got, err := trace.DetectFormat(trace.Source{R: strings.NewReader(text)}); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a,b\n", "\"\n", strings.Repeat("x", 1<<17)} {
		if got, err := trace.DetectFormat(trace.Source{Name: "t.csv", R: strings.NewReader(text)}); got != "" ||
			err == nil || !strings.Contains(err.Error(), "t.csv:1:1: the columns tell no format") {
			t.Errorf("%.9q: %q, %v", text, got, err)
		}
	}
	if err := trace.CheckFormat("galve"); err == nil || !strings.Contains(err.Error(), `did you mean "gavel"?`) {
		t.Error(err)
	}
}
