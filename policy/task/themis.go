package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
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
func NewThemis(inst *hare.Instance, cfg ThemisConfig) (online.Policy, error) {
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
		return nil, fmt.Errorf("policy: themis: fairness %v and leases of %s s: they must be at most 1, and positive", cfg.Fairness, hare.FormatMicros(cfg.LeaseUs))
	}
	t := &themis{lease: leased{cfg.LeaseUs}, bid: 1 - cfg.Fairness}
	return newDesk(inst, rule{
		hold: hare.Gang, rounds: knowing(inst), plan: t.plan, began: t.lease.began,
		key: func(_ *desk, s *seat) float64 { return s.key },
	}), nil
}

type themis struct {
	lease leased
	bid   float64 // share of the jobs that do
	line  []themisJob
}

type themisJob struct {
	s   *seat
	rho float64
}

// plan holds the auction: keys are below 0 for leases that run, to 1 for bidders,
// and above 2 for the rest. O(line × (log line + types)).
func (t *themis) plan(d *desk, line []*seat) {
	t.line = t.line[:0]
	gpus := 0
	for _, n := range d.total {
		gpus += n
	}
	for _, s := range line {
		if t.lease.goesOn(d, s) {
			s.key = -1
			continue
		}
		least := float64(d.leastUs(s))
		fair := max(1, float64(len(d.jobs))*float64(s.spec.Tasks)/float64(max(1, gpus))) * float64(s.rounds) * least
		t.line = append(t.line, themisJob{s, (float64(d.nowUs-s.arrivedUs) + float64(s.rounds-s.round)*least) / fair})
	}
	slices.SortStableFunc(t.line, func(a, b themisJob) int {
		return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.s.serial, b.s.serial))
	})
	bidders := int(math.Ceil(t.bid*float64(len(t.line)) - 1e-9))
	for i, j := range t.line {
		if i < max(1, bidders) {
			j.s.key = 1 / (1 + t.worth(d, j.s))
		} else {
			j.s.key = 2 + 1/(1+j.rho)
		}
	}
}

// worth is the logarithm of ρ after a lease without GPUs over ρ with them, for
// each GPU; 0 where no type has room.
func (t *themis) worth(d *desk, s *seat) float64 {
	sinceUs, left := float64(d.nowUs-s.arrivedUs), float64(s.rounds-s.round)
	without := sinceUs + float64(t.lease.longUs) + left*float64(d.leastUs(s))
	for _, m := range s.modes { // the fastest first
		if int64(len(d.free[m.kind])) >= s.spec.Tasks {
			return max(0, math.Log(without/(sinceUs+left*float64(m.longUs)))) / float64(s.spec.Tasks)
		}
	}
	return 0
}
