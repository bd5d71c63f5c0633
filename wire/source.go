package wire

import (
	"bytes"
	"errors"
	"io"
)

// errOver ends the reading of a document that is longer than the limit.
var errOver = errors.New("longer than the limit")

// source reads a document up to a limit and counts its lines.
type source struct {
	r     io.Reader
	limit int64 // bytes
	left  int64 // remaining bytes of limit
	lines int64 // newlines that were read
	blank bool  // only white space was read
	over  bool  // the document is longer than limit
	err   error // error of r other than io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.left == 0 {
		var one [1]byte
		n, err := s.r.Read(one[:])
		if n > 0 {
			s.over = true
			return 0, errOver
		}
		return 0, s.keep(err)
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.lines += int64(bytes.Count(p[:n], []byte("\n")))
	if s.blank {
		s.blank = len(bytes.Trim(p[:n], " \t\r\n")) == 0
	}
	return n, s.keep(err)
}

func (s *source) keep(err error) error {
	if err != nil && err != io.EOF {
		s.err = err
	}
	return err
}

// line returns the number, from 1, of the line that is `ahead` bytes into the bytes
// that were read from source and are still unread by the decoder.
func (s *source) line(unread []byte, ahead int64) int {
	rest := unread[max(0, min(ahead, int64(len(unread)))):]
	return 1 + int(s.lines) - bytes.Count(rest, []byte("\n"))
}
