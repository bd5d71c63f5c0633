package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/access"
)

// FuzzBearer checks that the key read from a header is never longer than the
// header, and that a valid key is returned unchanged.
func FuzzBearer(f *testing.F) {
	secret, _, err := access.NewKey("a", access.RoleRead, "", time.Unix(0, 0), 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "Bearer", "Bearer ", "Bearer  x", "bearer " + secret, "Basic YTpi",
		"Bearer " + secret + " ", "Bearer a,b", "\x00", "Bearer hare_\xff_"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := bearer([]string{header})
		if len(got) > max(len(header), len("none")) {
			t.Errorf("%q gives %q", header, got)
		}
		if id := access.KeyID(got); id != "" && (len(got) != len(secret) || !strings.Contains(got, id) ||
			!strings.HasSuffix(header, got)) {
			t.Errorf("%q gives the key %q", header, got)
		}
		if bearer([]string{header, header}) != "none" {
			t.Error("two headers are a key")
		}
	})
}

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{"Bearer x": "x", "bEARER  x": "x", "Basic x": "none", "Bearer": "none",
		"": "none"} {
		if got := bearer([]string{header}); got != want {
			t.Errorf("%q gives %q", header, got)
		}
	}
	if got := bearer(http.Header{}.Values("Authorization")); got != "" {
		t.Errorf("no header gives %q", got)
	}
}

// TestGuessesAreBounded checks that the table of failed attempts does not grow with
// the number of addresses. The addresses without recent attempts are removed first.
func TestGuessesAreBounded(t *testing.T) {
	g := newBadKeyLimiter()
	now := time.Unix(1, 0)
	for range badKeyBurst {
		if _, ok := g.allow("192.0.2.1:1", now); !ok {
			t.Fatal("refused too early")
		}
	}
	for i := range 3 * badKeyAddresses {
		g.allow(fmt.Sprintf("[2001:db8:%x:%x::1]:9", i>>16, i&0xffff), now)
		if i%1000 == 0 { // this address keeps trying
			if wait, ok := g.allow("192.0.2.1:2", now); ok || wait <= 0 || wait > time.Second {
				t.Fatalf("after %d other addresses: %v, %t", i, wait, ok)
			}
		}
	}
	if len(g.buckets) != badKeyAddresses || g.order.Len() != badKeyAddresses {
		t.Errorf("%d addresses, %d in order", len(g.buckets), g.order.Len())
	}
	if _, ok := g.allow("192.0.2.1:3", now.Add(2*time.Second)); !ok {
		t.Error("refused for ever")
	}
	// All addresses of one IPv6 network count as one client, and an IPv4 address
	// counts as the same address where it is mapped into IPv6.
	for a, b := range map[string]string{"[2001:db8::1]:1": "[2001:db8::ffff:1%eth0]:2",
		"192.0.2.7:1": "[::ffff:192.0.2.7]:2", "@": "pipe"} {
		if network(a) != network(b) {
			t.Errorf("%v and %v", network(a), network(b))
		}
	}
	if network("192.0.2.7:1") == network("192.0.2.8:1") {
		t.Error("two addresses are one")
	}
}
