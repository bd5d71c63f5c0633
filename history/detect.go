package history

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Detect tells by the begin of a text, unpacked, which source it is of; "" if none is certain. nodes says that the
// text has only nodes, as every table of jobs may have beside it.
func Detect(head []byte) (source string, nodes bool) {
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return "kai", false
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first := strings.ToLower(strings.TrimRight(string(line), "\r"))
	switch {
	case len(head) == 0:
		return "", false
	case head[0] == '{' || head[0] == '[':
		return detectJSON(head), false
	case strings.HasPrefix(first, "nodename="), strings.HasPrefix(first, "reservationname="),
		strings.HasPrefix(first, "nodename|"), strings.Contains(first, "jobid") &&
			(strings.ContainsAny(first, "|\x1f") || strings.Contains(first, "alloctres")):
		return "slurm", false
	case isSWF(head):
		return "swf", false
	}
	row := firstRow(line)
	if row == nil {
		return "", false
	}
	if form, ok := formOf(headerOf(row)); ok {
		return form.name, form.kind == tableOfNodes
	}
	switch name, header := paiTable(row); {
	case header, name == "pai_task_table" && slices.Contains([]string{"Terminated", "Failed", "Running", "Waiting"},
		row[3]):
		return "pai", false
	}
	return "", false
}

// firstRow returns the fields of the first line of a table; nil for another text.
func firstRow(line []byte) []string {
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma = Delimiter(string(line))
	row, err := r.Read()
	if err != nil {
		return nil
	}
	return row
}

// sourceOf is Detect, but for a table of jobs whose columns have other names it says history, too.
func sourceOf(head []byte) string {
	source, _ := Detect(head)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if _, enough := renames(headerOf(firstRow(line)), neededColumns); source == "" && enough {
		return "history"
	}
	return source
}

// isSWF reports whether a text begins with a comment or a job of the Standard Workload Format.
func isSWF(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	words := bytes.Fields(line)
	return head[0] == ';' || len(words) == swfFields && !slices.ContainsFunc(words, func(word []byte) bool {
		return len(bytes.Trim(word, "-0123456789.")) > 0
	})
}

// detectJSON tells by the names of members in the begin of a document.
func detectJSON(head []byte) string {
	names := map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(head))
	var keys []bool // whether the next string of each open object is a name; false in lists
	for {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				keys = append(keys, true)
				continue
			case '[':
				keys = append(keys, false)
				continue
			}
			keys = keys[:len(keys)-1]
		case string:
			if n := len(keys); n > 0 && keys[n-1] && nextIsValue(head, d.InputOffset()) {
				names[t] = true
				continue
			}
		}
	}
	has := func(any ...string) bool {
		return slices.ContainsFunc(any, func(name string) bool { return names[name] })
	}
	switch {
	case has("hare"):
		return ""
	case has("rawObjects", "schedulerParams"):
		return "kai"
	case has("apiVersion"):
		return "kube"
	case has("submission_id", "driver_info", "placement_group_id", "actor_id", "raylet", "is_head_node", "node_ip"):
		return "ray"
	case has("job_id", "hostname", "sinfo", "reservations") && has("meta", "jobs", "nodes", "sinfo", "reservations"):
		return "slurm"
	case has("meta") && has("jobs", "nodes"):
		return "slurm"
	}
	return ""
}

// nextIsValue reports whether a colon follows a place of a JSON text.
func nextIsValue(text []byte, at int64) bool {
	rest := bytes.TrimLeft(text[min(int64(len(text)), at):], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// Near lists the forms of tables to which a header comes nearest, with what it lacks, as "acme (lacks gpu_num)"; the
// number is how many columns each lacks. A table of jobs whose columns have other names lacks none: it stands last, as
// "history (rename num_gpus to gpus)".
func Near(header []string) (forms []string, lacking int) {
	lacking, header = 3, headerOf(header)
	for i := range tableForms {
		f := &tableForms[i]
		missing := f.missing(header)
		if len(missing) > lacking || len(missing) == f.needed || slices.Contains(missing, "node") {
			continue
		}
		if len(missing) < lacking {
			forms, lacking = nil, len(missing)
		}
		if !slices.ContainsFunc(forms, func(form string) bool { return strings.HasPrefix(form, f.name+" ") }) {
			forms = append(forms, fmt.Sprintf("%s (lacks %s)", f.name, strings.Join(missing, ", ")))
		}
	}
	if hint, enough := renames(header, neededColumns); enough {
		return append(forms[:min(1, len(forms))], "history ("+hint+")"), 0
	}
	return forms, lacking
}
