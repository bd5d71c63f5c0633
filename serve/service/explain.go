package service

import (
	"context"
	"errors"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Explain is explain.Static followed by the search for changes. Each step and each
// solve takes a slot of the queue. A limit of zero means explain.DefaultTime;
// Config.MaxTime is the greatest limit.
func (s *Service) Explain(ctx context.Context, inst *hare.Instance, res *hare.Result, req explain.Request,
	limit time.Duration) (*explaindoc.Answer, error) {
	if limit <= 0 {
		limit = explain.DefaultTime
	}
	deadline := time.Now().Add(min(limit, s.cfg.MaxTime))
	_, leave, err := s.acquire(ctx, deadline)
	if err != nil {
		return nil, err
	}
	x, err := func() (*explaindoc.Answer, error) {
		defer leave()
		return explain.Static(inst, res, req)
	}()
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	explain.Search(work, x, inst, res, req, s.Solve)
	if x.Earlier == nil {
		return x, nil // no change was requested
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return x, nil
}

// Prices is explain.PricesOf in a slot of the queue.
func (s *Service) Prices(ctx context.Context, inst *hare.Instance, res *hare.Result) (*explaindoc.Prices, error) {
	if !explain.HasPrices(res) {
		return nil, explain.ErrNoPrices
	}
	_, leave, err := s.acquire(ctx, time.Now().Add(s.cfg.MaxTime))
	if err != nil {
		return nil, err
	}
	defer leave()
	return explain.PricesOf(ctx, inst, res)
}
