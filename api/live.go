package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/hare-sched/hare/admission"
)

// feed describes what a live stream sends.
type feed[T any] struct {
	of    string // name of the stream in metrics
	items func(ctx context.Context) iter.Seq2[T, error]
	// write appends an item: an event with its id, or a line.
	write func(l *liveWriter, item T)
	// last reports whether an item is the last; nil means that no item is.
	last func(item T) bool
	// code returns the code of an error that ended the items.
	code func(error) string
	// ahead is how many items are buffered for a slow client.
	ahead int
	retry time.Duration // reconnection time that is sent to an EventSource; 0 is not sent
}

// behind returns the id after which a stream begins: the Last-Event-ID of an
// EventSource that reconnects, or ?after=.
func behind(r *http.Request) (int64, error) {
	after, err := number(r, "after")
	if err != nil {
		return 0, err
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		if after, err = strconv.ParseInt(id, 10, 64); err != nil || after < 0 || id[0] == '+' || id[0] == '-' {
			return 0, &statusError{http.StatusBadRequest, "bad_query",
				"Last-Event-ID must be the id of an event of this stream, a whole number"}
		}
	}
	return after, nil
}

// found is one step of a feed.
type found[T any] struct {
	item T
	err  error
}

// follow sends items until the last item has been sent, the client disconnects, the
// owner of the items is deleted, or the server ends. A slow client delays nobody
// else: items that it has not read yet stay in the store.
func follow[T any](s *server, w http.ResponseWriter, r *http.Request, events bool, f feed[T]) error {
	if !s.svc.Ready() {
		return admission.ErrDraining
	}
	end, err := s.stream(r.Context(), f.of)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(r.Context())
	// The goroutine reads items ahead of the client.
	next, gone := make(chan found[T], f.ahead), make(chan struct{})
	go func() {
		defer close(gone)
		defer close(next)
		for item, err := range f.items(ctx) {
			select {
			case next <- found[T]{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		<-gone
	}()
	out := &liveWriter{w: w, control: http.NewResponseController(w), events: events, timeout: s.cfg.BodyTime}
	defer func() { _ = out.control.SetWriteDeadline(time.Time{}) }()
	beat := time.NewTicker(s.cfg.Heartbeat)
	defer beat.Stop()
	out.open(f.retry)
	if err := out.flush(); err != nil {
		return err
	}
	for {
		var x found[T]
		var ok bool
		select {
		case x, ok = <-next:
		default:
			if err := out.flush(); err != nil {
				return err
			}
			select {
			case x, ok = <-next:
			case <-beat.C:
				if out.beat(); out.flush() != nil {
					return nil
				}
				continue
			case <-s.svc.Ended():
				out.end("draining")
				return out.flush()
			}
		}
		if keyEnded(r.Context()) {
			out.end("bad_key")
			return out.flush()
		}
		if !ok {
			return out.flush()
		}
		if x.err != nil {
			if r.Context().Err() == nil {
				out.end(f.code(x.err))
			}
			return out.flush()
		}
		f.write(out, x.item)
		if f.last != nil && f.last(x.item) {
			return out.flush()
		}
		if len(out.buf) >= answerBytes {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
}

// liveWriter writes items as server-sent events or as lines.
type liveWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	events  bool
	timeout time.Duration // write timeout: how long a client may read nothing
	buf     []byte
}

// item appends an item that one line holds, as an event with its id and, where
// it has one, its name.
func (l *liveWriter) item(id int64, name string, line func(b []byte) []byte) {
	if l.events {
		l.buf = strconv.AppendInt(append(l.buf, "id: "...), id, 10)
		if name != "" {
			l.buf = append(append(l.buf, "\nevent: "...), name...)
		}
		l.buf = append(l.buf, "\ndata: "...)
	}
	l.buf = append(line(l.buf), '\n')
	if l.events {
		l.buf = append(l.buf, '\n')
	}
}

// open tells an EventSource how long to wait before it reconnects.
func (l *liveWriter) open(retry time.Duration) {
	if l.events && retry > 0 {
		l.buf = append(strconv.AppendInt(append(l.buf, "retry: "...), retry.Milliseconds(), 10), "\n\n"...)
	}
}

// beat sends a heartbeat and releases the buffer of an idle stream.
func (l *liveWriter) beat() {
	l.buf = nil
	if l.events {
		l.buf = append(l.buf, ": alive\n\n"...)
	}
}

// end says why the stream ends.
func (l *liveWriter) end(code string) {
	if l.events {
		l.buf = append(append(append(l.buf, "event: end\ndata: {\"code\":\""...), code...), "\"}\n\n"...)
	}
}

func (l *liveWriter) flush() error {
	_ = l.control.SetWriteDeadline(time.Now().Add(l.timeout))
	if _, err := l.w.Write(l.buf); err != nil {
		return err
	}
	l.buf = l.buf[:0]
	if err := l.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
