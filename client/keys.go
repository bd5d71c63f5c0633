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
	ID      string    `json:"id"` // the public part of the key
	Tenant  string    `json:"tenant"`
	Role    string    `json:"role"`  // agent, read, solve or admin
	State   string    `json:"state"` // valid, expired or revoked
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // zero means never
	Revoked time.Time `json:"revoked"`
	Note    string    `json:"note"`
	// Nodes are the names, or patterns of names, of the nodes that a key of role agent is for: empty for a key that gets
	// the node that it registers first, nil for other roles and for keys from before keys had nodes.
	Nodes []string `json:"nodes"`
	Key   string   `json:"key"` // the secret to send; only CreateKey returns it, once
}

// KeyRequest describes a key to create.
type KeyRequest struct {
	Tenant string // "" means the caller's tenant; only keys of tenant "*" may name another
	Role   string // agent, read, solve or admin
	Lasts  time.Duration
	Note   string
	// Nodes are the names of the nodes that a key of role agent is for, or patterns in which * stands for any
	// characters; empty means the node that the key registers first.
	Nodes []string
}

// CreateKey creates a key. The call is not retried when the network fails, since the
// server may have created the key; Keys lists it then.
func (c *Client) CreateKey(ctx context.Context, req KeyRequest) (*Key, error) {
	text, err := json.Marshal(struct {
		Tenant   string   `json:"tenant,omitempty"`
		Role     string   `json:"role"`
		ExpiresS int64    `json:"expires_s,omitempty"`
		Note     string   `json:"note,omitempty"`
		Nodes    []string `json:"nodes,omitempty"`
	}{req.Tenant, req.Role, int64(req.Lasts / time.Second), req.Note, req.Nodes})
	if err != nil {
		return nil, err
	}
	return fetch[Key](ctx, c, call{method: http.MethodPost, path: "/v1/keys", body: text})
}

// Keys lists the keys of the caller's tenant or, for callers of tenant "*", all keys.
// The list does not contain secrets.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	list, err := fetch[struct {
		Keys []Key `json:"keys"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/keys", repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Keys, nil
}

// RevokeKey revokes a key. Calls that use the key end at once.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/keys/" + url.PathEscape(id), repeatable: true})
}

// Quota holds the limits of a tenant; a limit of 0 means the server's default.
type Quota struct {
	Solves      int64   `json:"solves,omitempty"` // queued and running solves, bounds and other computations
	Rate        float64 `json:"rate,omitempty"`   // requests per second; twice as many are allowed at once
	BodyBytes   int64   `json:"body_bytes,omitempty"`
	StoredBytes int64   `json:"stored_bytes,omitempty"`
	Sessions    int64   `json:"sessions,omitempty"`
	Streams     int64   `json:"streams,omitempty"`
}

// TenantQuota holds the limits of a tenant and their present use.
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

// Quota returns the quota of the caller's tenant.
func (c *Client) Quota(ctx context.Context) (*TenantQuota, error) {
	return fetch[TenantQuota](ctx, c, call{method: http.MethodGet, path: "/v1/quota", repeatable: true})
}

// SetQuota sets the quota of a tenant. It needs a key of tenant "*" with role admin.
func (c *Client) SetQuota(ctx context.Context, tenant string, q Quota) (*TenantQuota, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return fetch[TenantQuota](ctx, c, call{method: http.MethodPut, path: "/v1/quotas/" + url.PathEscape(tenant),
		body: text, repeatable: true})
}
