package wire

import (
	"math"

	"github.com/hare-sched/hare"
)

// replanDoc is a replan object while it is read or written.
type replanDoc struct {
	*hare.Replan
	d  *resultReader // set while reading
	of *hare.Result  // set while writing: the result to which the object belongs
}

// replanTable is the table of the replan object of a result. Fields that verifiers
// use are read strictly, above all the instance and the schedule; null stands for a
// field that is left out. Unknown names are skipped, and so are unexpected fields
// of a moved job.
var replanTable = NewTable("Replan",
	"Replan says how a plan for the rest of an earlier one hangs together with the whole. Times are on the clock of "+
		"the whole instance, while those of the result start at at_s.",
	replanFields(
		stated(Micros("at_s", func(v *replanDoc) *int64 { return &v.AtUs }, 0).With("minimum", nil).Needed(),
			func(s *hare.StatedReplan) *bool { return &s.At }),
		Micros("stability", func(v *replanDoc) *int64 { return &v.StabilityMicro }, 0).With("minimum", nil).Needed().
			About("stability is what moving planned work had to bring, in weight-seconds per GPU-second."),
		String("instance_sha256", func(v *replanDoc) *string { return &v.InstanceSHA256 }).
			Reading(func(r *Reader, v *replanDoc) error { return r.sha256(&v.InstanceSHA256) }).Needed().MayLack().
			About("instance_sha256 names the whole instance."),
		stated(amountField("constant", func(v *replanDoc) *hare.Amount { return &v.Constant }).Needed().
			About("constant is the part of the whole's objective that no plan for the rest changes."),
			func(s *hare.StatedReplan) *bool { return &s.Constant }),
		derivedAmount("whole_value", func(v *replanDoc) **hare.Amount { return &v.Stated.WholeValue },
			func(v *replanDoc) (a hare.Amount, ok bool) {
				if v.of.Value == nil {
					return a, false
				}
				return v.WholeCost(v.of.Objective, *v.of.Value), true
			}).
			About("whole_value is value + constant, whole_bound bound + constant; under makespan also at least each "+
				"until_s of started. whole_bound is left out where the rest has setups or reshape_s."),
		derivedAmount("whole_bound", func(v *replanDoc) **hare.Amount { return &v.Stated.WholeBound },
			func(v *replanDoc) (a hare.Amount, ok bool) {
				if v.of.Bound == nil {
					return a, false
				}
				return v.WholeBound(v.of.Objective, *v.of.Bound)
			}),
		derivedAmount("kept_value", func(v *replanDoc) **hare.Amount { return &v.KeptValue },
			func(v *replanDoc) (a hare.Amount, ok bool) {
				if v.KeptValue == nil {
					return a, false
				}
				return *v.KeptValue, true
			}).
			About("kept_value is the value of the plan that moves only what it must, and gain what the moves bring "+
				"beside it."),
		derivedAmount("gain", func(v *replanDoc) **hare.Amount { return &v.Stated.Gain },
			func(v *replanDoc) (a hare.Amount, ok bool) {
				if v.KeptValue == nil || v.of.Value == nil {
					return a, false
				}
				return v.KeptValue.Sub(*v.of.Value), true
			}),
		amountField("planned_gpu_s", func(v *replanDoc) *hare.Amount { return &v.PlannedGPU }).Needed().
			About("planned_gpu_s is the GPU-time planned before and not started, moved_gpu_s how much of it has "+
				"another start or type, forced_gpu_s how much of that had to."),
		amountField("moved_gpu_s", func(v *replanDoc) *hare.Amount { return &v.MovedGPU }).Needed(),
		amountField("forced_gpu_s", func(v *replanDoc) *hare.Amount { return &v.ForcedGPU }).Needed(),
		stated(Objects("started", func(v *replanDoc) *[]hare.StartedWork { return &v.Started }, startedTable).Needed(),
			func(s *hare.StatedReplan) *bool { return &s.Started }),
		stated(Objects("lost", func(v *replanDoc) *[]hare.LostWork { return &v.Lost }, lostTable).Needed(),
			func(s *hare.StatedReplan) *bool { return &s.Lost }),
		NewField("moved", ListOf(RefTo(movedTable)), func(r *Reader, v *replanDoc) error {
			return r.Array(func(int) error {
				var x hare.MovedJob
				err := infoObject(r, movedTable, &x)
				v.Moved = append(v.Moved, x)
				return err
			})
		}, func(b []byte, v *replanDoc) []byte { return appendObjects(b, v.Moved, movedTable) }).Needed(),
		stringList("kept", func(v *replanDoc) *[]string { return &v.Kept }).Needed().About("kept are planned jobs "+
			"that stay."),
		stated(stringList("added", func(v *replanDoc) *[]string { return &v.Added }).Needed(),
			func(s *hare.StatedReplan) *bool { return &s.Added }),
		stated(stringList("removed", func(v *replanDoc) *[]string { return &v.Removed }).Needed(),
			func(s *hare.StatedReplan) *bool { return &s.Removed }),
		stated(NewField("gpus", MapOf(Schema{"type": "string"}), func(r *Reader, v *replanDoc) error {
			return r.Object(nil, func(name string) (bool, error) {
				x := hare.RenamedGPU{Rest: name}
				err := r.String(&x.Whole)
				v.Renamed = append(v.Renamed, x)
				return true, err
			})
		}, func(b []byte, v *replanDoc) []byte {
			return AppendMap(b, v.Renamed,
				func(x *hare.RenamedGPU) string { return x.Rest },
				func(b []byte, x *hare.RenamedGPU) []byte { return AppendString(b, x.Whole) })
		}).
			About("gpus are those of nodes that instance splits, with their names in the whole."),
			func(s *hare.StatedReplan) *bool { return &s.Renamed }),
		String("schedule_missing", func(v *replanDoc) *string { return &v.WholeMissing }).
			About("schedule_missing says why there is no schedule."),
		NewField("instance", RefTo(instanceTable), func(r *Reader, v *replanDoc) error {
			return r.instanceAt(v.d.root+"/replan/instance", &v.Rest)
		}, func(b []byte, v *replanDoc) []byte {
			if v.Rest == nil || v.of.Options.Detail == "none" {
				return b
			}
			return AppendInstance(b, v.Rest)
		}),
		NewField("schedule", RefTo(scheduleTable), func(r *Reader, v *replanDoc) error {
			s := &resultReader{Reader: r, root: v.d.root + "/replan", res: &hare.Result{}}
			err := s.schedule()
			if v.Whole = s.res.Schedule; err == nil {
				err = s.indices()
			}
			return err
		}, func(b []byte, v *replanDoc) []byte {
			if v.Whole == nil || v.of.Options.Detail == "none" || v.of.Options.Detail == "jobs" {
				return b
			}
			return appendSchedule(b, v.Whole)
		}),
	)...,
).Open()

// replanFields makes the fields accept null, which the reader skips.
func replanFields(fields ...Field[replanDoc]) []Field[replanDoc] {
	for i := range fields {
		fields[i].read = notNull(fields[i].read)
	}
	return fields
}

// stated makes the reader note that the document has the field.
func stated(f Field[replanDoc], at func(*hare.StatedReplan) *bool) Field[replanDoc] {
	read := f.read
	return f.Reading(func(r *Reader, v *replanDoc) error {
		*at(v.Stated) = true
		return read(r, v)
	})
}

func amountField(name string, at func(*replanDoc) *hare.Amount) Field[replanDoc] {
	return NewField(name, numberSchema,
		func(r *Reader, v *replanDoc) error { return r.amountTo(at(v)) },
		func(b []byte, v *replanDoc) []byte { return append(b, at(v).String()...) })
}

// derivedAmount makes a field for an amount that is read into the place that at
// returns, and whose written value of computes from other fields.
func derivedAmount(name string, at func(*replanDoc) **hare.Amount,
	of func(*replanDoc) (hare.Amount, bool)) Field[replanDoc] {
	return NewField(name, numberSchema,
		func(r *Reader, v *replanDoc) error { return r.amount(at(v)) },
		func(b []byte, v *replanDoc) []byte {
			a, ok := of(v)
			if !ok {
				return b
			}
			return append(b, a.String()...)
		})
}

func stringList(name string, at func(*replanDoc) *[]string) Field[replanDoc] {
	return Strings(name, at, math.MaxInt, "")
}

var startedTable = NewTable("StartedWork", "StartedWork runs at the planning instant and stays.",
	String("job", func(x *hare.StartedWork) *string { return &x.Job }).Needed(),
	Integer("rounds", func(x *hare.StartedWork) *int64 { return &x.Rounds }, 0, hare.MaxExact).With("minimum",
		nil).Needed().
		About("rounds are done when it ends."),
	Micros("until_s", func(x *hare.StartedWork) *int64 { return &x.UntilUs }, 0).With("minimum", nil).Needed(),
).Open()

var lostTable = NewTable("LostWork", "LostWork is a started round that must be repeated, and the GPU that it lacks.",
	String("job", func(x *hare.LostWork) *string { return &x.Job }).Needed(),
	Integer("round", func(x *hare.LostWork) *int64 { return &x.Round }, 0, hare.MaxExact).With("minimum",
		nil).Needed(),
	String("gpu", func(x *hare.LostWork) *string { return &x.GPU }).Needed(),
).Open()

var movedTable = NewTable("MovedJob", "MovedJob is a job whose work has another start or type than before.",
	infoString("job", func(x *hare.MovedJob) *string { return &x.ID }).Needed(),
	placeField("from", func(x *hare.MovedJob) *hare.JobPlace { return &x.From }).Needed(),
	placeField("to", func(x *hare.MovedJob) *hare.JobPlace { return &x.To }).Needed(),
	NewField("delta_end_s", numberSchema,
		func(r *Reader, _ *hare.MovedJob) error { return r.Skip() },
		func(b []byte, x *hare.MovedJob) []byte { return hare.AppendMicros(b, x.To.EndUs-x.From.EndUs) }).Needed().
		About("delta_end_s is negative where the job ends earlier."),
	NewField("gpu_s", numberSchema,
		func(r *Reader, x *hare.MovedJob) error {
			if !r.Is('0') {
				return r.Skip()
			}
			return r.amountTo(&x.GPU)
		},
		func(b []byte, x *hare.MovedJob) []byte { return append(b, x.GPU.String()...) }).Needed(),
	infoString("why", func(x *hare.MovedJob) *string { return &x.Why }).Needed().
		With("enum", []string{hare.MovedLost, hare.MovedCluster, hare.MovedChanged, hare.MovedEarlier,
			hare.MovedMadeWay}),
).Open()

func placeField(name string, at func(*hare.MovedJob) *hare.JobPlace) Field[hare.MovedJob] {
	return NewField(name, RefTo(placeTable),
		func(r *Reader, x *hare.MovedJob) error { return infoObject(r, placeTable, at(x)) },
		func(b []byte, x *hare.MovedJob) []byte { return placeTable.Append(b, at(x)) })
}

var placeTable = NewTable("JobPlace", "JobPlace is what of a job is planned, from its first start to its end.",
	NewField("types", ListOf(Schema{"type": "string"}), func(r *Reader, x *hare.JobPlace) error {
		if !r.Is('[') {
			return r.Skip()
		}
		return r.Array(func(int) error {
			kind, read := "", r.Skip
			if r.Is('"') {
				read = func() error { return r.String(&kind) }
			}
			err := read()
			x.Types = append(x.Types, kind)
			return err
		})
	}, func(b []byte, x *hare.JobPlace) []byte { return appendList(b, x.Types, AppendString) }).Needed(),
	infoMicros("start_s", func(x *hare.JobPlace) *int64 { return &x.StartUs }).Needed(),
	infoMicros("end_s", func(x *hare.JobPlace) *int64 { return &x.EndUs }).Needed(),
).Open()
