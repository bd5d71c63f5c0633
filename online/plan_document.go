package online

import "github.com/hare-sched/hare/wire"

// Document is the plan of the named policy as a document, after event seq at time atUs.
func (s *PlanStatus) Document(policy string, seq, atUs int64) *wire.SessionPlan {
	d := &wire.SessionPlan{Policy: policy, Seq: seq, AtUs: atUs, MadeUs: s.MadeUs, Due: s.Due, Fallback: s.Fallback}
	if s.MadeUs >= 0 {
		value, bound := s.Value, s.Bound
		d.Value = &value
		if bound.Sign() > 0 { // otherwise nothing was proved
			d.Bound = &bound
		}
	}
	for _, j := range s.Jobs {
		d.Jobs = append(d.Jobs, wire.SessionPlanJob{Job: j.Job, Running: j.Running, Rounds: j.Rounds, Types: j.Types,
			StartUs: j.StartUs, EndUs: j.EndUs, EarliestEndUs: j.EarliestEndUs, WaitsFor: j.Reason.Text})
	}
	return d
}
