package policies

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
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
// for a lease. It knows how long jobs take; in sessions it goes by estimates.
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
func NewThemis(cluster *hare.Cluster, sizes JobSizes, cfg ThemisConfig) (*list.Scheduler, error) {
	r, err := cfg.rule(sizes.Rounds)
	if err != nil {
		return nil, err
	}
	return list.New(cluster, r), nil
}

// rule fills in the defaults; rounds are those of each job, and nil means that they are
// learned.
func (cfg ThemisConfig) rule(rounds map[string]int64) (list.Rule, error) {
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
		return list.Rule{}, fmt.Errorf(
			"policy: themis: fairness %v and leases of %s s: they must be at most 1, and positive",
			cfg.Fairness, hare.FormatMicros(cfg.LeaseUs))
	}
	t := &themis{lease: timeSlice{cfg.LeaseUs}, bid: 1 - cfg.Fairness}
	return list.Rule{
		Name: "themis", Hold: hare.Gang, Rounds: rounds, LearnSizes: rounds == nil, Plan: t.plan, Started: t.lease.started,
		Priority: func(_ *list.Scheduler, j *list.JobState) float64 { return rankOf(j) },
	}, nil
}

// parseThemis reads {"fairness": 0.8, "lease_s": 600}.
func parseThemis(parameters []byte) (list.Rule, error) {
	form := struct {
		Fairness *float64     `json:"fairness"`
		LeaseS   *json.Number `json:"lease_s"`
	}{}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return list.Rule{}, err
	}
	cfg := ThemisConfig{}
	if form.Fairness != nil {
		if !(*form.Fairness >= 0 && *form.Fairness <= 1) {
			return list.Rule{}, online.Invalid("/fairness", "out_of_range", "themis: fairness is %v: it must be from 0 to 1",
				*form.Fairness)
		}
		if cfg.Fairness = *form.Fairness; cfg.Fairness == 0 {
			cfg.Fairness = -1
		}
	}
	if form.LeaseS != nil {
		us, err := list.PositiveMicros("/lease_s", *form.LeaseS)
		if err != nil {
			return list.Rule{}, err
		}
		cfg.LeaseUs = us
	}
	return cfg.rule(nil)
}

type themis struct {
	lease   timeSlice
	bid     float64 // the share of the jobs that bid
	waiting []themisJob
}

type themisJob struct {
	j   *list.JobState
	rho float64
}

// plan holds the auction: priorities are below 0 for leases that run, to 1 for
// bidders, and above 2 for the rest. Time is O(jobs × (log jobs + types)).
func (t *themis) plan(l *list.Scheduler, waiting []*list.JobState) {
	t.waiting = t.waiting[:0]
	gpus := l.GPUs()
	for _, j := range waiting {
		t.lease.review(l, j)
		if t.lease.runs(l, j) {
			j.Own = -1.0
			continue
		}
		round := float64(l.RoundUs(j))
		fair := max(1, float64(len(l.Active()))*float64(j.Width())/float64(max(1, gpus))) *
			float64(j.Round()+j.RoundsLeft()) * round
		t.waiting = append(t.waiting, themisJob{j,
			(float64(l.NowUs()-j.ArrivedUs()) + float64(j.RoundsLeft())*round) / fair})
	}
	slices.SortStableFunc(t.waiting, func(a, b themisJob) int {
		return cmp.Or(cmp.Compare(b.rho, a.rho), cmp.Compare(a.j.Number(), b.j.Number()))
	})
	bidders := int(math.Ceil(t.bid*float64(len(t.waiting)) - 1e-9))
	for i, w := range t.waiting {
		if i < max(1, bidders) {
			w.j.Own = 1 / (1 + t.value(l, w.j))
		} else {
			w.j.Own = 2 + 1/(1+w.rho)
		}
	}
}

// value is what a job bids: the logarithm of its ρ after a lease without GPUs over
// its ρ with them, for each GPU; 0 where no type has room.
func (t *themis) value(l *list.Scheduler, j *list.JobState) float64 {
	sinceUs, left := float64(l.NowUs()-j.ArrivedUs()), float64(j.RoundsLeft())
	without := sinceUs + float64(t.lease.lengthUs) + left*float64(l.RoundUs(j))
	for _, m := range j.Modes() { // the fastest first
		if l.RoomNow(j, m.Type, j.Spec().Tasks) >= j.Spec().Tasks {
			return max(0, math.Log(without/(sinceUs+left*float64(m.DurationUs)))) / float64(j.Width())
		}
	}
	return 0
}
