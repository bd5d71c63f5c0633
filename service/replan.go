package service

import (
	"context"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/wire"
)

// Replan plans again what is left of an earlier plan for inst, under the limits
// of Solve.
func (s *Service) Replan(ctx context.Context, inst *hare.Instance, req hare.ReplanRequest, opt hare.Options) (*hare.Result, error) {
	return s.limited(ctx, inst, opt, func(ctx context.Context, opt hare.Options) (*hare.Result, error) {
		cfg := s.cfg.Solver
		cfg.Progress = both(cfg.Progress, progressOf(ctx))
		return solver.Replan(ctx, inst, req, opt, cfg)
	})
}

// CheckReplan reports what Replan would refuse, before the work.
func (s *Service) CheckReplan(inst *hare.Instance, req hare.ReplanRequest, opt hare.Options) error {
	return solver.CheckRequest(inst, req, opt, s.cfg.Solver)
}

// kindReplan is the kind of stored solves that Replan makes.
const kindReplan = "replan"

// runReplan is Replan as the work of a stored solve.
func runReplan(req hare.ReplanRequest) RunFunc {
	return func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result, error) {
		return solver.Replan(ctx, inst, req, opt, cfg)
	}
}

// encodeReplan writes what is asked for, all but the instance, as
// wire.DecodeRequest reads it.
func encodeReplan(w io.Writer, req *hare.ReplanRequest) error {
	previous := *req.Previous
	previous.Options.Detail, previous.TaskList = "lanes", nil
	text := func(parts ...string) (err error) {
		for _, p := range parts {
			if err == nil {
				_, err = io.WriteString(w, p)
			}
		}
		return err
	}
	err := text(`{"at_s":`, hare.FormatMicros(req.AtUs), `,"stability":`, hare.FormatMicros(req.StabilityMicro), `,"previous":`)
	if err == nil {
		err = wire.EncodeResult(w, &previous)
	}
	if err == nil && req.Before != nil {
		if err = text(`,"previous_instance":`); err == nil {
			err = wire.EncodeInstance(w, req.Before)
		}
	}
	if err == nil {
		err = text("}")
	}
	return err
}

// readReplan reads what encodeReplan wrote.
func (s *Solves) readReplan(ctx context.Context, id string, ref store.BlobRef) (hare.ReplanRequest, error) {
	r := store.OpenBlob(ctx, s.cfg.Store, id, ref)
	req, err := wire.DecodeRequest(r, wire.Limits{MaxBytes: ref.Size + 1})
	if err != nil {
		return hare.ReplanRequest{}, r.Fault(err)
	}
	return req.Replan, nil
}
