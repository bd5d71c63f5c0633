package leases

import "math"

// solveGauss solves n equations with m right sides in place, by Gaussian elimination with
// partial pivoting. Matrices are stored by rows. It returns false where the matrix is
// singular. The cost is O(n²(n + m)).
func solveGauss(a []float64, n int, b []float64, m int) bool {
	for j := range n {
		p := j
		for i := j + 1; i < n; i++ {
			if math.Abs(a[i*n+j]) > math.Abs(a[p*n+j]) {
				p = i
			}
		}
		if !(math.Abs(a[p*n+j]) > 0) { // also NaN
			return false
		}
		if p != j {
			for k := range n {
				a[p*n+k], a[j*n+k] = a[j*n+k], a[p*n+k]
			}
			for k := range m {
				b[p*m+k], b[j*m+k] = b[j*m+k], b[p*m+k]
			}
		}
		for i := j + 1; i < n; i++ {
			f := a[i*n+j] / a[j*n+j]
			if f == 0 {
				continue
			}
			for k := j; k < n; k++ {
				a[i*n+k] -= f * a[j*n+k]
			}
			for k := range m {
				b[i*m+k] -= f * b[j*m+k]
			}
		}
	}
	for i := n - 1; i >= 0; i-- {
		for q := range m {
			v := b[i*m+q]
			for k := i + 1; k < n; k++ {
				v -= a[i*n+k] * b[k*m+q]
			}
			b[i*m+q] = v / a[i*n+i]
		}
	}
	return true
}
