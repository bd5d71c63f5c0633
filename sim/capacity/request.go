package capacity

import (
	"fmt"
	"time"

	"github.com/hare-sched/hare"
)

// Request asks what a cluster needs. Options, goals and amounts to buy are as people write them.
type Request struct {
	// History has the cluster as it is, and the jobs that it got, each released when it was submitted.
	History *hare.Instance
	// Origin is the date of time 0 of History; the zero time says that the history has no dates.
	Origin time.Time
	// Source says what the history is, for the report.
	Source string
	// Options are changes of the cluster; the cluster as it is stands beside them.
	Options []string
	// Buy are the most GPUs of each type of which a mix may have any number, as H100=64.
	Buy []string
	// Policies are names of policies of tasks, and Now for the one that Now names.
	Policies []string
	Now      string // the policy that is nearest to what the cluster does today; "" is slurm
	// Prices are those of a GPU for an hour, by type, in any currency.
	Prices map[string]float64
	// Goal is what a week must reach; "" is no goal. Share is the share of weeks that must; zero means 0.9.
	Goal  string
	Share float64
	// Weeks is how many weeks are drawn, of Days days each; zero means 20 and 7.
	Weeks, Days int
	// Growth multiplies the jobs; zero means 1.
	Growth float64
	// Grow are examples that grow by a factor of their own, as ann=2; see Like.
	Grow []string
	Seed uint64
}

// Now stands for the policy of Request.Now.
const Now = "now"

// The limits of a request.
const (
	MaxWeeks   = 1000
	MaxOptions = 100
	maxGrowth  = 100
	maxDays    = 400
	maxPrice   = 1e9
	maxMixes   = 10_000
)

// Error is a fault of a request; Field is the one at fault, as weeks or option.
type Error struct{ Field, Detail string }

func (e *Error) Error() string { return e.Field + ": " + e.Detail }

func fault(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}
