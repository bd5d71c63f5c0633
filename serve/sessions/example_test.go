package sessions_test

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

// A session on one GPU: a job arrives, and its task starts at once.
func ExampleOpen() {
	ctx := context.Background()
	all, err := sessions.Open(ctx, sessions.Config{Store: store.NewMemory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer all.Close()
	session, err := all.Create(ctx, "", sessions.SessionConfig{
		Policy:  "fifo",
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := &hare.Job{ID: "bert", WeightMicro: 1e6, Tasks: 1, On: []hare.Profile{{Type: "V100", ComputeUs: 2e6}}}
	promise, err := session.Submit(ctx, hare.Event{Seq: 1, Type: hare.EventJobArrived, Job: job.ID, Arrived: job})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := promise.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range answer.Decisions {
		fmt.Printf("%s round %d task %d on %s at %s s\n", d.Job, d.Round, d.Task, d.GPU, hare.FormatMicros(d.AtUs))
	}
	// Output:
	// bert round 0 task 0 on a/0 at 0 s
}
