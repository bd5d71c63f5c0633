package hare_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/hare-sched/hare"

// layout says which packages of this module each package may import: the table
// of the design, where imports go downwards only. The root package is ".".
var layout = map[string][]string{
	".":                 {},
	"verify":            {"."},
	"internal/lp":       {"internal/lp/highs"},
	"internal/lp/highs": {},
	"relax":             {".", "internal/lp"},
	"greedy":            {"."},
	"online":            {"."},
	"policy":            {".", "online", "relax", "greedy", "internal/lp"},
	"sim":               {".", "online"},
	"trace":             {"."},
	"plot":              {"."},
	"solver":            {".", "relax", "greedy", "verify"},
	"experiment":        {".", "sim", "policy", "trace", "solver", "plot"},
	"service":           {".", "solver", "sim", "policy", "online", "verify", "trace", "plot"},
	"openapi":           {},
	"api":               {".", "service", "openapi"},
	"client":            {"."},
	"executor":          {"."},
	"integrations":      {".", "client"},
	"cmd/hare":          {"*"},
	"bench":             {"*"},
}

// nested are the rows that also stand for the folders below them, which may
// import the package above.
var nested = []string{"service", "integrations", "bench"}

// cgoPackages may contain cgo; everything else must build without.
var cgoPackages = []string{"internal/lp/highs"}

type listedPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	CgoFiles   []string
	CFiles     []string
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	// -e: what does not compile is for the compiler to say.
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,CgoFiles,CFiles", "./...")
	// Without cgo its files would count as ignored and could not be found.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// relative is the path inside the module, or false for another module's.
func relative(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func TestImportsFollowTheLayout(t *testing.T) {
	seen := 0
	for _, p := range listPackages(t) {
		name, ok := relative(p.ImportPath)
		if !ok {
			t.Fatalf("go list names %s", p.ImportPath)
		}
		if len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue // tests alone
		}
		seen++
		for _, fault := range layoutFaults(name, p) {
			t.Error(fault)
		}
	}
	if seen < 3 {
		t.Errorf("go list found %d packages", seen)
	}
}

func layoutFaults(name string, p listedPackage) []string {
	var faults []string
	allowed, known := layout[name]
	if above, _, below := strings.Cut(name, "/"); below && !known && slices.Contains(nested, above) {
		allowed, known = append([]string{above}, layout[above]...), true
	}
	if !known {
		return []string{name + " is not in the layout: add it to the table of the design and to this one"}
	}
	for _, imp := range p.Imports {
		to, ours := relative(imp)
		if ours && !slices.Contains(allowed, "*") && !slices.Contains(allowed, to) {
			faults = append(faults, name+" must not import "+to)
		}
	}
	if len(p.CgoFiles)+len(p.CFiles) > 0 && !slices.Contains(cgoPackages, name) {
		faults = append(faults, name+" must not use cgo")
	}
	return faults
}

// The check itself can fail, and the table only points downwards.
func TestLayoutTable(t *testing.T) {
	for _, bad := range []struct {
		name string
		p    listedPackage
	}{
		{"verify", listedPackage{Imports: []string{"fmt", modulePath, modulePath + "/relax"}}},
		{".", listedPackage{Imports: []string{modulePath + "/verify"}}},
		{"util", listedPackage{}},
		{"verify/deep", listedPackage{}},
		{"service/store", listedPackage{Imports: []string{modulePath + "/service", modulePath + "/api"}}},
		{"relax", listedPackage{CgoFiles: []string{"x.go"}}},
	} {
		if len(layoutFaults(bad.name, bad.p)) != 1 {
			t.Errorf("%s: faults %q", bad.name, layoutFaults(bad.name, bad.p))
		}
	}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("the table has a circle: %v", append(path, name))
		}
		for _, to := range layout[name] {
			if to == "*" {
				continue
			}
			if _, known := layout[to]; !known {
				t.Errorf("%s may import %s, which is not in the table", name, to)
			}
			visit(to, append(path, name))
		}
	}
	for name := range layout {
		visit(name, nil)
	}
}

// The verifier is written apart from the solver: of the root package it takes
// types and decoders, never the model that the solver works on.
func TestVerifierSharesNoModel(t *testing.T) {
	files, err := filepath.Glob("verify/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, ident := range selectorsOf(file, modulePath) {
			if ident == "NewModel" || ident == "Model" {
				t.Errorf("%s uses hare.%s", name, ident)
			}
		}
	}
}

// selectorsOf lists the names that file uses of the package at importPath.
func selectorsOf(file *ast.File, importPath string) []string {
	local := ""
	for _, imp := range file.Imports {
		if path, err := strconv.Unquote(imp.Path.Value); err != nil || path != importPath {
			continue
		}
		local = filepath.Base(importPath)
		if imp.Name != nil {
			local = imp.Name.Name
		}
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	return names
}
