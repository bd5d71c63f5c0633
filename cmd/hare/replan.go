package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

type replanFlags struct {
	previous, before, at, stability, rest string
}

func (rpf *replanFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&rpf.previous, "previous", "",
		"plan the remaining work of this result again; started work is not moved")
	c.Flags().StringVar(&rpf.before, "previous-instance", "", "the instance of --previous, where INSTANCE differs")
	c.Flags().StringVar(&rpf.at, "at", "", "the planning instant on the clock of --previous: seconds, or 1h30m")
	c.Flags().StringVar(&rpf.stability, "stability", "0",
		"the least gain for moving planned work, in weight-seconds per GPU-second moved; 0 moves freely")
	c.Flags().StringVar(&rpf.rest, "rest", "",
		"write the remaining work at --at to this file, as the instance of the result")
}

// request reads the files that the flags name; it returns nil without --previous.
func (rpf *replanFlags) request() (*hare.ReplanRequest, error) {
	if rpf.previous == "" {
		for _, x := range []struct{ flag, value string }{{"previous-instance", rpf.before}, {"at", rpf.at},
			{"rest", rpf.rest}} {
			if x.value != "" {
				return nil, usageError{fmt.Errorf("--%s belongs to --previous RESULT", x.flag)}
			}
		}
		if rpf.stability != "0" {
			return nil, usageError{fmt.Errorf("--stability belongs to --previous RESULT")}
		}
		return nil, nil
	}
	req := &hare.ReplanRequest{}
	var err error
	if rpf.at == "" {
		return nil, usageError{fmt.Errorf("--previous needs --at: the planning instant on its clock, e.g. --at 3600 or " +
			"--at 1h")}
	}
	if req.AtUs, err = instant(rpf.at); err != nil {
		return nil, err
	}
	req.HasAt = true
	if req.StabilityMicro, err = hare.ParseMicros(rpf.stability); err != nil {
		return nil, usageError{fmt.Errorf("--stability %q %w: give what moving a GPU-second costs, such as 0.1",
			rpf.stability, err)}
	}
	if req.StabilityMicro < 0 {
		return nil, usageError{fmt.Errorf("--stability must not be negative, and is %s", rpf.stability)}
	}
	if err := noTwice(rpf.previous, rpf.before); err != nil {
		return nil, err
	}
	if req.Previous, err = readResult(rpf.previous); err != nil {
		return nil, err
	}
	if rpf.before != "" {
		req.Before, err = readInstance(rpf.before)
	}
	return req, err
}

// instant parses seconds or a duration and returns microseconds.
func instant(text string) (int64, error) {
	us, err := flagMicros(text)
	if err != nil {
		return 0, usageError{fmt.Errorf("--at %q is not an instant: give seconds with at most six decimals, e.g. 3600, or "+
			"a duration like 1h30m", text)}
	}
	return us, nil
}

// solveOrReplan solves inst or, where req is not nil, plans the remaining work of req's
// result.
func solveOrReplan(ctx context.Context, inst *hare.Instance, req *hare.ReplanRequest, opt hare.Options,
	cfg solver.Config) (*hare.Result, error) {
	if req == nil {
		return solver.Solve(ctx, inst, opt, cfg)
	}
	return solver.Replan(ctx, inst, *req, opt, cfg)
}

// wholePlan returns what to draw of a result: for a replan the schedule of the whole
// instance where there is one, otherwise the result itself.
func wholePlan(inst *hare.Instance, res *hare.Result) (*hare.Instance, *hare.Result) {
	p := res.Replan
	switch {
	case p == nil || p.Rest == nil || wire.SHA256(inst) == res.InstanceSHA256:
		return inst, res
	case p.Whole == nil:
		return p.Rest, res
	}
	whole := *res
	value := p.WholeCost(res.Objective, *res.Value)
	whole.Schedule, whole.Jobs, whole.Metrics, whole.Certificate, whole.Replan = p.Whole, nil, nil, nil, nil
	// The bound holds for plans that keep the started work, so it is not a bound on the
	// whole.
	whole.Value, whole.Bound, whole.InstanceSHA256 = &value, nil, p.InstanceSHA256
	return inst, &whole
}
