package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// ThemisConfig tunes NewThemis. The zero value is good.
type ThemisConfig struct {
	// Fairness is f: free GPUs are offered to the worst 1 − f of the jobs. From 0
	// to 1; zero means 0.8, negative 0.
	Fairness float64
	// LeaseUs is how long a job keeps what it won; zero means 600 s.
	LeaseUs int64
}

// NewThemis is Themis (NSDI 2020): free GPUs are offered to those jobs that are
// worst off by finish-time fairness ρ, which bid for them; the winners hold them
// for a lease. It knows how long jobs take.
//
//	ρ = (time since arrival + time left) / max(least time, N × GPU time / GPUs)
//
// with N the jobs that are there, times on the fastest type in service that is
// wide enough, and GPUs in service.
//
// [S] ρ with 1/N of the cluster as what is fair, the worst 1 − f of the jobs, f =
// 0.8, an auction that maximises the product of the bidders' 1/ρ, leases. [I] A
// bid is for the whole gang on the fastest type with room, so that partial
// allocations and the hidden payments that they make do not exist; the product is
// maximised greedily, by the logarithm of what the lease is worth to a bidder's ρ
// over its GPUs; jobs with a lease do not bid; what bidders leave goes to the
// others, the worst first; jobs that do not fit are passed over, so that wide ones
// may wait long; a lease ends with its round; its length.
func NewThemis(cluster *hare.Cluster, sizes JobSizes, cfg ThemisConfig) (*ListScheduler, error) {
	switch {
	case cfg.Fairness == 0:
		cfg.Fairness = 0.8
	case cfg.Fairness < 0:
		cfg.Fairness = 0
	}
	if cfg.LeaseUs == 0 {
		cfg.LeaseUs = 600e6
	}
	if !(cfg.Fairness <= 1) || cfg.LeaseUs < 0 {
		return nil, fmt.Errorf("policy: themis: fairness %v and leases of %s s: they must be at most 1, and positive",
			cfg.Fairness, hare.FormatMicros(cfg.LeaseUs))
	}
	t := &themis{lease: timeSlice{cfg.LeaseUs}, bid: 1 - cfg.Fairness}
	return NewListScheduler(cluster, Rule{
		Name: "themis", Hold: hare.Gang, Rounds: sizes.Rounds, plan: t.plan, started: t.lease.started,
		Priority: func(_ *ListScheduler, j *JobState) float64 { return j.priority },
	}), nil
}

type themis struct {
	lease   timeSlice
	bid     float64 // the share of the jobs that bid
	waiting []themisJob
}

type themisJob struct {
	j   *JobState
	rho float64
}

// plan holds the auction: priorities are below 0 for leases that run, to 1 for
// bidders, and above 2 for the rest. Time is O(jobs × (log jobs + types)).
func (t *themis) plan(l *ListScheduler, waiting []*JobState) {
	t.waiting = t.waiting[:0]
	gpus := l.GPUs()
	for _, j := range waiting {
		t.lease.review(l, j)
		if t.lease.runs(l, j) {
			j.priority = -1
			continue
		}
		round := float64(l.RoundUs(j))
		fair := max(1, float64(len(l.jobs))*float64(j.spec.Tasks)/float64(max(1, gpus))) * float64(j.rounds) * round
		t.waiting = append(t.waiting, themisJob{j,
			(float64(l.nowUs-j.arrivedUs) + float64(j.RoundsLeft())*round) / fair})
	}
	slices.SortStableFunc(t.waiting, func(a, b themisJob) int {
		return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.j.serial, b.j.serial))
	})
	bidders := int(math.Ceil(t.bid*float64(len(t.waiting)) - 1e-9))
	for i, w := range t.waiting {
		if i < max(1, bidders) {
			w.j.priority = 1 / (1 + t.value(l, w.j))
		} else {
			w.j.priority = 2 + 1/(1+w.rho)
		}
	}
}

// value is what a job bids: the logarithm of its ρ after a lease without GPUs over
// its ρ with them, for each GPU; 0 where no type has room.
func (t *themis) value(l *ListScheduler, j *JobState) float64 {
	sinceUs, left := float64(l.nowUs-j.arrivedUs), float64(j.RoundsLeft())
	without := sinceUs + float64(t.lease.lengthUs) + left*float64(l.RoundUs(j))
	for _, m := range j.modes { // the fastest first
		if int64(len(l.free[m.gpuType])) >= j.spec.Tasks {
			return max(0, math.Log(without/(sinceUs+left*float64(m.durationUs)))) / float64(j.spec.Tasks)
		}
	}
	return 0
}
