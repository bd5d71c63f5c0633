package api

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A browser sends the requests of every page that it shows to every address that it reaches, also to loopback. It
// only keeps a page from reading the answers of other origins, and from some requests until the server has allowed
// them. So a server that asks for no keys must itself refuse what pages of others send:
//
//   - A request that names another origin in Origin or Sec-Fetch-Site is refused. Browsers set these headers, and
//     scripts cannot change them; other programs do not send them.
//   - A page of another site whose name points at this server (DNS rebinding) has the server's origin, but the name
//     is in the header Host. So Host must be a name that nobody else can own.
//   - A body must have the Content-Type that its route takes. A page that sets one needs the server's permission
//     first, which the server never gives. This holds where a browser sends neither Origin nor Sec-Fetch-Site.

// Hosts are the names by which requests may call a server, in the header Host. Among them are always localhost, the
// names below localhost, the loopback addresses, and the address at which the request arrived. Ports do not matter.
// The zero value has no other names.
type Hosts struct {
	// Flag is the option by which an operator allows a name, for the text of refusals; "" means that there is none.
	Flag string

	any   bool
	names map[string]bool // in the form of hostOf
}

// Allow adds a name or an address; "*" stands for all. It fails if name is neither, for example if it has a port.
// Allow must not be called when h is in use.
func (h *Hosts) Allow(name string) error {
	if name == "*" {
		h.any = true
		return nil
	}
	bare := name
	if ip, err := netip.ParseAddr(name); err == nil && ip.Is6() {
		bare = "[" + name + "]"
	}
	host, port := hostOf(bare)
	if host == "" || port {
		return fmt.Errorf("%.100q must be a host name or an address, without a port, or *", name)
	}
	if h.names == nil {
		h.names = map[string]bool{}
	}
	h.names[host] = true
	return nil
}

// allows reports whether a request calls the server by one of the names.
func (h *Hosts) allows(r *http.Request) bool {
	if h.any {
		return true
	}
	host, _ := hostOf(r.Host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || h.names[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ip.IsLoopback() || local != nil && ip == plain(local.AddrPort().Addr())
}

// refusal refuses a request that calls the server by another name.
func (h *Hosts) refusal(host string) *statusError {
	detail := fmt.Sprintf("%.100q is not a name of this server: call localhost or the address at which it listens", host)
	if h.Flag != "" {
		name, _ := hostOf(host)
		if name == "" {
			name = "NAME"
		}
		detail += fmt.Sprintf(", or start it with %s %.100s", h.Flag, name)
	}
	return &statusError{http.StatusMisdirectedRequest, "unknown_host", detail}
}

// hostOf returns the name or the address in the header Host in one form, and whether a port follows: a name in lower
// case without the dot at its end, an address without brackets and without a zone. It returns "" where the header is
// malformed.
func hostOf(header string) (host string, port bool) {
	host, rest := header, ""
	if strings.HasPrefix(header, "[") {
		end := strings.IndexByte(header, ']') + 1
		host, rest = header[:end], header[end:]
	} else if i := strings.IndexByte(header, ':'); i >= 0 {
		host, rest = header[:i], header[i:]
	}
	if rest != "" && (rest[0] != ':' || strings.Trim(rest[1:], "0123456789") != "") {
		return "", false
	}
	port = rest != ""
	if strings.HasPrefix(host, "[") {
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil || !ip.Is6() {
			return "", false
		}
		return plain(ip).String(), port
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", false
		}
	}
	return host, port
}

// plain returns an address without its zone, and one of IPv4 as such.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// errCrossOrigin refuses a request of a page of another origin.
var errCrossOrigin = &statusError{http.StatusForbidden, "cross_origin",
	"a web page of another origin sent this: use the page /docs of this server, or a program that sends neither Origin " +
		"nor Sec-Fetch-Site; a proxy must pass on the header Host as it came"}

// guard checks requests for those that pages of others make.
type guard struct {
	hosts  *Hosts // nil means that every name is allowed
	origin *http.CrossOriginProtection
}

func newGuard(hosts *Hosts) *guard { return &guard{hosts, http.NewCrossOriginProtection()} }

// check returns the refusal of a request, and nil where the request is allowed.
func (g *guard) check(r *http.Request) *statusError {
	if g.hosts != nil && !g.hosts.allows(r) {
		return g.hosts.refusal(r.Host)
	}
	if crossOrigin(g.origin, r) {
		return errCrossOrigin
	}
	return nil
}

// crossOrigin reports whether a page of another origin sent a request. Links and addresses that a user opens are
// allowed from everywhere: they show an answer to the user alone, and change nothing. All other requests with GET are
// refused like those with POST, so that a page cannot make the server compute or keep streams open.
func crossOrigin(check *http.CrossOriginProtection, r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
			return false
		}
	}
	// Check allows every GET, HEAD and OPTIONS.
	as := &http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}
	return check.Check(as) != nil
}

// Guard wraps a handler that asks for no keys, so that it refuses the requests that pages of other origins make a
// browser send, and requests by names that are not in hosts.
func Guard(next http.Handler, hosts *Hosts) http.Handler {
	g := newGuard(hosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := g.check(r); e != nil {
			writeProblem(w, r, e.status, e.code, e.detail, nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guarded is Guard for the routes of the server. With keys every name is allowed unless Config.Hosts says otherwise,
// since a page does not know a key.
func (s *server) guarded(next http.Handler) http.Handler {
	hosts := s.cfg.Hosts
	if hosts == nil && s.cfg.Keys == nil {
		hosts = &Hosts{}
	}
	g := newGuard(hosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := g.check(r); e != nil {
			s.problem(w, r, e.status, e.code, e.detail, nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkKind refuses a body whose Content-Type is missing, or none of the media types. A request without a body needs
// no Content-Type.
func checkKind(r *http.Request, kinds []string) error {
	if r.ContentLength == 0 {
		return nil
	}
	given := r.Header.Values("Content-Type")
	if len(given) == 0 {
		return unsupportedKind("the body has no Content-Type", kinds)
	}
	kind, _, err := mime.ParseMediaType(strings.Join(given, ","))
	if err == nil && slices.Contains(kinds, kind) {
		return nil
	}
	return unsupportedKind(fmt.Sprintf("the Content-Type is %.100q", strings.Join(given, ", ")), kinds)
}

func unsupportedKind(what string, kinds []string) error {
	return &statusError{http.StatusUnsupportedMediaType, "unsupported_media_type", what + ": send " +
		strings.Join(kinds, " or ")}
}
