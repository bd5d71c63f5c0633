package brute

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// RandomMixed returns a tiny valid instance with the rules of docs/reference/model.md mixed: an instance of
// RandomOnNodes, some of whose jobs have rounds done, run at time 0, have users, wait for others or have deadlines,
// with reservations and quotas. A part of the instances has the objective jct_and_tardiness or makespan. Times are
// multiples of half a second. Some instances have no schedule.
func RandomMixed(r *rand.Rand) *hare.Instance {
	for {
		inst := RandomOnNodes(r)
		var fields mixedFields
		for i := range inst.Jobs {
			fields.job(r, inst, i)
		}
		fields.cluster(r, inst)
		switch r.IntN(6) {
		case 0, 1:
			inst.Objective = hare.ObjectiveJCTAndTardiness
		case 2:
			inst.Objective = hare.ObjectiveMakespan
		}
		if inst.Validate() == nil {
			return inst
		}
	}
}

// mixedFields adds fields to an instance.
type mixedFields struct {
	held []string // the GPUs on which jobs run at time 0
}

func (mf *mixedFields) job(r *rand.Rand, inst *hare.Instance, i int) {
	j := &inst.Jobs[i]
	for _, user := range []string{"ann", "bob"} {
		if r.IntN(2) == 0 {
			j.Users = append(j.Users, user)
		}
	}
	if r.IntN(4) == 0 {
		j.Rounds++
	}
	if j.Rounds > 1 && r.IntN(3) == 0 {
		j.Progress = &hare.Progress{RoundsDone: 1 + r.Int64N(j.Rounds-1)}
	}
	if j.Sync != hare.Relaxed && r.IntN(2) == 0 {
		mf.run(r, inst, j)
	}
	if i > 0 && !j.Running() && r.IntN(3) == 0 {
		p := hare.Predecessor{Job: inst.Jobs[r.IntN(i)].ID}
		if r.IntN(2) == 0 {
			p.LagUs = int64(1+r.IntN(3)) * tick / 2
		}
		j.After = []hare.Predecessor{p}
		if other := inst.Jobs[r.IntN(i)].ID; other != p.Job {
			j.After = append(j.After, hare.Predecessor{Job: other})
			slices.SortFunc(j.After, func(a, b hare.Predecessor) int {
				if a.Job < b.Job {
					return -1
				}
				return 1
			})
		}
	}
	if r.IntN(3) == 0 {
		j.DeadlineUs = int64(1+r.IntN(12)) * tick / 2
		j.LateWeightMicro = int64(r.IntN(4)) * 1_000_000
	}
	if r.IntN(8) == 0 {
		j.WeightMicro = 0
	}
}

// run lets a job run at time 0 on random GPUs of one type that no other job holds, if there are
// enough. Validate rejects instances in which the GPUs do not make tasks of the job.
func (mf *mixedFields) run(r *rand.Rand, inst *hare.Instance, j *hare.Job) {
	p := j.On[r.IntN(len(j.On))]
	var free []string
	for n := range inst.Cluster.Nodes {
		node, number := &inst.Cluster.Nodes[n], 0
		for _, g := range node.GPUs {
			var here []string
			for range g.Count {
				if name := fmt.Sprintf("%s/%d", node.Name, number); g.Type == p.Type && !slices.Contains(mf.held, name) {
					here = append(here, name)
				}
				number++
			}
			free = append(free, here[:int64(len(here))/j.TaskGPUs()*j.TaskGPUs()]...)
		}
	}
	need := int(j.Tasks * j.TaskGPUs())
	if len(free) < need {
		return
	}
	from := 0
	if steps := (len(free) - need) / int(j.TaskGPUs()); steps > 0 {
		from = r.IntN(steps+1) * int(j.TaskGPUs())
	}
	rounds := int64(1)
	done := int64(0)
	if j.Progress != nil {
		done = j.Progress.RoundsDone
	}
	if j.Sync == hare.Rigid {
		rounds = j.Rounds - done
	}
	mf.held = append(mf.held, free[from:from+need]...)
	j.Progress = &hare.Progress{RoundsDone: done, GPUs: free[from : from+need],
		ElapsedUs: r.Int64N(2*rounds*p.DurationUs()/tick) * tick / 2}
	j.ReleaseUs = 0
}

func (mf *mixedFields) cluster(r *rand.Rand, inst *hare.Instance) {
	for range r.IntN(3) {
		q := hare.Quota{User: []string{"ann", "bob"}[r.IntN(2)], GPUs: int64(1 + r.IntN(4))}
		if r.IntN(3) == 0 {
			q.Types = []string{[]string{"A", "B"}[r.IntN(2)]}
		}
		inst.Quota = append(inst.Quota, q)
	}
	for range r.IntN(3) / 2 * (1 + r.IntN(2)) {
		from := int64(r.IntN(8)) * tick / 2
		v := hare.Reservation{FromUs: from, UntilUs: from + int64(1+r.IntN(6))*tick/2}
		switch r.IntN(3) {
		case 0:
			v.Nodes = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{"n0"}}}
		case 1:
			v.Nodes = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		}
		if r.IntN(3) == 0 {
			v.Users = []string{"ann"}
		}
		if r.IntN(3) == 0 {
			v.Jobs = []string{inst.Jobs[r.IntN(len(inst.Jobs))].ID}
		}
		inst.Cluster.Reservations = append(inst.Cluster.Reservations, v)
	}
}
