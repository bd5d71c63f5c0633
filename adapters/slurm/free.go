package slurm

import (
	"context"
	"slices"
	"strings"
	"time"
)

// patience is how long an entry that the plan would start at once waits with a constraint before it is freed:
// something that the helper does not know of keeps it from the nodes of its type. Slurm may take minutes to look
// at priorities and at long queues.
const patience = 5 * time.Minute

// constraintReasons begin the reasons of jobs that wait because no node that they may have is there, as Slurm writes
// them (with blanks or underscores, and with names of nodes after a comma).
var constraintReasons = []string{"BadConstraints", "ReqNodeNotAvail", "NodeDown", "PartitionConfig",
	"PartitionNodeLimit", "Nodes_required_for_job", "Reservation"}

// typeFields are the fields by which entries get types.
var typeFields = []string{"Features", "Prefer"}

// stands returns the value of one of typeFields.
func (r *Record) stands(field string) string {
	if field == "Prefer" {
		return r.Prefer
	}
	return r.Features
}

// whyFree says why a constraint that the helper wrote must not stand; "" where it may. stuck says that it keeps, or
// would keep, the entry from starting.
func (h *Helper) whyFree(s *State, r *Record, j *Job, field string) (why string, stuck bool) {
	reason := strings.ReplaceAll(r.Reason, " ", "_")
	since, waits := h.wouldStart[r.ID]
	writes := map[GPUType]string{TypeConstraints: "Features", TypePrefer: "Prefer"}[h.cfg.GPUType]
	switch {
	case slices.ContainsFunc(constraintReasons, func(begin string) bool { return strings.HasPrefix(reason, begin) }):
		return "Slurm does not start it: " + r.Reason, true
	case j != nil && typed(&j.Job):
		return "its user names the type of its GPUs", true
	case j != nil && !s.canStart(r, j, r.stands(field)):
		return "no node in service satisfies what it asks for and " + r.stands(field) + " together", true
	case waits && h.now().Sub(since) >= patience:
		return "the plan would start it, and Slurm has not done so for " + patience.String(), true
	case field != writes:
		return "this run does not write " + field, false
	case !h.cfg.takesPart(r):
		return "does not take part any more", false
	}
	return "", false
}

// frees finds the constraints of the helper that must not stand, of whatever entries: also of those that wait for
// another reason than their place in the queue, of which no plan knows. counted is how many of them kept an entry
// from starting and were not found before.
func (h *Helper) frees(s *State) (frees, plain []Update, counted int64) {
	jobs := s.waitingJobs()
	for _, id := range sortedKeys(s.Records) {
		r := s.Records[id]
		for _, field := range typeFields {
			stands := r.stands(field)
			own, ok := h.journal.own(r, field, stands)
			if !ok || own == stands {
				continue
			}
			why, stuck := h.whyFree(s, r, jobs[id], field)
			u := Update{Job: id, SubmitS: r.SubmitS, Field: field, Old: stands, New: own, Reason: "freed: " + why, own: own}
			switch {
			case stuck:
				frees = append(frees, u)
				if !h.journal.freeing(r, field) {
					counted++
				}
			case why != "":
				plain = append(plain, u)
			}
		}
	}
	return frees, plain, counted
}

// free gives entries their users' constraints back where what the helper wrote must not stand. It needs no plan, so
// that it works where no node is in service and where the planner fails.
func (h *Helper) free(ctx context.Context, s *State) ([]Update, error) {
	frees, plain, counted := h.frees(s)
	frees, plain = frees[:min(len(frees), h.cfg.MaxUpdates)], plain[:min(len(plain), h.cfg.MaxUpdates)]
	if h.cfg.Write {
		for _, part := range []struct {
			event   string
			updates []Update
		}{{"free", frees}, {"write", plain}} {
			if len(part.updates) == 0 {
				continue
			}
			if err := h.write(ctx, part.event, part.updates); err != nil {
				return nil, err
			}
		}
		h.counted.Freed += counted
	}
	return append(frees, plain...), nil
}

// watch notes since when entries with a constraint of the helper wait although the plan starts them now.
func (h *Helper) watch(s *State, list []entryAdvice) {
	before := h.wouldStart
	h.wouldStart = map[int64]time.Time{}
	for _, a := range list {
		r := s.Records[a.entry]
		if r == nil || !a.now {
			continue
		}
		for _, field := range typeFields {
			if own, ok := h.journal.own(r, field, r.stands(field)); !ok || own == r.stands(field) {
				continue
			}
			if since, known := before[a.entry]; known {
				h.wouldStart[a.entry] = since
			} else {
				h.wouldStart[a.entry] = h.now()
			}
		}
	}
}
