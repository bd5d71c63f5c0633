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

	"github.com/hare-sched/hare/admission"
)

// ErrKeyEnded is the cause with which the calls of a key end that was revoked
// or has expired.
var ErrKeyEnded = errors.New("access: the key was revoked or has expired")

// keyLook is how often a Keyring looks whether the keys have changed: what is
// done to them takes effect within a second.
const keyLook = 250 * time.Millisecond

// Keyring is the keys of a server, in memory, after those of a KeyStore. Safe
// for concurrent use.
type Keyring struct {
	store KeyStore
	now   func() time.Time
	log   *slog.Logger

	loading sync.Mutex
	state   string // of the store, when it was read last
	failed  bool   // to read it

	mu    sync.RWMutex
	set   *KeySet
	byID  map[string]*Key
	calls map[*heldCall]struct{}
}

// heldCall is a call that ends with its key.
type heldCall struct {
	id  string
	end context.CancelCauseFunc
}

// OpenKeyring reads the keys. now is the server's clock, nil meaning time.Now;
// the logger is told when the keys cannot be read later, nil meaning nobody.
func OpenKeyring(store KeyStore, now func() time.Time, log *slog.Logger) (*Keyring, error) {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	k := &Keyring{store: store, now: now, log: log, calls: map[*heldCall]struct{}{}}
	k.state = store.State()
	set, err := store.Read()
	if err != nil {
		return nil, err
	}
	k.take(set)
	return k, nil
}

// Follow takes over what happens to the stored keys, until ctx ends. Keys that
// cannot be read, or are damaged, leave those in force that were read last; an
// error in the log says so. Stored keys that are gone leave none in force.
func (k *Keyring) Follow(ctx context.Context) {
	tick := time.NewTicker(keyLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = k.reload(false)
			k.endCalls()
		}
	}
}

// reload reads the keys if they have changed, or in any case.
func (k *Keyring) reload(always bool) error {
	k.loading.Lock()
	defer k.loading.Unlock()
	state := k.store.State()
	if state == k.state && !always {
		return nil
	}
	k.state = state
	set, err := k.store.Read()
	if err != nil {
		k.failed = true
		k.log.Error("the keys cannot be read: those read before stay in force, and what was revoked since is too: "+
			"see hare key list", "error", err)
		return err
	}
	if k.failed {
		k.failed = false
		k.log.Info("the keys can be read again")
	}
	k.take(set)
	return nil
}

func (k *Keyring) take(set *KeySet) {
	byID := make(map[string]*Key, len(set.Keys))
	for i := range set.Keys {
		byID[set.Keys[i].ID] = &set.Keys[i]
	}
	k.mu.Lock()
	k.set, k.byID = set, byID
	k.mu.Unlock()
	k.endCalls()
}

// Authenticate finds the key that text is; ok is false where it is none, or
// not valid. It takes the same time for all texts of the form of a key.
func (k *Keyring) Authenticate(text string) (key Key, ok bool) {
	id := KeyID(text)
	if id == "" {
		return Key{}, false
	}
	sum := sha256.Sum256([]byte(text))
	var none Key
	k.mu.RLock()
	found := k.byID[id]
	k.mu.RUnlock()
	if found == nil {
		found = &none
	}
	same := subtle.ConstantTimeCompare(sum[:], found.Sum[:]) == 1
	if !same || !found.Valid(k.now()) {
		return Key{}, false
	}
	return *found, true
}

// Hold lets end be called with ErrKeyEnded when the key stops being valid,
// until release is called.
func (k *Keyring) Hold(id string, end context.CancelCauseFunc) (release func()) {
	c := &heldCall{id, end}
	k.mu.Lock()
	k.calls[c] = struct{}{}
	key := k.byID[id]
	k.mu.Unlock()
	if key == nil || !key.Valid(k.now()) { // since it was authenticated
		end(ErrKeyEnded)
	}
	return func() {
		k.mu.Lock()
		delete(k.calls, c)
		k.mu.Unlock()
		end(nil)
	}
}

// endCalls ends those whose key is not valid any more.
func (k *Keyring) endCalls() {
	now := k.now()
	k.mu.RLock()
	defer k.mu.RUnlock()
	for c := range k.calls {
		if key := k.byID[c.id]; key == nil || !key.Valid(now) {
			c.end(ErrKeyEnded)
		}
	}
}

// List gives the keys of a tenant, those of all for Operator, by tenant, then
// by age.
func (k *Keyring) List(tenant string) []Key {
	k.mu.RLock()
	all := slices.Clone(k.set.Keys)
	k.mu.RUnlock()
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

// Quota is what was set for an owner; its zero fields are the defaults.
func (k *Keyring) Quota(owner string) admission.Quota {
	if owner == "" {
		owner = Operator
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.set.Quotas[owner]
}

// Update changes the stored keys and puts them in force.
func (k *Keyring) Update(ctx context.Context, change func(*KeySet) error) error {
	if err := k.store.Update(ctx, change); err != nil {
		return err
	}
	return k.reload(true)
}

// Now is the clock of the keys.
func (k *Keyring) Now() time.Time { return k.now() }
