package leases

import (
	"context"
	"errors"
	"fmt"
)

// gavelWaterFill is max-min fairness to the end: once the least throughput is as
// great as can be, those jobs that cannot have more keep what they have, and the
// least of the others is raised, and so on. Throughputs count as in gavelMaxMin.
//
// With entities, an entity's weight is shared by those of its jobs that are not
// yet full, by their weights, or all goes to the first of them that came.
//
// Source: Gavel (OSDI 2020, section 4.3), its code at commit c4fa400, without
// space sharing. As there, no round raises by more than the greatest throughput
// of any job where someone waits. There an integer program says who is full; here
// it is read from the middle of the optimal divisions: who can have more, has
// more there.
type gavelWaterFill struct {
	perf, entities bool
}

var _ SharePolicy = (*gavelWaterFill)(nil)

func (wf *gavelWaterFill) LeaseTraits() Traits {
	return Traits{ShuffleTypes: !wf.perf}
}

// fullBy is the factor by which a job that is not full exceeds the throughput that it
// keeps, at least; the value is Gavel's.
const fullBy = 1.0001

// filling is the state of a job while levels rise.
type filling struct {
	norm    []float64 // throughput by share, in units of the mean GPU
	level   float64   // throughput that the job keeps
	weight  float64   // weight in this round; 0 means that the job waits
	full    bool
	highest float64
}

// Shares solves as many programs as there are levels, jobs at most.
func (wf *gavelWaterFill) Shares(ctx context.Context, s *State, out *Shares) error {
	jobs, most := fillings(s, wf.perf), 0.0
	for i := range jobs {
		most = max(most, jobs[i].highest*float64(s.Jobs[i].GPUs))
	}
	for level := range s.Jobs {
		if err := wf.weigh(s, jobs); err != nil {
			return err
		}
		c := shareProgramCenter(s)
		c.greatest = true
		waits := false
		for i := range jobs {
			j := &jobs[i]
			c.rows = append(c.rows, constraint{job: i, a: j.norm, d: -j.level})
			if by := float64(s.Jobs[i].GPUs); j.weight > 0 {
				c.rows = append(c.rows, constraint{job: i, a: j.norm, d: -j.level, z: -j.weight / by})
			} else {
				waits = true
			}
		}
		if waits {
			c.rows = append(c.rows, constraint{job: -1, d: most, z: -1})
		}
		switch err := c.solve(ctx, out.Share); {
		case errors.Is(err, errNotConverged) && level > 0:
			return nil // with the division of the level before, as Gavel
		case err != nil:
			return fmt.Errorf("raising the least: %w", err)
		}
		if !settle(s, jobs, c.z, out.Share) {
			return nil
		}
	}
	return nil
}

// fillings starts all jobs at nothing.
func fillings(s *State, perf bool) []filling {
	total := 0
	for _, w := range s.GPUs {
		total += w
	}
	jobs := make([]filling, len(s.Jobs))
	for i := range jobs {
		mean := 0.0
		rate := func(k int) float64 {
			if perf {
				return s.Jobs[i].Rate[k]
			}
			return 1
		}
		for k, w := range s.GPUs {
			mean += rate(k) * float64(w) / float64(total)
		}
		for k := range s.GPUs {
			jobs[i].norm = append(jobs[i].norm, rate(k)/mean)
			jobs[i].highest = max(jobs[i].highest, rate(k)/mean)
		}
	}
	return jobs
}

// weigh gives the jobs that are not full their weights for a round.
func (wf *gavelWaterFill) weigh(s *State, jobs []filling) error {
	sums := map[string]float64{} // of the weights of an entity's jobs; of its first: 1
	for i := range jobs {
		j, e := &jobs[i], s.Jobs[i].Entity
		j.weight = s.Jobs[i].Weight
		if wf.entities && e == nil {
			return fmt.Errorf("job %.60q belongs to no entity", s.Jobs[i].ID)
		}
		switch {
		case j.full:
			j.weight = 0
		case !wf.entities:
		case !e.FIFO:
			sums[e.Name] += j.weight
		case sums[e.Name] > 0:
			j.weight = 0
		default:
			sums[e.Name], j.weight = 1, 1
		}
	}
	if wf.entities {
		for i := range jobs {
			if e := s.Jobs[i].Entity; jobs[i].weight > 0 {
				jobs[i].weight *= e.Weight / sums[e.Name]
			}
		}
	}
	return nil
}

// settle raises the levels by the result of a round, and reports whether another round is due.
func settle(s *State, jobs []filling, raised float64, share []float64) bool {
	left, fuller := 0, false
	for i := range jobs {
		j := &jobs[i]
		if j.weight > 0 {
			j.level += max(0, raised) * j.weight / float64(s.Jobs[i].GPUs)
			has := 0.0
			for k, v := range j.norm {
				has += v * share[i*len(j.norm)+k]
			}
			if has < fullBy*j.level {
				j.full, fuller = true, true
			}
		}
		if !j.full {
			left++
		}
	}
	return fuller && left > 0
}
