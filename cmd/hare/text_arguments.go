package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fileFlags name files of this machine, whose names may be any bytes.
var fileFlags = []string{"api-key-file", "ca", "data-dir", "dir", "directory", "faults", "happened", "history",
	"instance", "instances", "kubeconfig", "log", "nvml", "out", "output", "parameters", "patch", "plot", "previous",
	"previous-instance", "prices", "python", "record", "report", "rest", "result", "runtime-env", "svg", "table",
	"tls-cert", "tls-key", "token-file", "trace", "warm"}

// fileWords are what files are called in the usage of commands that take them as arguments.
var fileWords = []string{"DIR", "FILE", "HISTORY", "INSTANCE", "LOG", "RESULT", "TRACE"}

// checkTexts refuses arguments that are not valid UTF-8. They end in documents, and JSON would
// change them: a job would get another argument than its submitter gave. Names of files are taken
// as they are.
func checkTexts(c *cobra.Command, args []string) (err error) {
	submits := strings.Contains(c.Use, "COMMAND")
	c.Flags().Visit(func(f *pflag.Flag) {
		// A directory of a job is one of the nodes and ends in a document; that of a queue is here.
		here := slices.Contains(fileFlags, f.Name) && !(c.CommandPath() == "hare submit" && strings.HasPrefix(f.Name, "dir"))
		if err == nil && !here && !utf8.ValidString(f.Value.String()) {
			err = notUTF8("--" + f.Name)
		}
	})
	named := func(w string) bool { return strings.Contains(c.Use, w) }
	if err != nil || !submits && slices.ContainsFunc(fileWords, named) {
		return err
	}
	for i, arg := range args {
		if !utf8.ValidString(arg) {
			return notUTF8(fmt.Sprintf("argument %d, %.200q,", i+1, arg))
		}
	}
	return nil
}

// notUTF8 is the error of a text that cannot be in a document. It does not show variables, which may be
// secret.
func notUTF8(where string) error {
	return usageError{fmt.Errorf("%s is not valid UTF-8: no document can have it", where)}
}
