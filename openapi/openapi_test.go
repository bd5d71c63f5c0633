package openapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/openapi"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

var update = flag.Bool("update", false, "write openapi.json and openapi.yaml again")

// documented are the packages whose types are documents, beside openapi and api.
var documented = []string{"wire/simulate", "wire/capacity", "wire/explain", "wire/whatif", "whatif", "online",
	"wire/regret", "wire/sessions", "wire/clusters", "serve/admission", "verify", "sim/policies", "online/policies"}

func generate(t *testing.T) (spec map[string]any, forms map[string]form) {
	t.Helper()
	out := t.TempDir()
	// swag generates the specification from comments; version 2 writes OpenAPI 3.1.
	swag, err := exec.Command("go", "-C", "../scripts/tools", "tool", "-n", "swag").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strings.TrimSpace(string(swag)), "init", "--v3.1", "--quiet", "--generalInfo", "openapi.go",
		"--dir", strings.Join(append([]string{"openapi", "api"}, documented...), ","), "--overridesFile",
		"openapi/testdata/overrides.swaggo", "--outputTypes", "json", "--output", out)
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	raw, err := os.ReadFile(filepath.Join(out, "swagger.json"))
	if err != nil {
		t.Fatal(err)
	}
	spec = decode(t, raw)
	var files []string
	for _, dir := range append([]string{"openapi", "api"}, documented...) {
		in, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, in...)
	}
	if forms, err = readForms(files...); err != nil {
		t.Fatal(err)
	}
	repair(spec, forms, examples(t), answers(t))
	fromTables(t, spec, forms)
	secure(spec)
	guardPages(spec)
	strictQueries(spec)
	sharpen(spec)
	return spec, forms
}

// tables lists the forms of documents that a table reads.
var tables = append(wire.Forms(), simulatedoc.Form, whatifdoc.Form, capacitydoc.Form)

// fromTables adds to the components the forms of tables and the forms to which
// these refer. A type that is encoded beside a table has the fields of the table.
func fromTables(t *testing.T, spec map[string]any, forms map[string]form) {
	schemas := spec["components"].(map[string]any)["schemas"].(map[string]any)
	todo := slices.Clone(tables)
	for done := map[string]bool{}; len(todo) > 0; todo = todo[1:] {
		f := todo[0]
		if done[f.Name()] || f.Schema() == nil {
			continue
		}
		done[f.Name()] = true
		if fields := forms[f.Name()].fields; len(fields) > 0 && !slices.Equal(fields, f.Names()) {
			t.Errorf("%s has the fields %v, and in its table %v", f.Name(), fields, f.Names())
		}
		schemas[f.Name()] = f.Schema()
		forms[f.Name()] = form{fields: f.Names()}
		todo = append(todo, f.Parts()...)
	}
	names := []any{}
	for _, name := range registry.SessionNames() {
		names = append(names, name)
	}
	session := schemas["SessionRequest"].(map[string]any)["properties"].(map[string]any)
	session["policy"].(map[string]any)["enum"] = names
}

// examples returns the request bodies of testdata/OPERATION.json or .ndjson, by
// operation.
func examples(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/*json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, kind, _ := strings.Cut(filepath.Base(file), ".")
		if kind == "ndjson" {
			all[name] = string(raw)
			continue
		}
		all[name] = decode(t, raw)
	}
	instance := all["solve"].(map[string]any)["instance"]
	all["bound"] = map[string]any{"instance": instance, "method": "price"}
	all["whatIf"].(map[string]any)["base"] = map[string]any{"instance": instance}
	return all
}

// answers returns recorded answers of a server, by operation, status and kind.
func answers(t *testing.T) answerExamples {
	t.Helper()
	files, err := filepath.Glob("testdata/answers/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := answerExamples{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&all); err != nil { // adds to the answers read so far
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

func decode(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNoDrift compares the committed specification with the comments of the
// handlers and the types of the documents. To write the specification again: go test
// ./openapi -update.
func TestNoDrift(t *testing.T) {
	spec, forms := generate(t)
	for name, want := range map[string][]byte{"openapi.json": write(spec, forms, false),
		"openapi.yaml": write(spec, forms, true)} {
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(got), "\n"), strings.Split(string(want), "\n")); diff != "" {
			t.Errorf("%s is not what the source says (-committed +generated): go test ./openapi -update\n%s", name, diff)
		}
	}
	if *update {
		t.Skip("written: run again without -update")
	}
}

func load(t *testing.T, text []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestValid(t *testing.T) {
	for name, text := range map[string][]byte{"JSON": openapi.JSON, "YAML": openapi.YAML} {
		doc := load(t, text)
		if !doc.IsOpenAPI31OrLater() {
			t.Errorf("%s: version %s", name, doc.OpenAPI)
		}
		if err := doc.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestYAMLSaysTheSame(t *testing.T) {
	a, err := json.Marshal(load(t, openapi.JSON))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(load(t, openapi.YAML))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, a), decode(t, b)); diff != "" {
		t.Error(diff)
	}
}

// TestFieldsOfDocumentsAreDescribed checks that every field of the documents that people write and
// read by hand has a description, and that numbers of jobs have defaults.
func TestFieldsOfDocumentsAreDescribed(t *testing.T) {
	schemas := decode(t, openapi.JSON)["components"].(map[string]any)["schemas"].(map[string]any)
	// These differ from every value where they are left out.
	absent := map[string]bool{"Job.estimate_s": true, "Job.deadline_s": true, "Job.reshape_s": true}
	documents := []string{"Instance", "Cluster", "Node", "Busy", "Job", "Profile", "Shape", "Progress", "Duration",
		"Predecessor", "Reservation", "UserQuota", "Options", "Result", "JobResult", "Task", "Metrics", "Deadlines",
		"Setups", "Schedule", "Lane", "Certificate", "Pool", "Event", "Decision", "Scenario", "DropAfter"}
	for _, name := range documents {
		schema := schemas[name].(map[string]any)
		required, _ := schema["required"].([]any)
		for field, p := range schema["properties"].(map[string]any) {
			property := p.(map[string]any)
			if property["description"] == nil && property["$ref"] == nil {
				t.Errorf("%s.%s has no description", name, field)
			}
			optional := property["$ref"] == nil && !slices.Contains(required, any(field))
			if optional && property["type"] == "number" && property["default"] == nil && !absent[name+"."+field] &&
				slices.Contains([]string{"Job", "Profile", "Shape", "Progress", "Reservation"}, name) {
				t.Errorf("%s.%s has no default", name, field)
			}
		}
	}
}

// TestComponentsAreWhole checks that every component is used and described, and
// that every property has a type.
func TestComponentsAreWhole(t *testing.T) {
	spec := decode(t, openapi.JSON)
	schemas := spec["components"].(map[string]any)["schemas"].(map[string]any)
	if len(schemas) < 20 {
		t.Fatalf("%d components", len(schemas))
	}
	for name, s := range schemas {
		schema := s.(map[string]any)
		if !bytes.Contains(openapi.JSON, []byte(`"$ref": "#/components/schemas/`+name+`"`)) {
			t.Errorf("%s is not used", name)
		}
		if schema["description"] == nil {
			t.Errorf("%s has no description", name)
		}
		for field, p := range schema["properties"].(map[string]any) {
			property := p.(map[string]any)
			if property["type"] == nil && property["$ref"] == nil {
				t.Errorf("%s.%s has no type", name, field)
			}
			if property["$ref"] != nil && len(property) > 1 {
				t.Errorf("%s.%s says more beside its reference", name, field)
			}
		}
	}
}

// TestOperationsAreWhole checks that every refusal has the form Problem, that every
// operation has a summary and one tag with a description, and that every answer
// with an id links to the operations that take the id.
func TestOperationsAreWhole(t *testing.T) {
	spec := decode(t, openapi.JSON)
	tags := map[any]bool{}
	for _, tag := range spec["tags"].([]any) {
		tags[tag.(map[string]any)["name"]] = true
	}
	seen := map[any]bool{}
	for path, item := range spec["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			op := o.(map[string]any)
			of, _ := op["tags"].([]any)
			if op["operationId"] == nil || seen[op["operationId"]] || op["summary"] == nil || len(of) != 1 || !tags[of[0]] {
				t.Errorf("%s %s: operation id %v, summary %v, tags %v", method, path, op["operationId"], op["summary"], of)
			}
			seen[op["operationId"]] = true
			for status, r := range op["responses"].(map[string]any) {
				content, _ := r.(map[string]any)["content"].(map[string]any)
				if status < "400" {
					for kind, media := range content {
						if media.(map[string]any)["example"] == nil && !exampleless(op["operationId"], kind) {
							t.Errorf("%s %s: no example of a %s as %s", method, path, status, kind)
						}
					}
					continue
				}
				media, _ := content["application/problem+json"].(map[string]any)
				schema, _ := media["schema"].(map[string]any)
				if len(content) != 1 || schema["$ref"] != "#/components/schemas/Problem" {
					t.Errorf("%s %s: a %s is not a Problem", method, path, status)
				}
			}
			if body, ok := op["requestBody"].(map[string]any); ok {
				for kind, media := range body["content"].(map[string]any) {
					if media.(map[string]any)["example"] == nil {
						t.Errorf("%s %s: no example of %s", method, path, kind)
					}
				}
			}
		}
	}
}

// exampleless reports whether an answer is a picture, a page or the specification
// itself, which need no example.
func exampleless(id any, kind string) bool {
	return strings.HasPrefix(kind, "image/") || kind == "text/html" || kind == "application/openmetrics-text" ||
		id == "openapiJson" || id == "openapiYaml"
}
