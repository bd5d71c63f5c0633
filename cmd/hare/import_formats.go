package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// printFormats writes one line for each format that import reads.
func printFormats(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range historySources {
		fmt.Fprintf(t, "%s\t%s\n", s.name, strings.TrimPrefix(s.short, "Convert "))
	}
	for _, name := range trace.ImportFormats() {
		fmt.Fprintf(t, "%s\t%s\n", name, trace.About(name))
	}
	return t.Flush()
}

// withFormat adds the format to the arguments of hare import that begin with a file, by what the files hold.
func withFormat(root *cobra.Command, args []string) ([]string, error) {
	if len(args) < 2 || args[0] != "import" {
		return args, nil
	}
	c, _, err := root.Find(args[:1])
	if err != nil {
		return args, nil
	}
	files := positional(c, args[1:])
	if len(files) == 0 || slices.Contains(importNames(), files[0]) {
		return args, nil
	}
	if files[0] == "-" {
		return nil, usageError{fmt.Errorf("name the format of standard input: hare import FORMAT - (see hare import " +
			"--list-formats)")}
	}
	if _, err := os.Stat(files[0]); err != nil {
		return args, nil // a format that is not known
	}
	format, err := detectFiles(files)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{"import", format}, args[1:]), nil
}

// importNames are the names of all formats.
func importNames() []string {
	names := trace.ImportFormats()
	for _, s := range historySources {
		names = append(names, s.name)
	}
	return names
}

// positional returns the arguments that are neither flags of import or a command below it, nor values of such.
func positional(c *cobra.Command, args []string) (out []string) {
	lookup := func(find func(f *pflag.FlagSet) *pflag.Flag) (takesValue bool) {
		for _, c := range append([]*cobra.Command{c}, c.Commands()...) {
			if f := find(c.Flags()); f != nil {
				return f.NoOptDefVal == ""
			}
		}
		return false
	}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return append(out, args[i+1:]...)
		case strings.HasPrefix(arg, "--"):
			if !strings.Contains(arg, "=") && lookup(func(f *pflag.FlagSet) *pflag.Flag { return f.Lookup(arg[2:]) }) {
				i++
			}
		case len(arg) > 1 && arg[0] == '-':
			if len(arg) == 2 && lookup(func(f *pflag.FlagSet) *pflag.Flag { return f.ShorthandLookup(arg[1:]) }) {
				i++
			}
		default:
			out = append(out, arg)
		}
	}
	return out
}

// armadaText begins a specification of Armada's simulator.
var armadaText = regexp.MustCompile(`(?m)^(clusters|queues)\s*:|^\s*\{.*"(clusters|queues)"\s*:`)

// detectFile finds the format of one file; nodes says that it has nothing but nodes.
func detectFile(name string) (format string, nodes bool, err error) {
	f, err := openIn(name)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }()
	head, err := bufio.NewReaderSize(f, 1<<16).Peek(1 << 16)
	if err != nil && err != io.EOF {
		return "", false, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	if format, nodes = history.Detect(head); format != "" {
		return format, nodes, nil
	}
	if format, err := trace.DetectFormat(trace.Source{Name: name, R: bytes.NewReader(head)}); err == nil {
		return format, false, nil
	}
	if armadaText.Match(head) {
		return "armada", false, nil
	}
	if trimmed := bytes.TrimSpace(head); bytes.HasPrefix(trimmed, []byte(`{"hare"`)) ||
		len(trimmed) > 0 && trimmed[0] == '{' && bytes.Contains(head[:min(len(head), 200)], []byte(`"hare"`)) {
		return "", false, usageError{fmt.Errorf("%s is a document of Hare's own: there is nothing to import", name)}
	}
	near := ""
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if header, err := csv.NewReader(bytes.NewReader(line)).Read(); err == nil {
		forms, lacking := history.Near(header)
		if more, least := trace.Near(header); len(forms) == 0 || least < lacking {
			forms = more
		} else if least == lacking {
			forms = append(forms, more...)
		}
		if len(forms) > 0 {
			near = "; nearest: " + strings.Join(forms[:min(3, len(forms))], ", ")
		}
	}
	return "", false, usageError{fmt.Errorf("%.60s: name the format, hare import FORMAT FILE (see --list-formats): "+
		"its content shows "+
		"none%s", name, near)}
}

// detectFiles finds the format of files that are read together.
func detectFiles(files []string) (string, error) {
	var formats, firsts []string
	for _, name := range files {
		format, nodes, err := detectFile(name)
		if err != nil {
			return "", err
		}
		if nodes && len(files) > 1 || slices.Contains(formats, format) {
			continue
		}
		formats, firsts = append(formats, format), append(firsts, name)
	}
	switch len(formats) {
	case 0:
		return "history", nil
	case 1:
		return formats[0], nil
	}
	return "", usageError{fmt.Errorf("name the format, hare import FORMAT FILE…: %.40s is %s, and %.40s is %s", firsts[0],
		formats[0], firsts[1], formats[1])}
}
