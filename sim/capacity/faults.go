package capacity

import (
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
)

// fault is a fault of the member of a request at a pointer.
func fault(pointer, code, format string, args ...any) error {
	return &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// ofInstance is a fault of the history as one of the request.
func ofInstance(err error) error {
	var one *hare.InvalidError
	if errors.As(err, &one) {
		return &hare.InvalidError{Pointer: "/instance" + one.Pointer, Code: one.Code, Detail: one.Detail}
	}
	return err
}
