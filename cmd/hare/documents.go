package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// document says what a file is: in words, and how one gets what was due instead.
type document struct{ what, remedy string }

// The documents that commands read, as their words and those of recognise.
const (
	anInstance = "an instance"
	aResult    = "a result"
	aCluster   = "a cluster"
	aLog       = "a log of an online session"
	aTable     = "a table (CSV)"
)

// headBytes is how much of a file recognise looks at.
const headBytes = 1 << 16

// forms are the documents that name their form in the member "hare".
var forms = map[string]document{
	"instance":    {anInstance, ""},
	"result":      {aResult, ""},
	"log":         {aLog, ""},
	"certificate": {"a certificate", ""},
	"plan":        {"the plan of an online session", ""},
	"batch":       {"a batch of a session's journal", ""},
	"keys":        {"a file of keys", ""},
	"advice":      {"the state of hare slurm, kube or ray", ""},
	"shadow":      {"a log of hare shadow --live", "hare shadow report reads it"},
	"job-graphs":  {"a document of job graphs", ""},
}

// membersOf lists documents by members that they have; the first row fits whose members are all there.
var membersOf = []struct {
	members []string
	document
}{
	{[]string{"cluster", "jobs"}, document{anInstance, ""}},
	{[]string{"method", "bound", "certified"}, document{"a bound with its certificate, as hare bound writes it", ""}},
	{[]string{"line", "status"}, document{"an answer of hare whatif", ""}},
	{[]string{"line"}, document{"a line of an answer of Hare", ""}},
	{[]string{"base", "scenarios"}, document{"a request of a what-if", ""}},
	{[]string{"scenarios"}, document{"a list of scenarios", "hare whatif --scenario reads it"}},
	{[]string{"apiVersion", "kind"}, document{"a document of Kubernetes", "hare import kube makes an instance of it"}},
	{[]string{"meta", "jobs"}, document{"JSON of Slurm", "hare import slurm makes an instance of it"}},
	{[]string{"meta", "nodes"}, document{"JSON of Slurm", "hare import slurm makes an instance of it, with the jobs"}},
	{[]string{"type", "title", "status"}, document{"an error that a server answered", ""}},
	{[]string{"id", "result"}, document{"a solve as a server keeps it", "its member result is the result"}},
	{[]string{"seq", "type"}, document{"events of an online session", ""}},
	{[]string{"op", "path"}, document{"a JSON patch", "hare whatif --patch reads it"}},
	{[]string{"policies", "runs"}, document{"a report of simulations", ""}},
	{[]string{"id", "rounds"}, document{"a job", "hare whatif --add-job reads it"}},
	{[]string{"nodes"}, document{aCluster, "an instance has it in its member cluster, next to jobs"}},
}

// beginnings are of files that are not JSON.
var beginnings = []struct {
	begin string
	document
}{
	{"\x89PNG", document{"a picture (PNG)", ""}},
	{"%PDF", document{"a PDF", ""}},
	{"PK\x03\x04", document{"a ZIP archive", "unpack it"}},
	{"BZh", document{"compressed by bzip2", "unpack it, or use gzip or zstd, which Hare unpacks"}},
	{"\xfd7zXZ", document{"compressed by xz", "unpack it, or use gzip or zstd, which Hare unpacks"}},
	{"\x1f\x8b", document{"compressed twice", "unpack it once"}},
	{"\x28\xb5\x2f\xfd", document{"compressed twice", "unpack it once"}},
	{"SQLite format 3", document{"a database of SQLite, such as a server's", ""}},
	{"PAR1", document{"a table (Parquet)", "save it as CSV: hare import history reads that"}},
	{"\x7fELF", document{"a program", ""}},
	{"\xff\xfe", document{"a text in UTF-16", "save it as UTF-8"}},
	{"\xfe\xff", document{"a text in UTF-16", "save it as UTF-8"}},
}

// recognise says what the beginning of a file is, and has an empty what where it does not know.
func recognise(head []byte) document {
	for _, x := range beginnings {
		if bytes.HasPrefix(head, []byte(x.begin)) {
			return x.document
		}
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if len(text) == 0 {
		return document{"empty", "was the command that wrote it interrupted?"}
	}
	switch text[0] {
	case '{':
		return recogniseObject(text)
	case '[':
		if d := recogniseObject(bytes.TrimLeft(text[1:], " \t\r\n")); d.what != "" {
			return document{"a list that begins with " + d.what, d.remedy}
		}
		return document{"a JSON array", ""}
	case '<':
		lower := bytes.ToLower(text)
		switch {
		case bytes.HasPrefix(lower, []byte("<!doctype html")), bytes.HasPrefix(lower, []byte("<html")):
			return document{"a page (HTML)", ""}
		case bytes.Contains(lower[:min(len(lower), 1000)], []byte("<svg")):
			return document{"a picture (SVG)", ""}
		}
		return document{"XML", ""}
	case '"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if json.Valid(text) {
			return document{"a single value of JSON", ""}
		}
	}
	return recogniseText(text)
}

// recogniseObject recognises an object of JSON by its members.
func recogniseObject(text []byte) document {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return document{}
	}
	var members []string
	for {
		key, err := d.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			break
		}
		members = append(members, name)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break // the head ends within the value
		}
		var form string
		if name == "hare" && json.Unmarshal(value, &form) == nil {
			kind, _, _ := strings.Cut(form, "/")
			return forms[kind]
		}
	}
	for _, x := range membersOf {
		if !slices.ContainsFunc(x.members, func(m string) bool { return !slices.Contains(members, m) }) {
			return x.document
		}
	}
	return document{}
}

// recogniseText recognises a text that is not JSON by its first line.
func recogniseText(text []byte) document {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	first := string(bytes.TrimSpace(line))
	has := func(part string) bool { return strings.Contains(strings.ToLower(first), part) }
	switch {
	case bytes.IndexByte(text, 0) >= 0 || !utf8.ValidString(first):
		return document{"not a text", ""}
	case has("jobid|") || has("|jobid"), strings.HasPrefix(strings.ToLower(first), "jobid "):
		return document{"a text of sacct", "hare import slurm makes an instance of it"}
	case has("nodename="), has("reservationname="), has("jobid="):
		return document{"a text of Slurm (scontrol)", "hare import slurm makes an instance of it, with the jobs of sacct"}
	case has("apiversion:"):
		return document{"YAML of Kubernetes", "hare import kube reads the JSON of kubectl"}
	case strings.Count(first, ",") > 0 || strings.Count(first, ";") > 1 || strings.Count(first, "\t") > 0:
		return document{aTable, "hare import history makes an instance of a table of jobs"}
	}
	return document{fmt.Sprintf("not JSON: it begins with %.20q", first), ""}
}

// wrongDocument is the error of a file that is another document than the one that is due.
type wrongDocument struct {
	name, want string
	is         document
}

func (e *wrongDocument) Error() string {
	name := e.name
	if name == "-" {
		name = "standard input"
	}
	text := fmt.Sprintf("%s is %s: give %s", name, e.is.what, e.want)
	if e.want == anInstance && e.is.what == aResult {
		text = fmt.Sprintf("%s is a result: give the instance", name)
	}
	if e.is.remedy != "" && e.want == anInstance || strings.HasPrefix(e.is.remedy, "save") ||
		strings.HasPrefix(e.is.remedy, "unpack") || e.is.what == "empty" {
		text += " (" + e.is.remedy + ")"
	}
	return text
}

// due returns the error of a decoder as that of the file or, where the file is recognised as another document
// than the one that is due, says that.
func due(name, want string, head []byte, err error) error {
	if is := recognise(head); is.what != "" && is.what != want {
		return usageError{&wrongDocument{name, want, is}}
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) && want != aTable {
		return inputError(name, errors.New("it begins with a byte order mark: save it as UTF-8 without one"))
	}
	if strings.HasPrefix(err.Error(), name+":") {
		return err
	}
	return inputError(name, err)
}

// readDocument opens a file and decodes it.
func readDocument[T any](name, want string, decode func(io.Reader) (T, error)) (doc T, err error) {
	f, err := openIn(name)
	if err != nil {
		return doc, err
	}
	defer func() { _ = f.Close() }()
	b := bufio.NewReaderSize(f, headBytes)
	head, _ := b.Peek(headBytes) // a decoder meets the error again
	head = bytes.Clone(head)
	if doc, err = decode(b); err != nil {
		err = due(name, want, head, err)
	}
	return doc, err
}

// otherWayRound turns the error of a pair of arguments into one that says so where the two are swapped.
func otherWayRound(args []string, err error) error {
	var wrong *wrongDocument
	if !errors.As(err, &wrong) || wrong.name != args[0] || wrong.is.what != aResult || args[1] == "-" {
		return err
	}
	f, bad := openIn(args[1])
	if bad != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	head, _ := bufio.NewReaderSize(f, headBytes).Peek(headBytes)
	if recognise(head).what != anInstance {
		return err
	}
	return usageError{fmt.Errorf("%s is a result and %s an instance: give them the other way round", args[0], args[1])}
}
