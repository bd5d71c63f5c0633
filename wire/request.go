package wire

import (
	"io"

	"github.com/hare-sched/hare"
)

var (
	requestFields = []string{"instance", "options", "method", "result", "previous", "previous_instance", "at_s", "stability"}
	optionFields  = []string{"time_limit_s", "work_limit", "gap", "seed", "bound", "order", "assign", "detail", "degrade"}
)

// Request is the document of one call: an instance with what to do about it.
type Request struct {
	// Given are the fields that the document has, in its order.
	Given    []string
	Instance *hare.Instance
	Options  hare.Options
	HasGap   bool // options name a gap
	Method   string
	Result   *hare.Result
	Replan   hare.ReplanRequest
}

// DecodeRequest reads {instance, options, method, result, previous,
// previous_instance, at_s, stability}, strictly, every fault with a pointer into
// the whole document.
func DecodeRequest(r io.Reader, lim Limits) (*Request, error) {
	rd := NewReader(r, lim)
	req := &Request{}
	req.Options.Seed = 1
	err := rd.Object(requestFields, func(name string) (bool, error) {
		req.Given = append(req.Given, name)
		switch name {
		case "instance":
			return true, rd.instanceAt("/instance", &req.Instance)
		case "previous_instance":
			return true, rd.instanceAt("/previous_instance", &req.Replan.Before)
		case "result":
			return true, rd.resultAt("/result", &req.Result)
		case "previous":
			return true, rd.resultAt("/previous", &req.Replan.Previous)
		case "at_s":
			req.Replan.HasAt = true
			return true, rd.Micros(&req.Replan.AtUs, 0)
		case "stability":
			req.Replan.HasStability = true
			return true, rd.Micros(&req.Replan.StabilityMicro, 0)
		case "method":
			return true, rd.Word(&req.Method)
		case "options":
			return true, rd.options(req)
		}
		return false, nil
	})
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return req, nil
}

// instanceAt reads an instance that stands at pointer.
func (r *Reader) instanceAt(pointer string, to **hare.Instance) error {
	d := newInstanceReader(r, pointer)
	*to = d.inst
	err := d.instance()
	if err == nil && !d.hasJobs {
		err = d.noJobs()
	}
	if err == nil {
		err = d.sums()
	}
	return err
}

// resultAt reads a result that stands at pointer.
func (r *Reader) resultAt(pointer string, to **hare.Result) error {
	d := &resultReader{Reader: r, root: pointer, res: &hare.Result{}}
	*to = d.res
	err := d.result()
	if err == nil {
		err = d.indices()
	}
	return err
}

func (r *Reader) options(req *Request) error {
	o := &req.Options
	return r.Object(optionFields, func(name string) (bool, error) {
		switch name {
		case "time_limit_s":
			return true, r.timeLimit(&o.TimeLimit, 0)
		case "work_limit":
			return true, r.Integer(&o.WorkLimit, 0, hare.MaxExact)
		case "gap":
			var millionths int64
			req.HasGap = true
			err := r.Micros(&millionths, 0)
			if err == nil && millionths > 1e6 {
				return true, r.Fault("out_of_range", "must be between 0 and 1")
			}
			o.Gap = float64(millionths) / 1e6
			return true, err
		case "seed":
			return true, r.Integer(&o.Seed, -hare.MaxExact, hare.MaxExact)
		case "bound":
			return true, r.Word(&o.Bound)
		case "order":
			return true, r.Word(&o.Order)
		case "assign":
			return true, r.Word(&o.Assign)
		case "detail":
			return true, r.Word(&o.Detail)
		case "degrade":
			return true, r.Bool(&o.Degrade)
		}
		return false, nil
	})
}
