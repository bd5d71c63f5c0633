package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryModuleHasItsText checks that each module that is linked has its licence and stands in the list of parts, as
// have the npm packages in pages, Go and HiGHS: a new module without a text fails here.
func TestEveryModuleHasItsText(t *testing.T) {
	t.Parallel()
	highs := t.TempDir()
	for name, text := range map[string]string{"version": "1.2.3\n", "LICENSE.txt": mit} {
		if err := os.WriteFile(filepath.Join(highs, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	parts, err := partsOf("darwin-arm64", highs)
	if err == nil {
		err = write(folder, "0.1.0", parts)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list bom
	text, err := os.ReadFile(filepath.Join(folder, "sbom.cdx.json"))
	if err != nil || json.Unmarshal(text, &list) != nil {
		t.Fatalf("%s, %v", text, err)
	}
	var listed []string
	for _, c := range list.Components {
		listed = append(listed, c.Name+"@"+c.Version)
		if len(c.Licences) == 0 || !strings.HasPrefix(c.Purl, "pkg:") {
			t.Errorf("%+v", c)
		}
	}
	cmd := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}", "../../cmd/hare")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=-tags=netgo,osusergo,highs")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	linked = slices.Compact(linked)
	if len(linked) < 20 {
		t.Errorf("go list names only %v", linked)
	}
	pages := []string{"preact@10.29.8", "uplot@1.6.32"}
	if want := len(linked) + len(pages) + 2; len(listed) != want {
		t.Errorf("%d parts, not %d", len(listed), want)
	}
	for _, m := range slices.Concat(linked, pages, []string{"HiGHS@1.2.3"}) {
		if !slices.Contains(listed, m) {
			t.Errorf("%s is not in the list of parts", m)
		}
		if texts, err := os.ReadDir(filepath.Join(folder, "licenses", m)); err != nil || len(texts) == 0 {
			t.Errorf("%s: %d texts, %v", m, len(texts), err)
		}
	}
}

func TestPartWithoutLicence(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p := &part{name: "example.org/m", version: "v1.0.0", files: map[string]string{}}
	if err := p.collect(folder, folder); err != nil {
		t.Fatal(err)
	}
	if err := p.identify(); err == nil {
		t.Error("a module without a licence passes")
	}
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), []byte("Ask me."), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.collect(folder, folder); err != nil || len(p.files) != 1 {
		t.Fatalf("%v, %v", p.files, err)
	}
	if err := p.identify(); err == nil {
		t.Error("an unknown licence passes")
	}
}

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
