package goodput_test

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare/sim/elastic/goodput"
)

// Steps of a job were measured on one GPU and on four. The model says which batch the job
// should have on eight GPUs of two nodes, while its gradients are noisy.
func Example() {
	params, err := goodput.Fit([]goodput.Step{
		{Nodes: 1, GPUs: 1, Local: 32, StepS: 0.21, SyncS: 0.001},
		{Nodes: 1, GPUs: 1, Local: 64, StepS: 0.36, SyncS: 0.001},
		{Nodes: 1, GPUs: 4, Local: 64, StepS: 0.43, SyncS: 0.08},
		{Nodes: 2, GPUs: 4, Local: 48, StepS: 0.48, SyncS: 0.2},
		{Nodes: 2, GPUs: 8, Local: 64, StepS: 0.60, SyncS: 0.25},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := goodput.Model{
		Params: params,
		Noise:  goodput.Noise{Sqr: 1, Variance: 40},
		Limits: goodput.Limits{Init: 32, Max: 4096, MinLocal: 8, MaxLocal: 64},
	}
	for _, gpus := range []int{1, 2, 4, 8} {
		nodes := (gpus + 3) / 4
		g, local, passes := model.Best(nodes, gpus)
		fmt.Printf("%d GPUs: about %.0f samples/s of progress, %d passes of %d\n", gpus, math.Round(g/10)*10, passes, local)
	}
	// Output:
	// 1 GPUs: about 170 samples/s of progress, 2 passes of 64
	// 2 GPUs: about 280 samples/s of progress, 2 passes of 64
	// 4 GPUs: about 510 samples/s of progress, 1 passes of 64
	// 8 GPUs: about 620 samples/s of progress, 1 passes of 62
}
