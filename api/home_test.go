package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/admission"
)

// TestConsole checks what browsers get at /: a page that is asked for again each time, files that never change, and a
// policy under which neither has code within the markup or from elsewhere. No key is asked for.
func TestConsole(t *testing.T) {
	h, _ := newServer(t)
	locked := newKeyedServer(t, admission.Quota{}).handler
	for _, server := range []http.Handler{h, locked} {
		page := request(t, server, "GET", "/", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		policy := page.Header().Get("Content-Security-Policy")
		if page.Code != 200 || page.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
			page.Header().Get("Cache-Control") != "no-cache" || strings.Contains(policy, "unsafe") ||
			!strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; ") {
			t.Errorf("%d %v", page.Code, page.Header())
		}
		body := page.Body.String()
		for _, bad := range []string{"<style", " style=", " on", "//"} {
			if strings.Contains(body, bad) {
				t.Errorf("the page contains %q", bad)
			}
		}
		loads := regexp.MustCompile(`(?:src|href)="(/assets/[^"]*)"`).FindAllStringSubmatch(body, -1)
		if len(loads) != 4 {
			t.Fatalf("the page loads %q", loads)
		}
		for _, l := range loads {
			file := request(t, server, "GET", l[1], "")
			if file.Code != 200 || !strings.HasSuffix(file.Header().Get("Cache-Control"), ", immutable") ||
				file.Header().Get("X-Content-Type-Options") != "nosniff" || file.Body.Len() == 0 {
				t.Errorf("%s: %d %v", l[1], file.Code, file.Header())
			}
		}
	}
}

// TestHomeText checks what clients get that do not ask for HTML.
func TestHomeText(t *testing.T) {
	h, _ := newServer(t)
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
