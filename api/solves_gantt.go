package api

import (
	"net/http"

	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/plot/web"
)

// getGanttSVG draws the schedule as SVG.
//
//	@Summary	The schedule as a picture that scales
//	@Tags		solves
//	@ID			getGanttSvg
//	@Param		id		path	string	true	"the solve"
//	@Param		width	query	int		false	"400 to 4000 CSS pixels: 1200 without it"	minimum(400)	maximum(4000)
//	@Produce	image/svg+xml,application/problem+json
//	@Success	200	{string}	string			"the picture"
//	@Failure	400	{object}	openapi.Problem	"width is invalid"
//	@Failure	404	{object}	openapi.Problem	"no such solve, no result yet (no_result), or a result without a schedule (no_schedule)"
//	@Failure	410	{object}	openapi.Problem	"the solve was deleted"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem	"busy: Retry-After says when to try again"
//	@Router		/v1/solves/{id}/gantt.svg [get]
func (s *server) getGanttSVG(w http.ResponseWriter, r *http.Request) error {
	return s.gantt(w, r, plot.GanttSVG, "image/svg+xml")
}

// getGanttPNG draws the schedule as PNG.
//
//	@Summary	The schedule as a picture of pixels
//	@Tags		solves
//	@ID			getGanttPng
//	@Param		id		path	string	true	"the solve"
//	@Param		width	query	int		false	"400 to 4000 CSS pixels, of two pixels each: 1200 without it"	minimum(400)	maximum(4000)
//	@Produce	png,application/problem+json
//	@Success	200	{string}	string			"the picture"
//	@Failure	400	{object}	openapi.Problem	"width is invalid"
//	@Failure	404	{object}	openapi.Problem	"no such solve, no result yet (no_result), or a result without a schedule (no_schedule)"
//	@Failure	410	{object}	openapi.Problem	"the solve was deleted"
//	@Failure	500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure	503	{object}	openapi.Problem	"busy: Retry-After says when to try again"
//	@Router		/v1/solves/{id}/gantt.png [get]
func (s *server) getGanttPNG(w http.ResponseWriter, r *http.Request) error {
	return s.gantt(w, r, plot.GanttPNG, "image/png")
}

// getGanttHTML draws the schedule as an interactive page.
//
//	@Summary		The schedule as a page with zoom and search
//	@Description	The page is one file that makes no request.
//	@Tags			solves
//	@ID				getGanttHtml
//	@Param			id	path	string	true	"the solve"
//	@Produce		html,application/problem+json
//	@Success		200	{string}	string			"the page"
//	@Failure		400	{object}	openapi.Problem	"the operation has no query parameters"
//	@Failure		404	{object}	openapi.Problem	"no such solve, no result yet (no_result), or a result without a schedule (no_schedule)"
//	@Failure		410	{object}	openapi.Problem	"the solve was deleted"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy: Retry-After says when to try again"
//	@Router			/v1/solves/{id}/gantt.html [get]
func (s *server) getGanttHTML(w http.ResponseWriter, r *http.Request) error {
	return s.gantt(w, r, plot.GanttHTML, "text/html; charset=utf-8")
}

func (s *server) gantt(w http.ResponseWriter, r *http.Request, kind, media string) error {
	width, err := ganttWidth(r)
	if err != nil {
		return err
	}
	inst, res, err := s.drawable(r)
	if err != nil {
		return err
	}
	ganttHeaders(w, kind, media)
	return plot.Gantt(w, kind, inst, res, width)
}

// ganttWidth reads the query parameter width; 0 where it is absent.
func ganttWidth(r *http.Request) (int, error) {
	if !r.URL.Query().Has("width") {
		return 0, nil
	}
	width, ok := digits(r.URL.Query().Get("width"))
	if !ok || width < plot.LeastGanttWidth || width > plot.MostGanttWidth {
		return 0, badQuery("?width= must be a whole number from %d to %d", plot.LeastGanttWidth, plot.MostGanttWidth)
	}
	return int(width), nil
}

// ganttHeaders writes the headers of a chart.
func ganttHeaders(w http.ResponseWriter, kind, media string) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("X-Content-Type-Options", "nosniff")
	// The names of jobs come from the client: the policy forbids scripts in pictures,
	// and in the page all scripts but its own.
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
	if kind == plot.GanttHTML {
		policy = web.Gantt.Policy()
	}
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
}
