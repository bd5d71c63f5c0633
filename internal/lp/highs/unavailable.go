//go:build !cgo || !highs

package highs

// Version returns ErrUnavailable.
func Version() (string, error) { return "", ErrUnavailable }

// Solve returns ErrUnavailable.
func Solve(Model) (*Result, error) { return nil, ErrUnavailable }
