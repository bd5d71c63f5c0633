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
	"net/url"
	"strconv"
	"time"
)

// Event is one step of a solve.
type Event struct {
	ID   int64  // counts the events of the solve from 1
	Type string // status, phase, incumbent, bound, checkpoint or done; later servers may send others
	// The fields below are those of most events. Fields that an event does not have
	// are zero or nil.
	AtS         float64 `json:"at_s"` // seconds since the solve was submitted
	Status      string  `json:"status"`
	Phase       string  `json:"phase"`
	Termination string  `json:"termination"`
	// QueuePosition counts from 1; 0 when the solve does not wait.
	QueuePosition int      `json:"queue_position"`
	Value         *float64 `json:"value"` // value of the best schedule so far
	Bound         *float64 `json:"bound"` // best bound so far
	Gap           *float64 `json:"gap"`
	// Data is the whole event as the server sent it, in JSON.
	Data json.RawMessage `json:"-"`
}

// Events yields the events of a solve that follow the event with the id after (0:
// all events), up to the event done, which is the last. Where the stream breaks, or
// nothing comes for Config.IdleTimeout, the client reconnects and resumes after the
// last event, so that each event comes once.
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
	id    int64 // 0 for an event without an id
	event string
	data  []byte
}

// errEnded says that a stream ended before its last event.
var errEnded = errors.New("client: the stream ended early")

// eventReset is the event of a stream of changes that says that everything is to be read, whatever its id is.
const eventReset = "reset"

// follow reads a stream of server-sent events, and reconnects with the last id
// whenever the connection breaks. The sequence ends only with an error: the reader
// knows which event is the last.
func (c *Client) follow(ctx context.Context, path string, after int64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for failures := 0; ; failures++ {
			stopped := false
			err := c.connect(ctx, path, after, func(m message) bool {
				if m.id != 0 {
					if m.id <= after && m.event != eventReset {
						return true // the event came before
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

// connect reads one connection of a stream until the connection breaks, which is an
// error, or each returns false.
func (c *Client) connect(ctx context.Context, path string, after int64, each func(message) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.cfg.IdleTimeout, func() {
		cancel(fmt.Errorf("client: nothing came for %v", c.cfg.IdleTimeout))
	})
	defer idle.Stop()
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
	in := bufio.NewReaderSize(&idleReader{resp.Body, idle, c.cfg.IdleTimeout}, 64<<10)
	for {
		m, err := readMessage(in, c.cfg.MaxBytes)
		if errors.Is(err, errTooLong) {
			return err
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return networkError{fmt.Errorf("%w: %w", errEnded, err)}
		}
		if m.event == "end" {
			return endOf(m)
		}
		if !each(m) {
			return nil
		}
	}
}

// endOf returns the reason why the server ended a stream.
func endOf(m message) error {
	p := &Problem{Title: "the stream ended"}
	_ = json.Unmarshal(m.data, p) // the stream also ends where the message has no code
	p.Status = map[string]int{
		"draining": http.StatusServiceUnavailable, "no_session": http.StatusNotFound, "no_solve": http.StatusNotFound,
	}[p.Code]
	return p
}

// idleReader restarts the idle timeout with each read.
type idleReader struct {
	io.Reader
	idle *time.Timer
	most time.Duration
}

func (r *idleReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.idle.Reset(r.most)
	return n, err
}

// readMessage reads up to the end of the next event that has data. Comments, and an
// event that the end of the stream truncates, are ignored, as the HTML standard
// requires (9.2.6). limit is the greatest size of an event in bytes.
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

// readLine returns a line without its line break, or errTooLong. Text without a line
// break at the end of the stream is not a line.
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

func solvePath(id string, more string) string { return "/v1/solves/" + url.PathEscape(id) + more }
