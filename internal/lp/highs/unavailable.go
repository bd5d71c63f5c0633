//go:build !highs || !(linux || darwin) || !(amd64 || arm64)

package highs

import "fmt"

var errNotBuilt = fmt.Errorf("%w: this program was built without the tag highs (go build -tags highs), "+
	"or for a system for which Hare has none", ErrUnavailable)

// Version returns ErrUnavailable.
func Version() (string, error) { return "", errNotBuilt }

// Solve returns ErrUnavailable.
func Solve(Model) (*Result, error) { return nil, errNotBuilt }

// Chain has no value.
type Chain struct{}

// Begin returns ErrUnavailable.
func Begin(Model) (*Chain, error) { return nil, errNotBuilt }

// Extend returns ErrUnavailable.
func (c *Chain) Extend(Model) error { return errNotBuilt }

// Solve returns ErrUnavailable.
func (c *Chain) Solve() (*Result, error) { return nil, errNotBuilt }

// Close does nothing.
func (c *Chain) Close() {}
