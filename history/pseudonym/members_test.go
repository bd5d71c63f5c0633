package pseudonym

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite members.txt")

var memberForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// labelForm is that of labels and annotations with a domain.
var labelForm = regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9._-]+$`)

var jsonMember = regexp.MustCompile(`"([A-Za-z0-9_]+)"\s*:`)

// TestMembers checks that members.txt has the names of all members of documents that readers know: fields of structs,
// their names in JSON, and words in the sources of the readers.
func TestMembers(t *testing.T) {
	found := map[string]bool{}
	add := func(words string) {
		for _, word := range strings.Split(words, ",") {
			if memberForm.MatchString(word) && len(word) < 50 {
				found[strings.ToLower(word)] = true
			}
		}
	}
	for _, folder := range []string{"../..", "../../history", "../../wire", "../../trace", "../../online",
		"../../wire/sessions", "../../serve/clusters/ledger", "../../internal/testing/audit", "../../serve/clusters"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			literals := folder == "../../history" || folder == "../../trace"
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					if n.Tag != nil {
						tag, _ := strconv.Unquote(n.Tag.Value)
						name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
						add(name)
					}
				case *ast.StructType:
					for _, field := range n.Fields.List {
						for _, name := range field.Names {
							add(name.Name)
						}
					}
				case *ast.CallExpr: // wire.String("policy", …)
					if folder != "../../wire" || len(n.Args) == 0 {
						break
					}
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Example", "Default", "With", "About",
						"Required"}, f.Sel.Name) {
						break
					}
					if name, ok := n.Args[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
						text, _ := strconv.Unquote(name.Value)
						add(text)
					}
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); literals && n.Kind == token.STRING && err == nil {
						if add(text); labelForm.MatchString(text) {
							found[strings.ToLower(text)] = true
						}
					}
				}
				return true
			})
		}
	}
	// The members of what Slurm writes are no names of anybody's.
	for _, pattern := range []string{"s*.json", "nodes-*.json", "live/*.gz"} {
		files, err := filepath.Glob(filepath.Join("..", "testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, ".instance.json") {
				continue
			}
			text := open(t, strings.TrimPrefix(filepath.ToSlash(file), "../testdata/"))
			for _, m := range jsonMember.FindAllSubmatch(text.Body, -1) {
				add(string(m[1]))
			}
		}
	}
	header, _, _ := strings.Cut(string(open(t, "sacct.txt").Body), "\n")
	add(strings.ReplaceAll(header, "|", ","))
	words := make([]string, 0, len(found))
	for word := range found {
		words = append(words, word)
	}
	slices.Sort(words)
	want := strings.Join(words, "\n") + "\n"
	if *update {
		if err := os.WriteFile("members.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if words = slices.DeleteFunc(words, func(word string) bool { return known[word] }); len(words) > 0 {
		t.Errorf("members.txt lacks %d words that the readers know, %.200q: go test ./history/pseudonym -run TestMembers "+
			"-update",
			len(words), words)
	}
}
