package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/wire"
)

// solveOf returns the tenant and the id of the solve in the path.
func solveOf(r *http.Request) (tenant, id string) {
	return tenantOf(r.Context()), chi.URLParam(r, "id")
}

// getSolve describes a solve.
//
//	@Summary		Look at a solve
//	@Description	The answer has the status, the termination, the value, bound and gap so far, and links to the
//	@Description	result and its views. With ?wait=N the answer comes when the solve ends or after N seconds;
//	@Description	with If-None-Match in addition, it comes as soon as anything differs from what the client has.
//	@Tags			solves
//	@ID				getSolve
//	@Param			id				path	string	true	"the solve"
//	@Param			wait			query	int		false	"0 to 3600, the seconds to wait for the end or, with If-None-Match, for a change"	minimum(0)	maximum(3600)
//	@Param			If-None-Match	header	string	false	"the ETag of the answer before"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	solveJSON	"the solve; ETag names this state"
//	@Success		304	"nothing has changed"
//	@Failure		400	{object}	openapi.Problem	"wait is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such solve"
//	@Failure		410	{object}	openapi.Problem	"the solve was deleted"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"too many requests are waiting: Retry-After says when to try again"
//	@Router			/v1/solves/{id} [get]
func (s *server) getSolve(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	wait, ok := digits(q.Get("wait"))
	if q.Has("wait") && (!ok || wait > int64(maxWait/time.Second)) {
		return badQuery("?wait= must be a whole number of seconds from 0 to %d", int64(maxWait/time.Second))
	}
	tenant, id := solveOf(r)
	info, err := s.cfg.Solves.Get(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	known := r.Header.Values("If-None-Match")
	text, tag := tagged(info)
	if wait > 0 && !info.Finished() && !(len(known) > 0 && noneMatch(known, tag)) {
		end, err := s.stream(r.Context(), "waits")
		if err != nil {
			return err
		}
		defer end()
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait)*time.Second)
		defer cancel()
		if len(known) == 0 {
			info, err = s.await(ctx, info)
		} else {
			info, err = s.changed(ctx, info, tag)
		}
		if err != nil {
			return err
		}
		text, tag = tagged(info)
	}
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if len(known) > 0 && !noneMatch(known, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", kindJSON)
	_, err = w.Write(text)
	return err
}

// tagged encodes the description of a solve and returns it with its strong ETag, which
// is a hash of the bytes.
func tagged(info solves.Info) (text []byte, tag string) {
	text, _ = json.Marshal(describeSolve(info)) // no error: every field can be encoded
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	return text, `"` + hex.EncodeToString(sum[:16]) + `"`
}

// changed waits until the description of the solve has an ETag other than tag, ctx ends
// or the server shuts down.
func (s *server) changed(ctx context.Context, info solves.Info, tag string) (solves.Info, error) {
	whole := context.WithoutCancel(ctx)
	for _, err := range s.cfg.Solves.Events(ctx, info.Tenant, info.ID, info.Events) {
		if err != nil && ctx.Err() == nil && !errors.Is(err, admission.ErrDraining) {
			return info, err
		}
		now, err := s.cfg.Solves.Get(whole, info.Tenant, info.ID)
		if err != nil {
			return info, err
		}
		if _, is := tagged(now); is != tag {
			return now, nil
		}
	}
	return s.cfg.Solves.Get(whole, info.Tenant, info.ID)
}

// listSolves answers with a page of the list of solves.
//
//	@Summary		List the solves, the newest first
//	@Description	The answer has at most limit solves. If there are more, links.next continues the list. A solve
//	@Description	must match all filters.
//	@Tags			solves
//	@ID				listSolves
//	@Param			status			query	string	false	"those in this state"				Enums(queued,running,succeeded,cancelled,failed)
//	@Param			termination		query	string	false	"those that stopped for this reason"	Enums(optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule)
//	@Param			instance_sha256	query	string	false	"those of this instance, as hare hash prints it"
//	@Param			label			query	[]string	false	"those with all of these labels: name=value, or name for any value"	collectionFormat(multi)
//	@Param			q				query	string	false	"those whose id, name or value of a label has this part, in upper or lower case"
//	@Param			limit			query	int		false	"1 to 1000, the most solves to list: 100 without it"	minimum(1)	maximum(1000)
//	@Param			after			query	string	false	"next of the list before"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	solveListJSON	"the solves"
//	@Failure		400	{object}	openapi.Problem		"a parameter is invalid"
//	@Failure		500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Router			/v1/solves [get]
func (s *server) listSolves(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	oneOf := func(name string, known ...string) (string, error) {
		v := q.Get(name)
		if q.Has(name) && !slices.Contains(known, v) {
			return "", badQuery("?%s= must be one of %s", name, strings.Join(known, ", "))
		}
		return v, nil
	}
	f, err := tagFilter(r)
	if err != nil {
		return err
	}
	f.InstanceSHA256 = q.Get("instance_sha256")
	if f.Status, err = oneOf("status", solves.StatusQueued, solves.StatusRunning, solves.StatusSucceeded,
		solves.StatusCancelled, solves.StatusFailed); err != nil {
		return err
	}
	if f.Termination, err = oneOf("termination", hare.TerminationOptimal, hare.TerminationGap,
		hare.TerminationWorkLimit, hare.TerminationMethod, hare.TerminationDeadline, hare.TerminationCancelled,
		hare.TerminationInfeasible, hare.TerminationNoSchedule); err != nil {
		return err
	}
	if sum, err := hex.DecodeString(f.InstanceSHA256); q.Has("instance_sha256") &&
		(err != nil || len(sum) != sha256.Size) {
		return badQuery("?instance_sha256= must be 64 hexadecimal digits, as hare hash prints them")
	}
	infos, next, err := s.cfg.Solves.List(r.Context(), tenantOf(r.Context()), f)
	if err != nil {
		return badCursor(err)
	}
	list := solveListJSON{Solves: make([]solveJSON, len(infos)), Next: next}
	for i := range infos {
		list.Solves[i] = describeSolve(infos[i])
	}
	if next != "" {
		q.Set("after", next)
		list.Links.Next = "/v1/solves?" + q.Encode()
	}
	return answerJSON(w, http.StatusOK, list)
}

// tagFilter reads the query parameters that all lists of solves and reports have.
func tagFilter(r *http.Request) (f solves.Filter, _ error) {
	q := r.URL.Query()
	f = solves.Filter{Limit: 100, After: q.Get("after"), Labels: q["label"], Text: q.Get("q")}
	if q.Has("limit") {
		n, ok := digits(q.Get("limit"))
		if !ok || n < 1 || n > maxListed {
			return f, badQuery("?limit= must be a whole number from 1 to %d", maxListed)
		}
		f.Limit = int(n)
	}
	return f, nil
}

// badCursor says of a list's *hare.InvalidError which parameter is wrong.
func badCursor(err error) error {
	if errors.As(err, new(*hare.InvalidError)) {
		return badQuery("?after= must be the next of a list")
	}
	return err
}

// solveListJSON lists solves, the newest first.
type solveListJSON struct {
	Solves []solveJSON `json:"solves"`
	// Next is what to give as after to GET /v1/solves for the solves that follow. It is left out at the end.
	Next  string         `json:"next,omitempty"`
	Links solveListLinks `json:"links"`
} //	@name	SolveList

// solveListLinks holds paths on this server.
type solveListLinks struct {
	// Next is the path of the rest of the list, with the same filters. It is left out at the end of the list.
	Next string `json:"next,omitempty"`
} //	@name	SolveListLinks

// cancelSolve cancels a solve.
//
//	@Summary		Cancel a solve
//	@Description	The solve ends with the best certified pair so far. Cancelling it again, or cancelling a solve
//	@Description	that has ended, changes nothing.
//	@Tags			solves
//	@ID				cancelSolve
//	@Param			id	path	string	true	"the solve"
//	@Produce		json,application/problem+json
//	@Success		202	{object}	solveJSON	"the solve: look again for its end"
//	@Failure		400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure		404	{object}	openapi.Problem	"no such solve"
//	@Failure		410	{object}	openapi.Problem	"the solve was deleted"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/solves/{id}/cancel [post]
func (s *server) cancelSolve(w http.ResponseWriter, r *http.Request) error {
	tenant, id := solveOf(r)
	info, err := s.cfg.Solves.Cancel(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	s.cfg.Logger.Info("solve cancelled", "request_id", requestID(r.Context()), "solve", id, "status", info.Status)
	w.Header().Set("Location", solvePath(info.ID))
	return answerJSON(w, http.StatusAccepted, describeSolve(info))
}

// deleteSolve deletes a solve.
//
//	@Summary	Remove a solve with its result and its events
//	@Tags		solves
//	@ID			deleteSolve
//	@Param		id	path	string	true	"the solve"
//	@Produce	application/problem+json
//	@Success	204	"it is gone"
//	@Failure	400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem	"no such solve"
//	@Failure	409	{object}	openapi.Problem	"the solve has not ended: cancel it first"
//	@Failure	410	{object}	openapi.Problem	"the solve was deleted before"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	507	{object}	openapi.Problem	"the disk refuses the write"
//	@Router		/v1/solves/{id} [delete]
func (s *server) deleteSolve(w http.ResponseWriter, r *http.Request) error {
	tenant, id := solveOf(r)
	if err := s.cfg.Solves.Delete(r.Context(), tenant, id); err != nil {
		return err
	}
	s.cfg.Logger.Info("solve deleted", "request_id", requestID(r.Context()), "solve", id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// getResult answers with the stored result.
//
//	@Summary		The result of a solve
//	@Description	The answer has the stored bytes, which do not change once the solve has ended. While the solve
//	@Description	runs, the answer is the best certified pair that has been saved.
//	@Tags			solves
//	@ID				getResult
//	@Param			id	path	string	true	"the solve"
//	@Produce		json,application/x-ndjson,application/problem+json
//	@Success		200	{object}	openapi.Result	"the result; as NDJSON all but the lanes on the first line, then a lane a line"
//	@Failure		400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure		404	{object}	openapi.Problem	"no such solve, or (no_result) no result yet"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		410	{object}	openapi.Problem	"the solve was deleted"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Router			/v1/solves/{id}/result [get]
func (s *server) getResult(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindJSON, kindNDJSON)
	if err != nil {
		return err
	}
	tenant, id := solveOf(r)
	info, err := s.cfg.Solves.Get(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	return s.sendResult(w, r, info, kind)
}

// sendResult sends the stored bytes, or encodes the stored result as NDJSON.
func (s *server) sendResult(w http.ResponseWriter, r *http.Request, info solves.Info, kind string) (err error) {
	_, end := s.step(r.Context(), "encode")
	defer func() { end(err) }()
	w.Header().Add("Vary", "Accept")
	// a saved intermediate result is stored in another form than it is answered
	if kind == kindNDJSON || !info.Finished() {
		res, err := s.cfg.Solves.Result(r.Context(), info.Tenant, info.ID)
		if err != nil {
			return err
		}
		// saved intermediate results have no list of tasks
		if res.Options.Detail == "tasks" && res.TaskList == nil && res.Schedule != nil {
			inst, err := s.planned(r.Context(), info.Tenant, info.ID, res)
			if err != nil {
				return err
			}
			res.TaskList = res.Schedule.Tasks(inst, hare.MaxTaskObjects)
		}
		return encodeResult(w, res, kind)
	}
	stored, size, err := s.cfg.Solves.ResultBytes(r.Context(), info.Tenant, info.ID)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	return sendStored(w, kind, stored, size)
}

// sendStored sends a stored document of this size.
func sendStored(w http.ResponseWriter, media string, text io.Reader, size int64) error {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	_, err := io.Copy(w, text)
	return err
}

// encodeResult writes a result as one document or as NDJSON.
func encodeResult(w http.ResponseWriter, res *hare.Result, kind string) error {
	w.Header().Set("Content-Type", kind)
	if kind == kindNDJSON {
		return wire.EncodeResultLines(w, res)
	}
	return wire.EncodeResult(w, res)
}

// getCertificate answers with the certificate of the bound.
//
//	@Summary	The certificate of a solve's bound
//	@Tags		solves
//	@ID			getCertificate
//	@Param		id	path	string	true	"the solve"
//	@Produce	json,application/problem+json
//	@Success	200	{object}	openapi.Certificate	"the certificate of the best bound so far"
//	@Failure	400	{object}	openapi.Problem		"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem		"no such solve, no result yet (no_result), or a result without it (no_certificate)"
//	@Failure	406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem		"the solve was deleted"
//	@Failure	500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem		"busy: Retry-After says when to try again"
//	@Router		/v1/solves/{id}/certificate [get]
func (s *server) getCertificate(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	tenant, id := solveOf(r)
	res, err := s.cfg.Solves.Result(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	if res.Certificate == nil {
		return &statusError{http.StatusNotFound, "no_certificate",
			"the result holds no certificate: solve with detail jobs, lanes or tasks, and a bound that is certified"}
	}
	text := wire.CertificateJSON(res.Certificate)
	w.Header().Set("Content-Type", kindJSON)
	_, err = w.Write(append(text, '\n'))
	return err
}

// getInstance answers with the instance of a solve.
//
//	@Summary	The instance of a solve
//	@Tags		solves
//	@ID			getInstance
//	@Param		id	path	string	true	"the solve"
//	@Produce	json,application/problem+json
//	@Success	200	{object}	openapi.Instance	"the instance"
//	@Failure	400	{object}	openapi.Problem		"the operation has no query parameters"
//	@Failure	404	{object}	openapi.Problem		"no such solve"
//	@Failure	406	{object}	openapi.Problem		"the server has none of the media types that the client accepts"
//	@Failure	410	{object}	openapi.Problem		"the solve was deleted"
//	@Failure	500	{object}	openapi.Problem		"a defect of the server; its log has the request_id"
//	@Router		/v1/solves/{id}/instance [get]
func (s *server) getInstance(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	tenant, id := solveOf(r)
	inst, err := s.cfg.Solves.Instance(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindJSON)
	return wire.EncodeInstance(w, inst)
}
