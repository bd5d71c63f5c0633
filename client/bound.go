package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Bound is a lower bound on the objective of every feasible schedule.
type Bound struct {
	Method    string
	Bound     hare.Amount
	Certified bool // Certificate proves it
	Expected  bool // the bound is on the mean cost over the durations of jobs
	Estimated bool // some job has durations, and the bound is for the times as they are written
	// Certificate is the certificate as the server sent it, for
	// wire.DecodeCertificate; nil where there is none.
	Certificate json.RawMessage
}

// Bound computes a lower bound; method "" means price. The call is retried when the
// network fails.
func (c *Client) Bound(ctx context.Context, inst *hare.Instance, method string) (*Bound, error) {
	return c.bound(ctx, &wire.Request{Instance: inst, Method: method})
}

// BoundExpected bounds the mean cost over the durations of jobs, for every policy. It is retried as
// Bound is.
func (c *Client) BoundExpected(ctx context.Context, inst *hare.Instance) (*Bound, error) {
	return c.bound(ctx, &wire.Request{Instance: inst, Method: hare.MethodPrice, Expected: true})
}

func (c *Client) bound(ctx context.Context, req *wire.Request) (*Bound, error) {
	text, err := encoded(req)
	if err != nil {
		return nil, err
	}
	var b *Bound
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/bounds", body: text, repeatable: true,
		take: func(resp *http.Response) error {
			var d struct {
				Method      string          `json:"method"`
				Bound       json.Number     `json:"bound"`
				Certified   bool            `json:"certified"`
				Expected    bool            `json:"expected"`
				Estimated   bool            `json:"estimated"`
				Certificate json.RawMessage `json:"certificate"`
			}
			if err := decodeJSON(resp, &d); err != nil {
				return err
			}
			amount, err := hare.ParseAmount(d.Bound.String())
			b = &Bound{Method: d.Method, Bound: amount, Certified: d.Certified, Expected: d.Expected,
				Estimated: d.Estimated, Certificate: d.Certificate}
			return err
		}})
	return b, err
}

// Report is the outcome of a verification.
type Report struct {
	OK     bool    `json:"ok"`
	Note   string  `json:"note"` // what the figures are of, or what was not checked
	Faults []Fault `json:"faults"`
}

// Fault is one constraint that a result violates.
type Fault struct {
	Constraint string `json:"constraint"` // stable
	Job        string `json:"job"`
	Round      int64  `json:"round"`
	GPU        string `json:"gpu"`
	ByUs       int64  `json:"by_us"` // by how many microseconds
	Detail     string `json:"detail"`
}

// Verify asks the server to verify a result. Package verify does the same without a
// server.
func (c *Client) Verify(ctx context.Context, inst *hare.Instance, res *hare.Result) (*Report, error) {
	return c.VerifyReplan(ctx, inst, res, nil, nil)
}

// VerifyReplan is Verify for a replan. The result previous, for the instance before,
// says what had started; a nil before means inst. Where previous is nil, the
// schedule of the whole in res says what had started.
func (c *Client) VerifyReplan(
	ctx context.Context, inst *hare.Instance, res, previous *hare.Result, before *hare.Instance,
) (*Report, error) {
	if res == nil {
		return nil, errors.New("client: Result is nil")
	}
	text, err := encoded(&wire.Request{Instance: inst, Result: res,
		Replan: hare.ReplanRequest{Previous: previous, Before: before}})
	if err != nil {
		return nil, err
	}
	return fetch[Report](ctx, c, call{method: http.MethodPost, path: "/v1/verify", body: text, repeatable: true})
}

// Version is the version of the server.
type Version struct {
	Version string `json:"version"`
	HiGHS   string `json:"highs"` // "" without the LP engine
}

// Version returns the version of the server.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/version", repeatable: true,
		take: func(resp *http.Response) error { return decodeJSON(resp, &v) }})
	return v, err
}
