package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// LogPosition is a place in the outputs of a job of a managed cluster.
type LogPosition struct {
	Attempt int64  // from 1; 0 means the last attempt
	Task    int    // the process of the job, from 0
	Stream  string // stdout or stderr; "" means stdout
	Offset  int64  // in bytes
}

func taskQuery(attempt int64, task int, stream string, offset int64) url.Values {
	query := url.Values{"task": {strconv.Itoa(task)}, "offset": {strconv.FormatInt(offset, 10)}}
	if attempt != 0 {
		query.Set("attempt", strconv.FormatInt(attempt, 10))
	}
	if stream != "" {
		query.Set("stream", stream)
	}
	return query
}

// CopyLog writes what the server has of an output to w, from a position on, and moves the position behind what was
// written. The position then names the attempt. A connection that breaks is resumed where it broke. A job that has
// not started gives a *Problem with the code not_started.
func (c *Client) CopyLog(ctx context.Context, cluster, job string, at *LogPosition, w io.Writer) error {
	return c.copyLog(ctx, cluster, job, at, w, false)
}

// FollowLog is CopyLog, and goes on until the attempt has ended.
func (c *Client) FollowLog(ctx context.Context, cluster, job string, at *LogPosition, w io.Writer) error {
	for {
		if err := c.copyLog(ctx, cluster, job, at, w, true); err != nil {
			return err
		}
		// A server that shuts down also ends the answer.
		j, err := c.ClusterJob(ctx, cluster, job)
		if err != nil {
			return err
		}
		if attemptEnded(j, at.Attempt) {
			return c.copyLog(ctx, cluster, job, at, w, false)
		}
		if err := sleep(ctx, c.backoff(0), nil); err != nil {
			return err
		}
	}
}

func attemptEnded(j *clusterdoc.Job, attempt int64) bool {
	for _, a := range j.Attempts {
		if a.Attempt == attempt {
			return a.Ended != nil
		}
	}
	return j.State.Final()
}

// copyLog reads an output to the end of the server's answer.
func (c *Client) copyLog(ctx context.Context, cluster, job string, at *LogPosition, w io.Writer, follow bool) error {
	for failures := 0; ; failures++ {
		before := at.Offset
		err := c.copyLogOnce(ctx, cluster, job, at, w, follow)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case at.Offset > before || errors.Is(err, errQuiet):
			failures = 0
		}
		wait, again := c.retry(err, true, failures)
		if !again {
			return err
		}
		if err := sleep(ctx, wait, err); err != nil {
			return err
		}
	}
}

// errQuiet says that a job printed nothing for a while, or that the connection is dead.
var errQuiet = errors.New("client: nothing came")

// copyLogOnce reads one answer.
func (c *Client) copyLogOnce(ctx context.Context, cluster, job string, at *LogPosition, w io.Writer,
	follow bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.cfg.IdleTimeout, func() { cancel(fmt.Errorf("%w for %v", errQuiet, c.cfg.IdleTimeout)) })
	defer idle.Stop()
	query := taskQuery(at.Attempt, at.Task, at.Stream, at.Offset)
	if follow {
		query.Set("follow", "true")
	}
	r, err := c.request(ctx, &call{method: http.MethodGet, path: jobPath(cluster, job, "/logs"), query: query,
		header: http.Header{"Accept": {"text/plain"}}})
	if err != nil {
		return err
	}
	resp, err := c.cfg.HTTPClient.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return networkError{cause}
		}
		return unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return problemOf(resp)
	}
	if n, err := strconv.ParseInt(resp.Header.Get("Hare-Attempt"), 10, 64); err == nil {
		at.Attempt = n
	}
	in := bufio.NewReaderSize(&idleReader{resp.Body, idle, c.cfg.IdleTimeout}, 64<<10)
	for {
		if _, err = in.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return networkError{fmt.Errorf("client: the output broke off at byte %d: %w", at.Offset, err)}
		}
		piece, _ := in.Peek(in.Buffered())
		n, err := w.Write(piece)
		at.Offset += int64(n)
		if err != nil {
			return err
		}
		_, _ = in.Discard(len(piece))
	}
}
