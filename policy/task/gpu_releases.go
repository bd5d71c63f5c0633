package task

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/planner"
)

// gpuRelease is some GPUs of a type and when they are expected to be free.
type gpuRelease struct{ atUs, count int64 }

// heldGPUs are the GPUs of one type that a job holds, and when they are expected to be free:
// at the end of the round that runs or, for jobs whose turn is at startUs or after it, restUs
// later. It is an entry of three lists by different keys.
type heldGPUs struct {
	key     int64
	job     *JobState
	count   int64
	endUs   int64 // of the round that runs, by the job's profile
	restUs  int64 // the rounds that follow on the same GPUs
	startUs int64 // of the job's row; jobs with later rows do not wait for the rest
	overdue bool  // whether the round should have ended before
}

func (hg *heldGPUs) before(o *heldGPUs) bool {
	return hg.key < o.key || hg.key == o.key && hg.job.serial < o.job.serial
}

// latestStart is the summary of a chunk or a block of heldGPUs.
type latestStart struct{ startUs int64 }

type heldList = orderedChunks[heldGPUs, latestStart]

func newHeldList() heldList {
	return heldList{before: (*heldGPUs).before, summarize: func(entries []heldGPUs, sum *latestStart) {
		sum.startUs = math.MinInt64
		for i := range entries {
			sum.startUs = max(sum.startUs, entries[i].startUs)
		}
	}, join: func(chunks []*chunk[heldGPUs, latestStart], sum *latestStart) {
		sum.startUs = math.MinInt64
		for _, c := range chunks {
			sum.startUs = max(sum.startUs, c.sum.startUs)
		}
	},
		add:   func(h *heldGPUs, sum *latestStart) { sum.startUs = max(sum.startUs, h.startUs) },
		tight: func(h *heldGPUs, sum *latestStart) bool { return h.startUs == sum.startUs },
	}
}

// gpuReleases are the GPUs of a type that jobs hold, by when they are expected to be free.
// For a round that is overdue, the end of the round is always the present.
type gpuReleases struct {
	rounds  heldList // by the end of the round that runs, without those that are overdue
	ends    heldList // the same by the end of the rest
	overdue heldList // by the rest
	loose   []gpuRelease
}

func newGPUReleases() *gpuReleases {
	return &gpuReleases{rounds: newHeldList(), ends: newHeldList(), overdue: newHeldList()}
}

func (hg heldGPUs) by(key int64) heldGPUs {
	hg.key = key
	return hg
}

func (gr *gpuReleases) insert(h *heldGPUs) {
	if h.overdue {
		gr.overdue.insert(h.by(h.restUs))
		return
	}
	gr.rounds.insert(h.by(h.endUs))
	gr.ends.insert(h.by(h.endUs + h.restUs))
}

func (gr *gpuReleases) remove(h *heldGPUs) {
	if h.overdue {
		key := h.by(h.restUs)
		gr.overdue.remove(&key)
		return
	}
	key := h.by(h.endUs)
	gr.rounds.remove(&key)
	key = h.by(h.endUs + h.restUs)
	gr.ends.remove(&key)
}

// fill replaces all by entries in any order.
func (gr *gpuReleases) fill(held []heldGPUs) {
	for _, x := range []struct {
		list    *heldList
		overdue bool
		key     func(*heldGPUs) int64
	}{
		{&gr.rounds, false, func(h *heldGPUs) int64 { return h.endUs }},
		{&gr.ends, false, func(h *heldGPUs) int64 { return h.endUs + h.restUs }},
		{&gr.overdue, true, func(h *heldGPUs) int64 { return h.restUs }},
	} {
		x.list.clear()
		for i := range held {
			held[i].key = x.key(&held[i])
		}
		slices.SortFunc(held, func(a, b heldGPUs) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.job.serial, b.job.serial))
		})
		for i := range held {
			if held[i].overdue == x.overdue {
				x.list.append(held[i])
			}
		}
		x.list.settle()
	}
}

// settle finds the rounds that have become overdue.
func (gr *gpuReleases) settle(nowUs int64, gpuType int) {
	for !gr.rounds.empty() {
		h := *gr.rounds.first()
		if h.endUs >= nowUs {
			return
		}
		gr.remove(&h)
		h.overdue = true
		gr.insert(&h)
		held := h.job.turns.held
		held[slices.IndexFunc(held, func(t typedHeld) bool { return t.gpuType == gpuType })].overdue = true
	}
}

// heldCursor goes through a list in its order.
type heldCursor struct {
	list *heldList
	at   chunkPlace
}

// next is the next entry that skip does not skip, or nil; skipSum skips whole chunks.
func (hc *heldCursor) next(skipSum func(*latestStart) bool, skip func(*heldGPUs) bool) (h *heldGPUs) {
	h, hc.at = hc.list.next(hc.at, skipSum, func(h *heldGPUs) bool { return !skip(h) })
	hc.at.entry++
	return h
}

// reservation finds when enough GPUs of a type are expected to be free for a row of a
// job. Jobs that the plan has before that job keep their GPUs to the end of their rows.
func (r *rolling) reservation(j *JobState, row *planner.Row, c planner.TypeCount, notBeforeUs int64) gpuReservation {
	l, gr := r.l, r.index.releases[c.Type]
	gr.settle(l.nowUs, c.Type)
	// Jobs that have started since the lists were brought up to date come with the loose ones.
	gr.loose = gr.loose[:0]
	for _, o := range r.index.touched {
		if o == j || l.jobOf[o.spec.ID] != o {
			continue
		}
		if h, ok := r.heldOf(o, c.Type); ok {
			endUs := max(h.endUs, l.nowUs)
			if h.startUs <= row.StartUs {
				endUs += h.restUs
			}
			gr.loose = append(gr.loose, gpuRelease{endUs, h.count})
		}
	}
	gr.loose = l.guardReleases(gr.loose, c.Type)
	noRest := func(h *heldGPUs) bool { return h.startUs > row.StartUs }
	known := func(h *heldGPUs) bool { return h.job != j && !slices.Contains(r.index.touched, h.job) }
	skipNone := func(*latestStart) bool { return false }
	skipSum := func(sum *latestStart) bool { return sum.startUs <= row.StartUs }
	skipRest := func(h *heldGPUs) bool { return noRest(h) || !known(h) }
	skipRound := func(h *heldGPUs) bool { return !noRest(h) || !known(h) }
	late := heldCursor{list: &gr.overdue}
	for h := late.next(skipSum, skipRound); h != nil; h = late.next(skipSum, skipRound) {
		gr.loose = append(gr.loose, gpuRelease{l.nowUs, h.count})
	}
	slices.SortFunc(gr.loose, func(a, b gpuRelease) int { return cmp.Compare(a.atUs, b.atUs) })
	ends, overdue, rounds := heldCursor{list: &gr.ends}, heldCursor{list: &gr.overdue}, heldCursor{list: &gr.rounds}
	end, over := ends.next(skipNone, skipRest), overdue.next(skipNone, skipRest)
	round, loose := rounds.next(skipSum, skipRound), gr.loose
	room, atUs := r.free[c.Type], max(notBeforeUs, l.nowUs)
	for {
		first, from := gpuRelease{atUs: math.MaxInt64}, 0
		if len(loose) > 0 {
			first, from = loose[0], 1
		}
		if end != nil && (from == 0 || end.key < first.atUs) {
			first, from = gpuRelease{end.key, end.count}, 2
		}
		if over != nil && (from == 0 || l.nowUs+over.key < first.atUs) {
			first, from = gpuRelease{l.nowUs + over.key, over.count}, 3
		}
		if round != nil && (from == 0 || round.key < first.atUs) {
			first, from = gpuRelease{round.key, round.count}, 4
		}
		if from == 0 || room >= c.Count && first.atUs > atUs {
			break
		}
		atUs = max(atUs, first.atUs)
		room += first.count
		switch from {
		case 1:
			loose = loose[1:]
		case 2:
			end = ends.next(skipNone, skipRest)
		case 3:
			over = overdue.next(skipNone, skipRest)
		case 4:
			round = rounds.next(skipSum, skipRound)
		}
	}
	if room < c.Count {
		return gpuReservation{made: true, shadowUs: math.MaxInt64}
	}
	return gpuReservation{made: true, shadowUs: atUs, extra: room - c.Count}
}

// heldOf are the GPUs of a type that a job holds; false where it holds none.
func (r *rolling) heldOf(o *JobState, gpuType int) (heldGPUs, bool) {
	l := r.l
	h := heldGPUs{job: o, count: r.held(o, gpuType), startUs: math.MinInt64}
	if h.count == 0 {
		return h, false
	}
	h.endUs = l.profiledEndUs(o)
	next := o.nextRow()
	switch {
	case o.spec.Sync == hare.Rigid:
		h.restUs = spanUs(r.belief.roundsLeft(o)-1, o.durationUs(gpuType))
	case next != nil && r.holds(o, next):
		h.restUs = spanUs(next.Round+next.Rounds-o.round-1, o.longestUs(next.Types))
		if h.restUs > 0 {
			h.startUs = next.StartUs
		}
	}
	h.overdue = h.endUs < l.nowUs
	return h, true
}
