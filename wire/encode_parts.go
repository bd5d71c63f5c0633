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

// GapJSON returns the gap of a result in JSON: null without a useful bound.
func GapJSON(r *hare.Result) json.RawMessage {
	g, ok := r.Gap()
	if !ok {
		return raw("null")
	}
	text := g.FloatString(6) // exact: it is a multiple of 1e-6
	return raw(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}
