package capacity

import (
	"fmt"

	"github.com/hare-sched/hare"
)

// fault is a fault of the member of a request at a pointer.
func fault(pointer, code, format string, args ...any) error {
	return &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)}
}
