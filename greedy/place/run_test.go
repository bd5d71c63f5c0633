package place

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A GPU is in service for times in which it does two tasks of a job, whose rounds have three. The rounds are then
// spread over these times, and done in one run where the GPU stays long enough.
func TestRoundsInShortGaps(t *testing.T) {
	for _, c := range []struct {
		gaps   int64
		stays  bool // after the gaps
		fits   bool
		end    int64
		rounds int64 // of the first block
	}{
		{gaps: 4},
		{gaps: 5, fits: true, end: 1300, rounds: 1},
		{gaps: 4, stays: true, fits: true, end: 2100, rounds: 3},
	} {
		node := hare.Node{Name: "a", GPUs: []hare.TypeCount{{Type: "V", Count: 1}}}
		for n := range c.gaps {
			node.Windows = append(node.Windows, hare.Window{StartUs: 300 * n, EndUs: 300*n + 250})
		}
		if c.stays {
			node.Windows = append(node.Windows, hare.Window{StartUs: 300 * c.gaps, EndUs: hare.Forever})
		}
		m := model.New(&hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{node}},
			Jobs: []hare.Job{{ID: "j", WeightMicro: 1e6, Rounds: 3, Tasks: 3, Sync: hare.Relaxed,
				On: []hare.Profile{{Type: "V", ComputeUs: 100}}}}})
		var blocks []room.Block
		end, ok := NewRunResidual(m, []bool{true}).placeRuns(0, 0, &blocks)
		if ok != c.fits || ok && (end != c.end || blocks[0].Rounds != c.rounds) || !ok && len(blocks) > 0 {
			t.Errorf("%d gaps, stays %t: %t, end %d, %v", c.gaps, c.stays, ok, end, blocks)
		}
	}
}
