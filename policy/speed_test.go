package policy_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/policy"
)

var (
	speedRuns = flag.Int("hare.speed", 0,
		"run every policy of leases so many times, and print the table of docs/policies.md; 3 is good")
	speedPolicy = flag.String("hare.policies", "", "of these names alone, separated by commas")
)

// continuous is the trace of the table.
const continuous = "gavel_trace_continuous5600_single.csv"

// TestSpeedTable prints jobs a second on the continuous trace for every policy
// of leases, in Markdown, and how many times Gavel's own that is: on that trace
// where Gavel was run on it, else on the largest on which it was. Times are the
// least of the runs, since what disturbs a run only makes it longer.
func TestSpeedTable(t *testing.T) {
	if *speedRuns == 0 {
		t.Skip("only with -hare.speed")
	}
	solver := pool(t)
	fastest := func(r *reference) time.Duration {
		var least time.Duration
		for range *speedRuns {
			if r.play(t, solver); least == 0 || r.took < least {
				least = r.took
			}
		}
		return least
	}
	rows := references(t, "gavel_reference.csv")
	var long reference // any row of the trace
	for _, r := range rows {
		if r.trace == continuous {
			long = r
		}
	}
	fmt.Println("| policy | Hare, s | Hare, jobs/s | of Gavel's run on | Gavel, s | Hare, s | times Gavel |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, info := range policy.All() {
		if info.Engine != policy.Lease || *speedPolicy != "" &&
			!strings.Contains(","+*speedPolicy+",", ","+info.Name+",") {
			continue
		}
		r := long
		r.policy = info.Name
		took := fastest(&r)
		line := fmt.Sprintf("| `%s` | %.2f | %.0f |", info.Name, took.Seconds(), float64(r.jobs)/took.Seconds())
		var peer *reference // with the most jobs
		for i := range rows {
			if "gavel:"+rows[i].policy == info.Name && (peer == nil || rows[i].jobs > peer.jobs) {
				peer = &rows[i]
			}
		}
		if peer == nil {
			fmt.Println(line + " – | – | – | – |")
			continue
		}
		if peer.trace != continuous {
			took = fastest(peer)
		}
		fmt.Printf("%s %s | %.2f | %.3f | %.0f |\n", line, strings.TrimSuffix(strings.TrimPrefix(peer.trace,
			"gavel_trace_"), ".csv"),
			peer.wallS, took.Seconds(), peer.wallS/took.Seconds())
	}
}
