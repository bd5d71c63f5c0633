package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEventBytes limits a line of events.
const MaxEventBytes = 1 << 20

// ErrLongEvent says that a line was longer than MaxEventBytes, and was passed
// over.
var ErrLongEvent = fmt.Errorf("the line is longer than %d bytes", MaxEventBytes)

// ReadEventLine returns the next line of events, valid until the next call. The
// last one may lack its newline. Errors are ErrLongEvent, behind which the next
// line follows, io.EOF, and those of the reader.
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
