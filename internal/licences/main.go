// Command licences collects what a binary of Hare is made of: the licence texts of every module that is linked into
// it, of the npm packages in its pages, of Go and of HiGHS, and a list of them all in the form CycloneDX (an SBOM). It
// writes both into FOLDER, as
// licenses/MODULE@VERSION/… and sbom.cdx.json. Equal sources give equal bytes.
//
//	go run ./internal/licences FOLDER linux-amd64 VERSION HIGHS
//
// HIGHS is the folder that scripts/get-highs.sh filled. The command fails where a module has no licence text, or one
// whose licence is not known.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: licences FOLDER PLATFORM VERSION HIGHS")
		os.Exit(2)
	}
	parts, err := partsOf(os.Args[2], os.Args[4])
	if err == nil {
		err = write(os.Args[1], os.Args[3], parts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// part is a module, or another thing with a licence of its own.
type part struct {
	name, version, purl string
	// files are paths of licence texts, by the name under which they are given on.
	files map[string]string
	// licences are SPDX identifiers, in order.
	licences []string
}

// listed is what go list says of a package.
type listed struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path string }
	}
}

// partsOf returns what hare for the platform, such as linux-amd64, consists of beside Hare itself, in the order of
// names. highs is a folder with LICENSE.txt and version; "" leaves HiGHS out.
func partsOf(platform, highs string) ([]*part, error) {
	parts := map[string]*part{}
	var hare string
	system, architecture, _ := strings.Cut(platform, "-")
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", "github.com/hare-sched/hare/cmd/hare")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-tags=netgo,osusergo,highs", "GOOS="+system,
		"GOARCH="+architecture)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Standard || p.Module == nil {
			continue
		}
		if p.Module.Main {
			hare = p.Module.Dir
			continue
		}
		m := parts[p.Module.Path]
		if m == nil {
			m = &part{name: p.Module.Path, version: p.Module.Version, files: map[string]string{},
				purl: "pkg:golang/" + p.Module.Path + "@" + p.Module.Version + "?type=module"}
			parts[p.Module.Path] = m
		}
		// Folders below the root of a module may have licences of their own.
		for folder := p.Dir; ; folder = filepath.Dir(folder) {
			if err := m.collect(p.Module.Dir, folder); err != nil {
				return nil, err
			}
			if len(folder) <= len(p.Module.Dir) {
				break
			}
		}
	}
	if err := addPages(parts, filepath.Join(hare, "plot", "web")); err != nil {
		return nil, err
	}
	std := &part{name: "std", version: strings.TrimPrefix(runtime.Version(), "go"), files: map[string]string{}}
	std.purl = "pkg:golang/std@" + std.version
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	goroot := strings.TrimSpace(string(root))
	if err := std.collect(goroot, goroot); err != nil {
		return nil, err
	}
	parts["std"] = std
	if highs != "" {
		version, err := os.ReadFile(filepath.Join(highs, "version"))
		if err != nil {
			return nil, err
		}
		v := strings.TrimSpace(string(version))
		parts["HiGHS"] = &part{name: "HiGHS", version: v, purl: "pkg:pypi/highsbox@" + v,
			files: map[string]string{"LICENSE.txt": filepath.Join(highs, "LICENSE.txt")}}
	}
	var all []*part
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err := parts[name].identify(); err != nil {
			return nil, err
		}
		all = append(all, parts[name])
	}
	return all, nil
}

// addPages adds the npm packages whose code is in the pages: folder has their names and texts.
func addPages(parts map[string]*part, folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return err
	}
	var list struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("package.json: %w", err)
	}
	for name, version := range list.Dependencies {
		parts[name] = &part{name: name, version: version, purl: "pkg:npm/" + name + "@" + version,
			files: map[string]string{"LICENSE": filepath.Join(folder, "licences", name+".txt")}}
	}
	return nil
}

var licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)`)

// collect adds the licence texts of one folder of a module whose root is root.
func (p *part) collect(root, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if !e.Type().IsRegular() || !licenceName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		p.files[filepath.ToSlash(name)] = path
	}
	return nil
}

// identify sets p.licences. The error is not nil where no text, or no text of a known licence, is there.
func (p *part) identify() error {
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		text, err := os.ReadFile(p.files[name])
		if err != nil {
			return err
		}
		for _, m := range licensecheck.Scan(text).Match {
			if !m.IsURL && !slices.Contains(p.licences, m.ID) {
				p.licences = append(p.licences, m.ID)
			}
		}
	}
	slices.Sort(p.licences)
	if len(p.licences) == 0 {
		return fmt.Errorf("%s@%s has no text of a known licence (%d files)", p.name, p.version, len(p.files))
	}
	return nil
}

// write writes the texts and the list of parts. Files can be read by everybody.
func write(folder, version string, parts []*part) error {
	for _, p := range parts {
		for name, path := range p.files {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			to := filepath.Join(folder, "licenses", p.name+"@"+p.version, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
				return err
			}
		}
	}
	out, err := json.MarshalIndent(document(version, parts), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "sbom.cdx.json"), append(out, '\n'), 0o644)
}

// bom has the form of CycloneDX 1.6, as far as it is used.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Ref      string    `json:"bom-ref"`
	Type     string    `json:"type"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Licences []licence `json:"licenses"`
	Purl     string    `json:"purl"`
}

type licence struct {
	Licence struct {
		ID   string `json:"id,omitempty"`
		Name string `json:"name,omitempty"` // of what is no licence of SPDX
	} `json:"license"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func document(version string, parts []*part) bom {
	hare := &part{name: "github.com/hare-sched/hare", version: version, licences: []string{"Apache-2.0"},
		purl: "pkg:golang/github.com/hare-sched/hare@v" + version + "?type=module"}
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{hare.component("application")}}
	needs := dependency{Ref: hare.purl}
	for _, p := range parts {
		b.Components = append(b.Components, p.component("library"))
		needs.DependsOn = append(needs.DependsOn, p.purl)
	}
	b.Dependencies = []dependency{needs}
	return b
}

func (p *part) component(kind string) component {
	c := component{Ref: p.purl, Type: kind, Name: p.name, Version: p.version, Purl: p.purl}
	for _, id := range p.licences {
		var l licence
		if id == "GooglePatentsFile" {
			l.Licence.Name = "Additional IP Rights Grant (Patents)"
		} else {
			l.Licence.ID = id
		}
		c.Licences = append(c.Licences, l)
	}
	return c
}
