package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
)

// JobTimes holds the times and costs of one job of a schedule: times in seconds, costs
// in weight-seconds.
type JobTimes struct {
	Weight   float64 `json:"weight"`
	ReleaseS float64 `json:"release_s"`
	StartS   float64 `json:"start_s"`
	EndS     float64 `json:"end_s"`
	WaitS    float64 `json:"wait_s"`  // from the release to the first start
	JCTS     float64 `json:"jct_s"`   // from the release to the end
	LeastS   float64 `json:"least_s"` // a lower bound on JCTS: the job alone on an empty cluster
	Stretch  float64 `json:"stretch"` // JCTS divided by LeastS; 1 is best
	Cost     float64 `json:"cost"`    // weight times JCTS
	Share    float64 `json:"share"`   // fraction of the schedule's value
}

// ListedJob is a job of a solve.
type ListedJob struct {
	Job string `json:"job"`
	JobTimes
}

// JobList is a list of jobs of a solve; Count is the number of jobs of the instance.
type JobList struct {
	Count int64       `json:"count"`
	Jobs  []ListedJob `json:"jobs"`
}

// Jobs lists at most limit jobs (0 means 100) of a solve that has ended. sort is share
// (also ""), stretch, wait or jct, the greatest first, or start or end, the earliest
// first.
func (c *Client) Jobs(ctx context.Context, id, sort string, limit int) (*JobList, error) {
	query := url.Values{}
	if sort != "" {
		query.Set("sort", sort)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return fetch[JobList](ctx, c, call{method: http.MethodGet, path: solvePath(id, "/jobs"), query: query,
		repeatable: true})
}

// Change asks which changes would make a job end earlier: either at the time By of the
// schedule, or Earlier than now by that time. The search for changes ends after
// TimeLimit; 0 means 10 s.
type Change struct {
	By, Earlier time.Duration
	TimeLimit   time.Duration
}

// Explanation says why a job starts and ends when it does.
type Explanation struct {
	About   string `json:"about"` // what the statements refer to
	Job     string `json:"job"`
	Sync    string `json:"sync"`
	Outcome string `json:"outcome"` // scheduled, or the termination of a solve without a schedule
	Reasons []struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"reasons"` // why the job is not scheduled
	JobTimes
	Timeline  []JobSpan   `json:"timeline"`  // from the release to the end, without gaps
	Price     *JobPrice   `json:"price"`     // nil where the bound is not made of prices
	Elsewhere []TypeCost  `json:"elsewhere"` // cost on each type alone, the cheapest first
	Earlier   *JobEarlier `json:"earlier"`   // nil where no change was requested
	Notes     []string    `json:"notes"`
}

// JobSpan is a part of a job's time.
type JobSpan struct {
	State   string             `json:"state"` // waiting or running
	FromS   float64            `json:"from_s"`
	ToS     float64            `json:"to_s"`
	Round   int64              `json:"round"` // the first round that runs, or the round that waits
	Rounds  int64              `json:"rounds"`
	GPUs    map[string]int64   `json:"gpus"` // by type, the most GPUs that a round uses
	PausedS float64            `json:"paused_s"`
	Pays    map[string]float64 `json:"pays"` // by type, the price of the GPU time in weight-seconds
	Waits   []JobWait          `json:"waits"`
}

// JobWait is the reason why a round did not start on GPUs of a type.
type JobWait struct {
	Type string `json:"type"`
	// Cause is no_service, busy, held, too_short or choice and, where nodes matter, not_allowed, fragmented, cpus or
	// memory.
	Cause   string  `json:"cause"`
	FromS   float64 `json:"from_s"`
	ToS     float64 `json:"to_s"`
	ForS    float64 `json:"for_s"`    // total time for which the cause held within the span
	Need    int64   `json:"need"`     // GPUs that the round needs at the same time
	PerTask int64   `json:"per_task"` // GPUs that have to be on one node; 0 means 1
	NeedS   float64 `json:"need_s"`   // how long it needs them
	Free    int64   `json:"free"`     // the most GPUs that were free at the same time
	UntilS  float64 `json:"until_s"`  // when the next GPU becomes available
	Jobs    []struct {
		Job    string  `json:"job"`
		GPUs   int64   `json:"gpus"`
		UntilS float64 `json:"until_s"`
	} `json:"jobs"` // jobs that hold the GPUs
	Others int64 `json:"others"` // number of further jobs that hold GPUs
	Nodes  []struct {
		Node      string   `json:"node"`
		GPUs      int64    `json:"gpus"`
		CPUs      *float64 `json:"cpus"` // nil where the node does not limit them
		MemoryMiB *int64   `json:"memory_mib"`
	} `json:"nodes"` // what was free when the causes fragmented, cpus and memory first held
	OtherNodes int64 `json:"other_nodes"` // number of further nodes with free GPUs
}

// JobPrice is what a job costs at the certificate's prices, in weight-seconds.
type JobPrice struct {
	Paid   float64 `json:"paid"`
	ByType []struct {
		Type string  `json:"type"`
		GPUS float64 `json:"gpu_s"`
		Paid float64 `json:"paid"`
	} `json:"by_type"`
	Least        float64 `json:"least"`
	ReducedCost  float64 `json:"reduced_cost"` // the job's part of value − bound
	ReducedShare float64 `json:"reduced_share"`
}

// TypeCost is what a job would cost on one type alone, at the same prices.
type TypeCost struct {
	Type   string   `json:"type"`
	Least  *float64 `json:"least"` // nil where the job can never run on this type alone
	More   *float64 `json:"more"`  // Least minus the least over all types
	EndS   *float64 `json:"end_s"`
	Detail string   `json:"detail"`
}

// JobEarlier lists changes with which a job would end by a time.
type JobEarlier struct {
	ByS        float64     `json:"by_s"`
	EndS       float64     `json:"end_s"` // end of the job without a change
	Baseline   string      `json:"baseline"`
	Already    bool        `json:"already"`
	EarliestS  float64     `json:"earliest_s"` // proved: no schedule on this cluster ends the job earlier
	Changes    []JobChange `json:"changes"`
	Cheapest   *int        `json:"cheapest"` // index in Changes; nil where no change suffices
	Solves     int         `json:"solves"`
	Finished   bool        `json:"finished"`
	Unfinished string      `json:"unfinished"` // why the search ended early; "" where it is complete
}

// JobChange is the smallest change of one kind that was found to suffice, or says that
// no change of the kind does.
type JobChange struct {
	Kind       string   `json:"kind"` // add_gpu, weight or fewer_rounds
	Does       bool     `json:"does"`
	Finished   bool     `json:"finished"` // false where a smaller change might suffice
	Weight     *float64 `json:"weight"`
	Rounds     *int64   `json:"rounds"`
	Type       string   `json:"type"` // type of the added GPU, which is in a node named Node
	Node       string   `json:"node"`
	GPUs       int      `json:"gpus"`       // of the type on the added node; 0 means 1
	NotWeight  *float64 `json:"not_weight"` // the greatest tried change below this one, which does not suffice
	NotRounds  *int64   `json:"not_rounds"`
	Tried      int      `json:"tried"`
	Detail     string   `json:"detail"`
	EndS       *float64 `json:"end_s"`
	OthersCost *float64 `json:"others_cost"`
	Delayed    int      `json:"delayed"`
	Sooner     int      `json:"sooner"`
	Jobs       []struct {
		Job  string  `json:"job"`
		ByS  float64 `json:"by_s"`
		EndS float64 `json:"end_s"`
		Cost float64 `json:"cost"`
	} `json:"jobs"` // up to 10 delayed jobs, the most expensive first
}

// Explain says why a job of a solve that has ended starts and ends when it does and,
// where change is not nil, which changes would make the job end earlier.
func (c *Client) Explain(ctx context.Context, id, job string, change *Change) (*Explanation, error) {
	query := url.Values{}
	if change != nil {
		for name, d := range map[string]time.Duration{"by_s": change.By, "earlier_s": change.Earlier,
			"time_limit_s": change.TimeLimit} {
			if d > 0 {
				query.Set(name, hare.FormatMicros(d.Microseconds()))
			}
		}
	}
	return fetch[Explanation](ctx, c, call{method: http.MethodGet, path: solvePath(id, "/jobs/"+url.PathEscape(job)),
		query: query, repeatable: true})
}

// Prices holds the prices of a solve's certificate by type and time.
type Prices struct {
	InstanceSHA256 string      `json:"instance_sha256"`
	Bound          *float64    `json:"bound"`
	Meaning        string      `json:"meaning"`
	GridS          []float64   `json:"grid_s"` // borders of the cells: one more than there are cells
	Types          []TypePrice `json:"types"`
	Sizes          []SizePrice `json:"sizes"`
}

// TypePrice is the price of a GPU-second of one type, in weight-seconds, for each cell.
type TypePrice struct {
	Type string `json:"type"`
	// Total is Σ price · length. BoundFall limits how far the bound (not the value) can
	// fall with one more GPU of the type.
	Total     float64   `json:"total"`
	BoundFall float64   `json:"bound_fall"`
	Prices    []float64 `json:"prices"`
}

// SizePrice is the price of a gang that holds several GPUs at the same time.
type SizePrice struct {
	Type   string    `json:"type"`
	Tasks  int64     `json:"tasks"`
	Prices []float64 `json:"prices"`
}

// Prices returns the prices of a solve that has ended with method price.
func (c *Client) Prices(ctx context.Context, id string) (*Prices, error) {
	return fetch[Prices](ctx, c, call{method: http.MethodGet, path: solvePath(id, "/prices"), repeatable: true})
}
