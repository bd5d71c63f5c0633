package slurm

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
)

// Order says by which value of a job the helper orders the queue.
type Order string

// These are the orders.
const (
	OrderNone     Order = "none"
	OrderSite     Order = "site"      // SiteFactor, which adds to the other factors of the priority
	OrderNice     Order = "nice"      // negative nice values, for operators
	OrderNiceUser Order = "nice-user" // positive nice values, which users may set on their own jobs
)

// GPUType says how the helper asks for the GPU type of the plan.
type GPUType string

// These are the ways.
const (
	TypeNone        GPUType = "none"
	TypePrefer      GPUType = "prefer"      // Slurm goes elsewhere where the type is busy
	TypeConstraints GPUType = "constraints" // the job waits for the type
)

// Config says what the helper does.
type Config struct {
	Order   Order
	GPUType GPUType
	// Write lets the helper write; otherwise it only says what it would write.
	Write bool
	// OptIn is the beginning of the comment of jobs that take part; empty means "hare". Partitions
	// and QOS name those all of whose jobs take part.
	OptIn           string
	Partitions, QOS []string
	// Predict adds to the comments of jobs that take part when the plan starts them, and a time before
	// which they cannot end.
	Predict bool
	// MaxUpdates limits the values that one loop writes; 0 means 1000.
	MaxUpdates int
	// Range limits what is added to a priority; 0 means 1,000,000.
	Range int64
	// PlanTime limits how long a plan may take; 0 means 5 s.
	PlanTime time.Duration
	// StateFile has what the session knows, so that the helper goes on with a session of a server
	// after a restart; empty means none.
	StateFile string
	// Speeds tell how long jobs take on other types; nil means those that Hare brings along.
	Speeds *history.Speeds
	Logger *slog.Logger // nil means slog.Default()
}

func (c *Config) validate() error {
	if c.Order == "" {
		c.Order = OrderSite
	}
	if c.GPUType == "" {
		c.GPUType = TypeNone
	}
	if !slices.Contains([]Order{OrderNone, OrderSite, OrderNice, OrderNiceUser}, c.Order) {
		return fmt.Errorf("slurm: order %.40q: must be site, nice, nice-user or none", c.Order)
	}
	if !slices.Contains([]GPUType{TypeNone, TypePrefer, TypeConstraints}, c.GPUType) {
		return fmt.Errorf("slurm: GPU type %.40q: must be none, prefer or constraints", c.GPUType)
	}
	if c.MaxUpdates < 0 || c.Range < 0 || c.Range > 1<<30 || c.PlanTime < 0 {
		return errors.New("slurm: limits must not be negative, and the range at most 2^30")
	}
	if c.OptIn == "" {
		c.OptIn = "hare"
	}
	if c.MaxUpdates == 0 {
		c.MaxUpdates = 1000
	}
	if c.Range == 0 {
		c.Range = 1_000_000
	}
	if c.PlanTime == 0 {
		c.PlanTime = 5 * time.Second
	}
	if c.Speeds == nil {
		c.Speeds = history.ShippedSpeeds()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// takesPart reports whether the helper may write to an entry.
func (c *Config) takesPart(r *Record) bool {
	return strings.HasPrefix(r.Comment, c.OptIn) || slices.Contains(c.Partitions, r.Partition) ||
		slices.Contains(c.QOS, r.QOS)
}
