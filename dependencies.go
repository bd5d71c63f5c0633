package hare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxPredecessors limits the predecessors of one job.
const MaxPredecessors = 10_000

// checkDependencies adds the faults of a job's predecessors and deadline that can be seen
// without the other jobs.
func (es *InvalidErrors) checkDependencies(at string, j *Job) {
	if len(j.After) > MaxPredecessors {
		es.Add(at+"/after", "too_many", "a job waits for at most %d others", MaxPredecessors)
	}
	for i, p := range j.After {
		switch where := at + "/after/" + strconv.Itoa(i); {
		case p.Job == "":
			es.Add(where, "missing_field", `names no job: give an id, or {"job": "prep", "lag_s": 60}`)
		case p.Job == j.ID:
			es.Add(where, "cycle", "the job waits for itself: leave it out")
		case i > 0 && j.After[i-1].Job == p.Job:
			es.Add(where, "duplicate_id", "job %q appears twice: give it once, with the longest lag", Clip(p.Job))
		case i > 0 && j.After[i-1].Job > p.Job:
			es.Add(at+"/after", "unordered", "predecessors must be sorted by job")
		case p.LagUs < 0 || p.LagUs > MaxExact:
			es.Add(where+"/lag_s", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
		}
	}
	if j.DeadlineUs < 0 || j.DeadlineUs > MaxExact {
		es.Add(at+"/deadline_s", "out_of_range", "must be between 0.000001 and %s", FormatMicros(MaxExact))
	}
	switch {
	case j.LateWeightMicro < 0 || j.LateWeightMicro > MaxExact:
		es.Add(at+"/late_weight", "out_of_range", "must be between 0 and %s", FormatMicros(MaxExact))
	case j.LateWeightMicro > 0 && j.DeadlineUs == 0:
		es.Add(at+"/late_weight", "not_allowed", "is the cost of a second after the deadline: give deadline_s as well")
	}
}

// checkOrderOfJobs adds the faults of predecessors that are not there or wait for each other
// in a cycle. ids holds the index of each job. It takes O(jobs + predecessors).
func (es *InvalidErrors) checkOrderOfJobs(at string, inst *Instance, ids map[string]int) {
	before := len(*es)
	for i := range inst.Jobs {
		for x, p := range inst.Jobs[i].After {
			if _, ok := ids[p.Job]; !ok && p.Job != "" {
				es.Add(fmt.Sprintf("%s/jobs/%d/after/%d", at, i, x), "unknown_job",
					"there is no job %q: give the id of a job of this instance, and leave out jobs that have ended",
					Clip(p.Job))
			}
			if len(*es) >= MaxFaults {
				return
			}
		}
	}
	if len(*es) > before {
		return
	}
	if _, cycle := inst.topologicalOrder(ids); cycle != nil {
		names := make([]string, 0, len(cycle)+1)
		for _, i := range append(cycle, cycle[0]) {
			names = append(names, strconv.Quote(Clip(inst.Jobs[i].ID)))
		}
		es.Add(fmt.Sprintf("%s/jobs/%d/after", at, cycle[0]), "cycle",
			"jobs wait for each other, %s: remove one of these waits", shortList(names, " waits for "))
	}
}

// shortList joins names and leaves out the middle of a long list.
func shortList(names []string, between string) string {
	const most = 12
	if len(names) > most {
		names = slices.Concat(names[:most/2], []string{"…"}, names[len(names)-most/2:])
	}
	return strings.Join(names, between)
}

// TopologicalOrder returns the indices of the jobs, predecessors first and otherwise in the
// order of the instance, which must be valid. It takes O(jobs + predecessors).
func (inst *Instance) TopologicalOrder() []int {
	ids := make(map[string]int, len(inst.Jobs))
	for i := range inst.Jobs {
		ids[inst.Jobs[i].ID] = i
	}
	order, _ := inst.topologicalOrder(ids)
	return order
}

// topologicalOrder walks from each job to its predecessors first. A job that is met again
// before it is done closes a cycle, which is returned: each job waits for the next one.
func (inst *Instance) topologicalOrder(ids map[string]int) (order, cycle []int) {
	const fresh, open, done = 0, 1, 2
	state := make([]uint8, len(inst.Jobs))
	type visit struct{ job, next int }
	var path []visit
	for root := range inst.Jobs {
		if state[root] != fresh {
			continue
		}
		path, state[root] = append(path, visit{job: root}), open
		for len(path) > 0 {
			top := &path[len(path)-1]
			after := inst.Jobs[top.job].After
			if top.next == len(after) {
				state[top.job] = done
				order = append(order, top.job)
				path = path[:len(path)-1]
				continue
			}
			p := ids[after[top.next].Job]
			top.next++
			switch state[p] {
			case open:
				from := slices.IndexFunc(path, func(v visit) bool { return v.job == p })
				for _, v := range path[from:] {
					cycle = append(cycle, v.job)
				}
				return nil, cycle
			case fresh:
				path, state[p] = append(path, visit{job: p}), open
			}
		}
	}
	return order, nil
}
