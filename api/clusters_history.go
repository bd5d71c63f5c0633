package api

import (
	"net/http"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxHistory is the greatest number of rows of a history.
const maxHistory = 10_000

// getClusterHistory answers with what a cluster did.
//
//	@Summary		How many jobs waited and ran, and GPUs were used
//	@Description	A row for each minute, or for each step_s: exact means over its time, of jobs that waited and ran and
//	@Description	of GPUs that were used and in service, and counts of the jobs that started and ended. Rows are kept
//	@Description	for 90 days. Steps begin at multiples of step_s since 1970. Times of which nothing is known have no
//	@Description	row.
//	@Tags			clusters
//	@ID				getClusterHistory
//	@Param			cluster	path	string	true	"its name"
//	@Param			from	query	string	false	"the first time (RFC 3339): a day before to without it"	format(date-time)
//	@Param			to		query	string	false	"the time at which rows end (RFC 3339): now without it"	format(date-time)
//	@Param			step_s	query	int		false	"seconds of a row, a multiple of 60: 60 without it"	minimum(60)
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.History	"rows by time, 10,000 at most"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid, or there would be too many rows"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters/{cluster}/history [get]
func (s *server) getClusterHistory(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	from, to, err := window(r, 24*time.Hour, 0)
	if err != nil {
		return err
	}
	step := int64(60)
	if r.URL.Query().Has("step_s") {
		if step, err = number(r, "step_s"); err != nil || step < 60 || step%60 != 0 {
			return badQuery("?step_s= must be a multiple of 60: step_s=3600 is every hour")
		}
	}
	if least := int64(to.Sub(from).Seconds()) / maxHistory; least >= step {
		return badQuery("this would be more than %d rows: ask for step_s=%d or more", maxHistory, (least/60+1)*60)
	}
	var history *clusterdoc.History
	if history, err = c.History(r.Context(), from, to, step/60); err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, history)
}

// window reads the query parameters from and to, which are times; without them they are so long before now and after
// it.
func window(r *http.Request, before, after time.Duration) (from, to time.Time, err error) {
	q := r.URL.Query()
	from, to = time.Now().Add(-before), time.Now().Add(after)
	for _, x := range []struct {
		name string
		at   *time.Time
	}{{"from", &from}, {"to", &to}} {
		if !q.Has(x.name) {
			continue
		}
		if *x.at, err = time.Parse(time.RFC3339, q.Get(x.name)); err != nil || x.at.Year() < 1970 || x.at.Year() > 9000 {
			return from, to, badQuery("?%s= must be a time such as 2026-01-31T12:00:00Z", x.name)
		}
	}
	if !q.Has("from") && !from.Before(to) {
		from = to.Add(-before)
	}
	if !from.Before(to) {
		return from, to, badQuery("?from= must be before ?to=")
	}
	return from, to, nil
}
