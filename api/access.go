package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/hare-sched/hare/plot/web"
	"github.com/hare-sched/hare/serve/access"
)

// openPaths can be read without a key: they disclose nothing of any tenant.
var openPaths = map[string]bool{
	"/healthz": true, "/readyz": true, "/v1/version": true,
	"/": true, "/docs": true, "/docs/": true, "/openapi.json": true, "/openapi.yaml": true,
}

// authenticate answers requests whose key has a role that suffices: read for GET and
// HEAD, and solve for all other methods, but for what agents do; handlers demand more
// with requireAdmin and asAgent. The context of the request is cancelled when its key is revoked or expires.
func (s *server) authenticate(next http.Handler) http.Handler {
	keys := s.cfg.Keys
	if keys == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, asset := web.Assets[r.URL.Path]
		open := asset || openPaths[r.URL.Path]
		if open && r.URL.RawPath == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			next.ServeHTTP(w, r)
			return
		}
		text := bearer(r.Header.Values("Authorization"))
		key, ok := keys.Authenticate(text)
		if !ok {
			s.refuseKey(w, r, text != "")
			return
		}
		if rec, ok := w.(*recorder); ok {
			rec.key, rec.tenant = key.ID, key.Tenant
		}
		if key.Role == access.RoleAgent {
			if !agentPath(r) {
				s.fail(w, r, forbidden(access.RoleRead))
				return
			}
		} else if err := s.cfg.Quotas.Allow(key.Owner()); err != nil {
			s.fail(w, r, err)
			return
		}
		need := access.RoleSolve
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			need = access.RoleRead
		}
		if key.Role < need && !agentPath(r) {
			s.fail(w, r, forbidden(need))
			return
		}
		ctx := context.WithValue(r.Context(), tenantKey{}, key.Owner())
		ctx, end := context.WithCancelCause(context.WithValue(ctx, callerKey{}, &key))
		defer keys.Hold(key.ID, end)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// bearer returns the key of an Authorization header. It returns "" where there is no
// such header, and "none", which no key equals, where there are several or the scheme
// is not Bearer.
func bearer(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "none"
	}
	if text = strings.TrimLeft(text, " "); text == "" {
		return "none"
	}
	return text
}

// refuseKey answers a request without a valid key, and limits the rate of such requests
// by address. The answer does not say whether the key is unknown, revoked or expired.
func (s *server) refuseKey(w http.ResponseWriter, r *http.Request, had bool) {
	if !had {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hare"`)
		s.problem(w, r, http.StatusUnauthorized, "no_key",
			"this server wants a key: send Authorization: Bearer hare_… (hare key create makes one)", nil)
		return
	}
	if wait, ok := s.badKeys.allow(r.RemoteAddr, s.cfg.Keys.Now()); !ok {
		w.Header().Set("Retry-After", retryAfter(wait))
		s.problem(w, r, http.StatusTooManyRequests, "too_many_bad_keys",
			"too many calls with bad keys came from this address: slow down, and see that the key is right", nil)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="hare", error="invalid_token"`)
	s.problem(w, r, http.StatusUnauthorized, "bad_key",
		"the key is unknown, revoked or expired: hare key list shows those that are valid", nil)
}

// forbidden returns the refusal that names the role that is needed.
func forbidden(need access.Role) error {
	return &statusError{http.StatusForbidden, "forbidden",
		"the key's role does not allow this: use one of role " + need.String()}
}

// requireAdmin wraps a handler that only keys of role admin may use and, where operator
// is true, only such keys of the operator. On a server without keys every client may
// use it.
func requireAdmin(operator bool, f func(http.ResponseWriter,
	*http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if key := callerOf(r.Context()); key != nil {
			if key.Role < access.RoleAdmin {
				return forbidden(access.RoleAdmin)
			}
			if operator && key.Tenant != access.Operator {
				return &statusError{http.StatusForbidden, "forbidden",
					`this is of the whole server: use a key of tenant "*" with role admin`}
			}
		}
		return f(w, r)
	}
}

// acquire takes one of the slots that the tenant's quota allows for work.
func (s *server) acquire(ctx context.Context) (release func(), err error) {
	if callerOf(ctx) == nil {
		return func() {}, nil
	}
	return s.cfg.Quotas.Acquire(tenantOf(ctx))
}
