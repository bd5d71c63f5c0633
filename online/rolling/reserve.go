package rolling

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// This file keeps GPUs for the first job in the order of the plan that does not fit.

// reserve keeps the GPUs of a row for a job that cannot start before notBeforeUs, where
// no job before has reserved GPUs of their types.
//
// Where a quota of the job lacks room, GPUs of the quota are kept instead.
func (r *rolling) reserve(j *list.JobState, row *planner.Row, notBeforeUs int64) {
	if r.reserveQuotas(j, row, notBeforeUs) {
		return
	}
	for _, c := range row.Types {
		if v := &r.reserved[c.Type]; !v.made && r.l.Nodes() != nil {
			*v = r.reserveOnNodes(j, row, c, notBeforeUs)
		} else if !v.made {
			*v = r.reservation(j, row, c, notBeforeUs)
		}
	}
}

// reservation finds when enough GPUs of a type are expected to be free for a row of a
// job, and not before notBeforeUs. Jobs that the plan has before that job keep their GPUs to the
// end of their rows. It takes O(log jobs) and the jobs whose GPUs are awaited.
func (r *rolling) reservation(j *list.JobState, row *planner.Row, c planner.TypeCount,
	notBeforeUs int64) gpuReservation {
	l, gr := r.l, r.index.releases[c.Type]
	gr.settle(l.NowUs(), c.Type)
	cursor := func(list *heldList, rest bool) heldCursor {
		return heldCursor{list: list, rest: rest, rowStartUs: row.StartUs}
	}
	ends, rounds := cursor(&gr.ends, true), cursor(&gr.rounds, false)
	overdue, late := cursor(&gr.overdue, true), cursor(&gr.overdue, false)
	// First all that is free by then, with what j and jobs that have started since the lists were
	// brought up to date had.
	atUs := max(notBeforeUs, l.NowUs())
	room := r.free[c.Type] + ends.countTo(atUs) + rounds.countTo(atUs) + overdue.countTo(atUs-l.NowUs()) +
		late.countTo(math.MaxInt64)
	stale := func(o *list.JobState) {
		for i := range planOf(o).turns.held {
			h := &planOf(o).turns.held[i]
			freeUs := h.endUs
			if h.overdue {
				freeUs = l.NowUs()
			}
			if h.startUs <= row.StartUs {
				freeUs += h.restUs
			}
			if h.gpuType == c.Type && freeUs <= atUs {
				room -= h.count
			}
		}
	}
	if !planOf(j).turns.touched {
		stale(j)
	}
	gr.loose = gr.loose[:0]
	for _, o := range r.index.touched {
		stale(o)
		if o == j || l.Job(o.Spec().ID) != o {
			continue
		}
		if h, ok := r.heldOf(o, c.Type); ok {
			endUs := max(h.endUs, l.NowUs())
			if h.startUs <= row.StartUs {
				endUs += h.restUs
			}
			gr.loose = append(gr.loose, list.GPURelease{AtUs: endUs, Count: h.count})
		}
	}
	gr.loose = l.GuardReleases(gr.loose, c.Type)
	slices.SortFunc(gr.loose, func(a, b list.GPURelease) int { return cmp.Compare(a.AtUs, b.AtUs) })
	loose := gr.loose
	for ; len(loose) > 0 && loose[0].AtUs <= atUs; loose = loose[1:] {
		room += loose[0].Count
	}
	if room >= c.Count {
		return gpuReservation{made: true, shadowUs: atUs, extra: room - c.Count, chunk: math.MaxInt64}
	}
	// Then those that are free next.
	skip := func(h *heldGPUs) bool { return h.job == j || planOf(h.job).turns.touched }
	end, over, round := ends.next(skip), overdue.next(skip), rounds.next(skip)
	for {
		first, from := list.GPURelease{AtUs: math.MaxInt64}, 0
		if len(loose) > 0 {
			first, from = loose[0], 1
		}
		if end != nil && (from == 0 || end.key < first.AtUs) {
			first, from = list.GPURelease{AtUs: end.key, Count: end.count}, 2
		}
		if over != nil && (from == 0 || l.NowUs()+over.key < first.AtUs) {
			first, from = list.GPURelease{AtUs: l.NowUs() + over.key, Count: over.count}, 3
		}
		if round != nil && (from == 0 || round.key < first.AtUs) {
			first, from = list.GPURelease{AtUs: round.key, Count: round.count}, 4
		}
		if from == 0 || room >= c.Count && first.AtUs > atUs {
			break
		}
		atUs = max(atUs, first.AtUs)
		room += first.Count
		switch from {
		case 1:
			loose = loose[1:]
		case 2:
			end = ends.next(skip)
		case 3:
			over = overdue.next(skip)
		case 4:
			round = rounds.next(skip)
		}
	}
	if room < c.Count {
		return gpuReservation{made: true, shadowUs: math.MaxInt64}
	}
	return gpuReservation{made: true, shadowUs: atUs, extra: room - c.Count, chunk: math.MaxInt64}
}
