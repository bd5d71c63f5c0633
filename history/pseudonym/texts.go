package pseudonym

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oasdiff/yaml"

	"github.com/hare-sched/hare/history"
)

// text walks through one text, by its kind.
func (w *walker) text(t Text) ([]byte, error) {
	body := bytes.TrimPrefix(t.Body, []byte("\ufeff"))
	head := bytes.TrimLeft(body, " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first := strings.TrimRight(string(line), "\r")
	lower := strings.ToLower(first)
	source, _ := history.Detect(body[:min(len(body), 1<<16)])
	fault := func(reason string) error { return fmt.Errorf("%s: %s", t.Name, reason) }
	switch {
	case len(head) == 0:
		return nil, nil
	case bytes.IndexByte(body[:min(len(body), 1<<16)], 0) >= 0:
		return nil, fault("is no text: nothing is written")
	case head[0] == '{' || head[0] == '[':
		out, err := w.documents(body)
		if err != nil {
			return nil, fault(err.Error())
		}
		return out, nil
	case strings.HasPrefix(lower, "nodename="), strings.HasPrefix(lower, "reservationname="),
		strings.HasPrefix(lower, "jobid="):
		return w.scontrol(body), nil
	case source == "swf":
		return w.swf(body), nil
	case strings.Contains(lower, "jobid") && strings.ContainsAny(first, "|\x1f\t"),
		strings.Contains(lower, "nodename") && strings.ContainsAny(first, "|\x1f\t"):
		return w.delimited(body), nil
	case source == "" && strings.Count(first, "\t") >= 6:
		return w.native(body), nil
	case source != "" || strings.Contains(first, ","):
		return w.csv(t.Name, body)
	case yamlText.Match(body):
		document, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, fault("is no YAML")
		}
		return w.documents(document)
	}
	return nil, fault(fmt.Sprintf("%.40q begins none of the texts that Hare reads: nothing is written", first))
}

var yamlText = regexp.MustCompile(`(?m)^[A-Za-z]+:`)

// documents walks through JSON documents, one or several, such as the lines of a log.
func (w *walker) documents(body []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var out []byte
	for {
		var err error
		out, err = w.json(d, out, "", "", 0)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("byte %d: %s", d.InputOffset(), strings.ReplaceAll(err.Error(), "\n", " "))
		}
		out = append(out, '\n')
	}
}

// maxDepth limits the objects and lists in each other of a document.
const maxDepth = 1000

// json writes the next value. field is the member that has it, through lists, and parent the member that has that
// member's object.
func (w *walker) json(d *json.Decoder, out []byte, parent, field string, depth int) ([]byte, error) {
	token, err := d.Token()
	if err != nil {
		return out, err
	}
	if depth > maxDepth {
		return out, errors.New("too many objects in each other")
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return w.jsonList(d, out, parent, field, depth)
		}
		return w.jsonObject(d, out, field, depth)
	case string:
		return jsontext.AppendQuote(out, w.value(parent, field, t))
	case json.Number:
		return append(out, t...), nil
	case bool:
		return strconv.AppendBool(out, t), nil
	}
	return append(out, "null"...), nil
}

func (w *walker) jsonList(d *json.Decoder, out []byte, parent, field string, depth int) ([]byte, error) {
	out = append(out, '[')
	for i := 0; d.More(); i++ {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = w.json(d, out, parent, strings.TrimSuffix(field, inList)+inList, depth+1); err != nil {
			return out, unexpected(err)
		}
	}
	_, err := d.Token()
	return append(out, ']'), unexpected(err)
}

func (w *walker) jsonObject(d *json.Decoder, out []byte, field string, depth int) ([]byte, error) {
	out = append(out, '{')
	base, count := "", ""
	for i := 0; d.More(); i++ {
		if i > 0 {
			out = append(out, ',')
		}
		token, err := d.Token()
		if err != nil {
			return out, unexpected(err)
		}
		key, ok := token.(string)
		if !ok {
			return out, errors.New("an object has a member without a name")
		}
		if out, err = jsontext.AppendQuote(out, w.member(field, key)); err != nil {
			return out, err
		}
		out = append(out, ':')
		from := len(out)
		if typeMaps[strings.ToLower(field)] {
			w.types[strings.ToLower(key)] = true
		}
		if out, err = w.json(d, out, field, key, depth+1); err != nil {
			return out, unexpected(err)
		}
		switch key {
		case "name":
			base = string(out[from:])
		case "count":
			count = string(out[from:])
		}
	}
	if name, err := strconv.Unquote(base); err == nil && count != "" && w.phase == finding {
		w.bases[name] = true
	}
	_, err := d.Token()
	return append(out, '}'), unexpected(err)
}

// unexpected is the error of an end inside a document.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// scontrolKeys are the members of scontrol show node and reservation that readers know; others are left out.
var scontrolKeys = setOf(`nodename gres cpualloc cpuefctv cputot cores corespersocket sockets boards threadspercore
	realmemory allocmem freemem memspeclimit cpuspeclist availablefeatures activefeatures state partitions cfgtres
	alloctres
	gresused gresdrain reservationname starttime endtime duration nodes nodecnt corecnt users accounts partitionname flags
	tres features weight version owner maxstartdelay groups licenses burstbuffer watts boottime slurmdstarttime
	lastbusytime resumeaftertime tmpdisk cpuload jobid arrayjobid arraytaskid jobname userid groupid account qos
	jobstate reason dependency requeue restarts runtime timelimit submittime eligibletime accruetime
	reqnodelist excnodelist nodelist
	batchhost numnodes numcpus numtasks reqtres tresperjob trespernode trespersocket trespertask comment suspendtime
	oversubscribe priority`)

var scontrolPair = regexp.MustCompile(`(^|\s)([A-Za-z_]+)=`)

// scontrol walks through what scontrol show node or reservation writes.
func (w *walker) scontrol(body []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(body) {
		text := strings.TrimRight(string(line), "\r\n")
		if strings.TrimSpace(text) == "" {
			out.WriteByte('\n')
			continue
		}
		pairs := scontrolPair.FindAllStringSubmatchIndex(text, -1)
		sep := text[:len(text)-len(strings.TrimLeft(text, " "))]
		for i, p := range pairs {
			end := len(text)
			if i+1 < len(pairs) {
				end = pairs[i+1][0]
			}
			key, value := text[p[4]:p[5]], strings.TrimSpace(text[p[1]:end])
			if !scontrolKeys[strings.ToLower(key)] {
				continue
			}
			if value != "" {
				value = w.value("", key, value)
			}
			out.WriteString(sep + key + "=" + value)
			sep = " "
		}
		if sep == " " {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// swfHeaders are the headers of the Standard Workload Format that hold numbers.
var swfHeaders = regexp.MustCompile(`^;+\s*([A-Za-z]+)\s*:\s*([0-9]+)`)

// swf keeps the numbers of a text in the Standard Workload Format, and of its comments those that readers know.
func (w *walker) swf(body []byte) []byte {
	var out bytes.Buffer
	out.WriteString("; names and notes are left out\n")
	for line := range bytes.Lines(body) {
		text := strings.TrimSpace(string(line))
		if m := swfHeaders.FindStringSubmatch(text); m != nil {
			switch strings.ToLower(m[1]) {
			case "maxprocs", "maxnodes", "unixstarttime", "maxjobs", "maxrecords", "maxruntime", "maxqueues", "maxpartitions":
				fmt.Fprintf(&out, "; %s: %s\n", m[1], m[2])
			}
			continue
		}
		if strings.HasPrefix(text, ";") {
			continue
		}
		words := strings.Fields(text)
		for i := range words {
			words[i] = w.name(words[i])
		}
		out.WriteString(strings.Join(words, " ") + "\n")
	}
	return out.Bytes()
}

// delimited walks through what sacct -P and sacctmgr -P write.
func (w *walker) delimited(body []byte) []byte {
	var out bytes.Buffer
	var names []string
	delimiter := "|"
	for line := range bytes.Lines(body) {
		text := strings.TrimRight(string(line), "\r\n")
		if names == nil {
			for _, d := range []string{"\x1f", "\t"} {
				if strings.Contains(text, d) {
					delimiter = d
				}
			}
			names = strings.Split(strings.ToLower(text), delimiter)
			header := strings.Split(text, delimiter)
			for i := range header {
				if !known[strings.ToLower(header[i])] && classes[strings.ToLower(header[i])] == nil {
					header[i] = w.name(header[i])
				}
			}
			out.WriteString(strings.Join(header, delimiter) + "\n")
			continue
		}
		if text == "" {
			continue
		}
		row := strings.Split(text, delimiter)
		if len(row) > len(names) {
			row = joinSurplus(names, row, delimiter)
		}
		for i, value := range row {
			column := ""
			if i < len(names) {
				column = names[i]
			}
			blank := len(value) - len(strings.TrimLeft(value, " "))
			row[i] = value[:blank] + w.value("", column, strings.TrimSpace(value))
		}
		out.WriteString(strings.Join(row, delimiter) + "\n")
	}
	return out.Bytes()
}

// joinSurplus joins the fields that delimiters inside texts cut, as readers do. A row that nothing explains loses its
// last fields.
func joinSurplus(names, row []string, delimiter string) []string {
	var columns []int
	for _, column := range history.TextFields {
		if at := slices.Index(names, column); at >= 0 {
			columns = append(columns, at)
		}
	}
	fits := func(row []string) bool { return rowFits(names, row) }
	if joined := history.JoinSurplus(row, len(names), columns, delimiter, fits); joined != nil {
		return joined
	}
	return row[:len(names)]
}

// rowFits reports whether the columns of states and times hold such.
func rowFits(names, row []string) bool {
	for i, name := range names {
		switch name {
		case "submit", "start", "end":
			if !harmless(row[i]) {
				return false
			}
		case "state":
			word, _, _ := strings.Cut(row[i], " ")
			if !vocabulary[strings.ToLower(strings.TrimRight(word, "+"))] && word != "" {
				return false
			}
		}
	}
	return true
}

// native walks through lines without a header with tabs between fields, as Gavel and Shockwave write them.
func (w *walker) native(body []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(body) {
		row := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
		for i, value := range row {
			column := ""
			switch {
			case i == 0:
				column = "job_type"
			case vocabulary[strings.ToLower(value)]:
				continue // the mode of a batch
			}
			row[i] = w.value("", column, value)
		}
		out.WriteString(strings.Join(row, "\t") + "\n")
	}
	return out.Bytes()
}

// csv walks through a table, of which a row with another number of fields than the first is text.
func (w *walker) csv(name string, body []byte) ([]byte, error) {
	var out bytes.Buffer
	write := csv.NewWriter(&out)
	var columns []string
	form, header := "", false
	err := history.TableRows(name, bytes.NewReader(body), func(row []string, comma rune) error {
		write.Comma = comma
		if columns == nil {
			if columns, form, header = history.TableColumns(row); header {
				for i := range row {
					if !known[columns[i]] && classes[columns[i]] == nil {
						row[i] = w.name(row[i])
					}
				}
				return write.Write(row)
			}
		}
		for i, value := range row {
			column := ""
			if i < len(columns) {
				column = columns[i]
			}
			switch {
			case header && len(row) != len(columns):
				row[i] = w.name(value)
				continue
			case form == "acme" && column == "type":
				column = "" // what a job does
			case column == "model" && slices.Contains(columns, "sn"):
				column = "gpu_type" // of openb's nodes
			}
			row[i] = w.value("", column, strings.TrimSpace(value))
		}
		return write.Write(row)
	})
	write.Flush()
	return out.Bytes(), err
}
