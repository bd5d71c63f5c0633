package access_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
)

func TestNewKey(t *testing.T) {
	now := time.Unix(1_000_000, 5)
	secret, k, err := access.NewKey("vision", access.RoleSolve, "CI", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if access.KeyID(secret) != k.ID || len(secret) != 74 || strings.Contains(k.ID+k.Note, secret[25:]) {
		t.Errorf("%q, %+v", secret, k)
	}
	again, _, err := access.NewKey("vision", access.RoleSolve, "CI", now, time.Hour)
	if err != nil || again == secret {
		t.Error("two keys are one", err)
	}
	for at, want := range map[time.Duration]string{0: "valid", 59 * time.Minute: "valid", time.Hour: "expired"} {
		if got := k.State(now.Add(at)); got != want {
			t.Errorf("after %v: %s", at, got)
		}
	}
	for _, bad := range []struct {
		tenant string
		role   access.Role
		note   string
		lasts  time.Duration
		at     string
	}{
		{"", access.RoleRead, "", 0, "/tenant"}, {"A", access.RoleRead, "", 0, "/tenant"},
		{".a", access.RoleRead, "", 0, "/tenant"},
		{strings.Repeat("a", 64), access.RoleRead, "", 0, "/tenant"}, {"a/b", access.RoleRead, "", 0, "/tenant"},
		{"**", access.RoleRead, "", 0, "/tenant"},
		{"a", access.RoleNone, "", 0, "/role"}, {"a", 9, "", 0, "/role"},
		{"a", access.RoleRead, "a\nb", 0, "/note"}, {"a", access.RoleRead, strings.Repeat("x", 201), 0, "/note"},
		{"a", access.RoleRead, "\xff", 0, "/note"},
		{"a", access.RoleRead, "", -1, "/expires_s"},
	} {
		_, _, err := access.NewKey(bad.tenant, bad.role, bad.note, now, bad.lasts)
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != bad.at {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// FuzzKeyID checks that a text without the exact form of a key has no ID.
func FuzzKeyID(f *testing.F) {
	secret, _, err := access.NewKey("a", access.RoleRead, "", time.Unix(0, 0), 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "hare_", secret, secret + "a", secret[1:], strings.ToUpper(secret),
		strings.Replace(secret, "_", "-", 1)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id := access.KeyID(text)
		if id == "" {
			return
		}
		if len(text) != len(secret) || text[:5] != "hare_" || text[5:21] != id || text[21] != '_' ||
			strings.ContainsAny(text[5:], "018ABC \x00") {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}

// TestKeySetForgets checks that keys are removed that have not been valid for long, and
// no others.
func TestKeySetForgets(t *testing.T) {
	set := &access.KeySet{}
	begin := time.Unix(1_000_000, 0)
	add := func(now time.Time, lasts time.Duration) string {
		t.Helper()
		_, k, err := access.NewKey("a", access.RoleRead, "", now, lasts)
		if err == nil {
			err = set.Add(k, now)
		}
		if err != nil {
			t.Fatal(err)
		}
		return k.ID
	}
	stays, expires, revoked := add(begin, 0), add(begin, time.Hour), add(begin, 0)
	if err := set.Revoke("b", revoked, begin); !errors.Is(err, access.ErrNoKey) {
		t.Error("another tenant revokes:", err)
	}
	if err := set.Revoke("a", revoked, begin); err != nil {
		t.Fatal(err)
	}
	add(begin.Add(89*24*time.Hour), 0)
	if len(set.Keys) != 4 {
		t.Errorf("%d keys", len(set.Keys))
	}
	add(begin.Add(92*24*time.Hour), 0)
	for _, k := range set.Keys {
		if k.ID == expires || k.ID == revoked {
			t.Errorf("%s is still there", k.ID)
		}
	}
	if set.Keys[0].ID != stays || len(set.Keys) != 3 {
		t.Errorf("%+v", set.Keys)
	}
}

// TestKeysOfOneTenant checks that the keys of one tenant leave room for the keys of the
// others.
func TestKeysOfOneTenant(t *testing.T) {
	set := &access.KeySet{}
	now := time.Unix(1_000_000, 0)
	add := func(tenant string) error {
		_, k, err := access.NewKey(tenant, access.RoleRead, "", now, 0)
		if err != nil {
			t.Fatal(err)
		}
		return set.Add(k, now)
	}
	for range 200 {
		if err := add("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("a"); !errors.As(err, new(*admission.LimitError)) {
		t.Error(err)
	}
	for i := 0; i < 49*200; i++ {
		if err := add("b" + strconv.Itoa(i/200)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := add("c"); !errors.Is(err, admission.ErrFull) {
		t.Error(err)
	}
}
