package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// requireKeys wraps a handler that answers 404 where the server has no keys.
func (s *server) requireKeys(f func(http.ResponseWriter,
	*http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.Keys == nil {
			return &statusError{http.StatusNotFound, "no_keys", "this server has no keys: see hare serve --require-keys"}
		}
		w.Header().Set("Cache-Control", "no-store")
		return f(w, r)
	}
}

// keyJSON is an API key.
type keyJSON struct {
	// ID is the public part of the key.
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Role    string `json:"role" enums:"agent,read,solve,admin"`
	State   string `json:"state" enums:"valid,expired,revoked"`
	Created string `json:"created" format:"date-time"`
	Expires string `json:"expires,omitempty" format:"date-time"`
	Revoked string `json:"revoked,omitempty" format:"date-time"`
	Note    string `json:"note,omitempty"`
	// Nodes are the names, or patterns of names, of the nodes that a key of role agent is for. A key without any gets the
	// node that it registers first. They are left out for other roles, and for keys from before keys had nodes, which are
	// for any.
	Nodes *[]string `json:"nodes,omitempty"`
	// Key is the secret text to send as Authorization: Bearer. Only the answer that creates the key has it.
	Key string `json:"key,omitempty"`
} //	@name	Key

// keyListJSON lists keys by tenant, and those of a tenant from the oldest on.
type keyListJSON struct {
	Keys []keyJSON `json:"keys"`
} //	@name	KeyList

// keyRequest asks for an API key.
type keyRequest struct {
	// Tenant is the tenant of the key; left out, that of the caller. Other tenants are for keys of tenant "*".
	Tenant string `json:"tenant,omitempty" maxLength:"63"`
	// Role says what the key may do: agent may take part in clusters as an agent alone, read may look, solve may also
	// create and delete, and admin may also create and revoke keys.
	Role string `json:"role" enums:"agent,read,solve,admin"`
	// ExpiresS is how long the key is valid, in seconds; 0 means for ever.
	ExpiresS int64 `json:"expires_s,omitempty" minimum:"0" maximum:"3153600000" default:"0"`
	// Note says what the key is for.
	Note string `json:"note,omitempty" maxLength:"200"`
	// Nodes are the names of the nodes that a key of role agent is for, or patterns in which * stands for any characters.
	// Left out, the key is for the node that it registers first.
	Nodes []string `json:"nodes,omitempty"`
} //	@name	KeyRequest

func describeKey(k *access.Key, now time.Time) keyJSON {
	d := keyJSON{ID: k.ID, Tenant: k.Tenant, Role: k.Role.String(), State: k.State(now),
		Created: k.Created.UTC().Format(time.RFC3339), Note: k.Note}
	if k.Nodes != nil {
		d.Nodes = &k.Nodes
	}
	if !k.Expires.IsZero() {
		d.Expires = k.Expires.UTC().Format(time.RFC3339)
	}
	if !k.Revoked.IsZero() {
		d.Revoked = k.Revoked.UTC().Format(time.RFC3339)
	}
	return d
}

// listKeys answers with the keys.
//
//	@Summary		List the API keys of the tenant
//	@Description	The list never has secrets. A key of tenant "*" lists the keys of all tenants.
//	@Tags			keys
//	@ID				listKeys
//	@Produce		json,application/problem+json
//	@Success		200	{object}	keyListJSON	"the keys, also those that were valid in the last 90 days"
//	@Failure		404	{object}	openapi.Problem	"this server has no keys"
//	@Router			/v1/keys [get]
func (s *server) listKeys(w http.ResponseWriter, r *http.Request) error {
	list := keyListJSON{[]keyJSON{}}
	for _, k := range s.cfg.Keys.List(callerOf(r.Context()).Tenant) {
		list.Keys = append(list.Keys, describeKey(&k, s.cfg.Keys.Now()))
	}
	return answerJSON(w, http.StatusOK, list)
}

// createKey makes a key.
//
//	@Summary		Make an API key
//	@Description	Only this answer has the secret, because the server stores only its hash. A key can create
//	@Description	keys of its own tenant; a key of tenant "*" can create keys of any tenant.
//	@Tags			keys
//	@ID				createKey
//	@Param			body	body	keyRequest	true	"what it may do"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		201	{object}	keyJSON		"the key; Location has its path"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"this server has no keys"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect, or the keys cannot be written; the log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server has too many keys"
//	@Router			/v1/keys [post]
func (s *server) createKey(w http.ResponseWriter, r *http.Request) error {
	caller := callerOf(r.Context())
	ask := keyRequest{Tenant: caller.Tenant}
	if err := s.readSmall(w, r, &ask); err != nil {
		return err
	}
	if ask.Tenant != caller.Tenant && caller.Tenant != access.Operator {
		// The answer is the same whether the tenant exists or not, so that it discloses
		// nothing.
		return &statusError{http.StatusForbidden, "forbidden",
			"this key makes keys of its own tenant alone: leave tenant out"}
	}
	role, err := access.ParseRole(ask.Role)
	if err != nil {
		return err
	}
	if most := int64(100 * 365 * 86_400); ask.ExpiresS < 0 || ask.ExpiresS > most {
		return &hare.InvalidError{Pointer: "/expires_s", Code: "out_of_range",
			Detail: "must be between 0, which is never, and a hundred years"}
	}
	secret, key, err := access.NewKey(ask.Tenant, role, ask.Note, s.cfg.Keys.Now(),
		time.Duration(ask.ExpiresS)*time.Second)
	if err != nil {
		return err
	}
	if len(ask.Nodes) > 0 {
		if err := access.CheckNodes(role, ask.Nodes); err != nil {
			return err
		}
		key.Nodes = ask.Nodes
	}
	if err := s.change(r, func(set *access.KeySet) error { return set.Add(key, s.cfg.Keys.Now()) }); err != nil {
		return err
	}
	s.cfg.Logger.Info("key created", "request_id", requestID(r.Context()), "key", key.ID, "tenant", key.Tenant, "role",
		key.Role.String(), "by", caller.ID)
	d := describeKey(&key, s.cfg.Keys.Now())
	d.Key = secret
	w.Header().Set("Location", "/v1/keys/"+key.ID)
	return answerJSON(w, http.StatusCreated, d)
}

// change changes the set of keys. Once the change has begun, a disconnecting client
// does not cancel it.
func (s *server) change(r *http.Request, f func(*access.KeySet) error) error {
	err := s.cfg.Keys.Update(context.WithoutCancel(r.Context()), f)
	if bad := (*store.CorruptError)(nil); errors.As(err, &bad) {
		return errors.New(bad.What) // for the log: a client must not see the path of the file
	}
	return err
}

// revokeKey revokes a key.
//
//	@Summary		Revoke an API key
//	@Description	The key is invalid at once: its open calls end, streams included. Revoking it again changes nothing.
//	@Tags			keys
//	@ID				revokeKey
//	@Param			id	path	string	true	"the public part of the key"
//	@Produce		application/problem+json
//	@Success		204	"it is revoked"
//	@Failure		404	{object}	openapi.Problem	"no such key of the tenant, or this server has no keys"
//	@Failure		500	{object}	openapi.Problem	"a defect, or the keys cannot be written; the log has the request_id"
//	@Router			/v1/keys/{id} [delete]
func (s *server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	caller := callerOf(r.Context())
	id := chi.URLParam(r, "id")
	err := s.change(r, func(set *access.KeySet) error { return set.Revoke(caller.Tenant, id, s.cfg.Keys.Now()) })
	if errors.Is(err, access.ErrNoKey) {
		return &statusError{http.StatusNotFound, "no_such_key", "there is no key of that id"}
	}
	if err != nil {
		return err
	}
	s.cfg.Logger.Info("key revoked", "request_id", requestID(r.Context()), "key", id, "by", caller.ID)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// quotaJSON is the quota of a tenant and its present use.
type quotaJSON struct {
	Tenant string          `json:"tenant"`
	Quota  admission.Quota `json:"quota"`
	Used   usedJSON        `json:"used"`
} //	@name	TenantQuota

// usedJSON is what a tenant uses of its quota.
type usedJSON struct {
	Solves      int   `json:"solves"`
	StoredBytes int64 `json:"stored_bytes"`
	Sessions    int   `json:"sessions"`
	Streams     int   `json:"streams"`
	// Jobs are those of managed clusters that have not ended.
	Jobs int `json:"jobs"`
} //	@name	QuotaUsed

func (s *server) quotaOf(tenant, owner string) quotaJSON {
	q := s.cfg.Quotas.Of(owner)
	q.BodyBytes = min(q.BodyBytes, s.cfg.MaxBodyBytes)
	u := s.cfg.Quotas.Usage(owner)
	return quotaJSON{tenant, q, usedJSON{u.Solves, u.StoredBytes, u.Sessions, u.Streams, u.Jobs}}
}

// getQuota answers with the quota of the caller's tenant.
//
//	@Summary	The quota of the caller's tenant, and how much of it is in use
//	@Tags		keys
//	@ID			getQuota
//	@Produce	json,application/problem+json
//	@Success	200	{object}	quotaJSON	"the quota"
//	@Failure	404	{object}	openapi.Problem		"this server has no keys"
//	@Router		/v1/quota [get]
func (s *server) getQuota(w http.ResponseWriter, r *http.Request) error {
	return answerJSON(w, http.StatusOK, s.quotaOf(callerOf(r.Context()).Tenant, tenantOf(r.Context())))
}

// setQuota sets the quota of a tenant.
//
//	@Summary		Set the quota of a tenant
//	@Description	The call requires a key of tenant "*" with role admin. A limit that is left out, or 0, is the
//	@Description	server's default.
//	@Tags			keys
//	@ID				setQuota
//	@Param			tenant	path	string			true	"the tenant, percent-encoded"
//	@Param			body	body	admission.Quota	true	"what it may have"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	quotaJSON	"the quota as it is now"
//	@Failure		400	{object}	openapi.Problem		"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem		"this server has no keys"
//	@Failure		408	{object}	openapi.Problem		"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem		"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem		"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem		"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem		"a defect, or the keys cannot be written; the log has the request_id"
//	@Failure		503	{object}	openapi.Problem		"quotas are set for too many tenants"
//	@Router			/v1/quotas/{tenant} [put]
func (s *server) setQuota(w http.ResponseWriter, r *http.Request) error {
	tenant := chi.URLParam(r, "tenant")
	if r.URL.RawPath != "" {
		var err error
		if tenant, err = url.PathUnescape(tenant); err != nil {
			return &statusError{http.StatusBadRequest, "bad_path", "the tenant in the path is not percent-encoded"}
		}
	}
	if err := access.CheckTenant(tenant); err != nil {
		return err
	}
	var q admission.Quota
	if err := s.readSmall(w, r, &q); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	if err := s.change(r, func(set *access.KeySet) error { return set.SetQuota(tenant, q) }); err != nil {
		return err
	}
	s.cfg.Logger.Info("quota set", "request_id", requestID(r.Context()), "tenant", tenant, "by", callerOf(r.Context()).ID)
	owner := tenant
	if tenant == access.Operator {
		owner = ""
	}
	return answerJSON(w, http.StatusOK, s.quotaOf(tenant, owner))
}

// maxSmallBody is the greatest size, in bytes, of a document that describes a key or a
// quota.
const maxSmallBody = 16 << 10

// readSmall decodes the document of a key or a quota; unknown fields are refused.
func (s *server) readSmall(w http.ResponseWriter, r *http.Request, into any) error {
	return s.readStrict(w, r, maxSmallBody, into)
}

// readStrict decodes a document of at most limit bytes into a struct. Fields that are
// unknown, missing or null are refused.
func (s *server) readStrict(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	text, err := s.readBody(w, r, limit)
	if err != nil {
		return err
	}
	if len(text) <= maxSmallBody {
		// Such a request may wait long, as those of agents do, and has little left of its document.
		defer func() { _ = admission.ClaimOf(r.Context()).Resize(0) }()
	}
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return &hare.InvalidError{Code: wire.CodeMalformed, Detail: "must be a JSON object"}
	}
	err = json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case err == nil:
		return checkForm(text, reflect.TypeOf(into).Elem(), "")
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return &hare.InvalidError{Pointer: string(semantic.JSONPointer), Code: "unknown_field",
			Detail: unknownField(semantic.GoType, semantic.JSONPointer.LastToken())}
	case errors.As(err, &semantic):
		return &hare.InvalidError{Pointer: string(semantic.JSONPointer), Code: "wrong_type",
			Detail: rightForm(semantic.GoType, semantic.JSONPointer, valueAt(text, semantic.JSONPointer))}
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return &hare.InvalidError{Pointer: string(syntactic.JSONPointer), Code: "duplicate_name",
			Detail: "a name is there twice"}
	}
	return &hare.InvalidError{Code: wire.CodeMalformed, Detail: "is not JSON"}
}
