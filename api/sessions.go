package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// uncompressed bypasses compression, which would buffer lines that must be sent at
// once.
func uncompressed(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if z, ok := w.(*compressWriter); ok {
			w = z.ResponseWriter
		}
		h(w, r)
	}
}

// session returns the session of the path.
func (s *server) session(r *http.Request) (*sessions.Session, error) {
	if s.cfg.Sessions == nil {
		return nil, &statusError{http.StatusNotFound, "no_sessions", "this server keeps no sessions"}
	}
	return s.cfg.Sessions.Session(r.Context(), tenantOf(r.Context()), chi.URLParam(r, "id"))
}

// ownSession is session for requests that change it. The session of a managed cluster is changed by the cluster alone.
func (s *server) ownSession(r *http.Request) (*sessions.Session, error) {
	session, err := s.session(r)
	if err != nil {
		return nil, err
	}
	if f := session.Info().Followed; f != nil {
		return nil, &sessions.FollowedError{Helper: f.Helper}
	}
	if s.cfg.Clusters == nil {
		return session, nil
	}
	if name := s.cfg.Clusters.OfSession(tenantOf(r.Context()), session.ID()); name != "" {
		return nil, &statusError{http.StatusConflict, "managed_session", fmt.Sprintf("the session is that of the managed "+
			"cluster %q, which alone changes it: use /v1/clusters/%s", name, name)}
	}
	return session, nil
}

func describe(info sessions.Info) *sessiondoc.Session {
	d := &sessiondoc.Session{
		ID: info.ID, Name: info.Config.Tags.Name, Labels: info.Config.Tags.Labels, Followed: info.Followed,
		Created: info.Created.UTC(), Policy: info.Config.Policy,
		Parameters: info.Config.Parameters, Clock: string(info.Config.Clock), LastSeq: info.Last, Active: info.Active,
	}
	for _, n := range info.Config.Cluster.Nodes {
		for _, g := range n.GPUs {
			d.GPUs += g.Count
		}
	}
	return d
}

func answerJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", kindJSON)
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// createSession creates a session.
//
//	@Summary		Open an online session
//	@Description	A session takes events and answers each with decisions: which task starts where. Its first
//	@Description	event has seq 1. With clock "server" events carry no at_s: the server stamps them.
//	@Tags			sessions
//	@ID				createSession
//	@Param			body	body	openapi.SessionRequest	true	"the cluster, and how to decide"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		201	{object}	sessiondoc.Session	"the session; Location has its path"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"this server keeps no sessions"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		429	{object}	openapi.Problem	"too many sessions exist: delete some"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/sessions [post]
func (s *server) createSession(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Sessions == nil {
		return &statusError{http.StatusNotFound, "no_sessions", "this server keeps no sessions"}
	}
	if !s.svc.Ready() {
		return admission.ErrDraining
	}
	text, err := s.readBody(w, r, s.bodyLimit(r.Context()))
	if err != nil {
		return err
	}
	claim := admission.ClaimOf(r.Context())
	h, err := wire.DecodeSession(text, wire.Limits{Claim: claim.Grow})
	if err != nil {
		return err
	}
	// The policy is made once, to check the request, and forgotten until the first event.
	if err := claim.Grow(admission.Footprint(&hare.Instance{Cluster: h.Cluster})); err != nil {
		return err
	}
	session, err := s.cfg.Sessions.Create(r.Context(), tenantOf(r.Context()), sessions.SessionConfig{
		Cluster: h.Cluster, Policy: h.Policy, Parameters: h.Parameters, Clock: sessions.Clock(h.Clock), Tags: h.Tags,
	})
	if fault := (*hare.InvalidError)(nil); errors.As(err, &fault) && !strings.HasPrefix(fault.Pointer, "/cluster") &&
		fault.Pointer != "/policy" {
		return &hare.InvalidError{Pointer: "/parameters" + fault.Pointer, Code: fault.Code, Detail: fault.Detail}
	}
	if err != nil {
		return err
	}
	s.cfg.Logger.Info("session created", "request_id", requestID(r.Context()), "session", session.ID(), "policy",
		session.Info().Config.Policy)
	w.Header().Set("Location", "/v1/sessions/"+session.ID())
	return answerJSON(w, http.StatusCreated, describe(session.Info()))
}

// listSessions lists the sessions.
//
//	@Summary		List the sessions, the oldest first
//	@Description	The answer has at most limit sessions. If there are more, next is the value of after that
//	@Description	continues the list.
//	@Tags			sessions
//	@ID				listSessions
//	@Param			label	query	[]string	false	"those with all of these labels: name=value, or name for any value"	collectionFormat(multi)
//	@Param			q		query	string	false	"those whose id, name or value of a label has this part, in upper or lower case"
//	@Param			limit	query	int		false	"1 to 1000, the most sessions to list: 1000 without it"
//	@Param			after	query	string	false	"next of the list before"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	sessiondoc.List	"the sessions, without their status"
//	@Failure		400	{object}	openapi.Problem		"limit or after is invalid"
//	@Failure		404	{object}	openapi.Problem		"this server keeps no sessions"
//	@Failure		500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"draining"
//	@Router			/v1/sessions [get]
func (s *server) listSessions(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Sessions == nil {
		return &statusError{http.StatusNotFound, "no_sessions", "this server keeps no sessions"}
	}
	limit, err := pageLimit(r)
	if err != nil {
		return err
	}
	infos, err := s.cfg.Sessions.List(r.Context(), tenantOf(r.Context()))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	infos = slices.DeleteFunc(infos, func(info sessions.Info) bool {
		tags, part := &info.Config.Tags, q.Get("q")
		return !tags.Has(q["label"]) || !tags.Mention(part) && !strings.Contains(info.ID, strings.ToLower(part))
	})
	from := 0
	if after := r.URL.Query().Get("after"); after != "" {
		us, id, ok := strings.Cut(after, "-")
		created, err := strconv.ParseInt(us, 10, 64)
		if err != nil || !ok {
			return &statusError{http.StatusBadRequest, "bad_query", "?after= must be the next of a list"}
		}
		// The session after which the list goes on may have been deleted.
		from = sort.Search(len(infos), func(i int) bool {
			at := infos[i].Created.UnixMicro()
			return at > created || at == created && infos[i].ID > id
		})
	}
	list := sessiondoc.List{Sessions: []*sessiondoc.Session{}}
	for _, info := range infos[from:] {
		if len(list.Sessions) == limit {
			last := infos[from+limit-1]
			list.Next = fmt.Sprintf("%d-%s", last.Created.UnixMicro(), last.ID)
			break
		}
		list.Sessions = append(list.Sessions, describe(info))
	}
	return answerJSON(w, http.StatusOK, list)
}

// maxListed is how many sessions one answer lists.
const maxListed = 1000

// getSession describes a session.
//
//	@Summary		Look at a session
//	@Description	The answer has the configuration of the session, its last durable event, and the state of its
//	@Description	policy: queues, attained service, tasks and GPUs.
//	@Tags			sessions
//	@ID				getSession
//	@Param			id	path	string	true	"the session"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	sessiondoc.Session	"the session"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining"
//	@Router			/v1/sessions/{id} [get]
func (s *server) getSession(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	status, err := session.Status(r.Context())
	if err != nil {
		return err
	}
	d := describe(session.Info())
	if d.Status, err = json.Marshal(status); err != nil {
		return err
	}
	report, err := session.PlanReport(r.Context())
	if err != nil {
		return err
	}
	d.Planning = planningOf(report)
	return answerJSON(w, http.StatusOK, d)
}

// planningOf is the form of a report; nil where the policy makes no plans.
func planningOf(report *sessions.PlanReport) *sessiondoc.Planning {
	if report == nil {
		return nil
	}
	n := &report.Counts
	p := &sessiondoc.Planning{State: report.State, Fallback: report.Fallback, Made: n.Made, Taken: n.Taken,
		Refused: n.Refused, Failed: n.Failed, Late: n.Late, Panicked: n.Panicked}
	if report.Err != nil {
		p.Error = report.Err.Error()
	}
	return p
}

// getPlan describes the plan that a session follows.
//
//	@Summary		Look at the plan of a session
//	@Description	The answer has value, bound and gap of the plan, and for each job that has not ended when it
//	@Description	is expected to start and to end, the earliest end that is proved, and what it waits for. All
//	@Description	hold if the jobs are as long as is believed and nobody comes.
//	@Tags			sessions
//	@ID				getSessionPlan
//	@Param			id	path	string	true	"the session"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	openapi.SessionPlan	"the plan"
//	@Failure		404	{object}	openapi.Problem		"no such session, or its policy makes no plans"
//	@Failure		500	{object}	openapi.Problem		"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"draining"
//	@Router			/v1/sessions/{id}/plan [get]
func (s *server) getPlan(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	plan, err := session.Plan(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindJSON)
	_, err = w.Write(append(wire.AppendSessionPlan(nil, plan), '\n'))
	return err
}

// deleteSession ends and deletes a session.
//
//	@Summary	End a session and remove its log
//	@Tags		sessions
//	@ID			deleteSession
//	@Param		id	path	string	true	"the session"
//	@Produce	application/problem+json
//	@Success	204	"it is gone"
//	@Failure	404	{object}	openapi.Problem	"no such session"
//	@Failure	409	{object}	openapi.Problem	"the session is that of a managed cluster, which is to be deleted, or of a helper"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem	"draining"
//	@Failure	507	{object}	openapi.Problem	"the disk refuses the write"
//	@Router		/v1/sessions/{id} [delete]
func (s *server) deleteSession(w http.ResponseWriter, r *http.Request) error {
	session, err := s.ownSession(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Sessions.Delete(r.Context(), tenantOf(r.Context()), session.ID()); err != nil {
		return err
	}
	s.cfg.Logger.Info("session deleted", "request_id", requestID(r.Context()), "session", session.ID(), "last_seq",
		session.Info().Last)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// getJob explains a job of a session.
//
//	@Summary		Say why a job waits
//	@Description	The answer has the queue of the job, the jobs ahead of it, the type of GPU that it would get,
//	@Description	and what would change its position.
//	@Tags			sessions
//	@ID				getSessionJob
//	@Param			id	path	string	true	"the session"
//	@Param			job	path	string	true	"the job, percent-encoded"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	online.JobStatus	"the job"
//	@Failure		404	{object}	openapi.Problem		"no such session, or no such job in it that has not ended"
//	@Failure		500	{object}	openapi.Problem		"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"draining"
//	@Router			/v1/sessions/{id}/jobs/{job} [get]
func (s *server) getJob(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	// The router matches the encoded path only where RawPath is set.
	id := chi.URLParam(r, "job")
	if r.URL.RawPath != "" {
		if id, err = url.PathUnescape(id); err != nil {
			return &statusError{http.StatusBadRequest, "bad_path", "the job in the path is not percent-encoded"}
		}
	}
	explanation, ok, err := session.Explain(r.Context(), id)
	if err != nil {
		return err
	}
	if !ok {
		return &statusError{http.StatusNotFound, "no_such_job",
			"no job of that id is in the session: it did not arrive, or has ended"}
	}
	return answerJSON(w, http.StatusOK, explanation)
}

// number reads a whole number from the query; 0 where the parameter is absent.
func number(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &statusError{http.StatusBadRequest, "bad_query", "?" + name + "= must be a whole number, not negative"}
	}
	return n, nil
}

// refusal maps an error to the answer to one event, as fail maps it to the answer to a
// request.
func (s *server) refusal(r *http.Request, err error) *wire.Refusal {
	var faults hare.InvalidErrors
	var fault *hare.InvalidError
	var gap *sessions.SequenceError
	one := func(status int, pointer, code, detail string) *wire.Refusal {
		return &wire.Refusal{Status: int64(status),
			Errors: hare.InvalidErrors{{Pointer: pointer, Code: code, Detail: detail}}}
	}
	switch {
	case errors.As(err, &faults):
		return &wire.Refusal{Status: http.StatusUnprocessableEntity, Errors: faults}
	case errors.As(err, &fault):
		return &wire.Refusal{Status: http.StatusUnprocessableEntity, Errors: hare.InvalidErrors{fault}}
	case errors.As(err, &gap):
		ref := one(http.StatusConflict, "/seq", "out_of_sequence", gap.Error())
		ref.Expected = gap.Expected
		return ref
	}
	if p := sessionProblem(err); p != nil {
		return one(p.status, "", p.code, p.detail)
	}
	s.cfg.Logger.Error("event failed", "request_id", requestID(r.Context()), "error", err)
	return one(http.StatusInternalServerError, "", "internal", internalDetail)
}
