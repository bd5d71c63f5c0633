package sim

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// Where a job keeps within a level or its times go by the spread of a round (docs/reference/model.md), a round
// begins once all of its tasks have their GPUs.

// hasLevels reports whether the rounds of a job keep within a level, or take times by their spread.
func (e *engine) hasLevels(ji int32) bool {
	if e.model.Levels == nil {
		return false
	}
	if e.inst.Jobs[ji].Within != "" {
		return true
	}
	for i := range e.model.Jobs[ji].Modes {
		if e.model.Jobs[ji].Modes[i].SyncByLevel != nil {
			return true
		}
	}
	return false
}

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

// roundSpreads finds, for the merged rounds of jobs whose times go by the spread, the longest time of a
// task, for which all tasks of the round wait.
func (mg *Merged) roundSpreads(s *hare.Schedule, kinds map[string]string,
	slow map[jobRound]int64) map[jobRound]int64 {
	var compiled *model.Model
	var nodeOf map[string]int
	type spreadRound struct {
		first, spread int
		gpus          []string
	}
	rounds := map[jobRound]*spreadRound{}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		for x := range l.Job {
			e := l.Entry(x)
			j := &mg.orig.Jobs[e.Job]
			if mg.runs[e.Job] == 1 || !spreads(j) {
				continue
			}
			if compiled == nil {
				compiled, nodeOf = model.New(mg.orig), map[string]int{}
				for _, g := range compiled.GPUs {
					nodeOf[g.ID] = g.Node
				}
			}
			n := nodeOf[l.GPU]
			for r := range e.Rounds {
				at := jobRound{e.Job, e.Round + r}
				x := rounds[at]
				if x == nil {
					x = &spreadRound{first: n}
					rounds[at] = x
				}
				x.spread = compiled.Levels.Join(x.spread, x.first, n)
				x.gpus = append(x.gpus, l.GPU)
			}
		}
	}
	for at, x := range rounds {
		if slow == nil {
			slow = map[jobRound]int64{}
		}
		slow[at] = 0
		for _, gpu := range x.gpus {
			slow[at] = max(slow[at], durationOf(&mg.orig.Jobs[at.job], kinds[gpu], compiled.Levels, x.spread))
		}
	}
	return slow
}

// spreads reports whether some time of a job goes by the spread of a round.
func spreads(j *hare.Job) bool {
	for i := range j.On {
		if j.On[i].SyncAt != nil {
			return true
		}
	}
	return false
}

// durationOf is the time of a round of a job on a type that is spread over a level.
func durationOf(j *hare.Job, kind string, lv *hare.Levels, spread int) int64 {
	for i := range j.On {
		if p := &j.On[i]; p.Type == kind {
			return p.ComputeUs + lv.SyncUs(p, spread)
		}
	}
	return 0
}
