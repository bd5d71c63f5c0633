package wire

import (
	"io"
	"strconv"

	"github.com/hare-sched/hare"
)

// DecodeResult reads a result/v1 document, as one object or as NDJSON with a
// lane a line. Schedule and certificate are strict; fields of the result that
// this version does not know are passed over. O(size), without reflection,
// holding little more than the result.
func DecodeResult(r io.Reader, lim Limits) (*hare.Result, error) {
	rd := NewReader(r, lim)
	d := &resultReader{Reader: rd, res: &hare.Result{}}
	err := d.result()
	if s := d.res.Schedule; s != nil {
		for err == nil && rd.Is('{') {
			rd.prefix = "/schedule/lanes/" + strconv.Itoa(len(s.Lanes))
			err = d.lane()
		}
		rd.prefix = ""
		if err == nil {
			err = d.indices()
		}
	}
	rd.prefix = ""
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return d.res, nil
}

// DecodeCertificate reads a certificate/v1 document.
func DecodeCertificate(r io.Reader, lim Limits) (*hare.Certificate, error) {
	rd := NewReader(r, lim)
	d := &resultReader{Reader: rd, res: &hare.Result{}}
	if err := rd.Finish(d.certificate()); err != nil {
		return nil, err
	}
	return d.res.Certificate, nil
}

type resultReader struct {
	*Reader
	root string // pointer of the result in its document
	res  *hare.Result
}

func (d *resultReader) result() error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	form, before := "", len(d.faults)
	r := d.res
	err := d.Object(nil, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.String(&form)
		case "instance_sha256":
			return true, d.sha256(&r.InstanceSHA256)
		case "version":
			return true, d.String(&r.Version)
		case "status":
			return true, d.String(&r.Status)
		case "termination":
			return true, d.String(&r.Termination)
		case "objective":
			return true, d.String(&r.Objective)
		case "seed":
			return true, d.Integer(&r.Seed, -1<<63, 1<<63-1)
		case "reproducible":
			return true, d.Bool(&r.Reproducible)
		case "degraded":
			return true, d.Bool(&r.Degraded)
		case "value":
			return true, d.amount(&r.Value)
		case "bound":
			return true, d.amount(&r.Bound)
		case "gap":
			return true, d.gap()
		case "jobs":
			if d.Is('n') {
				return true, d.Skip()
			}
			return true, d.Array(func(int) error { return d.jobResult() })
		case "schedule":
			if d.Is('n') {
				return true, d.Skip()
			}
			return true, d.schedule()
		case "certificate":
			if d.Is('n') {
				return true, d.Skip()
			}
			return true, d.certificate()
		case "replan":
			return true, d.replan()
		}
		return true, d.info(name)
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	if form != ResultForm {
		found.Add(d.root+"/hare", "unknown_form", "must be %q", ResultForm)
	}
	return d.Report(before, found)
}

// amount reads an exact value with up to twelve decimals; null is none.
func (d *resultReader) amount(to **hare.Amount) error {
	if d.Is('n') {
		return d.Skip()
	}
	text, ok, err := d.Number()
	if !ok {
		return err
	}
	a, bad := hare.ParseAmount(text)
	if bad != nil {
		return d.Fault("bad_amount", "%s %v", hare.Clip(text), bad)
	}
	*to = &a
	return nil
}

// gap reads the gap that is stated, which may lie beyond every amount.
func (d *resultReader) gap() error {
	if d.Is('n') {
		d.res.StatedGap = "null"
		return d.Skip()
	}
	text, ok, err := d.Number()
	if !ok {
		return err
	}
	gap, bad := hare.TrimDecimal(text)
	if bad != nil {
		return d.Fault("bad_amount", "%s %v", hare.Clip(text), bad)
	}
	d.res.StatedGap = gap
	return nil
}

func (d *resultReader) jobResult() error {
	j := hare.JobResult{StartUs: -1, EndUs: -1}
	err := d.Object(nil, func(name string) (bool, error) {
		switch name {
		case "id":
			return true, d.String(&j.ID)
		case "start_s":
			return true, d.Micros(&j.StartUs, 0)
		case "end_s":
			return true, d.Micros(&j.EndUs, 0)
		}
		return true, d.Skip()
	})
	d.res.Jobs = append(d.res.Jobs, j)
	return err
}
