package elastic

import (
	"context"
	"math"
	"slices"
)

// tiresiasThresholdS is the service at which Pollux's Tiresias demotes jobs, in
// GPU-seconds.
const tiresiasThresholdS = 16 * 3600

// polluxTiresias is discretised LAS with two queues: a job that has run for 16
// GPU-hours (width asked for × time) leaves the first queue for the end of the
// second. Every interval the policy goes through the queues in order and runs each job
// for which enough GPUs are left; a job may pass a wider one that does not fit. The other
// jobs are stopped. Each job gets the width that it asks for. The policy knows no sizes.
//
// Source: Tiresias (NSDI 2019), as in Pollux's simulator (OSDI 2021;
// petuum/adaptdl, branch osdi21-artifact, commit c793c70) [V]. What that does
// otherwise than the paper: one threshold; queues are by arrival, not by first
// start; nobody is promoted after a long wait (its knob is 0); no placement by
// skew: a job takes the nodes with most free GPUs, the first of equals, whole or
// as far as it needs; time of restarts counts as executed.
type polluxTiresias struct {
	thresholdS float64
	queues     [2][]*tiresiasJob
	jobs       map[int]*tiresiasJob // by number
}

type tiresiasJob struct {
	number, at int // at is the index into the state's jobs; below 0 the job has ended
	running    bool
	ranS       float64
	seenS      float64
}

var _ Policy = (*polluxTiresias)(nil)

// newPolluxTiresias makes the policy; thresholdS is Config.ThresholdS.
func newPolluxTiresias(thresholdS float64) *polluxTiresias {
	switch {
	case thresholdS == 0:
		thresholdS = tiresiasThresholdS
	case thresholdS < 0:
		thresholdS = math.Inf(1)
	}
	return &polluxTiresias{thresholdS: thresholdS}
}

// Allocate is O(jobs + moved jobs × nodes²).
func (pt *polluxTiresias) Allocate(_ context.Context, s *State) ([][]NodeGPUs, error) {
	pt.update(s)
	all := make([][]NodeGPUs, len(s.Jobs))
	left := 0
	for _, n := range s.Nodes {
		left += n
	}
	for _, queue := range pt.queues {
		for _, j := range queue {
			view := &s.Jobs[j.at]
			if j.running = view.GPUs <= left; j.running {
				left -= view.GPUs
				all[j.at] = view.Held
			}
		}
	}
	free := freeGPUs(s.Nodes, all)
	for _, queue := range pt.queues {
		for _, j := range queue {
			if j.running && all[j.at] == nil {
				all[j.at] = mostFree(free, s.Jobs[j.at].GPUs)
			}
		}
	}
	return all, nil
}

// update adds jobs that arrived, removes jobs that ended, and demotes jobs.
func (pt *polluxTiresias) update(s *State) {
	if pt.jobs == nil {
		pt.jobs = map[int]*tiresiasJob{}
	}
	for _, j := range pt.jobs {
		j.at = -1
	}
	for i := range s.Jobs {
		number := s.Jobs[i].Number
		j := pt.jobs[number]
		if j == nil {
			j = &tiresiasJob{number: number}
			pt.jobs[number] = j
			pt.queues[0] = append(pt.queues[0], j)
		}
		j.at = i
	}
	for q := range pt.queues {
		pt.queues[q] = slices.DeleteFunc(pt.queues[q], func(j *tiresiasJob) bool {
			if j.at < 0 {
				delete(pt.jobs, j.number)
			}
			return j.at < 0
		})
	}
	// Jobs that are demoted at one time are demoted in the order of arrival.
	for i := range s.Jobs {
		j := pt.jobs[s.Jobs[i].Number]
		spanS := s.NowS - j.seenS
		j.seenS = s.NowS
		if !j.running {
			continue
		}
		before := j.ranS * float64(s.Jobs[i].GPUs)
		j.ranS += spanS
		if now := j.ranS * float64(s.Jobs[i].GPUs); before < pt.thresholdS && now >= pt.thresholdS {
			pt.queues[0] = slices.DeleteFunc(pt.queues[0], func(o *tiresiasJob) bool { return o == j })
			pt.queues[1] = append(pt.queues[1], j)
		}
	}
}

// freeGPUs is the number of GPUs that the allocations leave free, by node.
func freeGPUs(nodes []int, all [][]NodeGPUs) []int {
	free := slices.Clone(nodes)
	for _, held := range all {
		for _, h := range held {
			free[h.Node] -= h.GPUs
		}
	}
	return free
}

// mostFree takes GPUs from the node with the most free GPUs, the first of equal nodes,
// and then from the next such node until there are enough. free must have enough.
func mostFree(free []int, gpus int) []NodeGPUs {
	var held []NodeGPUs
	for gpus > 0 {
		best := 0
		for n := range free {
			if free[n] > free[best] {
				best = n
			}
		}
		take := min(gpus, free[best])
		held = append(held, NodeGPUs{Node: best, GPUs: take})
		free[best] -= take
		gpus -= take
	}
	return held
}
