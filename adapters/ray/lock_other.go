//go:build !unix

package ray

import (
	"context"
	"errors"
	"os"
)

var errNoLocks = errors.New("ray: this system has no locks of files between processes that hare ray can use")

func lockFile(context.Context, string, os.FileMode) (func(), error) { return nil, errNoLocks }

func tryLead(string) (func(), bool, error) { return nil, false, errNoLocks }
