package wire_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

func ExampleDecodeInstance() {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "a", "count": 2, "gpus": {"V100": 4}}]},
		"jobs": [{"id": "bert", "rounds": 40, "tasks": 4, "on": {"V100": {"compute_s": 1.2,`+
		` "sync_s": 0.1}}}]}`), wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := model.New(inst)
	fmt.Println(len(m.GPUs), "GPUs, the last one is", m.GPUs[len(m.GPUs)-1].ID)
	fmt.Println(inst.Jobs[0].On[0].DurationUs(), "µs a task")
	// Output:
	// 8 GPUs, the last one is a-1/3
	// 1300000 µs a task
}

// An instance that a program builds is written in the form that DecodeInstance
// reads, and its hash is over the canonical form.
func ExampleEncodeInstance() {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}}}},
		Jobs: []hare.Job{{ID: "bert", WeightMicro: 1e6, Rounds: 40, Tasks: 4,
			On: []hare.Profile{{Type: "V100", ComputeUs: 1_200_000, SyncUs: 100_000}}}},
	}
	if err := wire.EncodeInstance(os.Stdout, inst); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(wire.SHA256(inst))
	// Output:
	// {"hare":"instance/v1","objective":"weighted_jct",
	//  "cluster":{"nodes":[
	//   {"name":"a","gpus":{"V100":4}}]},
	//  "jobs":[
	//   {"id":"bert","weight":1,"rounds":40,"tasks":4,"on":{"V100":{"compute_s":1.2,"sync_s":0.1}}}]}
	// fdfd26fe2190d9be65406f5d709c6546d561fde086136be839f2e34063498ebd
}
