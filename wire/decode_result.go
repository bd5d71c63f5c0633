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
	rd := newReader(r, lim)
	d := &resultReader{reader: rd, res: &hare.Result{}}
	err := d.result()
	if s := d.res.Schedule; s != nil {
		for err == nil && rd.is('{') {
			rd.prefix = "/schedule/lanes/" + strconv.Itoa(len(s.Lanes))
			err = d.lane()
		}
		rd.prefix = ""
		if err == nil {
			err = d.indices()
		}
	}
	rd.prefix = ""
	if err := rd.finish(err); err != nil {
		return nil, err
	}
	return d.res, nil
}

// DecodeCertificate reads a certificate/v1 document.
func DecodeCertificate(r io.Reader, lim Limits) (*hare.Certificate, error) {
	rd := newReader(r, lim)
	d := &resultReader{reader: rd, res: &hare.Result{}}
	if err := rd.finish(d.certificate("")); err != nil {
		return nil, err
	}
	return d.res.Certificate, nil
}

// boundForm is the one way to write a bound: six decimals, no other zeros in
// front or behind. It is a string so that no reader goes through a float.
var boundForm = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,40})\.[0-9]{6}$`)

type resultReader struct {
	*reader
	root string // pointer of the result in its document
	res  *hare.Result
}

func (d *resultReader) result() error {
	if !d.is('{') {
		_, err := d.want('{')
		return err
	}
	form, before := "", len(d.faults)
	r := d.res
	err := d.object(nil, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.str(&form)
		case "instance_sha256":
			return true, d.sha256(&r.InstanceSHA256)
		case "version":
			return true, d.str(&r.Version)
		case "status":
			return true, d.str(&r.Status)
		case "termination":
			return true, d.str(&r.Termination)
		case "objective":
			return true, d.str(&r.Objective)
		case "seed":
			return true, d.integer(&r.Seed, -1<<63, 1<<63-1)
		case "reproducible":
			return true, d.boolean(&r.Reproducible)
		case "degraded":
			return true, d.boolean(&r.Degraded)
		case "value":
			return true, d.amount(&r.Value)
		case "bound":
			return true, d.amount(&r.Bound)
		case "gap":
			return true, d.gap()
		case "jobs":
			if d.is('n') {
				return true, d.skip()
			}
			return true, d.array(func(int) error { return d.jobResult() })
		case "schedule":
			if d.is('n') {
				return true, d.skip()
			}
			return true, d.schedule()
		case "certificate":
			if d.is('n') {
				return true, d.skip()
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
	return d.report(before, found)
}

// amount reads an exact value with up to twelve decimals; null is none.
func (d *resultReader) amount(to **hare.Amount) error {
	if d.is('n') {
		return d.skip()
	}
	text, ok, err := d.number()
	if !ok {
		return err
	}
	a, bad := hare.ParseAmount(text)
	if bad != nil {
		return d.fault("bad_amount", "%s %v", hare.Clip(text), bad)
	}
	*to = &a
	return nil
}

// gap reads the gap that is stated, which may lie beyond every amount.
func (d *resultReader) gap() error {
	if d.is('n') {
		d.res.StatedGap = "null"
		return d.skip()
	}
	text, ok, err := d.number()
	if !ok {
		return err
	}
	gap, bad := hare.TrimDecimal(text)
	if bad != nil {
		return d.fault("bad_amount", "%s %v", hare.Clip(text), bad)
	}
	d.res.StatedGap = gap
	return nil
}

func (d *resultReader) jobResult() error {
	j := hare.JobResult{StartUs: -1, EndUs: -1}
	err := d.object(nil, func(name string) (bool, error) {
		switch name {
		case "id":
			return true, d.str(&j.ID)
		case "start_s":
			return true, d.micros(&j.StartUs, 0)
		case "end_s":
			return true, d.micros(&j.EndUs, 0)
		}
		return true, d.skip()
	})
	d.res.Jobs = append(d.res.Jobs, j)
	return err
}

func (d *resultReader) schedule() error {
	if !d.is('{') {
		_, err := d.want('{')
		return err
	}
	s := &hare.Schedule{}
	d.res.Schedule = s
	hasJobs, hasLanes := false, false
	before := len(d.faults)
	err := d.object(scheduleFields, func(name string) (bool, error) {
		switch name {
		case "jobs":
			hasJobs = true
			return true, d.array(func(int) error {
				id := ""
				err := d.str(&id)
				s.Jobs = append(s.Jobs, id)
				return err
			})
		case "lanes":
			hasLanes = true
			return true, d.array(func(int) error { return d.lane() })
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
	return d.report(before, found)
}

func (d *resultReader) certificate(at string) error {
	if !d.is('{') {
		_, err := d.want('{')
		return err
	}
	c := &hare.Certificate{}
	form, before := "", len(d.faults)
	err := d.object(certificateFields, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.str(&form)
		case "method":
			return true, d.str(&c.Method)
		case "path":
			return true, d.boolean(&c.Path)
		case "instance_sha256":
			return true, d.sha256(&c.InstanceSHA256)
		case "objective":
			return true, d.str(&c.Objective)
		case "bound":
			before := len(d.faults)
			if err := d.str(&c.Bound); err != nil || len(d.faults) > before {
				return true, err
			}
			if !boundForm.MatchString(c.Bound) || c.Bound == "-0.000000" {
				return true, d.fault("bad_amount", `%q is no bound: give a decimal with six places as a string, such as "37.614500"`, hare.Clip(c.Bound))
			}
			return true, nil
		case "grid_us":
			return true, d.column(&c.GridUs, hare.MaxExact)
		case "prices":
			return true, d.object(nil, func(kind string) (bool, error) {
				p := hare.TypePrices{Type: kind}
				err := d.column(&p.Nanos, hare.MaxExact)
				c.Prices = append(c.Prices, p)
				return true, err
			})
		case "sizes":
			return true, d.object(nil, func(kind string) (bool, error) {
				return true, d.object(nil, func(tasks string) (bool, error) { return true, d.size(c, kind, tasks) })
			})
		case "step_us":
			return true, d.integer(&c.StepUs, 1, hare.MaxExact)
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
	if form != CertificateForm {
		found.Add(at+"/hare", "unknown_form", "must be %q", CertificateForm)
	}
	return d.report(before, found)
}

// size reads the prices of so many GPUs of a type.
func (d *resultReader) size(c *hare.Certificate, kind, tasks string) error {
	n, bad := strconv.ParseInt(tasks, 10, 64)
	if bad != nil || n < 2 || n > hare.MaxTasks(hare.Gang) || strconv.FormatInt(n, 10) != tasks {
		if err := d.skip(); err != nil {
			return err
		}
		return d.fault("bad_size", "%q is no number of GPUs held together: give 2 to %d", hare.Clip(tasks), hare.MaxTasks(hare.Gang))
	}
	p := hare.SizePrices{Type: kind, Tasks: n}
	err := d.column(&p.Nanos, hare.MaxExact)
	c.Sizes = append(c.Sizes, p)
	return err
}
