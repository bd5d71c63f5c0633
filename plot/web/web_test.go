package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

func text(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var kinds = map[string]*Kind{"gantt": Gantt, "docs": Docs, "report": Report}

func TestEveryKindOfPage(t *testing.T) {
	for name, kind := range kinds {
		page := &Page{Kind: kind, Title: `<T> & "t"`, Data: map[string]string{"evil": "</script><b>"}}
		if kind == Report {
			page.Body = "<h1>T</h1>" + ThemeButton
		}
		got := text(t, page)
		for _, want := range []string{
			"<!DOCTYPE html>", `<html lang="en">`, `<meta name="viewport" content="width=device-width, initial-scale=1">`,
			"&lt;T&gt; &amp; &#34;t&#34;", "prefers-color-scheme", "light-dark(", `class="theme"`, "default-src 'none'",
		} {
			if !strings.Contains(got, want) && !strings.Contains(got, strings.ReplaceAll(want, "'", "&#39;")) {
				t.Errorf("%s: no %s", name, want)
			}
		}
		for _, outside := range []string{
			"http:", "https:", "src=", "@import", "url(", "<link", "XMLHttpRequest", "innerHTML", "eval(", "</script><b>",
		} {
			if strings.Contains(got, outside) {
				t.Errorf("%s: the page has %q", name, outside)
			}
		}
		if strings.Contains(got, "fetch(") != kind.calls {
			t.Errorf("%s: calls", name)
		}
		if got != text(t, page) {
			t.Errorf("%s: two writings differ", name)
		}
	}
}

// TestPolicyHasTheScripts checks that the policy of a page has the hashes of
// exactly its scripts.
func TestPolicyHasTheScripts(t *testing.T) {
	for name, kind := range kinds {
		want := 1
		if kind.script != "" {
			want = 2
		}
		if n := strings.Count(kind.Policy(), "'sha256-"); n != want {
			t.Errorf("%s: %d hashes", name, n)
		}
		_, scripts, _ := strings.Cut(kind.Policy(), "script-src")
		scripts, _, _ = strings.Cut(scripts, ";")
		if strings.Contains(scripts, "unsafe") || strings.Contains(kind.Policy(), "connect-src") != kind.calls {
			t.Errorf("%s: %s", name, kind.Policy())
		}
		// A script that contained an end tag would end the script element of the
		// page.
		if strings.Contains(kind.script+theme, "</script") {
			t.Errorf("%s: the script ends itself", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestFaultsAreSaid(t *testing.T) {
	if err := (&Page{Kind: Gantt}).Write(full{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that fails: %v", err)
	}
	if err := (&Page{Kind: Gantt, Data: func() {}}).Write(io.Discard); err == nil {
		t.Error("data that is no JSON was written")
	}
}

// TestConsole checks that the console loads only what it has, by names that follow from the bytes.
func TestConsole(t *testing.T) {
	for path, asset := range Assets {
		if sum := sha256.Sum256(asset.Body); !strings.Contains(path, "-"+hex.EncodeToString(sum[:8])+".") {
			t.Errorf("%s is not named after its bytes", path)
		}
		if strings.Count(Console, `"`+path+`"`) != 1 {
			t.Errorf("the console does not load %s once", path)
		}
	}
	if n := strings.Count(Console, `"/assets/`); n != len(Assets) {
		t.Errorf("the console loads %d files, not %d", n, len(Assets))
	}
	var size bytes.Buffer
	z, _ := gzip.NewWriterLevel(&size, gzip.BestCompression)
	for _, asset := range Assets {
		_, _ = z.Write(asset.Body)
	}
	if _ = z.Close(); size.Len() > 120_000 {
		t.Errorf("the console is %d bytes when compressed", size.Len())
	}
}
