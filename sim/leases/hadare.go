package leases

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// HadarEConfig holds the choices that the paper of HadarE leaves open. The zero value is the default;
// docs/use/policies.md#hadar-and-hadare says what each choice is worth.
type HadarEConfig struct {
	// Hadar are the settings by which jobs get their first copies.
	Hadar HadarConfig
	// MaxCopies is the greatest number of copies of a job; zero means one for each node.
	MaxCopies int
	// MergeShare is the part of a lease that merging the parameters of copies takes, from 0 to less than
	// 1: a job gets a second copy only if it progresses faster in what is left of the lease. It should be
	// sim.Fork.MergeS over the length of a lease.
	MergeShare float64
	// Efficiency is sim.Fork.Efficiency.
	Efficiency float64
}

// Check says what is wrong with the settings.
func (hc HadarEConfig) Check() error {
	if hc.MaxCopies < 0 {
		return fmt.Errorf("hadare: %d copies at most: must be 1 or more, or 0 for one on each node", hc.MaxCopies)
	}
	if !(hc.MergeShare >= 0 && hc.MergeShare < 1) {
		return fmt.Errorf("hadare: merging takes the part %v of a lease: must be from 0 to less than 1", hc.MergeShare)
	}
	if !(hc.Efficiency >= 0 && hc.Efficiency <= 1) {
		return fmt.Errorf("hadare: efficiency %v: must be above 0 and at most 1; 0 means 1", hc.Efficiency)
	}
	return hc.Hadar.Check()
}

// hadarE gives jobs their GPUs as hadar does, and then runs further copies of them on the GPUs that are left.
// Each copy has as many GPUs as the job needs, of one type on one node that has no other copy of the job;
// jobs that are on several nodes or types get none. Copy after copy, the job and the node are chosen for which
// the utility rises most for each GPU; of equal ones a node where the job has just been, then the earlier job
// and the earlier node. All copies of a job together run at the sum of their rates (sim.Fork).
//
// Source: HadarE (arXiv 2503.10918), of which only the abstract was at hand: copies on separate nodes and the
// tracker are the paper's, and the order in which copies are given is ours.
//
// Hold costs O(copies · jobs · nodes) more than that of hadar.
type hadarE struct {
	cfg HadarEConfig
	*hadar
}

var _ ForkingHoldPolicy = (*hadarE)(nil)

func newHadarE(cfg HadarEConfig) *hadarE { return &hadarE{cfg, newHadar(cfg.Hadar)} }

// ForksJobs is for sim.ForkingHoldPolicy.
func (*hadarE) ForksJobs() {}

// Hold is leases.HoldPolicy.
func (he *hadarE) Hold(ctx context.Context, s *State, previous []Hold) ([]Hold, error) {
	if err := he.cfg.Check(); err != nil {
		return nil, err
	}
	firsts := slices.Clone(previous)
	for i := range firsts { // hadar looks for the places of one copy
		if h := &firsts[i]; h.Copies > 1 {
			h.GPUs = h.GPUs[:len(h.GPUs)/h.Copies]
		}
	}
	holds, err := he.hadar.Hold(ctx, s, firsts)
	if err != nil || len(holds) == 0 {
		return holds, err
	}
	return he.addCopies(s, holds, previous), nil
}

// forkedJob is a job with a hold on one node.
type forkedJob struct {
	view *View
	hold *Hold
	rate float64 // the sum of those of its copies
	on   []int   // nodes with a copy
	was  []int32 // the GPUs that it held before
}

// addCopies gives the GPUs that no hold has to further copies of the jobs of the holds.
func (he *hadarE) addCopies(s *State, holds, previous []Hold) []Hold {
	nodeOf := map[int32]int{}
	free := make([][]int32, len(he.nodes))
	for n := range he.nodes {
		for _, g := range he.nodes[n].gpus {
			nodeOf[g] = n
		}
		free[n] = slices.Clone(he.nodes[n].gpus)
	}
	was := map[int][]int32{}
	for _, h := range previous {
		was[h.Job] = h.GPUs
	}
	var jobs []forkedJob
	for i := range holds {
		h := &holds[i]
		j := forkedJob{view: &s.Jobs[h.Job], hold: h, was: was[h.Job]}
		for _, g := range h.GPUs {
			n := nodeOf[g]
			free[n] = slices.DeleteFunc(free[n], func(f int32) bool { return f == g })
			if !slices.Contains(j.on, n) {
				j.on = append(j.on, n)
			}
		}
		if len(j.on) == 1 {
			j.rate = j.view.Rate[he.kind(j.on[0])]
			jobs = append(jobs, j)
		}
	}
	for {
		j, n := he.bestCopy(jobs, free)
		if j == nil {
			return holds
		}
		// GPUs that the job held before come first, so that it need not move.
		slices.SortStableFunc(free[n], func(a, b int32) int {
			held := func(g int32) int {
				if slices.Contains(j.was, g) {
					return 0
				}
				return 1
			}
			return cmp.Or(cmp.Compare(held(a), held(b)), cmp.Compare(a, b))
		})
		taken := slices.Clone(free[n][:j.view.GPUs])
		slices.Sort(taken)
		free[n] = free[n][j.view.GPUs:]
		j.hold.GPUs = append(j.hold.GPUs, taken...)
		j.on = append(j.on, n)
		j.hold.Copies = len(j.on)
		j.rate += j.view.Rate[he.kind(n)]
	}
}

func (he *hadarE) kind(node int) int { return he.classes[he.nodes[node].class].kind }

// bestCopy finds the next copy: its job, nil if none is left, and its node.
func (he *hadarE) bestCopy(jobs []forkedJob, free [][]int32) (best *forkedJob, node int) {
	var most float64
	stays := false
	for i := range jobs {
		j := &jobs[i]
		if he.cfg.MaxCopies > 0 && len(j.on) >= he.cfg.MaxCopies {
			continue
		}
		now := he.utility(j.view, he.effective(j.rate, len(j.on)))
		for n := range free {
			if len(free[n]) < j.view.GPUs || slices.Contains(j.on, n) {
				continue
			}
			rate := j.view.Rate[he.kind(n)]
			if rate <= 0 {
				continue
			}
			gain := (he.utility(j.view, he.effective(j.rate+rate, len(j.on)+1)) - now) / float64(j.view.GPUs)
			back := slices.ContainsFunc(free[n], func(g int32) bool { return slices.Contains(j.was, g) })
			if gain > 0 && (best == nil || gain > most || gain == most && back && !stays) {
				best, node, most, stays = j, n, gain, back
			}
		}
	}
	return best, node
}

// effective is the rate at which a job progresses whose copies run at a rate together.
func (he *hadarE) effective(rate float64, copies int) float64 {
	if copies == 1 {
		return rate
	}
	e := cmp.Or(he.cfg.Efficiency, 1)
	return rate * (1 - he.cfg.MergeShare) * (1 + e*float64(copies-1)) / float64(copies)
}
