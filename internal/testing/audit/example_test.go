package audit_test

import (
	"fmt"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
)

func ExampleRuns() {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	err := audit.Runs([]audit.Run{
		{Agent: "a", Epoch: 1, Order: 1, Job: "j1", Attempt: 1, GPUs: []string{"a/0"}, Start: noon,
			End: noon.Add(21 * time.Second)},
		{Agent: "b", Epoch: 1, Order: 1, Job: "j1", Attempt: 2, GPUs: []string{"b/0"}, Start: noon.Add(20 * time.Second),
			End: noon.Add(30 * time.Second)},
	})
	fmt.Println(err)
	// Output: attempt 2 of job j1 started on b at 12:00:20.000000, and attempt 1 ran on a until 12:00:21.000000
}
