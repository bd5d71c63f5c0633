package openapi

// Answer is the line that answers an event: decisions, or an error.
type Answer struct {
	// Seq is the number of the event; null where the line could not be read.
	Seq       *int64     `json:"seq"`
	Decisions []Decision `json:"decisions,omitempty"`
	Error     EventError `json:"error,omitempty"`
} //	@name	Answer

// EventError says why a line of events was refused. A refused line changes nothing.
type EventError struct {
	// Status is the status of a request that is refused for the same reason.
	Status int64 `json:"status"`
	// Line counts the lines of the request from 1.
	Line int64 `json:"line,omitempty"`
	// Pointer is a JSON pointer (RFC 6901) into the line.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	// Expected is the number of the event that must come next.
	Expected int64 `json:"expected,omitempty"`
	// Errors has all faults where there are several.
	Errors []ProblemError `json:"errors,omitempty"`
} //	@name	EventError
