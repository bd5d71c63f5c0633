// Package openapi holds the committed OpenAPI 3.1 specification of the HTTP
// interface, and a page that renders it without any outside request.
package openapi

import _ "embed"

// JSON is the specification.
//
//go:embed openapi.json
var JSON []byte

// YAML is the same document as YAML.
//
//go:embed openapi.yaml
var YAML []byte

// Page renders the specification that the server has at /openapi.json.
//
//go:embed docs.html
var Page []byte
