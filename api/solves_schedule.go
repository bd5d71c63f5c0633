package api

import (
	"bufio"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/wire"
)

const kindCSV = "text/csv"

// formats maps values of the query parameter format to media types.
var formats = map[string]string{"json": kindJSON, "ndjson": kindNDJSON, "csv": kindCSV}

// getSolveSchedule answers with the schedule or a part of it.
//
//	@Summary		The schedule of a solve, or a part of it
//	@Description	The answer as JSON is the schedule of the result. As NDJSON it has {"jobs": […]} on the first
//	@Description	line, and then one lane on each line. As CSV it has a line for each entry of a lane, with the
//	@Description	columns gpu, type, job, round (number of the first round, from 0), rounds (number of rounds),
//	@Description	tasks (number of tasks of a round, back to back), start_s (start of the first round), period_s
//	@Description	(time from round to round), compute_end_s and end_s (end of the compute and of the
//	@Description	synchronisation of the last task of the last round). ?job= and ?gpu=, which may be repeated,
//	@Description	select the entries of these jobs on these GPUs; ?from_s= and ?to_s= select the rounds that run
//	@Description	between these times, and shorten entries accordingly. Lanes without selected entries are left
//	@Description	out.
//	@Tags			solves
//	@ID				getSolveSchedule
//	@Param			id		path	string		true	"the solve"
//	@Param			format	query	string		false	"instead of Accept"	Enums(json,ndjson,csv)
//	@Param			job		query	[]string	false	"jobs to keep"		collectionFormat(multi)
//	@Param			gpu		query	[]string	false	"GPUs to keep, node/index"	collectionFormat(multi)
//	@Param			from_s	query	number		false	"seconds, not negative"	minimum(0)
//	@Param			to_s	query	number		false	"seconds, after from_s"	minimum(0)
//	@Produce		json,application/x-ndjson,text/csv,application/problem+json
//	@Success		200	{object}	openapi.Schedule	"the schedule"
//	@Failure		400	{object}	openapi.Problem		"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem		"no such solve, no result yet (no_result), or a result without a schedule (no_schedule)"
//	@Failure		406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure		410	{object}	openapi.Problem		"the solve was deleted"
//	@Failure		500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"busy: Retry-After says when to try again"
//	@Router			/v1/solves/{id}/schedule [get]
func (s *server) getSolveSchedule(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var kind string
	var err error
	if q.Has("format") {
		if kind = formats[q.Get("format")]; kind == "" {
			return badQuery("?format= must be json, ndjson or csv")
		}
	} else if kind, err = negotiate(r, kindJSON, kindNDJSON, kindCSV); err != nil {
		return err
	}
	fromUs, toUs, err := timeRange(q)
	if err != nil {
		return err
	}
	inst, res, err := s.drawable(r)
	if err != nil {
		return err
	}
	v, err := newView(inst, res.Schedule, q["job"], q["gpu"], fromUs, toUs)
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	if kind == kindCSV {
		kind += "; charset=utf-8; header=present"
	}
	w.Header().Set("Content-Type", kind)
	out := bufio.NewWriterSize(w, answerBytes)
	switch {
	case strings.HasPrefix(kind, kindCSV):
		err = v.csv(out)
	default:
		err = v.json(out, kind == kindNDJSON)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// drawable returns the result of the solve in the path, which has a schedule, and the instance that was scheduled.
func (s *server) drawable(r *http.Request) (*hare.Instance, *hare.Result, error) {
	inst, res, err := s.solved(r)
	if err == nil && res.Schedule == nil {
		err = plot.ErrNoSchedule
	}
	return inst, res, err
}

// timeRange reads the query parameters from_s and to_s and returns microseconds.
func timeRange(q url.Values) (fromUs, toUs int64, err error) {
	toUs = math.MaxInt64
	for name, to := range map[string]*int64{"from_s": &fromUs, "to_s": &toUs} {
		if !q.Has(name) {
			continue
		}
		us, err := hare.ParseMicros(q.Get(name))
		if err != nil || us < 0 || us > hare.MaxExact {
			return 0, 0, badQuery("?%s= must be seconds, not negative, with six decimals at most: %s=3600", name, name)
		}
		*to = us
	}
	if toUs <= fromUs {
		return 0, 0, badQuery("?to_s= must be after from_s")
	}
	return fromUs, toUs, nil
}

// view is the part of a schedule that a request selects.
type view struct {
	sched        *hare.Schedule
	types        map[string]string         // the type of each GPU by the name of the GPU
	jobs         []int32                   // the new index of each job of the schedule; -1 where the job is not selected
	ids          []string                  // ids of the selected jobs
	times        []map[onType]hare.Profile // profiles of the selected jobs
	counts       [][]int64                 // of the shapes of the selected jobs
	gpus         map[string]bool           // selected GPUs; empty means all
	fromUs, toUs int64
	whole        bool // everything is selected
}

// onType is a GPU type on which a job runs in one of its shapes.
type onType struct {
	shape int64
	kind  string
}

// newView refuses jobs and GPUs that do not exist. It takes O(GPUs + jobs) time.
func newView(inst *hare.Instance, sched *hare.Schedule, jobs, gpus []string, fromUs, toUs int64) (*view, error) {
	v := &view{sched: sched, types: map[string]string{}, gpus: map[string]bool{}, fromUs: fromUs, toUs: toUs,
		whole: len(jobs) == 0 && len(gpus) == 0 && fromUs == 0 && toUs == math.MaxInt64}
	for i := range inst.Cluster.Nodes {
		n := &inst.Cluster.Nodes[i]
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				v.types[n.Name+"/"+strconv.Itoa(at)] = g.Type
				at++
			}
		}
	}
	for _, gpu := range gpus {
		if _, ok := v.types[gpu]; !ok {
			return nil, badQuery("?gpu=%.100s is not a GPU of the instance: they are named node/index, as in %s/0", gpu,
				inst.Cluster.Nodes[0].Name)
		}
		v.gpus[gpu] = true
	}
	known, wanted := map[string]int{}, map[string]bool{}
	for i := range inst.Jobs {
		known[inst.Jobs[i].ID] = i
	}
	for _, id := range jobs {
		if _, ok := known[id]; !ok {
			return nil, badQuery("?job=%.100s is not a job of the instance", id)
		}
		wanted[id] = true
	}
	v.jobs = make([]int32, len(sched.Jobs))
	for i, id := range sched.Jobs {
		v.jobs[i] = -1
		if len(jobs) > 0 && !wanted[id] {
			continue
		}
		v.jobs[i] = int32(len(v.ids))
		job, times, counts := &inst.Jobs[known[id]], map[onType]hare.Profile{}, []int64(nil)
		for s := range job.ShapeCount() {
			shape := job.Shape(s)
			counts = append(counts, shape.Counts)
			for _, p := range shape.On {
				times[onType{int64(s), p.Type}] = p
			}
		}
		v.ids, v.times, v.counts = append(v.ids, id), append(v.times, times), append(v.counts, counts)
	}
	return v, nil
}

// roundTimes returns how long a round of an entry computes on its GPU, and how long until it
// has synchronised.
func (v *view) roundTimes(gpu string, e hare.Entry) (computeUs, totalUs int64) {
	p := v.times[e.Job][onType{e.Shape, v.types[gpu]}]
	computeUs = e.Tasks * p.ComputeUs
	return computeUs, computeUs + p.SyncUs
}

// clip clips an entry of the schedule to the rounds inside the range of time; ok is
// false where there are none.
func (v *view) clip(gpu string, e hare.Entry) (cut hare.Entry, ok bool) {
	if int(e.Job) >= len(v.jobs) || v.jobs[e.Job] < 0 {
		return e, false
	}
	e.Job = v.jobs[e.Job]
	_, long := v.roundTimes(gpu, e)
	first, last := int64(0), e.Rounds-1
	if e.PeriodUs > 0 {
		// Round i occupies [start + i·period, start + i·period + long).
		if gone := v.fromUs - long - e.StartUs; gone >= 0 {
			first = gone/e.PeriodUs + 1
		}
		if room := v.toUs - e.StartUs - 1; room < 0 {
			last = -1
		} else {
			last = min(last, room/e.PeriodUs)
		}
	} else if e.StartUs+long <= v.fromUs || e.StartUs >= v.toUs {
		return e, false
	}
	if first > last {
		return e, false
	}
	if e.Shape < int64(len(v.counts[e.Job])) {
		e.Round += first * v.counts[e.Job][e.Shape]
	}
	e.StartUs += first * e.PeriodUs
	if e.Rounds = last - first + 1; e.Rounds == 1 {
		e.PeriodUs = 0
	}
	return e, true
}

// lanes yields the selected part of each lane, in order. A lane is valid until the next
// one is yielded. One lane is copied at a time.
func (v *view) lanes(yield func(*hare.Lane) error) error {
	var cut hare.Lane
	for i := range v.sched.Lanes {
		l := &v.sched.Lanes[i]
		switch {
		case v.whole:
			if err := yield(l); err != nil {
				return err
			}
			continue
		case len(v.gpus) > 0 && !v.gpus[l.GPU]:
			continue
		}
		cut = hare.Lane{GPU: l.GPU, Job: cut.Job[:0], Round: cut.Round[:0], Rounds: cut.Rounds[:0], Tasks: cut.Tasks[:0],
			PeriodUs: cut.PeriodUs[:0], StartUs: cut.StartUs[:0], Shape: cut.Shape[:0]}
		for x := range l.Job {
			e, ok := v.clip(l.GPU, l.Entry(x))
			if !ok {
				continue
			}
			cut.Job = append(cut.Job, e.Job)
			cut.Round, cut.Rounds, cut.Tasks = append(cut.Round, e.Round), append(cut.Rounds, e.Rounds),
				append(cut.Tasks, e.Tasks)
			cut.PeriodUs, cut.StartUs = append(cut.PeriodUs, e.PeriodUs), append(cut.StartUs, e.StartUs)
			cut.Shape = append(cut.Shape, e.Shape)
		}
		if len(cut.Job) > 0 {
			if err := yield(&cut); err != nil {
				return err
			}
		}
	}
	return nil
}

// json writes the schedule as in a result or, with lines, as NDJSON: the jobs first,
// then one lane a line.
func (v *view) json(w io.Writer, lines bool) error {
	b := append([]byte(nil), `{"jobs":[`...)
	for i, id := range v.ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, id)
	}
	b = append(b, `]`...)
	if lines {
		b = append(b, '}')
	} else {
		b = append(b, `,"lanes":[`...)
	}
	first := true
	err := v.lanes(func(l *hare.Lane) error {
		if !lines && !first {
			b = append(b, ',')
		}
		first = false
		b = wire.AppendLane(append(b, '\n'), l)
		_, err := w.Write(b)
		b = b[:0]
		return err
	})
	if err != nil {
		return err
	}
	if !lines {
		b = append(b, "]}"...)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// csv writes one line for each entry, which ends with its shape if some job has shapes.
func (v *view) csv(w io.Writer) error {
	b := append([]byte(nil), "gpu,type,job,round,rounds,tasks,start_s,period_s,compute_end_s,end_s"...)
	shaped := slices.ContainsFunc(v.counts, func(counts []int64) bool { return len(counts) > 1 || counts[0] > 1 })
	if shaped {
		b = append(b, ",shape"...)
	}
	b = append(b, '\n')
	err := v.lanes(func(l *hare.Lane) error {
		for x := range l.Job {
			e := l.Entry(x)
			b = appendField(b, l.GPU)
			b = appendField(append(b, ','), v.types[l.GPU])
			b = appendField(append(b, ','), v.ids[e.Job])
			for _, n := range []int64{e.Round, e.Rounds, e.Tasks} {
				b = strconv.AppendInt(append(b, ','), n, 10)
			}
			compute, total := v.roundTimes(l.GPU, e)
			last := e.StartUs + (e.Rounds-1)*e.PeriodUs
			for _, us := range []int64{e.StartUs, e.PeriodUs, last + compute, last + total} {
				b = hare.AppendMicros(append(b, ','), us)
			}
			if shaped {
				b = strconv.AppendInt(append(b, ','), e.Shape, 10)
			}
			b = append(b, '\n')
			if len(b) >= answerBytes/2 {
				if _, err := w.Write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// appendField appends a field of CSV (RFC 4180).
func appendField(b []byte, text string) []byte {
	if !strings.ContainsAny(text, ",\"\r\n") {
		return append(b, text...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(text, `"`, `""`)...)
	return append(b, '"')
}
