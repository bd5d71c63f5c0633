package history

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Speeds tell how long a job takes on a GPU type on which it did not run.
type Speeds struct {
	// Table are the relative speeds of types that the user gives, by name in lower case; nil means
	// none. A speed of 2 means half the time of a speed of 1.
	Table map[string]float64
	// Learned are the ratios that logs show, by user and name, in the order of Learn; nil means none.
	Learned []Learned

	shipped map[string]float64
}

// Learned is how long a group of jobs takes on a type, relative to the type Base.
type Learned struct {
	User     string  `json:"user"`
	Name     string  `json:"name"`
	GPUs     int64   `json:"gpus"`
	Type     string  `json:"type"`
	Base     string  `json:"base"`
	Ratio    float64 `json:"ratio"` // the median time on Type over the median time on Base
	Low      float64 `json:"low"`   // an interval that covers the ratio with probability 0.95 or more
	High     float64 `json:"high"`
	Jobs     int     `json:"jobs"` // on Type
	BaseJobs int     `json:"base_jobs"`
}

// shippedSpeeds are speeds of training relative to a V100. Those of K80, P100 and A100 are measured:
// medians over the 26 models of gavel_throughputs.csv (one GPU) and over the 60 pairs of NVIDIA's
// DeepLearningExamples (mixed precision). The others are the memory bandwidth in the vendor's data
// sheet over a V100's 900 GB/s, a rule that gives 0.27, 0.81 and 1.73 for the three that are
// measured (docs/use/import.md).
var shippedSpeeds = map[string]float64{
	"k80": 0.247, "p100": 0.813, "v100": 1, "a100": 1.905,
	"m60": 160.0 / 900, "k40": 288.0 / 900, "p4": 192.0 / 900, "p40": 346.0 / 900, "t4": 320.0 / 900,
	"l4": 300.0 / 900, "a10": 600.0 / 900, "rtx6000": 672.0 / 900, "a40": 696.0 / 900, "a5000": 768.0 / 900,
	"a6000": 768.0 / 900, "l40": 864.0 / 900, "l40s": 864.0 / 900, "a30": 933.0 / 900, "h100": 3350.0 / 900,
	"h200": 4800.0 / 900,
}

// ShippedSpeeds returns the relative speeds that Hare brings along.
func ShippedSpeeds() *Speeds { return &Speeds{shipped: shippedSpeeds} }

// typeWords are the words by which names of GPU types are told, the longer ones first.
var typeWords = []string{"h200", "h100", "a100", "v100", "p100", "l40s", "a6000", "a5000", "rtx6000", "l40", "a40",
	"a30", "a10", "k80", "k40", "p40", "t4", "l4", "p4", "m60"}

// partForms are the forms of names of parts of GPUs: profiles of MIG such as a100_1g.5gb, time slices such as
// Tesla-T4-SHARED, and profiles of virtual GPUs such as GRID-V100-8Q.
var partForms = regexp.MustCompile(
	`(^|[^0-9a-z])([0-9]+c\.)?[0-9]+g\.[0-9]+gb|[-_. ](shared|mig|mps|shard|vgpu)($|[-_. ])|^mig[-_. ]|` +
		`^grid[-_. ]|[-_. ][0-9]+[qcab]$`)

// IsPart reports whether a GPU type is a part of a card by its name, which is no card's.
func IsPart(name string) bool { return cardOf(name).part }

// card is what the name of a GPU type tells.
type card struct {
	word string // by TypeWord
	part bool
}

// cards are those of names that were asked for, as far as they are few: the types of clusters are asked for each job.
var (
	cards     sync.Map
	cardCount atomic.Int32
)

func cardOf(name string) card {
	if c, known := cards.Load(name); known {
		return c.(card)
	}
	lower := strings.ToLower(name)
	c := card{part: partForms.MatchString(lower)}
	if !c.part {
		c.word = typeWord(lower)
	}
	if len(name) < 100 && cardCount.Add(1) < 1000 {
		cards.Store(strings.Clone(name), c)
	}
	return c
}

// otherCards are words of names of other cards than those that they follow.
var otherCards = []string{"ada", "blackwell", "laptop", "mobile", "max", "maxq"}

// TypeWord returns the word by which a type such as Tesla-V100-SXM2-16GB is told; "" if there is none. A name ends
// where it ends: letters may follow it, as in a100x and v100s, but no digits, as in a1000, and a part of a card is
// not the card.
func TypeWord(name string) string { return cardOf(name).word }

// typeWord is TypeWord for the name of a whole card in lower case.
func typeWord(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(otherCards, part) }) {
		return ""
	}
	for _, part := range parts {
		for _, word := range typeWords {
			rest, ok := strings.CutPrefix(part, word)
			if ok && (rest == "" || len(word) >= 4 && rest[0] >= 'a' && !slices.Contains(otherCards, rest)) {
				return word
			}
		}
	}
	return ""
}

// knows reports whether anything that is no guess tells how long a job takes on both types.
func (s *Speeds) knows(j *Job, from, to string) bool {
	told := func(name string) bool {
		_, given := s.table(name)
		return given || slices.ContainsFunc(j.Seconds, func(d TypeSeconds) bool { return strings.EqualFold(d.Type, name) })
	}
	if told(to) {
		return true
	}
	_, learned := s.learned(j, from, to)
	return learned
}

// table returns the speed of a type in the table that was given.
func (s *Speeds) table(gpuType string) (speed float64, ok bool) {
	if len(s.Table) > 0 {
		speed, ok = s.Table[strings.ToLower(gpuType)]
	}
	return speed, ok
}

// speed returns the relative speed of a type and where it comes from.
func (s *Speeds) speed(gpuType string) (speed float64, how string) {
	if v, ok := s.table(gpuType); ok {
		return v, "by the table of speeds that was given"
	}
	if v, ok := s.shipped[TypeWord(gpuType)]; ok {
		return v, "by the speeds that Hare brings along"
	}
	return 0, ""
}

// relativeTime returns a number that grows with the time of the job on a type.
func (s *Speeds) relativeTime(j *Job, gpuType string) float64 {
	for _, d := range j.Seconds {
		if strings.EqualFold(d.Type, gpuType) {
			return float64(d.Us)
		}
	}
	if v, _ := s.speed(gpuType); v > 0 {
		return 1 / v
	}
	return 1
}

// Time returns how long a job takes on type to, which took elapsedUs on type from, and where this
// comes from: from the job's comment, a table that was given, the log itself, the speeds that Hare
// brings along, or from nothing, where both types count as equally fast.
func (s *Speeds) Time(j *Job, from, to string, elapsedUs int64) (us int64, how string) {
	scale := func(ratio float64) int64 {
		return max(1, int64(math.Round(min(float64(elapsedUs)*ratio, 1<<53))))
	}
	comment := func(name string) int64 {
		for _, d := range j.Seconds {
			if strings.EqualFold(d.Type, name) {
				return d.Us
			}
		}
		return 0
	}
	if a, b := comment(from), comment(to); b > 0 {
		if a == 0 {
			return b, "by the job's comment"
		}
		return scale(float64(b) / float64(a)), "by the job's comment"
	}
	_, given := s.table(to)
	if !given {
		if ratio, ok := s.learned(j, from, to); ok {
			return scale(ratio), "by what jobs of the same user and name took on both types"
		}
	}
	a, howA := s.speed(from)
	b, howB := s.speed(to)
	switch {
	case a == 0 || b == 0:
		return elapsedUs, "no speed of " + strings.Join(slices.Compact(slices.Sorted(slices.Values(
			unknownOf(from, a, to, b)))), " and ") + " is known: counts as equally fast"
	case howA != howB:
		return scale(a / b), "by the table of speeds that was given and the speeds that Hare brings along"
	}
	return scale(a / b), howB
}

func unknownOf(from string, a float64, to string, b float64) (names []string) {
	if a == 0 {
		names = append(names, from)
	}
	if b == 0 {
		names = append(names, to)
	}
	return names
}

// learned returns the time on type to over the time on type from, for jobs of the user and name. It
// takes O(log n) for n ratios.
func (s *Speeds) learned(j *Job, from, to string) (float64, bool) {
	group := func(l Learned) int {
		return cmp.Or(cmp.Compare(l.User, j.User), cmp.Compare(l.Name, j.Name), cmp.Compare(l.GPUs, j.GPUs))
	}
	at, _ := slices.BinarySearchFunc(s.Learned, j, func(l Learned, _ *Job) int { return group(l) })
	var a, b float64 // the times on both types, with the time on the base as 1
	for ; at < len(s.Learned) && group(s.Learned[at]) == 0; at++ {
		l := &s.Learned[at]
		for _, t := range []struct {
			name string
			time *float64
		}{{from, &a}, {to, &b}} {
			switch t.name {
			case l.Base:
				*t.time = 1
			case l.Type:
				*t.time = l.Ratio
			}
		}
	}
	return b / a, a > 0 && b > 0
}
