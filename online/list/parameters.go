package list

import (
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// PositiveMicros reads seconds above 0.
func PositiveMicros(pointer string, seconds json.Number) (int64, error) {
	us, err := hare.ParseMicros(seconds.String())
	if err != nil || us <= 0 || us > hare.MaxExact {
		return 0, online.Invalid(pointer, "out_of_range", "%.60s must be above 0 and at most %s, with at most six decimals",
			seconds, hare.FormatMicros(hare.MaxExact))
	}
	return us, nil
}

// DecodeState decodes a snapshot or the state of a rule, in half of the time that encoding/json
// takes.
func DecodeState(text []byte, state any) error { return jsonv2.Unmarshal(text, state) }
