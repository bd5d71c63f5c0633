package wire

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

var (
	scheduleFields    = []string{"jobs", "lanes"}
	laneFields        = []string{"gpu", "job", "round", "rounds", "tasks", "period_us", "start_us"}
	certificateFields = []string{"hare", "method", "path", "instance_sha256", "objective", "bound", "grid_us", "prices", "sizes", "step_us"}
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
	if err := rd.Finish(d.certificate("")); err != nil {
		return nil, err
	}
	return d.res.Certificate, nil
}

// boundForm is the one way to write a bound: six decimals, no other zeros in
// front or behind. It is a string so that no reader goes through a float.
var boundForm = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,40})\.[0-9]{6}$`)

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
			return true, d.certificate(d.root + "/certificate")
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

func (d *resultReader) schedule() error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	s := &hare.Schedule{}
	d.res.Schedule = s
	hasJobs, hasLanes := false, false
	before := len(d.faults)
	err := d.Object(scheduleFields, func(name string) (bool, error) {
		switch name {
		case "jobs":
			hasJobs = true
			return true, d.Array(func(int) error {
				id := ""
				err := d.String(&id)
				s.Jobs = append(s.Jobs, id)
				return err
			})
		case "lanes":
			hasLanes = true
			return true, d.Array(func(int) error { return d.lane() })
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	at := d.root + "/schedule"
	if !hasJobs {
		found.Add(at, "missing_field", `"jobs" is missing: give the ids that lanes index`)
	}
	if !hasLanes {
		found.Add(at, "missing_field", `"lanes" is missing: give an array with a lane a GPU`)
	}
	return d.Report(before, found)
}

func (d *resultReader) certificate(at string) error {
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	c := &hare.Certificate{}
	form, sizes, before := "", false, len(d.faults)
	err := d.Object(certificateFields, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.String(&form)
		case "method":
			return true, d.String(&c.Method)
		case "path":
			return true, d.Bool(&c.Path)
		case "instance_sha256":
			return true, d.sha256(&c.InstanceSHA256)
		case "objective":
			return true, d.String(&c.Objective)
		case "bound":
			before := len(d.faults)
			if err := d.String(&c.Bound); err != nil || len(d.faults) > before {
				return true, err
			}
			if !boundForm.MatchString(c.Bound) || c.Bound == "-0.000000" {
				return true, d.Fault("bad_amount", `%q is no bound: give a decimal with six places as a string, such as "37.614500"`, hare.Clip(c.Bound))
			}
			return true, nil
		case "grid_us":
			return true, d.column(&c.GridUs, hare.MaxExact)
		case "prices":
			return true, d.Object(nil, func(kind string) (bool, error) {
				p := hare.TypePrices{Type: kind}
				err := d.column(&p.Nanos, hare.MaxExact)
				c.Prices = append(c.Prices, p)
				return true, err
			})
		case "sizes":
			return true, d.Object(nil, func(kind string) (bool, error) {
				sizes = true
				return true, d.Object(nil, func(tasks string) (bool, error) { return true, d.size(c, kind, tasks) })
			})
		case "step_us":
			return true, d.Integer(&c.StepUs, 1, hare.MaxExact)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(c.Sizes, func(a, b hare.SizePrices) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), cmp.Compare(a.Tasks, b.Tasks))
	})
	slices.SortFunc(c.Prices, func(a, b hare.TypePrices) int { return strings.Compare(a.Type, b.Type) })
	d.res.Certificate = c
	var found hare.InvalidErrors
	if sizes && c.Method != hare.MethodPrice {
		found.Add(at+"/sizes", "not_allowed", "belongs to certificates of method price")
	}
	if form != CertificateForm {
		found.Add(at+"/hare", "unknown_form", "must be %q", CertificateForm)
	}
	return d.Report(before, found)
}

// size reads the prices of so many GPUs of a type.
func (d *resultReader) size(c *hare.Certificate, kind, tasks string) error {
	n, bad := strconv.ParseInt(tasks, 10, 64)
	if bad != nil || n < 2 || n > hare.MaxTasks(hare.Gang) || strconv.FormatInt(n, 10) != tasks {
		if err := d.Skip(); err != nil {
			return err
		}
		return d.Fault("bad_size", "%q is no number of GPUs held together: give 2 to %d", hare.Clip(tasks), hare.MaxTasks(hare.Gang))
	}
	p := hare.SizePrices{Type: kind, Tasks: n}
	err := d.column(&p.Nanos, hare.MaxExact)
	c.Sizes = append(c.Sizes, p)
	return err
}
