package hare_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// longestLine is the greatest number of characters of a line of source. A tab is one
// character.
const longestLine = 119

// handwritten matches the names of the files whose lines people break. In documentation a
// paragraph is one line.
var handwritten = []string{".go", ".ts", ".mjs", ".py", ".sh", ".css", ".html", ".yml", "Makefile", "Dockerfile"}

// generated matches the files that programs write.
var generated = regexp.MustCompile(`^plot/web/dist/|(^|/)testdata/|\.svg$|\.golden$`)

// unbreakable matches the lines that must stay whole: swag reads the annotations of parameters
// and answers from one line each, and the tag of a field is one literal.
var unbreakable = regexp.MustCompile("^//\t@(Param|Success|Failure|Header)\t|^\t[A-Z].*`json:\"[^`]*`$")

// built are the folders that a build makes, beside those whose names begin with a dot.
var built = []string{"bin", "build", "node_modules", "__pycache__"}

// sourceFiles returns the names of the files of the source: those that git tracks, and in an
// unpacked archive of the source all files outside of folders that a build makes.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	if tracked, err := exec.Command("git", "ls-files").Output(); err == nil && len(tracked) > 0 {
		return strings.Fields(string(tracked)) // no name has a space
	}
	var names []string
	err := filepath.WalkDir(".", func(name string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			names = append(names, filepath.ToSlash(name))
		case name != "." && (entry.Name()[0] == '.' || slices.Contains(built, entry.Name())):
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestLinesAreShort(t *testing.T) {
	checked := 0
	for _, name := range sourceFiles(t) {
		isSource := func(end string) bool { return strings.HasSuffix(name, end) || path.Base(name) == end }
		if !slices.ContainsFunc(handwritten, isSource) || generated.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // the file has been deleted, and the deletion is not committed yet
		} else if err != nil {
			t.Fatal(err)
		}
		checked++
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			width := utf8.RuneCount(lines.Bytes())
			if width > longestLine && !unbreakable.Match(lines.Bytes()) {
				t.Errorf("%s:%d: a line of %d characters: at most %d are allowed", name, n, width, longestLine)
			}
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if checked < 500 {
		t.Errorf("%d files were checked", checked)
	}
}

// TestEveryServerIsGuarded checks that HTTP is served only where api.Guard or the routes of package api refuse what
// pages of other origins send.
func TestEveryServerIsGuarded(t *testing.T) {
	guarded := []string{"api/serve.go", "cmd/hare/serve_observe.go", "cmd/hare/slurm.go"}
	serves := regexp.MustCompile(`\bhttp\.Server\{|\bhttp\.(ListenAndServe|Serve)(TLS)?\(`)
	for _, name := range sourceFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(guarded, name) {
			continue
		}
		if text, err := os.ReadFile(name); err != nil || serves.Match(text) {
			t.Errorf("%s serves HTTP: see api.Guard, and name the file here (%v)", name, err)
		}
	}
}
