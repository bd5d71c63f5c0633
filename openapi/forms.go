package openapi

// The types of this package are the documents of the HTTP interface that no single type
// or table of another package writes down. The specification takes their forms from here.
// Package api encodes problems; nothing is decoded into the types.

// Version names the program and its LP engine.
type Version struct {
	Version string `json:"version"`
	// HiGHS is the version of the LP engine; empty where there is none.
	HiGHS string `json:"highs"`
} //	@name	Version

// Problem says why a request was refused (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status" format:"int64"`
	// Code is a stable name of the reason.
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// RequestID is the id under which the server's log names the request.
	RequestID string         `json:"request_id"`
	Errors    []ProblemError `json:"errors,omitempty"`
} //	@name	Problem

// ProblemError is one fault of the request.
type ProblemError struct {
	// Pointer is a JSON pointer (RFC 6901) into the request.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Line    int    `json:"line,omitempty" format:"int64"`
} //	@name	ProblemError
