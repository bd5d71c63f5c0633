package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/openapi"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// handle turns a handler that returns errors into an http.HandlerFunc. Query parameters
// that takes does not name are refused, and bodies that are not application/json.
func (s *server) handle(f func(http.ResponseWriter, *http.Request) error, takes ...string) http.HandlerFunc {
	return s.handleKinds([]string{kindJSON}, f, takes...)
}

// handleKinds is handle for bodies of one of the media types kinds.
func (s *server) handleKinds(kinds []string, f func(http.ResponseWriter, *http.Request) error,
	takes ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := &incoming{claim: s.cfg.Memory.Claim(tenantOf(r.Context()))}
		defer in.end()
		r = r.WithContext(admission.WithClaim(context.WithValue(r.Context(), incomingKey{}, in), in.claim))
		err := checkKind(r, kinds)
		if err == nil {
			err = checkQuery(r, takes)
		}
		if err == nil {
			err = f(w, r)
		}
		switch {
		case err == nil:
		case started(w):
			// Either the client has disconnected or the stored answer cannot be read.
			// The connection is closed, so that the client notices that the answer is
			// incomplete.
			s.cfg.Logger.Warn("answer broken off", "request_id", requestID(r.Context()), "error", err)
			panic(http.ErrAbortHandler)
		default:
			s.fail(w, r, err)
		}
	}
}

// admit gives a request its places among the calls that compute: in the quota of its tenant, and among all calls.
// Both are looked at before the body is read, so that a request for which there is no place costs nothing, and taken
// when the body has arrived, so that a client that sends slowly holds no place.
func (s *server) admit(f func(http.ResponseWriter,
	*http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		in := incomingOf(r.Context())
		if err := s.awaitBody(r, in, true); err != nil {
			return err
		}
		if r.Method != http.MethodPost {
			if err := in.take(); err != nil {
				return err
			}
		}
		return f(w, r)
	}
}

// awaitBody refuses a request for which there is no place now, and else lets incoming.take give it one. The
// tenant's quota, where it counts, comes first, so that a tenant that has used its quota neither learns about the
// load of others nor takes a place from them.
func (s *server) awaitBody(r *http.Request, in *incoming, counts bool) error {
	if counts && callerOf(r.Context()) != nil {
		if err := s.cfg.Quotas.SolveRoom(tenantOf(r.Context())); err != nil {
			return err
		}
	}
	if len(s.calls) == cap(s.calls) {
		return admission.ErrBusy
	}
	in.places = func() (err error) {
		if counts {
			if in.quota, err = s.acquire(r.Context()); err != nil {
				return err
			}
		}
		select {
		case s.calls <- struct{}{}:
			in.call = func() { <-s.calls }
			return nil
		default:
			return admission.ErrBusy
		}
	}
	return nil
}

// bound computes a relaxation alone.
//
//	@Summary		Bound an instance from below
//	@Description	No schedule can have a smaller objective than the bound. Certificates prove the bounds of
//	@Description	price, critical_path and machine. The bound of queyranne has no certificate, and paper proves
//	@Description	nothing. Where jobs have durations, expected bounds the mean cost over them, without a
//	@Description	certificate; otherwise the bound is for the times as they are written, and estimated is true.
//	@Tags			scheduling
//	@ID				bound
//	@Param			body	body	openapi.BoundRequest	true	"the instance and a method"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	boundJSON	"the bound, with its certificate where it has one"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/bounds [post]
func (s *server) bound(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	req, err := s.read(w, r, "method")
	if err != nil {
		return err
	}
	if req.Method == "" {
		req.Method = hare.MethodPrice
	}
	if methods := service.Methods(); !slices.Contains(methods, req.Method) {
		return &hare.InvalidError{Pointer: "/method", Code: "unknown_value",
			Detail: "must be one of " + strings.Join(methods, ", ")}
	}
	var rel *hare.Relaxation
	if req.Expected {
		if req.Method != hare.MethodPrice {
			return &hare.InvalidError{Pointer: "/method", Code: "not_supported",
				Detail: "the mean over durations is bounded by " + hare.MethodPrice}
		}
		rel, err = s.svc.BoundExpected(r.Context(), req.Instance)
	} else {
		rel, err = s.svc.Bound(r.Context(), req.Instance, req.Method)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindJSON)
	return json.NewEncoder(w).Encode(boundJSON{rel.Method, rel.Bound.RoundDown(), rel.Certified, req.Expected,
		!req.Expected && req.Instance.Uncertain(), wire.CertificateJSON(rel.Certificate)})
}

// boundJSON is a lower bound on the objective of every feasible schedule.
type boundJSON struct {
	Method string      `json:"method"`
	Bound  hare.Amount `json:"bound"`
	// Certified says that the certificate proves the bound.
	Certified bool `json:"certified"`
	// Expected says that the bound is on the mean cost over the durations of jobs. It has no certificate.
	Expected bool `json:"expected,omitempty"`
	// Estimated says that some job has durations, and that the bound is for the times as they are written.
	Estimated   bool            `json:"estimated,omitempty"`
	Certificate certificateText `json:"certificate,omitempty"`
} //	@name	BoundResult

// certificateText is the JSON form of a certificate.
type certificateText = json.RawMessage

// verify checks a result.
//
//	@Summary		Check a result
//	@Description	The verifier shares no code with the solver. It checks every constraint in integers,
//	@Description	recomputes the value, and recomputes the bound from the certificate in exact arithmetic. For a
//	@Description	plan for the rest of an earlier plan, it derives the rest and its constant from the instance
//	@Description	and from the work that had started, which it reads from previous or, without previous, from
//	@Description	the schedule of the whole in the result. The answer to an invalid result has status 200, ok
//	@Description	false, and the faults.
//	@Tags			scheduling
//	@ID				verify
//	@Param			body	body	openapi.VerifyRequest	true	"the instance and a result for it"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	verify.Report	"the outcome"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/verify [post]
func (s *server) verify(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindJSON); err != nil {
		return err
	}
	req, err := s.read(w, r, "result")
	if err != nil {
		return err
	}
	rep, err := s.svc.Verify(r.Context(), req.Instance, req.Result, req.Replan.Previous, req.Replan.Before)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kindJSON)
	return json.NewEncoder(w).Encode(rep)
}

// version returns name and version of the program.
//
//	@Summary	Versions of Hare and of HiGHS
//	@Tags		server
//	@ID			version
//	@Produce	json
//	@Success	200	{object}	openapi.Version	"the versions"
//	@Router		/v1/version [get]
func (s *server) version(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", kindJSON)
	return json.NewEncoder(w).Encode(map[string]string{"version": s.svc.Version(), "highs": s.svc.EngineVersion()})
}

// health reports that the process answers requests.
//
//	@Summary	Liveness
//	@Tags		server
//	@ID			health
//	@Produce	plain
//	@Success	200	{string}	string	"the process answers"
//	@Router		/healthz [get]
func (s *server) health(w http.ResponseWriter, _ *http.Request) error {
	return write(w, kindText, []byte("ok\n"))
}

// ready reports whether the server takes new work.
//
//	@Summary	Readiness
//	@Tags		server
//	@ID			ready
//	@Produce	plain,application/problem+json
//	@Success	200	{string}	string			"new work is taken"
//	@Failure	503	{object}	openapi.Problem	"the server is shutting down"
//	@Router		/readyz [get]
func (s *server) ready(w http.ResponseWriter, _ *http.Request) error {
	if !s.svc.Ready() {
		return admission.ErrDraining
	}
	return write(w, kindText, []byte("ready\n"))
}

// measurements serves the metrics.
//
//	@Summary	Metrics in the text format of Prometheus, or as OpenMetrics
//	@Tags		server
//	@ID			metrics
//	@Param		name[]	query	[]string	false	"names of the metrics to answer with: all without it"	collectionFormat(multi)
//	@Produce	plain,application/openmetrics-text
//	@Success	200	{string}	string	"the metrics"
//	@Router		/metrics [get]
func (s *server) measurements(w http.ResponseWriter, r *http.Request) error {
	// The middleware of this server compresses the answer.
	r.Header.Del("Accept-Encoding")
	s.metrics.ServeHTTP(w, r)
	return nil
}

// specificationJSON serves the OpenAPI specification as JSON.
//
//	@Summary	This specification as JSON
//	@Tags		documentation
//	@ID			openapiJson
//	@Produce	json
//	@Success	200	{object}	object	"an OpenAPI 3.1 document"
//	@Router		/openapi.json [get]
func (s *server) specificationJSON(w http.ResponseWriter, _ *http.Request) error {
	return write(w, kindJSON, openapi.JSON)
}

// specificationYAML serves the OpenAPI specification as YAML.
//
//	@Summary	This specification as YAML
//	@Tags		documentation
//	@ID			openapiYaml
//	@Produce	application/yaml
//	@Success	200	{string}	string	"an OpenAPI 3.1 document"
//	@Router		/openapi.yaml [get]
func (s *server) specificationYAML(w http.ResponseWriter, _ *http.Request) error {
	return write(w, "application/yaml", openapi.YAML)
}

func write(w http.ResponseWriter, kind string, text []byte) error {
	w.Header().Set("Content-Type", kind)
	_, err := w.Write(text)
	return err
}

// policiesJSON lists the policies of sessions.
type policiesJSON struct {
	Policies []registry.SessionInfo `json:"policies"`
} //	@name	Policies

// getPolicies lists the policies that sessions take.
//
//	@Summary		List the policies of sessions
//	@Description	Each policy says what it goes by in place of sizes, which nobody knows in a session, and which
//	@Description	parameters it takes, with units and defaults.
//	@Tags			sessions
//	@ID				listPolicies
//	@Produce		json
//	@Success		200	{object}	policiesJSON	"the policies, by name"
//	@Router			/v1/policies [get]
func (s *server) getPolicies(w http.ResponseWriter, _ *http.Request) error {
	return answerJSON(w, http.StatusOK, policiesJSON{registry.SessionInfos()})
}
