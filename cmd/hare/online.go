package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

func onlineCommand() *cobra.Command {
	var cluster, name, parameters, log string
	c := &cobra.Command{
		Use:   "online --cluster FILE",
		Short: "Run an online session on standard input and output: events in, decisions out",
		Long: `Online reads events from standard input, one JSON object per line, and answers each
event at once with a line of decisions: which task starts on which GPU. An event
that cannot be applied is answered with {"seq": …, "error": {…}}, which names the
line, the place in the line and the reason; such an event changes nothing, and the
session goes on. docs/use/online.md describes events and decisions.

SIGTERM or Ctrl-C ends the session between two events, after the decisions so far
and the log have been written.

Exit codes: 0 every event was applied, 2 an event was refused.`,
		Example: `  hare online --cluster cluster.json < events.ndjson > decisions.ndjson
  hare online --cluster cluster.json --log run.ndjson < events.ndjson > /dev/null
  hare online replay run.ndjson
  hare online policies rolling`,
		Args: exactly(0, "no arguments: it reads events from standard input"),
		RunE: func(c *cobra.Command, _ []string) error {
			if cluster == "" {
				return usageError{errors.New("give the cluster: --cluster cluster.json")}
			}
			h := wire.LogHeader{Policy: name, Clock: "events"}
			if err := readSession(&h, cluster, parameters); err != nil {
				return err
			}
			p, err := registry.OpenSession(h.Policy, &h.Cluster, h.Parameters)
			if err != nil {
				return policyError("--policy: ", err)
			}
			return onPipes(c, p, &h, log)
		},
	}
	f := c.Flags()
	f.StringVar(&cluster, "cluster", "", `the cluster: {"nodes": […]}, or a whole instance, whose jobs are ignored`)
	f.StringVar(&name, "policy", sessions.DefaultPolicy, "policy: "+strings.Join(registry.SessionNames(), ", "))
	f.StringVar(&parameters, "parameters", "", "JSON file with the parameters of the policy")
	f.StringVar(&log, "log", "", "write events and decisions to this file, for hare online replay")
	choices(c, "policy", registry.SessionNames()...)
	outputs(c, outputFile, "log")
	c.AddCommand(replayCommand(), regretCommand(), planCommand(), policiesCommand())
	return c
}

// policyError says of a policy that cannot run in a session who named it, in place of the pointer.
func policyError(place string, err error) error {
	var bad *hare.InvalidError
	if errors.As(err, &bad) && bad.Pointer == "/policy" {
		return usageError{errors.New(place + bad.Detail)}
	}
	return usageError{err}
}

// onPipes runs a session on standard input and output. However the session ends, the
// log is complete up to the last event that was applied.
func onPipes(c *cobra.Command, p online.Policy, h *wire.LogHeader, log string) error {
	second, stop := secondSignal(c.Context())
	defer stop()
	if log != "" {
		// Without SIGPIPE, writing to a closed pipe returns an error and does not end
		// the process.
		signal.Ignore(syscall.SIGPIPE)
		defer signal.Reset(syscall.SIGPIPE)
	}
	out := newInterruptibleWriter(second, exact(c.OutOrStdout()))
	defer out.Close()
	s := &stream{policy: p, out: bufio.NewWriterSize(out, 1<<16)}
	in := newInterruptibleReader(c.Context().Done(), c.InOrStdin())
	var err error
	if log == "" {
		err = s.run(c.Context(), in)
	} else {
		var ended error
		err = writeOut(log, func(w io.Writer) error {
			s.log = w
			if _, err := w.Write(append(wire.AppendLogHeader(nil, h), '\n')); err != nil {
				return err
			}
			ended = s.run(c.Context(), in)
			return s.logFault
		})
		if err == nil {
			err = ended
		}
	}
	switch {
	case errors.Is(err, errInterrupted):
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "hare: interrupted before the last decisions were read")
		return errNo
	case err == nil && s.refused > 0:
		return usageError{fmt.Errorf("%d of %d lines were refused: the answers say why", s.refused, s.line)}
	}
	return err
}

// readSession reads the files that configure a session.
func readSession(h *wire.LogHeader, cluster, parameters string) error {
	if err := noTwice("-", cluster, parameters); err != nil {
		return usageError{errors.New("standard input is for the events: give files")}
	}
	got, err := readCluster(cluster)
	if err != nil {
		return err
	}
	h.Cluster = *got
	if parameters == "" {
		return nil
	}
	text, err := os.ReadFile(parameters)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil || len(b.Bytes()) == 0 || b.Bytes()[0] != '{' {
		return usageError{fmt.Errorf("%s: must be a JSON object", parameters)}
	}
	h.Parameters = b.Bytes()
	return nil
}

// stream is a session on standard input and output.
type stream struct {
	policy   online.Policy
	out      *bufio.Writer
	log      io.Writer // nil means no log
	logFault error     // the error of writing the log
	line     int64     // number of the last line that was read
	refused  int64
	last     hare.Event // the last event that was applied
	buf      []byte
}

// run answers events until in or ctx ends. It flushes when no further line is
// available.
func (s *stream) run(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 1<<16)
	for ctx.Err() == nil {
		line, err := wire.ReadEventLine(r)
		if err != nil && !errors.Is(err, wire.ErrLongEvent) {
			flushed := s.out.Flush()
			if errors.Is(err, io.EOF) || errors.Is(err, errInterrupted) {
				err = nil
			}
			return errors.Join(err, flushed)
		}
		s.line++
		if len(bytes.TrimSpace(line)) > 0 || err != nil {
			if err := s.answer(line, err); err != nil {
				return err
			}
		}
		if !lineWaits(r) {
			if err := s.out.Flush(); err != nil {
				return err
			}
		}
	}
	return s.out.Flush()
}

// answer applies one line and writes the answer. It returns errors of writing only.
func (s *stream) answer(line []byte, bad error) error {
	s.buf = s.buf[:0]
	e, decisions, refusal := s.apply(line, bad)
	if refusal != nil {
		refusal.Line = s.line
		s.refused++
		s.buf = append(wire.AppendRefusal(s.buf, refusal), '\n')
		_, err := s.out.Write(s.buf)
		return err
	}
	if s.log != nil { // before the answer, so that the log has every decision that was sent
		s.buf = append(wire.AppendRecord(s.buf, wire.Record{Event: e, Decisions: decisions}), '\n')
		if _, s.logFault = s.log.Write(s.buf); s.logFault != nil {
			return s.logFault
		}
	}
	s.buf = append(wire.AppendAnswer(s.buf[:0], hare.Answer{Seq: e.Seq, Decisions: decisions}), '\n')
	_, err := s.out.Write(s.buf)
	return err
}

func (s *stream) apply(line []byte, bad error) (hare.Event, []hare.Decision, *wire.Refusal) {
	refuse := func(seq, status int64, errs ...*hare.InvalidError) *wire.Refusal {
		return &wire.Refusal{Seq: seq, Status: status, Errors: errs}
	}
	if bad != nil {
		return hare.Event{}, nil, refuse(0, 413, &hare.InvalidError{Code: wire.CodeBodyTooLarge, Detail: bad.Error()})
	}
	e, err := wire.DecodeEvent(line)
	var faults hare.InvalidErrors
	if errors.As(err, &faults) {
		return e, nil, refuse(e.Seq, 422, faults...)
	}
	if want := s.last.Seq + 1; e.Seq != want {
		r := refuse(e.Seq, 409, &hare.InvalidError{Pointer: "/seq", Code: "out_of_sequence",
			Detail: fmt.Sprintf("event %d came where event %d is expected: send the events from %d on", e.Seq, want, want)})
		r.Expected = want
		return e, nil, r
	}
	if e.AtUs < s.last.AtUs {
		return e, nil, refuse(e.Seq, 422, &hare.InvalidError{Pointer: "/at_s", Code: "time_goes_back",
			Detail: fmt.Sprintf("%s lies before the event before, at %s: times never go back", hare.FormatMicros(e.AtUs),
				hare.FormatMicros(s.last.AtUs))})
	}
	decisions, err := s.policy.Step(e.AtUs, []hare.Event{e})
	var refused *online.RefusedError
	switch {
	case errors.As(err, &refused):
		return e, nil, refuse(e.Seq, 422, refused.Err)
	case err != nil:
		return e, nil, refuse(e.Seq, 500, &hare.InvalidError{Code: "internal", Detail: err.Error()})
	}
	s.last = e
	return e, decisions, nil
}

// lineWaits reports whether a whole line can be read without blocking.
func lineWaits(r *bufio.Reader) bool {
	b, _ := r.Peek(r.Buffered())
	return bytes.IndexByte(b, '\n') >= 0
}
