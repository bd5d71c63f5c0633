package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// partEvery is the time between two lines about one part.
const partEvery = 5 * time.Second

// partLines writes how far a command of several parts is: a line when a part begins, and then one at
// most every partEvery, with the share of the part that is done and the time that is left of it.
type partLines struct {
	w       io.Writer
	command string
	parts   []string
	now     func() time.Time

	mu           sync.Mutex
	part         string
	done         float64
	began, wrote time.Time // when the part began, and when the last line was written
	commandBegan time.Time
}

// update is called with the share of a part that is done.
func (pl *partLines) update(part string, done float64) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if part != pl.part {
		pl.part, pl.began, pl.wrote = part, pl.now(), time.Time{}
		if pl.commandBegan.IsZero() {
			pl.commandBegan = pl.began
		}
	}
	pl.done = done
	pl.line()
}

// line writes a line if one is due.
func (pl *partLines) line() {
	now := pl.now()
	if pl.part == "" || !pl.wrote.IsZero() && now.Sub(pl.wrote) < partEvery {
		return
	}
	pl.wrote = now
	text := fmt.Sprintf("%s: part %d of %d, %s", pl.command, slices.Index(pl.parts, pl.part)+1, len(pl.parts), pl.part)
	spent := now.Sub(pl.began)
	switch {
	case pl.done > 0:
		left := time.Duration(float64(spent) * (1/pl.done - 1))
		text += fmt.Sprintf(": %.0f %% after %s, about %s left", 100*pl.done, spent.Round(time.Second),
			left.Round(time.Second))
	case spent > 0:
		text += fmt.Sprintf(": for %s", spent.Round(time.Second))
	}
	fmt.Fprintf(pl.w, "%s (%s in all)\n", text, now.Sub(pl.commandBegan).Round(time.Second))
}

// watch writes lines also while a part reports nothing, until stop is called.
func (pl *partLines) watch() (stop func()) {
	ticker, quit, gone := time.NewTicker(partEvery), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				pl.mu.Lock()
				pl.line()
				pl.mu.Unlock()
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(quit)
		<-gone
	}
}
