package hare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	scheduleFields    = []string{"jobs", "lanes"}
	laneFields        = []string{"gpu", "job", "round", "rounds", "tasks", "period_us", "start_us"}
	certificateFields = []string{"hare", "method", "path", "instance_sha256", "objective", "bound", "grid_us", "prices"}
)

// DecodeResult reads a result/v1 document, as one object or as NDJSON with a
// lane a line. Schedule and certificate are strict; fields of the result that
// this version does not know are passed over. O(size), without reflection.
func DecodeResult(r io.Reader, lim Limits) (*Result, error) {
	rd, err := newReader(r, lim)
	if err != nil {
		return nil, err
	}
	d := &resultReader{reader: rd, res: &Result{}}
	err = d.result()
	for n := 0; err == nil && d.res.Schedule != nil; n++ {
		if k := d.d.PeekKind(); k != '{' {
			break
		}
		d.prefix = "/schedule/lanes/" + strconv.Itoa(n)
		err = d.lane()
	}
	d.prefix = ""
	if err := d.finish(err); err != nil {
		return nil, err
	}
	return d.res, nil
}

// DecodeCertificate reads a certificate/v1 document.
func DecodeCertificate(r io.Reader, lim Limits) (*Certificate, error) {
	rd, err := newReader(r, lim)
	if err != nil {
		return nil, err
	}
	d := &resultReader{reader: rd, res: &Result{}}
	if err := d.finish(d.certificate()); err != nil {
		return nil, err
	}
	return d.res.Certificate, nil
}

type resultReader struct {
	*reader
	res *Result
}

func (d *resultReader) result() error {
	form := ""
	r := d.res
	err := d.object(nil, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.str(&form)
		case "instance_sha256":
			return true, d.str(&r.InstanceSHA256)
		case "version":
			return true, d.str(&r.Version)
		case "status":
			return true, d.str(&r.Status)
		case "termination":
			return true, d.str(&r.Termination)
		case "objective":
			return true, d.str(&r.Objective)
		case "seed":
			return true, d.integer(&r.Seed, -MaxExact, MaxExact)
		case "reproducible":
			return true, d.boolean(&r.Reproducible)
		case "value":
			return true, d.amount(&r.Value)
		case "bound":
			return true, d.amount(&r.Bound)
		case "jobs":
			return true, d.array(func(int) error { return d.jobResult() })
		case "schedule":
			if d.d.PeekKind() == 'n' {
				return true, d.skip()
			}
			return true, d.schedule()
		case "certificate":
			if d.d.PeekKind() == 'n' {
				return true, d.skip()
			}
			return true, d.certificate()
		case "timing":
			return true, d.timing()
		}
		return true, d.skip()
	})
	if err == nil && form != ResultForm && len(d.faults) == 0 {
		err = d.faultAt("/hare", "unknown_form", "must be %q", ResultForm)
	}
	return err
}

// timing keeps the total for plots; the rest is for people.
func (d *resultReader) timing() error {
	if d.d.PeekKind() != '{' {
		return d.skip()
	}
	return d.object(nil, func(name string) (bool, error) {
		if name != "total_s" || d.d.PeekKind() != '0' {
			return true, d.skip()
		}
		text, _, err := d.number()
		if f, bad := strconv.ParseFloat(text, 64); bad == nil && f < 1e9 {
			d.res.Timing.Total = time.Duration(f * float64(time.Second))
		}
		return true, err
	})
}

// amount reads an exact value with up to twelve decimals; null is none.
func (d *resultReader) amount(to **Amount) error {
	if d.d.PeekKind() == 'n' {
		return d.skip()
	}
	text, ok, err := d.number()
	if !ok {
		return err
	}
	a, bad := ParseAmount(text)
	if bad != nil {
		return d.fault("bad_amount", "%s %v", clip(text), bad)
	}
	*to = &a
	return nil
}

// ParseAmount reads a decimal with at most twelve decimals exactly.
func ParseAmount(text string) (Amount, error) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.Atoi(text[i+1:])
		if err != nil || e > 40 || e < -40 {
			return Amount{}, errDecimalRange
		}
		mantissa, exponent = text[:i], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if len(whole)+len(fraction) > 80 {
		return Amount{}, errDecimalRange
	}
	x, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return Amount{}, errDecimalSyntax
	}
	shift := 12 + exponent - len(fraction)
	pow := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		x.Mul(x, pow)
	} else {
		rest := new(big.Int)
		x.QuoRem(x, pow, rest)
		if rest.Sign() != 0 {
			return Amount{}, errors.New("has more than twelve decimals")
		}
	}
	a, ok := AmountFromBig(x)
	if !ok {
		return Amount{}, errDecimalRange
	}
	return a, nil
}

func (d *resultReader) jobResult() error {
	j := JobResult{StartUs: -1, EndUs: -1}
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
	d.res.Schedule = &Schedule{}
	return d.object(scheduleFields, func(name string) (bool, error) {
		switch name {
		case "jobs":
			return true, d.array(func(int) error {
				id := ""
				err := d.str(&id)
				d.res.Schedule.Jobs = append(d.res.Schedule.Jobs, id)
				return err
			})
		case "lanes":
			return true, d.array(func(int) error { return d.lane() })
		}
		return false, nil
	})
}

func (d *resultReader) lane() error {
	l := Lane{}
	before := len(d.faults)
	err := d.object(laneFields, func(name string) (bool, error) {
		switch name {
		case "gpu":
			return true, d.str(&l.GPU)
		case "job":
			var wide []int64
			err := d.column(&wide, 1<<31-1)
			l.Job = make([]int32, len(wide))
			for i, x := range wide {
				l.Job[i] = int32(x)
			}
			return true, err
		case "round":
			return true, d.column(&l.Round, MaxExact)
		case "rounds":
			return true, d.column(&l.Rounds, MaxExact)
		case "tasks":
			return true, d.column(&l.Tasks, MaxExact)
		case "period_us":
			return true, d.column(&l.PeriodUs, MaxExact)
		case "start_us":
			return true, d.column(&l.StartUs, MaxExact)
		}
		return false, nil
	})
	if err != nil || len(d.faults) > before {
		return err
	}
	for _, c := range [][]int64{l.Round, l.Rounds, l.Tasks, l.PeriodUs} {
		if c != nil && len(c) != len(l.Job) {
			return d.fault("unequal_columns", "the columns of a lane must be equally long: job has %d entries, another %d", len(l.Job), len(c))
		}
	}
	if len(l.StartUs) != len(l.Job) {
		return d.fault("unequal_columns", "the columns of a lane must be equally long: job has %d entries, start_us %d", len(l.Job), len(l.StartUs))
	}
	d.res.Schedule.Lanes = append(d.res.Schedule.Lanes, l)
	return nil
}

// column reads an array of whole numbers from 0 to most.
func (d *resultReader) column(to *[]int64, most int64) error {
	if ok, err := d.want('['); !ok {
		return err
	}
	v, err := d.d.ReadValue() // checked syntax from here on
	if err != nil {
		return d.broken(err)
	}
	out := make([]int64, 0, bytes.Count(v, []byte(","))+1)
	for i := 1; i < len(v); {
		switch c := v[i]; c {
		case ' ', '\t', '\r', '\n', ',', ']':
			i++
			continue
		}
		end := i
		var n int64
		for end < len(v) && v[end] >= '0' && v[end] <= '9' && end-i < 17 {
			n = n*10 + int64(v[end]-'0')
			end++
		}
		if end == i || n > most || end < len(v) && !bytes.ContainsRune([]byte(" \t\r\n,]"), rune(v[end])) {
			return d.faultAt(fmt.Sprintf("%s/%d", d.d.StackPointer(), len(out)), "out_of_range", "must be a whole number between 0 and %d", most)
		}
		out = append(out, n)
		i = end
	}
	*to = out
	return nil
}

func (d *resultReader) certificate() error {
	c := &Certificate{}
	form := ""
	before := len(d.faults)
	err := d.object(certificateFields, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.str(&form)
		case "method":
			return true, d.str(&c.Method)
		case "path":
			return true, d.boolean(&c.Path)
		case "instance_sha256":
			return true, d.str(&c.InstanceSHA256)
		case "objective":
			return true, d.str(&c.Objective)
		case "bound":
			return true, d.str(&c.Bound)
		case "grid_us":
			return true, d.column(&c.GridUs, MaxExact)
		case "prices":
			return true, d.object(nil, func(kind string) (bool, error) {
				p := TypePrices{Type: kind}
				err := d.column(&p.Nanos, MaxExact)
				c.Prices = append(c.Prices, p)
				return true, err
			})
		}
		return false, nil
	})
	if err != nil || len(d.faults) > before {
		return err
	}
	slices.SortFunc(c.Prices, func(a, b TypePrices) int { return strings.Compare(a.Type, b.Type) })
	at := string(d.d.StackPointer())
	if form != CertificateForm {
		return d.faultAt(at+"/hare", "unknown_form", "must be %q", CertificateForm)
	}
	d.res.Certificate = c
	return nil
}
