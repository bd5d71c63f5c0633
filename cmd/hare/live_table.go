package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-sched/hare/internal/words"
	"golang.org/x/term"
)

// liveTable redraws a text on a terminal in place.
type liveTable struct {
	w             io.Writer
	width, height int
	drawn         int // lines on the screen
}

// refreshEvery is how often a live table is drawn.
const refreshEvery = time.Second

// showLive prints a text once or, where it goes to a terminal and once is not set, again and again until the text
// is final or ctx ends. height is the number of lines that there is room for; 0 means any.
func showLive(ctx context.Context, w io.Writer, once bool, render func(height int) (text string, final bool,
	err error)) error {
	f, isFile := exact(w).(*os.File)
	if once || !isFile || !term.IsTerminal(int(f.Fd())) {
		text, _, err := render(0)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		return err
	}
	t := liveTable{w: f}
	for {
		var err error
		if t.width, t.height, err = term.GetSize(int(f.Fd())); err != nil || t.width < 1 || t.height < 2 {
			t.width, t.height = 80, 24 // some terminals do not say their size
		}
		text, final, err := render(t.height - 1)
		if err == nil {
			err = t.draw(text)
		}
		if ctx.Err() != nil {
			return nil // Ctrl-C is how one leaves a live table
		}
		if err != nil || final {
			return err
		}
		if err := rest(ctx, refreshEvery); err != nil {
			return errIfNot(err, context.Canceled)
		}
	}
}

func errIfNot(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// draw replaces what was drawn before.
func (t *liveTable) draw(text string) error {
	lines := strings.Split(strings.TrimSuffix(words.PlainLines(text), "\n"), "\n")
	if len(lines) > t.height-1 {
		lines = lines[:max(1, t.height-1)]
	}
	var out strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", t.drawn)
	}
	for _, line := range lines {
		out.WriteString("\r\x1b[K" + clipRunes(line, t.width) + "\n")
	}
	out.WriteString("\x1b[J") // what was longer before
	t.drawn = len(lines)
	_, err := io.WriteString(t.w, out.String())
	return err
}

// clipRunes shortens a line to the width of the terminal, so that no line wraps.
func clipRunes(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(0, width-1)]) + "…"
}
