package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

func replayResultCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay INSTANCE RESULT",
		Short: "Repeat the solve of a result and compare byte for byte",
		Long: `Replay solves INSTANCE with the options and the seed of RESULT, and compares the new
result with RESULT byte for byte, except for "timing". (The log of a session is
replayed by hare online replay LOG.)

Exit codes: 0 the results are the same; 1 they differ, and the first difference is
printed; 2 the solve cannot be repeated, and the reason is printed: RESULT says that
it is not reproducible (the clock or the caller ended it, or an LP worker was
restarted), or it belongs to another version of Hare or HiGHS or to another
instance.

The number of cores does not matter. It does matter whether HiGHS is running: without
HiGHS another engine finds the prices, and the result says which one did. Two things
are not recorded: the architecture, on which floating-point results may depend, and
the other file of --warm.`,
		Example: `  hare solve instance.json --work-limit 20000 -o result.json
  hare replay instance.json result.json`,
		Args: exactly(2, "an instance and a result"),
		RunE: replayResult,
	}
}

func replayResult(c *cobra.Command, args []string) error {
	if err := noTwice(args...); err != nil {
		return err
	}
	inst, err := readInstance(args[0])
	if err != nil {
		return otherWayRound(args, err)
	}
	f, err := openIn(args[1])
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return err
	}
	res, err := wire.DecodeResult(bytes.NewReader(text), wire.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return due(args[1], aResult, text[:min(len(text), headBytes)], err)
	}
	if why := unlike(inst, res); why != "" {
		return usageError{fmt.Errorf("cannot replay: %s", why)}
	}
	engine, closeEngine := startEngine(true)
	defer closeEngine()
	if why := otherEngine(res, engine.EngineVersion); why != "" {
		return usageError{fmt.Errorf("cannot replay: %s", why)}
	}
	again, err := solver.Solve(c.Context(), inst, res.Options, engine)
	if err != nil {
		return err
	}
	return compareResults(c.Context(), c.OutOrStdout(), text, again)
}

// unlike returns the reason why a solve of inst cannot reproduce a result; "" if it
// can.
func unlike(inst *hare.Instance, res *hare.Result) string {
	switch sha := wire.SHA256(inst); {
	case res.InstanceSHA256 != sha:
		return fmt.Sprintf("the result is of another instance: its instance_sha256 is %.12s…, this one's is %.12s…",
			res.InstanceSHA256, sha)
	case res.Version != version:
		return fmt.Sprintf("the result is of version %.40q of Hare, this is %s", res.Version, version)
	}
	if res.Reproducible {
		return ""
	}
	switch res.Termination {
	case hare.TerminationDeadline:
		return "the result is not reproducible: the clock ended it (termination deadline); solve with --work-limit " +
			"instead of --time-limit"
	case hare.TerminationCancelled:
		return "the result is not reproducible: its caller ended it (termination cancelled)"
	}
	return "the result is not reproducible: the clock had a part in it, or a worker for linear programs was restarted " +
		"meanwhile"
}

func otherEngine(res *hare.Result, now string) string {
	was := res.Engine.HiGHS
	name := func(v string) string {
		if v == "" {
			return "the Go engine alone, without HiGHS"
		}
		return "HiGHS " + strconv.Quote(v)
	}
	if was == now {
		return ""
	}
	return fmt.Sprintf("the result is of another engine: %s, here it is %s", name(was), name(now))
}

// timing matches the part of a result that may differ. Its numbers have no braces.
var timing = regexp.MustCompile(`"timing":\{[^{}]*\}`)

// compareResults prints whether the text of a result equals that of another solve.
func compareResults(ctx context.Context, out io.Writer, was []byte, again *hare.Result) error {
	if ctx.Err() != nil {
		return usageError{fmt.Errorf("cannot replay: interrupted")}
	}
	if !again.Reproducible {
		return usageError{fmt.Errorf("cannot replay: a worker for linear programs was restarted, or the time limit %s "+
			"ended this solve: try again", again.Options.TimeLimit)}
	}
	without := func(text []byte) []byte { return timing.ReplaceAllLiteral(text, []byte(`"timing":{}`)) }
	was = without(was)
	var plain, lines bytes.Buffer
	if err := wire.EncodeResult(&plain, again); err != nil {
		return err
	}
	if err := wire.EncodeResultLines(&lines, again); err != nil {
		return err
	}
	if bytes.Equal(was, without(plain.Bytes())) || bytes.Equal(was, without(lines.Bytes())) {
		_, err := fmt.Fprintln(out, "identical, byte for byte but for timing")
		return err
	}
	// The text was reformatted by another program, or has its lanes on separate lines.
	first, lanes, err := documents(was)
	if err != nil {
		return err
	}
	second, others, err := documents(plain.Bytes())
	if len(lanes) > 0 {
		second, others, err = documents(lines.Bytes())
	}
	if err != nil {
		return err
	}
	at := difference("", first, second)
	if at == "" {
		at = difference("/schedule/lanes", lanes, others)
	}
	if at == "" {
		_, err := fmt.Fprintln(out, "identical but for timing and the layout of the text")
		return err
	}
	if _, err := fmt.Fprintf(out, "different: %s\n", at); err != nil {
		return err
	}
	return errNo
}

// documents decodes a result and, where it is NDJSON, the lanes that follow.
func documents(text []byte) (head any, lanes []any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&head); err != nil {
		return nil, nil, err
	}
	if o, ok := head.(map[string]any); ok {
		delete(o, "timing")
	}
	for d.More() {
		var lane any
		if err := d.Decode(&lane); err != nil {
			return nil, nil, err
		}
		lanes = append(lanes, lane)
	}
	return head, lanes, nil
}

// difference describes the first difference between two values, in the order of their
// names; "" where they are equal.
func difference(at string, was, is any) string {
	show := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil || len(text) > 80 {
			return fmt.Sprintf("%.80s…", text)
		}
		return string(text)
	}
	other := fmt.Sprintf("%s was %s and is %s", at, show(was), show(is))
	switch a := was.(type) {
	case map[string]any:
		b, ok := is.(map[string]any)
		if !ok {
			return other
		}
		var names []string
		for name := range a {
			names = append(names, name)
		}
		for name := range b {
			if _, both := a[name]; !both {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			x, first := a[name]
			y, second := b[name]
			below := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			switch {
			case !first:
				return below + " is new"
			case !second:
				return below + " is missing now"
			}
			if d := difference(below, x, y); d != "" {
				return d
			}
		}
	case []any:
		b, ok := is.([]any)
		if !ok {
			return other
		}
		for i := range min(len(a), len(b)) {
			if d := difference(at+"/"+strconv.Itoa(i), a[i], b[i]); d != "" {
				return d
			}
		}
		if len(a) != len(b) {
			return fmt.Sprintf("%s had %d items and has %d", at, len(a), len(b))
		}
	default:
		if was != is {
			return other
		}
	}
	return ""
}
