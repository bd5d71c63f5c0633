package sim

import (
	"context"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// planner makes the plans of a policy that follows plans, as the host of a session does:
// one at a time, each from the question that the policy asked after an event, and ready
// after the latency.
type planner struct {
	policy    online.Planned // nil where no plan is made aside
	latencyUs int64
	question  online.PlanQuestion // nil where there is none
	readyUs   int64               // when the answer is there
	plan      []byte              // the answer, for the next event; nil where there is none
}

func newPlanner(policy online.Policy, latencyUs int64) (planner, error) {
	if latencyUs < 0 || latencyUs > hare.MaxExact {
		return planner{}, &hare.InvalidError{Pointer: "/plan_latency_s", Code: "bad_value",
			Detail: fmt.Sprintf("%s must not be negative", hare.FormatMicros(latencyUs))}
	}
	pl := planner{latencyUs: latencyUs}
	if latencyUs > 0 {
		pl.policy, _ = policy.(online.Planned)
	}
	return pl, nil
}

// answer answers the question where its plan is there at a time.
func (pl *planner) answer(ctx context.Context, atUs int64) error {
	if pl.question == nil || atUs < pl.readyUs {
		return nil
	}
	plan, err := pl.question.Answer(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("sim: %w", ctx.Err())
	}
	pl.question = nil
	if err == nil { // otherwise there is no plan, and the policy asks again
		pl.plan = plan
	}
	return nil
}

// give gives the policy the plan that is there, and returns the plan; nil where there is
// none.
func (pl *planner) give() ([]byte, error) {
	if pl.plan == nil {
		return nil, nil
	}
	plan := pl.plan
	pl.plan = nil
	return plan, pl.policy.Take(plan)
}

// ask asks for the next plan.
func (pl *planner) ask(nowUs int64) {
	if pl.question != nil || pl.plan != nil {
		return
	}
	pl.question, pl.readyUs = pl.policy.Ask(), nowUs+pl.latencyUs
}
