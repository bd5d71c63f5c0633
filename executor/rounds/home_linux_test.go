package rounds

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// TestFarewell tells a program of the end that goes without a word: the job has ended all the same.
func TestFarewell(t *testing.T) {
	a, b := net.Pipe()
	l := newLink(a, 1<<10)
	go l.read(bufio.NewReader(a))
	heard := make(chan kind, 1)
	go func() {
		defer b.Close()
		f, err := readFrame(b, 0)
		if err != nil {
			t.Error(err)
			f = new(frame)
		}
		heard <- f.Kind
	}()
	p := &peer{rank: 1, link: l, changed: make(chan struct{})}
	if err := p.finish(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	if k := <-heard; k != kindEnd {
		t.Errorf("the program was told %q", k)
	}
}
