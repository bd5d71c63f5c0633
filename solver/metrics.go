package solver

import (
	"math"

	"github.com/hare-sched/hare"
)

// describe sets the job results and the metrics from the plan of the schedule.
func (s *solve) describe() {
	m, p, r := s.model, s.incumbent, s.res
	met := &hare.Metrics{}
	if s.best.rel != nil {
		met.BoundMethod = s.best.rel.Method
	}
	r.Jobs = make([]hare.JobResult, len(m.Jobs))
	held := make([]float64, len(m.Types))
	var jct, weights, sum, squares float64
	for i := range m.Jobs {
		j := &m.Jobs[i]
		start := int64(math.MaxInt64)
		for _, b := range p.Jobs[i] {
			start = min(start, b.StartUs)
			held[m.Classes[b.Class].Type] += float64(b.Width) * float64(b.Rounds) * float64(b.HoldUs)
		}
		r.Jobs[i] = hare.JobResult{ID: s.inst.Jobs[i].ID, StartUs: start, EndUs: p.EndUs[i]}
		c := float64(p.EndUs[i]-j.ReleaseUs) / 1e6
		jct += c
		weights += float64(j.WeightMicro) / 1e6
		met.MakespanUs = max(met.MakespanUs, p.EndUs[i])
		if alone := s.aloneSeconds(i); alone > 0 {
			x := c / alone
			sum += x
			squares += x * x
		}
		met.Tasks += j.Tasks * j.Rounds
	}
	n := float64(len(m.Jobs))
	if n > 0 {
		met.MeanJCTSeconds = round6(jct / n)
	}
	if weights > 0 {
		met.WeightedMeanJCTSeconds = round6(s.value.Float() / weights)
	}
	if squares > 0 {
		met.JainIndex = round6(sum * sum / (n * squares))
	}
	for k, name := range m.Types {
		steps := m.Capacity(k)
		total := 0.0
		for i, st := range steps {
			end := met.MakespanUs
			if i+1 < len(steps) {
				end = min(end, steps[i+1].FromUs)
			}
			if end > st.FromUs {
				total += float64(st.Count) * float64(end-st.FromUs)
			}
		}
		use := 0.0
		if total > 0 {
			use = round6(held[k] / total)
		}
		met.Utilization = append(met.Utilization, hare.TypeUse{Type: name, Use: use})
	}
	for i := range r.Schedule.Lanes {
		l := &r.Schedule.Lanes[i]
		for e := 1; e < len(l.Job); e++ {
			if l.Job[e] != l.Job[e-1] {
				met.Switches++
			}
		}
	}
	r.Metrics = met
}

// aloneSeconds returns the least time of a job on an empty cluster: its rounds at its
// fastest task time.
func (s *solve) aloneSeconds(i int) float64 {
	j := &s.model.Jobs[i]
	least := int64(math.MaxInt64)
	for _, md := range j.Modes {
		least = min(least, md.DurationUs())
	}
	return float64(j.Rounds) * float64(least) / 1e6
}

// round6 rounds a figure for people to six decimals.
func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }
