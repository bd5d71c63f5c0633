// Package regret has the documents of regret: what a session achieved, beside the best plan in
// hindsight and what another policy would have done. Servers, clients and the specification share
// them; package regret fills them in.
package regret

import (
	"encoding/json"

	"github.com/hare-sched/hare"
)

// Regret compares what a session achieved with the best plan in hindsight.
type Regret struct {
	// Seq is the number of the last event that the comparison covers.
	Seq int64 `json:"seq"`
	// AtS is the end of the interval; in the last line it is the time of the last event.
	AtS hare.Seconds `json:"at_s"`
	// Last says that the comparison covers the whole log, and that no line follows.
	Last bool `json:"last"`
	Jobs Jobs `json:"jobs"`
	// Objective is what achieved and bound are of, where it is not the weighted completion time.
	Objective string `json:"objective,omitempty"`
	// Achieved is the weighted completion time of the jobs that are counted, or their makespan.
	Achieved hare.Amount `json:"achieved"`
	// Bound is a lower bound on what any plan achieves; null where no job is counted.
	Bound *hare.Amount `json:"bound"`
	// Regret is achieved/bound, rounded up at six decimals; null without a useful bound.
	Regret *json.Number `json:"regret" swaggertype:"number" extensions:"x-nullable"`
	Method string       `json:"method,omitempty"`
	// Holds says for which plans the bound is true.
	Holds string `json:"holds"`
	// Notes say what was left out or assumed.
	Notes []string `json:"notes,omitempty"`
	// Against is what another policy would have done; it is there where a policy was named.
	Against *Replay `json:"against,omitempty"`
	// Certificate proves the bound for the instance. It is there with detail full.
	Certificate certificateText `json:"certificate,omitempty"`
	// Instance is the session as it turned out. It is there with detail full.
	Instance instanceText `json:"instance,omitempty"`
} //	@name	Regret

// Replay is what another policy would have done with the jobs and GPUs of a session.
// Its figures are null where no job is counted, or where jobs wait for ever in the replay.
type Replay struct {
	Policy string `json:"policy"`
	// Stalled is the number of counted jobs that wait for ever in the replay.
	Stalled int `json:"stalled"`
	// WeightedJCT is what achieved would have been.
	WeightedJCT *hare.Amount `json:"weighted_jct"`
	// MeanJCTS is the mean time from arrival to end of the counted jobs.
	MeanJCTS *float64 `json:"mean_jct_s"`
	// P99Slowdown is the 99th percentile of that time over the job's least time alone.
	P99Slowdown *float64 `json:"p99_slowdown"`
	// Regret is weighted_jct/bound, rounded up at six decimals; null without a bound that holds for the replay.
	Regret *json.Number `json:"regret" swaggertype:"number" extensions:"x-nullable"`
	// Session are the same figures of what happened.
	Session Figures `json:"session"`
	// Holds says what the replay assumes.
	Holds string `json:"holds"`
	// Notes say what is special about this replay.
	Notes []string `json:"notes,omitempty"`
} //	@name	RegretReplay

// Figures are the figures of the jobs that are counted; null where there is none.
type Figures struct {
	WeightedJCT *hare.Amount `json:"weighted_jct"`
	MeanJCTS    *float64     `json:"mean_jct_s"`
	P99Slowdown *float64     `json:"p99_slowdown"`
} //	@name	RegretFigures

// The JSON forms of a certificate and of an instance.
type (
	certificateText = json.RawMessage
	instanceText    = json.RawMessage
)

// Jobs counts the jobs of a session.
type Jobs struct {
	// Counted is the number of jobs that have ended and are compared.
	Counted   int `json:"counted"`
	Running   int `json:"running"`
	Cancelled int `json:"cancelled"`
	// Empty is the number of jobs that ended without a whole round, or with a task that took no time at all.
	Empty int `json:"empty"`
} //	@name	RegretJobs
