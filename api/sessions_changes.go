package api

import (
	"net/http"

	"github.com/hare-sched/hare/serve/changes"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// getSessionChanges streams what changes of a session.
//
//	@Summary		Follow the changes of a session
//	@Description	Each event changes names what has changed since the one before: who reads that again has what the
//	@Description	lists have. The first change comes at once; a reader gets ten events a second at most, and a slow
//	@Description	one fewer, with all changes since its last one. The event reset says that everything is to be read;
//	@Description	the stream begins with it, unless after or Last-Event-ID names a change that the server remembers.
//	@Description	The server sends a comment every 15 s. An event: end with a problem code ends the stream.
//	@Tags			sessions
//	@ID				getSessionChanges
//	@Param			id				path	string	true	"the session"
//	@Param			after			query	int		false	"begin after the event of this id"	minimum(0)
//	@Param			Last-Event-ID	header	string	false	"as after, from an EventSource that reconnects"
//	@Produce		text/event-stream,application/problem+json
//	@Success		200	{object}	sessiondoc.Changes	"an event"
//	@Failure		400	{object}	openapi.Problem	"after or Last-Event-ID is not a number"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		406	{object}	openapi.Problem	"the client does not accept server-sent events"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining, or too many streams are open: Retry-After says when to try again"
//	@Router			/v1/sessions/{id}/changes [get]
func (s *server) getSessionChanges(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	return s.followChanges(w, r, func(c *changes.Change) any {
		return &sessiondoc.Changes{Seq: c.Seq, Jobs: namesOf(c, changes.Job, false),
			Removed: namesOf(c, changes.Job, true),
			GPUs:    append(namesOf(c, changes.GPU, false), namesOf(c, changes.GPU, true)...), Plan: planChanged(c)}
	}, session.Changes)
}
