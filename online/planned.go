package online

import (
	"context"

	"github.com/hare-sched/hare"
)

// Planned is a policy that follows plans. A plan takes longer to make than an event may
// wait for its answer, so the policy's host makes it aside: the host asks for a question
// after an event, answers it in another goroutine while events go on, and gives the
// answer to the policy before a later event. The host records each plan that the policy
// took, with that event.
type Planned interface {
	Durable
	// Ask returns the question for the next plan, or nil where no plan is due. It does not
	// change the policy. The host answers at most one question at a time. A question
	// whose answer was lost, also by a crash, is asked again.
	Ask() PlanQuestion
	// AskNow is Ask, also where it is too early for another plan: copies of the policy are asked so, to see ahead.
	AskNow() PlanQuestion
	// Take follows the answer to an earlier question from now on, before the next event. A
	// plan that is older than the last one, that is of other jobs or that cannot be read is
	// refused with *hare.InvalidError and changes nothing. Jobs that have ended since the
	// question are left out.
	Take(plan []byte) error
	// Plan describes the plan that the policy follows.
	Plan() PlanStatus
}

// PlanQuestion is a question that no later event changes.
type PlanQuestion interface {
	// Answer makes the plan, as a JSON object on one line. It is pure, its work is
	// limited, and it may run beside the policy's methods. An error is that of ctx, or
	// says why there is no plan.
	Answer(ctx context.Context) ([]byte, error)
}

// PlanStatus is the plan that a session follows, at the time of its last event.
type PlanStatus struct {
	// MadeUs is the time of the plan's question, −1 where there is no plan yet.
	MadeUs int64
	// Due says that something has changed since the plan's question.
	Due bool
	// Fallback is the policy that decides because there is no plan or because the plan is
	// too old; "" where the plan is followed.
	Fallback string
	// Value and Bound are of the weighted completion times of the plan's jobs, counted
	// from MadeUs, if estimates hold and no job comes: Bound is at most the value of every
	// plan.
	Value, Bound hare.Amount
	Jobs         []PlannedJob // those that have not ended, by expected start
}

// PlannedJob is a job of a PlanStatus. Times are expected, −1 where the plan says
// nothing.
type PlannedJob struct {
	Job            string
	Running        bool
	Rounds         int64 // the rounds that are believed to be left
	Types          []string
	StartUs, EndUs int64 // of what the plan still has of the job
	// EarliestEndUs is a time before which the job cannot end, if it has that many
	// rounds.
	EarliestEndUs int64
	// Reason says what a waiting job waits for; it is empty for one that runs.
	Reason Reason
}
