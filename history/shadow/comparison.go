package shadow

import (
	"context"
	"math"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// Config says how a history is compared. Its zero value is useful.
type Config struct {
	// Slurm are the settings of the simulated Slurm.
	Slurm SlurmConfig
	// Online are the settings of Hare's policy.
	Online OnlineConfig
	// WorkLimit limits the work of each plan in hindsight, as the option work_limit; zero means
	// 4,000,000.
	WorkLimit int64
	// Splits reports whether plans in hindsight are also made for jobs that keep their types and for
	// GPUs without nodes, which tell order, types and nodes apart.
	Splits bool
	// Seed is the seed of the intervals.
	Seed uint64
	// Draws is how often the days are drawn again for the intervals; zero means 2,000.
	Draws int
	// Version is the version of Hare; empty means "dev".
	Version string
	// Progress is called when a part of Parts begins and as the part goes on, with its name and the share
	// that is done, from the goroutine of Compare; it may be nil.
	Progress func(part string, done float64)
}

// Parts names the parts of Compare, in order.
func (c *Config) Parts() []string {
	if c.Splits {
		return []string{"slurm", "hare", "hindsight", "splits", "figures"}
	}
	return []string{"slurm", "hare", "hindsight", "figures"}
}

// Schedules are the schedules behind a report, for the verifier.
type Schedules struct {
	Instance                         *hare.Instance
	Happened, Slurm, Hare, Hindsight *hare.Result
}

// comparison is the state of one call of Compare.
type comparison struct {
	ctx   context.Context
	cfg   Config
	built *history.Built
	inst  *hare.Instance

	was     *outcome
	kinds   map[string]string // the types of GPUs by name
	counted []int             // the jobs that did not run yet when the window began, as indices of the instance
	unit    bool              // all weights are one
	rep     *Report
	out     Schedules

	telling sync.Mutex
	told    int // the part that was told last, as an index of Parts
}

func seconds(us int64) float64 { return float64(us) / 1e6 }

// floorTo rounds down to a multiple of 1/by, so that a bound stays one.
func floorTo(x, by float64) float64 { return math.Floor(x*by) / by }
