package openapi_test

import "slices"

// openOperations lists the operations that never require an API key.
var openOperations = []string{"version", "health", "ready", "home", "docs", "openapiJson", "openapiYaml"}

// secure adds to every operation that it may require an API key, and the answers
// without a valid one. These are the same everywhere, so no handler declares them.
func secure(spec map[string]any) {
	components := spec["components"].(map[string]any)
	components["securitySchemes"] = map[string]any{"key": map[string]any{
		"type": "http", "scheme": "bearer", "bearerFormat": "hare_ID_SECRET",
		"description": "An API key, where the server asks for keys: it does beyond loopback. hare key create makes one.",
	}}
	for _, item := range spec["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			op := o.(map[string]any)
			id := op["operationId"].(string)
			if slices.Contains(openOperations, id) {
				op["security"] = []any{}
				continue
			}
			op["security"] = []any{map[string]any{}, map[string]any{"key": []any{}}}
			responses := op["responses"].(map[string]any)
			refuse := func(status, header, about, text string) {
				r, ok := responses[status].(map[string]any)
				if !ok {
					r = refusal(text)
					responses[status] = r
				}
				schema := map[string]any{"type": "string"}
				if header == "Retry-After" {
					schema = map[string]any{"type": "integer", "format": "int32"}
				}
				r["headers"].(map[string]any)[header] = map[string]any{"description": about, "schema": schema}
			}
			refuse("401", "WWW-Authenticate", "Bearer", "the server wants a key, or the key is not valid")
			tags := op["tags"].([]any)
			if method != "get" || slices.Contains(tags, any("keys")) || id == "metrics" {
				refuse("403", "WWW-Authenticate", "Bearer", "the key's role does not allow this")
			}
			refuse("429", "Retry-After", "seconds",
				"the tenant has what its quota allows, or the address sent too many bad keys")
		}
	}
}

// guardPages adds to every operation the refusals that keep pages of other origins out.
func guardPages(spec map[string]any) {
	for _, item := range spec["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			responses := o.(map[string]any)["responses"].(map[string]any)
			text := "a web page of another origin sent this"
			if role, ok := responses["403"].(map[string]any); ok {
				role["description"] = role["description"].(string) + "; or " + text
			} else {
				responses["403"] = refusal(text)
			}
			responses["421"] = refusal("the header Host is not a name of this server, which asks for no keys")
		}
	}
}

// strictQueries adds to every operation the refusal of unknown query parameters.
func strictQueries(spec map[string]any) {
	for _, item := range spec["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			responses := o.(map[string]any)["responses"].(map[string]any)
			if responses["400"] == nil {
				responses["400"] = refusal("a query parameter that this path does not take")
			}
		}
	}
}

// refusal returns the declaration of an answer with a problem document.
func refusal(text string) map[string]any {
	return map[string]any{
		"description": text,
		"content": map[string]any{
			"application/problem+json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Problem"}}},
		"headers": map[string]any{"X-Request-Id": map[string]any{"description": "the client's own, or a new one",
			"schema": map[string]any{"type": "string"}}},
	}
}
