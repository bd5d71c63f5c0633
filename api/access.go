package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hare-sched/hare/access"
)

type callerKey struct{}

// callerOf is the key of a call; nil where the server has no keys.
func callerOf(ctx context.Context) *access.Key {
	key, _ := ctx.Value(callerKey{}).(*access.Key)
	return key
}

// openPaths need no key: they say nothing of what anybody has.
var openPaths = map[string]bool{
	"/healthz": true, "/readyz": true, "/v1/version": true,
	"/": true, "/docs": true, "/docs/": true, "/openapi.json": true, "/openapi.yaml": true,
}

// authenticate lets through what has a key whose role suffices: read for GET
// and HEAD, solve for all else; handlers may ask for more with only. The call
// ends when its key does.
func (s *server) authenticate(next http.Handler) http.Handler {
	keys := s.cfg.Keys
	if keys == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if openPaths[r.URL.Path] && r.URL.RawPath == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
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
		if err := s.cfg.Quotas.Allow(key.Owner()); err != nil {
			s.fail(w, r, err)
			return
		}
		need := access.RoleSolve
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			need = access.RoleRead
		}
		if key.Role < need {
			s.fail(w, r, forbidden(need))
			return
		}
		ctx := context.WithValue(r.Context(), tenantKey{}, key.Owner())
		ctx, end := context.WithCancelCause(context.WithValue(ctx, callerKey{}, &key))
		defer keys.Hold(key.ID, end)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// bearer is the key of an Authorization header, "" without one, and something
// that is no key where there are several headers or another scheme.
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

// refuseKey answers a call without a valid key, and slows down those who try
// many. Why a key is not valid is not said.
func (s *server) refuseKey(w http.ResponseWriter, r *http.Request, had bool) {
	if !had {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hare"`)
		s.problem(w, r, http.StatusUnauthorized, "no_key",
			"this server wants a key: send Authorization: Bearer hare_… (hare key create makes one)", nil)
		return
	}
	if wait, ok := s.guesses.allow(r.RemoteAddr, s.cfg.Keys.Now()); !ok {
		w.Header().Set("Retry-After", retryAfter(wait))
		s.problem(w, r, http.StatusTooManyRequests, "too_many_bad_keys",
			"too many calls with bad keys came from this address: slow down, and see that the key is right", nil)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="hare", error="invalid_token"`)
	s.problem(w, r, http.StatusUnauthorized, "bad_key",
		"the key is unknown, revoked or expired: hare key list shows those that are valid", nil)
}

// forbidden says which role is wanted.
func forbidden(need access.Role) error {
	return &statusError{http.StatusForbidden, "forbidden",
		"the key's role does not allow this: use one of role " + need.String()}
}

// only lets a handler run for admins alone, those of the operator where that
// is asked; on a server without keys for all.
func only(operator bool, f func(http.ResponseWriter,
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

// keyEnded says that a call ends because its key has.
func keyEnded(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), access.ErrKeyEnded)
}

// bodyLimit is how large a body of this call may be.
func (s *server) bodyLimit(ctx context.Context) int64 {
	if callerOf(ctx) == nil {
		return s.cfg.MaxBodyBytes
	}
	return min(s.cfg.MaxBodyBytes, s.cfg.Quotas.Of(tenantOf(ctx)).BodyBytes)
}

// acquire takes a place of the tenant's for work.
func (s *server) acquire(ctx context.Context) (release func(), err error) {
	if callerOf(ctx) == nil {
		return func() {}, nil
	}
	return s.cfg.Quotas.Acquire(tenantOf(ctx))
}
