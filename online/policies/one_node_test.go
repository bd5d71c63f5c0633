package policies_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// The nodes have 1, 4 and 2 GPUs. By the numbers of GPUs, a gang of two gets GPUs of the first two
// nodes. With the option to keep to one node, it gets both GPUs of the last node, which is the
// tightest, and a gang of three gets three of the four. Each of two rounds takes 5 s, and 10 s more
// if it is spread over nodes.
func TestOneNode(t *testing.T) {
	inst := transcript.Instance("nodes a=1A b=4A c=2A\njobs x gang 2x2 A:5, y gang 2x3 A:5")
	// The network takes 2 (K − 1)/K · D at 1 byte a second, which is 10 s for D = 10 and K = 2.
	net := sim.Network{InterBytesPerS: 1, Bytes: func(*hare.Job) int64 { return 10 }}
	for _, c := range []struct {
		oneNode bool
		wantS   float64
		varied  int64
	}{{false, 30, 4}, {true, 10, 0}} {
		info, ok := policies.Find("gavel_fifo")
		if !ok {
			t.Fatal("gavel_fifo")
		}
		out, err := sim.Run(t.Context(), inst, fresh(t, info, inst, policies.Config{OneNode: c.oneNode}),
			sim.Config{Network: net})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(out.Jobs[0].EndUs) / 1e6; got != c.wantS || out.Varied != c.varied ||
			out.Jobs[1].EndUs != 10e6 {
			t.Errorf("one node %v: ends at %v and %v, %d varied", c.oneNode, got, out.Jobs[1].EndUs, out.Varied)
		}
	}
}
