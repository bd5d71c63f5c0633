package plot

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"strconv"
	"strings"
	"testing"
)

var someIntervals = []Interval{
	{Name: "add V100=8", Low: -18, High: -12, Value: -15, Note: "3 jobs gain, 0 lose"},
	{Name: "a name that is far too long to stand on the left of a picture, so that it is shortened <here>", Low: -2,
		High: math.NaN(), Value: math.NaN(), Note: "pruned"},
	{Name: "drop", Low: math.NaN(), High: 7, Value: 5},
	{Name: "nothing known", Low: math.NaN(), High: math.NaN(), Value: math.NaN()},
	{Name: "worse", Low: 3, High: 3, Value: 3},
}

func TestIntervals(t *testing.T) {
	var b bytes.Buffer
	if err := IntervalsSVG(&b, someIntervals, Options{Title: "What if <x>"}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	wellFormed(t, text)
	if strings.Contains(text, "NaN") || strings.Contains(text, "<here>") {
		t.Error("a number that is none, or a name that is not escaped")
	}
	for _, want := range []string{hex(hues[6]), hex(hues[0]), "add V100=8", "pruned", ">-20<"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	// Ends lie on the axis in proportion: −18 to −12 is as wide as six units.
	d, err := layoutIntervals(someIntervals, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var zero, bar, mark rect
	for _, r := range d.rects {
		switch {
		case r.fill == faint:
			zero = r.rect
		case r.fill == hues[6]:
			bar = r.rect
		case r.fill == ink && mark.w == 0:
			mark = r.rect
		}
	}
	unit := bar.w / 6
	if got := zero.x + zero.w/2 - 18*unit; math.Abs(got-bar.x) > 0.01 ||
		math.Abs(mark.x+mark.w/2-(bar.x+bar.w/2)) > 0.01 {
		t.Errorf("bar at %v, zero at %v, mark at %v", bar, zero, mark)
	}
	b.Reset()
	if err := IntervalsPNG(&b, someIntervals, Options{Scale: 1, Width: 800}); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&b); err != nil || img.Bounds().Dx() != 800 {
		t.Errorf("%v", err)
	}
	b.Reset()
	if err := IntervalsHTML(&b, someIntervals, Options{Title: "x"}); err != nil ||
		!strings.HasPrefix(b.String(), "<!DOCTYPE html>") || strings.Contains(b.String(), "http://www.w3.org/1999") {
		t.Errorf("%v: %.100s", err, b.String())
	}
}

// The page says in words what its bars show, and what they mean.
func TestIntervalsPage(t *testing.T) {
	var b bytes.Buffer
	if err := IntervalsHTML(&b, someIntervals, Options{Title: "What if <x>"}); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(b.String(), "&#43;", "+")
	for _, want := range []string{
		"What if &lt;x&gt;", `name="viewport"`, "prefers-color-scheme", "for certain", "shortened &lt;here&gt;",
		"best plan −18 s to −12 s", "plan −15 s · 3 jobs gain, 0 lose", "at least −2 s", "no plan · pruned",
		"at most +7 s", "best plan not known", "exactly +3 s",
		"bar down", "bar up", "bar open fade-right", "bar open fade-left", ">−20 s<",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "ZgotmplZ") || strings.Count(text, "<script") != 1 {
		t.Error("a figure that is none, or a script that is not the page's")
	}
}

// Long changes are said in hours and days, in pictures and on pages.
func TestIntervalsSpeakOfHours(t *testing.T) {
	for _, c := range []struct {
		high          float64
		unit, mark, s string
	}{
		{7000, "weight-seconds", ">6,000 s<", "+116 min 40 s"},
		{7300, "weight-hours", ">2 h<", "+2 h 2 min"},
		{86400 * 200, "weight-days", ">200 d<", "+200 d"},
		{1e16, "weight-days", ",000,000 d<", "+115,740,740,741 d"},
	} {
		all := []Interval{{Name: "x", Low: 1, High: c.high, Value: c.high}}
		var page, picture bytes.Buffer
		if err := errors.Join(IntervalsHTML(&page, all, Options{}), IntervalsSVG(&picture, all, Options{})); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(picture.String(), c.unit) {
			t.Errorf("%v: the picture is not in %s", c.high, c.unit)
		}
		text := strings.ReplaceAll(page.String(), "&#43;", "+")
		if !strings.Contains(text, c.mark) || !strings.Contains(text, c.s) {
			t.Errorf("%v: the page lacks %s or %s", c.high, c.mark, c.s)
		}
	}
}

// The proved ends of an interval are rounded outwards: rounded to the nearest, they would claim more than is proved.
func TestProvedEndsAreRoundedOutwards(t *testing.T) {
	for _, c := range []struct{ low, high, want string }{
		{"-1490.692941", "-660.228507", "−24 min 51 s to −11 min"},
		{"-74195.290375", "-28062.4", "−20 h 37 min to −7 h 47 min"},
		{"-0.004", "12.341", "−4 ms to +12.35 s"},
		{"-400000.5", "400000.5", "−4 d 16 h to +4 d 16 h"},
	} {
		low, _ := strconv.ParseFloat(c.low, 64)
		high, _ := strconv.ParseFloat(c.high, 64)
		x := Interval{Low: low, High: high, Value: math.NaN()}
		if got := x.row(func(float64) float64 { return 0 }).Best; got != c.want {
			t.Errorf("%s to %s is shown as %s, not as %s", c.low, c.high, got, c.want)
		}
	}
}

func TestIntervalsLimits(t *testing.T) {
	many := make([]Interval, 5000)
	for i := range many {
		many[i] = Interval{Name: "s", Low: float64(i), High: float64(2 * i), Value: float64(i)}
	}
	var b bytes.Buffer
	if err := IntervalsSVG(&b, many, Options{}); err != nil || b.Len() > 300_000 ||
		!strings.Contains(b.String(), "the first 400 of 5,000") {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	for _, draw := range []func() error{
		func() error { return IntervalsSVG(&b, nil, Options{}) },
		func() error { return IntervalsPNG(&b, nil, Options{}) },
		func() error { return IntervalsHTML(&b, nil, Options{}) },
	} {
		if err := draw(); !errors.Is(err, ErrNoIntervals) {
			t.Errorf("nothing to draw: %v", err)
		}
	}
	if IntervalsSVG(&b, many, Options{Width: 3}) == nil || IntervalsPNG(&b, many, Options{Scale: 9}) == nil {
		t.Error("a size that cannot be")
	}
}

func TestPricesPicture(t *testing.T) {
	var b bytes.Buffer
	curves := []PriceCurve{{"A & B", []float64{4, 1}}, {"C", []float64{0, 0}}}
	if err := Prices(&b, []int64{0, second, 4 * second}, curves, Options{Title: "Prices"}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	if !strings.Contains(b.String(), "A &amp; B") || strings.Count(b.String(), "<path") != 2 {
		t.Error(b.String())
	}
	for _, bad := range []error{
		Prices(&b, []int64{0}, curves, Options{}), Prices(&b, []int64{0, 1}, nil, Options{}),
		Prices(&b, []int64{0, 1}, curves, Options{}),
	} {
		if !errors.Is(bad, ErrNoPrices) {
			t.Errorf("nothing to draw: %v", bad)
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{0, 1}, {-3, 7}, {0, 0}, {-1e9, 1e-9}, {5, 5}, {0, 1e-7},
		{-48057.3, 123.4}} {
		s := newScale(c.low, c.high)
		if s.share(c.low) < 0 || s.share(c.high) > 1 || len(s.marks) < 2 || len(s.marks) > 14 {
			t.Errorf("%v: %v", c, s)
		}
	}
}
