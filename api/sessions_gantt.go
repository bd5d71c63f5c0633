package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/wire"
)

// getSessionGanttSVG draws a session as SVG.
//
//	@Summary		Past, now and plan of a session as a picture that scales
//	@Description	What ran on the GPUs, what runs, and what the plan expects, where the policy makes plans: striped
//	@Description	bars run, lighter ones are planned, and a line is at now. The plan has the type of the GPUs alone:
//	@Description	their rows are an example. Without from_s the past is twice as long as the plan.
//	@Tags			sessions
//	@ID				getSessionGanttSvg
//	@Param			id		path	string	true	"the session"
//	@Param			from_s	query	number	false	"where the picture begins, in seconds of the session"	minimum(0)
//	@Param			width	query	int		false	"400 to 4000 CSS pixels: 1200 without it"	minimum(400)	maximum(4000)
//	@Produce		image/svg+xml,application/problem+json
//	@Success		200	{string}	string			"the picture"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		422	{object}	openapi.Problem	"the log is too long for a picture"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/sessions/{id}/gantt.svg [get]
func (s *server) getSessionGanttSVG(w http.ResponseWriter, r *http.Request) error {
	width, err := ganttWidth(r)
	if err != nil {
		return err
	}
	t, err := s.timeline(r)
	if err != nil {
		return err
	}
	ganttHeaders(w, plot.GanttSVG, "image/svg+xml")
	return t.SVG(w, plot.Options{Width: width})
}

// getSessionGanttHTML draws a session as an interactive page.
//
//	@Summary		Past, now and plan of a session as a page with zoom and search
//	@Description	The page is one file that makes no request.
//	@Tags			sessions
//	@ID				getSessionGanttHtml
//	@Param			id		path	string	true	"the session"
//	@Param			from_s	query	number	false	"where the page begins, in seconds of the session"	minimum(0)
//	@Produce		html,application/problem+json
//	@Success		200	{string}	string			"the page"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		422	{object}	openapi.Problem	"the log is too long for a page"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/sessions/{id}/gantt.html [get]
func (s *server) getSessionGanttHTML(w http.ResponseWriter, r *http.Request) error {
	t, err := s.timeline(r)
	if err != nil {
		return err
	}
	ganttHeaders(w, plot.GanttHTML, "text/html; charset=utf-8")
	return t.HTML(w)
}

const (
	// mostDrawnEvents is the length of the longest log of which a picture is drawn: of a longer one it takes seconds.
	mostDrawnEvents = 500_000
	// mostPlanned is how many planned jobs are drawn, the first.
	mostPlanned = 1000
)

// timeline reads the past of the session of a request from its log, and the plan.
func (s *server) timeline(r *http.Request) (*plot.Timeline, error) {
	session, err := s.session(r)
	if err != nil {
		return nil, err
	}
	info := session.Info()
	if info.Last > mostDrawnEvents {
		return nil, &statusError{http.StatusUnprocessableEntity, "too_large", fmt.Sprintf("the log has %d events, and at "+
			"most %d are drawn", info.Last, mostDrawnEvents)}
	}
	plan, err := session.Plan(r.Context())
	if err != nil && !errors.As(err, new(*sessions.NoPlansError)) {
		return nil, err
	}
	if plan != nil {
		// Of a job that was on its GPUs before a plan had it, the plan has no end.
		outlook, err := session.Outlook(r.Context())
		if err != nil {
			return nil, err
		}
		for i := range plan.Jobs {
			j := &plan.Jobs[i]
			if row := outlook.Row(j.Job); row != nil && j.Running && j.EndUs < 0 {
				j.EndUs = row.EndUs
			}
		}
	}
	past := newSessionPast(&info.Config.Cluster)
	past.followed = info.Followed != nil
	for rec, err := range upTo(session.Log(r.Context(), 0), info.Last) {
		if err != nil {
			return nil, err
		}
		past.add(&rec)
	}
	nowUs := past.atUs
	if info.Config.Clock == sessions.ClockServer {
		nowUs = max(nowUs, time.Since(info.Created).Microseconds())
	}
	endUs := nowUs
	if plan != nil {
		for i := range plan.Jobs[:min(len(plan.Jobs), mostPlanned)] {
			endUs = max(endUs, plan.Jobs[i].EndUs)
		}
	}
	fromUs := int64(0)
	if endUs > nowUs {
		fromUs = max(0, nowUs-2*(endUs-nowUs))
	}
	if r.URL.Query().Has("from_s") {
		fromUs, err = hare.ParseMicros(r.URL.Query().Get("from_s"))
		if err != nil || fromUs < 0 || fromUs > nowUs {
			return nil, badQuery("?from_s= must be seconds of the session, of which %s have passed", hare.FormatMicros(nowUs))
		}
	}
	past.end(nowUs, plan)
	return past.timeline("Session "+session.ID(), fromUs, nowUs, endUs), nil
}

// sessionPast is what the log of a session says of its GPUs.
type sessionPast struct {
	// followed says that a helper keeps the session: what the session starts has run only where the cluster's scheduler
	// has started it by the next loop, each of which ends with a tick.
	followed bool
	loops    int

	atUs    int64 // of the last event
	gpus    []plot.TimelineGPU
	serves  []bool // of gpus
	gpuOf   map[string]int
	jobs    []string
	jobOf   map[string]int
	asks    []int64 // of jobs: GPUs
	running map[runningTask]heldGPUs
	spans   []plot.TimelineSpan // in the time of the session
	last    []int               // of gpus: the last of spans there, −1 for none
}

type runningTask struct {
	job         string
	round, task int64
}

type heldGPUs struct {
	gpus    []string
	startUs int64
	loop    int
}

func newSessionPast(cluster *hare.Cluster) *sessionPast {
	p := &sessionPast{gpuOf: map[string]int{}, jobOf: map[string]int{}, running: map[runningTask]heldGPUs{}}
	for i := range cluster.Nodes {
		p.join(&cluster.Nodes[i])
	}
	return p
}

func (p *sessionPast) join(n *hare.Node) {
	at := 0
	for _, g := range n.GPUs {
		for range g.Count {
			p.gpu(n.Name+"/"+strconv.Itoa(at), g.Type)
			at++
		}
	}
}

// gpu notes that a GPU is in service, and returns its place.
func (p *sessionPast) gpu(name, gpuType string) int {
	i, known := p.gpuOf[name]
	if !known {
		i = len(p.gpus)
		p.gpuOf[name] = i
		p.gpus, p.serves, p.last = append(p.gpus, plot.TimelineGPU{Name: name}), append(p.serves, false), append(p.last, -1)
	}
	p.gpus[i].Type, p.serves[i] = cmp.Or(gpuType, p.gpus[i].Type), true
	return i
}

func (p *sessionPast) job(id string) int {
	i, known := p.jobOf[id]
	if !known {
		i = len(p.jobs)
		p.jobOf[id] = i
		p.jobs, p.asks = append(p.jobs, id), append(p.asks, 1)
	}
	return i
}

// add takes the next record.
func (p *sessionPast) add(rec *wire.Record) {
	e := &rec.Event
	p.atUs = e.AtUs
	switch e.Type {
	case hare.EventJobArrived:
		p.asks[p.job(e.Job)] = max(1, e.Arrived.Tasks) * e.Arrived.TaskGPUs()
		p.goOn(e.Arrived)
	case hare.EventTick:
		p.loops++
	case hare.EventComputeEnded, hare.EventTaskEnded, hare.EventTaskFailed:
		p.release(runningTask{e.Job, e.Round, e.Task}, e.AtUs)
	case hare.EventGPUJoined:
		p.gpu(e.GPU, e.GPUType)
	case hare.EventNodeJoined:
		p.join(e.Node())
	case hare.EventGPULeft:
		if i, known := p.gpuOf[e.GPU]; known {
			p.serves[i] = false
		}
	case hare.EventNodeLeft:
		for i := range p.gpus {
			if strings.HasPrefix(p.gpus[i].Name, e.Node().Name+"/") {
				p.serves[i] = false
			}
		}
	}
	for i := range rec.Decisions {
		d := &rec.Decisions[i]
		k := runningTask{d.Job, d.Round, d.Task}
		if d.Type == hare.DecisionStart {
			p.running[k] = heldGPUs{d.GPUs(), d.AtUs, p.loops}
			continue
		}
		if p.followed && e.Type == hare.EventJobCancelled && p.running[k].loop == p.loops {
			delete(p.running, k)
		}
		p.release(k, e.AtUs)
	}
}

// goOn notes what of a job runs as it arrives: since the rounds that are done and a part of the one that runs, or
// since the beginning of the session.
func (p *sessionPast) goOn(j *hare.Job) {
	if j.Progress == nil {
		return
	}
	n := int(j.TaskGPUs())
	for task, gpus := range slices.Collect(slices.Chunk(j.Progress.GPUs, n)) {
		fromUs := p.atUs - j.Progress.ElapsedUs
		if i, known := p.gpuOf[gpus[0]]; known {
			if on := slices.IndexFunc(j.On, func(x hare.Profile) bool { return x.Type == p.gpus[i].Type }); on >= 0 {
				fromUs -= j.Progress.RoundsDone * (j.On[on].ComputeUs + j.On[on].SyncUs)
			}
			if k := p.last[i]; k >= 0 {
				fromUs = max(fromUs, p.spans[k].ToUs)
			}
		}
		p.running[runningTask{j.ID, j.Progress.RoundsDone, int64(task)}] = heldGPUs{gpus, max(0, fromUs), p.loops}
	}
}

// release ends what a task holds.
func (p *sessionPast) release(k runningTask, toUs int64) {
	if h, found := p.running[k]; found {
		delete(p.running, k)
		p.hold(p.job(k.job), h.gpus, h.startUs, toUs)
	}
}

// hold adds a span for each GPU, or makes the span before longer where it is of the same job and ends there.
func (p *sessionPast) hold(job int, gpus []string, fromUs, toUs int64) {
	for _, name := range gpus {
		i, known := p.gpuOf[name]
		if !known {
			i = p.gpu(name, "")
		}
		if k := p.last[i]; k >= 0 && p.spans[k].Job == job && p.spans[k].ToUs == fromUs {
			p.spans[k].ToUs = toUs
			continue
		}
		p.last[i] = len(p.spans)
		p.spans = append(p.spans, plot.TimelineSpan{Job: job, GPU: i, FromUs: fromUs, ToUs: toUs})
	}
}

// end adds what runs, until its expected end, and what is planned, on GPUs of the planned type that are free first.
func (p *sessionPast) end(nowUs int64, plan *wire.SessionPlan) {
	expected, waits := map[string]int64{}, map[string]bool{}
	if plan != nil {
		for i := range plan.Jobs {
			j := &plan.Jobs[i]
			expected[j.Job], waits[j.Job] = j.EndUs, p.followed && !j.Running
		}
	}
	var runs []runningTask
	for k := range p.running {
		if !waits[k.job] {
			runs = append(runs, k)
		}
	}
	slices.SortFunc(runs, func(a, b runningTask) int {
		return cmp.Or(cmp.Compare(p.jobOf[a.job], p.jobOf[b.job]), cmp.Compare(a.round, b.round),
			cmp.Compare(a.task, b.task))
	})
	for _, k := range runs {
		p.release(k, max(nowUs+1, expected[k.job]))
	}
	if plan == nil {
		return
	}
	rows, free := map[string][]int{}, make([]int64, len(p.gpus))
	for i := range p.gpus {
		if free[i] = nowUs; p.last[i] >= 0 {
			free[i] = max(nowUs, p.spans[p.last[i]].ToUs)
		}
		if p.serves[i] {
			rows[p.gpus[i].Type] = append(rows[p.gpus[i].Type], i)
		}
	}
	for i := range plan.Jobs[:min(len(plan.Jobs), mostPlanned)] {
		j := &plan.Jobs[i]
		if j.Running || j.StartUs < 0 || j.EndUs < j.StartUs || len(j.Types) == 0 {
			continue
		}
		of, job := rows[j.Types[0]], p.job(j.Job)
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(free[a], free[b]) })
		fromUs := max(nowUs, j.StartUs)
		toUs := max(fromUs, j.EndUs)
		for _, row := range of[:min(len(of), int(p.asks[job]))] {
			free[row] = toUs
			p.spans = append(p.spans, plot.TimelineSpan{Job: job, GPU: row, FromUs: fromUs, ToUs: toUs})
		}
	}
}

// timeline is the part from a time until another one: the GPUs that are in service or were used then, and the jobs
// that used them.
func (p *sessionPast) timeline(title string, fromUs, nowUs, endUs int64) *plot.Timeline {
	t := &plot.Timeline{Title: title, NowUs: nowUs - fromUs, EndUs: endUs - fromUs}
	spans := slices.DeleteFunc(p.spans, func(x plot.TimelineSpan) bool { return x.ToUs <= fromUs || x.FromUs >= endUs })
	used, jobOf := slices.Clone(p.serves), map[int]int{}
	for i := range spans {
		used[spans[i].GPU] = true
	}
	gpuOf := make([]int, len(p.gpus))
	for i := range p.gpus {
		if gpuOf[i] = len(t.GPUs); used[i] {
			t.GPUs = append(t.GPUs, p.gpus[i])
		}
	}
	for _, x := range spans {
		job, known := jobOf[x.Job]
		if !known {
			job = len(t.Jobs)
			jobOf[x.Job] = job
			t.Jobs = append(t.Jobs, p.jobs[x.Job])
		}
		t.Spans = append(t.Spans, plot.TimelineSpan{Job: job, GPU: gpuOf[x.GPU], FromUs: x.FromUs - fromUs,
			ToUs: x.ToUs - fromUs})
	}
	return t
}
