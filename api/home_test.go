package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
)

func TestHome(t *testing.T) {
	h, _ := newServer(t)
	page := request(t, h, "GET", "/", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	policy := page.Header().Get("Content-Security-Policy")
	if page.Code != 200 || page.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.Contains(policy, "script-src 'sha256-") {
		t.Errorf("%d %v", page.Code, page.Header())
	}
	for _, want := range []string{`<a href="/docs">`, `<a href="/healthz">`, `<a href="/metrics">`, `name="viewport"`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	text := request(t, h, "GET", "/", "", "Accept", "*/*")
	if text.Code != 200 || text.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
		!strings.Contains(text.Body.String(), "/docs ") || strings.Contains(text.Body.String(), "<") {
		t.Errorf("%d %v %s", text.Code, text.Header(), text.Body)
	}
	if text.Header().Get("Vary") == "" {
		t.Error("a cache may give the page to those who want text")
	}
}

// TestHomeNamesWhatThereIs checks that the page links to sessions only on servers that have them, and not to metrics
// that another address serves.
func TestHomeNamesWhatThereIs(t *testing.T) {
	_, svc := newServer(t)
	plain := request(t, servetest.New(t, svc, api.Config{}), "GET", "/", "").Body.String()
	if !strings.Contains(plain, "/v1/solves") || strings.Contains(plain, "/v1/sessions") {
		t.Errorf("only solves are there: %s", plain)
	}
	private := request(t, servetest.New(t, svc, api.Config{PrivateMetrics: true}), "GET", "/", "").Body.String()
	if strings.Contains(private, "/metrics") {
		t.Error("/metrics is named and not there")
	}
}

func TestDocs(t *testing.T) {
	h, _ := newServer(t)
	for _, method := range []string{"GET", "HEAD"} {
		w := request(t, h, method, "/docs/", "")
		if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "/docs" {
			t.Errorf("%s /docs/: %d to %q", method, w.Code, w.Header().Get("Location"))
		}
	}
	if w := request(t, h, "POST", "/docs/", "x"); w.Code != 404 {
		t.Errorf("POST /docs/: %d", w.Code)
	}
	w := request(t, h, "GET", "/docs", "")
	policy := w.Header().Get("Content-Security-Policy")
	if w.Code != 200 || !strings.Contains(policy, "connect-src 'self'") ||
		!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "script-src 'unsafe-inline'") {
		t.Errorf("%d %s", w.Code, policy)
	}
	if !strings.Contains(w.Body.String(), "Hare over HTTP") {
		t.Error("no page")
	}
}
