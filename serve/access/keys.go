package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
)

// Role says what a key may do. From RoleRead on, each role may also do all that the roles before it may, but for
// RoleAgent.
type Role int

// The roles.
const (
	RoleNone  Role = iota
	RoleAgent      // take part in the tenant's clusters as an agent of the nodes of the key, and nothing else
	RoleRead       // look at the tenant's sessions, solves and other objects
	RoleSolve      // also create, change and delete the tenant's objects
	RoleAdmin      // also create and revoke keys of the tenant
)

var roleNames = []string{"none", "agent", "read", "solve", "admin"}

func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return "none"
	}
	return roleNames[r]
}

// ParseRole reads "agent", "read", "solve" or "admin".
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames, name); i > 0 {
		return Role(i), nil
	}
	return RoleNone, &hare.InvalidError{Pointer: "/role", Code: "unknown_role",
		Detail: fmt.Sprintf("%.40q must be agent, read, solve or admin", name)}
}

// Operator is the tenant of the keys that run the server: their admins see metrics and
// the keys of all tenants. Objects that such keys create have the owner "", as on a
// server without keys.
const Operator = "*"

// Key is an API key without its secret.
type Key struct {
	ID     string // public
	Tenant string // Operator, or a name that CheckTenant accepts
	Role   Role
	// Sum is the SHA-256 of the whole key. A slow hash would add nothing: the secret has
	// 256 random bits, so that it cannot be guessed from a list.
	Sum     [sha256.Size]byte
	Created time.Time
	Expires time.Time // zero means never
	Revoked time.Time // zero means not revoked
	Note    string
	// Nodes are the patterns of the names of the nodes that a key of RoleAgent may be the agent of; * in them stands for
	// any characters. Empty and not nil means that the key gets the name that it registers first. Nil means any node:
	// such keys are from before keys had nodes. Keys of other roles have none.
	Nodes []string
}

// Owner returns the tenant in the form that stored objects have: "" for Operator.
func (k *Key) Owner() string {
	if k.Tenant == Operator {
		return ""
	}
	return k.Tenant
}

// Valid says that the key is neither revoked nor expired.
func (k *Key) Valid(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// State returns "valid", "expired" or "revoked".
func (k *Key) State(now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Valid(now):
		return "expired"
	}
	return "valid"
}

// A key is hare_ID_SECRET in lower-case base 32. ID has 80 random bits and names the key;
// SECRET has 256 random bits.
const (
	keyPrefix = "hare_"
	idLen     = 16
	secretLen = 52
)

var keyText = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewKey makes a key that is valid for the given time; zero means for ever. Only the
// checksum of the secret is part of the Key.
func NewKey(tenant string, role Role, note string, now time.Time, lasts time.Duration) (secret string, k Key,
	err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", k, err
	}
	if role < RoleAgent || role > RoleAdmin {
		return "", k, &hare.InvalidError{Pointer: "/role", Code: "unknown_role",
			Detail: "must be agent, read, solve or admin"}
	}
	if len(note) > 200 || !utf8.ValidString(note) || strings.ContainsFunc(note, unicode.IsControl) {
		return "", k, &hare.InvalidError{Pointer: "/note", Code: "bad_note",
			Detail: "must be one line of at most 200 bytes"}
	}
	if lasts < 0 {
		return "", k, &hare.InvalidError{Pointer: "/expires_s", Code: "out_of_range", Detail: "must not be negative"}
	}
	var b [10 + sha256.Size]byte
	_, _ = rand.Read(b[:]) // never fails
	k = Key{ID: strings.ToLower(keyText.EncodeToString(b[:10])), Tenant: tenant, Role: role,
		Created: now.UTC().Truncate(time.Second), Note: note}
	if role == RoleAgent {
		k.Nodes = []string{}
	}
	if lasts > 0 {
		k.Expires = now.Add(lasts).UTC().Truncate(time.Second)
	}
	secret = keyPrefix + k.ID + "_" + strings.ToLower(keyText.EncodeToString(b[10:]))
	k.Sum = sha256.Sum256([]byte(secret))
	return secret, k, nil
}

// KeyID returns the public part of a key, or "" where text does not have the form of a
// key.
func KeyID(text string) string {
	rest, ok := strings.CutPrefix(text, keyPrefix)
	if !ok || len(rest) != idLen+1+secretLen || rest[idLen] != '_' {
		return ""
	}
	for i := range len(rest) {
		if c := rest[i]; i != idLen && (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return ""
		}
	}
	return rest[:idLen]
}

// CheckTenant accepts Operator, and names of 1 to 63 lower-case letters, digits and .-_
// that begin with a letter or digit.
func CheckTenant(name string) error {
	ok := len(name) > 0 && len(name) <= 63
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && strings.IndexByte(".-_", c) >= 0
	}
	if ok || name == Operator {
		return nil
	}
	return &hare.InvalidError{Pointer: "/tenant", Code: "bad_tenant",
		Detail: fmt.Sprintf("%.80q must be 1 to 63 of a-z, 0-9 and .-_, the first a letter or digit, or %q", name,
			Operator)}
}

// KeySet is all keys of a server, and the quotas of the tenants that have not the default
// quota.
type KeySet struct {
	Keys   []Key
	Quotas map[string]admission.Quota // by tenant, as in Key
}

const (
	// maxKeys limits the memory of the keys, and with it the number of tenants.
	// maxTenantKeys keeps one tenant from using up maxKeys.
	maxKeys       = 10_000
	maxTenantKeys = 200
	// expiredRetention is how long a key that is not valid any more stays in the list.
	expiredRetention = 90 * 24 * time.Hour
)

// Add adds a key, and removes the keys that have not been valid for 90 days. Too many
// keys of the tenant give *admission.LimitError, too many keys of all tenants
// admission.ErrFull.
func (s *KeySet) Add(k Key, now time.Time) error {
	s.Keys = slices.DeleteFunc(s.Keys, func(o Key) bool {
		old := now.Add(-expiredRetention)
		return !o.Revoked.IsZero() && o.Revoked.Before(old) || !o.Expires.IsZero() && o.Expires.Before(old)
	})
	of := 0
	for i := range s.Keys {
		if s.Keys[i].Tenant == k.Tenant {
			of++
		}
	}
	switch {
	case of >= maxTenantKeys:
		return &admission.LimitError{What: "keys of the tenant", Limit: maxTenantKeys}
	case len(s.Keys) >= maxKeys:
		return admission.ErrFull
	}
	s.Keys = append(s.Keys, k)
	return nil
}

// ErrNoKey says that there is no key of that ID, or none that the caller may see.
var ErrNoKey = errors.New("access: no such key")

// Revoke revokes a key of tenant, or of any tenant for Operator. Revoking a key again
// changes nothing.
func (s *KeySet) Revoke(tenant, id string, now time.Time) error {
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.ID == id && (tenant == Operator || k.Tenant == tenant) {
			if k.Revoked.IsZero() {
				k.Revoked = now.UTC().Truncate(time.Second)
			}
			return nil
		}
	}
	return ErrNoKey
}

// Check finds faults of a set that was read.
func (s *KeySet) Check() error {
	seen := map[string]bool{}
	for i := range s.Keys {
		k := &s.Keys[i]
		if err := CheckTenant(k.Tenant); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
		if len(k.Nodes) > 0 {
			if err := CheckNodes(k.Role, k.Nodes); err != nil {
				return fmt.Errorf("key %d: %w", i, err)
			}
		}
		if len(k.ID) != idLen || seen[k.ID] || k.Role < RoleAgent || k.Role > RoleAdmin {
			return fmt.Errorf("key %d: not an id of its own, or no role", i)
		}
		seen[k.ID] = true
	}
	for tenant, q := range s.Quotas {
		if err := CheckTenant(tenant); err != nil {
			return err
		}
		if err := q.Check(); err != nil {
			return fmt.Errorf("quota of %s: %w", tenant, err)
		}
	}
	return nil
}

// KeyStore keeps a KeySet.
type KeyStore interface {
	// Read returns the stored set, which is empty where nothing was stored.
	Read() (*KeySet, error)
	// Update applies change to the stored set, all or nothing, also while other processes
	// change the set. The result is durable when Update returns nil. An error of change is
	// returned unchanged.
	Update(ctx context.Context, change func(*KeySet) error) error
	// State returns a text that differs whenever the stored set may have changed.
	State() string
}

// SetQuota sets the quota of a tenant; the zero Quota means the default.
func (s *KeySet) SetQuota(tenant string, q admission.Quota) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return err
	}
	if q == (admission.Quota{}) {
		delete(s.Quotas, tenant)
		return nil
	}
	if s.Quotas == nil {
		s.Quotas = map[string]admission.Quota{}
	}
	if _, there := s.Quotas[tenant]; !there && len(s.Quotas) >= maxKeys {
		return admission.ErrFull
	}
	s.Quotas[tenant] = q
	return nil
}
