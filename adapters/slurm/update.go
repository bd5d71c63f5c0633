package slurm

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
)

// differences returns what to write so that Slurm follows the advice: only what differs from what
// stands, of entries that take part, in the order of the advice. The types of entries that were freed stay.
func (h *Helper) differences(s *State, told *advice.State, list []entryAdvice, freed []Update) (updates []Update) {
	h.counted.Jobs, h.counted.Withheld = 0, 0
	head, keeps := h.headOf(s)
	var chosen, behindHead []entryAdvice
	var places []place
	floor := place{base: math.MinInt64} // above which the head must be
	for _, a := range list {
		r := s.Records[a.entry]
		if r == nil || !r.Known || !h.cfg.takesPart(r) {
			continue
		}
		if h.journal.foreign(r, h.cfg.Order) {
			h.counted.Foreign++
			continue
		}
		p, ok := h.place(r)
		if !ok {
			continue
		}
		h.counted.Jobs++
		if h.cfg.Order == OrderSite || h.cfg.Order == OrderNice {
			behind := len(chosen) >= head && p.offset == 0 || len(chosen) >= keeps
			if behind && p.offset != 0 { // it is far behind by now
				updates = append(updates, h.orderUpdate(r, a, p.offset, 0))
			}
			if behind {
				floor.base = max(floor.base, p.base)
				behindHead = append(behindHead, a)
				continue
			}
		} else if len(chosen) >= h.cfg.MaxUpdates && p.offset == 0 {
			continue // it is far behind: it stays behind those that have an offset
		}
		chosen, places = append(chosen, a), append(places, p)
	}
	if h.cfg.Order != OrderNone {
		if floor.base != math.MinInt64 {
			places = append(places, floor)
		}
		wanted := offsets(places)
		h.counted.OutOfOrder = int64(inversions(places, wanted))
		for i, a := range chosen {
			if wanted[i] != places[i].offset {
				updates = append(updates, h.orderUpdate(s.Records[a.entry], a, places[i].offset, wanted[i]))
			}
		}
	}
	if h.cfg.GPUType != TypeNone {
		features := typeFeatures(s.Nodes)
		jobs := s.waitingJobs()
		keepTypes(chosen, h.given(s, chosen, features), specsOf(s, told))
		for i := range behindHead { // they get their users' constraints back
			behindHead[i].types = nil
		}
		for _, a := range slices.Concat(chosen, behindHead) {
			if slices.ContainsFunc(freed, func(u Update) bool { return u.Job == a.entry }) {
				continue
			}
			if u, ok := h.typeUpdate(s, s.Records[a.entry], jobs[a.entry], a, features); ok {
				updates = append(updates, u)
			}
		}
	}
	at := make(map[int64]int, len(list))
	for i, a := range list {
		at[a.entry] = i
	}
	slices.SortStableFunc(updates, func(a, b Update) int { return cmp.Compare(at[a.Job], at[b.Job]) })
	return append(updates, h.predictions(s, chosen, behindHead)...)
}

// headOf returns how many entries at the head of the plan are ordered, and after how many entries one
// that has been ordered goes back to its own priority. Entries behind them follow as Slurm has them, so
// that a long queue takes few writes. The head has room for several jobs on each GPU between two loops.
func (h *Helper) headOf(s *State) (head, keeps int) {
	gpus := 0
	for i := range s.Nodes {
		for _, g := range s.Nodes[i].GPUs {
			gpus += g.Count
		}
	}
	head = min(max(headLeast, headPerGPU*gpus), h.cfg.MaxUpdates)
	return head, 2 * head
}

// These say how long the head of a plan is.
const (
	headLeast  = 100
	headPerGPU = 4
)

// place is an entry's priority in parts, with the limits of what may be added.
func (h *Helper) place(r *Record) (place, bool) {
	switch h.cfg.Order {
	case OrderSite:
		return place{base: r.Priority - r.Site, offset: r.Site, high: h.cfg.Range}, true
	case OrderNice, OrderNiceUser:
		own := h.ownNice(r)
		offset := own - r.Nice
		p := place{base: r.Priority - offset, offset: offset, high: h.cfg.Range}
		if h.cfg.Order == OrderNiceUser {
			// A priority of 0 would hold the job.
			p.low, p.high = max(-h.cfg.Range, min(0, 1-p.base)), 0
		}
		return p, true
	}
	return place{}, true
}

// ownNice is the nice value that the user gave.
func (h *Helper) ownNice(r *Record) int64 {
	if own, ok := h.journal.own(r, "Nice", strconv.FormatInt(r.Nice, 10)); ok {
		if v, err := strconv.ParseInt(own, 10, 64); err == nil {
			return v
		}
	}
	return r.Nice
}

func (h *Helper) orderUpdate(r *Record, a entryAdvice, was, wanted int64) Update {
	u := Update{Job: r.ID, SubmitS: r.SubmitS, Field: "SiteFactor", Old: strconv.FormatInt(was, 10),
		New: strconv.FormatInt(wanted, 10), Reason: a.reason(), own: "0"}
	if h.cfg.Order != OrderSite {
		own := h.ownNice(r)
		u.Field, u.own = "Nice", strconv.FormatInt(own, 10)
		u.Old, u.New = strconv.FormatInt(own-was, 10), strconv.FormatInt(own-wanted, 10)
	}
	return u
}

// typeField is the field by which entries get types, and what is in it.
func (h *Helper) typeField(r *Record) (field, stands string) {
	if h.cfg.GPUType == TypePrefer {
		return "Prefer", r.Prefer
	}
	return "Features", r.Features
}

// users is the constraint that an entry's user gave; false where the helper does not understand it. Slurm takes a
// preference in place of the constraint, so that a preference must contain it too.
func (h *Helper) users(r *Record) (constraint, bool) {
	own, written := h.journal.own(r, "Features", r.Features)
	if !written {
		own = r.Features
	}
	return parseConstraint(own)
}

// given finds the types that the helper has given to entries.
func (h *Helper) given(s *State, list []entryAdvice, features map[string]string) map[int64]string {
	out := map[int64]string{}
	for _, a := range list {
		field, stands := h.typeField(s.Records[a.entry])
		own, written := h.journal.own(s.Records[a.entry], field, stands)
		users, ok := h.users(s.Records[a.entry])
		if !written || !ok || own == stands {
			continue
		}
		for _, t := range s.typesOf() {
			if narrowed, ok := users.with(features[t]); ok && features[t] != "" && narrowed == stands {
				out[a.entry] = t
			}
		}
	}
	return out
}

// specsOf finds what the session knows of the entries that are one job each.
func specsOf(s *State, told *advice.State) map[int64]*hare.Job {
	entries, out := map[string]int64{}, map[int64]*hare.Job{}
	for i := range s.Jobs {
		entries[s.Jobs[i].ID] = s.Jobs[i].Entry
	}
	several := map[int64]bool{}
	for i := range told.Jobs {
		if j := &told.Jobs[i]; j.State == advice.Waiting && j.Spec != nil {
			entry := entries[j.Spec.ID]
			several[entry] = out[entry] != nil
			out[entry] = j.Spec
		}
	}
	maps.DeleteFunc(out, func(entry int64, _ *hare.Job) bool { return several[entry] })
	return out
}

// typeUpdate keeps an entry to the type of the plan, or to nothing where the plan has several, where its user names
// the type, where a constraint kept it from starting a while ago, or where no node satisfies its request and
// the constraint together.
func (h *Helper) typeUpdate(s *State, r *Record, j *Job, a entryAdvice, features map[string]string) (Update, bool) {
	field, stands := h.typeField(r)
	own, written := h.journal.own(r, field, stands)
	if !written {
		own = stands
	}
	if h.cfg.GPUType == TypePrefer && !written && stands != "" {
		return Update{}, false // the user prefers something
	}
	users, ok := h.users(r)
	if !ok {
		return Update{}, false
	}
	wanted := own
	if len(a.types) == 1 && j != nil && !typed(&j.Job) && features[a.types[0]] != "" &&
		!h.journal.barred(r, field, h.now()) {
		narrowed, ok := users.with(features[a.types[0]])
		switch {
		case ok && s.canStart(r, j, narrowed):
			wanted = narrowed
		case ok:
			h.counted.Withheld++
		}
	}
	if wanted == stands {
		return Update{}, false
	}
	return Update{Job: r.ID, SubmitS: r.SubmitS, Field: field, Old: stands, New: wanted, Reason: a.reason(),
		own: own}, true
}
