package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/online/estimate"
	"github.com/hare-sched/hare/wire"
)

type fillFlags struct {
	history, out, rule, fromID string
	overwrite                  bool
	forest                     estimate.ForestConfig
}

// run writes the jobs of a file with estimates.
func (f *fillFlags) run(jobs string, out, notes io.Writer) error {
	if err := noTwice(f.history, jobs); err != nil {
		return err
	}
	fl := filler{overwrite: f.overwrite}
	if f.fromID != "" {
		var err error
		if fl.fromID, err = regexp.Compile(f.fromID); err != nil {
			return usageError{fmt.Errorf("--class-from-id: %w", err)}
		}
		if !slices.ContainsFunc(fl.fromID.SubexpNames(), func(name string) bool { return name != "" }) {
			return usageError{errors.New("--class-from-id: it names no group, such as (?P<user>[^-]+)")}
		}
	}
	history, err := openHistory(f.history)
	if err != nil {
		return err
	}
	rule, err := f.chosen(history)
	if err != nil {
		return err
	}
	if fl.forecast, err = estimate.NewForecast(history, rule.Name, f.forest); err != nil {
		return err
	}
	for _, l := range history[0].Labels {
		if l.Name == "num_gpus" || l.Name == "tasks" {
			fl.widths = append(fl.widths, l.Name)
		}
	}
	in, err := openIn(jobs)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, maxFileBytes))
	if err != nil {
		return inputError(jobs, err)
	}
	var b bytes.Buffer
	if isEvents(text) {
		err = fl.events(cmp.Or(strings.TrimPrefix(jobs, "-"), "standard input"), text, &b)
	} else {
		err = fl.instance(jobs, text, &b)
	}
	if err != nil {
		return err
	}
	if f.out != "-" {
		notes = out
	}
	write := func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	}
	if err := writeOut(f.out, write); err != nil {
		return err
	}
	_, err = fmt.Fprintf(notes, "%s: %s by %s from %s, %d for classes that the past knows; %d kept\n",
		words.Count(fl.filled+fl.kept, "job"), words.Count(fl.filled, "estimate"), rule.Text,
		words.Count(len(history), "past job"),
		fl.known, fl.kept)
	return err
}

// chosen finds the rule by its name.
func (f *fillFlags) chosen(history []estimate.PastJob) (estimate.Rule, error) {
	all := estimate.Rules()
	if f.rule == "best" {
		scores, _, err := estimate.Compare(history, f.forest)
		if err != nil {
			return estimate.Rule{}, usageError{fmt.Errorf("%s: no job ended before the last half of them arrived: name "+
				"a rule", f.history)}
		}
		return slices.MinFunc(scores, func(a, b estimate.Score) int { return cmp.Compare(a.RMS, b.RMS) }).Rule, nil
	}
	i := slices.IndexFunc(all, func(r estimate.Rule) bool { return r.Name == f.rule })
	if i < 0 {
		return estimate.Rule{}, usageError{fmt.Errorf("--rule %.40q: must be best or one of %s", f.rule,
			strings.Join(ruleNames(), ", "))}
	}
	return all[i], nil
}

// isEvents reports whether a text begins with an event: with an object that has seq or
// type.
func isEvents(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return false
		}
		if s := name.String(); s == "seq" || s == "type" {
			return true
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return false
}

// filler fills in what jobs lack.
type filler struct {
	forecast            *estimate.Forecast
	fromID              *regexp.Regexp
	widths              []string // labels that are the number of a job's tasks
	overwrite           bool
	filled, kept, known int
}

// instance fills in the jobs of an instance.
func (fl *filler) instance(name string, text []byte, out *bytes.Buffer) error {
	inst, err := wire.DecodeInstance(bytes.NewReader(text), wire.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return due(name, anInstance, text[:min(len(text), headBytes)], err)
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if fault := fl.fill(j, float64(j.ReleaseUs)/1e6); fault != nil {
			fault.Pointer = fmt.Sprintf("/jobs/%d%s", i, fault.Pointer)
			return inputError(name, fault)
		}
	}
	return wire.EncodeInstance(out, inst)
}

// events fills in the jobs that arrive, and copies the other lines. Events of sessions
// whose server keeps the time have no at_s.
func (fl *filler) events(name string, text []byte, out *bytes.Buffer) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := wire.DecodeEvent(line)
		write := wire.AppendEvent
		if err != nil {
			untimed, err2 := wire.DecodeUntimedEvent(line)
			if err2 != nil {
				return usageError{fmt.Errorf("%s:%d: %w", name, n, err)}
			}
			e, write = untimed, wire.AppendUntimedEvent
		}
		if e.Arrived == nil {
			out.Write(append(line, '\n'))
			continue
		}
		if fault := fl.fill(e.Arrived, float64(e.AtUs)/1e6); fault != nil {
			fault.Pointer = "/job" + fault.Pointer
			return usageError{fmt.Errorf("%s:%d: %w", name, n, fault)}
		}
		out.Write(append(write(nil, e), '\n'))
	}
	return nil
}

// fill gives a job the labels that can be found, and an estimate.
func (fl *filler) fill(j *hare.Job, afterS float64) *hare.InvalidError {
	h := j.Hints.Clone()
	if h == nil {
		h = &hare.JobHints{}
	}
	for _, name := range fl.widths {
		setLabel(h, name, strconv.FormatInt(j.Tasks, 10))
	}
	if fl.fromID != nil {
		if found := fl.fromID.FindStringSubmatch(j.ID); found != nil {
			for i, name := range fl.fromID.SubexpNames() {
				if name != "" {
					setLabel(h, name, found[i])
				}
			}
		}
	}
	var faults hare.InvalidErrors
	if faults.CheckHints("", h); len(faults) > 0 {
		return faults[0]
	}
	j.Hints = h
	if h.EstimateUs > 0 && !fl.overwrite {
		fl.kept++
		return nil
	}
	var labels []estimate.Label
	for _, l := range h.Class {
		labels = append(labels, estimate.Label(l))
	}
	s, known := fl.forecast.DurationS(labels, afterS)
	h.EstimateUs = threeDigits(s * 1e6)
	fl.filled++
	if known {
		fl.known++
	}
	return nil
}

// setLabel gives a job a label that it does not carry.
func setLabel(h *hare.JobHints, name, value string) {
	at, found := slices.BinarySearchFunc(h.Class, name, func(l hare.ClassLabel, name string) int {
		return strings.Compare(l.Name, name)
	})
	if !found {
		h.Class = slices.Insert(h.Class, at, hare.ClassLabel{Name: name, Value: value})
	}
}

// threeDigits rounds an estimate, which is never better than that.
func threeDigits(us float64) int64 {
	if us < 1000 {
		return max(1, int64(math.Round(us)))
	}
	unit := math.Pow(10, math.Floor(math.Log10(us))-2)
	return int64(min(math.Round(us/unit)*unit, hare.MaxExact))
}
