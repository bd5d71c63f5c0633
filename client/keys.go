package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Key is an API key of the server.
type Key struct {
	ID      string    `json:"id"` // the public part
	Tenant  string    `json:"tenant"`
	Role    string    `json:"role"`  // read, solve or admin
	State   string    `json:"state"` // valid, expired or revoked
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // zero: never
	Revoked time.Time `json:"revoked"`
	Note    string    `json:"note"`
	Key     string    `json:"key"` // what to send; CreateKey alone has it, once
}

// KeyRequest asks for a key.
type KeyRequest struct {
	Tenant string // "": the caller's; others are for keys of tenant "*"
	Role   string // read, solve or admin
	Lasts  time.Duration
	Note   string
}

// CreateKey makes a key. It is not sent again when the network fails, for it may
// have been made: Keys lists them.
func (c *Client) CreateKey(ctx context.Context, req KeyRequest) (*Key, error) {
	text, err := json.Marshal(struct {
		Tenant   string `json:"tenant,omitempty"`
		Role     string `json:"role"`
		ExpiresS int64  `json:"expires_s,omitempty"`
		Note     string `json:"note,omitempty"`
	}{req.Tenant, req.Role, int64(req.Lasts / time.Second), req.Note})
	if err != nil {
		return nil, err
	}
	return fetch[Key](ctx, c, call{method: http.MethodPost, path: "/v1/keys", body: text})
}

// Keys lists the keys of the tenant, those of tenant "*" all, never their
// secrets.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	list, err := fetch[struct {
		Keys []Key `json:"keys"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/keys", repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Keys, nil
}

// RevokeKey ends a key at once, and the calls that are open with it.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/keys/" + url.PathEscape(id), repeatable: true})
}

// Quota is what a tenant may have; what is 0 is the server's default.
type Quota struct {
	Solves      int64   `json:"solves,omitempty"` // calls that compute, queued and running
	Rate        float64 `json:"rate,omitempty"`   // requests a second, twice as many at once
	BodyBytes   int64   `json:"body_bytes,omitempty"`
	StoredBytes int64   `json:"stored_bytes,omitempty"`
	Sessions    int64   `json:"sessions,omitempty"`
	Streams     int64   `json:"streams,omitempty"`
}

// TenantQuota is what a tenant may have, and has.
type TenantQuota struct {
	Tenant string `json:"tenant"`
	Quota  Quota  `json:"quota"`
	Used   struct {
		Solves      int64 `json:"solves"`
		StoredBytes int64 `json:"stored_bytes"`
		Sessions    int64 `json:"sessions"`
		Streams     int64 `json:"streams"`
	} `json:"used"`
}

// Quota returns that of the key's tenant.
func (c *Client) Quota(ctx context.Context) (*TenantQuota, error) {
	return fetch[TenantQuota](ctx, c, call{method: http.MethodGet, path: "/v1/quota", repeatable: true})
}

// SetQuota says what a tenant may have. It is for keys of tenant "*" with role
// admin.
func (c *Client) SetQuota(ctx context.Context, tenant string, q Quota) (*TenantQuota, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return fetch[TenantQuota](ctx, c, call{method: http.MethodPut, path: "/v1/quotas/" + url.PathEscape(tenant),
		body: text, repeatable: true})
}
