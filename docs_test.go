package hare_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// hasAnchor reports whether a heading of the page has the anchor, as GitHub forms anchors.
func hasAnchor(page, anchor string) bool {
	for _, heading := range pageHeading.FindAllStringSubmatch(page, -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(text, " ", "-") == anchor {
			return true
		}
	}
	return false
}

var (
	testCommand = regexp.MustCompile("go test [^`\n]*")
	testFolder  = regexp.MustCompile(` \./([a-z_/]+)`)
	testPattern = regexp.MustCompile(`-(?:run|bench) '?([^'` + "`" + ` ]+)`)
	declaration = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w*)`)
)

// TestMeasuringCommandsExist checks that the folders of the commands that measured a figure exist, and that their
// patterns match a test or a benchmark there: a folder that moves takes its commands along.
func TestMeasuringCommandsExist(t *testing.T) {
	checked := 0
	for _, page := range docsPages(t) {
		for _, command := range testCommand.FindAllString(readPage(t, page), -1) {
			var declared []string
			for _, folder := range testFolder.FindAllStringSubmatch(command, -1) {
				files, _ := filepath.Glob(folder[1] + "/*_test.go")
				if len(files) == 0 {
					t.Errorf("%s: %s: there are no tests in %s", page, command, folder[1])
				}
				for _, file := range files {
					for _, d := range declaration.FindAllStringSubmatch(readPage(t, file), -1) {
						declared = append(declared, d[1])
					}
				}
			}
			for _, p := range testPattern.FindAllStringSubmatch(command, -1) {
				name, err := regexp.Compile(strings.Split(p[1], "/")[0])
				if err != nil || len(declared) == 0 || p[1] == "^$" || strings.EqualFold(p[1], "xxx") {
					continue // the patterns that shall match nothing
				}
				if checked++; !slices.ContainsFunc(declared, name.MatchString) {
					t.Errorf("%s: %s: nothing matches %s", page, command, p[1])
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d patterns were checked", checked)
	}
}

// TestSizeOfDocs keeps the documentation short enough to be read. The laboratory, where measurements stand, is counted
// by itself.
func TestSizeOfDocs(t *testing.T) {
	const mostPages, mostWords, mostLabWords = 25, 60_000, 30_000
	pages, words, labWords := 0, 0, 0
	for _, page := range docsPages(t) {
		n := len(strings.Fields(readPage(t, page)))
		if strings.HasPrefix(filepath.ToSlash(page), "docs/lab/") {
			labWords += n
			continue
		}
		pages++
		words += n
	}
	if pages > mostPages {
		t.Errorf("there are %d pages outside of docs/lab, and %d are the most", pages, mostPages)
	}
	if words > mostWords {
		t.Errorf("the pages outside of docs/lab have %d words, and %d are the most", words, mostWords)
	}
	if labWords > mostLabWords {
		t.Errorf("the pages of docs/lab have %d words, and %d are the most", labWords, mostLabWords)
	}
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

// TestQuestionsOfStrangers checks that whoever begins at README.md finds the answers to common questions: the page is
// at most two links away, and the place that answers has the words that one looks for there.
func TestQuestionsOfStrangers(t *testing.T) {
	near := pagesWithin(t, "README.md", 2)
	for _, q := range []struct {
		question, place string // the place is a page, or a section of one: page#anchor
		words           string
	}{
		{"how do I install it without a compiler", "docs/use/operate.md#install", "pip install"},
		{"how do I upgrade a server", "docs/use/operate.md#upgrade", "hare doctor"},
		{"how do I begin", "docs/learn/plan.md", "hare solve"},
		{"what does the gap mean", "docs/learn/plan.md#2-solve", "*gap*"},
		{"how do I import sacct", "docs/use/import.md#slurm", "sacct -P"},
		{"I have a table of jobs", "docs/use/import.md#how-do-i-write-a-table-of-jobs", "`requested_type`"},
		{"may I send my case to a stranger", "docs/use/import.md#how-do-i-send-a-case-to-a-stranger", "hare anonymise"},
		{"would it have helped last week", "docs/use/shadow.md", "--since 7d"},
		{"can I try it beside my Slurm without risk", "docs/learn/beside.md", "hare slurm --once"},
		{"does it work under Kueue", "docs/use/beside.md#kubernetes", "--kueue"},
		{"how do I undo what hare slurm wrote", "docs/use/beside.md#slurm", "--reset"},
		{"how does it work with Ray", "docs/use/beside.md#ray", "hare ray submit"},
		{"how do I keep a job in one rack", "docs/reference/model.md#racks-and-other-levels", "`within`"},
		{"how do I limit the GPUs of a user", "docs/reference/model.md#running-work-reservations-and-quotas", "quota"},
		{"how does a job wait for another", "docs/reference/model.md#dependencies-and-deadlines", "`after`"},
		{"may a job have four GPUs or eight", "docs/reference/model.md#shapes", "shapes"},
		{"why does my job wait", "docs/use/explain.md", "`held`"},
		{"what would four more GPUs bring", "docs/use/whatif.md", "--add V100=4"},
		{"a node leaves in ten minutes", "docs/use/replan.md", "--previous"},
		{"which policy for unknown sizes", "docs/learn/compare.md#which-policy", "`rolling`"},
		{"how do I write a policy of my own", "docs/use/own-policy.md", "examples/policy"},
		{"users know roughly how long jobs take", "docs/lab/estimates.md", "`estimate_s`"},
		{"how do I submit a job", "docs/use/run-jobs.md", "hare submit"},
		{"what happens when a node dies", "docs/use/run-jobs.md#when-something-fails", "lease"},
		{"where do I write checkpoints", "docs/use/run-jobs.md", "`HARE_CHECKPOINT_DIR`"},
		{"what does HTTP 422 mean here", "docs/reference/http.md#what-does-this-status-mean", "| 422 |"},
		{"how do I solve without an open connection", "docs/reference/http.md#solves", "respond-async"},
		{"how do I call it from Python", "docs/reference/http.md#clients", "hare_client"},
		{"how do I back up the server", "docs/use/operate.md#back-up-and-restore", "hare backup"},
		{"the alert HareGapWide fires", "docs/use/operate.md#haregapwide", "20 %"},
		{"which metrics are there", "docs/use/operate.md#metrics", "`hare_queue_wait_seconds`"},
		{"how do I make an API key", "docs/use/secure.md", "hare key create"},
		{"what is exit code 3", "docs/reference/cli.md#exit-codes", "| **3** |"},
		{"what is a gang", "docs/reference/glossary.md", "**gang**"},
		{"which file do I change", "CONTRIBUTING.md#where-a-change-belongs", "a scheduling policy"},
	} {
		page, anchor, _ := strings.Cut(q.place, "#")
		if !near[page] {
			t.Errorf("%s? %s is more than two links from README.md", q.question, page)
			continue
		}
		if text, ok := section(readPage(t, page), anchor); !ok {
			t.Errorf("%s? %s has no heading with the anchor %s", q.question, page, anchor)
		} else if !strings.Contains(text, q.words) {
			t.Errorf("%s? %s does not say %q", q.question, q.place, q.words)
		}
	}
}

// pagesWithin are the pages that the links of at most so many pages, one after another, reach from the first page.
func pagesWithin(t *testing.T, first string, links int) map[string]bool {
	t.Helper()
	seen := map[string]bool{first: true}
	for last := []string{first}; links > 0; links-- {
		var next []string
		for _, page := range last {
			for _, link := range pageLink.FindAllStringSubmatch(readPage(t, page), -1) {
				path, _, _ := strings.Cut(link[1], "#")
				target := filepath.Join(filepath.Dir(page), path)
				if strings.Contains(link[1], "://") || filepath.Ext(path) != ".md" || seen[target] {
					continue
				}
				if _, err := os.Stat(target); err == nil { // TestLinksOfPages reports the others
					seen[target] = true
					next = append(next, target)
				}
			}
		}
		last = next
	}
	return seen
}

// section returns the text from the heading with the anchor to the next heading of its rank, and the whole page where
// the anchor is empty. It returns false where no heading has the anchor.
func section(page, anchor string) (string, bool) {
	if anchor == "" {
		return page, true
	}
	headings := pageHeading.FindAllStringIndex(page, -1)
	for i, at := range headings {
		if !hasAnchor(page[at[0]:at[1]], anchor) {
			continue
		}
		rank := strings.IndexByte(page[at[0]:], ' ')
		for _, later := range headings[i+1:] {
			if strings.IndexByte(page[later[0]:], ' ') <= rank {
				return page[at[0]:later[0]], true
			}
		}
		return page[at[0]:], true
	}
	return "", false
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
