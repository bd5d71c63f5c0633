package antman_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare/sim/sharing/antman"
)

// An opportunistic job uses what a guaranteed job leaves of a GPU.
func Example() {
	jobs := []antman.Job{
		{ID: "guaranteed", GPUs: 1, WorkS: 100, Busy: 0.6, MemoryGiB: 8},
		{ID: "opportunistic", GPUs: 1, WorkS: 90, Busy: 0.8, MemoryGiB: 8, Opportunistic: true},
	}
	cluster := antman.Cluster{Nodes: 1, NodeGPUs: 1, MemoryGiB: 16}
	for _, sharing := range []antman.Sharing{antman.Exclusive, antman.Unmanaged, antman.Managed} {
		o, err := antman.Run(context.Background(), cluster, jobs, antman.Config{Sharing: sharing})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-9s ends at %.0f and %.0f s, %.2f of the GPU is busy\n", sharing, o.Records[0].EndS,
			o.Records[1].EndS, o.Busy)
	}
	// Output:
	// exclusive ends at 100 and 190 s, 0.69 of the GPU is busy
	// unmanaged ends at 136 and 126 s, 0.97 of the GPU is busy
	// managed   ends at 100 and 140 s, 0.94 of the GPU is busy
}
