package history

import (
	"cmp"
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
// zone, or seconds since 1970. A time without a zone is in loc, and the earlier one where it stands there twice.
// What stands for no time gives 0.
func parseTime(text string, loc *time.Location) (int64, error) {
	c, err := parseClock(text, loc)
	return c.us, err
}

// clock is a time as a text tells it, in microseconds since 1970. A local time that stands twice, at the end of
// summer time, has a later reading, else 0. One that its zone leaves out, at the begin of summer time, is skipped.
type clock struct {
	us, later int64
	skipped   bool
}

// zoneForms are the forms of times with a zone, once a blank for T and blanks before the zone are gone.
var zoneForms = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07"}

// localForms are the forms of times without a zone.
var localForms = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "02.01.2006T15:04:05", "02.01.2006T15:04"}

// parseClock reads a time as parseTime does, with all of its readings.
func parseClock(text string, loc *time.Location) (clock, error) {
	switch text {
	case "", "Unknown", "None", "N/A", "n/a", "NONE", "unknown":
		return clock{}, nil
	}
	if wall, ok := wallClock(text); ok {
		return localClock(wall*1e6, loc)
	}
	if text[0] >= '0' && text[0] <= '9' && !strings.ContainsAny(text, "-T:") {
		us, err := parseSeconds(text)
		return clock{us: us}, err
	}
	form := text
	if len(form) > 10 && form[10] == ' ' {
		form = form[:10] + "T" + form[11:]
	}
	if day, zone, ok := strings.Cut(form, " "); ok {
		if zone == "UTC" || zone == "GMT" {
			zone = "Z"
		}
		form = day + zone
	}
	for _, layout := range zoneForms {
		if at, err := time.Parse(layout, form); err == nil {
			us, err := timeUs(at)
			return clock{us: us}, err
		}
	}
	for _, layout := range localForms {
		if at, err := time.Parse(layout, form); err == nil {
			return localClock(at.UnixMicro(), loc)
		}
	}
	return clock{}, fmt.Errorf("%.40q is not a time: write 2026-11-22T22:53:01, with a zone such as Z where needed, "+
		"or seconds since 1970", text)
}

// wallClock reads 2026-11-22T22:53:01, the form of almost all times, as seconds since 1970 of a clock on the wall.
func wallClock(text string) (seconds int64, ok bool) {
	if len(text) != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	number := func(from, to int) (n int) {
		for _, c := range []byte(text[from:to]) {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	if year < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if at.Day() != day || int(at.Month()) != month {
		return 0, false
	}
	return at.Unix(), true
}

// localClock finds when a clock on the wall of a place shows a time. Zones change once in two days at most.
func localClock(wallUs int64, loc *time.Location) (clock, error) {
	offset := func(us int64) int64 {
		_, seconds := time.UnixMicro(us).In(loc).Zone()
		return int64(seconds) * 1e6
	}
	c := clock{us: wallUs}
	if loc != time.UTC {
		const day = 24 * 3600 * 1e6
		before, after := offset(wallUs-day), offset(wallUs+day)
		early, late := wallUs-before, wallUs-after
		isEarly, isLate := offset(early) == before, offset(late) == after
		switch c.us = early; {
		case before == after:
		case isEarly && isLate:
			c.us, c.later = min(early, late), max(early, late)
		case isLate:
			c.us = late
		case !isEarly:
			c.skipped = true
		}
	}
	if c.us < 0 || c.us > maxTimeUs {
		return clock{}, fmt.Errorf("the year %d is not between 1970 and 2199", time.UnixMicro(wallUs).UTC().Year())
	}
	return c, nil
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
	cpuMilli, memoryMiB, nodes int64
	gres
}

// gres are generic resources: GPUs, those whose type is told (sorted by type), and parts of GPUs.
type gres struct {
	gpus   int64
	byType []hare.TypeCount
	parts  parts
	// bad is the first entry that cannot be read, which counts as not told; "" means that there is none.
	bad string
	// accelerators are the names, such as hpu, under which accelerators other than GPUs are counted, and the types in
	// byType that they have: hpu itself where no other is told.
	accelerators []accelerator
}

// accelerator is a type of accelerators, and the name under which a site counts them as generic resources.
type accelerator struct{ name, byType string }

// acceleratorNames are the names that sites give accelerators that are not GPUs in their generic resources: Gaudi,
// HPUs, NPUs, TPUs, XPUs, DCUs and MLUs. Jobs hold them as they hold GPUs.
var acceleratorNames = []string{"gaudi", "hpu", "npu", "tpu", "xpu", "dcu", "mlu"}

// CountsGPUs reports whether a generic resource of this name counts GPUs, or accelerators that are planned as GPUs.
func CountsGPUs(name string) bool { return name == "gpu" || slices.Contains(acceleratorNames, name) }

// accelerate takes a count of accelerators that are not GPUs.
func (g *gres) accelerate(name, byType string, n int64) bool {
	if n > hare.MaxGPUs-g.gpus {
		return false
	}
	if n > 0 {
		byType = cmp.Or(byType, name)
		g.gpus += n
		g.byType = append(g.byType, hare.TypeCount{Type: byType, Count: int(n)})
		g.accelerators = append(g.accelerators, accelerator{name, byType})
	}
	return true
}

// add takes a count of what a name such as gpu, gpu:v100 or shard:a100 stands for. It says false for more than
// a cluster can have.
func (g *gres) add(name, gpuType string, n int64) bool {
	switch name {
	case "gpu":
		if n > hare.MaxGPUs {
			return false
		}
		if gpuType != "" && n > 0 {
			g.byType = append(g.byType, hare.TypeCount{Type: gpuType, Count: int(n)})
		}
	case "shard":
		g.parts.shards += n
	case "mps":
		g.parts.mps += n
	}
	return true
}

// order sorts the types and adds up what is told of one type twice.
func (g *gres) order() {
	if len(g.byType) < 2 {
		return
	}
	slices.SortStableFunc(g.byType, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	kept := g.byType[:1]
	for _, t := range g.byType[1:] {
		if last := &kept[len(kept)-1]; last.Type == t.Type {
			last.Count += t.Count
			continue
		}
		kept = append(kept, t)
	}
	g.byType = kept
}

// typed is how many GPUs there are whose type is told.
func (g *gres) typed() (gpus int64) {
	for _, t := range g.byType {
		gpus += int64(t.Count)
	}
	return gpus
}

// parseResources reads a list of trackable resources. What is not about GPUs or other accelerators, parts of them,
// CPUs, memory or nodes is left out. GPUs and parts without a type include those with one.
func parseResources(text string) (r resources) {
	var typed parts
	var others gres              // accelerators that are not GPUs, by type
	var without map[string]int64 // those of no type, which include the others, by name
	for text != "" {
		var part string
		part, text, _ = strings.Cut(text, ",")
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimPrefix(name, "gres/")
		name, gpuType, _ := strings.Cut(name, ":")
		var n int64
		err := error(nil)
		switch {
		case !ok:
			ok = part == ""
		case name == "mem":
			r.memoryMiB, err = parseMiB(value)
		case name == "cpu" || name == "node" || name == "gpu" || name == "shard" || name == "mps" ||
			slices.Contains(acceleratorNames, name):
			n, err = parseCount(value)
		}
		switch {
		case !ok || err != nil:
			r.bad = cmp.Or(r.bad, part)
			continue
		case name == "cpu":
			r.cpuMilli = n * 1000
		case name == "node":
			r.nodes = n
		case name == "gpu" && gpuType == "" && n <= hare.MaxGPUs:
			r.gpus = n
		case slices.Contains(acceleratorNames, name):
			if gpuType == "" && without == nil {
				without = map[string]int64{}
			}
			if gpuType == "" {
				without[name] += n
			} else {
				ok = others.accelerate(name, gpuType, n)
			}
		case gpuType == "":
			ok = r.add(name, "", n)
		case name == "gpu":
			ok = r.add(name, gpuType, n)
		case name == "shard":
			typed.shards += n
		case name == "mps":
			typed.mps += n
		}
		if !ok {
			r.bad = cmp.Or(r.bad, part)
		}
	}
	for _, name := range acceleratorNames {
		n := without[name]
		for i, a := range others.accelerators {
			if a.name == name {
				n -= int64(others.byType[i].Count)
			}
		}
		if !others.accelerate(name, "", n) {
			r.bad = cmp.Or(r.bad, name)
		}
	}
	if r.order(); r.gpus > 0 && r.typed() > r.gpus { // of a request that somebody changed, whose old types stay
		r.byType = slices.DeleteFunc(r.byType, func(t hare.TypeCount) bool { return int64(t.Count) != r.gpus })
		if len(r.byType) > 1 {
			r.byType = nil
		}
	}
	r.gpus = cmp.Or(r.gpus, r.typed()) + others.gpus
	r.byType, r.accelerators = append(r.byType, others.byType...), others.accelerators
	r.order()
	r.parts = parts{max(r.parts.shards, typed.shards), max(r.parts.mps, typed.mps)}
	return r
}

// parseGres reads generic resources of a node or a request, such as gpu:v100:2(S:0-1),gpu:4,shard:8, which add up.
func parseGres(text string) (g gres) {
	for len(text) > 0 {
		part := text
		if strings.IndexByte(text, '(') < 0 {
			part, text, _ = strings.Cut(text, ",")
		} else {
			part = splitOutside(text)[0]
			text = strings.TrimPrefix(text[len(part):], ",")
		}
		whole := part
		part, _, _ = strings.Cut(strings.ReplaceAll(part, "(null)", ""), "(") // (null) is no type
		part = strings.TrimPrefix(strings.TrimPrefix(part, "gres/"), "gres:")
		fields := strings.FieldsFunc(part, func(r rune) bool { return r == ':' || r == '=' })
		if len(fields) == 0 || fields[0] != "shard" && fields[0] != "mps" && !CountsGPUs(fields[0]) {
			continue
		}
		n, name, err := int64(1), "", error(nil)
		switch len(fields) {
		case 1:
		case 2:
			if n, err = parseCount(fields[1]); err != nil {
				name, n, err = fields[1], 1, nil
			}
		default:
			name = fields[1]
			n, err = parseCount(fields[2])
		}
		take := g.add
		if fields[0] != "gpu" && CountsGPUs(fields[0]) {
			take = g.accelerate
		}
		if err != nil || !take(fields[0], name, n) || g.gpus > hare.MaxGPUs {
			g.bad = cmp.Or(g.bad, whole)
			continue
		}
		if fields[0] == "gpu" {
			g.gpus += n
		}
	}
	g.order()
	return g
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

// splitOutside splits at commas that are in no parentheses.
func splitOutside(text string) (parts []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, text[from:i]), i+1
			}
		}
	}
	return append(parts, text[from:])
}

// untyped is the name of GPUs whose type a cluster does not tell.
const untyped = "gpu"

func sortedList(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	slices.Sort(list)
	return slices.Compact(list)
}
