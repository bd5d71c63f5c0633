package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEventBytes limits the length of a line of events.
const MaxEventBytes = 1 << 20

// ErrLongEvent is returned for a line that is longer than MaxEventBytes; the line is
// skipped.
var ErrLongEvent = fmt.Errorf("the line is longer than %d bytes", MaxEventBytes)

// ReadEventLine returns the next line of events, which is valid until the next call.
// The last line may lack its newline. Errors are ErrLongEvent, after which the next
// line can be read, io.EOF, and errors of the reader.
func ReadEventLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		if err != nil && (err != io.EOF || len(line) == 0) {
			return nil, err
		}
		return line, nil
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if line, err = in.ReadSlice('\n'); len(long) <= MaxEventBytes {
			long = append(long, line...)
		}
	}
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case len(long) > MaxEventBytes:
		return nil, ErrLongEvent
	}
	return long, nil
}
