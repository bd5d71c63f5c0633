package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// Event is one step of a solve.
type Event struct {
	ID   int64  // counts the events of the solve from 1
	Type string // status, phase, incumbent, bound, checkpoint or done; later servers may send others
	// What most events have; what one lacks is zero or nil.
	AtS         float64 `json:"at_s"` // since the solve was taken in, in seconds
	Status      string  `json:"status"`
	Phase       string  `json:"phase"`
	Termination string  `json:"termination"`
	// QueuePosition counts from 1; 0 when it does not wait.
	QueuePosition int      `json:"queue_position"`
	Value         *float64 `json:"value"` // of the best schedule so far
	Bound         *float64 `json:"bound"` // best so far
	Gap           *float64 `json:"gap"`
	// Data is the whole event as it was sent, JSON.
	Data json.RawMessage `json:"-"`
}

// Events gives the events of a solve behind the one with the id after (0: all),
// up to done, with which they end. A stream that breaks, or is silent for
// Config.Silence, is taken up again behind the last event, so that each comes
// once.
func (c *Client) Events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for m, err := range c.follow(ctx, solvePath(id, "/events"), after) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			var e Event
			if err := json.Unmarshal(m.data, &e); err != nil {
				yield(Event{}, fmt.Errorf("client: event %d is not what was expected: %w", m.id, err))
				return
			}
			e.ID, e.Type, e.Data = m.id, m.event, m.data
			if !yield(e, nil) || e.Type == "done" {
				return
			}
		}
	}
}

// message is one server-sent event.
type message struct {
	id    int64 // 0 without one
	event string
	data  []byte
}

// errEnded says that a stream ended where more should have come.
var errEnded = errors.New("client: the stream ended early")

// follow reads a stream of server-sent events and connects again, behind the
// last id, whenever it breaks. It ends with an error alone: who reads knows
// what the last event is.
func (c *Client) follow(ctx context.Context, path string, after int64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for failures := 0; ; failures++ {
			stopped := false
			err := c.connect(ctx, path, after, func(m message) bool {
				if m.id != 0 {
					if m.id <= after {
						return true // sent twice
					}
					after = m.id
				}
				failures = 0
				stopped = !yield(m, nil)
				return !stopped
			})
			if stopped {
				return
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if wait, again := c.retry(err, true, failures); again {
				if err = sleep(ctx, wait, err); err == nil {
					continue
				}
			}
			yield(message{}, err)
			return
		}
	}
}

// connect reads one connection of a stream until it breaks, which is an error,
// or each wants no more.
func (c *Client) connect(ctx context.Context, path string, after int64, each func(message) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.cfg.Silence, func() { cancel(fmt.Errorf("client: nothing came for %v", c.cfg.Silence)) })
	defer silence.Stop()
	x := call{method: http.MethodGet, path: path, header: http.Header{"Accept": {kindEvents}}}
	if after > 0 {
		x.header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	r, err := c.request(ctx, &x)
	if err != nil {
		return err
	}
	resp, err := c.cfg.HTTPClient.Do(r)
	if err != nil {
		return unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return problemOf(resp)
	}
	in := bufio.NewReaderSize(&lively{resp.Body, silence, c.cfg.Silence}, 64<<10)
	for {
		m, err := readMessage(in, c.cfg.MaxBytes)
		if errors.Is(err, errTooLong) {
			return err
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return brokenError{fmt.Errorf("%w: %w", errEnded, err)}
		}
		if m.event == "end" {
			return endOf(m)
		}
		if !each(m) {
			return nil
		}
	}
}

// endOf is why the server ended a stream.
func endOf(m message) error {
	p := &Problem{Title: "the stream ended"}
	_ = json.Unmarshal(m.data, p) // without a code it is an end all the same
	p.Status = map[string]int{
		"draining": http.StatusServiceUnavailable, "no_session": http.StatusNotFound, "no_solve": http.StatusNotFound,
	}[p.Code]
	return p
}

// lively postpones what happens in silence.
type lively struct {
	io.Reader
	silence *time.Timer
	most    time.Duration
}

func (l *lively) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	l.silence.Reset(l.most)
	return n, err
}

// readMessage reads up to the end of the next event that has data. Comments,
// and events that the end of the stream cuts, count for nothing, as the HTML
// standard wants it (9.2.6). limit is for the bytes of one event.
func readMessage(in *bufio.Reader, limit int64) (message, error) {
	var m message
	has := false
	for read := int64(0); ; {
		line, err := readLine(in, limit-read)
		if err != nil {
			return message{}, err
		}
		read += int64(len(line)) + 1
		if len(line) == 0 {
			if has {
				return m, nil
			}
			m, read = message{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n > 0 {
				m.id = n
			}
		case "event":
			m.event = string(value)
		case "data":
			if has {
				m.data = append(m.data, '\n')
			}
			has = true
			m.data = append(m.data, value...)
		}
	}
}

// readLine returns a line without its end, or errTooLong. What the end of the
// stream cuts is no line.
func readLine(in *bufio.Reader, limit int64) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if int64(len(long)+len(part)) > limit+2 {
			return nil, errTooLong
		}
		if err == nil && long == nil {
			return bytes.TrimRight(part, "\r\n"), nil // valid until the next call
		}
		long = append(long, part...)
		if err == nil {
			return bytes.TrimRight(long, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF && len(long) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}
