package text_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver/text"
)

// TestReplan checks that a line of a moved job says in words why, and its times in the same units.
func TestReplan(t *testing.T) {
	const s = 1_000_000
	res := &hare.Result{Replan: &hare.Replan{AtUs: 3600 * s, Started: []hare.StartedWork{{}}, Kept: []string{"a", "b"},
		Lost: []hare.LostWork{{Job: "x\x1b", Round: 3, GPU: "n/0"}}, Added: []string{"new"},
		Moved: []hare.MovedJob{
			{ID: "bert", Why: hare.MovedMadeWay, From: hare.JobPlace{EndUs: 6600 * s}, To: hare.JobPlace{EndUs: 7380 * s}},
			{ID: "vgg", Why: hare.MovedEarlier, From: hare.JobPlace{EndUs: 90 * s}, To: hare.JobPlace{EndUs: 80 * s}}}}}
	const want = `
At 1 h: started work of 1 job stays; 2 jobs as planned, 2 moved, 1 new, 0 gone.
Lost: round 3 of x\x1b, which needed GPU n/0.
Moved: 0.0 of 0.0 planned GPU-seconds (0.0 %), of which 0.0 had to move.
  bert makes way: end 1 h 50 min → 2 h 3 min
  vgg ends earlier: end 90 s → 80 s
`
	var b strings.Builder
	if text.Replan(&b, res); b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
