package solves

import (
	"context"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// kindReplan is the kind of the stored solves whose work is a replan.
const kindReplan = "replan"

// runReplan returns solver.Replan as the work of a stored solve.
func runReplan(req hare.ReplanRequest) service.RunFunc {
	return func(ctx context.Context, inst *hare.Instance, opt hare.Options, cfg solver.Config) (*hare.Result, error) {
		return solver.Replan(ctx, inst, req, opt, cfg)
	}
}

// encodeReplan writes a replan request without its instance, in the form that
// wire.DecodeRequest reads.
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
	err := text(`{"at_s":`, hare.FormatMicros(req.AtUs), `,"stability":`, hare.FormatMicros(req.StabilityMicro),
		`,"previous":`)
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
func (ss *Solves) readReplan(ctx context.Context, id string, ref store.BlobRef) (hare.ReplanRequest, error) {
	r := store.OpenBlob(ctx, ss.cfg.Store, id, ref)
	req, err := wire.DecodeRequest(r, wire.Limits{MaxBytes: ref.Size + 1})
	if err != nil {
		return hare.ReplanRequest{}, r.Fault(err)
	}
	return req.Replan, nil
}
