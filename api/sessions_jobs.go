package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/pages"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

var (
	sessionJobStates = []string{"waiting", "gathering", "running"}
	sessionJobSorts  = []string{"submitted", "place", "start", "end", "weight", "gpus", "name", "state"}
)

// listSessionJobs lists the jobs of a session.
//
//	@Summary		List the jobs of a session that have not ended
//	@Description	Each with its place, the times that the plan expects and proves, where the policy makes plans, and
//	@Description	why it waits. Of sessions with many jobs the answer may be a few seconds old; seq says how old.
//	@Tags			sessions
//	@ID				listSessionJobs
//	@Param			id		path	string		true	"the session"
//	@Param			state	query	[]string	false	"jobs of these states alone"	Enums(waiting, gathering, running)	collectionFormat(multi)
//	@Param			type	query	string		false	"jobs that may use this GPU type"
//	@Param			q		query	string		false	"jobs of which the id, name or user has this part, in upper or lower case"
//	@Param			sort	query	string		false	"submitted (the arrival), place, start, end, weight, gpus, name or state; - in front turns the order around. Jobs of which it is not known come last"	default(submitted)
//	@Param			after	query	string		false	"next of the page before"
//	@Param			limit	query	int			false	"1 to 1000, the most jobs to list: 1000 without it"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	sessiondoc.JobList	"the jobs"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining"
//	@Router			/v1/sessions/{id}/jobs [get]
func (s *server) listSessionJobs(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	limit, err := pageLimit(r)
	if err != nil {
		return err
	}
	sort, err := sortOf(r, sessionJobSorts)
	if err != nil {
		return err
	}
	if sort == "" {
		sort = "submitted"
	}
	q := r.URL.Query()
	for _, state := range q["state"] {
		if !slices.Contains(sessionJobStates, state) {
			return badQuery("?state=%s must be one of %s", hare.Clip(state), strings.Join(sessionJobStates, " "))
		}
	}
	page, err := pages.New[*sessiondoc.Job](sort, q.Get("after"), limit)
	if errors.Is(err, pages.ErrCursor) {
		return badQuery("?after= must be next of the page before, with the same sort")
	}
	outlook, err := session.Outlook(r.Context())
	if err != nil {
		return err
	}
	part := strings.ToLower(q.Get("q"))
	place := 0
	for i := range outlook.Rows {
		row := &outlook.Rows[i]
		told := outlook.Told[row.Job]
		if row.State != "running" {
			place++
		}
		if len(q["state"]) > 0 && !slices.Contains(q["state"], row.State) ||
			q.Has("type") && !slices.Contains(row.Types, q.Get("type")) ||
			!strings.Contains(strings.ToLower(row.Job+"\n"+told.Name+"\n"+told.User), part) {
			continue
		}
		job := &sessiondoc.Job{Job: row.Job, Name: told.Name, User: told.User, State: row.State}
		if row.State != "running" {
			job.Place = place
		}
		page.Add(sessionJobKey(page.By, row, job.Place), job)
	}
	jobs, next, err := page.Entries()
	if err != nil {
		return err
	}
	list := sessiondoc.JobList{Jobs: []*sessiondoc.Job{}, Total: page.Total, Seq: outlook.Seq,
		AtS: hare.Seconds(outlook.AtUs), NowS: hare.Seconds(outlook.NowUs), Next: next}
	for _, job := range jobs {
		describeSessionJob(job, outlook)
		list.Jobs = append(list.Jobs, job)
	}
	return answerJSON(w, http.StatusOK, list)
}

// sessionJobKey is the place of a job in a list that is sorted by a column.
func sessionJobKey(by string, row *online.JobRow, place int) pages.Key {
	k := pages.Key{ID: row.Job}
	known := func(us int64, yes bool) {
		if k.Value = us; !yes {
			k.Class, k.Value = pages.Unknown, 0
		}
	}
	switch by {
	case "submitted":
		k.Value = row.ArrivedUs
	case "place":
		known(int64(place), place > 0)
	case "start":
		if us := row.StartedUs; row.State == "running" {
			known(us, true)
		} else {
			known(row.StartUs, row.StartUs >= 0)
		}
	case "end":
		known(row.EndUs, row.EndUs >= 0)
	case "weight":
		k.Value = row.WeightMicro
	case "gpus":
		k.Value = row.GPUs
	case "state":
		k.Value = int64(slices.Index(sessionJobStates, row.State))
	}
	return k
}

// describeSessionJob fills the description of a job.
func describeSessionJob(d *sessiondoc.Job, outlook *sessions.Outlook) {
	row := outlook.Row(d.Job)
	orNil := func(us int64) *hare.Seconds {
		if us < 0 {
			return nil
		}
		return (*hare.Seconds)(&us)
	}
	startUs, endUs, earliestEndUs := outlook.Expected(row)
	if row.State == "running" {
		startUs = row.StartedUs
	} else {
		why := outlook.Reason(row)
		d.Reason, d.ReasonShort, d.ReasonCode = why.Text, why.Short, why.Code
	}
	d.Sync, d.GPUs, d.Types, d.RunningOn = row.Sync, row.GPUs, row.Types, row.RunningOn
	d.Weight, d.ArrivedS = hare.Seconds(row.WeightMicro), hare.Seconds(row.ArrivedUs)
	d.StartS, d.EndS, d.EarliestEndS = orNil(startUs), orNil(endUs), orNil(earliestEndUs)
}
