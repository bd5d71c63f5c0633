package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// writeOut writes a file; "-" and "" mean standard output. A regular file is replaced
// when its new content is complete, so that a failure leaves the old file intact.
// Symbolic links are kept, and their targets are written. A FIFO or a device is written
// in place.
func writeOut(name string, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		w := bufio.NewWriterSize(os.Stdout, 1<<16)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	o, err := stageOutput(name, write)
	if err != nil {
		return err
	}
	defer o.discard()
	return o.commit()
}

// output is a file whose new content is staged.
type output struct {
	name  string                // as the user gave it; its ending selects the compression
	final string                // name with symbolic links followed
	next  *atomicfile.File      // the complete content, beside final; nil where final is written in place
	write func(io.Writer) error // writes the content
}

// stageOutput writes the content to a file beside its name, if the name is a regular
// file or does not exist; otherwise commit writes the content.
func stageOutput(name string, write func(io.Writer) error) (*output, error) {
	o := &output{name: name, final: name, write: write}
	mode := os.FileMode(0o644)
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return nil, &os.PathError{Op: "write", Path: name, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return o, nil
	case err == nil:
		mode = info.Mode().Perm()
	}
	var err error
	if o.final, err = followLinks(name); err != nil {
		return nil, err
	}
	if isDescriptor(o.final) {
		return o, nil
	}
	if o.next, err = atomicfile.Create(o.final, 0o600); err != nil {
		return nil, err
	}
	// What a full disk refuses, Sync says before another file of the same command is replaced.
	if err := errors.Join(compressed(o.next, name, write), o.next.Chmod(mode), o.next.Sync()); err != nil {
		o.discard()
		return nil, err
	}
	return o, nil
}

// commit lets the staged content durably replace the file, or writes the content in place.
func (o *output) commit() error {
	if o.next != nil {
		return o.next.Commit()
	}
	if info, err := os.Stat(o.name); err == nil && isStdout(info) {
		return compressed(os.Stdout, o.name, o.write) // through the descriptor, whose offset other processes may share
	}
	f, err := os.OpenFile(o.final, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return errors.Join(compressed(f, o.name, o.write), f.Close())
}

// discard removes a staged file that was not committed.
func (o *output) discard() {
	if o.next != nil {
		o.next.Discard()
	}
}

func isStdout(info os.FileInfo) bool {
	out, err := os.Stdout.Stat()
	return err == nil && os.SameFile(info, out)
}

// isDescriptor reports whether a name is that of an open file of a process, such as
// /proc/self/fd/1, to which /dev/stdout and /dev/fd/1 are links.
func isDescriptor(name string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name))
	return err == nil && strings.HasPrefix(dir, "/proc/")
}

// maxLinks is the number of symbolic links after which Linux gives up too.
const maxLinks = 40

// followLinks returns the file to which symbolic links lead, even if that file does not
// exist yet. It stops at names of open files, which a rename must not replace.
func followLinks(name string) (string, error) {
	for range maxLinks {
		if isDescriptor(name) {
			return name, nil
		}
		to, err := os.Readlink(name)
		if err != nil { // the name is not a link, or does not exist yet
			return name, nil
		}
		if !filepath.IsAbs(to) {
			// The directory is resolved first, since its own ".." may lead elsewhere.
			dir, err := filepath.EvalSymlinks(filepath.Dir(name))
			if err != nil {
				return "", err
			}
			to = filepath.Join(dir, to)
		}
		name = to
	}
	return "", &os.PathError{Op: "write", Path: name,
		Err: fmt.Errorf("more than %d symbolic links: %w", maxLinks, syscall.ELOOP)}
}

// compressed writes the content, compressed as the ending of name selects.
func compressed(f io.Writer, name string, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(f, 1<<16)
	switch {
	case strings.HasSuffix(name, ".gz"):
		z := gzip.NewWriter(b)
		if err := errors.Join(write(z), z.Close()); err != nil {
			return err
		}
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewWriter(b)
		if err != nil {
			return err
		}
		if err := errors.Join(write(z), z.Close()); err != nil {
			return err
		}
	default:
		if err := write(b); err != nil {
			return err
		}
	}
	return b.Flush()
}
