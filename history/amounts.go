package history

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// Times of logs lie between 1970 and the year 2200.
const maxTimeUs = 7_258_118_400 * 1_000_000

// parseTime reads a time as Slurm and tables write it: 2026-11-22T22:53:01 with or without a
// zone, or seconds since 1970. A time without a zone is in loc. What stands for no time gives 0.
func parseTime(text string, loc *time.Location) (int64, error) {
	switch text {
	case "", "Unknown", "None", "N/A", "n/a", "NONE", "unknown":
		return 0, nil
	}
	if text[0] >= '0' && text[0] <= '9' && !strings.ContainsAny(text, "-T:") {
		return parseSeconds(text)
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(form, text); err == nil {
			return timeUs(at)
		}
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(form, text, loc); err == nil {
			return timeUs(at)
		}
	}
	return 0, fmt.Errorf("%.40q is not a time: write 2026-11-22T22:53:01, with a zone such as Z where needed, "+
		"or seconds since 1970", text)
}

func timeUs(at time.Time) (int64, error) {
	us := at.UnixMicro()
	if at.Year() < 1970 || us > maxTimeUs {
		return 0, fmt.Errorf("the year %d is not between 1970 and 2199", at.Year())
	}
	return us, nil
}

// parseSeconds reads decimal seconds that are not negative.
func parseSeconds(text string) (int64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || s < 0 || s > maxTimeUs/1e6 {
		return 0, fmt.Errorf("%.40q is not a number of seconds", text)
	}
	us := s * 1e6
	if fraction == "" {
		return us, nil
	}
	if len(fraction) > 6 {
		fraction = fraction[:6]
	}
	f, err := strconv.ParseUint(fraction, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a number of seconds", text)
	}
	for range 6 - len(fraction) {
		f *= 10
	}
	return us + int64(f), nil
}

// parseLimit reads a limit as Slurm writes it: days-hours:minutes:seconds, minutes, or a word
// for no limit, which gives 0.
func parseLimit(text string) (int64, error) {
	switch strings.ToUpper(text) {
	case "", "UNLIMITED", "PARTITION_LIMIT", "INVALID", "N/A", "INFINITE":
		return 0, nil
	}
	fault := fmt.Errorf("%.40q is not a limit such as 1-12:00:00, 90:00 or 90 (minutes)", text)
	daysText, clock, hasDays := strings.Cut(text, "-")
	var days int64
	if hasDays {
		d, err := strconv.ParseUint(daysText, 10, 20)
		if err != nil {
			return 0, fault
		}
		days = int64(d)
	} else {
		clock = text
	}
	var parts []int64
	for _, p := range strings.Split(clock, ":") {
		v, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return 0, fault
		}
		parts = append(parts, int64(v))
	}
	var s int64
	switch {
	case len(parts) > 3:
		return 0, fault
	case hasDays: // hours, hours:minutes, hours:minutes:seconds
		for i, unit := range []int64{3600, 60, 1}[:len(parts)] {
			s += parts[i] * unit
		}
	case len(parts) == 3:
		s = parts[0]*3600 + parts[1]*60 + parts[2]
	case len(parts) == 2:
		s = parts[0]*60 + parts[1]
	default:
		s = parts[0] * 60
	}
	if s += days * 86400; s > maxTimeUs/1e6 {
		return 0, fault
	}
	return s * 1e6, nil
}

// resources are trackable resources, in Slurm's form: cpu=8,mem=64G,gres/gpu:v100=2.
type resources struct {
	cpuMilli, memoryMiB, nodes, gpus int64
	byType                           []hare.TypeCount // GPUs whose type is told, sorted
}

// parseResources reads a list of trackable resources. What is not about GPUs, CPUs, memory or
// nodes is left out.
func parseResources(text string) (resources, error) {
	var r resources
	if text == "" {
		return r, nil
	}
	for _, part := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return r, fmt.Errorf("%.60q is not NAME=COUNT", part)
		}
		name = strings.TrimPrefix(name, "gres/")
		var err error
		switch {
		case name == "cpu":
			var n int64
			n, err = parseCount(value)
			r.cpuMilli = n * 1000
		case name == "node":
			r.nodes, err = parseCount(value)
		case name == "mem":
			r.memoryMiB, err = parseMiB(value)
		case name == "gpu":
			r.gpus, err = parseCount(value)
		case strings.HasPrefix(name, "gpu:"):
			var n int64
			if n, err = parseCount(value); n > 0 {
				r.byType = append(r.byType, hare.TypeCount{Type: strings.TrimPrefix(name, "gpu:"), Count: int(n)})
			}
		}
		if err != nil {
			return r, fmt.Errorf("%.60q: %w", part, err)
		}
	}
	slices.SortFunc(r.byType, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	var typed int64
	for _, g := range r.byType {
		typed += int64(g.Count)
	}
	r.gpus = max(r.gpus, typed)
	return r, nil
}

// parseCount reads a count up to 2^40; sacct writes large counts with a suffix such as 1.5K.
func parseCount(text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= hare.MaxPerTask/1000 {
		return n, nil
	}
	unit := int64(1)
	if i := strings.IndexByte("KMGT", lastByte(text)); i >= 0 && text != "" {
		unit = 1000
		for range i {
			unit *= 1000
		}
		text = text[:len(text)-1]
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x*float64(unit) <= hare.MaxPerTask/1000) {
		return 0, fmt.Errorf("%.40q is not a count", text)
	}
	return int64(math.Round(x * float64(unit))), nil
}

// parseMiB reads an amount of memory such as 64M, 1.50G or 4096 (MiB).
func parseMiB(text string) (int64, error) {
	shift, digits := 0.0, text
	if text != "" {
		if i := strings.IndexByte("KMGTP", lastByte(text)); i >= 0 {
			shift, digits = float64(10*(i-1)), text[:len(text)-1]
		}
	}
	x, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(x >= 0) {
		return 0, fmt.Errorf("%.40q is not an amount of memory such as 64G", text)
	}
	mib := math.Round(x * math.Exp2(shift))
	if mib > hare.MaxPerTask {
		return 0, fmt.Errorf("%.40q is more memory than can be", text)
	}
	return int64(mib), nil
}

func lastByte(text string) byte {
	if text == "" {
		return 0
	}
	return text[len(text)-1]
}

// commentPrefix begins the comment of a job that says how long it takes on each type.
const commentPrefix = "hare="

// parseSpeeds reads the durations in a comment such as hare={"v100":9,"t4":14}. A comment without
// the prefix gives nothing.
func parseSpeeds(comment string) ([]TypeSeconds, error) {
	at := strings.Index(comment, commentPrefix)
	if at < 0 {
		return nil, nil
	}
	return ParseSeconds(comment[at+len(commentPrefix):])
}

// ParseSeconds reads the durations of a job by GPU type, as {"v100":9,"t4":14}, in seconds above 0. The
// result is sorted by type.
func ParseSeconds(text string) ([]TypeSeconds, error) {
	var durations map[string]json.Number
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&durations); err != nil {
		return nil, fmt.Errorf(`%.60q is not a JSON object of seconds by GPU type such as {"v100":9,"t4":14}`, text)
	}
	out := make([]TypeSeconds, 0, len(durations))
	for name, value := range durations {
		us, err := parseSeconds(string(value))
		if err != nil || us == 0 || name == "" {
			return nil, fmt.Errorf("%.60q: %.40q is not a number of seconds above 0", text, string(value))
		}
		out = append(out, TypeSeconds{name, us})
	}
	slices.SortFunc(out, func(a, b TypeSeconds) int { return strings.Compare(a.Type, b.Type) })
	return out, nil
}

// ParseTime reads a time as 2026-11-22T22:53:01, with or without a zone, a day such as 2026-11-22, or
// seconds since 1970, and returns microseconds since 1970.
func ParseTime(text string, loc *time.Location) (int64, error) {
	if at, err := time.ParseInLocation(time.DateOnly, text, loc); err == nil {
		return timeUs(at)
	}
	return parseTime(text, loc)
}

// ParseSpeeds reads relative speeds of GPU types such as v100=1,t4=0.4.
func ParseSpeeds(text string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, part := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		speed, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || name == "" || !(speed >= 1e-6 && speed <= 1e6) {
			return nil, fmt.Errorf("%.60q is not TYPE=SPEED with a speed between 0.000001 and 1000000, such as t4=0.4", part)
		}
		out[strings.ToLower(name)] = speed
	}
	return out, nil
}
