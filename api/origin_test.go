package api_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/servetest"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
)

// eachRoute calls f for every route of a server, with a path that the route matches.
func eachRoute(t *testing.T, h http.Handler, f func(method, path string)) {
	t.Helper()
	n := 0
	err := chi.Walk(h.(chi.Routes), func(method, route string, _ http.Handler,
		_ ...func(http.Handler) http.Handler) error {
		n++
		f(method, strings.NewReplacer("{", "", "}", "").Replace(route))
		return nil
	})
	if err != nil || n < 50 {
		t.Fatalf("%d routes, %v", n, err)
	}
}

// refusedBy checks that an answer is a problem document with a status, a code and a text of its detail.
func refusedBy(t *testing.T, what string, w *httptest.ResponseRecorder, status int, code, detail string) {
	t.Helper()
	var p struct {
		Code, Detail string
		RequestID    *string `json:"request_id"`
	}
	err := json.Unmarshal(w.Body.Bytes(), &p)
	if err != nil || w.Code != status || p.Code != code || p.RequestID == nil ||
		!strings.Contains(p.Detail, detail) || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %d %.300s, want %d %s … %s", what, w.Code, w.Body, status, code, detail)
	}
}

// TestEveryRouteRefusesPagesOfOthers checks for every route that it refuses what a page of another origin can make a
// browser send, and bodies that are not of its media type.
func TestEveryRouteRefusesPagesOfOthers(t *testing.T) {
	h, _ := newServer(t)
	eachRoute(t, h, func(method, path string) {
		what := method + " " + path
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
			{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:9"},
			{"Origin", "http://evil.example"},
			{"Origin", "http://localhost:9"},
			{"Origin", "null"},
		} {
			w := request(t, h, method, path, "{}", header...)
			refusedBy(t, what+" with "+strings.Join(header, " "), w, http.StatusForbidden, "cross_origin", "/docs")
		}
		w := named(h, method, path, "evil.example:8080", "")
		refusedBy(t, what+" by another name", w, http.StatusMisdirectedRequest, "unknown_host", `"evil.example:8080"`)

		kind := kindOf(method, path)
		for _, other := range []string{"", "text/plain", "application/x-www-form-urlencoded",
			"multipart/form-data; boundary=x", "text/plain; application/json",
			"text/plain, " + kind, kind + ", " + kind, "image/svg+xml", ";"} {
			w := request(t, h, method, path, "{}", "Content-Type", other)
			refusedBy(t, what+" with "+other, w, http.StatusUnsupportedMediaType, "unsupported_media_type", "send "+kind)
		}
		for _, length := range []int64{-1, 2} {
			r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader("{}"))
			r.ContentLength = length // −1 is a body in chunks
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			refusedBy(t, what+" without a type", w, http.StatusUnsupportedMediaType, "unsupported_media_type",
				"no Content-Type: send "+kind)
		}
		for _, own := range [][]string{{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost"}, {"Sec-Fetch-Site",
			"none"}, {"Origin", "http://localhost"}, {}} {
			own = append(own, "Content-Type", kind+"; charset=utf-8")
			w := request(t, h, method, path, "{}", own...)
			// What agents do needs the secret of their registration.
			if strings.Contains(w.Body.String(), `"code":"agent_secret"`) {
				continue
			}
			if w.Code == 403 || w.Code == 415 || w.Code == 421 {
				t.Errorf("%s with %q: %d %s", what, own, w.Code, w.Body)
			}
		}
	})
}

// named sends a request with a Host that arrives at a local address; "" means none.
func named(h http.Handler, method, path, host, local string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	r.Header.Set("X-Forwarded-Host", "localhost") // is not trusted
	if local != "" {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
			net.TCPAddrFromAddrPort(netip.MustParseAddrPort(local))))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHosts(t *testing.T) {
	svc := service.New(service.Config{})
	hosts := func(names ...string) *api.Hosts {
		all := &api.Hosts{Flag: "--allow-host"}
		for _, name := range names {
			if err := all.Allow(name); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	const here, far, six = "127.0.0.1:8080", "10.1.2.3:8080", "[fe80::1%eth0]:8080"
	for _, c := range []struct {
		host, local string
		hosts       *api.Hosts
		ok          bool
	}{
		{"localhost", here, nil, true},
		{"localhost:1", here, nil, true},
		{"LOCALHOST.:65535", here, nil, true},
		{"localhost:", here, nil, true},
		{"a.b-c_d.localhost:8080", here, nil, true},
		{"127.0.0.1", here, nil, true},
		{"127.255.0.3:8080", here, nil, true},
		{"[::1]:8080", here, nil, true},
		{"[::ffff:127.0.0.1]", here, nil, true},
		{"10.1.2.3:8080", far, nil, true},
		{"10.1.2.3", far, nil, true},
		{"[fe80::1]:8080", six, nil, true},
		{"[fe80::1%eth1]", six, nil, true},
		{"localhost:8080", far, nil, true},

		{"", here, nil, false},
		{":8080", here, nil, false},
		{"evil.example", here, nil, false},
		{"localhost.evil.example", here, nil, false},
		{"evillocalhost", here, nil, false},
		{".localhost", here, nil, false},
		{"localhost..", here, nil, false},
		{"evil.example@a.localhost", here, nil, false},
		{"evil.example/.localhost", here, nil, false},
		{"localhost:80:80", here, nil, false},
		{"localhost:x", here, nil, false},
		{"localhost:-1", here, nil, false},
		{"localhost, evil.example", here, nil, false},
		{"127.0.0.1.evil.example", here, nil, false},
		{"127.1", here, nil, false},
		{"2130706433", here, nil, false},
		{"0x7f.0.0.1", here, nil, false},
		{"0.0.0.0:8080", here, nil, false},
		{"[::]", here, nil, false},
		{"::1", here, nil, false},
		{"[127.0.0.1]", here, nil, false},
		{"[::1", here, nil, false},
		{"[localhost]:1", here, nil, false},
		{"[::1]evil", here, nil, false},
		{"10.1.2.3", here, nil, false},
		{"10.1.2.4", far, nil, false},
		{"[fe80::2]", six, nil, false},

		{"hare.example", here, hosts("Hare.Example."), true},
		{"HARE.example.:443", here, hosts("other", "hare.example"), true},
		{"a.hare.example", here, hosts("hare.example"), false},
		{"10.9.9.9", far, hosts("10.9.9.9"), true},
		{"[fd00::9]:1", far, hosts("fd00::9"), true},
		{"evil.example", here, hosts("*"), true},
		{"", here, hosts("*"), true},
	} {
		h := servetest.New(t, svc, api.Config{Hosts: c.hosts})
		w := named(h, "GET", "/healthz", c.host, c.local)
		switch {
		case c.ok && w.Code != http.StatusOK:
			t.Errorf("%q at %s: %d %s", c.host, c.local, w.Code, w.Body)
		case !c.ok && c.hosts == nil:
			refusedBy(t, c.host, w, http.StatusMisdirectedRequest, "unknown_host", "is not a name of this server")
		case !c.ok:
			refusedBy(t, c.host, w, http.StatusMisdirectedRequest, "unknown_host", "--allow-host "+c.host)
		}
	}
	for _, name := range []string{"", "a b", "a:80", "http://a", "*.example", "[::1]:80", "ä.example", "a..b"} {
		if err := new(api.Hosts).Allow(name); err == nil || !strings.Contains(err.Error(), "host name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestPagesAndKeys checks that a server with keys, which a proxy may call by any name, refuses pages of others, and
// other names where it has been given some.
func TestPagesAndKeys(t *testing.T) {
	s := newKeyedServer(t, admission.Quota{})
	key, _ := s.key(t, "a", access.RoleSolve, 0)
	got := s.call(t, key, "POST", "/v1/sessions", `{"cluster":`+twoGPUs+`}`, "Sec-Fetch-Site", "cross-site")
	if got.code != http.StatusForbidden || got.problem() != "cross_origin" {
		t.Errorf("%d %s", got.code, got.body)
	}
	if w := named(s.handler, "GET", "/healthz", "proxy.example", ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	hosts := &api.Hosts{}
	if err := hosts.Allow("hare.example"); err != nil {
		t.Fatal(err)
	}
	h := servetest.New(t, service.New(service.Config{}), api.Config{Hosts: hosts, Keys: s.ring})
	refusedBy(t, "evil", named(h, "GET", "/healthz", "evil.example", ""), 421, "unknown_host", "")
	if w := named(h, "GET", "/healthz", "hare.example", ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLinksFromEverywhere checks that a link on a page of another site leads to the pages of a server, and that
// requests without a body need no Content-Type.
func TestLinksFromEverywhere(t *testing.T) {
	h, _ := newServer(t)
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, path := range []string{"/", "/docs", "/healthz", "/v1/solves"} {
		if w := request(t, h, "GET", path, "", link...); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	refusedBy(t, "a form", request(t, h, "POST", "/v1/solves/x/cancel", "", link...), 403, "cross_origin", "")
	refusedBy(t, "a preflight", request(t, h, "OPTIONS", "/v1/solves", "", "Origin", "http://evil.example",
		"Access-Control-Request-Method", "POST"), 403, "cross_origin", "")
	for _, header := range [][]string{nil, {"Content-Type", "application/x-www-form-urlencoded"}} {
		r := httptest.NewRequest("POST", "http://localhost/v1/solves/x/cancel", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		refusedBy(t, "an empty body", w, 404, "no_solve", "")
	}
}
