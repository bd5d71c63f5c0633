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
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/hare-sched/hare"

// layoutPage holds the table of packages: which packages of this module each package may
// import.
const layoutPage = "docs/inside/design.md"

// anything stands for the packages that may import all others, to wire them together.
const anything = "*"

var (
	layoutRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")
	backquoted = regexp.MustCompile("`([^`]+)`")
)

// readLayout returns the table of the design, which has for each package the packages that
// it may import. The root package is ".". A row named x/* is for the packages directly below
// x.
func readLayout(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(layoutPage)
	if err != nil {
		t.Fatal(err)
	}
	layout := map[string][]string{}
	for _, row := range layoutRow.FindAllStringSubmatch(string(page), -1) {
		name, imports := row[1], row[2]
		if _, twice := layout[name]; twice {
			t.Errorf("%s has two rows for %s", layoutPage, name)
		}
		layout[name] = []string{}
		if imports == "all" {
			layout[name] = []string{anything}
			continue
		}
		for _, quoted := range backquoted.FindAllStringSubmatch(imports, -1) {
			layout[name] = append(layout[name], quoted[1])
		}
		if len(layout[name]) == 0 && imports != "nothing" {
			t.Errorf("%s: the row of %s names no package: say nothing, all, or packages in backquotes", layoutPage,
				name)
		}
	}
	if len(layout) < 10 {
		t.Fatalf("%s has a table of %d packages", layoutPage, len(layout))
	}
	return layout
}

// cgoPackages may contain cgo; all other packages must build without it. The command checks the limits of
// its process in C, before Go's runtime begins.
var cgoPackages = []string{"cmd/hare"}

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
	// The flag -e leaves errors of packages that do not compile to the compiler.
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,CgoFiles,CFiles", "./...")
	// Without cgo, the files of cgo packages would be ignored and could not be found.
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

// TestLibraryNeedsGoAlone checks that a program that imports Hare is linked with no C library, unless it is built with
// the tag highs. Every program that imports purego, which loads HiGHS, is linked with the C library.
func TestLibraryNeedsGoAlone(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./solver", "./relax/highs", "./serve/service")
	cmd.Env = append(os.Environ(), "GOFLAGS=-tags=netgo,osusergo")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(string(out), "purego") {
		t.Errorf("HiGHS is loaded by programs without the tag highs: %v", err)
	}
}

// relative returns the path inside the module; it returns false for another module's
// path.
func relative(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func TestImportsFollowTheLayout(t *testing.T) {
	layout, seen := readLayout(t), map[string]bool{}
	for _, p := range listPackages(t) {
		name, ok := relative(p.ImportPath)
		if !ok {
			t.Fatalf("go list names %s", p.ImportPath)
		}
		if len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue // the package has only tests
		}
		seen[name], seen[path.Dir(name)+"/*"] = true, true
		for _, fault := range layoutFaults(layout, name, p) {
			t.Error(fault)
		}
	}
	for name := range layout {
		if !seen[name] {
			t.Errorf("%s has a row for %s, which is no package", layoutPage, name)
		}
	}
}

func layoutFaults(layout map[string][]string, name string, p listedPackage) []string {
	var faults []string
	allowed, known := layout[name]
	if !known {
		allowed, known = layout[path.Dir(name)+"/*"]
	}
	if !known {
		return []string{name + " is not in the layout: add a row to the table of " + layoutPage}
	}
	for _, imp := range p.Imports {
		to, ours := relative(imp)
		if ours && !slices.Contains(allowed, anything) && !slices.Contains(allowed, to) {
			faults = append(faults, name+" must not import "+to)
		}
	}
	if len(p.CgoFiles)+len(p.CFiles) > 0 && !slices.Contains(cgoPackages, name) {
		faults = append(faults, name+" must not use cgo")
	}
	return faults
}

// TestLayoutTable checks that the check of imports can fail, and that the table of packages
// has no cycles.
func TestLayoutTable(t *testing.T) {
	layout := readLayout(t)
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
		if len(layoutFaults(layout, bad.name, bad.p)) != 1 {
			t.Errorf("%s: faults %q", bad.name, layoutFaults(layout, bad.name, bad.p))
		}
	}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if slices.Contains(path, name) {
			t.Fatalf("the table has a circle: %v", append(path, name))
		}
		for _, to := range layout[name] {
			if to == anything {
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

// verifierTakes are the names of other packages of this module that the verifier may use:
// types, constants, exact amounts and the hash. The verifier shares no code with the solver,
// so the list has nothing that resolves an instance, schedules jobs, computes a bound or
// derives the rest of a plan.
var verifierTakes = map[string][]string{
	modulePath: {
		"AfterWeight", "Amount", "AmountFromBig", "BranchNode", "Busy", "Certificate", "Cluster", "Entry", "Forever",
		"FormatMicros", "Gang", "Instance", "Job", "Label", "Lane",
		"LabelValues", "LevelSync",
		"LostWork", "MaxBranchDomains", "MaxBranchNodes", "MaxExact", "MaxGPUs", "MethodBranch", "MethodSearch",
		"MethodCriticalPath", "MethodMachine", "MethodPrice", "Node",
		"ObjectiveJCTAndTardiness", "ObjectiveMakespan", "ObjectiveWeightedJCT", "PerAll", "PerNode", "Pool", "PoolCPUs",
		"PoolGPUs", "PoolMemory", "PoolQuota", "PoolSize", "Predecessor", "PriceSet", "Product", "Progress",
		"Quota", "Reservation",
		"Profile", "Relaxed", "RenamedGPU", "Replan", "Result", "Rigid", "Schedule", "Shape", "SizePrices", "StartedWork",
		"StatedReplan",
		"TerminationOptimal", "TypeCount", "TypePrices", "Window",
	},
	modulePath + "/wire": {"SHA256"},
}

func TestVerifierSharesNoModel(t *testing.T) {
	files, err := filepath.Glob("verify/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for path, takes := range verifierTakes {
			for _, ident := range selectorsOf(file, path) {
				if seen++; !slices.Contains(takes, ident) {
					t.Errorf("%s uses %s.%s, which the verifier must not share", name, filepath.Base(path), ident)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d uses were found", seen)
	}
}

// selectorsOf lists the names of the package at importPath that file uses.
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
