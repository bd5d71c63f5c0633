package online_test

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// A job with two tasks in a round takes the fast GPU first, and a second job waits.
func ExampleHLAS() {
	cluster := &hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}},
		{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}},
	}}
	h, err := online.NewHLAS(cluster, online.HLASConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	on := []hare.Profile{{Type: "T4", ComputeUs: 3_000_000}, {Type: "V100", ComputeUs: 1_000_000}}
	show := func(nowUs int64, events ...hare.Event) {
		decisions, err := h.Step(nowUs, events)
		for _, d := range decisions {
			fmt.Println(hare.FormatMicros(d.AtUs), d.Type, d.Job, d.Round, d.Task, d.GPU)
		}
		if err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), ": ", ":\n  "))
		}
	}
	show(0,
		hare.Event{Type: hare.EventJobArrived, Arrived: &hare.Job{ID: "bert", Tasks: 2, On: on}},
		hare.Event{Type: hare.EventJobArrived, Arrived: &hare.Job{ID: "vgg", Tasks: 1, On: on}})
	show(1_000_000, hare.Event{Type: hare.EventTaskEnded, Job: "bert", GPU: "a/0", ComputeUs: 1_000_000})
	show(2_000_000, hare.Event{Type: hare.EventTaskEnded, Job: "bert", GPU: "a/0"})
	show(2_000_000, hare.Event{Type: hare.EventJobEnded, Job: "bert"})
	job, _ := h.Explain("vgg")
	fmt.Println(job.Why)
	// Output:
	// 0 start bert 0 0 a/0
	// 0 start bert 0 1 b/0
	// 1 start vgg 0 0 a/0
	// event 0:
	//   /gpu:
	//   task 0 of round 0 of job "bert" does not run on GPU "a/0":
	//   it was never started there, has ended, or was withdrawn (not_running)
	// 2 withdraw bert 0 1 b/0
	// Its round 0 runs (tasks on GPUs: 1 of 1). The next round starts when all have ended.
}
