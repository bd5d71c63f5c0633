package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

func replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay LOG",
		Short: "Decide a recorded session again and compare, byte for byte",
		Long: `Replay takes the log of hare online --log or of GET /v1/sessions/{id}/log: a first
line with cluster, policy and parameters, then {"event": …, "decisions": …} a
line. It exits with 0 when the decisions are the same, with 1 at the first
difference, and with 2 when LOG is not a log or cannot have happened.`,
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
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d events, decisions identical\n", n)
			return err
		},
	}
}

// replay decides a log again. It stops at the first difference.
func replay(ctx context.Context, in io.Reader) (events int64, difference string, err error) {
	r := bufio.NewReaderSize(in, 1<<16)
	first, err := r.ReadBytes('\n') // the cluster may be large
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, "", err
	}
	h, err := hare.DecodeLogHeader(first)
	if err != nil {
		return 0, "", err
	}
	p, err := online.New(h.Policy, &h.Cluster, h.Parameters)
	if err != nil {
		return 0, "", err
	}
	var was, is []byte
	var last hare.Event
	for ctx.Err() == nil {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) == 0 {
			return events, "", nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, "", err
		}
		at := func(err error) error { return fmt.Errorf("line %d: %w", events+2, err) }
		rec, err := hare.DecodeRecord(line)
		if err != nil {
			return 0, "", at(err)
		}
		e := rec.Event
		if e.Seq != last.Seq+1 || e.AtUs < last.AtUs {
			return 0, "", at(fmt.Errorf("event %d at %s cannot follow event %d at %s", e.Seq, hare.FormatMicros(e.AtUs), last.Seq, hare.FormatMicros(last.AtUs)))
		}
		got, err := p.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			return 0, "", at(err)
		}
		was, is = hare.AppendDecisions(was[:0], rec.Decisions), hare.AppendDecisions(is[:0], got)
		if !bytes.Equal(was, is) {
			return events, fmt.Sprintf("event %d (line %d) is decided in another way\nrecorded %s\nnow      %s", e.Seq, events+2, was, is), nil
		}
		last = e
		events++
	}
	return 0, "", ctx.Err()
}
