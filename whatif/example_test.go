package whatif_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// Two jobs share one GPU. The scenarios ask what a second GPU or the removal of a job would save.
func ExampleRun() {
	const document = `{
	 "base": {"instance": {"hare": "instance/v1",
	   "cluster": {"nodes": [{"name": "n", "gpus": {"A": 1}}]},
	   "jobs": [{"id": "x", "weight": 3, "on": {"A": {"compute_s": 2}}}, {"id": "y", "on": {"A": {"compute_s": 1}}}]}},
	 "scenarios": [
	   {"id": "one more", "add_gpus": {"type": "A", "count": 1}},
	   {"id": "without y", "remove_jobs": ["y"]},
	   {"id": "y in a hurry", "scale_weights": {"y": 9}},
	   {"id": "no such node", "drain": {"node": "m", "at_s": 60}}],
	 "options": {"gap": 0}, "ordered": true}`
	req, err := whatifdoc.Decode(strings.NewReader(document), wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := whatif.Check(req, nil); err != nil {
		fmt.Println(err)
		return
	}
	err = whatif.Run(context.Background(), req, whatif.Local{}, func(l *whatif.Line) error {
		switch {
		case l.Err != nil:
			fmt.Println(l.ID+":", l.Err)
		case l.Line == "base":
			fmt.Println("base:", l.Value)
		case l.Line == "scenario":
			fmt.Printf("%s: %v, the best plan changes by %v to %v\n", l.ID, l.Value, l.OptimumChange[0],
				l.OptimumChange[1])
		default:
			fmt.Println(l.Counts.Solved, "solved")
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// base: 9
	// one more: 7, the best plan changes by -2 to -2
	// without y: 6, the best plan changes by -3 to -3
	// y in a hurry: 18, the best plan changes by 9 to 9
	// no such node: /scenarios/3/drain/node: there is no node "m"; the nodes are "n" (unknown_node)
	// 3 solved
}
