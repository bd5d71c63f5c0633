package wire

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// scheduleDoc is a schedule that is read or written.
type scheduleDoc struct {
	*hare.Schedule
	d *resultReader
}

var scheduleTable = NewTable("Schedule", "Schedule gives every task a GPU and a start.",
	NewField("jobs", ListOf(Schema{"type": "string"}),
		func(r *Reader, v *scheduleDoc) error {
			return r.Array(func(int) error {
				id := ""
				err := r.String(&id)
				v.Jobs = append(v.Jobs, id)
				return err
			})
		}, func(b []byte, v *scheduleDoc) []byte { return appendList(b, v.Jobs, AppendString) }).
		Required("give the ids that lanes index").About("jobs are the ids that lanes refer to by position."),
	NewField("lanes", ListOf(RefTo(laneTable)),
		func(r *Reader, v *scheduleDoc) error { return r.Array(func(int) error { return v.d.lane() }) },
		func(b []byte, v *scheduleDoc) []byte { return appendObjects(b, v.Lanes, laneTable) }).
		Required("give an array with a lane a GPU").
		About("lanes of the GPUs that do something. Running work and setups have no entries."),
)

func (d *resultReader) schedule() error {
	s := &hare.Schedule{}
	if d.Is('{') {
		d.res.Schedule = s
	}
	return scheduleTable.Read(d.Reader, &scheduleDoc{s, d})
}

func appendSchedule(b []byte, s *hare.Schedule) []byte {
	return scheduleTable.Append(b, &scheduleDoc{Schedule: s})
}

var laneTable = NewTable("Lane",
	"Lane is what one GPU does: columns of equal length, in time order. Entry i is rounds[i] rounds of a job from "+
		"round[i] on, each of tasks[i] tasks back to back, round r starting at start_us[i] + (r − "+
		"round[i])·period_us[i]. For a job with shapes round counts units, of which each round does as many as its shape "+
		"counts.",
	String("gpu", func(v *hare.Lane) *string { return &v.GPU }).Needed().About("gpu is node/index.").Example("a/0"),
	NewField("job", integers,
		func(r *Reader, v *hare.Lane) error { return column(r, &v.Job, math.MaxInt32) },
		func(b []byte, v *hare.Lane) []byte { return appendColumn(b, v.Job) }).Needed().
		About("job is a position in the schedule's jobs."),
	laneColumn("round", func(v *hare.Lane) *[]int64 { return &v.Round }, 0),
	laneColumn("rounds", func(v *hare.Lane) *[]int64 { return &v.Rounds }, 1),
	laneColumn("tasks", func(v *hare.Lane) *[]int64 { return &v.Tasks }, 1),
	laneColumn("period_us", func(v *hare.Lane) *[]int64 { return &v.PeriodUs }, 0),
	NewField("start_us", integers,
		func(r *Reader, v *hare.Lane) error { return r.column(&v.StartUs, hare.MaxExact) },
		func(b []byte, v *hare.Lane) []byte { return appendColumn(b, v.StartUs) }).Needed().
		About("start_us is when the first round of the entry starts."),
	laneColumn("shape", func(v *hare.Lane) *[]int64 { return &v.Shape }, 0),
).Check(func(v *hare.Lane, has Members, found *hare.InvalidErrors) {
	if has.Sound {
		checkColumns(v, found)
	}
})

// laneColumn is a column that is left out where all its entries have the default.
func laneColumn(name string, at func(*hare.Lane) *[]int64, otherwise int64) Field[hare.Lane] {
	return NewField(name, integers,
		func(r *Reader, v *hare.Lane) error { return r.column(at(v), hare.MaxExact) },
		func(b []byte, v *hare.Lane) []byte {
			xs := *at(v)
			if !slices.ContainsFunc(xs, func(x int64) bool { return x != otherwise }) {
				return b
			}
			return appendColumn(b, xs)
		}).
		About(fmt.Sprintf("%s is %d throughout when left out.", name, otherwise))
}

// lane reads one lane and appends it even if it has faults, so that the index of a
// lane is its position in the document.
func (d *resultReader) lane() error {
	l := hare.Lane{}
	err := laneTable.Read(d.Reader, &l)
	d.res.Schedule.Lanes = append(d.res.Schedule.Lanes, l)
	return err
}

func AppendLane(b []byte, l *hare.Lane) []byte { return laneTable.Append(b, l) }

// checkColumns reports columns that lack entries.
func checkColumns(l *hare.Lane, found *hare.InvalidErrors) {
	switch {
	case l.Job == nil:
		found.Add("", "missing_field", `"job" is missing: a position in the schedule's jobs for each entry`)
		return
	case l.StartUs == nil:
		found.Add("", "missing_field", `"start_us" is missing: a start for each entry, in microseconds`)
		return
	}
	for _, c := range []struct {
		name   string
		column []int64
	}{{"start_us", l.StartUs}, {"round", l.Round}, {"rounds", l.Rounds}, {"tasks", l.Tasks},
		{"period_us", l.PeriodUs}, {"shape", l.Shape}} {
		if c.column != nil && len(c.column) != len(l.Job) {
			found.Add("", "unequal_columns", "the columns of a lane must be equally long: job has %d entries, %s "+
				"has %d", len(l.Job), c.name, len(c.column))
			return
		}
	}
}

// indices checks that the job of every entry is one of the schedule's jobs.
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
			if err := d.FaultAt(d.root+"/schedule/lanes/"+strconv.Itoa(i)+"/job/"+strconv.Itoa(x), "out_of_range",
				"job %d: the schedule has %d jobs, counted from 0", j, len(s.Jobs)); err != nil {
				return err
			}
			break // one fault for each lane suffices
		}
	}
	return nil
}

func (r *Reader) column(to *[]int64, most int64) error { return column(r, to, most) }

// column parses an array of whole numbers from 0 to most directly from its text. It
// takes O(length).
func column[T int32 | int64](r *Reader, to *[]T, most int64) error {
	if ok, err := r.Want('['); !ok {
		return err
	}
	v, err := r.d.ReadValue() // the loop below checks the syntax
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
			// The number may be a whole number in another form, such as 1e3.
			for !endsNumber(v[end]) {
				end++
			}
			bad := hare.ErrDecimalRange
			if end-i <= maxNumber {
				n, bad = hare.ParseDecimal(string(v[i:end]), 0)
			}
			if bad != nil || n < 0 || n > most {
				return r.FaultAt(fmt.Sprintf("%s/%d", r.d.StackPointer(), len(out)), "out_of_range",
					"must be a whole number between 0 and %d", most)
			}
		}
		out = append(out, T(n))
		i = end
	}
	*to = out
	return nil
}

// endsNumber reports whether c cannot be part of a number.
func endsNumber(c byte) bool {
	return c == ',' || c == ']' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
}
