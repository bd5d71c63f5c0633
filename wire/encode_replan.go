package wire

import (
	"strconv"

	"github.com/hare-sched/hare"
)

// appendReplan writes the replan object of r, without the schedule of the whole
// where no schedule was asked for.
func appendReplan(b []byte, r *hare.Result) []byte {
	p := r.Replan
	b = hare.AppendMicros(append(b, `{"at_s":`...), p.AtUs)
	b = hare.AppendMicros(append(b, `,"stability":`...), p.StabilityMicro)
	if p.InstanceSHA256 != "" {
		b = appendString(append(b, `,"instance_sha256":`...), p.InstanceSHA256)
	}
	amount := func(name string, a hare.Amount) {
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		b = append(b, a.String()...)
	}
	amount("constant", p.Constant)
	if r.Value != nil {
		amount("whole_value", r.Value.Add(p.Constant))
	}
	if r.Bound != nil {
		amount("whole_bound", r.Bound.Add(p.Constant))
	}
	if p.KeptValue != nil {
		amount("kept_value", *p.KeptValue)
		if r.Value != nil {
			amount("gain", p.KeptValue.Sub(*r.Value))
		}
	}
	amount("planned_gpu_s", p.PlannedGPU)
	amount("moved_gpu_s", p.MovedGPU)
	amount("forced_gpu_s", p.ForcedGPU)
	b = appendList(append(b, `,"started":`...), p.Started, func(b []byte, x hare.StartedWork) []byte {
		b = appendString(append(b, `{"job":`...), x.Job)
		b = strconv.AppendInt(append(b, `,"rounds":`...), x.Rounds, 10)
		return append(hare.AppendMicros(append(b, `,"until_s":`...), x.UntilUs), '}')
	})
	b = appendList(append(b, `,"lost":`...), p.Lost, func(b []byte, x hare.LostWork) []byte {
		b = appendString(append(b, `{"job":`...), x.Job)
		b = strconv.AppendInt(append(b, `,"round":`...), x.Round, 10)
		return append(appendString(append(b, `,"gpu":`...), x.GPU), '}')
	})
	b = appendList(append(b, `,"moved":`...), p.Moved, appendMoved)
	for _, l := range []struct {
		name string
		ids  []string
	}{{"kept", p.Kept}, {"added", p.Added}, {"removed", p.Removed}} {
		b = append(b, `,"`...)
		b = append(b, l.name...)
		b = appendList(append(b, `":`...), l.ids, appendString)
	}
	if len(p.Renamed) > 0 {
		b = append(b, `,"gpus":{`...)
		for i, x := range p.Renamed {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, x.Rest), ':')
			b = appendString(b, x.Whole)
		}
		b = append(b, '}')
	}
	if p.WholeMissing != "" {
		b = appendString(append(b, `,"schedule_missing":`...), p.WholeMissing)
	}
	if p.Rest != nil && r.Options.Detail != "none" {
		b = appendInstance(append(b, `,"instance":`...), p.Rest)
	}
	if p.Whole != nil && r.Options.Detail != "none" && r.Options.Detail != "jobs" {
		b = appendJobIDs(append(b, `,"schedule":{"jobs":[`...), p.Whole.Jobs)
		b = append(b, `],"lanes":[`...)
		for i := range p.Whole.Lanes {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendLane(b, &p.Whole.Lanes[i])
		}
		b = append(b, `]}`...)
	}
	return append(b, '}')
}

func appendMoved(b []byte, x hare.MovedJob) []byte {
	b = appendString(append(b, `{"job":`...), x.ID)
	b = appendPlace(append(b, `,"from":`...), x.From)
	b = appendPlace(append(b, `,"to":`...), x.To)
	b = hare.AppendMicros(append(b, `,"delta_end_s":`...), x.To.EndUs-x.From.EndUs)
	b = append(append(b, `,"gpu_s":`...), x.GPU.String()...)
	return append(appendString(append(b, `,"why":`...), x.Why), '}')
}

func appendPlace(b []byte, x hare.JobPlace) []byte {
	b = appendList(append(b, `{"types":`...), x.Types, appendString)
	b = hare.AppendMicros(append(b, `,"start_s":`...), x.StartUs)
	return append(hare.AppendMicros(append(b, `,"end_s":`...), x.EndUs), '}')
}

func appendList[T any](b []byte, xs []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, x)
	}
	return append(b, ']')
}

// appendInstance writes the instance/v1 form on one line.
func appendInstance(b []byte, inst *hare.Instance) []byte {
	return instanceTable.Append(b, &instanceDoc{Instance: inst})
}
