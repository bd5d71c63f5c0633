package admission_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare/admission"
)

// One place, for which nobody may wait: the second call is refused until the
// first one has left.
func ExampleQueue() {
	queue := admission.NewQueue(1, 0)
	call := admission.Call{Deadline: time.Now().Add(time.Minute), Cost: time.Second}
	if err := queue.Admit(call); err != nil {
		fmt.Println(err)
		return
	}
	turn := queue.LineUp(call)
	<-turn.Granted()
	fmt.Println(errors.Is(queue.Admit(call), admission.ErrBusy))
	turn.Leave()
	fmt.Println(queue.Admit(call))
	// Output:
	// true
	// <nil>
}
