package study_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// If a trace has no speeds and the cluster has several types, the report says that all types count
// as equally fast. The page names the trace, the cluster and the seed.
func TestPlayed(t *testing.T) {
	const text = "arrival_s,duration_s,num_gpus,vc\n0,60,1,a\n5,30,2,b\n"
	for _, c := range []struct {
		gpus []hare.TypeCount
		note bool
	}{
		{[]hare.TypeCount{{Type: "A", Count: 4}}, false},
		{[]hare.TypeCount{{Type: "A", Count: 4}, {Type: "B", Count: 2}}, true},
	} {
		rep, err := study.Simulate(t.Context(), &simulatedoc.Request{
			Policies: []string{"fifo"}, Trace: &simulatedoc.Trace{Text: []byte(text), Format: "philly"}, GPUs: c.gpus,
			Seed: 7,
		}, study.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(rep.Notes, "\n"), "equally fast"); got != c.note {
			t.Errorf("%v: notes %q", c.gpus, rep.Notes)
		}
		rep.Played.Jobs = "trace week.csv"
		var page bytes.Buffer
		if err := rep.Page(&page); err != nil {
			t.Fatal(err)
		}
		if want := "Jobs: trace week.csv. GPUs: A=4"; !strings.Contains(page.String(), want) ||
			!strings.Contains(page.String(), "Seed: 7.") {
			t.Errorf("the page lacks %q", want)
		}
	}
}
