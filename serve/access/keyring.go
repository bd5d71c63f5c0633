// Package access holds the API keys of a server: whose tenant a key is of, what the key
// may do by its role, and where keys and quotas are stored.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare/serve/admission"
)

// ErrKeyEnded is the cause with which a call ends whose key was revoked or has expired.
var ErrKeyEnded = errors.New("access: the key was revoked or has expired")

// keyPoll is how often a Keyring checks whether the stored keys have changed: a change
// takes effect within a second.
const keyPoll = 250 * time.Millisecond

// Keyring is the keys of a server in memory, kept equal to the keys of a KeyStore. Safe
// for concurrent use.
type Keyring struct {
	store KeyStore
	now   func() time.Time
	log   *slog.Logger

	loading sync.Mutex
	state   string // state of the store when it was last read
	failed  bool   // the last read failed

	mu    sync.RWMutex
	set   *KeySet
	byID  map[string]*Key
	calls map[*heldCall]struct{}
}

// heldCall is a call that ends when its key stops being valid.
type heldCall struct {
	id  string
	end context.CancelCauseFunc
}

// OpenKeyring reads the keys. now is the server's clock; nil means time.Now. log gets an
// error when the keys cannot be read later; nil means that nothing is logged.
func OpenKeyring(store KeyStore, now func() time.Time, log *slog.Logger) (*Keyring, error) {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	kr := &Keyring{store: store, now: now, log: log, calls: map[*heldCall]struct{}{}}
	kr.state = store.State()
	set, err := store.Read()
	if err != nil {
		return nil, err
	}
	kr.use(set)
	return kr, nil
}

// Follow reads the stored keys again whenever they change, until ctx ends. Where the
// stored keys cannot be read or are damaged, the keys that were last read stay in force,
// and an error is logged. Stored keys that were deleted leave no key in force.
func (kr *Keyring) Follow(ctx context.Context) {
	tick := time.NewTicker(keyPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = kr.reload(false)
			kr.endCalls()
		}
	}
}

// reload reads the keys if they have changed, or in any case where always is set.
func (kr *Keyring) reload(always bool) error {
	kr.loading.Lock()
	defer kr.loading.Unlock()
	state := kr.store.State()
	if state == kr.state && !always {
		return nil
	}
	kr.state = state
	set, err := kr.store.Read()
	if err != nil {
		kr.failed = true
		kr.log.Error("the keys cannot be read: those read before stay in force, and what was revoked since is too: "+
			"see hare key list", "error", err)
		return err
	}
	if kr.failed {
		kr.failed = false
		kr.log.Info("the keys can be read again")
	}
	kr.use(set)
	return nil
}

// use puts a set of keys in force.
func (kr *Keyring) use(set *KeySet) {
	byID := make(map[string]*Key, len(set.Keys))
	for i := range set.Keys {
		byID[set.Keys[i].ID] = &set.Keys[i]
	}
	kr.mu.Lock()
	kr.set, kr.byID = set, byID
	kr.mu.Unlock()
	kr.endCalls()
}

// Authenticate finds the key whose full text is given; ok is false where there is none or
// the key is not valid. It takes the same time for every text that has the form of a key.
func (kr *Keyring) Authenticate(text string) (key Key, ok bool) {
	id := KeyID(text)
	if id == "" {
		return Key{}, false
	}
	sum := sha256.Sum256([]byte(text))
	var none Key
	kr.mu.RLock()
	found := kr.byID[id]
	kr.mu.RUnlock()
	if found == nil {
		found = &none
	}
	same := subtle.ConstantTimeCompare(sum[:], found.Sum[:]) == 1
	if !same || !found.Valid(kr.now()) {
		return Key{}, false
	}
	return *found, true
}

// Key is the key of an ID as it is now; ok is false where there is none.
func (kr *Keyring) Key(id string) (key Key, ok bool) {
	kr.mu.RLock()
	defer kr.mu.RUnlock()
	if found := kr.byID[id]; found != nil {
		return *found, true
	}
	return Key{}, false
}

// Hold calls end with ErrKeyEnded when the key stops being valid, unless release was
// called before.
func (kr *Keyring) Hold(id string, end context.CancelCauseFunc) (release func()) {
	c := &heldCall{id, end}
	kr.mu.Lock()
	kr.calls[c] = struct{}{}
	key := kr.byID[id]
	kr.mu.Unlock()
	if key == nil || !key.Valid(kr.now()) { // the key has ended since Authenticate
		end(ErrKeyEnded)
	}
	return func() {
		kr.mu.Lock()
		delete(kr.calls, c)
		kr.mu.Unlock()
		end(nil)
	}
}

// endCalls ends the calls whose key is not valid any more.
func (kr *Keyring) endCalls() {
	now := kr.now()
	kr.mu.RLock()
	defer kr.mu.RUnlock()
	for c := range kr.calls {
		if key := kr.byID[c.id]; key == nil || !key.Valid(now) {
			c.end(ErrKeyEnded)
		}
	}
}

// List returns the keys of a tenant, or all keys for Operator, by tenant, then by age.
func (kr *Keyring) List(tenant string) []Key {
	kr.mu.RLock()
	all := slices.Clone(kr.set.Keys)
	kr.mu.RUnlock()
	if tenant != Operator {
		all = slices.DeleteFunc(all, func(o Key) bool { return o.Tenant != tenant })
	}
	slices.SortStableFunc(all, func(a, b Key) int {
		if c := strings.Compare(a.Tenant, b.Tenant); c != 0 {
			return c
		}
		return a.Created.Compare(b.Created)
	})
	return all
}

// Quota returns the quota that was set for an owner; its zero fields mean the defaults.
func (kr *Keyring) Quota(owner string) admission.Quota {
	if owner == "" {
		owner = Operator
	}
	kr.mu.RLock()
	defer kr.mu.RUnlock()
	return kr.set.Quotas[owner]
}

// Update changes the stored keys and puts the new keys in force.
func (kr *Keyring) Update(ctx context.Context, change func(*KeySet) error) error {
	if err := kr.store.Update(ctx, change); err != nil {
		return err
	}
	return kr.reload(true)
}

// Now returns the time by the clock of the keys.
func (kr *Keyring) Now() time.Time { return kr.now() }
