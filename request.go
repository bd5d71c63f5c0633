package hare

import (
	"io"
	"time"
)

var (
	requestFields = []string{"instance", "options", "method", "result"}
	optionFields  = []string{"time_limit_s", "work_limit", "gap", "seed", "bound", "order", "assign", "detail"}
)

// Request is the document of one call: an instance with what to do about it.
type Request struct {
	Instance *Instance
	Options  Options
	HasGap   bool // options name a gap
	Method   string
	Result   *Result
}

// DecodeRequest reads {instance, options, method, result}, strictly, every
// fault with a pointer into the whole document.
func DecodeRequest(r io.Reader, lim Limits) (*Request, error) {
	rd, err := newReader(r, lim)
	if err != nil {
		return nil, err
	}
	req := &Request{}
	req.Options.Seed = 1
	err = rd.object(requestFields, func(name string) (bool, error) {
		switch name {
		case "instance":
			return true, rd.part(func(sub *reader) error {
				d := &instanceReader{reader: sub, inst: &Instance{}, ids: map[string]int{}, names: map[string]bool{}}
				req.Instance = d.inst
				err := d.instance()
				if err == nil && !d.hasJobs {
					err = d.faultAt("", "missing_field", `"jobs" is missing: give an array of jobs`)
				}
				return err
			})
		case "result":
			return true, rd.part(func(sub *reader) error {
				d := &resultReader{reader: sub, res: &Result{}}
				req.Result = d.res
				return d.result()
			})
		case "method":
			return true, rd.str(&req.Method)
		case "options":
			return true, rd.options(req)
		}
		return false, nil
	})
	if err := rd.finish(err); err != nil {
		return nil, err
	}
	return req, nil
}

// part reads the next value as a document of its own, its pointers prefixed.
func (r *reader) part(read func(*reader) error) error {
	v, err := r.d.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	sub := subReader(v, r.prefix+string(r.d.StackPointer()))
	err = sub.finishPart(read(sub))
	r.faults = append(r.faults, sub.faults...)
	return err
}

func (r *reader) options(req *Request) error {
	o := &req.Options
	return r.object(optionFields, func(name string) (bool, error) {
		switch name {
		case "time_limit_s":
			var us int64
			err := r.micros(&us, 0)
			if us > int64(24*time.Hour/time.Microsecond) {
				return true, r.fault("out_of_range", "must be at most 86400")
			}
			o.TimeLimit = time.Duration(us) * time.Microsecond
			return true, err
		case "work_limit":
			return true, r.integer(&o.WorkLimit, 0, MaxExact)
		case "gap":
			var millionths int64
			req.HasGap = true
			err := r.micros(&millionths, 0)
			if millionths > 1e6 {
				return true, r.fault("out_of_range", "must be between 0 and 1")
			}
			o.Gap = float64(millionths) / 1e6
			return true, err
		case "seed":
			return true, r.integer(&o.Seed, -MaxExact, MaxExact)
		case "bound":
			return true, r.str(&o.Bound)
		case "order":
			return true, r.str(&o.Order)
		case "assign":
			return true, r.str(&o.Assign)
		case "detail":
			return true, r.str(&o.Detail)
		}
		return false, nil
	})
}
