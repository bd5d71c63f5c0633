package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/adapters/advice"
)

// Update is one value that the helper writes, or would write.
type Update struct {
	Job     int64  `json:"job"`
	SubmitS int64  `json:"submit"`
	Field   string `json:"field"` // SiteFactor, Nice, Features or Prefer
	Old     string `json:"old"`
	New     string `json:"new"`
	Reason  string `json:"reason"`
	// own is the user's value of the field, which --reset writes.
	own string
}

// entryAdvice is what the plan says of one entry of Slurm's queue, in the order of the plan.
type entryAdvice struct {
	entry  int64
	turn   int // from 1
	types  []string
	startS int64 // seconds from now; −1 where the plan does not say
}

// entriesOf makes turns of jobs turns of Slurm's entries. Tasks of an array are one entry, at the
// turn of the first one.
func entriesOf(turns []advice.Turn, s *State) (list []entryAdvice) {
	entries := make(map[string]int64, len(s.Jobs))
	for i := range s.Jobs {
		entries[s.Jobs[i].ID] = s.Jobs[i].Entry
	}
	at := map[int64]int{}
	for _, t := range turns {
		entry := entries[t.ID]
		k, known := at[entry]
		if !known {
			k = len(list)
			at[entry] = k
			list = append(list, entryAdvice{entry: entry, turn: k + 1, startS: t.StartS})
		}
		for _, gpuType := range t.Types {
			if !slices.Contains(list[k].types, gpuType) {
				list[k].types = append(list[k].types, gpuType)
			}
		}
	}
	return list
}

// differences returns what to write so that Slurm goes by the advice: only what differs from what
// stands, of entries that take part, in the order of the advice.
func (h *Helper) differences(s *State, list []entryAdvice) (updates []Update) {
	var chosen []entryAdvice
	var places []place
	for _, a := range list {
		r := s.Records[a.entry]
		if r == nil || !r.Known || !h.cfg.takesPart(r) {
			continue
		}
		if h.journal.foreign(r, h.cfg.Order) {
			h.metrics.Foreign++
			continue
		}
		p, ok := h.place(r)
		if !ok || p.offset == 0 && len(chosen) >= h.cfg.MaxUpdates {
			continue // its turn is far away: it stays behind those that have an offset
		}
		chosen, places = append(chosen, a), append(places, p)
	}
	h.metrics.Jobs = int64(len(chosen))
	if h.cfg.Order != OrderNone {
		wanted := offsets(places)
		h.metrics.OutOfOrder = int64(inversions(places, wanted))
		for i, a := range chosen {
			if wanted[i] != places[i].offset {
				updates = append(updates, h.orderUpdate(s.Records[a.entry], a, places[i].offset, wanted[i]))
			}
		}
	}
	if h.cfg.GPUType != TypeNone {
		features := typeFeatures(s.Nodes)
		for _, a := range chosen {
			if u, ok := h.typeUpdate(s.Records[a.entry], a, features, s); ok {
				updates = append(updates, u)
			}
		}
	}
	turn := map[int64]int{}
	for i, a := range chosen {
		turn[a.entry] = i
	}
	slices.SortStableFunc(updates, func(a, b Update) int { return cmp.Compare(turn[a.Job], turn[b.Job]) })
	return updates
}

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

func (a entryAdvice) reason() string {
	start := "the plan does not say when it starts"
	if a.startS >= 0 {
		start = fmt.Sprintf("the plan starts it in %d s", a.startS)
	}
	return fmt.Sprintf("turn %d in the plan; %s on %s", a.turn, start, strings.Join(a.types, " or "))
}

// typeUpdate keeps an entry to the type of the plan, or to nothing where the plan has several.
func (h *Helper) typeUpdate(r *Record, a entryAdvice, features map[string]string, s *State) (Update, bool) {
	field, stands := "Features", r.Features
	if h.cfg.GPUType == TypePrefer {
		field, stands = "Prefer", r.Prefer
	}
	own, written := h.journal.own(r, field, stands)
	if !written {
		own = stands
	}
	if h.cfg.GPUType == TypePrefer && !written && stands != "" {
		return Update{}, false // the user prefers something
	}
	users, ok := parseConstraint(own)
	if !ok {
		return Update{}, false
	}
	wanted := own
	if len(a.types) == 1 && h.severalTypes(r, s) {
		feature := features[a.types[0]]
		if feature == "" {
			return Update{}, false
		}
		if h.cfg.GPUType == TypePrefer {
			wanted = feature
		} else if narrowed, ok := users.with(feature); ok {
			wanted = narrowed
		}
	}
	if wanted == stands {
		return Update{}, false
	}
	return Update{Job: r.ID, SubmitS: r.SubmitS, Field: field, Old: stands, New: wanted, Reason: a.reason(),
		own: own}, true
}

// severalTypes says whether the user leaves the GPU type open.
func (h *Helper) severalTypes(r *Record, s *State) bool {
	for i := range s.Jobs {
		if s.Jobs[i].Entry == r.ID {
			return s.Jobs[i].Type == ""
		}
	}
	return false
}

// script writes updates as commands for scontrol's standard input, one line a job.
func script(updates []Update) []byte {
	var b []byte
	for i, u := range updates {
		if i == 0 || updates[i-1].Job != u.Job {
			if i > 0 {
				b = append(b, '\n')
			}
			b = append(b, "update JobId="+strconv.FormatInt(u.Job, 10)...)
		}
		b = append(b, " "+u.Field+"="+u.New...)
	}
	if len(b) > 0 {
		b = append(b, '\n')
	}
	return b
}
