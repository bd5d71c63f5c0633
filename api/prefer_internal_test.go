package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestPrefer(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    preference
		applied string
	}{
		{nil, preference{}, ""},
		{[]string{""}, preference{}, ""},
		{[]string{"wait=10"}, preference{10 * time.Second, true, false}, "wait=10"},
		{[]string{"wait=0"}, preference{0, true, false}, "wait=0"},
		{[]string{`WAIT="7"`}, preference{7 * time.Second, true, false}, "wait=7"},
		{[]string{"respond-async"}, preference{0, false, true}, "respond-async"},
		{[]string{"Respond-Async , wait = 3600"}, preference{time.Hour, true, true}, "respond-async, wait=3600"},
		{[]string{"return=minimal; x=\"a,wait=5\", wait=2;y", "wait=9"}, preference{2 * time.Second, true, false}, "wait=2"},
		{[]string{`handling="wait=3, respond-async"`}, preference{}, ""},
		{[]string{"waiting=4, respond-asynchronously"}, preference{}, ""},
	} {
		p, err := prefer(c.headers)
		if err != nil || p != c.want || p.applied() != c.applied {
			t.Errorf("%q: %+v %v, applied %q", c.headers, p, err, p.applied())
		}
	}
	for _, bad := range []string{"wait", "wait=", "wait=-1", "wait=+1", "wait=1.5", "wait=3601",
		"wait=99999999999999999999", "wait=x", "wait=٣", "wait=5, wait=x"} {
		if _, err := prefer([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestNoneMatch(t *testing.T) {
	const tag = `"abc"`
	for text, want := range map[string]bool{
		`"abc"`: false, `W/"abc"`: false, `*`: false, ` "x" , "abc"`: false, `"x,\"abc\""`: true,
		"": true, `abc`: true, `"abcd"`: true, `"ABC"`: true, `"x", W/"y"`: true, `"`: true, `"abc`: true,
	} {
		if got := noneMatch([]string{text}, tag); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if noneMatch([]string{`"x"`, tag}, tag) {
		t.Error("the second header is not read")
	}
}

func TestIdempotencyKey(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc", `"abc"`: "abc", " x-1 ": "x-1",
		strings.Repeat("k", 255): strings.Repeat("k", 255), `"`: `"`} {
		r := &http.Request{Header: http.Header{"Idempotency-Key": {text}}}
		if key, err := idempotencyKey(r); err != nil || key != want {
			t.Errorf("%q: %q %v", text, key, err)
		}
	}
	for _, bad := range [][]string{{""}, {`""`}, {"a b"}, {"a", "a"}, {"é"}, {"a\tb"}, {strings.Repeat("k", 256)}} {
		if key, err := idempotencyKey(&http.Request{Header: http.Header{"Idempotency-Key": bad}}); err == nil {
			t.Errorf("%q is taken as %q", bad, key)
		}
	}
}

// FuzzHeaders checks that every header and parameter is either read as one of the
// allowed values or refused, and that Preference-Applied parses to the preferences
// that were applied.
func FuzzHeaders(f *testing.F) {
	for _, h := range []string{"wait=10, respond-async", `wait="1";a="b\",c"`, "wait=", `"abc", W/"abc", *`, `"\`,
		"\x00,;=\"", "wait=3600,wait=3601", "é", strings.Repeat(",", 100)} {
		f.Add(h, "1.5", "2")
	}
	f.Add("", "-1", "1e3")
	f.Add("", "9007199254.740993", "")
	f.Fuzz(func(t *testing.T, header, from, to string) {
		if p, err := prefer([]string{header}); err == nil {
			again, err := prefer([]string{p.applied()})
			if err != nil || again != p || p.wait < 0 || p.wait > maxWait {
				t.Errorf("prefer %q: %+v, then %+v %v", header, p, again, err)
			}
		}
		const tag = `"0123"`
		none := noneMatch([]string{header}, tag)
		if none && strings.TrimSpace(header) == tag || !none && !strings.Contains(header, tag) &&
			!strings.Contains(header, "*") {
			t.Errorf("If-None-Match %q: %t", header, none)
		}
		if noneMatch([]string{tag, header}, tag) {
			t.Errorf("a tag before %q does not match", header)
		}
		if key, err := idempotencyKey(&http.Request{Header: http.Header{"Idempotency-Key": {header}}}); err == nil {
			if again, err := idempotencyKey(&http.Request{
				Header: http.Header{"Idempotency-Key": {`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) +
					`"`}}}); err != nil || again != key {
				t.Errorf("key %q: %q, then %q %v", header, key, again, err)
			}
		}
		q := url.Values{"from_s": {from}, "to_s": {to}}
		if a, b, err := timeRange(q); err == nil && (a < 0 || a >= b) {
			t.Errorf("%q to %q: %d to %d", from, to, a, b)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = "after=" + url.QueryEscape(from)
		r.Header.Set("Last-Event-ID", header)
		if after, err := resumeAfter(r); err == nil && after < 0 {
			t.Errorf("behind %q: %d", header, after)
		}
		if err := checkQuery(&http.Request{URL: &url.URL{RawQuery: header}}, []string{"a", "b" + repeatable}); err == nil &&
			strings.Count(header, "a=") > 1 && strings.HasPrefix(header, "a=") && strings.Contains(header, "&a=") {
			t.Errorf("%q is taken", header)
		}
	})
}
