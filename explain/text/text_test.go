package text_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain/text"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// TestExplanation prints a job that waits for two causes and then runs, with its timeline.
func TestExplanation(t *testing.T) {
	const s = hare.Seconds(1_000_000)
	x := &explaindoc.Answer{Job: "vgg\x1b", Sync: "gang", Outcome: "scheduled",
		Times: &explaindoc.Times{Weight: s, EndS: 40 * s, StartS: 20 * s, JCTS: 40 * s, LeastS: 20 * s, Share: 0.5},
		Timeline: []explaindoc.Span{
			{FromS: 0, ToS: 20 * s, State: "waiting", Waits: []explaindoc.Wait{
				{Type: "T4", Cause: "held", Need: 2, Free: 1, ToS: 15 * s, ForS: 15 * s,
					Jobs: []explaindoc.Holder{{Job: "bert", GPUs: 3, UntilS: 15 * s}}},
				{Type: "T4", Cause: "too_short", Need: 2, NeedS: 9 * s, FromS: 15 * s, ToS: 20 * s, ForS: 5 * s}}},
			{FromS: 20 * s, ToS: 40 * s, State: "running", Rounds: 3, GPUs: map[string]int64{"T4": 2}}}}
	const want = `vgg\x1b (gang, weight 1) is released at 0 s, starts at 20 s and ends at 40 s.
It takes 40 s; no plan does it in less than 20 s. It is 50.0 % of the plan's value.

         0 s to         20 s  waits for round 0
                            2 T4 together: at most 1 free; taken by bert (3 until 15 s) (0 s to 15 s)
                            2 T4 together: free, but not for 9 s without a break (15 s to 20 s)
        20 s to         40 s  runs rounds 0 to 2 on 2 T4

     vgg\x1b |..............................##############################|
        bert |======================                                      |
              0 s                                                       40 s
              # runs  . waits  = has GPUs that it waits for
`
	var b strings.Builder
	if err := text.Explanation(&b, x, true); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, b.String(), want)
	}
}
