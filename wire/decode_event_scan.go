package wire

import "github.com/hare-sched/hare"

// scanEvent decodes an event in the form that programs write: a flat object with
// plain ASCII strings and plain decimals. It returns false for everything else,
// which the strict decoder then reads or refuses. scanEvent accepts only events that
// the strict decoder accepts, with the same result.
func scanEvent(line []byte, timed bool) (hare.Event, bool) {
	s := scanner{b: line}
	if !s.next('{') {
		return hare.Event{}, false
	}
	var e hare.Event
	var has fieldSet
	var job, gpu []byte
	for {
		name, ok := s.text()
		if !ok || !s.next(':') {
			return hare.Event{}, false
		}
		var bit fieldSet
		switch string(name) {
		case "seq":
			bit = fieldSeq
			e.Seq, ok = s.decimal(0)
			ok = ok && e.Seq > 0
		case "at_s":
			bit = fieldAt
			e.AtUs, ok = s.decimal(6)
		case "type":
			bit = fieldType
			e.Type, ok = s.eventType()
		case "job":
			bit = fieldJob
			job, ok = s.text()
			ok = ok && len(job) > 0
		case "round":
			bit = fieldRound
			e.Round, ok = s.decimal(0)
		case "task":
			bit = fieldTask
			e.Task, ok = s.decimal(0)
		case "gpu":
			bit = fieldGPU
			gpu, ok = s.text()
		case "compute_s":
			bit = fieldCompute
			e.ComputeUs, ok = s.decimal(6)
			ok = ok && e.ComputeUs > 0
		case "sync_s":
			bit = fieldSync
			e.SyncUs, ok = s.decimal(6)
		default:
			return hare.Event{}, false
		}
		if !ok || has&bit != 0 {
			return hare.Event{}, false
		}
		has |= bit
		if s.next(',') {
			continue
		}
		if !s.next('}') {
			return hare.Event{}, false
		}
		if s.space(); s.i != len(line) {
			return hare.Event{}, false
		}
		break
	}
	needs := fieldSeq | fieldType | eventNeeds[e.Type]
	if timed {
		needs |= fieldAt
	}
	if has|eventMay(e.Type) != needs|eventMay(e.Type) || e.Type == hare.EventJobArrived ||
		e.Type == hare.EventGPUJoined {
		return hare.Event{}, false
	}
	if len(job) > 0 {
		e.Job = string(job)
	}
	if has&fieldGPU != 0 {
		if e.GPU = string(gpu); !isGPUName(e.GPU) {
			return hare.Event{}, false
		}
	}
	return e, true
}

// scanner reads the tokens of plain JSON.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\r' || s.b[s.i] == '\t') {
		s.i++
	}
}

// next skips white space and consumes the character c; it returns false where
// another one follows.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text reads a string of plain ASCII without escapes.
func (s *scanner) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for i := s.i; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			t := s.b[s.i:i]
			s.i = i + 1
			return t, true
		case c < 0x20 || c >= 0x80 || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// decimal reads a plain decimal with at most places decimals, as a multiple of
// 10^-places up to MaxExact.
func (s *scanner) decimal(places int) (int64, bool) {
	s.space()
	n, digits, from := int64(0), 0, s.i
	for ; s.i < len(s.b) && s.b[s.i]-'0' <= 9; s.i++ {
		n = n*10 + int64(s.b[s.i]-'0')
		digits++
		if digits > 16 {
			return 0, false
		}
	}
	if digits == 0 || digits > 1 && s.b[from] == '0' {
		return 0, false
	}
	left := places
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		from := s.i
		for ; s.i < len(s.b) && s.b[s.i]-'0' <= 9; s.i++ {
			if left == 0 || n > hare.MaxExact {
				return 0, false
			}
			n = n*10 + int64(s.b[s.i]-'0')
			left--
		}
		if s.i == from {
			return 0, false
		}
	}
	for ; left > 0; left-- {
		if n > hare.MaxExact {
			return 0, false
		}
		n *= 10
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		return 0, false
	}
	return n, n <= hare.MaxExact
}

func (s *scanner) eventType() (hare.EventType, bool) {
	t, ok := s.text()
	if !ok {
		return 0, false
	}
	for i, name := range eventTypeNames {
		if string(t) == name {
			return hare.EventType(i), true
		}
	}
	return 0, false
}
