// Package openapi holds the committed OpenAPI 3.1 specification of the HTTP
// interface; package web has the page that renders it.
//
//	@title			Hare
//	@version		1
//	@description	Schedules training jobs on clusters whose GPUs differ, and proves how far each schedule is
//	@description	from the best one. Bodies may come and go as gzip or zstd; the default limit is 64 MiB, before
//	@description	and after decompression. Numbers of instances are exact decimals: a seventh decimal is
//	@description	refused, not rounded.
//	@license.name	Apache-2.0
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
