package place

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// MaxTasksByRound is the number of tasks of relaxed jobs up to which every round is
// placed by itself. A task is at most one block, one step of a profile and one entry of
// a lane: about 150 bytes and 2 µs, so the limit is some 700 MB and 10 s.
const MaxTasksByRound = 5_000_000

// bigShare says how many tasks smaller jobs may keep if the limit is passed: the limit
// over bigShare. Runs leave gaps that single rounds fill, so small jobs need not wait
// for runs.
const bigShare = 50

// BigJobs marks the relaxed jobs whose rounds are placed as runs. Up to limit tasks
// there are none; beyond, the largest jobs are marked until the others have at most a
// fiftieth of limit. Jobs of equal size are treated alike. It takes O(n log n).
func BigJobs(m *model.Model, limit int64) []bool {
	big := make([]bool, len(m.Jobs))
	var order []int
	total := int64(0)
	for i := range m.Jobs {
		if m.Jobs[i].Sync == hare.Relaxed {
			order = append(order, i)
			total += TasksOf(&m.Jobs[i])
		}
	}
	if total <= limit {
		return big
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(TasksOf(&m.Jobs[b]), TasksOf(&m.Jobs[a])) })
	last := int64(-1)
	for _, i := range order {
		n := TasksOf(&m.Jobs[i])
		if total <= limit/bigShare && n != last {
			break
		}
		big[i], last = true, n
		total -= n
	}
	return big
}

// TasksOf returns the number of a job's tasks, which is below 2^53 in a valid instance.
func TasksOf(j *model.Job) int64 { return j.Rounds * j.Tasks }

// Entries estimates how many entries the lanes of a schedule of m will have: the tasks
// of relaxed jobs that are placed one by one, and one entry for each GPU of other jobs,
// as if each job stayed on its GPUs.
func Entries(m *model.Model) int64 {
	big := BigJobs(m, MaxTasksByRound)
	if m.Placed {
		big = nodeRunJobs(m)
	}
	n := int64(0)
	for i := range m.Jobs {
		j := &m.Jobs[i]
		switch {
		case big[i]:
			n += min(j.Tasks, int64(len(m.GPUs))) * j.GPUs
		case j.Sync == hare.Relaxed:
			n += TasksOf(j) * j.GPUs
		default:
			n += j.Tasks * j.GPUs
		}
	}
	return n
}

// nodeTaskLimit limits the product of tasks that are placed one by one and nodes, since each
// placement looks at all nodes that might serve.
const nodeTaskLimit = 400_000_000

// nodeRunJobs marks the relaxed jobs that are placed as runs on nodes.
func nodeRunJobs(m *model.Model) []bool {
	return BigJobs(m, min(MaxTasksByRound, nodeTaskLimit/max(1, int64(len(m.Nodes)))))
}
