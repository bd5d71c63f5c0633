package openapi_test

import "encoding/json"

// sharpen adds what swag cannot express and programs that read the specification
// need: the least values of parameters, and links from the operation that returns
// an id to those that take the id. It leaves existing declarations unchanged, and
// skips operations that are not served.
func sharpen(spec map[string]any) {
	for _, item := range spec["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			op := o.(map[string]any)
			parameters, _ := op["parameters"].([]any)
			for _, p := range parameters {
				sharpenParameter(p.(map[string]any))
			}
		}
	}
	// A stream of events may be empty.
	operation(spec, "postEvents")["requestBody"].(map[string]any)["required"] = false
	// YAML that has been parsed is an object, as JSON is.
	response(spec, "openapiYaml",
		"200")["content"].(map[string]any)["application/yaml"] = map[string]any{"schema": map[string]any{"type": "object"}}
	if parameter, ok := component(spec, "PolicyParameter"); ok {
		value := parameter["default"].(map[string]any)
		value["type"] = []any{"number", "boolean", "string", "array"}
		value["items"] = map[string]any{"type": "number"}
	}
	for _, name := range []string{"JobPatch", "ManagedJobChanged"} {
		if change, ok := component(spec, name); ok {
			change["labels"].(map[string]any)["additionalProperties"].(map[string]any)["type"] = []any{"string", "null"}
		}
	}
	for _, l := range followers {
		link(spec, l)
	}
}

// component returns the properties of a component.
func component(spec map[string]any, name string) (map[string]any, bool) {
	schema, ok := spec["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any)
	if !ok {
		return nil, false
	}
	properties, ok := schema["properties"].(map[string]any)
	return properties, ok
}

// sharpenParameter adds the range of a number in a query.
func sharpenParameter(p map[string]any) {
	schema := p["schema"].(map[string]any)
	if p["in"] == "path" {
		schema["minLength"] = json.Number("1")
	}
	switch p["name"] {
	case "after", "epoch", "attempt", "task", "offset":
		if schema["type"] == "integer" {
			schema["minimum"] = json.Number("0")
			schema["format"] = "int64"
		}
	case "limit":
		schema["minimum"] = json.Number("1")
		if schema["maximum"] == nil {
			schema["maximum"] = json.Number("1000")
		}
	case "instance_sha256":
		schema["pattern"] = "^[0-9A-Fa-f]{64}$"
	case "every_s", "by_s", "earlier_s":
		schema["exclusiveMinimum"] = json.Number("0")
		schema["format"] = "double"
	}
}

// follower describes an operation that takes an id which another operation returns.
type follower struct {
	from, status string
	to           []string
}

var followers = []follower{
	{"createSession", "201", []string{"getSession", "deleteSession", "postEvents", "getDecisions", "getLog", "getRegret",
		"getSchedule"}},
	{"solve", "202", []string{"getSolve", "getSolveEvents", "getResult", "getSolveSchedule", "cancelSolve",
		"deleteSolve"}},
}

// link adds the links of a follower if both operations are served.
func link(spec map[string]any, f follower) {
	r := response(spec, f.from, f.status)
	if r == nil {
		return
	}
	links := map[string]any{}
	for _, to := range f.to {
		if operation(spec, to) != nil {
			links[to] = map[string]any{"operationId": to, "parameters": map[string]any{"id": "$response.body#/id"}}
		}
	}
	if len(links) > 0 {
		r["links"] = links
	}
}

// operation returns the operation with an id, or nil if it is not served.
func operation(spec map[string]any, id string) map[string]any {
	for _, item := range spec["paths"].(map[string]any) {
		for _, op := range item.(map[string]any) {
			if op.(map[string]any)["operationId"] == id {
				return op.(map[string]any)
			}
		}
	}
	return nil
}

func response(spec map[string]any, id, status string) map[string]any {
	op := operation(spec, id)
	if op == nil {
		return nil
	}
	r, _ := op["responses"].(map[string]any)[status].(map[string]any)
	return r
}
