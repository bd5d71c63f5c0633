package openapi

// The types below are the JSON documents of the HTTP interface as their
// readers and writers see them; the schemas of the specification come from
// them. Nothing decodes into them: package hare reads and writes the forms, in
// exact decimals and without reflection.

// BoundResult is a lower bound on the objective of every feasible schedule.
type BoundResult struct {
	Method string  `json:"method"`
	Bound  float64 `json:"bound"`
	// Certified says that the certificate proves the bound.
	Certified   bool        `json:"certified"`
	Certificate Certificate `json:"certificate,omitempty"`
} //	@name	BoundResult

// Report is the outcome of a check.
type Report struct {
	OK bool `json:"ok"`
	// Value recomputed from the schedule.
	Value float64 `json:"value,omitempty"`
	// Bound recomputed from the certificate.
	Bound float64 `json:"bound,omitempty"`
	// Constant is what the whole instance costs beside value, where the result is a plan for the rest of an earlier one.
	Constant float64 `json:"constant,omitempty"`
	// Note says what the figures are of, or what was not checked.
	Note   string  `json:"note,omitempty"`
	Faults []Fault `json:"faults,omitempty"`
} //	@name	Report

// Fault is one violated condition.
type Fault struct {
	// Constraint is a stable code.
	Constraint string `json:"constraint"`
	Job        string `json:"job,omitempty"`
	Round      int64  `json:"round,omitempty"`
	GPU        string `json:"gpu,omitempty"`
	// ByUs is by how many microseconds the condition fails.
	ByUs   int64  `json:"by_us,omitempty"`
	Detail string `json:"detail"`
} //	@name	Fault

// Version names the program and its LP engine.
type Version struct {
	Version string `json:"version"`
	// HiGHS is empty when the LP engine is not there.
	HiGHS string `json:"highs"`
} //	@name	Version

// Problem says why a request was refused (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int64  `json:"status"`
	// Code is stable.
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// RequestID is in the server's log.
	RequestID string         `json:"request_id"`
	Errors    []ProblemError `json:"errors,omitempty"`
} //	@name	Problem

// ProblemError is one fault of the request.
type ProblemError struct {
	// Pointer (RFC 6901) into the request.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Line    int64  `json:"line,omitempty"`
} //	@name	ProblemError
