package relax

import (
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// roomKey names what decides for how many tasks of a job there is room on a type.
type roomKey struct {
	kind                 int
	gpus, cpus, memoryMi int64
	distinct             bool
	set                  int
	others               string // the types of several together
}

func roomKeyOf(j *model.Job, kind int) roomKey {
	return roomKey{kind, j.GPUs, j.CPUMilli, j.MemoryMiB, j.Distinct, j.Set, ""}
}

// roomCache holds for how many tasks there is room, so that equal jobs share the sums over
// the kinds of nodes.
type roomCache struct {
	steps map[roomKey][]model.Step
	most  map[roomKey]int64
	// inLevels holds the room in one domain of a level, by job, level and types.
	inLevels map[string]int64
	windows  map[roomKey]*roomPieces
}

// room returns the room for tasks of job j on type k over time, and the greatest room.
func (rc *roomCache) room(m *model.Model, j *model.Job, k int) (steps []model.Step, most int64) {
	key := roomKeyOf(j, k)
	steps, ok := rc.steps[key]
	if !ok {
		if rc.steps == nil {
			rc.steps, rc.most = map[roomKey][]model.Step{}, map[roomKey]int64{}
		}
		steps = m.TaskRoom(j, k)
		rc.steps[key], rc.most[key] = steps, model.MostRoom(steps)
	}
	return steps, rc.most[key]
}

// roundMode is a mode of the rounds of a job: a type on which its tasks run, and a level of which
// one domain holds the round (docs/reference/model.md). Sync times are those of the level.
type roundMode struct {
	model.Mode
	level int
	most  int64 // how many tasks may run in the mode at once
	shape int   // the index in model.Job.Shapes, and 0 where there are none
}

// anyLevel is the level of modes where levels do not matter: all nodes are one domain.
const anyLevel = math.MaxInt16

// modes returns the modes in which a round of job j can run (docs/reference/model.md, "Modes"). Gang and
// rigid jobs run on types with room for all tasks at once in one domain, and quotas for them.
// Jobs that mix types run on all of their types or on none, whatever their quotas.
func (rc *roomCache) modes(m *model.Model, j *model.Job) (kept []roundMode) {
	if m.Levels != nil && j.Sync != hare.Relaxed {
		return rc.levelModes(m, j)
	}
	changes := map[int64]int64{}
	for _, md := range j.Modes {
		steps, n := rc.room(m, j, md.Type)
		if !j.Mix {
			n = min(n, quotaOf(m, j, md.Type)/j.GPUs)
		}
		if n > 0 && (j.Sync == hare.Relaxed || j.Mix || n >= j.Tasks) {
			kept = append(kept, roundMode{Mode: md, level: anyLevel, most: n})
		}
		if j.Mix {
			addChanges(changes, steps)
		}
	}
	if j.Mix && model.MostRoom(stepsOf(changes)) < j.Tasks {
		return nil
	}
	return kept
}

// levelModes is modes for a gang or rigid job where levels matter.
func (rc *roomCache) levelModes(m *model.Model, j *model.Job) (kept []roundMode) {
	types := make([]int, 0, len(j.Modes))
	for _, md := range j.Modes {
		types = append(types, md.Type)
	}
	together := map[int]int64{} // the room on all types, by level
	for x, md := range j.Modes {
		if !j.Mix && quotaOf(m, j, md.Type) < j.Tasks*j.GPUs {
			continue
		}
		for _, level := range j.LevelModes(md) {
			at := roundMode{Mode: md, level: level, most: rc.levelRoom(m, j, types[x:x+1], level)}
			if md.SyncByLevel != nil {
				at.SyncUs = md.SyncByLevel[level]
			}
			if !j.Mix {
				if at.most >= j.Tasks {
					kept = append(kept, at)
				}
				continue
			}
			all, ok := together[level]
			if !ok {
				all = rc.levelRoom(m, j, types, level)
				together[level] = all
			}
			if at.most > 0 && all >= j.Tasks {
				kept = append(kept, at)
			}
		}
	}
	return kept
}

// levelRoom returns how many tasks of job j find room at once in one domain of a level on some
// types together.
func (rc *roomCache) levelRoom(m *model.Model, j *model.Job, types []int, level int) int64 {
	key := fmt.Sprint(roomKeyOf(j, level), types)
	most, ok := rc.inLevels[key]
	if !ok {
		if rc.inLevels == nil {
			rc.inLevels = map[string]int64{}
		}
		most = m.LevelRoom(j, types, level)
		rc.inLevels[key] = most
	}
	return most
}

// quotaOf returns the least quota that counts job j on type k, in GPUs.
func quotaOf(m *model.Model, j *model.Job, k int) int64 {
	least := int64(math.MaxInt64)
	for _, q := range j.Quotas {
		if m.Quotas[q].Types[k] {
			least = min(least, m.Quotas[q].GPUs)
		}
	}
	return least
}

// addChanges adds the changes of steps to those by time.
func addChanges(changes map[int64]int64, steps []model.Step) {
	level := int64(0)
	for _, s := range steps {
		changes[s.FromUs] += s.Count - level
		level = s.Count
	}
}

// stepsOf sums changes by time up to steps.
func stepsOf(changes map[int64]int64) []model.Step {
	times := make([]int64, 0, len(changes))
	for t := range changes {
		times = append(times, t)
	}
	slices.Sort(times)
	var steps []model.Step
	level := int64(0)
	for _, t := range times {
		level += changes[t]
		steps = append(steps, model.Step{FromUs: t, Count: level})
	}
	return steps
}

// whyNoRoom says why job i can never run a round, where nodes matter.
func whyNoRoom(m *model.Model, i int) string {
	j, spec := &m.Jobs[i], &m.Instance.Jobs[i]
	if j.Shapes != nil {
		first := j.InShape(0)
		j = &first // one reason is enough
	}
	task := fmt.Sprintf("%d GPUs", j.GPUs)
	if j.CPUMilli > 0 {
		task += ", " + hare.FormatMillis(j.CPUMilli) + " CPUs"
	}
	if j.MemoryMiB > 0 {
		task += fmt.Sprintf(", %d MiB of memory", j.MemoryMiB)
	}
	allowed := len(m.Nodes)
	if j.Set >= 0 {
		allowed = 0
		for _, in := range m.Sets[j.Set].Nodes {
			if in {
				allowed++
			}
		}
	}
	switch {
	case allowed == 0:
		return fmt.Sprintf("job %q: no node matches \"only\" and \"exclude\"", spec.ID)
	case len(j.Modes) == 0:
		return fmt.Sprintf("job %q: none of the %d nodes that the job may use ever has room for one task (%s of one "+
			"type of \"on\")", spec.ID, allowed, task)
	}
	var rooms roomCache
	most, within := int64(0), ""
	if m.Levels != nil && j.Within < m.Levels.Any() {
		within = fmt.Sprintf(" in one domain of level %q", m.Levels.Names[j.Within])
	}
	for _, md := range j.Modes {
		_, n := rooms.room(m, j, md.Type)
		if within != "" {
			n = rooms.levelRoom(m, j, []int{md.Type}, j.Within)
		}
		if quota := quotaOf(m, j, md.Type); !j.Mix && n > quota/j.GPUs && quota/j.GPUs < needed(j) {
			return fmt.Sprintf("job %q: a round needs %d GPUs of its quota at once, which is %d", spec.ID,
				needed(j)*j.GPUs, quota)
		}
		if j.Mix {
			most += n
		} else {
			most = max(most, n)
		}
	}
	where := "on one type"
	if j.Mix {
		where = "on all types together"
	}
	distinct := ""
	if j.Distinct {
		distinct = " on distinct nodes"
	}
	return fmt.Sprintf("job %q: a round has %d tasks of %s, and there is room for at most %d at once%s%s %s", spec.ID,
		j.Tasks, task, min(most, j.Tasks-1), distinct, within, where)
}

// needed returns how many tasks of a job must run at once.
func needed(j *model.Job) int64 {
	if j.Sync == hare.Relaxed {
		return 1
	}
	return j.Tasks
}

// roomPiece says that so many more tasks find room on a node from one time until another. The
// pieces of a node lie inside each other or apart, so that those which contain a period add up to
// the least room over the period.
type roomPiece struct {
	from, until, tasks int64
}

// roomPieces is the room for tasks over time on all nodes together.
type roomPieces struct {
	byStart []roomPiece
	byEnd   []roomPiece // those that end
	atLeast []int64     // by piece of byStart: the tasks up to there, where no piece ends
}
