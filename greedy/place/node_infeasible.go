package place

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// infeasibleOnNodes lists the jobs that can never run where nodes matter, each with the proof
// in words and the field to change. No job starts before its head. It takes O(jobs · nodes).
func infeasibleOnNodes(m *model.Model, heads []int64) []hare.Reason {
	var out []hare.Reason
	nb := NewBoard(m, room.NewLayout(m))
	nb.heads, nb.lastRooms = heads, room.LastRooms{}
	for i := range m.Jobs {
		if room.IsFixed(&m.Jobs[i]) {
			continue
		}
		if field, code, detail := nb.infeasibility(i); code != "" {
			r := reason(m, i, code, detail)
			r.Pointer += field
			out = append(out, r)
		}
	}
	return out
}

// infeasibility says why job i can never run. The code is "" if nothing is proved. field is
// the path of the member to change within the job, or "".
func (nb *Board) infeasibility(i int) (field, code, detail string) {
	m, j := nb.Model, &nb.Model.Jobs[i]
	if len(j.Modes) == 0 {
		return nb.noRoom(i)
	}
	if code, detail = quotaInfeasibility(m, i); code != "" {
		return "", code, detail
	}
	for x := range j.Modes {
		if nb.lastRooms.Fits(nb.layout, &nb.jobs[i], int16(j.Modes[x].Type)) {
			return "", "", ""
		}
	}
	has := nb.roomFor(i)
	unit := unitOf(j.Sync)
	switch {
	case !has.task:
		if j.Set >= 0 && len(m.Sets[j.Set].Closed) > 0 {
			return "", "window_too_short", "between reservations for others, every window of service of a node that may " +
				"serve is shorter than one " + unit + ": lengthen a window, shorten a reservation or the rounds, or name " +
				"the job in the reservation"
		}
		return "", "window_too_short", "every window of service of a node that may serve is shorter than one " + unit +
			": lengthen a window or shorten the rounds"
	case j.Sync == hare.Relaxed || has.together:
		return "", "", ""
	case has.atOnce < j.Tasks:
		if m.Levels != nil && j.Within < m.Levels.Any() {
			return "/tasks", "too_wide", fmt.Sprintf("%d tasks of %d GPUs are needed together in one domain of the level "+
				"%q, and those of the nodes that the job may use have room for at most %d at once: lower \"tasks\", name a "+
				"coarser level in \"within\", or add nodes", j.Tasks, j.GPUs, m.Levels.Names[j.Within], has.atOnce)
		}
		return "/tasks", "too_wide", fmt.Sprintf("%d tasks of %d GPUs are needed together, and the nodes that the job "+
			"may use have room for at most %d at once: lower \"tasks\", add nodes, or use sync relaxed", j.Tasks, j.GPUs,
			has.atOnce)
	case !j.Mix:
		return "/tasks", "never_together", fmt.Sprintf("%d tasks of %d GPUs are needed together, but the nodes that the "+
			"job may use are never in service together for one %s: widen windows, lower \"tasks\", or use sync relaxed",
			j.Tasks, j.GPUs, unit)
	}
	return "", "", ""
}

// jobRoom is what the nodes have for a job at some time.
type jobRoom struct {
	task     bool  // whether a task has room, for as long as it holds its GPUs
	together bool  // whether all tasks of a gang or rigid job have, on one type
	atOnce   int64 // how many tasks have room at once for a moment: on one type, or on all of a job that mixes them
}

// roomFor finds what the nodes have for job i from its head on.
func (nb *Board) roomFor(i int) (found jobRoom) {
	m, j, job := nb.Model, &nb.Model.Jobs[i], &nb.jobs[i]
	task := *job
	task.Tasks, task.Width, task.Levels = 1, task.GPUs, nil
	within := func(types ...int) int64 { return m.LevelRoom(j, types, j.Within) }
	var sum int64
	var types []int
	for _, md := range j.Modes {
		hold, empty := holdOf(j, md), nb.layout.Empty[nb.layout.Column[md.Type]]
		fits := func(aj *room.Job) bool {
			return nb.finder.Nodes.Earliest(aj, int16(md.Type), empty, nb.heads[i], hold, 0) != room.Never
		}
		found.task = fits(&task) || found.task
		atOnce := int64(0)
		switch {
		case job.Levels != nil:
			atOnce = within(md.Type)
			found.together = nb.fitsByLevel(i, int16(md.Type), empty) || found.together
		default:
			atOnce = model.MostRoom(m.TaskRoom(j, md.Type))
			found.together = j.Sync != hare.Relaxed && fits(job) || found.together
		}
		found.atOnce, sum, types = max(found.atOnce, atOnce), sum+atOnce, append(types, md.Type)
	}
	switch {
	case j.Mix && job.Levels != nil:
		found.atOnce = within(types...)
	case j.Mix:
		found.atOnce = sum
	}
	return found
}

// holdOf is how long a task of a job holds its GPUs at least: a rigid job keeps them for all rounds.
func holdOf(j *model.Job, md model.Mode) int64 {
	switch j.Sync {
	case hare.Gang:
		return room.LeastRoundUs(md)
	case hare.Rigid:
		return room.LeastRoundUs(md) * j.Rounds
	}
	return md.ComputeUs
}

// fitsByLevel reports whether the tasks of job i, whose times go by their spread, have room together on a type.
func (nb *Board) fitsByLevel(i int, kind int16, empty room.Capacity) bool {
	job, rounds := nb.jobs[i], int64(1)
	if nb.Model.Jobs[i].Sync == hare.Rigid {
		rounds = nb.Model.Jobs[i].Rounds
	}
	if nb.Model.Jobs[i].RunsUntilUs > 0 {
		job.Setups = nil // they may begin while the job runs, and its own GPUs need none
	}
	start, _ := nb.finder.EarliestByLevel(&job, kind, empty, nb.heads[i], rounds)
	return start != room.Never
}

// quotaInfeasibility reports whether a quota is too small for a task of job i, or for its gang. The
// code is "" if nothing is proved.
func quotaInfeasibility(m *model.Model, i int) (code, detail string) {
	j := &m.Jobs[i]
	if len(j.Quotas) == 0 {
		return "", ""
	}
	need, what := j.GPUs, "a task"
	if j.Sync != hare.Relaxed && !j.Mix {
		need, what = j.Tasks*j.GPUs, "a "+unitName(j.Sync)
	}
	least := int32(-1)
	for x := range j.Modes {
		small := int32(-1)
		for _, q := range j.Quotas {
			if m.Quotas[q].Types[j.Modes[x].Type] && m.Quotas[q].GPUs < need {
				small = q
				break
			}
		}
		if small < 0 {
			least = -1
			break
		}
		least = small
	}
	if least < 0 && j.Mix {
		need, what = j.Tasks*j.GPUs, "a round"
		for _, q := range j.Quotas {
			counts := func(md model.Mode) bool { return m.Quotas[q].Types[md.Type] }
			if m.Quotas[q].GPUs < need && !slices.ContainsFunc(j.Modes, func(md model.Mode) bool { return !counts(md) }) {
				least = q
			}
		}
	}
	if least < 0 {
		return "", ""
	}
	spec := &m.Instance.Quota[least]
	return "quota_too_small",
		fmt.Sprintf("%s holds %d GPUs at once, and /quota/%d lets the jobs of %q hold at most %d "+
			"together: raise \"gpus\" of the quota, or make the job narrower", what, need, least, hare.Clip(spec.User),
			spec.GPUs)
}

// unitName is what of a job must run at once.
func unitName(s hare.Sync) string {
	if s == hare.Gang {
		return "round"
	}
	return "rigid job"
}

// noRoom says why not even one task of job i finds room on an empty node.
func (nb *Board) noRoom(i int) (field, code, detail string) {
	m, j, spec := nb.Model, &nb.Model.Jobs[i], &nb.Model.Instance.Jobs[i]
	if j.Set >= 0 && !slices.Contains(m.Sets[j.Set].Nodes, true) {
		field = "/only"
		if len(spec.Only) == 0 {
			field = "/exclude"
		}
		return field, "not_allowed", "no node of the cluster is allowed by \"only\" and \"exclude\" of the job: " +
			"correct the labels, or label a node so"
	}
	var served, roomy bool // whether a type of the job is on an allowed node, and with enough GPUs
	var widest, cpus, memory int64
	for n := range m.Nodes {
		kind := &m.Kinds[m.Nodes[n].Kind]
		if !kind.Allows(j) {
			continue
		}
		for _, t := range kind.GPUs {
			if !slices.ContainsFunc(spec.On, func(p hare.Profile) bool { return p.Type == m.Types[t.Type] }) {
				continue
			}
			most := model.MostRoom(t.Steps)
			served = served || most > 0
			widest = max(widest, most)
			if most < j.GPUs {
				continue
			}
			roomy = true
			cpus, memory = max(cpus, limitOf(kind.CPUMilli)), max(memory, limitOf(kind.MemoryMiB))
		}
	}
	switch {
	case !served && j.Set >= 0:
		return "", "no_gpu", "no node that \"only\" and \"exclude\" allow has a GPU in service for which the job has a " +
			"profile: add a type to \"on\", or allow other nodes"
	case !served:
		return "", "no_gpu", "no GPU that is ever in service has a profile of this job: add a type to \"on\" or a node " +
			"to the cluster"
	case !roomy:
		return "/gpus_per_task", "task_too_wide",
			fmt.Sprintf("a task needs %d GPUs of one type on one node, and no node "+
				"that the job may use ever has more than %d in service: split the task into several, or add a wider node",
				j.GPUs, widest)
	case cpus < j.CPUMilli:
		return "/cpus_per_task", "too_many_cpus", fmt.Sprintf("a task needs %s CPUs on its node, and no node that has "+
			"GPUs enough and that the job may use has more than %s: lower \"cpus_per_task\", or add a node",
			hare.FormatMillis(j.CPUMilli), hare.FormatMillis(cpus))
	case memory < j.MemoryMiB:
		return "/memory_mib_per_task", "too_much_memory",
			fmt.Sprintf("a task needs %d MiB of memory on its node, and no "+
				"node that has GPUs enough and that the job may use has more than %d: lower \"memory_mib_per_task\", or add "+
				"a node", j.MemoryMiB, memory)
	}
	if j.Set >= 0 && len(m.Sets[j.Set].Closed) > 0 {
		return "", "reserved", "reservations keep the job off every node with room for a task whenever the node is in " +
			"service: name the job or its user in a reservation, or shorten one"
	}
	return "", "no_node",
		"no single node that the job may use has GPUs, CPUs and memory enough for a task: lower what " +
			"a task needs, or add a node"
}

// limitOf is a limit as a number, where 0 means no limit.
func limitOf(limit int64) int64 {
	if limit == 0 {
		return hare.MaxPerTask
	}
	return limit
}
