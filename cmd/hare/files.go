package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// maxFileBytes limits the decompressed size of the files that commands decode.
const maxFileBytes = 4 << 30

// openIn opens a file, or standard input for "-". Files are decompressed by the ending
// of their names, standard input by its first bytes.
func openIn(name string) (io.ReadCloser, error) {
	var f io.ReadCloser = io.NopCloser(os.Stdin)
	if name != "-" {
		if isFolder(name) {
			return nil, usageError{fmt.Errorf("%s is a folder: name a file", name)}
		}
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		f = file
	}
	b := bufio.NewReaderSize(f, 1<<16)
	head, _ := b.Peek(4)
	switch {
	case len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b:
		z, err := gzip.NewReader(b)
		if err != nil {
			_ = f.Close()
			return nil, usageError{fmt.Errorf("%s: %w", name, damagedText(err))}
		}
		return decompressed{unpacked{z}, f}, nil
	case string(head) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			_ = f.Close()
			return nil, usageError{fmt.Errorf("%s: %w", name, err)}
		}
		return decompressed{unpacked{z.IOReadCloser()}, f}, nil
	}
	return decompressed{io.NopCloser(b), f}, nil
}

// unpacked says of a text that cannot be decompressed to its end that the file is damaged: a decoder would take the
// fault for one of the text.
type unpacked struct{ io.ReadCloser }

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = damagedText(err)
	}
	return n, err
}

func damagedText(err error) error {
	return fmt.Errorf("the compressed text is cut off or damaged: make or copy it again (%v)", err)
}

// decompressed closes a decompressor and then the file below.
type decompressed struct {
	io.ReadCloser
	below io.Closer
}

func (d decompressed) Close() error { return errors.Join(d.ReadCloser.Close(), d.below.Close()) }

func readInstance(name string) (*hare.Instance, error) {
	return readDocument(name, anInstance, func(r io.Reader) (*hare.Instance, error) {
		return wire.DecodeInstance(r, wire.Limits{MaxBytes: maxFileBytes})
	})
}

func readResult(name string) (*hare.Result, error) {
	return readDocument(name, aResult, func(r io.Reader) (*hare.Result, error) {
		return wire.DecodeResult(r, wire.Limits{MaxBytes: maxFileBytes})
	})
}

func readCluster(name string) (*hare.Cluster, error) {
	return readDocument(name, aCluster, func(r io.Reader) (*hare.Cluster, error) {
		return wire.DecodeCluster(r, wire.Limits{MaxBytes: maxFileBytes})
	})
}

// inputError names the file of an error. Every error of a decoder is a fault of the
// input.
func inputError(name string, err error) error {
	if name == "-" {
		name = "standard input"
	}
	return usageError{fmt.Errorf("%s: %w", name, err)}
}

// noTwice returns an error if two arguments read standard input.
func noTwice(names ...string) error {
	n := 0
	for _, x := range names {
		if x == "-" {
			n++
		}
	}
	if n > 1 {
		return usageError{errors.New("only one argument can be standard input")}
	}
	return nil
}

// isFolder reports whether a name is that of a folder.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
