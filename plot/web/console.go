package web

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// Asset is a file that the console loads.
type Asset struct {
	Type string // media type
	Body []byte
}

// Console is the markup of the console, which loads Assets, by the paths that it has for them. A path contains a hash
// of the bytes, so that what it names never changes.
var Console, Assets = console()

// ConsolePolicy is the Content-Security-Policy of the console: all that it loads and calls is on its own server.
const ConsolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func console() (string, map[string]Asset) {
	markup := file("src/console/page.html")
	assets := map[string]Asset{}
	for name, kind := range map[string]string{
		"console.css": "text/css; charset=utf-8",
		"console.js":  "text/javascript; charset=utf-8",
		"theme.js":    "text/javascript; charset=utf-8",
		"icon.svg":    "image/svg+xml",
	} {
		body := []byte(file("dist/" + name))
		sum := sha256.Sum256(body)
		end := path.Ext(name)
		hashed := "/assets/" + strings.TrimSuffix(name, end) + "-" + hex.EncodeToString(sum[:8]) + end
		assets[hashed] = Asset{kind, body}
		markup = strings.ReplaceAll(markup, `"/assets/`+name+`"`, `"`+hashed+`"`)
	}
	return markup, assets
}
