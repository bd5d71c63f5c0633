package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/access"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/sessions"
	"github.com/hare-sched/hare/store"
	"github.com/hare-sched/hare/wire"
)

const (
	// eventWindow is how many lines of one connection may wait for answers.
	eventWindow = 1024
	// answerBytes is from when on answers go out before all that are ready are
	// written.
	answerBytes = 32 << 10
	// bodyWait is how long a client may take to end its body and to read the
	// last answers when no more is taken.
	bodyWait = time.Second
	// firstWait is how long the status line waits for a first answer, which
	// could still be a problem instead.
	firstWait = 250 * time.Millisecond
)

// postEvents applies events as they come in and answers as they become durable.
//
//	@Summary		Send events, get decisions
//	@Description	Full duplex: one JSON object a line goes in, an answer a line comes out, in order, as soon as the event and its decisions are durable; there is no need to wait for one before sending the next. A line that is refused is answered with {"seq", "error": {status, line, pointer, code, detail}}, changes nothing, and the stream goes on. An event that was recorded before is answered with the recorded decisions; where one is missing, the error says which number is expected. After a broken connection, send everything behind the last answer again.
//	@Tags			sessions
//	@ID				postEvents
//	@Param			id		path	string			true	"the session"
//	@Param			body	body	openapi.Event	true	"events, one a line"
//	@Accept			json
//	@Produce		application/x-ndjson,application/problem+json
//	@Success		200	{object}	openapi.Answer	"an answer a line"
//	@Failure		404	{object}	openapi.Problem	"no such session"
//	@Failure		415	{object}	openapi.Problem	"another media type, or a content coding"
//	@Failure		500	{object}	openapi.Problem	"a defect, or a damaged log; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining, or as many streams are open as may be: Retry-After says when to come back"
//	@Failure		507	{object}	openapi.Problem	"the disk is full, and nothing was answered yet"
//	@Router			/v1/sessions/{id}/events [post]
func (s *server) postEvents(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	// Also a refusal goes out before the body has ended: its client may wait
	// for the status first. HTTP/2 is full duplex by itself and says that it
	// cannot be asked.
	_ = control.EnableFullDuplex()
	// Package http reads what is left of a body once the handler has returned,
	// and in full duplex must not use the connection again: it would panic, or
	// take the rest of the events for a request.
	w.Header().Set("Connection", "close")
	defer func() {
		_ = control.SetReadDeadline(time.Now().Add(bodyWait))
		_ = control.SetWriteDeadline(time.Now().Add(bodyWait))
	}()
	session, err := s.session(r)
	if err != nil {
		return err
	}
	if err := eventBody(r); err != nil {
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
	c := &conversation{
		s: s, r: r, w: w, control: control, session: session, cancel: cancel,
		items: make(chan item, eventWindow), timed: session.Info().Config.Clock != sessions.ClockServer,
	}
	sent := make(chan error, 1)
	go func() { sent <- c.tell(ctx) }()
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = control.SetReadDeadline(time.Now())
	})
	// The deadline must not be set after the handler has returned: in HTTP/2 the
	// writer is gone then, and the process ends with it.
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
	whole := c.listen(ctx)
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
	return err
}

// eventBody refuses bodies that are not plain lines.
func eventBody(r *http.Request) error {
	if t := r.Header.Get("Content-Type"); t != "" {
		kind, _, err := mime.ParseMediaType(t)
		if err != nil || kind != kindJSON && kind != kindNDJSON {
			return &statusError{http.StatusUnsupportedMediaType, "unsupported_media_type",
				"send application/x-ndjson: one event a line"}
		}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return &statusError{http.StatusUnsupportedMediaType, "unsupported_encoding",
			"send events plain: they are answered as they come"}
	}
	return nil
}

// item is one line and its answer: a promise, or a refusal.
type item struct {
	promise *sessions.Promise
	refusal *wire.Refusal
	seq     int64
	line    int64
	at      time.Time // when it was submitted
}

// conversation is one connection on which events are sent. One goroutine
// listens, another one tells; between them wait at most eventWindow lines, so
// that a client that does not read is not read from either.
type conversation struct {
	s       *server
	r       *http.Request
	w       http.ResponseWriter
	control *http.ResponseController
	session *sessions.Session
	cancel  context.CancelFunc
	timed   bool
	items   chan item
	buf     []byte
	begun   bool      // the status is sent
	until   time.Time // of the write deadline

	// Of this connection:
	total, duplicates, refused int64
	last                       int64 // seq that was answered with decisions
	failed                     bool  // to record, and the log says so
	cut                        bool  // the server ends before the body has; set before items is closed
	// Since the last flush:
	recorded, repeated, decisions int64
}

// listen reads lines and submits them until the body or ctx ends; whole says
// that it was the body, or that the last answer says that there is no more.
func (c *conversation) listen(ctx context.Context) (whole bool) {
	decode := wire.DecodeEvent
	if !c.timed {
		decode = wire.DecodeUntimedEvent
	}
	in := bufio.NewReaderSize(c.r.Body, 64<<10)
	over := false
	for n := int64(1); !over; n++ {
		line, err := wire.ReadEventLine(in)
		it := item{line: n}
		switch {
		case errors.Is(err, wire.ErrLongEvent):
			it.refusal = &wire.Refusal{Status: http.StatusRequestEntityTooLarge,
				Errors: hare.InvalidErrors{{Code: wire.CodeBodyTooLarge, Detail: err.Error()}}}
		case err != nil:
			return errors.Is(err, io.EOF) // otherwise the client is gone: half a line counts for nothing
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			e, err := decode(bytes.TrimSpace(line))
			it.seq = e.Seq
			if err == nil {
				it.at = time.Now()
				it.promise, err = c.session.Submit(ctx, e)
			}
			if ctx.Err() != nil {
				return false
			}
			if err != nil {
				it.refusal = c.s.refusal(c.r, err)
			}
			over = final(err)
		}
		select {
		case c.items <- it:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// final says that no event will be taken any more.
func final(err error) bool {
	return errors.Is(err, store.ErrNoSession) || errors.Is(err, admission.ErrDraining)
}

// tell writes the answers in order. It flushes whenever it would have to wait.
func (c *conversation) tell(ctx context.Context) error {
	defer c.cancel() // the listener need not go on
	// The status goes out when there is nothing to answer for a while, for
	// clients that wait for it before they send.
	first := time.NewTimer(firstWait)
	defer first.Stop()
	for {
		var it item
		var ok bool
		select {
		case it, ok = <-c.items:
		default:
			if c.begun || len(c.buf) > 0 {
				if err := c.flush(); err != nil {
					return err
				}
			}
			select {
			case it, ok = <-c.items:
			case <-first.C:
				if err := c.flush(); err != nil {
					return err
				}
				continue
			case <-ctx.Done():
				// What was submitted before is still answered.
				it, ok = <-c.items
			}
		}
		if !ok {
			return c.end()
		}
		if err := c.say(it); err != nil {
			return err
		}
	}
}

// end says why no more is taken where the server is the reason, so that no
// client takes silence for the end of its events.
func (c *conversation) end() error {
	if !c.cut {
		return c.flush()
	}
	why := admission.ErrDraining
	if keyEnded(c.r.Context()) {
		why = access.ErrKeyEnded
	}
	if !c.begun && len(c.buf) == 0 {
		return why // a problem of its own
	}
	c.buf = append(wire.AppendRefusal(c.buf, c.s.refusal(c.r, why)), '\n')
	return c.flush()
}

// say writes one answer.
func (c *conversation) say(it item) error {
	refusal := it.refusal
	if it.promise != nil {
		select {
		case <-it.promise.Done():
		default:
			if c.begun || len(c.buf) > 0 {
				if err := c.flush(); err != nil {
					return err
				}
			}
		}
		// It is kept in any case: when the server ends, with ErrDraining.
		answer, err := it.promise.Wait(context.WithoutCancel(c.r.Context()))
		if err == nil {
			c.last = answer.Seq
			if it.promise.Duplicate() {
				c.repeated++
			} else {
				c.recorded++
				c.decisions += int64(len(answer.Decisions))
				c.s.met.sessions.answers.Observe(time.Since(it.at).Seconds())
			}
			c.buf = append(wire.AppendAnswer(c.buf, answer), '\n')
		} else {
			if errors.Is(err, store.ErrStorage) && !c.begun && len(c.buf) == 0 {
				return err // a problem of its own
			}
			if errors.Is(err, store.ErrStorage) && !c.failed {
				c.failed = true
				c.s.cfg.Logger.Warn("events not recorded", "request_id", requestID(c.r.Context()), "session", c.session.ID(),
					"seq", it.seq, "error", err)
			}
			refusal = c.s.refusal(c.r, err)
			if final(err) {
				c.cancel()
			}
		}
	}
	if refusal != nil {
		refusal.Line, refusal.Seq = it.line, it.seq
		c.refused++
		c.s.met.sessions.refused.WithLabelValues(refusal.Errors[0].Code).Inc()
		c.buf = append(wire.AppendRefusal(c.buf, refusal), '\n')
	}
	if len(c.buf) >= answerBytes {
		return c.flush()
	}
	return nil
}

// flush sends what was written. A client that reads nothing for as long as a
// body may take is given up.
func (c *conversation) flush() error {
	if !c.begun {
		c.begun = true
		c.w.Header().Set("Content-Type", kindNDJSON)
		c.w.WriteHeader(http.StatusOK)
	} else if len(c.buf) == 0 {
		return nil
	}
	c.count()
	if now := time.Now(); now.Add(c.s.cfg.BodyTime / 2).After(c.until) {
		c.until = now.Add(c.s.cfg.BodyTime)
		_ = c.control.SetWriteDeadline(c.until)
	}
	if _, err := c.w.Write(c.buf); err != nil {
		return err
	}
	c.buf = c.buf[:0]
	if err := c.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("nothing was read for %v: %w", c.s.cfg.BodyTime, err)
		}
		return err
	}
	return nil
}

// count puts what was answered since the last call into the metrics.
func (c *conversation) count() {
	m := &c.s.met.sessions
	m.events.Add(float64(c.recorded))
	m.duplicates.Add(float64(c.repeated))
	m.decisions.Add(float64(c.decisions))
	c.total += c.recorded
	c.duplicates += c.repeated
	c.recorded, c.repeated, c.decisions = 0, 0, 0
}
