package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/history/pseudonym"
)

type anonymiseFlags struct {
	folder string
}

// anonymiseCommand replaces the names in texts.
func anonymiseCommand() *cobra.Command {
	var af anonymiseFlags
	c := &cobra.Command{
		Use:   "anonymise FILE... -o FOLDER",
		Short: "Replace users, jobs, nodes and other names in texts of a cluster by invented ones",
		Long: `Anonymise writes copies of texts in which all names are invented, so that a case can be sent to a
stranger: what hare import, shadow and the other commands make of the copies is the same apart from names.
It takes instances, results, logs of sessions and of hare shadow --live, and all texts that hare import
reads: sacct, squeue, sinfo, scontrol and sacctmgr, objects of Kubernetes, Ray's answers, tables.

Numbers, times, states, GPU types and resources stay. Everything else that is not known to be harmless
is replaced: users, accounts, jobs, nodes, partitions, features, labels, paths, comments; of command
lines the options stay that say what a job asks for. Names keep their order, and a name becomes the same
invented one in all files that are given together: give the files of one case at once. Files get numbers
for names. Look at what was written before you send it.`,
		Example: `  hare anonymise jobs.txt nodes.txt squeue.json -o case
  hare import slurm case/* -o week.json`,
		RunE: func(c *cobra.Command, args []string) error { return af.run(c, args) },
	}
	c.Flags().StringVarP(&af.folder, "output", "o", "", "write the copies into this folder")
	outputs(c, outputFolder, "output")
	return c
}

func (af *anonymiseFlags) run(c *cobra.Command, args []string) error {
	if len(args) == 0 || af.folder == "" {
		return usageError{errors.New("anonymise takes files and a folder for the copies: hare anonymise FILE... -o " +
			"FOLDER")}
	}
	texts := make([]pseudonym.Text, len(args))
	for i, name := range args {
		if slices.Contains(args[:i], name) {
			return usageError{fmt.Errorf("%s is given twice", name)}
		}
		f, err := openIn(name)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
		_ = f.Close()
		if err != nil {
			return err
		}
		if len(body) > maxFileBytes {
			return usageError{fmt.Errorf("%s has more than %d MiB: give a shorter time", name, maxFileBytes>>20)}
		}
		texts[i] = pseudonym.Text{Name: name, Body: body}
	}
	copies, names, err := pseudonym.Rename(texts)
	if err != nil {
		return usageError{err}
	}
	files := make([]outFile, len(copies))
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for i, body := range copies {
		name := fmt.Sprintf("%0*d%s", len(fmt.Sprint(len(copies))), i+1, ending(args[i], body))
		files[i] = outFile{name, func(w io.Writer) error { _, err := w.Write(body); return err }}
		fmt.Fprintf(t, "%s\t%s\n", filepath.Join(af.folder, name), args[i])
	}
	if err := writeAll(af.folder, files); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%d names replaced\n", len(names))
	return nil
}

// ending is the end of the name of a copy: that of the file, if it says nothing but the form.
func ending(name string, body []byte) string {
	for _, end := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, end)
	}
	end := strings.ToLower(filepath.Ext(name))
	switch {
	case len(body) > 0 && (body[0] == '{' || body[0] == '['):
		if end == ".jsonl" || end == ".ndjson" || bytes.Count(body, []byte("\n")) > 1 {
			return ".jsonl"
		}
		return ".json"
	case slices.Contains([]string{".csv", ".txt", ".swf", ".trace", ".tsv"}, end):
		return end
	}
	return ".txt"
}
