package api

import (
	"net/http"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// longestGantt is the greatest time that a Gantt chart shows.
const longestGantt = 31 * 24 * time.Hour

// getClusterGantt answers with which jobs have which GPUs when.
//
//	@Summary		Which jobs had, have and will have the GPUs
//	@Description	Past spans are attempts that ended, now ones those that go on until their expected end, and planned
//	@Description	ones what the plan of the cluster's session expects of jobs that wait. The plan has the type of the
//	@Description	GPUs alone: the rows of planned spans are an example. At most about 10,000 past and 10,000 planned
//	@Description	spans are listed, the latest and the next; from says since when the past is whole.
//	@Tags			clusters
//	@ID				getClusterGantt
//	@Param			cluster	path	string	true	"its name"
//	@Param			from	query	string	false	"the first time (RFC 3339): a day ago without it"	format(date-time)
//	@Param			to		query	string	false	"the last time (RFC 3339), at most 31 days later: in a day without it"	format(date-time)
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Gantt	"GPUs, and who has them when"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/clusters/{cluster}/gantt [get]
func (s *server) getClusterGantt(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	from, to, err := window(r, 24*time.Hour, 24*time.Hour)
	if err != nil {
		return err
	}
	if to.Sub(from) > longestGantt {
		return badQuery("?to= must be at most 31 days after ?from=")
	}
	var chart *clusterdoc.Gantt
	if chart, err = c.Gantt(r.Context(), from, to); err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, chart)
}
