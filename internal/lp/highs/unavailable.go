//go:build !highs || !(linux || darwin) || !(amd64 || arm64)

package highs

// Version returns ErrUnavailable.
func Version() (string, error) { return "", ErrUnavailable }

// Solve returns ErrUnavailable.
func Solve(Model) (*Result, error) { return nil, ErrUnavailable }
