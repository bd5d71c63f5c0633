package policies_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	registry "github.com/hare-sched/hare/sim/policies"
)

var (
	speedRuns = flag.Int("hare.speed", 0,
		"run every policy of leases so many times, and print the table of docs/lab/simulator.md#how-fast-is-it; 3 is good")
	speedPolicy = flag.String("hare.policies", "", "of these names alone, separated by commas")
)

// continuous is the trace for which the table gives rates.
const continuous = "gavel_trace_continuous5600_single.csv"

// TestSpeedTable prints the jobs per second on the continuous trace for every policy of leases,
// in Markdown, and this rate over the rate of Gavel. If Gavel was not run on that trace, its
// rate on the largest trace on which it was run counts. The time is the least of several runs,
// because disturbances only make a run longer.
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
	var long reference // some row of the trace
	for _, r := range rows {
		if r.trace == continuous {
			long = r
		}
	}
	fmt.Println("| policy | Hare, s | Hare, jobs/s | of Gavel's run on | Gavel, s | Hare, s | times Gavel |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, info := range registry.All() {
		if info.Engine != registry.Lease || *speedPolicy != "" &&
			!strings.Contains(","+*speedPolicy+",", ","+info.Name+",") {
			continue
		}
		r := long
		r.policy = info.Name
		took := fastest(&r)
		line := fmt.Sprintf("| `%s` | %.2f | %.0f |", info.Name, took.Seconds(), float64(r.jobs)/took.Seconds())
		var peer *reference // the row of the policy with the most jobs
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
