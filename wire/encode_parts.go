package wire

import (
	"encoding/json"
	"strings"

	"github.com/hare-sched/hare"
)

// AppendLane appends the JSON form of a lane to b.
func AppendLane(b []byte, l *hare.Lane) []byte { return appendLane(b, l) }

// AppendString appends a JSON string to b.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

// OptionsJSON is the form of options in results and requests: all of them.
func OptionsJSON(o hare.Options) json.RawMessage {
	text, _ := json.Marshal(formOf(o)) // strings and finite numbers
	return text
}

func formOf(o hare.Options) optionsJSON {
	return optionsJSON{
		TimeLimit: raw(hare.FormatMicros(o.TimeLimit.Microseconds())), WorkLimit: o.WorkLimit, Gap: o.Gap, Seed: o.Seed,
		Bound: o.Bound, Order: o.Order, Assign: o.Assign, Detail: o.Detail, Degrade: o.Degrade,
	}
}

// GapJSON is the gap of a result as results print it: null without a useful bound.
func GapJSON(r *hare.Result) json.RawMessage {
	g, ok := r.Gap()
	if !ok {
		return raw("null")
	}
	text := g.FloatString(6) // exact: it is a multiple of 1e-6
	return raw(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}
