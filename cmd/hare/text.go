package main

import (
	"bytes"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/hare-sched/hare/internal/words"
)

// What people read on standard output and standard error goes through these two. Names come from
// documents that others wrote; so no character of a name may steer the terminal, hide a text or
// feign another one. Documents for programs go to exact(stdout).
var (
	stdout = &textWriter{to: os.Stdout}
	stderr = &textWriter{to: os.Stderr}
)

// textWriter writes text for people by plainLines. Up to three bytes at the end of a Write that
// may be the beginning of a character wait for the next Write. Safe for concurrent use.
type textWriter struct {
	to   *os.File
	mu   sync.Mutex
	part []byte
}

func (tw *textWriter) Write(p []byte) (int, error) {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	text := p
	if len(tw.part) > 0 {
		text = append(tw.part, p...)
		tw.part = nil
	}
	for back := 1; back <= min(utf8.UTFMax-1, len(text)); back++ {
		if end := text[len(text)-back:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				tw.part = bytes.Clone(end)
				text = text[:len(text)-back]
			}
			break
		}
	}
	if _, err := io.WriteString(tw.to, words.PlainLines(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// exact returns the writer below a textWriter, for documents that programs read and for outputs of
// jobs; others are returned as they are.
func exact(w io.Writer) io.Writer {
	if tw, ok := w.(*textWriter); ok {
		return tw.to
	}
	return w
}
