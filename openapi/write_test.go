package openapi_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// order is the order of keys in objects of the specification; other keys follow,
// sorted by name.
var order = []string{
	"openapi", "info", "title", "version", "servers", "tags", "paths", "components",
	"/v1/solves", "/v1/bounds", "/v1/verify", "/v1/what-if", "/v1/simulations", "/v1/capacity",
	"/v1/solves/{id}", "/v1/solves/{id}/events", "/v1/solves/{id}/result", "/v1/solves/{id}/schedule",
	"/v1/solves/{id}/gantt.svg", "/v1/solves/{id}/gantt.png",
	"/v1/solves/{id}/gantt.html", "/v1/solves/{id}/certificate", "/v1/solves/{id}/instance", "/v1/solves/{id}/cancel",
	"/v1/solves/{id}/prices", "/v1/solves/{id}/prices.svg",
	"/v1/sessions", "/v1/sessions/{id}", "/v1/sessions/{id}/events", "/v1/sessions/{id}/decisions",
	"/v1/sessions/{id}/jobs/{job}",
	"/v1/sessions/{id}/plan",
	"/v1/sessions/{id}/regret", "/v1/sessions/{id}/schedule", "/v1/sessions/{id}/log",
	"/v1/policies",
	"/v1/keys", "/v1/keys/{id}", "/v1/quota", "/v1/quotas/{tenant}", "/v1/version",
	"name", "summary", "description", "operationId", "requestBody", "responses", "required", "content",
	"$ref", "type", "format", "enum", "default", "properties", "items", "prefixItems", "additionalProperties", "schema",
	"SolveRequest", "BoundRequest", "VerifyRequest", "Instance", "Cluster", "Node", "Busy", "Job", "Profile", "Options",
	"Result",
	"instance", "hare", "cluster", "nodes", "gpus", "jobs", "id", "weight", "release_s", "rounds", "tasks", "sync", "on",
	"options",
}

// member is a name and a value of an object.
type member struct {
	key   string
	value any
}

// sorted returns the members of an object in order.
func sorted(object map[string]any, by []string) []member {
	var out []member
	for key, value := range object {
		out = append(out, member{key, value})
	}
	rank := func(key string) int {
		if i := slices.Index(by, key); i >= 0 {
			return i
		}
		return len(by)
	}
	slices.SortFunc(out, func(a, b member) int {
		if d := rank(a.key) - rank(b.key); d != 0 {
			return d
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

// specWriter writes a value as JSON or YAML in the order above.
type specWriter struct {
	bytes.Buffer
	yaml  bool
	forms map[string]form
}

func (w *specWriter) value(v any, depth int, by []string) {
	switch v := v.(type) {
	case map[string]any:
		members := sorted(v, by)
		if w.yaml && len(members) > 0 {
			w.block(len(members), depth, func(i int) {
				w.key(members[i].key)
				if isEmpty(members[i].value) {
					w.WriteByte(' ')
				} else {
					w.newLine(depth + 1)
				}
				w.value(members[i].value, depth+1, w.orderOf(members[i].key, by))
			})
			return
		}
		w.flow('{', '}', len(members), depth, func(i int) {
			w.key(members[i].key)
			w.WriteByte(' ')
			w.value(members[i].value, depth+1, w.orderOf(members[i].key, by))
		})
	case []any:
		if w.yaml && len(v) > 0 {
			w.block(len(v), depth, func(i int) {
				w.WriteString("- ")
				w.value(v[i], depth+1, by)
			})
			return
		}
		w.flow('[', ']', len(v), depth, func(i int) { w.value(v[i], depth+1, by) })
	default:
		w.scalar(v)
	}
}

// isEmpty reports whether a value is written on the line of its key in YAML.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return true
}

var (
	plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// booleans lists texts that some YAML parsers read as a boolean.
	booleans = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)

func (w *specWriter) key(key string) {
	if w.yaml && plain.MatchString(key) && !slices.Contains(booleans, strings.ToLower(key)) {
		w.WriteString(key)
	} else {
		w.scalar(key)
	}
	w.WriteByte(':')
}

// orderOf returns the order of keys inside the value of a key: the fields of a
// component are in the order of its type.
func (w *specWriter) orderOf(key string, by []string) []string {
	if f, ok := w.forms[key]; ok {
		return append(slices.Clone(f.fields), order...)
	}
	if key == "properties" {
		return by
	}
	if len(by) > len(order) && (key == "example" || key == "schemas") {
		return order
	}
	return by
}

func (w *specWriter) newLine(depth int) {
	w.WriteByte('\n')
	w.WriteString(strings.Repeat("  ", depth))
}

func (w *specWriter) block(n, depth int, each func(int)) {
	for i := range n {
		if i > 0 {
			w.newLine(depth)
		}
		each(i)
	}
}

func (w *specWriter) flow(left, right byte, n, depth int, each func(int)) {
	w.WriteByte(left)
	for i := range n {
		if i > 0 {
			w.WriteByte(',')
		}
		w.newLine(depth + 1)
		each(i)
	}
	if n > 0 {
		w.newLine(depth)
	}
	w.WriteByte(right)
}

// scalar writes a JSON scalar, which is also valid YAML.
func (w *specWriter) scalar(v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // a specification has only strings, numbers and booleans
	}
	w.Truncate(w.Len() - 1)
}

// write returns the specification as JSON or YAML.
func write(spec map[string]any, forms map[string]form, yaml bool) []byte {
	w := &specWriter{yaml: yaml, forms: forms}
	w.value(spec, 0, order)
	w.WriteByte('\n')
	return w.Bytes()
}
