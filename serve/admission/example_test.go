package admission_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare/serve/admission"
)

// One slot, for which nobody may wait: the second call is refused until the
// first one has left.
func ExampleQueue() {
	queue := admission.NewQueue(1, 0)
	call := admission.Call{Deadline: time.Now().Add(time.Minute), Cost: time.Second}
	if err := queue.Admit(call); err != nil {
		fmt.Println(err)
		return
	}
	ticket := queue.Enqueue(call)
	<-ticket.Granted()
	fmt.Println(errors.Is(queue.Admit(call), admission.ErrBusy))
	ticket.Release()
	fmt.Println(queue.Admit(call))
	// Output:
	// true
	// <nil>
}
