package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Limits of what an agent may report.
const (
	maxReports   = 10_000
	maxLineBytes = 500
	maxJobID     = 20
)

// maxKept is how many jobs an agent may ask about at once.
const maxKept = 1000

// CheckSync says what is wrong with a sync of an agent with a number of devices: hare.InvalidErrors, or nil. Texts
// for people and durations are brought within their limits instead, because an agent could only repeat them.
func CheckSync(s *clusterdoc.Sync, devices int) error {
	var es hare.InvalidErrors
	for _, n := range []struct {
		field string
		value int64
	}{{"/reports_after", s.ReportsAfter}, {"/orders_seen", s.OrdersSeen}} {
		if n.value < 0 || n.value > 1<<53 {
			es.Add(n.field, "out_of_range", "must be between 0 and 2^53")
		}
	}
	checkReports(&es, "/reports", s.Reports)
	if n := len(s.Checkpoints); n > maxKept {
		es.Add("/checkpoints", "too_many", "has %d jobs: at most %d are allowed", n, maxKept)
	}
	for _, i := range slices.Sorted(maps.Keys(s.Faults)) {
		if i < 0 || i >= devices {
			es.Add(fmt.Sprintf("/faults/%d", i), "out_of_range", "the agent registered %d devices, numbered from 0", devices)
		}
		if s.Faults[i] = line(s.Faults[i]); s.Faults[i] == "" {
			s.Faults[i] = "the agent gives no reason"
		}
	}
	if len(es) > 0 {
		return es
	}
	return nil
}

func checkReports(es *hare.InvalidErrors, at string, reports []clusterdoc.TaskReport) {
	if len(reports) > maxReports {
		es.Add(at, "too_many", "has %d reports: at most %d are allowed", len(reports), maxReports)
		return
	}
	for i := range reports {
		r := &reports[i]
		switch r.State {
		case clusterdoc.TaskRunning, clusterdoc.TaskEnded, clusterdoc.TaskLost:
		default:
			es.Add(fmt.Sprintf("%s/%d/state", at, i), "bad_value", "must be running, ended or lost")
		}
		if len(r.Job) > maxJobID || number(r.Job) == 0 {
			es.Add(fmt.Sprintf("%s/%d/job", at, i), "bad_value", "must be the id of a job, such as j17")
		}
		if r.Round = max(0, r.Round); len(r.Apart) > maxDevices {
			r.Apart = r.Apart[:maxDevices]
		}
		r.Error, r.Signal, r.Loss = line(r.Error), line(r.Signal), line(r.Loss)
		for _, s := range []*float64{&r.RanS, &r.SyncS} {
			if *s = min(max(*s, 0), maxSeconds); math.IsNaN(*s) {
				*s = 0
			}
		}
		if r.Port < 0 || r.Port > 65535 {
			es.Add(fmt.Sprintf("%s/%d/port", at, i), "out_of_range", "must be between 0 and 65535")
		}
	}
}

// line makes a text one line of printable characters that is not too long.
func line(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD")))
	return hare.Cut(text, maxLineBytes)
}
