package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
)

// JobTimes are the figures of one job of a schedule: times in seconds, costs in
// weight-seconds.
type JobTimes struct {
	Weight   float64 `json:"weight"`
	ReleaseS float64 `json:"release_s"`
	StartS   float64 `json:"start_s"`
	EndS     float64 `json:"end_s"`
	WaitS    float64 `json:"wait_s"`  // from the release to the first start
	JCTS     float64 `json:"jct_s"`   // from the release to the end
	LeastS   float64 `json:"least_s"` // no plan gets JCTS below it
	Stretch  float64 `json:"stretch"` // JCTS over LeastS; 1 is best
	Cost     float64 `json:"cost"`    // weight times JCTS
	Share    float64 `json:"share"`   // of the value, a fraction
}

// ListedJob is a job of a solve.
type ListedJob struct {
	Job string `json:"job"`
	JobTimes
}

// JobList lists jobs of a solve; Count is how many there are in all.
type JobList struct {
	Count int64       `json:"count"`
	Jobs  []ListedJob `json:"jobs"`
}

// Jobs lists the jobs of a solve that has ended, up to limit of them (0: 100),
// sorted by share (""), stretch, wait, jct, the greatest first, start or end.
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

// Change asks for changes with which a job ends By a time of the schedule, or
// Earlier by so much: one of the two. They are searched for until TimeLimit
// passes; 0: 10 s.
type Change struct {
	By, Earlier time.Duration
	TimeLimit   time.Duration
}

// Explanation says why a job starts and ends when it does.
type Explanation struct {
	About   string `json:"about"` // what the statements are about
	Job     string `json:"job"`
	Sync    string `json:"sync"`
	Outcome string `json:"outcome"` // scheduled, or the termination of a solve without schedule
	Reasons []struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"reasons"` // why it is not scheduled
	JobTimes
	Timeline  []JobSpan   `json:"timeline"`  // from the release to the end, without gaps
	Price     *JobPrice   `json:"price"`     // nil where the bound is not made of prices
	Elsewhere []TypeCost  `json:"elsewhere"` // on each type alone, the least first
	Earlier   *JobEarlier `json:"earlier"`   // nil where no change was asked for
	Notes     []string    `json:"notes"`
}

// JobSpan is a part of a job's time.
type JobSpan struct {
	State   string             `json:"state"` // waiting or running
	FromS   float64            `json:"from_s"`
	ToS     float64            `json:"to_s"`
	Round   int64              `json:"round"` // the first that runs, or the one that waits
	Rounds  int64              `json:"rounds"`
	GPUs    map[string]int64   `json:"gpus"` // by type, the most that a round uses
	PausedS float64            `json:"paused_s"`
	Pays    map[string]float64 `json:"pays"` // by type, weight-seconds
	Waits   []JobWait          `json:"waits"`
}

// JobWait is why a round did not start on GPUs of a type.
type JobWait struct {
	Type   string  `json:"type"`
	Cause  string  `json:"cause"` // no_service, busy, held, too_short or choice
	FromS  float64 `json:"from_s"`
	ToS    float64 `json:"to_s"`
	ForS   float64 `json:"for_s"`   // how long in all it held between the two
	Need   int64   `json:"need"`    // GPUs together
	NeedS  float64 `json:"need_s"`  // for how long
	Free   int64   `json:"free"`    // the most that were
	UntilS float64 `json:"until_s"` // when the first more is there
	Jobs   []struct {
		Job    string  `json:"job"`
		GPUs   int64   `json:"gpus"`
		UntilS float64 `json:"until_s"`
	} `json:"jobs"` // that hold them
	Others int64 `json:"others"` // jobs that do so too
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
	Least  *float64 `json:"least"` // nil where it can never run there alone
	More   *float64 `json:"more"`  // above the least over all types
	EndS   *float64 `json:"end_s"`
	Detail string   `json:"detail"`
}

// JobEarlier says with which changes a job ends by a time.
type JobEarlier struct {
	ByS        float64     `json:"by_s"`
	EndS       float64     `json:"end_s"` // without a change
	Baseline   string      `json:"baseline"`
	Already    bool        `json:"already"`
	EarliestS  float64     `json:"earliest_s"` // proved: no plan on this cluster is sooner
	Changes    []JobChange `json:"changes"`
	Cheapest   *int        `json:"cheapest"` // index in Changes; nil where none does it
	Solves     int         `json:"solves"`
	Finished   bool        `json:"finished"`
	Unfinished string      `json:"unfinished"` // what ended the search
}

// JobChange is the least change of a kind that was found to do it, or that none
// does.
type JobChange struct {
	Kind       string   `json:"kind"` // add_gpu, weight or fewer_rounds
	Does       bool     `json:"does"`
	Finished   bool     `json:"finished"` // false where a lesser one may do
	Weight     *float64 `json:"weight"`
	Rounds     *int64   `json:"rounds"`
	Type       string   `json:"type"` // of the GPU added, as the node Node
	Node       string   `json:"node"`
	NotWeight  *float64 `json:"not_weight"` // the nearest lesser one, which does not do
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
	} `json:"jobs"` // up to 10 that are delayed, the dearest first
}

// Explain says why a job of a solve that has ended starts and ends when it does;
// with change also what would end it earlier. Nil asks for no change.
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

// Prices are those of a solve's certificate, by type and time.
type Prices struct {
	InstanceSHA256 string      `json:"instance_sha256"`
	Bound          *float64    `json:"bound"`
	Meaning        string      `json:"meaning"`
	GridS          []float64   `json:"grid_s"` // ends of the cells, one more than prices
	Types          []TypePrice `json:"types"`
	Sizes          []SizePrice `json:"sizes"`
}

// TypePrice is one type's price of a GPU-second in weight-seconds, by cell.
type TypePrice struct {
	Type string `json:"type"`
	// Total is Σ price · length. BoundFall is how far the bound, not the value,
	// can fall at most with one more GPU.
	Total     float64   `json:"total"`
	BoundFall float64   `json:"bound_fall"`
	Prices    []float64 `json:"prices"`
}

// SizePrice is the price of so many GPUs that a gang holds together.
type SizePrice struct {
	Type   string    `json:"type"`
	Tasks  int64     `json:"tasks"`
	Prices []float64 `json:"prices"`
}

// Prices returns the prices of a solve that has ended with method price.
func (c *Client) Prices(ctx context.Context, id string) (*Prices, error) {
	return fetch[Prices](ctx, c, call{method: http.MethodGet, path: solvePath(id, "/prices"), repeatable: true})
}
