// Package web holds the pages: their markup, style sheets and scripts, built
// from the TypeScript beside this file, and the one writer of documents that
// need nothing but themselves. Building Go programs needs no Node.js, because
// dist is committed; see docs/pages.md.
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

//go:embed dist src/gantt/page.html src/docs/page.html
var files embed.FS

func file(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic("web: " + err.Error()) // an embedded file
	}
	return string(b)
}

// theme is the script of every page: light or dark.
var theme = file("dist/theme.js")

// Kind is a kind of page: its style sheet, script, and what it may ask for.
type Kind struct {
	style, script string
	markup        string
	calls         bool // it calls the server that it comes from
}

// The kinds of pages.
var (
	// Gantt draws a schedule from data.
	Gantt = &Kind{style: file("dist/gantt.css"), script: file("dist/gantt.js"), markup: file("src/gantt/page.html")}
	// Docs renders the specification of the server that it comes from.
	Docs = &Kind{
		style: file("dist/docs.css"), script: file("dist/docs.js"), markup: file("src/docs/page.html"), calls: true,
	}
	// Report is text, tables and pictures, without a script but the switch
	// between light and dark.
	Report = &Kind{style: file("dist/report.css")}
)

// ThemeButton is the markup of the switch between light and dark, for pages of
// kind Report; other kinds have one.
const ThemeButton = `<button type="button" class="theme" hidden title="Light or dark" aria-label="Dark page">` +
	`◐</button>`

// Policy is the Content-Security-Policy of pages of this kind: their own
// scripts run, by hash, and nothing else.
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

// Page is a document.
type Page struct {
	Kind  *Kind
	Title string // text
	// Body is markup for pages of kind Report, whose texts from outside are
	// escaped; other kinds have their own.
	Body string
	// Data reaches the script as JSON, never as markup; nil is none.
	Data any
}

// Write writes the document: one file that makes no request but the calls of
// kind Docs. The same page gives the same bytes.
func (p *Page) Write(w io.Writer) error {
	var data []byte
	if p.Data != nil {
		var err error
		if data, err = json.Marshal(p.Data); err != nil { // escapes <, > and & as well
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
	if p.Kind.script != "" {
		put("<script>", p.Kind.script, "</script>\n")
	}
	put("</body></html>\n")
	return b.Flush()
}
