package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

func replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay LOG",
		Short: "Repeat a recorded session and compare its decisions byte for byte",
		Long: `Replay reads the log of hare online --log or of GET /v1/sessions/{id}/log, runs the
session again and compares its decisions. The first line of a log has the cluster,
the policy and its parameters; each other line has an event, its decisions, and the
plan that the policy took before the event, if there was one: plans are not made again.

Exit codes: 0 the decisions are the same; 1 they differ, and the first difference is
printed; 2 LOG is not a log or contains events that cannot happen.`,
		Example: `  hare online --cluster cluster.json --log run.ndjson < events.ndjson > /dev/null
  hare online replay run.ndjson
  curl -s http://127.0.0.1:8080/v1/sessions/$ID/log | hare online replay -`,
		Args: exactly(1, "one log"),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := openIn(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			n, difference, err := replay(c.Context(), f)
			switch {
			case err != nil:
				return inputError(args[0], err)
			case difference != "":
				_, _ = fmt.Fprintln(c.OutOrStdout(), difference)
				return errNo
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s, decisions identical\n", words.Count(n, "event"))
			return err
		},
	}
}

// replay repeats a session from its log. It stops at the first difference.
func replay(ctx context.Context, in io.Reader) (events int64, difference string, err error) {
	h, records, err := readLog(ctx, in)
	if err != nil {
		return 0, "", err
	}
	p, err := registry.OpenSession(h.Policy, &h.Cluster, h.Parameters)
	if err != nil {
		return 0, "", err
	}
	var was, is []byte
	for rec, err := range records {
		if err != nil {
			return 0, "", err
		}
		e := rec.Event
		if err := takeRecorded(p, &rec); err != nil {
			return 0, "", fmt.Errorf("line %d: %w", events+2, err)
		}
		got, err := p.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			return 0, "", fmt.Errorf("line %d: %w", events+2, err)
		}
		was, is = wire.AppendDecisions(was[:0], rec.Decisions), wire.AppendDecisions(is[:0], got)
		if !bytes.Equal(was, is) {
			return events, fmt.Sprintf("event %d (line %d) is decided in another way\nrecorded %s\nnow      %s", e.Seq,
				events+2, was, is), nil
		}
		events++
	}
	return events, "", nil
}

// readLog reads the first line of a log and yields its records. The last record may
// come with an error, which names its line, or with the error of ctx.
func readLog(ctx context.Context, in io.Reader) (*wire.LogHeader, iter.Seq2[wire.Record, error], error) {
	r := bufio.NewReaderSize(in, 1<<16)
	first, err := r.ReadBytes('\n') // not limited like events: the cluster may be large
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	h, err := wire.DecodeLogHeader(first)
	if err != nil {
		if is := recognise(first[:min(len(first), headBytes)]); is.what != "" && is.what != aLog {
			err = fmt.Errorf("the file is %s: give %s", is.what, aLog)
		}
		return nil, nil, err
	}
	return h, func(yield func(wire.Record, error) bool) {
		var last hare.Event
		for line := int64(2); ; line++ {
			text, err := r.ReadBytes('\n')
			if ctx.Err() != nil {
				err = ctx.Err()
			} else if errors.Is(err, io.EOF) {
				if len(bytes.TrimSpace(text)) == 0 {
					return
				}
				err = nil
			}
			var rec wire.Record
			if err == nil {
				rec, err = wire.DecodeRecord(text)
			}
			if e := rec.Event; err == nil && (e.Seq != last.Seq+1 || e.AtUs < last.AtUs) {
				err = fmt.Errorf("event %d at %s cannot follow event %d at %s", e.Seq, hare.FormatMicros(e.AtUs), last.Seq,
					hare.FormatMicros(last.AtUs))
			}
			if err != nil {
				yield(wire.Record{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			last = rec.Event
			if !yield(rec, nil) {
				return
			}
		}
	}, nil
}
