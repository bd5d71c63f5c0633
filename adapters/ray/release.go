package ray

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Release gives all jobs that wait to Ray, in the order of submission, for the day when Hare is taken
// away. Ray chooses where they run, on the fastest of the GPU types that a job names and that nodes have. Jobs that
// no node could run stay in the queue, and count as Result.NoRoom: Ray would give them up. Without Config.Write it
// says what it would submit. It needs to lead.
func (h *Helper) Release(ctx context.Context) (*Result, error) {
	if h.cfg.Write && h.epoch == 0 {
		return nil, errors.New("another process leads: end hare ray run first")
	}
	result, q := &Result{}, &h.journal.Queue
	if err := h.journal.Refresh(); err != nil {
		return nil, err
	}
	v, err := h.dashboard.read(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range q.waiting() {
		gpuType, ok := v.releaseType(&e.Spec)
		if !ok {
			result.NoRoom++
			continue
		}
		result.Starts = append(result.Starts, Start{Job: e.ID, Name: e.Spec.Name, GPUs: e.Spec.GPUs, Type: gpuType,
			Reason: "released"})
	}
	if !h.cfg.Write {
		return result, nil
	}
	return result, h.start(ctx, slices.Clone(result.Starts), result)
}

// releaseType is the type on which a job is fastest, where it names types, of those whose nodes could run it and can
// be asked for by the resource of the type; false where no node could run the job.
func (v *view) releaseType(s *Spec) (string, bool) {
	best, fits := "", false
	for _, n := range v.nodes {
		if !n.fits(s) || len(s.On) > 0 && !n.typeResource {
			continue
		}
		fits = true
		if x, y := s.seconds(n.gpuType), s.seconds(best); len(s.On) > 0 && (best == "" || x > 0 && (y == 0 || x < y)) {
			best = n.gpuType
		}
	}
	return best, fits
}

// namedType is the type on which a job is fastest, as its user names it.
func namedType(s *Spec) string {
	best := ""
	for _, t := range s.On {
		if best == "" || t.Seconds > 0 && (s.seconds(best) == 0 || t.Seconds < s.seconds(best)) {
			best = t.Type
		}
	}
	return best
}

// Commands are the commands of Ray's own program that submit what waits, in order. Where Ray answers, they ask for
// types that its nodes have.
func (h *Helper) Commands(ctx context.Context, address string) []string {
	var out []string
	v, err := h.dashboard.read(ctx)
	for _, e := range h.journal.Queue.waiting() {
		next := *e
		next.Attempt++
		next.Type = namedType(&e.Spec)
		if err == nil {
			if gpuType, ok := v.releaseType(&e.Spec); ok {
				next.Type = gpuType
			}
		}
		s := h.submissionOf(&next)
		args := []string{"ray", "job", "submit", "--no-wait", "--address", address, "--submission-id", s.SubmissionID,
			"--entrypoint-num-gpus", fmt.Sprint(s.GPUs)}
		if s.CPUs > 0 {
			args = append(args, "--entrypoint-num-cpus", fmt.Sprint(s.CPUs))
		}
		if s.Memory > 0 {
			args = append(args, "--entrypoint-memory", fmt.Sprint(s.Memory))
		}
		for _, part := range []struct {
			flag  string
			value any
			empty bool
		}{{"--entrypoint-resources", s.Resources, len(s.Resources) == 0},
			{"--metadata-json", s.Metadata, len(s.Metadata) == 0},
			{"--runtime-env-json", s.RuntimeEnv, len(s.RuntimeEnv) == 0}} {
			if part.empty {
				continue
			}
			text, err := json.Marshal(part.value)
			if err != nil {
				continue // cannot happen: the job was read from JSON
			}
			args = append(args, part.flag, string(text))
		}
		out = append(out, ShellLine(args)+" -- "+strings.ReplaceAll(s.Entrypoint, "\n", " "))
	}
	return out
}
