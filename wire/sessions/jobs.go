package sessions

import "github.com/hare-sched/hare"

// Job is a job of a session that has not ended, as lists have it. Times are those of the session.
type Job struct {
	Job string `json:"job"`
	// Name and user are those that a scheduler has for the job of its helper's session.
	Name string `json:"name,omitempty"`
	User string `json:"user,omitempty"`
	Sync string `json:"sync" enums:"relaxed,gang,rigid"`
	// State is gathering where GPUs are kept for the job until there are enough.
	State string `json:"state" enums:"waiting,gathering,running"`
	// Place counts the jobs without a task on a GPU that are expected to start no later than this one, itself included:
	// by expected start where the policy plans, and otherwise in the order in which the policy looks at them.
	Place int `json:"place,omitempty"`
	// GPUs is how many the job holds, or wants at once.
	GPUs  int64    `json:"gpus"`
	Types []string `json:"types"` // that it may use
	// RunningOn are the GPUs that it holds.
	RunningOn []string     `json:"running_on,omitempty"`
	Weight    hare.Seconds `json:"weight"`
	ArrivedS  hare.Seconds `json:"arrived_s"`
	// StartS is when the job first started, or is expected to start; EndS is when it is expected to end.
	StartS *hare.Seconds `json:"start_s,omitempty"`
	EndS   *hare.Seconds `json:"end_s,omitempty"`
	// EarliestEndS is proved: the job does not end before, if it has the rounds and times that are believed.
	EarliestEndS *hare.Seconds `json:"earliest_end_s,omitempty"`
	// Reason says why a job waits, ReasonShort in at most six words. The codes are those of ManagedJob, and handed_over
	// where the plan starts a job of a helper's session and its scheduler has not started it yet.
	Reason      string `json:"reason,omitempty"`
	ReasonShort string `json:"reason_short,omitempty"`
	ReasonCode  string `json:"reason_code,omitempty" enums:"no_service,busy,planned_later,reserved,fragmented,gathering,quota,next_plan,handed_over"`
} //	@name	SessionJobRow

// JobList lists jobs of a session.
type JobList struct {
	Jobs []*Job `json:"jobs"`
	// Total counts the jobs that match, of all pages.
	Total int `json:"total"`
	// Seq is the number of the event after which the jobs are as described, AtS its time, and NowS the time now.
	Seq  int64        `json:"seq"`
	AtS  hare.Seconds `json:"at_s"`
	NowS hare.Seconds `json:"now_s"`
	// Next is what to give as after for the jobs that follow. It is left out at the end.
	Next string `json:"next,omitempty"`
} //	@name	SessionJobList
