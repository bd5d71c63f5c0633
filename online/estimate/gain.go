package estimate

// gain says by how much a prediction beats another one, from pairs of predictions that
// were both made before the outcome was known (Dawid 1984).
type gain struct{ n, sum, squares int64 }

// maxError limits the error of a log prediction that counts, so that one job cannot
// decide: a factor of 256.
const maxError = 8 * LogUnit

// add adds the errors of a job under both predictions; times is −1 to remove one.
func (g *gain) add(before, after, times int64) {
	d := min(max(before, -before), maxError) - min(max(after, -after), maxError)
	g.n += times
	g.sum += times * d
	g.squares += times * d * d
}

// Evidence that a prediction needs before it is used.
const (
	minPairs  = 8
	minTValue = 2
)

// sure reports whether the prediction is better beyond chance: whether the mean of the
// differences of absolute errors is minTValue standard errors above 0 (Diebold and Mariano
// 1995; the test of paired differences is Student's of 1908). Absolute errors tell after
// fewer jobs than squares, to which a few jobs of odd sizes add most.
func (g *gain) sure() bool {
	if g.n < minPairs || g.sum <= 0 {
		return false
	}
	n, sum := float64(g.n), float64(g.sum)
	square := float64(sum * sum)
	spread := float64(float64(n*float64(g.squares)) - square) // n² times the variance
	return float64((n-1)*square) > float64(minTValue*minTValue*spread)
}

// better reports whether the mean gain is above that of o.
func (g *gain) better(o *gain) bool { return o.n == 0 || g.sum*o.n > o.sum*g.n }
