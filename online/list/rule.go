package list

import (
	"encoding/json"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// Rule is what makes one list scheduler differ from another: the order of the jobs, and
// how long a job keeps its GPUs. Only Priority is required.
type Rule struct {
	// Name is the name of the policy, for status and snapshots.
	Name string
	// Hold is the least time for which a job keeps its GPUs: Relaxed means compute alone,
	// Gang a round on GPUs that start together, Rigid until the job ends. The sync of the
	// job counts where it asks for more. A job whose own sync is relaxed mixes types
	// where no type has enough GPUs for a round. Its tasks start one by one where all
	// types together do not have enough GPUs, and for the rest of a round that lost a GPU.
	Hold hare.Sync
	// TypesByName takes GPU types in the order of their names; otherwise a job tries
	// the fastest type first.
	TypesByName bool
	// Strict stops at the first job that does not fit; otherwise later jobs pass that job.
	Strict bool
	// Backfill reserves GPUs for the first job that does not fit, and lets other jobs pass
	// only where they do not delay the first job (EASY). Backfill needs Rounds or
	// LearnSizes.
	Backfill bool
	// Priority orders the jobs that wait, the least first; ties go by arrival. Priority
	// must not change the state.
	Priority func(*Scheduler, *JobState) float64
	// Rounds are the rounds of each job, by its ID, for policies that know sizes.
	Rounds map[string]int64
	// LearnSizes lets JobState.RoundsLeft be what is believed of a job whose rounds are not
	// known: from jobs that ended, and from how long the job has run. A job never has
	// fewer than one round left then, so that a job that outlives what was believed of it
	// goes on. Where no speed is known, RoundUs is that of the other jobs.
	LearnSizes bool

	// Review is called for each waiting job before its priority; nil does nothing.
	Review func(*Scheduler, *JobState)
	// Plan is called with all waiting jobs before Review; nil does nothing.
	Plan func(*Scheduler, []*JobState)
	// Started is called before a job starts tasks on GPUs of a type; nil does nothing.
	Started func(l *Scheduler, j *JobState, gpuType int)
	// Prepare is called before a schedule, and where recorded decisions are adopted instead
	// of one; nil does nothing.
	Prepare func(*Scheduler)
	// Assign replaces the choice by priorities; nil does not.
	Assign func(*Scheduler)
	// After is called after a schedule, and where recorded decisions were adopted instead of one; nil does
	// nothing.
	After func(*Scheduler)
	// Left is called when a job ends or is cancelled, and Resized when a job arrives or
	// GPUs join or leave; nil does nothing.
	Left    func(l *Scheduler, j *JobState, ended bool)
	Resized func(*Scheduler)
	// Version, where it is not nil, promises that Priority depends on nothing but the job, its
	// round and Version's value, so that waiting jobs are kept in order. There must be no
	// Review, Plan, Strict or Backfill.
	Version func() int64
	// Touched is called where a job begins or ceases to wait, to run or to be there, and where
	// its GPUs change; nil does nothing.
	Touched func(*Scheduler, *JobState)
	// Picks chooses the GPUs of a type for all tasks of a round, in the order of the tasks, where there is room
	// for them; nil for the best fit. Where the rule has Picks, the scheduler goes by nodes.
	Picks func(l *Scheduler, j *JobState, gpuType int, avoid placement.Avoid) []int
	// Wake is when a tick would let the rule decide, or math.MaxInt64; nil means never.
	Wake func(*Scheduler) int64
	// Sticky lets a job take the GPUs of its last round first.
	Sticky bool
	// Slowest is how many times slower than on the best type in service a round may be;
	// zero or less means any.
	Slowest float64
	// State gives what a rule keeps beside the scheduler's own state, for snapshots, and
	// Restore takes it, once jobs and GPUs are there; nil means that the rule keeps nothing.
	State   func(*Scheduler) any
	Restore func(l *Scheduler, state json.RawMessage) bool
	// ThresholdsUs are the attained services after which jobs leave a queue, for status.
	ThresholdsUs []int64
	// OneNode keeps a round on one node where one has room for it.
	OneNode bool
	// Setup is how long a switch takes; nil means that the rule takes no account of it.
	Setup *SetupTime
	// Speeds learns how long rounds take; nil goes by the profiles alone.
	Speeds *LearnedSpeeds
	// Guard is the guard against starvation; the zero value means none.
	Guard GuardRule
	// Opened is called with the cluster of a session that is opened; nil does nothing. What it makes must be
	// part of the state.
	Opened func(*hare.Cluster) error
	// parameters are those of the session, as JSON, for snapshots.
	parameters []byte
}
