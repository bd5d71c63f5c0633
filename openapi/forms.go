package openapi

// The types below are the JSON documents of the HTTP interface as their
// readers and writers see them; the schemas of the specification come from
// them. Nothing decodes into them: package hare reads and writes the forms, in
// exact decimals and without reflection.

// BoundResult is a lower bound on the objective of every feasible schedule.
type BoundResult struct {
	Method string  `json:"method" validate:"required"`
	Bound  float64 `json:"bound" validate:"required"`
	// Certified says that the certificate proves the bound.
	Certified   bool        `json:"certified" validate:"required"`
	Certificate Certificate `json:"certificate,omitempty"`
} //	@name	BoundResult

// Report is the outcome of a check.
type Report struct {
	OK bool `json:"ok" validate:"required"`
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
	Constraint string `json:"constraint" validate:"required"`
	Job        string `json:"job,omitempty"`
	Round      int64  `json:"round,omitempty"`
	GPU        string `json:"gpu,omitempty"`
	// ByUs is by how many microseconds the condition fails.
	ByUs   int64  `json:"by_us,omitempty"`
	Detail string `json:"detail" validate:"required"`
} //	@name	Fault

// Version names the program and its LP engine.
type Version struct {
	Version string `json:"version" validate:"required"`
	// HiGHS is empty when the LP engine is not there.
	HiGHS string `json:"highs" validate:"required"`
} //	@name	Version

// Problem says why a request was refused (RFC 9457).
type Problem struct {
	Type   string `json:"type" validate:"required"`
	Title  string `json:"title" validate:"required"`
	Status int64  `json:"status" validate:"required"`
	// Code is stable.
	Code   string `json:"code" validate:"required"`
	Detail string `json:"detail" validate:"required"`
	// RequestID is in the server's log.
	RequestID string         `json:"request_id" validate:"required"`
	Errors    []ProblemError `json:"errors,omitempty"`
} //	@name	Problem

// ProblemError is one fault of the request.
type ProblemError struct {
	// Pointer (RFC 6901) into the request.
	Pointer string `json:"pointer" validate:"required"`
	Code    string `json:"code" validate:"required"`
	Detail  string `json:"detail" validate:"required"`
	Line    int64  `json:"line,omitempty"`
} //	@name	ProblemError
