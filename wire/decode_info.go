package wire

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// info reads a field of a result that informs people and proves nothing.
// Values of another kind than expected, and names that this version does not
// know, are passed over.
func (d *resultReader) info(name string) error {
	r := d.res
	switch name {
	case "reasons":
		return d.infoList(func() error {
			x := hare.Reason{}
			err := d.infoObject(func(name string) error {
				switch name {
				case "pointer":
					return d.infoString(&x.Pointer)
				case "job":
					return d.infoString(&x.Job)
				case "code":
					return d.infoString(&x.Code)
				case "detail":
					return d.infoString(&x.Detail)
				}
				return d.Skip()
			})
			r.Reasons = append(r.Reasons, x)
			return err
		})
	case "options":
		return d.infoObject(d.infoOption)
	case "engine":
		return d.infoObject(func(name string) error {
			if name == "highs" {
				return d.infoString(&r.Engine.HiGHS)
			}
			return d.Skip()
		})
	case "metrics":
		if d.Is('{') {
			r.Metrics = &hare.Metrics{}
		}
		return d.infoObject(d.infoMetric)
	case "gap_report":
		if d.Is('{') {
			r.GapReport = &hare.GapReport{}
		}
		return d.infoObject(d.infoGapReport)
	case "timing":
		phases := map[string]*time.Duration{
			"total_s": &r.Timing.Total, "relax_s": &r.Timing.Relax, "assign_s": &r.Timing.Assign,
			"improve_s": &r.Timing.Improve, "verify_s": &r.Timing.Verify,
		}
		return d.infoObject(func(name string) error {
			if to := phases[name]; to != nil {
				return d.infoDuration(to)
			}
			return d.Skip()
		})
	case "tasks":
		return d.infoList(d.infoTask)
	}
	return d.Skip()
}

func (d *resultReader) infoOption(name string) error {
	o := &d.res.Options
	switch name {
	case "time_limit_s":
		return d.infoDuration(&o.TimeLimit)
	case "work_limit":
		return d.infoInt(&o.WorkLimit)
	case "gap":
		return d.infoFloat(&o.Gap)
	case "seed":
		return d.infoInt(&o.Seed)
	case "bound":
		return d.infoString(&o.Bound)
	case "order":
		return d.infoString(&o.Order)
	case "assign":
		return d.infoString(&o.Assign)
	case "detail":
		return d.infoString(&o.Detail)
	}
	return d.Skip()
}

func (d *resultReader) infoMetric(name string) error {
	m := d.res.Metrics
	switch name {
	case "mean_jct_s":
		return d.infoFloat(&m.MeanJCTSeconds)
	case "weighted_mean_jct_s":
		return d.infoFloat(&m.WeightedMeanJCTSeconds)
	case "makespan_s":
		return d.infoMicros(&m.MakespanUs)
	case "utilization", "utilisation": // the latter is of results from before the spelling was one
		err := d.infoObject(func(kind string) error {
			use := hare.TypeUse{Type: kind}
			err := d.infoFloat(&use.Use)
			m.Utilization = append(m.Utilization, use)
			return err
		})
		slices.SortFunc(m.Utilization, func(a, b hare.TypeUse) int { return strings.Compare(a.Type, b.Type) })
		return err
	case "switches":
		return d.infoInt(&m.Switches)
	case "jain_index":
		return d.infoFloat(&m.JainIndex)
	case "bound_method":
		return d.infoString(&m.BoundMethod)
	case "tasks":
		return d.infoInt(&m.Tasks)
	}
	return d.Skip()
}

func (d *resultReader) infoGapReport(name string) error {
	g := d.res.GapReport
	switch name {
	case "excess":
		return d.infoFloat(&g.Excess)
	case "reduced_cost":
		return d.infoFloat(&g.ReducedCost)
	case "idle_capacity":
		return d.infoFloat(&g.IdleCapacity)
	case "idle_by_type":
		err := d.infoObject(func(kind string) error {
			x := hare.TypeIdle{Type: kind}
			err := d.infoFloat(&x.Idle)
			g.IdleByType = append(g.IdleByType, x)
			return err
		})
		slices.SortFunc(g.IdleByType, func(a, b hare.TypeIdle) int { return strings.Compare(a.Type, b.Type) })
		return err
	case "jobs":
		return d.infoList(func() error {
			x := hare.JobExcess{}
			err := d.infoObject(func(name string) error {
				switch name {
				case "id":
					return d.infoString(&x.ID)
				case "reduced_cost":
					return d.infoFloat(&x.ReducedCost)
				}
				return d.Skip()
			})
			if len(g.Jobs) < hare.MaxReportedJobs {
				g.Jobs = append(g.Jobs, x)
			}
			return err
		})
	}
	return d.Skip()
}

func (d *resultReader) infoTask() error {
	t := hare.Task{}
	err := d.infoObject(func(name string) error {
		switch name {
		case "job":
			return d.infoString(&t.Job)
		case "round":
			return d.infoInt(&t.Round)
		case "gpu":
			return d.infoString(&t.GPU)
		case "start_s":
			return d.infoMicros(&t.StartUs)
		case "compute_end_s":
			return d.infoMicros(&t.ComputeEndUs)
		case "sync_end_s":
			return d.infoMicros(&t.EndUs)
		}
		return d.Skip()
	})
	if len(d.res.TaskList) < hare.MaxTaskObjects {
		d.res.TaskList = append(d.res.TaskList, t)
	}
	return err
}

func (d *resultReader) infoObject(field func(name string) error) error {
	if !d.Is('{') {
		return d.Skip()
	}
	return d.Object(nil, func(name string) (bool, error) { return true, field(name) })
}

func (d *resultReader) infoList(item func() error) error {
	if !d.Is('[') {
		return d.Skip()
	}
	return d.Array(func(int) error { return item() })
}

func (d *resultReader) infoString(to *string) error {
	if !d.Is('"') {
		return d.Skip()
	}
	return d.String(to)
}

func (d *resultReader) infoFloat(to *float64) error {
	if !d.Is('0') {
		return d.Skip()
	}
	text, _, err := d.Number()
	if f, bad := strconv.ParseFloat(text, 64); bad == nil {
		*to = f
	}
	return err
}

func (d *resultReader) infoInt(to *int64) error { return d.infoDecimal(to, 0) }

func (d *resultReader) infoMicros(to *int64) error { return d.infoDecimal(to, 6) }

func (d *resultReader) infoDecimal(to *int64, places int) error {
	if !d.Is('0') {
		return d.Skip()
	}
	text, _, err := d.Number()
	if n, bad := hare.ParseDecimal(text, places); bad == nil {
		*to = n
	}
	return err
}

// infoDuration reads seconds, to the nearest microsecond.
func (d *resultReader) infoDuration(to *time.Duration) error {
	var seconds float64
	err := d.infoFloat(&seconds)
	if math.Abs(seconds) < 1e9 {
		*to = time.Duration(math.Round(seconds*1e6)) * time.Microsecond
	}
	return err
}
