package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/whatif"
	explaindoc "github.com/hare-sched/hare/wire/explain"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

const kindSVG = "image/svg+xml"

// acquire takes one of the tenant's max slots; ok is false where all are taken.
func (wl *whatIfLimiter) acquire(tenant string, max int) (end func(), ok bool) {
	wl.mu.Lock()
	defer wl.mu.Unlock()
	if wl.running[tenant] >= max {
		return nil, false
	}
	if wl.running == nil {
		wl.running = map[string]int{}
	}
	wl.running[tenant]++
	return func() {
		wl.mu.Lock()
		defer wl.mu.Unlock()
		if wl.running[tenant]--; wl.running[tenant] == 0 {
			delete(wl.running, tenant)
		}
	}, true
}

// whatIf compares scenarios with a base.
//
//	@Summary		Ask what would change
//	@Description	The server first computes a bound for every scenario from the prices of the base, and then
//	@Description	solves the scenarios that are not pruned. Each line is sent as soon as it is known: the base
//	@Description	first, a summary last; with ordered the scenarios come in their order. The difference of the
//	@Description	optima certainly lies within optimum_change, which is [bound − value of the base, value −
//	@Description	bound of the base]. The line of a scenario that fails has the problem, and the batch
//	@Description	continues. Without a time limit equal calls give equal lines, except for timing and order. If
//	@Description	the client disconnects, the batch ends. The server keeps the request and the answer, as it keeps
//	@Description	solves: Location is where, with the name and the labels of the request.
//	@Tags			scheduling
//	@ID				whatIf
//	@Param			body	body	openapi.WhatIfRequest	true	"the base and the scenarios"
//	@Accept			json
//	@Produce		application/x-ndjson,application/problem+json
//	@Success		200	{object}	whatif.Line	"a line each of the base, the scenarios and the summary"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"no such solve, or (no_result) no result yet"
//	@Failure		410	{object}	openapi.Problem	"the solve is deleted or expired"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		429	{object}	openapi.Problem	"too many what-ifs of this tenant are running: Retry-After says when to try again"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy, late or draining: Retry-After says when to try again"
//	@Router			/v1/what-if [post]
func (s *server) whatIf(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindNDJSON); err != nil {
		return err
	}
	text, err := s.body(w, r, s.bodyLimit(r.Context()))
	if err != nil {
		return err
	}
	req, err := decode(s, r, text, whatifdoc.Decode)
	if err != nil {
		return err
	}
	end, ok := s.whatIfs.acquire(tenantOf(r.Context()), s.cfg.MaxWhatIfs)
	if !ok {
		w.Header().Set("Retry-After", "1")
		return &statusError{http.StatusTooManyRequests, "limit",
			fmt.Sprintf("%d what-ifs are running, which is the limit: wait until one ends, or send more scenarios in one "+
				"what-if", s.cfg.MaxWhatIfs)}
	}
	defer end()
	if req.Base.SolveID != "" {
		if req.Base.Instance, req.Base.Result, err = s.stored(r, req.Base.SolveID); err != nil {
			return withPointer(err, "/base/solve_id")
		}
	}
	if err := admission.ClaimOf(r.Context()).Grow(admission.Footprint(req.Base.Instance)); err != nil {
		return err
	}
	if err := s.svc.CheckWhatIf(r.Context(), req); err != nil {
		return err
	}
	if err := s.cfg.Solves.Room(tenantOf(r.Context())); err != nil {
		return err
	}
	kept := s.report(r, solves.KindWhatIf, req.Tags, text)
	lines := newLineWriter(w, s.cfg.BodyTime)
	lines.location = kept.path()
	defer lines.end()
	ctx := whatif.WithQuota(r.Context(), func() (func(), error) { return s.acquire(r.Context()) })
	return s.svc.WhatIf(ctx, req, func(l *whatif.Line) error {
		if l.Err != nil {
			l.Error = s.problemDocument(r, l.Err)
		}
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		line = append(line, '\n')
		kept.Answer = append(kept.Answer, line...)
		if l.Line == whatifdoc.LineSummary {
			kept.keep()
		}
		return lines.send(line)
	})
}

// problemDocument returns the problem document of an error that does not end the
// answer.
func (s *server) problemDocument(r *http.Request, err error) json.RawMessage {
	p := &responseBuffer{header: http.Header{}}
	s.fail(p, r, err)
	if p.body.Len() == 0 {
		return json.RawMessage("null") // the client has disconnected
	}
	return bytes.TrimSpace(p.body.Bytes())
}

// responseBuffer is an answer that is kept in memory.
type responseBuffer struct {
	header http.Header
	body   bytes.Buffer
}

func (rb *responseBuffer) Header() http.Header         { return rb.header }
func (rb *responseBuffer) WriteHeader(int)             {}
func (rb *responseBuffer) Write(b []byte) (int, error) { return rb.body.Write(b) }

// withPointer adds, to an error about an absent solve, the place of the solve's id in
// the request.
func withPointer(err error, pointer string) error {
	if !errors.Is(err, solves.ErrNoSolve) {
		return err
	}
	return &absentSolve{pointer}
}

// prices answers with the prices of a stored solve.
//
//	@Summary		Prices of a solve by type and time
//	@Description	The answer has the certificate's price of a second of a GPU, by type. bound_fall is an upper
//	@Description	limit on how far the bound can fall with one more GPU of the type that is always in service.
//	@Description	bound_fall is not the worth of that GPU, because it limits only the bound, and not the value
//	@Description	of the best plan; a what-if estimates that.
//	@Tags			scheduling
//	@ID				getPrices
//	@Param			id	path	string	true	"the solve"
//	@Produce		json,text/csv,application/problem+json
//	@Success		200	{object}	explaindoc.Prices	"the prices; as CSV a line a cell and type: type, tasks, from_s, to_s, price"
//	@Failure		404	{object}	openapi.Problem	"no such solve, no result yet (no_result), or a bound that is not made of prices (no_prices)"
//	@Failure		410	{object}	openapi.Problem	"the solve is deleted or expired"
//	@Failure		406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/solves/{id}/prices [get]
func (s *server) prices(w http.ResponseWriter, r *http.Request) error {
	kind, err := negotiate(r, kindJSON, kindCSV)
	if err != nil {
		return err
	}
	p, err := s.pricesOf(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	if kind == kindCSV {
		w.Header().Set("Content-Type", kindCSV+"; charset=utf-8; header=present")
		return p.EncodeCSV(w)
	}
	return json.NewEncoder(w).Encode(p)
}

// pricesPicture draws the prices of a stored solve.
//
//	@Summary	Prices of a solve over time, as a picture
//	@Tags		scheduling
//	@ID			getPricesPicture
//	@Param		id	path	string	true	"the solve"
//	@Produce	image/svg+xml,application/problem+json
//	@Success	200	{string}	string			"an SVG picture"
//	@Failure	404	{object}	openapi.Problem	"no such solve, no result yet (no_result), or a bound that is not made of prices (no_prices)"
//	@Failure	410	{object}	openapi.Problem	"the solve is deleted or expired"
//	@Failure	406	{object}	openapi.Problem	"the server has none of the media types that the client accepts"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router		/v1/solves/{id}/prices.svg [get]
func (s *server) pricesPicture(w http.ResponseWriter, r *http.Request) error {
	if _, err := negotiate(r, kindSVG); err != nil {
		return err
	}
	p, err := s.pricesOf(r)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := explain.EncodeSVG(&b, p); err != nil {
		return err
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	return write(w, kindSVG, b.Bytes())
}

func (s *server) pricesOf(r *http.Request) (*explaindoc.Prices, error) {
	inst, res, err := s.stored(r, chi.URLParam(r, "id"))
	if err != nil {
		return nil, withPointer(err, "")
	}
	p, err := s.svc.Prices(r.Context(), inst, res)
	if errors.Is(err, explain.ErrNoPrices) {
		return nil, &statusError{http.StatusNotFound, "no_prices",
			"the bound of this solve is not made of prices: solve with bound price"}
	}
	return p, err
}
