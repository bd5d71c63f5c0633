package ray_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hare-sched/hare/adapters/ray"
)

// A job is in the queue as soon as Submit returns, and may be submitted again under its ID.
func Example() {
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	queue, err := ray.OpenJournal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	on, err := ray.ParseOn("V100=3600s,T4=2h30m")
	if err != nil {
		fmt.Println(err)
		return
	}
	job := &ray.Spec{Entrypoint: "python train.py", GPUs: 2, On: on}
	for range 2 {
		if _, err := ray.Submit(context.Background(), queue, "bert", job, time.Now()); err != nil {
			fmt.Println(err)
		}
	}
	for _, e := range queue.Queue.Entries {
		fmt.Println(e.ID, e.State, e.Spec.GPUs, e.Spec.On)
	}
	// Output: bert waiting 2 [{V100 3600} {T4 9000}]
}
