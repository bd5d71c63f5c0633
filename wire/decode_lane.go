package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/hare-sched/hare"
)

// lane reads one lane and appends it, faulty or not, so that the index of a
// lane is its place in the document.
func (d *resultReader) lane() error {
	l := hare.Lane{}
	if !d.Is('{') {
		d.res.Schedule.Lanes = append(d.res.Schedule.Lanes, l)
		_, err := d.Want('{')
		return err
	}
	before := len(d.faults)
	err := d.Object(laneFields, func(name string) (bool, error) {
		switch name {
		case "gpu":
			return true, d.String(&l.GPU)
		case "job":
			return true, column(d.Reader, &l.Job, math.MaxInt32)
		case "round":
			return true, d.column(&l.Round, hare.MaxExact)
		case "rounds":
			return true, d.column(&l.Rounds, hare.MaxExact)
		case "tasks":
			return true, d.column(&l.Tasks, hare.MaxExact)
		case "period_us":
			return true, d.column(&l.PeriodUs, hare.MaxExact)
		case "start_us":
			return true, d.column(&l.StartUs, hare.MaxExact)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if len(d.faults) == before {
		err = d.equalColumns(&l)
	}
	d.res.Schedule.Lanes = append(d.res.Schedule.Lanes, l)
	return err
}

// equalColumns checks that each column given has an entry a row.
func (d *resultReader) equalColumns(l *hare.Lane) error {
	switch {
	case l.Job == nil:
		return d.Fault("missing_field", `"job" is missing: a position in the schedule's jobs for each entry`)
	case l.StartUs == nil:
		return d.Fault("missing_field", `"start_us" is missing: a start for each entry, in microseconds`)
	}
	for _, c := range []struct {
		name   string
		column []int64
	}{{"start_us", l.StartUs}, {"round", l.Round}, {"rounds", l.Rounds}, {"tasks", l.Tasks}, {"period_us", l.PeriodUs}} {
		if c.column != nil && len(c.column) != len(l.Job) {
			return d.Fault("unequal_columns", "the columns of a lane must be equally long: job has %d entries, %s has %d", len(l.Job), c.name, len(c.column))
		}
	}
	return nil
}

// indices checks that every entry's job is one of the schedule's.
func (d *resultReader) indices() error {
	s := d.res.Schedule
	if s == nil {
		return nil
	}
	for i := range s.Lanes {
		for x, j := range s.Lanes[i].Job {
			if int(j) < len(s.Jobs) {
				continue
			}
			if err := d.FaultAt(d.root+"/schedule/lanes/"+strconv.Itoa(i)+"/job/"+strconv.Itoa(x), "out_of_range", "job %d: the schedule has %d jobs, counted from 0", j, len(s.Jobs)); err != nil {
				return err
			}
			break // one a lane says enough
		}
	}
	return nil
}

func (r *Reader) column(to *[]int64, most int64) error { return column(r, to, most) }

// column reads an array of whole numbers from 0 to most, straight from its
// text. O(length).
func column[T int32 | int64](r *Reader, to *[]T, most int64) error {
	if ok, err := r.Want('['); !ok {
		return err
	}
	v, err := r.d.ReadValue() // its syntax is checked from here on
	if err != nil {
		return r.broken(err)
	}
	out := make([]T, 0, bytes.Count(v, []byte(","))+1)
	for i := 1; i < len(v); {
		c := v[i]
		if c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ']' {
			i++
			continue
		}
		end := i
		var n int64
		for end < len(v) && '0' <= v[end] && v[end] <= '9' && end-i < 17 {
			n = n*10 + int64(v[end]-'0')
			end++
		}
		if end == i || n > most || !endsNumber(v[end]) {
			// Perhaps another way of writing a whole number, such as 1e3.
			for !endsNumber(v[end]) {
				end++
			}
			bad := hare.ErrDecimalRange
			if end-i <= maxNumber {
				n, bad = hare.ParseDecimal(string(v[i:end]), 0)
			}
			if bad != nil || n < 0 || n > most {
				return r.FaultAt(fmt.Sprintf("%s/%d", r.d.StackPointer(), len(out)), "out_of_range", "must be a whole number between 0 and %d", most)
			}
		}
		out = append(out, T(n))
		i = end
	}
	*to = out
	return nil
}

// endsNumber tells whether c cannot be within a number.
func endsNumber(c byte) bool {
	return c == ',' || c == ']' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}
