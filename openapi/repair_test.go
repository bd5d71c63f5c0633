package openapi_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// form holds what the Go source declares about a component beyond what swag reads.
type form struct {
	doc      string
	fields   []string          // JSON names in the order of the source
	names    map[string]string // Go name of each JSON name
	required []any             // JSON names of the fields without omitempty
	nullable []string          // JSON names of the required fields that are pointers
}

// readForms parses the types of documents and returns their forms by component
// name.
func readForms(files ...string) (map[string]form, error) {
	forms := map[string]form{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := readFormsOf(file, forms); err != nil {
			return nil, err
		}
	}
	for name := range forms {
		forms[name] = withEmbedded(forms, name)
	}
	return forms, nil
}

// embedded marks the name of a type whose fields stand in the place of that name.
const embedded = "embedded "

// withEmbedded returns a form in which embedded types are replaced by their fields.
func withEmbedded(forms map[string]form, name string) form {
	f := forms[name]
	fields := f.fields
	f.fields = nil
	for _, field := range fields {
		inner, ok := strings.CutPrefix(field, embedded)
		if !ok {
			f.fields = append(f.fields, field)
			continue
		}
		inner, absent := strings.CutPrefix(inner, "*")
		e := withEmbedded(forms, inner)
		f.fields = append(f.fields, e.fields...)
		maps.Copy(f.names, e.names)
		if !absent {
			f.required = append(f.required, e.required...)
			f.nullable = append(f.nullable, e.nullable...)
		}
	}
	return f
}

// componentOf returns the name that a comment behind a type gives its component;
// without a comment, it returns the name of the type.
func componentOf(file *ast.File, st *ast.StructType, name string) string {
	for _, group := range file.Comments {
		if group.Pos() < st.End() || group.Pos() > st.End()+3 {
			continue
		}
		if _, component, ok := strings.Cut(group.Text(), "@name"); ok {
			return strings.TrimSpace(component)
		}
	}
	return name
}

func readFormsOf(file string, forms map[string]form) error {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range tree.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			ts := spec.(*ast.TypeSpec)
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			name := componentOf(tree, st, ts.Name.Name)
			f := form{doc: strings.Join(strings.Fields(gen.Doc.Text()), " "), names: map[string]string{}}
			if rest, ok := strings.CutPrefix(f.doc, ts.Name.Name+" "); ok {
				f.doc = name + " " + rest
			}
			for _, field := range st.Fields.List {
				if err := f.add(field); err != nil {
					return err
				}
			}
			if len(f.names) == 0 {
				continue // no document
			}
			if _, twice := forms[name]; twice {
				return fmt.Errorf("%s: another type is called %s too", file, name)
			}
			forms[name] = f
		}
	}
	return nil
}

// add adds a field of a struct, or a mark for the fields of an embedded type.
func (f *form) add(field *ast.Field) error {
	_, isPointer := field.Type.(*ast.StarExpr)
	if field.Names == nil {
		text := types.ExprString(field.Type)
		mark := embedded
		if isPointer {
			mark += "*"
		}
		f.fields = append(f.fields, mark+text[strings.LastIndexAny(text, "*.")+1:])
		return nil
	}
	if field.Tag == nil {
		return nil
	}
	text, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return err
	}
	tag := reflect.StructTag(text)
	key, options, _ := strings.Cut(tag.Get("json"), ",")
	if key == "" || key == "-" || tag.Get("swaggerignore") != "" {
		return nil
	}
	f.fields = append(f.fields, key)
	f.names[key] = field.Names[0].Name
	if options != "omitempty" {
		f.required = append(f.required, key)
		if isPointer {
			f.nullable = append(f.nullable, key)
		}
	}
	return nil
}

// strict lists the components that refuse unknown names.
var strict = []string{
	"KeyRequest", "Quota", "NewCluster", "NewManagedJob", "Registration", "Sync", "DrainRequest",
}

// repair corrects in place what swag cannot express or gets wrong.
func repair(spec map[string]any, forms map[string]form, examples map[string]any, answers answerExamples) {
	delete(spec, "externalDocs")
	spec["info"].(map[string]any)["license"] = map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}
	spec["servers"] = []any{map[string]any{"url": "/"}}
	joinLines(spec["info"].(map[string]any))
	spec["tags"] = []any{
		map[string]any{"name": "scheduling", "description": "Schedules, bounds and checks."},
		map[string]any{"name": "solves",
			"description": "Solves that the server keeps: state, events, result and its views."},
		map[string]any{"name": "sessions", "description": "Online sessions: events in, decisions out."},
		map[string]any{"name": "clusters", "description": "Managed clusters: jobs that agents run, and their logs."},
		map[string]any{"name": "agents", "description": "What the agents of managed clusters ask for."},
		map[string]any{"name": "keys", "description": "API keys and quotas of tenants."},
		map[string]any{"name": "server", "description": "The server itself."},
		map[string]any{"name": "documentation", "description": "This interface, described."},
	}
	for _, item := range spec["paths"].(map[string]any) {
		for _, op := range item.(map[string]any) {
			repairOperation(op.(map[string]any), examples, answers)
		}
	}
	schemas := spec["components"].(map[string]any)["schemas"].(map[string]any)
	for name, s := range schemas {
		schema := s.(map[string]any)
		repairNames(schema, forms[name])
		repairSchema(schema)
		if slices.Contains(strict, name) {
			schema["additionalProperties"] = false
		}
	}
	property := func(component, name string) map[string]any {
		return schemas[component].(map[string]any)["properties"].(map[string]any)[name].(map[string]any)
	}
	for _, component := range []string{"WhatIfLine", "RefinedLine"} {
		change := property(component, "optimum_change")
		change["items"] = map[string]any{"type": []any{"number", "null"}, "format": "double"}
		change["minItems"], change["maxItems"] = json.Number("2"), json.Number("2")
	}
}

// joinLines makes one line of a description, whose lines swag keeps as they are in the source.
func joinLines(described map[string]any) {
	if text, ok := described["description"].(string); ok {
		described["description"] = strings.ReplaceAll(text, "\n", " ")
	}
}

// bytesExamples are the bodies that are no JSON, by operation.
var bytesExamples = map[string]string{
	"putLog":        "epoch 1, loss 0.31\n",
	"putCheckpoint": `{"hare":"hare-checkpoint/v1","module":"line"`,
}

func repairOperation(op map[string]any, examples map[string]any, answers answerExamples) {
	joinLines(op)
	body, _ := op["requestBody"].(map[string]any)
	content, _ := body["content"].(map[string]any)
	delete(content, "text/plain") // swag adds it to every body that is a string
	if media, ok := content["application/octet-stream"].(map[string]any); ok {
		media["example"] = bytesExamples[op["operationId"].(string)]
	}
	if media, ok := content["application/json"].(map[string]any); ok {
		ref := media["schema"].(map[string]any)["$ref"]
		media["schema"] = map[string]any{"$ref": ref}
		if op["operationId"] == "postEvents" {
			// swag has no notion of lines.
			media = map[string]any{"schema": lines(ref)}
			body["content"] = map[string]any{ndjson: media}
		}
		if e, ok := examples[op["operationId"].(string)]; ok {
			media["example"] = e
		}
	}
	id := op["operationId"].(string)
	repairParameters(op)
	liftLines(op)
	for status, r := range op["responses"].(map[string]any) {
		response := r.(map[string]any)
		content, _ := response["content"].(map[string]any) // an answer 204 has no content
		for kind, media := range content {
			// swag lists every kind of an operation with every status.
			if (kind == "application/problem+json") != (status >= "400") {
				delete(content, kind)
				continue
			}
			if kind == "text/csv" {
				media.(map[string]any)["schema"] = map[string]any{"type": "string"}
			}
			if kind == ndjson && media.(map[string]any)["schema"].(map[string]any)["x-item-schema"] != nil {
				continue // liftLines has already treated this answer
			}
			if kind == ndjson || kind == "text/event-stream" {
				item := media.(map[string]any)["schema"].(map[string]any)["$ref"]
				if slices.Contains(mixed, id) {
					item = nil
				}
				media.(map[string]any)["schema"] = lines(item)
			}
			if kind == "image/png" {
				media.(map[string]any)["schema"] = map[string]any{"type": "string", "format": "binary"}
			}
			if kind == "text/csv" {
				media.(map[string]any)["schema"] = lines(nil)
			}
		}
		for kind, example := range answers[id][status] {
			content[kind].(map[string]any)["example"] = example
		}
		if id == "solve" && status == "202" {
			delete(content, ndjson) // an NDJSON answer without its own form is described as JSON
		}
		response["headers"] = headersOf(id, status)
	}
}

// liftLines gives NDJSON answers their own form. swag allows one form for each
// status, so the handlers declare the form of lines with status 299.
func liftLines(op map[string]any) {
	responses := op["responses"].(map[string]any)
	form, ok := responses["299"].(map[string]any)
	if !ok {
		return
	}
	delete(responses, "299")
	item := form["content"].(map[string]any)[ndjson].(map[string]any)["schema"].(map[string]any)["$ref"]
	responses["200"].(map[string]any)["content"].(map[string]any)[ndjson] = map[string]any{"schema": lines(item)}
}

// mixed lists the operations whose NDJSON begins with a line of another form.
var mixed = []string{"solve", "getResult", "getSolveSchedule"}

// headersOf returns the headers of an answer; a header without "required" occurs
// only where it applies.
func headersOf(id, status string) map[string]any {
	header := func(kind, text string, required bool) map[string]any {
		h := map[string]any{"description": text, "schema": map[string]any{"type": kind}}
		if kind == "integer" {
			h["schema"].(map[string]any)["format"] = "int32"
		}
		if required {
			h["required"] = true
		}
		return h
	}
	headers := map[string]any{"X-Request-Id": header("string", "the client's own, or a new one", true)}
	if status == "503" || status == "202" && id == "solve" {
		headers["Retry-After"] = header("integer", "seconds", true)
	}
	switch {
	case id == "solve" && status < "300":
		headers["Location"] = header("string", "the path of the solve", true)
		headers["Hare-Solve-Id"] = header("string", "the solve", true)
		headers["Hare-Cache"] = header("string", "hit: the answer to an equal call was taken; miss: it was not", true)
		headers["Idempotent-Replayed"] = header("string",
			"true: a call with this Idempotency-Key came before, and this is its answer", false)
		headers["Preference-Applied"] = header("string", "what of Prefer was followed", false)
	case id == "cancelSolve" && status < "300":
		headers["Location"] = header("string", "the path of the solve", true)
	case id == "getSolve" && status < "400":
		headers["ETag"] = header("string", "names this state of the solve", true)
	}
	return headers
}

const ndjson = "application/x-ndjson"

// lines returns the schema of a stream of lines, each of which is an item.
func lines(item any) map[string]any {
	schema := map[string]any{"type": "string"}
	if item != nil {
		schema["x-item-schema"] = map[string]any{"$ref": item}
	}
	return schema
}

// answerExamples holds recorded answers by operation, status and kind.
type answerExamples map[string]map[string]map[string]any

// patterns holds the patterns of parameters that are texts of a certain form. An
// empty header counts as none.
var patterns = map[string]map[string]any{
	"Prefer": {"pattern": "^(|respond-async|(respond-async, " +
		")?wait=([0-9]{1,3}|[12][0-9]{3}|3[0-5][0-9]{2}|3600))$"},
	"Idempotency-Key": {"pattern": "^[!#-~]+$", "minLength": json.Number("1"), "maxLength": json.Number("255")},
	"Last-Event-ID":   {"pattern": "^[0-9]{0,18}$"},
	"instance_sha256": {"pattern": "^[0-9a-f]{64}$"},
}

func repairParameters(op map[string]any) {
	parameters, _ := op["parameters"].([]any)
	for _, p := range parameters {
		parameter := p.(map[string]any)
		for key, value := range patterns[parameter["name"].(string)] {
			parameter["schema"].(map[string]any)[key] = value
		}
		if tags, _ := op["tags"].([]any); parameter["name"] == "id" && slices.Contains(tags, any("solves")) {
			parameter["example"] = "o3nnewyq2b5gzzxw5yq2spu7ii"
		}
	}
}

// repairNames describes a component by its comment, and puts its fields under their
// JSON names in the order of the source. A field without omitempty is required, and may
// be null where it is a pointer.
func repairNames(schema map[string]any, f form) {
	if f.doc != "" {
		schema["description"] = f.doc
	}
	if len(f.required) > 0 {
		schema["required"] = f.required
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		property := p.(map[string]any)
		if slices.Contains(f.nullable, name) {
			property["x-nullable"] = true
		}
		text, ok := property["description"].(string)
		if !ok {
			continue
		}
		text = strings.Join(strings.Fields(text), " ")
		property["description"] = text
		goName := f.names[name]
		if rest, ok := strings.CutPrefix(text, goName); ok && rest != "" && !unicode.IsLetter(rune(rest[0])) {
			property["description"] = name + rest
		}
	}
}

// repairSchema gives numbers their width, and writes nullable and examples as
// OpenAPI 3.1 does.
func repairSchema(schema map[string]any) {
	switch schema["type"] {
	case "number":
		schema["format"] = "double"
	case "integer":
		schema["format"] = "int64"
	}
	if schema["x-nullable"] == true {
		schema["type"] = []any{schema["type"], "null"}
	}
	delete(schema, "x-nullable")
	if schema["uniqueItems"] == false {
		delete(schema, "uniqueItems")
	}
	if e, ok := schema["example"]; ok {
		schema["examples"] = []any{e}
		delete(schema, "example")
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if s, ok := schema[key].(map[string]any); ok {
			repairSchema(s)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, p := range properties {
		repairSchema(p.(map[string]any))
	}
}
