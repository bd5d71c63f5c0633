package rolling

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare/online/list"
)

// heldGPUs are the GPUs of one type that a job holds, and when they are expected to be free:
// at the end of the round that runs or, for jobs whose turn is at startUs or after it, restUs
// later. It is an entry of three lists by different keys.
type heldGPUs struct {
	key     int64
	job     *list.JobState
	count   int64
	endUs   int64 // of the round that runs, by the job's profile
	restUs  int64 // the rounds that follow on the same GPUs
	startUs int64 // of the job's row; jobs with later rows do not wait for the rest
	overdue bool  // whether the round should have ended before
}

func (hg *heldGPUs) before(o *heldGPUs) bool {
	return hg.key < o.key || hg.key == o.key && hg.job.Number() < o.job.Number()
}

// heldSum is the summary of a chunk or a block of heldGPUs.
type heldSum struct {
	count        int64
	fromUs, toUs int64 // the earliest and the latest startUs
}

// noneHeld is the summary of no entry.
func noneHeld() heldSum { return heldSum{fromUs: math.MaxInt64, toUs: math.MinInt64} }

func (hs *heldSum) add(o heldSum) {
	hs.count += o.count
	hs.fromUs, hs.toUs = min(hs.fromUs, o.fromUs), max(hs.toUs, o.toUs)
}

func (hg *heldGPUs) sum() heldSum { return heldSum{hg.count, hg.startUs, hg.startUs} }

type heldList = orderedChunks[heldGPUs, heldSum]

func newHeldList() heldList {
	return heldList{
		before: (*heldGPUs).before,
		summarize: func(entries []heldGPUs, sum *heldSum) {
			*sum = noneHeld()
			for i := range entries {
				sum.add(entries[i].sum())
			}
		},
		join: func(chunks []*chunk[heldGPUs, heldSum], sum *heldSum) {
			*sum = noneHeld()
			for _, c := range chunks {
				sum.add(c.sum)
			}
		},
		add:   func(h *heldGPUs, sum *heldSum) { sum.add(h.sum()) },
		tight: func(*heldGPUs, *heldSum) bool { return true },
	}
}

// gpuReleases are the GPUs of a type that jobs hold, by when they are expected to be free.
// For a round that is overdue, the end of the round is always the present.
type gpuReleases struct {
	rounds  heldList // by the end of the round that runs, without those that are overdue
	ends    heldList // the same by the end of the rest
	overdue heldList // by the rest
	loose   []list.GPURelease
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
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.job.Number(), b.job.Number()))
		})
		for i := range held {
			if held[i].overdue == x.overdue {
				x.list.append(held[i])
			}
		}
		x.list.settle()
	}
}

// heldCursor goes through those entries of a list that are of GPUs which a row waits for to the
// end of the rest, or with rest false through the others, in the list's order.
type heldCursor struct {
	list       *heldList
	rest       bool
	rowStartUs int64
	at         chunkPlace
}

func (hc *heldCursor) has(h *heldGPUs) bool { return hc.rest == (h.startUs <= hc.rowStartUs) }

// hasNone and hasAll report whether the cursor passes all entries of a summary, or none of them.
func (hc *heldCursor) hasNone(sum *heldSum) bool {
	if hc.rest {
		return sum.fromUs > hc.rowStartUs
	}
	return sum.toUs <= hc.rowStartUs
}

func (hc *heldCursor) hasAll(sum *heldSum) bool {
	if hc.rest {
		return sum.toUs <= hc.rowStartUs
	}
	return sum.fromUs > hc.rowStartUs
}

// countTo counts GPUs up to a key, and goes behind them.
func (hc *heldCursor) countTo(key int64) (count int64) {
	p := &hc.at
	for ; p.block < len(hc.list.blocks); *p = (chunkPlace{block: p.block + 1}) {
		b := hc.list.blocks[p.block]
		if b.last().key <= key && (hc.hasNone(&b.sum) || hc.hasAll(&b.sum)) {
			if hc.hasAll(&b.sum) {
				count += b.sum.count
			}
			continue
		}
		for ; p.chunk < len(b.chunks); p.chunk, p.entry = p.chunk+1, 0 {
			c := b.chunks[p.chunk]
			if c.entries[len(c.entries)-1].key <= key && (hc.hasNone(&c.sum) || hc.hasAll(&c.sum)) {
				if hc.hasAll(&c.sum) {
					count += c.sum.count
				}
				continue
			}
			for ; p.entry < len(c.entries); p.entry++ {
				h := &c.entries[p.entry]
				if h.key > key {
					return count
				}
				if hc.has(h) {
					count += h.count
				}
			}
		}
	}
	return count
}

// next is the next entry that skip does not skip, or nil.
func (hc *heldCursor) next(skip func(*heldGPUs) bool) (h *heldGPUs) {
	h, hc.at = hc.list.next(hc.at, hc.hasNone, func(h *heldGPUs) bool { return hc.has(h) && !skip(h) })
	hc.at.entry++
	return h
}
