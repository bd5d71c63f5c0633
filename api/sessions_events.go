package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

const (
	// eventWindow is how many events of one connection may wait for their answers.
	eventWindow = 1024
	// answerBytes is the number of buffered bytes of answers after which they are
	// flushed.
	answerBytes = 32 << 10
	// bodyWait is how long a client may take to end its body and to read the last
	// answers once the server takes no more events.
	bodyWait = time.Second
	// firstWait is how long the server waits for the first answer before it sends the
	// status 200: the first answer may be a problem instead.
	firstWait = 250 * time.Millisecond
)

// postEvents applies events as they arrive and answers each as soon as it is durable.
//
//	@Summary		Send events, get decisions
//	@Description	The stream is full duplex: each line of the request is a JSON object, and each line of the
//	@Description	answer answers one event, in order, as soon as the event and its decisions are durable. The
//	@Description	client need not wait for an answer before it sends the next event. A line that is refused is
//	@Description	answered with {"seq", "error": {status, line, pointer, code, detail}} and changes nothing, and
//	@Description	the stream continues. An event that was recorded before is answered with the recorded
//	@Description	decisions; if an event is missing, the error has the number that is expected. After a broken
//	@Description	connection, send every event after the last answer again.
//	@Tags			sessions
//	@ID				postEvents
//	@Param			id		path	string			true	"the session"
//	@Param			body	body	openapi.Event	true	"events, one a line"
//	@Accept			json
//	@Produce		application/x-ndjson,application/problem+json
//	@Success		200	{object}	openapi.Answer	"an answer a line"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		409	{object}	openapi.Problem	"the session is that of a managed cluster or of a helper, which alone changes it"
//	@Failure		415	{object}	openapi.Problem	"the media type is not supported, or the body has a content coding"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining, or too many streams are open: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full, and nothing was answered yet"
//	@Router			/v1/sessions/{id}/events [post]
func (s *server) postEvents(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	session, err := s.ownSession(r)
	if err != nil {
		return err
	}
	if err := checkEventHeaders(r); err != nil {
		return err
	}
	if !s.svc.Ready() {
		return admission.ErrDraining
	}
	end, err := s.stream(r.Context(), "events")
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &eventStream{
		s: s, r: r, w: w, control: control, session: session, cancel: cancel,
		items: make(chan eventAnswer, eventWindow), clientClock: session.Info().Config.Clock != sessions.ClockServer,
	}
	sent := make(chan error, 1)
	go func() { sent <- c.writeAnswers(ctx) }()
	interrupted := make(chan struct{})
	connected := false // the server, and not the client, interrupted the stream
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		connected = r.Context().Err() == nil
		_ = control.SetReadDeadline(time.Now())
	})
	// The read deadline must not be set after the handler has returned: in HTTP/2 the
	// writer is gone then, and using it panics outside of any handler.
	over := sync.OnceFunc(func() {
		if !stop() {
			<-interrupted
		}
	})
	defer over()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.svc.Ended():
			cancel()
		case <-ended:
		}
	}()
	whole := c.readEvents(ctx)
	over()
	select {
	case <-s.svc.Ended():
		c.cut = !whole
	default:
		c.cut = !whole && keyEnded(r.Context())
	}
	close(c.items)
	err = <-sent
	s.cfg.Logger.Info("events ended", "request_id", requestID(r.Context()), "session", session.ID(),
		"recorded", c.total, "duplicates", c.duplicates, "refused", c.refused, "last_seq", c.last)
	if err != nil && connected {
		// If the body ends just before the read deadline is set, net/http takes the
		// deadline for a disconnect and cancels the request, though its client waits.
		s.fail(w, r.WithContext(context.WithoutCancel(r.Context())), err)
		return nil
	}
	return err
}

// fullDuplex lets a handler answer before the body has ended.
func fullDuplex(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// A refusal, too, is sent before the body has ended, since the client may wait for
		// the status first. HTTP/2 is always full duplex and returns an error here.
		_ = control.EnableFullDuplex()
		// After the handler returns, net/http would read the rest of the body and then
		// reuse the connection. In full duplex that could panic, or take the rest of the
		// events for a request, so the connection is closed.
		w.Header().Set("Connection", "close")
		defer func() {
			_ = control.SetReadDeadline(time.Now().Add(bodyWait))
			_ = control.SetWriteDeadline(time.Now().Add(bodyWait))
		}()
		next(w, r)
	}
}

// checkEventHeaders refuses bodies that are compressed.
func checkEventHeaders(r *http.Request) error {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return &statusError{http.StatusUnsupportedMediaType, "unsupported_encoding",
			"send events plain: they are answered as they come"}
	}
	return nil
}

// eventAnswer is the answer to one line: a promise of decisions, or a refusal.
type eventAnswer struct {
	promise *sessions.Promise
	refusal *wire.Refusal
	seq     int64
	line    int64
	at      time.Time // when the event was submitted
}

// eventStream is one connection on which events arrive. The goroutine of readEvents
// reads and submits them, the goroutine of writeAnswers answers. At most eventWindow
// events wait between the two, so a client that does not read its answers cannot send
// more events.
type eventStream struct {
	s           *server
	r           *http.Request
	w           http.ResponseWriter
	control     *http.ResponseController
	session     *sessions.Session
	cancel      context.CancelFunc
	clientClock bool
	items       chan eventAnswer
	buf         []byte
	begun       bool      // the status was sent
	until       time.Time // when the write deadline ends

	// Counts of the whole connection:
	total, duplicates, refused int64
	last                       int64 // seq of the last event that was answered with decisions
	failed                     bool  // an event could not be recorded, which the log reports
	cut                        bool  // the server ended the stream before the body ended; set before items is closed
	// Counts since the last flush:
	recorded, repeated, decisions int64
}

// readEvents reads and submits events until the body or ctx ends. It returns true if
// the body ended or if the last answer says that no more events are taken.
func (es *eventStream) readEvents(ctx context.Context) (whole bool) {
	decode := wire.DecodeEvent
	if !es.clientClock {
		decode = wire.DecodeUntimedEvent
	}
	in := bufio.NewReaderSize(es.r.Body, 64<<10)
	over := false
	for n := int64(1); !over; n++ {
		line, err := wire.ReadEventLine(in)
		it := eventAnswer{line: n}
		switch {
		case errors.Is(err, wire.ErrLongEvent):
			it.refusal = &wire.Refusal{Status: http.StatusRequestEntityTooLarge,
				Errors: hare.InvalidErrors{{Code: wire.CodeBodyTooLarge, Detail: err.Error()}}}
		case err != nil:
			return errors.Is(err, io.EOF) // otherwise the client disconnected, and an incomplete line is ignored
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			e, err := decode(bytes.TrimSpace(line))
			it.seq = e.Seq
			if err == nil {
				it.at = time.Now()
				it.promise, err = es.session.Submit(ctx, e)
			}
			if ctx.Err() != nil {
				return false
			}
			if err != nil {
				it.refusal = es.s.refusal(es.r, err)
			}
			over = final(err)
		}
		select {
		case es.items <- it:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// final reports whether the session takes no more events after err.
func final(err error) bool {
	return errors.Is(err, store.ErrNoSession) || errors.Is(err, admission.ErrDraining)
}

// writeAnswers writes the answers in order and flushes whenever it would have to wait.
func (es *eventStream) writeAnswers(ctx context.Context) error {
	defer es.cancel() // stops readEvents
	// The status is sent when there has been nothing to answer for firstWait, since
	// some clients wait for the status before they send events.
	first := time.NewTimer(firstWait)
	defer first.Stop()
	for {
		var it eventAnswer
		var ok bool
		select {
		case it, ok = <-es.items:
		default:
			if es.begun || len(es.buf) > 0 {
				if err := es.flush(); err != nil {
					return err
				}
			}
			select {
			case it, ok = <-es.items:
			case <-first.C:
				if err := es.flush(); err != nil {
					return err
				}
				continue
			case <-ctx.Done():
				// Events that were submitted before are still answered.
				it, ok = <-es.items
			}
		}
		if !ok {
			return es.end()
		}
		if err := es.writeAnswer(it); err != nil {
			return err
		}
	}
}

// end writes why the stream ends where the server ends it, so that the client does not
// believe that all its events were applied.
func (es *eventStream) end() error {
	if !es.cut {
		return es.flush()
	}
	why := admission.ErrDraining
	if keyEnded(es.r.Context()) {
		why = access.ErrKeyEnded
	}
	if !es.begun && len(es.buf) == 0 {
		return why // answered as a problem document
	}
	es.buf = append(wire.AppendRefusal(es.buf, es.s.refusal(es.r, why)), '\n')
	return es.flush()
}

// writeAnswer writes the answer to one event.
func (es *eventStream) writeAnswer(it eventAnswer) error {
	refusal := it.refusal
	if it.promise != nil {
		select {
		case <-it.promise.Done():
		default:
			if es.begun || len(es.buf) > 0 {
				if err := es.flush(); err != nil {
					return err
				}
			}
		}
		// The promise is always kept: with ErrDraining when the server ends.
		answer, err := it.promise.Wait(context.WithoutCancel(es.r.Context()))
		if err == nil {
			es.last = answer.Seq
			if it.promise.Duplicate() {
				es.repeated++
			} else {
				es.recorded++
				es.decisions += int64(len(answer.Decisions))
				es.s.met.sessions.answers.Observe(time.Since(it.at).Seconds())
			}
			es.buf = append(wire.AppendAnswer(es.buf, answer), '\n')
		} else {
			if errors.Is(err, store.ErrStorage) && !es.begun && len(es.buf) == 0 {
				return err // answered as a problem document
			}
			if errors.Is(err, store.ErrStorage) && !es.failed {
				es.failed = true
				es.s.cfg.Logger.Warn("events not recorded", "request_id", requestID(es.r.Context()), "session", es.session.ID(),
					"seq", it.seq, "error", err)
			}
			refusal = es.s.refusal(es.r, err)
			if final(err) {
				es.cancel()
			}
		}
	}
	if refusal != nil {
		refusal.Line, refusal.Seq = it.line, it.seq
		es.refused++
		es.s.met.sessions.refused.WithLabelValues(refusal.Errors[0].Code).Inc()
		es.buf = append(wire.AppendRefusal(es.buf, refusal), '\n')
	}
	if len(es.buf) >= answerBytes {
		return es.flush()
	}
	return nil
}

// flush sends the buffered answers. It closes the connection of a client that reads
// nothing for Config.BodyTime.
func (es *eventStream) flush() error {
	if !es.begun {
		es.begun = true
		es.w.Header().Set("Content-Type", kindNDJSON)
		es.w.WriteHeader(http.StatusOK)
	} else if len(es.buf) == 0 {
		return nil
	}
	es.count()
	if now := time.Now(); now.Add(es.s.cfg.BodyTime / 2).After(es.until) {
		es.until = now.Add(es.s.cfg.BodyTime)
		_ = es.control.SetWriteDeadline(es.until)
	}
	if _, err := es.w.Write(es.buf); err != nil {
		return err
	}
	es.buf = es.buf[:0]
	if err := es.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("nothing was read for %v: %w", es.s.cfg.BodyTime, err)
		}
		return err
	}
	return nil
}

// count adds the counts since the last call to the metrics.
func (es *eventStream) count() {
	m := &es.s.met.sessions
	m.events.Add(float64(es.recorded))
	m.duplicates.Add(float64(es.repeated))
	m.decisions.Add(float64(es.decisions))
	es.total += es.recorded
	es.duplicates += es.repeated
	es.recorded, es.repeated, es.decisions = 0, 0, 0
}
