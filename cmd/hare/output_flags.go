package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// outputKey is the annotation of flags that name what a command writes: one of the kinds below. Every such flag is
// checked before the work begins, so that a long solve does not end in a folder that is missing.
const outputKey = "hare_output"

const (
	outputFile    = "file"   // any text
	outputLog     = "log"    // NDJSON; one that is there goes on
	outputData    = "data"   // JSON or NDJSON
	outputPage    = "page"   // an HTML page
	outputSVG     = "svg"    // a picture, SVG alone
	outputPicture = "draw"   // SVG, PNG or an HTML page, by the ending
	outputFolder  = "folder" // a folder, which is made where it is missing
)

// outputs marks flags that name outputs of a kind.
func outputs(c *cobra.Command, kind string, names ...string) {
	for _, name := range names {
		if err := c.Flags().SetAnnotation(name, outputKey, []string{kind}); err != nil {
			panic(err) // a mistake of the caller: the flag does not exist
		}
	}
}

// outputKind returns the kind of output that a flag names, and "" for other flags.
func outputKind(f *pflag.Flag) string {
	if kinds := f.Annotations[outputKey]; len(kinds) > 0 {
		return kinds[0]
	}
	return ""
}

// checkOutputs refuses the flags of outputs that could not be written, or that would replace an input.
func checkOutputs(c *cobra.Command, args []string) (err error) {
	inputs := slices.Clone(args)
	c.Flags().Visit(func(f *pflag.Flag) {
		if many, ok := f.Value.(pflag.SliceValue); ok {
			inputs = append(inputs, many.GetSlice()...)
		} else if changes, ok := f.Value.(*changeFlag); ok {
			inputs = append(inputs, changes.files()...)
		} else if slices.Contains(fileFlags, f.Name) && outputKind(f) == "" {
			inputs = append(inputs, f.Value.String())
		}
	})
	written := map[string]string{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		kind, name := outputKind(f), f.Value.String()
		if err != nil || kind == "" || name == "" || name == "-" && kind != outputPicture {
			return
		}
		bad := checkOutput(kind, name)
		if bad == nil && kind != outputLog {
			bad = notTwice(name, inputs)
		}
		if other, twice := written[filepath.Clean(name)]; bad == nil && twice && kind != outputFolder {
			bad = fmt.Errorf("--%s names the same file", other)
		}
		written[filepath.Clean(name)] = f.Name
		if bad != nil {
			err = usageError{fmt.Errorf("--%s %s: %w", f.Name, name, bad)}
		}
	})
	return err
}

// notTwice refuses an output that is one of the inputs.
func notTwice(name string, inputs []string) error {
	out, err := os.Stat(name)
	if err != nil || !out.Mode().IsRegular() {
		return nil
	}
	for _, in := range inputs {
		if info, err := os.Stat(in); err == nil && os.SameFile(info, out) {
			return errors.New("it is also an input, which would be lost: name another file")
		}
	}
	return nil
}

// checkOutput checks one output by its name.
func checkOutput(kind, name string) error {
	ending := strings.ToLower(filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")))
	is := func(endings ...string) bool { return slices.Contains(endings, ending) }
	switch kind {
	case outputFolder:
		return canBeFolder(name)
	case outputPicture:
		if !is(".svg", ".png", ".html", ".htm") {
			return errors.New("what it draws is known by the ending: end the name in .svg, .png or .html")
		}
	case outputSVG:
		if is(".png", ".html", ".htm", ".pdf", ".jpg", ".json") {
			return errors.New("the picture is an SVG: end the name in .svg")
		}
	case outputPage:
		if is(".svg", ".png", ".pdf", ".jpg", ".json", ".csv") {
			return errors.New("it is a page: end the name in .html")
		}
	case outputData:
		if is(".svg", ".png", ".html", ".htm", ".pdf", ".jpg", ".csv") {
			return errors.New("it is written as JSON: end the name in .json (hare plot draws schedules)")
		}
	}
	return canBeOutput(name)
}

// canBeOutput checks that a file can be written.
func canBeOutput(name string) error {
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return errors.New("it is a folder: name a file")
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	final, err := followLinks(name)
	if err != nil || isDescriptor(final) {
		return err
	}
	return canCreate(filepath.Dir(final), "."+filepath.Base(final)+".*")
}

// canBeFolder checks that files can be written into a folder or, where it does not exist, that it can be made.
func canBeFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return errors.New("it is a file: name a folder")
	case err != nil && slices.Contains([]string{".html", ".csv", ".json", ".svg", ".png", ".parquet", ".md"},
		strings.ToLower(filepath.Ext(dir))):
		return errors.New("several files are written: name a folder")
	}
	for err != nil && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		if info, err = os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is a file, not a folder: name another", dir)
		}
	}
	return canCreate(dir, ".hare-*")
}

// canCreate checks that a file can be created in a folder.
func canCreate(dir, pattern string) error {
	probe, err := os.CreateTemp(dir, pattern)
	switch {
	case errors.Is(err, os.ErrNotExist) && !isFolder(dir):
		return fmt.Errorf("there is no folder %s: create it or name another", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is not a folder: name another", dir)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no file may be written in %s: name another folder", dir)
	case err != nil:
		return fmt.Errorf("no file can be written in %s: %w", dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
