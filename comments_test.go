package hare_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestCommentsBeginWithTheirName checks that the comment of a package, a function, a method or a type begins with its
// name, as go doc expects, so that a comment which a renaming has left behind is found.
func TestCommentsBeginWithTheirName(t *testing.T) {
	checked := 0
	for _, name := range sourceFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if text := file.Doc.Text(); text != "" && file.Name.Name != "main" &&
			!strings.HasPrefix(text, "Package "+file.Name.Name+" ") {
			t.Errorf("%s: the comment of package %s begins with %.40q", name, file.Name.Name, text)
		}
		check := func(doc *ast.CommentGroup, of *ast.Ident) {
			text := strings.TrimSpace(doc.Text())
			for _, article := range []string{"A ", "An ", "The "} {
				text = strings.TrimPrefix(text, article)
			}
			if checked++; text != "" && !strings.HasPrefix(text, of.Name) {
				first, _, _ := strings.Cut(text, "\n")
				t.Errorf("%s: the comment of %s begins with %.40q", fset.Position(doc.Pos()), of.Name, first)
			}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Doc, d.Name)
			case *ast.GenDecl:
				if spec, ok := d.Specs[0].(*ast.TypeSpec); ok && len(d.Specs) == 1 {
					check(d.Doc, spec.Name)
				}
			}
		}
	}
	if checked < 5000 {
		t.Errorf("%d comments were checked", checked)
	}
}
