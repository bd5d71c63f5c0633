package hare_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksOfPages follows every link of the documentation: the file must exist, and
// where the link has an anchor, so must the heading.
func TestLinksOfPages(t *testing.T) {
	pages := docsPages(t)
	pages = append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "trace/data/README.md",
		"client/python/README.md", "client/typescript/README.md")
	for _, page := range pages {
		for _, link := range pageLink.FindAllStringSubmatch(readPage(t, page), -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(link[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, link[1])
			} else if anchor != "" && !hasAnchor(readPage(t, target), anchor) {
				t.Errorf("%s links to %s, and no heading there has that anchor", page, link[1])
			}
		}
	}
}

// docsPages are the paths of all pages in docs.
func docsPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	inFolders, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, inFolders...)
}

// hasAnchor says whether a heading of the page has the anchor, as GitHub forms anchors.
func hasAnchor(page, anchor string) bool {
	for _, heading := range pageHeading.FindAllStringSubmatch(page, -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(text, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestThreatModel checks that each test that docs/use/secure.md names for a promise exists.
func TestThreatModel(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(readPage(t, path), -1) {
			tests[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(readPage(t, "docs/use/secure.md"), -1)
	if len(named) < 30 {
		t.Errorf("docs/use/secure.md names %d tests", len(named))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("docs/use/secure.md names %s, which does not exist", m[1])
		}
	}
}

// TestPlacesOfChanges holds the table of CONTRIBUTING.md that says where a change begins:
// every file and package that the table names exists.
func TestPlacesOfChanges(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t, "CONTRIBUTING.md"), "\n| change |")
	table, _, _ = strings.Cut(table, "\n\n")
	places := 0
	for _, name := range backquoted.FindAllStringSubmatch(table, -1) {
		path := name[1]
		if !strings.Contains(path, "/") && !strings.HasSuffix(path, ".go") && strings.ToLower(path) != path ||
			strings.ContainsAny(path, " …") {
			continue // the table names something in the code, or a command
		}
		places++
		if _, err := os.Stat(path); err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", path)
		}
	}
	if places < 20 {
		t.Errorf("the table names %d files and packages; it has the form of another time", places)
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
