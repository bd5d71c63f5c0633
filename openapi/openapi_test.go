package openapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/openapi"
)

var update = flag.Bool("update", false, "write openapi.json and openapi.yaml anew")

// swag makes the specification from comments; v2 writes OpenAPI 3.1.
const swag = "github.com/swaggo/swag/v2/cmd/swag@v2.0.0-rc5"

func generate(t *testing.T) (spec map[string]any, forms map[string]form) {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("go", "run", swag, "init", "--v3.1", "--quiet", "--generalInfo", "openapi.go", "--dir", "openapi,api", "--outputTypes", "json", "--output", out)
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	raw, err := os.ReadFile(filepath.Join(out, "swagger.json"))
	if err != nil {
		t.Fatal(err)
	}
	spec = decode(t, raw)
	files, err := filepath.Glob("forms*.go")
	if err != nil {
		t.Fatal(err)
	}
	forms, err = readForms(files...)
	if err != nil {
		t.Fatal(err)
	}
	repair(spec, forms, examples(t), answers(t))
	secure(spec)
	return spec, forms
}

// examples are request bodies by operation.
func examples(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("testdata/solve.json")
	if err != nil {
		t.Fatal(err)
	}
	solve := decode(t, raw)
	all := map[string]any{"solve": solve, "bound": map[string]any{"instance": solve["instance"], "method": "price"}}
	raw, err = os.ReadFile("testdata/whatif.json")
	if err != nil {
		t.Fatal(err)
	}
	whatIf := decode(t, raw)
	whatIf["base"] = map[string]any{"instance": solve["instance"]}
	all["whatIf"] = whatIf
	return all
}

// answers are what a server answered.
func answers(t *testing.T) answerExamples {
	t.Helper()
	raw, err := os.ReadFile("testdata/solves.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var a answerExamples
	if err := d.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
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

// The committed specification is what the comments of the handlers and the
// types of the documents say: go test ./openapi -update writes it anew.
func TestNoDrift(t *testing.T) {
	spec, forms := generate(t)
	for name, want := range map[string][]byte{"openapi.json": write(spec, forms, false), "openapi.yaml": write(spec, forms, true)} {
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

// Every component is used, described, and every property has a type.
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

// The page asks nothing of anyone else.
func TestPageIsSelfContained(t *testing.T) {
	for _, sign := range []string{"http://", "https://", "src=", "@import", "url(", "<link"} {
		if bytes.Contains(openapi.Page, []byte(sign)) {
			t.Errorf("the page has %q", sign)
		}
	}
}
