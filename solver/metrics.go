package solver

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
)

// describe sets the job results and the metrics from the plan of the schedule.
func (s *solve) describe() {
	m, p, r := greedy.InShapes(s.model, s.incumbent.Shapes), s.incumbent, s.res
	met := &hare.Metrics{}
	if s.best.rel != nil {
		met.BoundMethod = s.best.rel.Method
	}
	r.Jobs = make([]hare.JobResult, len(m.Jobs))
	held := make([]float64, len(m.Types))
	var jct, weighted, weights, sum, squares float64
	for i := range m.Jobs {
		j := &m.Jobs[i]
		start := int64(math.MaxInt64)
		for _, b := range p.Jobs[i] {
			start = min(start, b.StartUs)
			held[m.Classes[b.Class].Type] += float64(b.Width) * float64(b.Rounds) * float64(b.HoldUs)
		}
		if j.RunsUntilUs > 0 {
			start = 0
		}
		r.Jobs[i] = hare.JobResult{ID: s.inst.Jobs[i].ID, StartUs: start, EndUs: p.EndUs[i]}
		c := float64(p.EndUs[i]-j.ReleaseUs) / 1e6
		jct += c
		weights += float64(j.WeightMicro) / 1e6
		weighted += float64(j.WeightMicro) / 1e6 * c
		met.MakespanUs = max(met.MakespanUs, p.EndUs[i])
		if alone := s.aloneSeconds(i); alone > 0 {
			x := c / alone
			sum += x
			squares += x * x
		}
		met.Tasks += p.ShapesOf(i).Tasks(&s.model.Jobs[i])
		met.Deadlines = addDeadline(met.Deadlines, s.inst.Jobs[i].DeadlineUs, p.EndUs[i])
	}
	if d := met.Deadlines; d != nil {
		d.MetShare, d.TardinessSeconds = round6(float64(d.Met)/float64(d.Jobs)), round6(d.TardinessSeconds)
	}
	n := float64(len(m.Jobs))
	if n > 0 {
		met.MeanJCTSeconds = round6(jct / n)
	}
	switch {
	case weights == 0:
	case s.inst.Objective == hare.ObjectiveWeightedJCT && s.res.Constant == nil:
		met.WeightedMeanJCTSeconds = round6(s.value.Float() / weights)
	default:
		met.WeightedMeanJCTSeconds = round6(weighted / weights)
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
	if count, timeUs, ok := s.inst.Setups(r.Schedule); ok {
		met.Setups = &hare.SetupMetrics{Count: count, TimeSeconds: float64(timeUs) / 1e6}
	}
	r.Metrics = met
}

// aloneSeconds returns the least time of a job on an empty cluster: its rounds at its
// fastest task time, after the work that runs at time 0.
func (s *solve) aloneSeconds(i int) float64 {
	j := &s.model.Jobs[i]
	alone := math.Inf(1)
	for shape := range max(1, len(j.Shapes)) {
		in := j.InShape(shape)
		least := int64(math.MaxInt64)
		for _, md := range in.Modes {
			least = min(least, md.DurationUs())
		}
		alone = min(alone, float64(in.Rounds)*float64(least))
	}
	if j.Rounds == 0 {
		alone = 0
	}
	return (alone + float64(j.RunsUntilUs)) / 1e6
}

// addDeadline counts a job that ends at endUs; a deadline of 0 is none.
func addDeadline(d *hare.DeadlineMetrics, deadlineUs, endUs int64) *hare.DeadlineMetrics {
	if deadlineUs == 0 {
		return d
	}
	if d == nil {
		d = &hare.DeadlineMetrics{}
	}
	d.Jobs++
	if endUs <= deadlineUs {
		d.Met++
	} else {
		d.TardinessSeconds += float64(endUs-deadlineUs) / 1e6
	}
	return d
}

// round6 rounds a figure for people to six decimals.
func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }
