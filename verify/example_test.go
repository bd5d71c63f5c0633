package verify_test

import (
	"fmt"
	"os"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

func Example() {
	load := func(name string) (*hare.Instance, *hare.Result) {
		i, err := os.Open("../testdata/examples/" + name + ".instance.json")
		if err != nil {
			panic(err)
		}
		inst, err := wire.DecodeInstance(i, wire.Limits{})
		if err != nil {
			panic(err)
		}
		r, err := os.Open("../testdata/examples/" + name + ".result.json")
		if err != nil {
			panic(err)
		}
		res, err := wire.DecodeResult(r, wire.Limits{})
		if err != nil {
			panic(err)
		}
		return inst, res
	}
	inst, res := load("three-jobs")
	fmt.Println(verify.Check(inst, res))

	res.Schedule.Lanes[4].StartUs[0]++ // one of the two GPUs of a rigid job
	res.Certificate.Bound = "57.084474"
	fmt.Println(verify.Check(inst, res))
	// Output:
	// accepted: value 62.12, bound 57.084473, at most 8.83 % above the best possible plan
	// refused
	//   gang: the tasks of a round do not start together (job "slurm-4711", round 0, GPU b/2, by 0.000001 s)
	//   bound: the certificate proves 57.084473303, less than the 57.084474 it states
}
