package slurm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare/adapters/advice"
)

// entryAdvice is what the plan says of one entry of Slurm's queue, in the order of the plan.
type entryAdvice struct {
	entry  int64
	place  int // in the plan, from 1
	types  []string
	startS int64 // seconds from now; −1 where the plan does not say
	endS   int64 // seconds from now before which the job cannot end; −1 where nothing is known
	now    bool  // the plan starts it at once
}

// entriesOf makes the order of jobs an order of Slurm's entries. Tasks of an array are one entry, at the
// place of the first one.
func entriesOf(order []advice.Planned, s *State) (list []entryAdvice) {
	entries := make(map[string]int64, len(s.Jobs))
	for i := range s.Jobs {
		entries[s.Jobs[i].ID] = s.Jobs[i].Entry
	}
	at := map[int64]int{}
	for _, t := range order {
		entry := entries[t.ID]
		k, known := at[entry]
		if !known {
			k = len(list)
			at[entry] = k
			list = append(list, entryAdvice{entry: entry, place: k + 1, startS: t.StartS, endS: t.EndS, now: t.Now})
		}
		for _, gpuType := range t.Types {
			if !slices.Contains(list[k].types, gpuType) {
				list[k].types = append(list[k].types, gpuType)
			}
		}
	}
	return list
}

func (a entryAdvice) reason() string {
	start := "the plan does not say when it starts"
	if a.startS >= 0 {
		start = fmt.Sprintf("the plan starts it in %d s", a.startS)
	}
	if len(a.types) > 0 {
		start += " on " + strings.Join(a.types, " or ")
	}
	return fmt.Sprintf("place %d in the plan; %s", a.place, start)
}
