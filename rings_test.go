package hare_test

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// knots are the packages of which more than a third of the files use each other in a ring, and how many files that
// ring has: a list that only becomes shorter.
var knots = map[string]int{"online/regret": 6}

// TestFilesInRings checks that no package is a knot, in which whoever reads one file has to read all: at most a third
// of its files use each other in a ring. A file uses those in which a function, method, type, variable, constant or
// field is declared that it names. Packages of fewer than six files are read at once anyway.
func TestFilesInRings(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks every package")
	}
	for name, ring := range ringsOfPackages(t) {
		files, most := ring[0], ring[1]
		switch known := knots[name]; {
		case most > max(known, files/3):
			t.Errorf("%s: %d of %d files use each other in a ring", name, most, files)
		case known > 0 && most < known:
			t.Errorf("%s: %d of %d files use each other in a ring, and the list says %d", name, most, files, known)
		}
	}
}

// ringsOfPackages returns, for each package of at least six files, their number and that of the largest ring.
func ringsOfPackages(t *testing.T) map[string][2]int {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,CgoFiles,Export", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles, CgoFiles       []string
	}
	exports := map[string]string{}
	var ours []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if _, ok := relative(p.ImportPath); ok && len(p.GoFiles) >= 6 && len(p.CgoFiles) == 0 {
			ours = append(ours, p)
		}
	}
	rings := map[string][2]int{}
	for _, p := range ours {
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		cfg := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			return os.Open(exports[path])
		})}
		pkg, err := cfg.Check(p.ImportPath, fset, files, info)
		if err != nil {
			t.Fatal(err)
		}
		uses := map[string]map[string]bool{}
		for id, o := range info.Uses {
			if o.Pkg() != pkg {
				continue
			}
			from, to := fset.Position(id.Pos()).Filename, fset.Position(o.Pos()).Filename
			if from != to {
				if uses[from] == nil {
					uses[from] = map[string]bool{}
				}
				uses[from][to] = true
			}
		}
		name, _ := relative(p.ImportPath)
		rings[name] = [2]int{len(files), largestRing(uses)}
	}
	return rings
}

// largestRing is the number of files of the largest set in which each file reaches each other one (Tarjan 1972).
func largestRing(uses map[string]map[string]bool) int {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	most := 1
	var visit func(f string)
	visit = func(f string) {
		index[f] = len(index) + 1
		low[f] = index[f]
		stack, on[f] = append(stack, f), true
		for to := range uses[f] {
			if index[to] == 0 {
				visit(to)
				low[f] = min(low[f], low[to])
			} else if on[to] {
				low[f] = min(low[f], index[to])
			}
		}
		if low[f] != index[f] {
			return
		}
		for n := 1; ; n++ {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			delete(on, top)
			if top == f {
				most = max(most, n)
				return
			}
		}
	}
	for f := range uses {
		if index[f] == 0 {
			visit(f)
		}
	}
	return most
}
