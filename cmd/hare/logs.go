package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/words"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

type logFlags struct {
	clusterFlags
	follow  bool
	task    int
	attempt int64
	stream  string
	offset  int64
	plain   bool
}

func logsCommand() *cobra.Command {
	var l logFlags
	c := &cobra.Command{
		Use:   "logs ID",
		Short: "Print what a job of a managed cluster has printed",
		Long: `Logs prints what a process of a job has written: its standard output to standard output,
its standard error to standard error. The order of its writes to the two is not recorded:
what is there comes output by output, standard output first. With --follow it stays until the job has ended,
across its attempts; a server that restarts in between is waited for, and nothing is
printed twice. What the job has written comes as it is, with its control characters;
--plain shows them escaped.

The server keeps the first and the last part of an output that is longer than its limit
(16 MiB), with a line between them that says how much was dropped.`,
		Example: `  hare logs j1
  hare logs --follow j1
  hare logs j1 --task 3 --stream stderr      # what the fourth process complains about
  hare logs j1 --attempt 1                   # what went wrong at first`,
		Args: exactly(1, "the ID of a job, which hare jobs prints"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.check(); err != nil {
				return usageError{err}
			}
			r, err := l.open(c.Context())
			if err != nil {
				return err
			}
			defer r.Close()
			err = l.copy(c.Context(), r, args[0], l.attempt, c.OutOrStdout(), c.ErrOrStderr())
			if err == nil || errors.Is(err, errNo) || c.Context().Err() != nil {
				return err
			}
			return l.jobError(r, args[0], err)
		},
	}
	l.addCluster(c)
	f := c.Flags()
	f.BoolVarP(&l.follow, "follow", "f", false, "stay until the job has ended")
	f.IntVar(&l.task, "task", 0, "which process of the job, from 0: its rank")
	f.Int64Var(&l.attempt, "attempt", 0, "which start of the job, from 1 (default: the last one)")
	f.StringVar(&l.stream, "stream", "", "only stdout or stderr (default: both)")
	f.BoolVar(&l.plain, "plain", false, "show control characters escaped, as in \\x1b: what the job prints cannot steer "+
		"your terminal")
	f.Int64Var(&l.offset, "offset", 0, "leave out this many bytes; needs --stream")
	positive(c, "attempt")
	choices(c, "stream", clusterdoc.StreamStdout, clusterdoc.StreamStderr)
	return c
}

func (l *logFlags) check() error {
	switch l.stream {
	case clusterdoc.StreamStdout, clusterdoc.StreamStderr:
	case "":
		if l.offset > 0 {
			return errors.New("--offset counts the bytes of one output: add --stream stdout or --stream stderr")
		}
	default:
		return fmt.Errorf("--stream %q: must be stdout or stderr", l.stream)
	}
	return nil
}

// copy prints the outputs of a job from an attempt on, 0 meaning the last one.
func (l *logFlags) copy(ctx context.Context, r *remote, id string, first int64, out, errs io.Writer) error {
	streams := []string{l.stream}
	if l.stream == "" {
		streams = []string{clusterdoc.StreamStdout, clusterdoc.StreamStderr}
	}
	for attempt := first; ; {
		job, err := l.started(ctx, r, id, attempt, errs)
		if err != nil {
			return err
		}
		if job == nil {
			return nil
		}
		if attempt == 0 {
			attempt = int64(len(job.Attempts))
		} else if attempt > first {
			failed := job.Attempts[attempt-2]
			_, _ = fmt.Fprintf(errs, "hare: attempt %d %s: %s; attempt %d begins\n", failed.Attempt, failed.Result,
				cmp.Or(words.Plain(failed.Error), "no reason is known"), attempt)
		}
		ended := job.Attempts[attempt-1].Ended != nil
		if err := l.copyAttempt(ctx, r, id, attempt, ended, streams, out, errs); err != nil {
			return err
		}
		if !l.follow || l.attempt != 0 {
			return nil
		}
		attempt++
		l.offset = 0
	}
}

// started waits for an attempt of a job, 0 meaning any, or for its end: nil then.
func (l *logFlags) started(ctx context.Context, r *remote, id string, attempt int64, errs io.Writer) (
	*clusterdoc.Job, error) {
	return poll(ctx, func() (_ *clusterdoc.Job, final bool, err error) {
		job, err := r.ClusterJob(ctx, l.cluster, id)
		switch {
		case err != nil:
			return nil, true, err
		case len(job.Attempts) > 0 && int64(len(job.Attempts)) >= attempt:
			return job, true, nil
		case !l.follow && attempt > 0 && len(job.Attempts) > 0:
			return nil, true, usageError{fmt.Errorf("--attempt %d: job %s has been started %s", attempt, id,
				words.Count(len(job.Attempts), "time"))}
		case job.State.Final():
			return nil, true, nil
		case !l.follow:
			_, _ = fmt.Fprintf(errs, "hare: job %s has not started: %s\n", id,
				cmp.Or(words.Plain(job.Reason), string(job.State)))
			return nil, true, errNo
		}
		return nil, false, nil
	})
}

// copyAttempt prints outputs of one attempt. Nobody records in which order a task wrote to its two outputs: what there
// is already is printed output by output, and what comes later as it comes.
func (l *logFlags) copyAttempt(ctx context.Context, r *remote, id string, attempt int64, ended bool,
	streams []string, out, errs io.Writer) error {
	var all sync.WaitGroup
	failures := make([]error, len(streams))
	var mu sync.Mutex
	var lines []*logLines
	for i, stream := range streams {
		to := out
		if stream == clusterdoc.StreamStderr && !l.json {
			to = errs
		}
		if !l.plain {
			to = exact(to)
		}
		at := &client.LogPosition{Attempt: attempt, Task: l.task, Stream: stream, Offset: l.offset}
		if l.json {
			line := &logLines{w: exact(out), mu: &mu,
				line: logLine{Attempt: attempt, Task: l.task, Stream: stream, Offset: l.offset}}
			to, lines = line, append(lines, line)
		}
		if !l.follow || ended {
			failures[i] = r.CopyLog(ctx, l.cluster, id, at, to)
			continue
		}
		if i > 0 {
			to = &behind{w: to}
		}
		all.Go(func() { failures[i] = r.FollowLog(ctx, l.cluster, id, at, to) })
	}
	all.Wait()
	for _, to := range lines {
		failures = append(failures, to.flush())
	}
	return errors.Join(failures...)
}

// behind delays what is written after a pause. An agent sends what is new in both outputs of a task one after the
// other, stdout first: where stderr is delayed, stdout is also printed first.
type behind struct {
	w    io.Writer
	last time.Time
}

// moment is the delay, and the least pause: an agent takes less between the two outputs, and nobody notices it.
const moment = 100 * time.Millisecond

func (b *behind) Write(p []byte) (int, error) {
	if time.Since(b.last) > moment {
		time.Sleep(moment)
	}
	defer func() { b.last = time.Now() }()
	return b.w.Write(p)
}

// logLine is a piece of an output as hare logs --json prints it, one a line.
type logLine struct {
	Attempt int64  `json:"attempt"`
	Task    int    `json:"task"`
	Stream  string `json:"stream"`
	Offset  int64  `json:"offset"`
	Text    string `json:"text"`
}

// logLines writes an output as lines of JSON.
type logLines struct {
	w    io.Writer
	mu   *sync.Mutex // of w
	line logLine
	part []byte // of a line that has not ended
}

// longestLine is the length in bytes from which on a line of an output is printed as several.
const longestLine = 64 << 10

func (l *logLines) Write(b []byte) (int, error) {
	l.part = append(l.part, b...)
	for {
		n := bytes.IndexByte(l.part, '\n') + 1
		if n == 0 && len(l.part) > longestLine {
			n = longestLine
		}
		if n == 0 {
			return len(b), nil
		}
		if err := l.print(n); err != nil {
			return 0, err
		}
	}
}

// flush prints a line that has no end.
func (l *logLines) flush() error {
	if len(l.part) == 0 {
		return nil
	}
	return l.print(len(l.part))
}

func (l *logLines) print(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.Text = string(l.part[:n])
	text, err := json.Marshal(l.line)
	if err == nil {
		_, err = l.w.Write(append(text, '\n'))
	}
	l.line.Offset += int64(n)
	l.part = l.part[:copy(l.part, l.part[n:])]
	return err
}
