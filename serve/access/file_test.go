package access_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

// patience is how long a test waits for what should happen soon: no test passes or fails by it on
// a busy machine.
const patience = time.Minute

// add makes a key in a directory and returns it.
func add(t testing.TB, dir, tenant string, role access.Role) (secret string, k access.Key) {
	t.Helper()
	secret, k, err := access.NewKey(tenant, role, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := access.FileIn(dir).Update(t.Context(),
		func(set *access.KeySet) error { return set.Add(k, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	return secret, k
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	f := access.FileIn(dir)
	set, err := f.Read()
	if err != nil || len(set.Keys) != 0 {
		t.Fatal(set, err)
	}
	now := time.Unix(1_700_000_000, 0).UTC()
	want := &access.KeySet{Quotas: map[string]admission.Quota{"a": {Solves: 3, Rate: 0.25, BodyBytes: 1,
		StoredBytes: 2, Sessions: 4, Streams: 5}}}
	for i, tenant := range []string{"a", "*", "b.c-d_9"} {
		secret, k, err := access.NewKey(tenant, access.Role(i+1), `a "note" <é>`, now, time.Duration(i)*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			k.Revoked = now
		}
		want.Keys = append(want.Keys, k)
		if err := f.Update(t.Context(), func(set *access.KeySet) error {
			set.Quotas = want.Quotas
			return set.Add(k, now)
		}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(f.Path())
		if err != nil || bytes.Contains(text, []byte(secret[22:])) {
			t.Error("the file has the secret", err)
		}
	}
	got, err := f.Read()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	if exposed, err := f.Exposed(); err != nil || exposed != 0 {
		t.Error(exposed, err)
	}
	// A failed update changes nothing.
	broken := errors.New("broken")
	if err := f.Update(t.Context(), func(set *access.KeySet) error { set.Keys = nil; return broken }); !errors.Is(err,
		broken) {
		t.Error(err)
	}
	if got, err := f.Read(); err != nil || len(got.Keys) != 3 {
		t.Error(got, err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 2 { // and the lock
		t.Error(names)
	}
}

// TestDamage checks that no change of any byte gives a key or another role.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, "a", access.RoleRead)
	f := access.FileIn(dir)
	good, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	want, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	try := func(what string, text []byte) {
		t.Helper()
		if err := os.WriteFile(f.Path(), text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := f.Read()
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", what, got)
		}
		if err != nil && !errors.As(err, new(*store.CorruptError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused := 0
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= byte(1 + rng.IntN(255))
		try(fmt.Sprint("byte ", i), bad)
		if _, err := f.Read(); err != nil {
			refused++
		}
		try(fmt.Sprint("cut at ", i), good[:i])
	}
	if refused < len(good)-2 { // a space or two at its end
		t.Errorf("%d changes of %d were noticed", refused, len(good))
	}
	try("another role", bytes.Replace(good, []byte(`"read"`), []byte(`"admin"`), 1))
	// A damaged file is not overwritten.
	err = f.Update(t.Context(), func(*access.KeySet) error { return nil })
	if !errors.As(err, new(*store.CorruptError)) {
		t.Error(err)
	}
}

// FuzzRead checks that only a text with its checksum is read, and that a set that was
// read is valid.
func FuzzRead(f *testing.F) {
	const good = `{"hare":"keys/v1","sha256":"e58f98a23d05dd4c97c9f38f1aa94272973bfcf377e5918f36bd06dac50c3ae2",` +
		`"set":{"keys":[{"id":"ufrybj4j4tonipck","tenant":"vision","role":"solve",` +
		`"sha256":"3f042a7c8d3df9729b41fd06244acefe2843f87ce8654a8318cb02f6e9a2fada","created":"2026-11-21T14:24:09Z",` +
		`"expires":"2027-02-19T14:24:09Z","revoked":"2026-11-21T14:24:10Z"},{"id":"5ze2iktar6rpfd47","tenant":"*",` +
		`"role":"admin","sha256":"92c0aaf5bd4b26d1bd95c7266926bf551e9d166ac8c062574d0998c7d5f6ef61",` +
		`"created":"2026-11-21T14:24:09Z"}],"quotas":{"vision":{"solves":4,"rate":20}}}}`
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, "solve", "admin", 1)))
	f.Add([]byte(`{"hare":"keys/v1","sha256":"","set":{}}`))
	file := access.FileIn(f.TempDir())
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file.Path(), text, 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := file.Read()
		if err != nil {
			if !errors.As(err, new(*store.CorruptError)) {
				t.Error(err)
			}
			return
		}
		if err := set.Check(); err != nil {
			t.Error(err)
		}
		var d struct {
			Sum string          `json:"sha256"`
			Set json.RawMessage `json:"set"`
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if d.Sum != fmt.Sprintf("%x", sha256.Sum256(d.Set)) {
			t.Errorf("it is read without its checksum: %s", text)
		}
	})
}

// TestManyAtOnce checks that concurrent updates lose no key, and that readers see whole
// files.
func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for range 10 {
				add(t, dir, fmt.Sprint("t", w), access.RoleRead)
				if _, err := access.FileIn(dir).Read(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	set, err := access.FileIn(dir).Read()
	if err != nil || len(set.Keys) != 40 {
		t.Errorf("%d keys, %v", len(set.Keys), err)
	}
}

// TestFollow checks that a change of the file takes effect within seconds: new keys,
// revoked keys, damage (nothing changes), and the deletion of the file (no key is left).
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	first, _ := add(t, dir, "a", access.RoleRead)
	var mu sync.Mutex
	var told bytes.Buffer
	log := slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return told.Write(b)
	}), nil))
	ring, err := access.OpenKeyring(access.FileIn(dir), nil, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ring.Follow(ctx)
	}()
	defer func() {
		stop()
		<-ended
	}()
	valid := func(key string, want bool) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if _, ok := ring.Authenticate(key); ok == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("never %t", want)
			}
		}
	}
	valid(first, true)
	second, k := add(t, dir, "b", access.RoleAdmin)
	valid(second, true)
	cause := make(chan error, 1)
	defer ring.Hold(k.ID, func(err error) {
		select {
		case cause <- err:
		default:
		}
	})()
	if err := access.FileIn(dir).Update(ctx,
		func(set *access.KeySet) error { return set.Revoke("b", k.ID, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	valid(second, false)
	select {
	case err := <-cause:
		if !errors.Is(err, access.ErrKeyEnded) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the call goes on")
	}
	file := access.FileIn(dir).Path()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Neither a damaged file nor an unreadable one changes the keys. A directory is
	// unreadable for root too.
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(file, good[:len(good)/2], 0o600) },
		func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		mu.Lock()
		told.Reset()
		mu.Unlock()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			text := told.String()
			mu.Unlock()
			if strings.Contains(text, "level=ERROR") {
				break
			}
			if time.Now().After(end) {
				t.Fatal("nobody is told")
			}
		}
		valid(first, true)
		valid(second, false)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	valid(first, false)
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	valid(first, true)
	valid(second, false)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestNoDirectory(t *testing.T) {
	f := access.FileIn(filepath.Join(t.TempDir(), "none"))
	if _, err := f.Read(); err == nil {
		t.Error("keys of nowhere")
	}
	if err := f.Update(t.Context(), func(*access.KeySet) error { return nil }); err == nil {
		t.Error("keys nowhere")
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	dir := b.TempDir()
	secret, _ := add(b, dir, "a", access.RoleRead)
	ring, err := access.OpenKeyring(access.FileIn(dir), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, ok := ring.Authenticate(secret); !ok {
			b.Fatal("refused")
		}
	}
}
