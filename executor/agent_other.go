//go:build !linux

package executor

import (
	"context"
	"errors"
)

// Run takes part in a cluster, on Linux alone.
func Run(context.Context, Config) error { return errors.New("agents run on Linux alone") }
