package rounds

import (
	"net"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/link"
)

// TestFarewell tells a program of the end that goes without a word: the job has ended all the same.
func TestFarewell(t *testing.T) {
	a, b := net.Pipe()
	l := link.New(a, 1<<10)
	go l.Read()
	heard := make(chan link.Kind, 1)
	go func() {
		defer b.Close()
		f, err := link.ReadFrame(b, 0)
		if err != nil {
			t.Error(err)
			f = new(link.Frame)
		}
		heard <- f.Kind
	}()
	p := &peer{rank: 1, link: &connection{Link: l, round: -1}, changed: make(chan struct{})}
	if err := p.finish(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	if k := <-heard; k != kindEnd {
		t.Errorf("the program was told %q", k)
	}
}
