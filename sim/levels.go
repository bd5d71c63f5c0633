package sim

import (
	"fmt"

	"github.com/hare-sched/hare/model"
)

// Where a job keeps within a level or its times go by the spread of a round (docs/reference/model.md), a round
// begins once all of its tasks have their GPUs.

// spreadOf is the finest level of which one domain has all of some GPUs.
func (e *engine) spreadOf(gpus []int32) (spread int) {
	for _, g := range gpus {
		spread = e.model.Levels.Join(spread, e.model.GPUs[gpus[0]].Node, e.model.GPUs[g].Node)
	}
	return spread
}

// setSpread gives the tasks of a round that was launched the times of its spread, or says why the round
// may not be spread as it is.
func (e *engine) setSpread(ji int32) (reason string) {
	j, m := &e.jobs[ji], &e.model.Jobs[ji]
	spread := e.spreadOf(j.held)
	if spread > m.Within {
		return fmt.Sprintf("the tasks of a round of the job are within one %s", e.model.Levels.Names[m.Within])
	}
	for _, s := range j.tasks {
		if s > 0 {
			t := &e.slots[s-1]
			t.syncUs = syncUs(e.mode(ji, t.gpu), spread)
		}
	}
	return ""
}

// syncUs is the time of synchronisation in a mode of a round that is spread over a level.
func syncUs(md *model.Mode, spread int) int64 {
	if md.SyncByLevel == nil {
		return md.SyncUs
	}
	return md.SyncByLevel[spread]
}

// beginSpread begins a round that was launched, in a run without variation.
func (e *engine) beginSpread(ji int32) {
	for _, s := range e.jobs[ji].tasks {
		e.begin(s-1, e.nowUs, 0)
	}
}

// fastestRounds finds the least times of rounds whose times go by the spread.
type fastestRounds struct {
	model *model.Model
	room  map[string]int64 // by what a task needs, type and level
}

// us is the least time of a round of a job in a mode: at the finest level of which one domain has room
// for all tasks.
func (fr *fastestRounds) us(job int, md *model.Mode) int64 {
	j := &fr.model.Jobs[job]
	if md.SyncByLevel == nil || j.Mix {
		return md.ComputeUs + syncUs(md, 0)
	}
	for _, level := range j.LevelModes(*md) {
		key := fmt.Sprint(j.GPUs, j.CPUMilli, j.MemoryMiB, j.Distinct, j.Set, md.Type, level)
		room, known := fr.room[key]
		if !known {
			if fr.room == nil {
				fr.room = map[string]int64{}
			}
			room = fr.model.LevelRoom(j, []int{md.Type}, level)
			fr.room[key] = room
		}
		if room >= j.Tasks {
			return md.ComputeUs + md.SyncByLevel[level]
		}
	}
	return md.DurationUs()
}
