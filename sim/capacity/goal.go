package capacity

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/sim"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// A goal is what the jobs of a week must reach, all parts at once.
type goal []bar

// bar is one part of a goal: a figure of a week, and its limit.
type bar struct {
	what  string  // wait, completion or deadlines
	share float64 // the percentile of times, or −1 for their mean
	limit float64 // in seconds, or the share of deadlines that must be met
}

var (
	barText = regexp.MustCompile(`^(mean|max|median|p\d{1,2}(?:\.\d+)?) +(wait|completion) *(?:<=|<|≤) *(\S.*)$`)
	dueText = regexp.MustCompile(`^deadlines *(?:>=|>|≥) *(\d+(?:\.\d+)?) *%$`)
)

// readGoal reads a goal such as p95 wait <= 1h and deadlines >= 99 %.
func readGoal(text string) (goal, error) {
	var g goal
	bad := func(format string, args ...any) error { return fault("/goal", "bad_goal", format, args...) }
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil
	case len(text) > maxText:
		return nil, fault("/goal", "too_large", "a goal has at most %d bytes", maxText)
	}
	for part := range strings.SplitSeq(text, " and ") {
		part = strings.TrimSpace(part)
		if m := dueText.FindStringSubmatch(part); m != nil {
			share, err := strconv.ParseFloat(m[1], 64)
			if err != nil || share > 100 {
				return nil, bad("%q: give at most 100 %%", part)
			}
			g = append(g, bar{"deadlines", -1, share / 100})
			continue
		}
		m := barText.FindStringSubmatch(part)
		if m == nil {
			return nil, bad("%q: give mean, median, max or a percentile of wait or completion and a limit, "+
				"such as 'p95 wait <= 1h', or 'deadlines >= 95%%'; join several by and", part)
		}
		us, err := duration(m[3])
		if err != nil || us <= 0 {
			return nil, bad("%q: %q is not a time above 0, such as 90m, 1h or 2d", part, m[3])
		}
		share := -1.0
		switch m[1] {
		case "mean":
		case "median":
			share = 0.5
		case "max":
			share = 1
		default:
			x, err := strconv.ParseFloat(m[1][1:], 64)
			if err != nil || x <= 0 {
				return nil, bad("%q: %s is not a percentile above 0", part, m[1])
			}
			share = x / 100
		}
		g = append(g, bar{m[2], share, float64(us) / 1e6})
	}
	return g, nil
}

// duration reads a time such as 90m, 1h30m, 2d, or seconds.
func duration(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		x, err := strconv.ParseFloat(days, 64)
		if err != nil || !(math.Abs(x) <= capacitydoc.MaxDays) {
			return 0, fmt.Errorf("%q is not a number of days", text)
		}
		return int64(math.Round(x * float64(dayUs))), nil
	}
	if d, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil {
		return d.Microseconds(), nil
	}
	return hare.ParseMicros(text)
}

// reached reports whether a week reaches a goal.
func (g goal) reached(w *Week) bool {
	for _, b := range g {
		if b.what == "deadlines" {
			if w.Deadlines > 0 && float64(w.Met) < b.limit*float64(w.Deadlines)-1e-9 {
				return false
			}
		} else if w.figure(b) > b.limit {
			return false
		}
	}
	return true
}

// figure is the figure of a week that a part of a goal is about.
func (w *Week) figure(b bar) float64 {
	times := w.WaitsS
	if b.what == "completion" {
		times = w.CompletionsS
	}
	if len(times) == 0 {
		return 0
	}
	if b.share >= 0 {
		return sim.Percentile(times, b.share)
	}
	sum := 0.0
	for _, x := range times {
		sum += x
	}
	return sum / float64(len(times))
}

func (b bar) String() string {
	if b.what == "deadlines" {
		return fmt.Sprintf("share of deadlines met of at least %v %%", math.Round(b.limit*1e4)/100)
	}
	name := "mean"
	switch {
	case b.share == 1:
		name = "longest"
	case b.share == 0.5:
		name = "median"
	case b.share >= 0:
		name = "p" + strconv.FormatFloat(math.Round(b.share*1e4)/100, 'g', -1, 64)
	}
	return fmt.Sprintf("%s %s of at most %s", name, b.what, words.Seconds(b.limit))
}

func (g goal) String() string {
	var parts []string
	for _, b := range g {
		parts = append(parts, b.String())
	}
	return strings.Join(parts, " and a ")
}
