package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/hare-sched/hare/serve/admission"
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
	buffer int
	retry  time.Duration // reconnection time that is sent to an EventSource; 0 is not sent
}

// resumeAfter returns the id after which a stream begins: the Last-Event-ID of an
// EventSource that reconnects, or the query parameter after.
func resumeAfter(r *http.Request) (int64, error) {
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

// feedStep is an item of a feed, or the error that ended the feed.
type feedStep[T any] struct {
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
	next, gone := make(chan feedStep[T], f.buffer), make(chan struct{})
	go func() {
		defer close(gone)
		defer close(next)
		for item, err := range f.items(ctx) {
			select {
			case next <- feedStep[T]{item, err}:
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
		var x feedStep[T]
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
				if out.heartbeat(); out.flush() != nil {
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

// item appends an item. As a server-sent event it has its id and, where the name is not
// empty, its name.
func (live *liveWriter) item(id int64, name string, line func(b []byte) []byte) {
	if live.events {
		live.buf = strconv.AppendInt(append(live.buf, "id: "...), id, 10)
		if name != "" {
			live.buf = append(append(live.buf, "\nevent: "...), name...)
		}
		live.buf = append(live.buf, "\ndata: "...)
	}
	live.buf = append(line(live.buf), '\n')
	if live.events {
		live.buf = append(live.buf, '\n')
	}
}

// open tells an EventSource how long to wait before it reconnects.
func (live *liveWriter) open(retry time.Duration) {
	if live.events && retry > 0 {
		live.buf = append(strconv.AppendInt(append(live.buf, "retry: "...), retry.Milliseconds(), 10), "\n\n"...)
	}
}

// heartbeat sends a comment and releases the buffer of an idle stream.
func (live *liveWriter) heartbeat() {
	live.buf = nil
	if live.events {
		live.buf = append(live.buf, ": alive\n\n"...)
	}
}

// end sends the code of the error that ended the stream.
func (live *liveWriter) end(code string) {
	if live.events {
		live.buf = append(append(append(live.buf, "event: end\ndata: {\"code\":\""...), code...), "\"}\n\n"...)
	}
}

func (live *liveWriter) flush() error {
	_ = live.control.SetWriteDeadline(time.Now().Add(live.timeout))
	if _, err := live.w.Write(live.buf); err != nil {
		return err
	}
	live.buf = live.buf[:0]
	if err := live.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
