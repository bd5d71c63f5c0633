package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/regret"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/wire"
)

// getDecisions streams the decisions of a session as they become durable.
//
//	@Summary		Follow the decisions
//	@Description	With Accept: text/event-stream, each recorded answer is an event whose id is its seq; new
//	@Description	answers follow, and the server sends a comment every 15 s. With Last-Event-ID the stream
//	@Description	continues after that event; an event: end with a problem code ends the stream. Otherwise the
//	@Description	answer is NDJSON of the recorded answers, and with ?follow=true also of new ones.
//	@Tags			sessions
//	@ID				getDecisions
//	@Param			id				path	string	true	"the session"
//	@Param			after			query	int		false	"begin after the answer of this seq"
//	@Param			follow			query	bool	false	"go on with answers to come (NDJSON)"
//	@Param			Last-Event-ID	header	string	false	"as after, from an EventSource that reconnects"
//	@Produce		application/x-ndjson,text/event-stream,application/problem+json
//	@Success		200	{object}	openapi.Answer	"an answer a line, or an event"
//	@Failure		400	{object}	openapi.Problem	"after or Last-Event-ID is not a number, or follow not true or false"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining"
//	@Router			/v1/sessions/{id}/decisions [get]
func (s *server) getDecisions(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindNDJSON, kindEvents)
	if err != nil {
		return err
	}
	after, err := resumeAfter(r)
	if err != nil {
		return err
	}
	live, err := flag(r, "follow")
	if err != nil {
		return err
	}
	session, err := s.session(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	if kind == kindEvents || live {
		return follow(s, w, r, kind == kindEvents, feed[hare.Answer]{
			of: "decisions", buffer: 64,
			items: func(ctx context.Context) iter.Seq2[hare.Answer, error] { return session.Decisions(ctx, after) },
			write: func(l *liveWriter, a hare.Answer) {
				l.item(a.Seq, "", func(b []byte) []byte { return wire.AppendAnswer(b, a) })
			},
			code: func(err error) string { return s.refusal(r, err).Errors[0].Code },
		})
	}
	out := bufio.NewWriterSize(w, answerBytes)
	var line []byte
	for rec, err := range session.Log(r.Context(), after) {
		if err != nil {
			return err
		}
		line = append(wire.AppendAnswer(line[:0], hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}), '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// getLog streams the log of a session.
//
//	@Summary		Download the log
//	@Description	The first line has the configuration of the session; each other line has an event and its
//	@Description	decisions. hare online replay repeats the session. With ?after= the answer has only the lines
//	@Description	after that event.
//	@Tags			sessions
//	@ID				getLog
//	@Param			id		path	string	true	"the session"
//	@Param			after	query	int		false	"begin after this event, without the first line"
//	@Produce		application/x-ndjson,application/problem+json
//	@Success		200	{object}	openapi.Record	"a record a line, behind the first one"
//	@Failure		400	{object}	openapi.Problem	"after is not a number"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining"
//	@Router			/v1/sessions/{id}/log [get]
func (s *server) getLog(w http.ResponseWriter, r *http.Request) error {
	after, err := number(r, "after")
	if err != nil {
		return err
	}
	session, err := s.session(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindNDJSON)
	var line []byte
	if after == 0 {
		cfg := session.Info().Config
		line = append(wire.AppendLogHeader(nil, &wire.LogHeader{
			Policy: cfg.Policy, Parameters: cfg.Parameters, Clock: string(cfg.Clock), Cluster: cfg.Cluster,
			Tags: cfg.Tags,
		}), '\n')
	}
	out := bufio.NewWriterSize(w, answerBytes)
	if _, err := out.Write(line); err != nil {
		return err
	}
	for rec, err := range session.Log(r.Context(), after) {
		if err != nil {
			return err
		}
		line = append(wire.AppendRecord(line[:0], rec), '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// hindsight replays the log of a session for the comparison with hindsight.
func hindsight(r *http.Request, session *sessions.Session) (*regret.Hindsight, error) {
	cluster := session.Info().Config.Cluster
	h := regret.NewHindsight(&cluster)
	for rec, err := range session.Log(r.Context(), 0) {
		if err == nil {
			err = h.Add(rec)
		}
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// getRegret compares a session with what could have been planned in hindsight.
//
//	@Summary		Compare with the best in hindsight
//	@Description	The server divides the weighted completion time of the jobs that ended by a lower bound for
//	@Description	every plan for these jobs, with the same arrivals, rounds and GPUs, whose tasks take at least
//	@Description	the least measured times. It computes the comparison on request and delays no decision. With
//	@Description	?every_s= the answer is NDJSON with a comparison for each multiple of that interval between
//	@Description	the first event and the last, by the log of that time, and one for the end of the log, which
//	@Description	has "last": true; each line is sent as soon as it is computed. Lines other than the last do
//	@Description	not change while the log grows. An answer without a last line is incomplete. With
//	@Description	?against=POLICY the answer also says what that policy would have done: the server replays the
//	@Description	arrivals, rounds, measured times, failures and GPUs of the log under it in the simulator, with
//	@Description	the session's parameters where it is the session's own policy, and with default parameters
//	@Description	otherwise. With ?objective=makespan the comparison is of the last end of a job.
//	@Tags			sessions
//	@ID				getRegret
//	@Param			id		path	string	true	"the session"
//	@Param			detail	query	string	false	"full adds the certificate and the instance that it is for"	Enums(summary,full)
//	@Param			every_s	query	number	false	"seconds of the session's time between comparisons, above 0; the answer is NDJSON, of 1,000 lines at most"
//	@Param			objective	query	string	false	"what is compared (weighted_jct); sessions have no deadlines; against takes weighted_jct alone"	Enums(weighted_jct,jct_and_tardiness,makespan)
//	@Param			against	query	string	false	"a policy of sessions under which the log is replayed; not with every_s"
//	@Produce		json,application/x-ndjson,application/problem+json
//	@Success		200	{object}	regret.Regret	"the comparison, or one a line"
//	@Failure		400	{object}	openapi.Problem	"every_s, detail or objective is invalid, or against is no policy of sessions, in which case the detail lists them"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		406	{object}	openapi.Problem	"with every_s: the client does not take NDJSON"
//	@Failure		422	{object}	openapi.Problem	"the log is too large for an instance, or too long for the interval: the detail names one that fits"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/sessions/{id}/regret [get]
func (s *server) getRegret(w http.ResponseWriter, r *http.Request) error {
	everyUs, err := interval(r)
	if err != nil {
		return err
	}
	full := false
	switch detail := r.URL.Query().Get("detail"); detail {
	case "", "summary":
	case "full":
		full = true
	default:
		return &statusError{http.StatusBadRequest, "bad_query", "?detail= must be summary or full"}
	}
	objective, err := regretObjective(r)
	if err != nil {
		return err
	}
	against, err := s.against(r, everyUs)
	if err != nil {
		return err
	}
	kind := kindJSON
	if everyUs > 0 {
		if kind, err = negotiate(r, kindNDJSON); err != nil {
			return err
		}
	}
	session, err := s.session(r)
	if err != nil {
		return err
	}
	last := session.Info().Last
	if everyUs > 0 {
		if err := checkLineCount(r.Context(), session, last, everyUs); err != nil {
			return err
		}
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Type", kind)
			return nil
		}
	}
	if against != "" {
		return s.regretAgainst(w, r, session, last, against, full)
	}
	cluster := session.Info().Config.Cluster
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	for reg, err := range regret.Series(r.Context(), &cluster, objective, upTo(session.Log(r.Context(), 0), last),
		everyUs, s.svc.Bound) {
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", kind)
		_ = control.SetWriteDeadline(time.Now().Add(s.cfg.BodyTime))
		if err := reg.EncodeJSON(w, full); err != nil {
			return err
		}
		if everyUs == 0 {
			continue
		}
		if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	return nil
}

// regretObjective reads the query parameter objective.
func regretObjective(r *http.Request) (string, error) {
	name := r.URL.Query().Get("objective")
	switch {
	case name == "":
		return hare.ObjectiveWeightedJCT, nil
	case !slices.Contains(hare.Objectives(), name):
		return "", &statusError{http.StatusBadRequest, "bad_query",
			"?objective= must be " + strings.Join(hare.Objectives(), ", ")}
	case name != hare.ObjectiveWeightedJCT && r.URL.Query().Has("against"):
		return "", &statusError{http.StatusBadRequest, "bad_query",
			"?against= compares by weighted_jct: leave objective out"}
	}
	return name, nil
}

// against reads the query parameter of that name, the policy of a replay; "" where it is
// absent.
func (s *server) against(r *http.Request, everyUs int64) (string, error) {
	if !r.URL.Query().Has("against") {
		return "", nil
	}
	name := r.URL.Query().Get("against")
	if s.cfg.Sessions != nil {
		_, err := s.cfg.Sessions.NewPolicy(name, &hare.Cluster{}, nil)
		var fault *hare.InvalidError
		switch {
		case errors.As(err, &fault):
			return "", &statusError{http.StatusBadRequest, "bad_query", "?against=: " + fault.Detail}
		case err != nil:
			return "", err
		}
	}
	if everyUs > 0 {
		return "", &statusError{http.StatusBadRequest, "bad_query",
			"?against= compares the whole log: leave every_s out"}
	}
	return name, nil
}

// regretAgainst answers with the comparison of the log up to the event numbered last, and
// with its replay under a policy.
func (s *server) regretAgainst(w http.ResponseWriter, r *http.Request, session *sessions.Session, last int64,
	name string, full bool) error {
	cfg := session.Info().Config
	h := regret.NewHindsight(&cfg.Cluster)
	for rec, err := range upTo(session.Log(r.Context(), 0), last) {
		if err == nil {
			err = h.Add(rec)
		}
		if err != nil {
			return err
		}
	}
	reg, err := regret.Of(r.Context(), h, s.svc.Bound)
	if err != nil {
		return err
	}
	var parameters []byte
	if name == cfg.Policy {
		parameters = cfg.Parameters
	}
	err = s.svc.Replay(r.Context(), func(ctx context.Context) error {
		return reg.Against(ctx, h, name, parameters, s.cfg.Sessions.NewPolicy)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindJSON)
	return reg.EncodeJSON(w, full)
}

// interval reads the query parameter every_s and returns microseconds; 0 where it is
// absent.
func interval(r *http.Request) (int64, error) {
	if !r.URL.Query().Has("every_s") {
		return 0, nil
	}
	us, err := hare.ParseMicros(r.URL.Query().Get("every_s"))
	if err != nil || us <= 0 || us > hare.MaxExact {
		return 0, &statusError{http.StatusBadRequest, "bad_query",
			"?every_s= must be seconds above 0, with six decimals at most: every_s=3600 is every hour"}
	}
	return us, nil
}

// checkLineCount refuses an interval that would give too many lines for the log up to
// the event numbered last.
func checkLineCount(ctx context.Context, session *sessions.Session, last, everyUs int64) error {
	var ends [2]int64
	for i, after := range []int64{0, last - 1} {
		for rec, err := range session.Log(ctx, after) {
			if err != nil {
				return err
			}
			ends[i] = rec.Event.AtUs
			break
		}
	}
	if n := regret.Intervals(ends[0], ends[1], everyUs); n > regret.MaxReports {
		return &statusError{http.StatusUnprocessableEntity, "too_many_lines",
			fmt.Sprintf("this log has %d lines of every_s=%s, and %d are the most: ask for every_s=%s or more",
				n, hare.FormatMicros(everyUs), regret.MaxReports, hare.FormatMicros(regret.LeastInterval(ends[0], ends[1])))}
	}
	return nil
}

// upTo returns the records up to the event numbered last.
func upTo(log iter.Seq2[wire.Record, error], last int64) iter.Seq2[wire.Record, error] {
	return func(yield func(wire.Record, error) bool) {
		if last == 0 {
			return
		}
		for rec, err := range log {
			if !yield(rec, err) || err == nil && rec.Event.Seq >= last {
				return
			}
		}
	}
}

// regretRoute sends answers with every_s line by line as they are computed, and lets
// other answers, which are one document, be compressed.
func regretRoute(h http.HandlerFunc) http.HandlerFunc {
	lines := uncompressed(h)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("every_s") {
			lines(w, r)
			return
		}
		h(w, r)
	}
}

// getSchedule answers with the schedule that the session followed.
//
//	@Summary		The schedule that the session followed
//	@Description	Where every task of a job took the same times on GPUs of one type, an instance and a result
//	@Description	for it, of the jobs that ended, that hare verify accepts; otherwise a trace of the tasks that
//	@Description	ended.
//	@Tags			sessions
//	@ID				getSchedule
//	@Param			id	path	string	true	"the session"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	followedJSON	"the schedule or the trace"
//	@Failure		404	{object}	openapi.Problem		"no such session"
//	@Failure		422	{object}	openapi.Problem		"the log is too large for an instance"
//	@Failure		500	{object}	openapi.Problem		"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"busy or draining"
//	@Router			/v1/sessions/{id}/schedule [get]
func (s *server) getSchedule(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	h, err := hindsight(r, session)
	if err != nil {
		return err
	}
	f, err := h.Followed(s.svc.Version())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindJSON)
	return encodeFollowed(w, f)
}
