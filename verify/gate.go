package verify

import (
	"fmt"

	"github.com/hare-sched/hare"
)

// refusePlaced refuses an instance to which nodes matter for a check that cannot yet go by
// nodes.
func refusePlaced(inst *hare.Instance, what string) error {
	if at, placed := inst.Placed(); placed {
		return fmt.Errorf("%s are not supported by the verifier in this version where nodes matter, as %s says they do",
			what, at)
	}
	return nil
}
