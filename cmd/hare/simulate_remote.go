package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare/sim/study"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// remotely simulates on a server.
func (f *simulateFlags) remotely(ctx context.Context, req *simulatedoc.Request, live *progressLine) (
	*study.Report, error) {
	if f.record != "" {
		return nil, usageError{errors.New("--record keeps the runs themselves, which a server does not send: leave " +
			"--server out")}
	}
	r, err := f.remote.connect()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.reach(ctx); err != nil {
		return nil, remoteError(r, "", err)
	}
	ask := *req
	ask.TimeLimit = f.limit
	if f.out != "" {
		ask.Detail = simulatedoc.DetailJobs
	}
	show := simulationProgress(live, time.Now)
	rep, status, asked := &study.Report{}, "", int64(0)
	for l, err := range r.FollowSimulation(ctx, &ask) {
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, remoteError(r, "", err)
		}
		switch l.Kind {
		case "progress":
			show(*l.Progress)
		case "run":
			rep.Runs = append(rep.Runs, study.RunOf(*l.Run))
		case "summary":
			status, asked, rep.Summary = l.Summary.Status, l.Summary.Asked, l.Summary.Summary
		}
	}
	if status == study.StatusDeadline {
		return nil, usageError{fmt.Errorf("--server %s: its time limit passed when %d of %d runs had ended: allow more by "+
			"--time-limit, ask for less, or leave --server out", r.base, len(rep.Runs), asked)}
	}
	return rep, nil
}
