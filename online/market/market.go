// Package market places distributed training jobs on workers of unlike speed by a matching market
// whose categories are sampled. After Liu, Wang, Huang and Pan, "Sampling-based multi-job placement
// for heterogeneous deep learning clusters" (IEEE TPDS 2024), of which the abstract was at hand.
//
// [V] The workload of an iteration in proportion to speed, the matching market, and sampled categories, of how many
// workers each job has, in place of all. [S] The formulas of Problem.JCT, and that all workers are given out. [I]
// What a worker is worth to a job (Valuation), how categories are drawn (Drawing) and which are skipped
// (Config.Skip), and the changes after the market (Config.Tries), which the prices of a placement do not see.
// Bandwidths are those of the classes: how free workers lie on nodes is not seen. Prices are by class, because
// workers of a class are alike, and come from shortest augmenting paths, which end where the ascending auction of
// the paper ends.
package market

import (
	"fmt"
	"math"

	"github.com/hare-sched/hare"
)

// Problem is a set of jobs that share workers. Each job holds its workers until it ends.
type Problem struct {
	Classes []Class
	Jobs    []Job
}

// Class is a number of workers that are alike.
type Class struct {
	Workers int // at least 0
	// PerNode is how many workers of the class a node has; zero means 1.
	PerNode int
	// InsideBps and BetweenBps are the bandwidths of a worker in bytes a second to workers of its
	// node and to all others; zero means that nothing limits them.
	InsideBps, BetweenBps float64
}

// Job is a training job that works with any number of workers, of any classes.
type Job struct {
	Weight     float64 // of its completion time, above 0
	Iterations float64 // T, above 0
	Samples    float64 // P, the workload of an iteration, above 0
	Bytes      float64 // D, the parameters that an iteration exchanges, at least 0
	// Rate is the throughput of one worker by class in samples a second; 0 where the job cannot run.
	Rate []float64
	// Least and Most bound the number of workers; zero means 1 and no bound.
	Least, Most int
}

func (j *Job) least() int { return max(1, j.Least) }

// mostOf is the largest number of workers that a job can use.
func (p *Problem) mostOf(j *Job) int {
	n := 0
	for c, rate := range j.Rate {
		if rate > 0 {
			n += p.Classes[c].Workers
		}
	}
	if j.Most > 0 {
		n = min(n, j.Most)
	}
	return n
}

// Check refuses what cannot be placed: numbers out of range, a job for which no class has workers,
// and jobs that need more workers than there are, for which there is no category at all. Errors are
// hare.InvalidErrors whose pointers take a problem as {"classes": [...], "jobs": [...]}.
func (p *Problem) Check() error {
	var es hare.InvalidErrors
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	bounded := func(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }
	for i := range p.Classes {
		c := &p.Classes[i]
		if c.Workers < 0 || c.PerNode < 0 || c.Workers > hare.MaxGPUs {
			es.Add(fmt.Sprintf("/classes/%d", i), "out_of_range", "numbers of workers must be from 0 to %d", hare.MaxGPUs)
		}
		if !bounded(c.InsideBps) || !bounded(c.BetweenBps) {
			es.Add(fmt.Sprintf("/classes/%d", i), "out_of_range", "bandwidths must be finite and not below 0")
		}
	}
	for i := range p.Jobs {
		j, at := &p.Jobs[i], fmt.Sprintf("/jobs/%d", i)
		if !positive(j.Weight) || !positive(j.Iterations) || !positive(j.Samples) || !bounded(j.Bytes) {
			es.Add(at, "out_of_range", "weight, iterations and samples must be finite and above 0, and bytes not below 0")
		}
		if len(j.Rate) != len(p.Classes) {
			es.Add(at+"/rate", "wrong_length", "has %d rates for %d classes", len(j.Rate), len(p.Classes))
			continue
		}
		for c, rate := range j.Rate {
			if !bounded(rate) {
				es.Add(fmt.Sprintf("%s/rate/%d", at, c), "out_of_range", "must be finite and not below 0")
			}
		}
		if j.Least < 0 || j.Most < 0 || j.Most > 0 && j.Most < j.least() {
			es.Add(at, "out_of_range", "the bounds %d and %d of the number of workers are out of order", j.Least, j.Most)
		} else if len(es) == 0 && p.mostOf(j) < j.least() {
			es.Add(at, "no_workers", "needs %d workers, and the classes on which it runs have %d", j.least(), p.mostOf(j))
		}
	}
	if len(es) > 0 {
		return es
	}
	least := 0
	for i := range p.Jobs {
		least += p.Jobs[i].least()
	}
	if have := p.workers(); least > have {
		es.Add("/jobs", "no_category", "need %d workers together, and there are %d: place fewer jobs", least, have)
		return es
	}
	return nil
}

func (p *Problem) workers() int {
	n := 0
	for i := range p.Classes {
		n += p.Classes[i].Workers
	}
	return n
}

// JCT is the completion time of a job on counts[c] workers of each class c in seconds, +Inf where
// it cannot run. The workload of an iteration is divided in proportion to the throughputs, so that
// all workers end together after l_p = P/Σρ, and then the workers exchange D bytes by a ring
// all-reduce in l_c = 2(K−1)D/(r·K), where r is the least bandwidth in the ring of the K workers:
//
//	JCT = T (l_p + l_c)
//
// The ring is inside a node where all workers are of one class and fit on one node.
func (p *Problem) JCT(job int, counts []int) float64 {
	j, rate, k := &p.Jobs[job], 0.0, 0
	for c, n := range counts {
		if n > 0 {
			if j.Rate[c] == 0 {
				return math.Inf(1)
			}
			rate += float64(n) * j.Rate[c]
			k += n
		}
	}
	if k == 0 {
		return math.Inf(1)
	}
	s := j.Samples / rate
	if k > 1 && j.Bytes > 0 {
		s += 2 * float64(k-1) * j.Bytes * p.slowness(counts, k) / float64(k)
	}
	return j.Iterations * s
}

// slowness is 1/r of a ring of k workers: the seconds in which its slowest link carries a byte.
func (p *Problem) slowness(counts []int, k int) float64 {
	worst := 0.0
	for c, n := range counts {
		if n == 0 {
			continue
		}
		bps := p.Classes[c].BetweenBps
		if n == k && k <= max(1, p.Classes[c].PerNode) {
			bps = p.Classes[c].InsideBps
		}
		if bps > 0 {
			worst = max(worst, 1/bps)
		}
	}
	return worst
}

// Shares are the parts of an iteration's workload that one worker of each class gets in a job on
// counts[c] workers of class c: ρ_c/Σρ.
func (p *Problem) Shares(job int, counts []int) []float64 {
	j, sum := &p.Jobs[job], 0.0
	shares := make([]float64, len(counts))
	for c, n := range counts {
		sum += float64(n) * j.Rate[c]
	}
	for c, n := range counts {
		if n > 0 {
			shares[c] = j.Rate[c] / sum
		}
	}
	return shares
}

// Score is Σ w JCT over the jobs, where counts[i] are the workers of job i by class.
func (p *Problem) Score(counts [][]int) float64 {
	sum := 0.0
	for i := range counts {
		sum += p.Jobs[i].Weight * p.JCT(i, counts[i])
	}
	return sum
}

// Fairness is Jain's index of the jobs' JCT over their JCT under an equal split, in which each of n
// jobs has 1/n of every class: (Σf)²/(n Σf²), at most 1.
func (p *Problem) Fairness(counts [][]int) float64 {
	n, sum, squares := float64(len(p.Jobs)), 0.0, 0.0
	for i := range p.Jobs {
		f := p.JCT(i, counts[i]) / p.equalSplit(i)
		sum += f
		squares += f * f
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}

// equalSplit is the JCT of a job that has its part of every class, with a ring between nodes.
func (p *Problem) equalSplit(job int) float64 {
	j, n := &p.Jobs[job], float64(len(p.Jobs))
	rate, k, worst := 0.0, 0.0, 0.0
	for c := range p.Classes {
		if j.Rate[c] > 0 && p.Classes[c].Workers > 0 {
			k += float64(p.Classes[c].Workers) / n
			rate += float64(p.Classes[c].Workers) / n * j.Rate[c]
			if bps := p.Classes[c].BetweenBps; bps > 0 {
				worst = max(worst, 1/bps)
			}
		}
	}
	s := j.Samples / rate
	if k > 1 {
		s += 2 * (k - 1) * j.Bytes * worst / k
	}
	return j.Iterations * s
}
