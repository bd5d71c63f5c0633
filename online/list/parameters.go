package list

import (
	"encoding/json"

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
