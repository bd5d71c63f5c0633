// Package web holds the pages: their markup, style sheets and scripts, built from the
// TypeScript beside this file, and the writer of self-contained HTML documents.
// Building Go programs needs no Node.js, because dist is committed; see docs/inside/design.md#8-pages.
package web

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
)

//go:embed dist src/gantt/page.html src/docs/page.html src/console/page.html
var files embed.FS

func file(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic("web: " + err.Error()) // cannot happen: the file is embedded
	}
	return string(b)
}

// theme is the script of every page that switches between light and dark.
var theme = file("dist/theme.js")

// Kind is a kind of page: its style sheet, its script, and what its script may access.
type Kind struct {
	style, script string
	markup        string
	calls         bool // the page may call the server that it comes from
}

// The kinds of pages are:
var (
	// Gantt draws the schedule that Page.Data describes.
	Gantt = &Kind{style: file("dist/gantt.css"), script: file("dist/gantt.js"), markup: file("src/gantt/page.html")}
	// Docs renders the specification of the server that the page comes from.
	Docs = &Kind{
		style: file("dist/docs.css"), script: file("dist/docs.js"), markup: file("src/docs/page.html"), calls: true,
	}
	// Report shows text, tables and pictures. Its only script switches between light
	// and dark.
	Report = &Kind{style: file("dist/report.css")}
)

// ThemeButton is the markup of the button that switches between light and dark, for
// pages of kind Report; pages of other kinds have the button already.
const ThemeButton = `<button type="button" class="theme" hidden title="Light or dark" aria-label="Dark page">` +
	`◐</button>`

// Policy returns the Content-Security-Policy of pages of this kind: only their own
// scripts run, identified by hash.
func (k *Kind) Policy() string {
	p := "default-src 'none'; style-src 'unsafe-inline'; script-src " + hashOf(theme)
	if k.script != "" {
		p += " " + hashOf(k.script)
	}
	if k.calls {
		p += "; connect-src 'self'"
	}
	return p + "; base-uri 'none'; form-action 'none'"
}

func hashOf(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Page is one HTML document.
type Page struct {
	Kind  *Kind
	Title string // plain text
	// Body is the markup of a page of kind Report, in which text from outside must be
	// escaped; other kinds have their own body.
	Body string
	// Data is given to the script as JSON, never as markup; nil means no data.
	Data any
	// Binary is given to the script in base64; nil means none.
	Binary []byte
}

// Write writes the document: one file that makes no requests, except that pages of kind
// Docs call their server. The same page gives the same bytes.
func (p *Page) Write(w io.Writer) error {
	var data []byte
	if p.Data != nil {
		var err error
		if data, err = json.Marshal(p.Data); err != nil { // json.Marshal escapes <, > and & as well
			return err
		}
	}
	b := bufio.NewWriter(w)
	put := func(parts ...string) {
		for _, s := range parts {
			b.WriteString(s)
		}
	}
	put("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
		"<meta name=\"color-scheme\" content=\"light dark\">\n",
		`<meta http-equiv="Content-Security-Policy" content="`, p.Kind.Policy(), "\">\n",
		"<title>", html.EscapeString(p.Title), "</title>\n",
		"<style>", p.Kind.style, "</style>\n<script>", theme, "</script></head>\n<body>\n", p.Kind.markup, p.Body)
	if data != nil {
		put(`<script type="application/json" id="data">`, string(data), "</script>\n")
	}
	if p.Binary != nil {
		put(`<script type="application/octet-stream" id="binary">`)
		e := base64.NewEncoder(base64.RawStdEncoding, b)
		_, _ = e.Write(p.Binary) // Flush has its error
		_ = e.Close()
		put("</script>\n")
	}
	if p.Kind.script != "" {
		put("<script>", p.Kind.script, "</script>\n")
	}
	put("</body></html>\n")
	return b.Flush()
}
