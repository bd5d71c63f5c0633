package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hare-sched/hare/plot/web"
)

// homeLink is a line of the text for clients that are no browsers.
type homeLink struct {
	path, text string
	key        bool // the path demands a key
}

// homeLinks returns links to the parts that this server is configured with.
func (s *server) homeLinks() []homeLink {
	keys := s.cfg.Keys != nil
	links := []homeLink{
		{"/docs", "the calls of this server, to read and to try", false},
		{"/openapi.json", "their specification, OpenAPI 3.1, for generators of clients; also /openapi.yaml", false},
		{"/healthz", "whether the process runs", false},
		{"/readyz", "whether it takes work", false},
		{"/v1/version", "the versions of Hare and of its LP engine", false},
		{"/v1/solves", "the solves that are kept", keys},
		{"/v1/what-if", "the what-ifs that are kept", keys},
		{"/v1/simulations", "the simulations that are kept", keys},
		{"/v1/capacity", "the plans of capacity that are kept", keys},
	}
	if s.cfg.Sessions != nil {
		links = append(links, homeLink{"/v1/sessions", "the online sessions", keys},
			homeLink{"/v1/policies", "the policies that sessions take, with their parameters", keys})
	}
	if s.cfg.Clusters != nil {
		links = append(links, homeLink{"/v1/clusters", "the clusters whose jobs this server runs", keys})
	}
	if !s.cfg.PrivateMetrics {
		links = append(links, homeLink{"/metrics", "what Prometheus reads", keys})
	}
	return links
}

// home is the console for browsers, and describes the server as text to other clients.
//
//	@Summary	What this server is, with links to what it has
//	@Tags		documentation
//	@ID			home
//	@Produce	html,plain
//	@Success	200	{string}	string	"a page where text/html is accepted, else text"
//	@Router		/ [get]
func (s *server) home(w http.ResponseWriter, r *http.Request) error {
	w.Header().Add("Vary", "Accept")
	if !strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html") {
		return write(w, kindText, []byte(s.homeText()))
	}
	h := w.Header()
	h.Set("Content-Security-Policy", web.ConsolePolicy)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, err := io.WriteString(w, web.Console)
	return err
}

func (s *server) homeText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Hare %s schedules training jobs on clusters whose GPUs differ, and proves how far\n"+
		"each schedule is from the best one.\n\n", s.svc.Version())
	for _, l := range s.homeLinks() {
		key := ""
		if l.key {
			key = ", with a key"
		}
		fmt.Fprintf(&b, "%-16s %s%s\n", l.path, l.text, key)
	}
	return b.String()
}

// writePage sends a page whose Content-Security-Policy allows its own scripts only.
func writePage(w http.ResponseWriter, p *web.Page) error {
	w.Header().Set("Content-Security-Policy", p.Kind.Policy()+"; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return p.Write(w)
}

// docs renders the specification.
//
//	@Summary	This specification as a page, with no request to anywhere else
//	@Tags		documentation
//	@ID			docs
//	@Produce	html
//	@Success	200	{string}	string	"the page"
//	@Router		/docs [get]
func (s *server) docs(w http.ResponseWriter, _ *http.Request) error {
	return writePage(w, &web.Page{Kind: web.Docs, Title: "Hare over HTTP"})
}

// pathNotFound answers 404 where no route matches. Files of the console, which are no part of the interface, are sent,
// for browsers to keep for ever; the path /docs/ is redirected to /docs.
func (s *server) pathNotFound(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if a, ok := web.Assets[r.URL.Path]; ok {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			w.Header().Set("Content-Type", a.Type)
			_, _ = w.Write(a.Body) // an error means that the client is gone
			return
		}
		if r.URL.Path == "/docs/" {
			http.Redirect(w, r, "/docs", http.StatusPermanentRedirect)
			return
		}
	}
	s.problem(w, r, http.StatusNotFound, "not_found", "there is nothing at this path: see /docs", nil)
}
