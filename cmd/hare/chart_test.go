package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/oasdiff/yaml"
)

// documentsOf reads the YAML documents of a text; empty ones are left out.
func documentsOf(t *testing.T, text string) (documents []map[string]any) {
	t.Helper()
	for _, part := range strings.Split("\n"+text, "\n---\n") {
		var d map[string]any
		if _, err := yaml.Unmarshal([]byte(part), &d, yaml.DecodeOpts{}); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		if d != nil {
			documents = append(documents, d)
		}
	}
	return documents
}

// chart renders a template of the Helm chart, with changed values, in the namespace hare. The chart uses
// those functions alone that are here.
func chart(t *testing.T, name string, changed map[string]any) []map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../deploy/helm/hare-kube/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := documentsOf(t, string(text))[0]
	for key := range changed {
		if _, ok := values[key]; !ok {
			t.Fatalf("values.yaml has no %s", key)
		}
	}
	maps.Copy(values, changed)
	tpl := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"quote": func(x any) string { return strconv.Quote(x.(string)) },
		"toJson": func(x any) (string, error) {
			text, err := json.Marshal(x)
			return string(text), err
		},
	})
	if _, err := tpl.ParseFiles(filepath.Join("../../deploy/helm/hare-kube/templates", name)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	release := map[string]any{"Namespace": "hare"}
	if err := tpl.Execute(&out, map[string]any{"Values": values, "Release": release}); err != nil {
		t.Fatal(err)
	}
	return documentsOf(t, out.String())
}

// TestHelmChart checks that the chart gives the rights and the admission policy of the plain manifests, and
// commands that hare accepts, as a dry run unless told otherwise.
func TestHelmChart(t *testing.T) {
	kueue := map[string]any{"kueue": true}
	for _, test := range []struct {
		plain, template string
		values          map[string]any
	}{
		{"rbac.yaml", "rbac.yaml", nil},
		{"kueue-rbac.yaml", "rbac.yaml", kueue},
		{"admission-policy.yaml", "admission-policy.yaml", nil},
	} {
		text, err := os.ReadFile("../../deploy/kube/" + test.plain)
		if err != nil {
			t.Fatal(err)
		}
		isNamespace := func(d map[string]any) bool { return d["kind"] == "Namespace" }
		want := slices.DeleteFunc(documentsOf(t, string(text)), isNamespace)
		if got := chart(t, test.template, test.values); !reflect.DeepEqual(got, want) {
			t.Errorf("%s of the chart is\n%v\nand %s\n%v", test.template, got, test.plain, want)
		}
	}
	if got := chart(t, "admission-policy.yaml", kueue); len(got) > 0 {
		t.Errorf("under Kueue no Jobs are changed, and the policy is %v", got)
	}
	open := chart(t, "admission-policy.yaml", map[string]any{"namespaces": []any{"train"}})
	if text, _ := json.Marshal(open); strings.Contains(string(text), "hare.dev/managed") {
		t.Error("whole namespaces take part, and the policy asks for the annotation")
	}
	for _, test := range []struct {
		values map[string]any
		want   string // flags that are set, with their values
	}{
		{nil, "dir=/var/lib/hare interval=30s metrics=0.0.0.0:9106 plan-time=5s type-label=nvidia.com/gpu.product"},
		{map[string]any{"write": true, "kueue": true, "namespaces": []any{"a", "b"}, "interval": "10s",
			"arguments": []any{"--max-updates=7"}},
			"dir=/var/lib/hare interval=10s kueue=true max-updates=7 metrics=0.0.0.0:9106 namespace=[a,b] plan-time=5s " +
				"type-label=nvidia.com/gpu.product write=true"},
	} {
		c := kubeCommand()
		if got := flagsOf(t, c, argsOf(chart(t, "deployment.yaml", test.values)[0])); got != test.want {
			t.Errorf("the flags are %s, want %s", got, test.want)
		}
	}
}
