package hare_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path"
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
var generated = regexp.MustCompile(`^web/dist/|(^|/)testdata/|\.svg$|\.golden$`)

// unbreakable matches the lines that must stay whole: swag reads the annotations of parameters
// and answers from one line each, and the tag of a field is one literal.
var unbreakable = regexp.MustCompile("^//\t@(Param|Success|Failure|Header)\t|^\t[A-Z].*`json:\"[^`]*`$")

func TestLinesAreShort(t *testing.T) {
	tracked, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("without a checkout of git, it is not known which files are part of the source:", err)
	}
	checked := 0
	for name := range strings.Lines(string(tracked)) {
		name = strings.TrimSpace(name)
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
