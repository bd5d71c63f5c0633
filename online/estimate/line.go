package estimate

import "math"

// line is the regression of y on x by least squares, over points that come and go. Sums
// are integers, so that the order of the points does not matter. With up to 2,048 points
// between −2^14 and 2^14, no sum overflows.
type line struct{ n, x, y, xx, xy int64 }

// add adds a point; times is −1 to remove one that was added.
func (ln *line) add(x, y, times int64) {
	ln.n += times
	ln.x += times * x
	ln.y += times * y
	ln.xx += times * x * x
	ln.xy += times * x * y
}

// slope is the slope, but at least 0 and at most 2: larger estimates never mean smaller
// jobs. It is 0 where the points tell nothing.
func (ln *line) slope() float64 {
	over, under := ln.n*ln.xy-ln.x*ln.y, ln.n*ln.xx-ln.x*ln.x
	if over <= 0 || under <= 0 {
		return 0
	}
	return min(2, float64(over)/float64(under))
}

// at is the height of the line at x; there must be a point.
func (ln *line) at(x int64) int64 {
	rest := float64(ln.n*x-ln.x) / float64(ln.n)
	return divide(ln.y, ln.n) + int64(math.Floor(float64(ln.slope()*rest)))
}

// divide is a/b rounded down, for b > 0.
func divide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
