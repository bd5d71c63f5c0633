package openapi

// KeyRequest asks for an API key.
type KeyRequest struct {
	// Tenant whose key it is; left out: that of the caller. Other tenants are for keys of tenant "*".
	Tenant string `json:"tenant,omitempty" maxLength:"63"`
	// Role says what it may do: read looks, solve also makes and deletes, admin also makes and revokes keys.
	Role string `json:"role" enums:"read,solve,admin"`
	// ExpiresS is how long it is valid in seconds; 0 is for ever.
	ExpiresS int64 `json:"expires_s,omitempty" minimum:"0" maximum:"3153600000" default:"0"`
	// Note says what it is for.
	Note string `json:"note,omitempty" maxLength:"200"`
} //	@name	KeyRequest

// Key is an API key.
type Key struct {
	// ID is the public part.
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Role   string `json:"role" enums:"read,solve,admin"`
	State  string `json:"state" enums:"valid,expired,revoked"`
	// Created, like Expires and Revoked, is a time.
	Created string `json:"created" format:"date-time"`
	Expires string `json:"expires,omitempty" format:"date-time"`
	Revoked string `json:"revoked,omitempty" format:"date-time"`
	Note    string `json:"note,omitempty"`
	// Key is what to send as Authorization: Bearer, in the answer that makes it and never again.
	Key string `json:"key,omitempty"`
} //	@name	Key

// KeyList lists keys, by tenant, then the oldest first.
type KeyList struct {
	Keys []Key `json:"keys"`
} //	@name	KeyList

// Quota is what a tenant may have; what is left out, or 0, is the server's default.
type Quota struct {
	// Solves are calls that compute, queued and running.
	Solves int64 `json:"solves,omitempty" minimum:"0"`
	// Rate is requests a second, twice as many at once.
	Rate float64 `json:"rate,omitempty" minimum:"0"`
	// BodyBytes is the largest request body, before and after decompression.
	BodyBytes int64 `json:"body_bytes,omitempty" minimum:"0"`
	// StoredBytes is what may be stored.
	StoredBytes int64 `json:"stored_bytes,omitempty" minimum:"0"`
	// Sessions that may exist.
	Sessions int64 `json:"sessions,omitempty" minimum:"0"`
	// Streams that may be open.
	Streams int64 `json:"streams,omitempty" minimum:"0"`
} //	@name	Quota

// TenantQuota is what a tenant may have, and what it has.
type TenantQuota struct {
	Tenant string    `json:"tenant"`
	Quota  Quota     `json:"quota"`
	Used   QuotaUsed `json:"used"`
} //	@name	TenantQuota

// QuotaUsed is what a tenant has of its quota.
type QuotaUsed struct {
	Solves      int64 `json:"solves"`
	StoredBytes int64 `json:"stored_bytes"`
	Sessions    int64 `json:"sessions"`
	Streams     int64 `json:"streams"`
} //	@name	QuotaUsed
