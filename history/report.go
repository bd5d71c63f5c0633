package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/trace"
)

// Report says what a reader and Build took, assumed and left out.
type Report struct {
	Source string `json:"source"`
	Files  []File `json:"files"`
	// Jobs are the jobs of the instance.
	Jobs int `json:"jobs"`
	// Warnings are what one should know before one goes by the figures.
	Warnings []string `json:"warnings,omitempty"`
	// Assumed says what the texts do not tell and the instance must have; LeftOut what the texts
	// tell and the instance does not have; Doubtful what cannot have happened as it is told.
	Assumed  []Note `json:"assumed,omitempty"`
	LeftOut  []Note `json:"left_out,omitempty"`
	Doubtful []Note `json:"doubtful,omitempty"`
	// SetAside are the values that could not be read. Each costs its row no more than What says, and other
	// rows nothing.
	SetAside []Note `json:"set_aside,omitempty"`
}

// File is a text that was read.
type File struct {
	Name    string         `json:"name"`
	Kind    string         `json:"kind"` // such as "sacct -P"
	Rows    int            `json:"rows"`
	Used    []trace.Column `json:"columns_used,omitempty"`
	Ignored []trace.Column `json:"columns_ignored,omitempty"`
}

// Note is one thing that a report says, how often, and its first case.
type Note struct {
	What  string `json:"what"`
	Count int    `json:"count"`
	First string `json:"first"`
}

// assume, leaveOut and doubt count one case. Notes stand in the order of their first cases.
func (r *Report) assume(what string, first any)   { r.Assumed = count(r.Assumed, what, first) }
func (r *Report) leaveOut(what string, first any) { r.LeftOut = count(r.LeftOut, what, first) }
func (r *Report) doubt(what string, first any)    { r.Doubtful = count(r.Doubtful, what, first) }

// setAside counts one value that cannot be read. what names the field and says what is made of it, such as "time
// limit: the job counts as one without a limit"; the first example stands in the report with its value.
func (r *Report) setAside(what string, place Place, value string) {
	for i := range r.SetAside {
		if r.SetAside[i].What == what {
			r.SetAside[i].Count++
			return
		}
	}
	r.SetAside = append(r.SetAside, Note{what, 1, fmt.Sprintf("%v: %.80q", place, value)})
}

// noneRead is the error of a text of which no row could be read.
func noneRead(place Place, first Note) error {
	return &RowError{place, "no row can be read: " + first.First + ": " + first.What}
}

// Unread is how many values could not be read, for the metrics of helpers that go on without them.
func (r *Report) Unread() (values int64) {
	for _, n := range r.SetAside {
		values += int64(n.Count)
	}
	return values
}

func count(notes []Note, what string, first any) []Note {
	for i := range notes {
		if notes[i].What == what {
			notes[i].Count++
			return notes
		}
	}
	return append(notes, Note{what, 1, fmt.Sprint(first)})
}

// String returns the report as lines of text.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Source, words.Count(r.Jobs, "job"))
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	for _, f := range r.Files {
		fmt.Fprintf(&b, "  %s: %s, %s\n", f.Name, f.Kind, words.Count(f.Rows, "row"))
		if len(f.Used) > 0 {
			fmt.Fprintf(&b, "    columns used: %s\n", columnList(f.Used))
		}
		if len(f.Ignored) > 0 {
			fmt.Fprintf(&b, "    columns ignored: %s\n", columnList(f.Ignored))
		}
	}
	for _, list := range []struct {
		name  string
		notes []Note
	}{{"assumed", r.Assumed}, {"left out", r.LeftOut}, {"doubtful", r.Doubtful},
		{"set aside, not read", r.SetAside}} {
		for _, n := range list.notes {
			fmt.Fprintf(&b, "  %s %d: %s (first: %s)\n", list.name, n.Count, n.What, n.First)
		}
	}
	return b.String()
}

func columnList(columns []trace.Column) string {
	text := make([]string, len(columns))
	for i, c := range columns {
		text[i] = c.Name
		if c.Values != 1 {
			text[i] += fmt.Sprintf(" (%d values)", c.Values)
		}
	}
	return strings.Join(text, ", ")
}

// NothingError says that a log has nothing of which an instance could be made. Its text is short; the report has all.
type NothingError struct {
	Report *Report
	now    bool
}

// remedies say what to do about the reasons for which jobs are left out; of several that fit, the last one counts.
var remedies = []struct{ reason, remedy string }{
	{"had and wanted no GPUs", "give a text that tells GPUs (--report tells what was read)"},
	{"has and wants no GPUs", "give a text that tells GPUs (--report tells what was read)"},
	{"does not say on which nodes", "give a text that names nodes"},
	{"after the window", "set --until later"}, {"before the window", "set --since earlier"},
	{"had not started", "use --now, which plans what waits"}, {"has no room", "give the nodes"},
	{"no GPU of the job's nodes", "give the nodes with their GPUs"},
	{"no column start", "add the columns start and end, which no duration tells"},
}

func (e *NothingError) Error() string {
	remedy, why := "give a text with jobs that ran", ""
	most := 0
	notes := e.Report.LeftOut
	for _, others := range [][]Note{e.Report.Doubtful, e.Report.SetAside} {
		if !slices.ContainsFunc(notes, func(n Note) bool { return n.What != stepsLeft }) {
			notes = others
		}
	}
	for _, n := range notes {
		if n.Count > most && n.What != stepsLeft {
			most, why = n.Count, fmt.Sprintf("; most often (%d): %.50s (%.40s)", n.Count, n.What, n.First)
			for _, r := range remedies {
				if strings.Contains(n.What, r.reason) {
					remedy = r.remedy
				}
			}
		}
	}
	if len(e.Report.Warnings) > 0 && strings.Contains(e.Report.Warnings[0], "AccountingStorageTRES") {
		remedy = "set AccountingStorageTRES=gres/gpu in slurm.conf"
	}
	what := "no job had GPUs"
	if e.now {
		if why == "" {
			remedy = "give squeue --json or a later text"
		}
		what = "no job that runs or waits has GPUs"
	}
	return remedy + ": " + what + why
}

// RowError is an error at a place of a text.
type RowError struct {
	Place  Place
	Reason string
}

func (e *RowError) Error() string { return e.Place.String() + ": " + e.Reason }

// stepsLeft is what becomes of steps.
const stepsLeft = "steps of jobs are parts of their jobs"

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Place is a line of a file, or a member of a JSON document.
type Place struct {
	File string
	Line int    // from 1; 0 means that Pointer tells the place
	At   string // a JSON pointer
}

// String returns file:line or file#pointer.
func (p Place) String() string {
	if p.Line > 0 {
		return p.File + ":" + itoa(int64(p.Line))
	}
	return p.File + "#" + p.At
}
