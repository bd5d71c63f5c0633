package main

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
)

// with sends a request with an API key.
func with(t testing.TB, key, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

var wholeKey = regexp.MustCompile(`hare_[a-z2-7]{16}_[a-z2-7]{52}`)

// TestKeysOfServer checks that hare key works while the server runs and while it
// does not, that keys survive a kill, and that no log contains a key.
func TestKeysOfServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	expect(t, exitUsage, "--data-dir", "key", "list")
	expect(t, exitUsage, "there is no directory ", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "read")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	create := func(args ...string) string {
		t.Helper()
		out, errs, code := runHare(t, "", append([]string{"key", "create", "--data-dir", dir}, args...)...)
		if code != 0 || !wholeKey.MatchString(out) || strings.Contains(errs, "hare_") {
			t.Fatalf("%d %s %s", code, out, errs)
		}
		return strings.TrimSpace(out)
	}
	expect(t, exitUsage, "--role", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "root")
	expect(t, exitUsage, "--tenant", "key", "create", "--data-dir", dir, "--tenant", "A", "--role", "read")
	expect(t, exitUsage, "--expires", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "read", "--expires",
		"1e3d")
	expect(t, exitUsage, "--expires", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "read", "--expires",
		"-1h")
	expect(t, exitUsage, "no key has that id", "key", "revoke", "--data-dir", dir, "x")
	down := create("--tenant", "a", "--role", "solve", "--expires", "90d", "--note", "made before")
	s := serve(t, -1, "--data-dir", dir, "--require-keys")
	cluster := `{"cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]}}`
	code, text := with(t, down, "POST", s.url+"/v1/sessions", cluster)
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	session := regexp.MustCompile(`[a-z2-7]{26}`).FindString(text)
	up := create("--tenant", "b", "--role", "read")
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("never: ", what)
			}
		}
	}
	answers := func(key string, want int) func() bool {
		return func() bool {
			code, _ := with(t, key, "GET", s.url+"/v1/sessions", "")
			return code == want
		}
	}
	until("the new key is valid", answers(up, 200))
	if code, text := with(t, up, "GET", s.url+"/v1/sessions/"+session, ""); code != 404 {
		t.Errorf("%d %s", code, text)
	}
	expect(t, exitDone, "rate 0.5/s", "key", "quota", "--data-dir", dir, "b", "--rate", "0.5")
	until("the quota holds", answers(up, 429))
	// A stream ends when its key is revoked.
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/sessions/"+session+"/decisions", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+down)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	// revoked by the whole key; the output has only its id
	out := expect(t, exitDone, "is revoked", "key", "revoke", "--data-dir", dir, down)
	if strings.Contains(out, "hare_") {
		t.Error(out)
	}
	last := ""
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		last += in.Text()
	}
	if !strings.Contains(last, "bad_key") {
		t.Errorf("the stream ends with %q", last)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.end(t)
	logs := s.stderr()
	s = serve(t, -1, "--data-dir", dir, "--require-keys")
	if !answers(down, 401)() {
		t.Error("a revoked key is valid after a restart")
	}
	again := create("--tenant", "a", "--role", "read")
	until("the key of the same tenant is valid", answers(again, 200))
	if code, text := with(t, again, "GET", s.url+"/v1/sessions/"+session, ""); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	list := expect(t, exitDone, "made before", "key", "list", "--data-dir", dir)
	s.stop(t)
	if all := logs + s.stderr() + list; strings.Contains(all, "hare_") || !strings.Contains(all, access.KeyID(again)) {
		t.Error("a log or a list has a key, or not its id")
	}
	// A damaged file of keys is reported with a remedy, and the server refuses to
	// start.
	file := filepath.Join(dir, "keys.json")
	if err := os.WriteFile(file, []byte(`{"hare":"keys/v1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, exitUsage, "all keys end", "key", "list", "--data-dir", dir)
	expect(t, exitUsage, "checksum", "serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--require-keys")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir); !strings.Contains(out,
		"chmod 600") {
		t.Error(out)
	}
}

// A key goes into a file of its own that nobody else can read, and never over another one; files that others can read
// are named with their remedy.
func TestKeyFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "agent.key")
	create := []string{"key", "create", "--data-dir", dir, "--tenant", "a", "--role", "agent", "-o", file}
	expect(t, exitUsage, "there is no directory ", "key", "create", "--data-dir", dir+"/none", "--tenant", "a", "--role",
		"agent", "-o", file)
	if out, errs, code := runHare(t, "", create...); code != 0 || out != "" ||
		!strings.Contains(errs, "role agent of the first node, valid for ever") {
		t.Fatal(code, out, errs)
	}
	text, err := os.ReadFile(file)
	info, errStat := os.Stat(file)
	if err != nil || errStat != nil || info.Mode() != 0o600 || !wholeKey.Match(text) {
		t.Errorf("%q %v %v %v", text, info.Mode(), err, errStat)
	}
	expect(t, exitUsage, "exists: name another file", create...)
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, text) {
		t.Error("another key took its place", err)
	}
	expect(t, exitDone, "", "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "agent",
		"--node", "rack1-*", "--node", "b")
	list := expect(t, exitDone, "the first node", "key", "list", "--data-dir", dir)
	if strings.Count(list, " agent ") != 2 || !strings.Contains(list, "rack1-*,b") {
		t.Error(list) // what failed made no key
	}
	expect(t, exitUsage, "--node: only keys of role agent", "key", "create", "--data-dir", dir, "--tenant", "a", "--role",
		"read", "--node", "b")
	expect(t, exitUsage, `--node: "r["`, "key", "create", "--data-dir", dir, "--tenant", "a", "--role", "agent", "--node",
		"r[")
	server := httptest.NewServer(http.NotFoundHandler()) // one that is not there would be asked again for seconds
	defer server.Close()
	warned := func() bool {
		_, errs, _ := runHare(t, "", "jobs", "--once", "--server", server.URL, "--cluster", "lab",
			"--api-key-file", file)
		return strings.Contains(errs, "hare: warning: --api-key-file "+file+" is open to other users of this machine: chmod")
	}
	if warned() {
		t.Error("a warning of a file that is closed")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if !warned() {
			t.Errorf("no warning of %v", mode)
		}
	}
	doctor := func() string {
		out, _, _ := runHare(t, "", "doctor", "--listen", "127.0.0.1:0", "--data-dir", dir, "--tls-key", file)
		return out
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := doctor(); !strings.Contains(out, "FAIL  private key      "+file+" is open to others") {
		t.Error(out)
	}
	// A key from before keys had nodes is one for any node, which is said.
	ring, err := access.OpenKeyring(access.FileIn(dir), nil, nil)
	if err == nil {
		err = ring.Update(t.Context(), func(set *access.KeySet) error {
			set.Keys[0].Nodes = nil
			return os.Chmod(file, 0o600)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := doctor(); !strings.Contains(out, "1 of role agent for any node") ||
		!strings.Contains(out, "ok    private") {
		t.Error(out)
	}
	expect(t, exitDone, "any, made before keys had nodes", "key", "list", "--data-dir", dir)
	log := &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	if _, _, err := (&accessFlags{requireKeys: true}).open(t.Context(), dir, logger); err != nil ||
		!strings.Contains(log.String(), "any node of their tenant") {
		t.Error(err, log)
	}
	for mode, want := range map[os.FileMode]bool{0o644: true, 0o660: true, 0o640: false, 0o600: false} {
		log.Reset()
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := (&accessFlags{certFile: file, keyFile: file}).open(t.Context(), dir, logger)
		if err == nil || strings.Contains(log.String(), "chmod 600 "+file) != want { // it is no certificate either
			t.Error(mode, err, log)
		}
	}
}

// TestAccess checks which addresses require TLS and keys.
func TestAccess(t *testing.T) {
	for name, c := range map[string]struct {
		a      accessFlags
		listen string
		dir    string
		keys   bool
		err    string
	}{
		"loopback":                   {accessFlags{}, "127.0.0.1:1", "", false, ""},
		"loopback by name":           {accessFlags{}, "localhost:1", "", false, ""},
		"loopback of IPv6":           {accessFlags{}, "[::1]:1", "", false, ""},
		"loopback with TLS":          {accessFlags{certFile: "c", keyFile: "k"}, "127.0.0.1:1", "", false, ""},
		"loopback with keys":         {accessFlags{requireKeys: true}, "127.0.0.1:1", "d", true, ""},
		"keys without directory":     {accessFlags{requireKeys: true}, "127.0.0.1:1", "", false, "--data-dir"},
		"everywhere":                 {accessFlags{}, ":1", "d", false, "--tls-cert"},
		"everywhere of IPv4":         {accessFlags{}, "0.0.0.0:1", "d", false, "--insecure"},
		"keys in clear":              {accessFlags{requireKeys: true}, "0.0.0.0:1", "d", false, "in clear"},
		"keys in clear all the same": {accessFlags{requireKeys: true, insecure: true}, "0.0.0.0:1", "d", true, ""},
		"open":                       {accessFlags{insecure: true}, "0.0.0.0:1", "", false, ""},
		"by name":                    {accessFlags{}, "example.org:1", "d", false, "--tls-cert"},
		"TLS":                        {accessFlags{certFile: "c", keyFile: "k"}, "0.0.0.0:1", "d", true, ""},
		"TLS without directory":      {accessFlags{certFile: "c", keyFile: "k"}, "0.0.0.0:1", "", false, "--data-dir"},
		"TLS without keys":           {accessFlags{certFile: "c", keyFile: "k", insecure: true}, "0.0.0.0:1", "", false, ""},
		"half a pair":                {accessFlags{certFile: "c"}, "127.0.0.1:1", "", false, "--tls-key"},
		"no port":                    {accessFlags{}, "127.0.0.1", "", false, "--listen"},
		"a host with a port":         {accessFlags{allow: []string{"a:80"}}, "127.0.0.1:1", "", false, "--allow-host"},
		"a host of keys":             {accessFlags{requireKeys: true, allow: []string{"a"}}, "127.0.0.1:1", "d", true, ""},
		"a bad quota":                {accessFlags{quota: admission.Quota{Rate: -1}}, "127.0.0.1:1", "", false, "/rate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.a.check(c.listen, c.dir)
			if (err != nil) != (c.err != "") || err != nil &&
				(!strings.Contains(err.Error(), c.err) || exitCode(err) != exitUsage) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if err == nil && c.a.requireKeys != c.keys {
				t.Errorf("keys: %t", c.a.requireKeys)
			}
			if err == nil && (c.a.hosts != nil) != (!c.keys || len(c.a.allow) > 0) {
				t.Errorf("names of the server: %v", c.a.hosts)
			}
		})
	}
}

func TestParseDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90d": 90 * 24 * time.Hour, "12h": 12 * time.Hour,
		"1h30m": 90 * time.Minute} {
		if got, err := parseDays(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"d", "0d", "-1d", "1.5d", "36501d", "99999999999999999999d", "90", "0s", "-5m", "1e3d",
		"+1d", " 1d", "NaN"} {
		if got, err := parseDays(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
