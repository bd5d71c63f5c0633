package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Policy is a policy that sessions of the server take.
type Policy struct {
	Name    string `json:"name"`
	Text    string `json:"text"`    // what the policy does, in a line
	Default bool   `json:"default"` // whether sessions that name no policy have this one
	// Sizes is what the policy goes by: estimates or nothing. SimulatedSizes is what it is
	// told in simulations: nothing, distribution, sizes or future.
	Sizes          string            `json:"sizes"`
	SimulatedSizes string            `json:"simulated_sizes"`
	Hints          bool              `json:"hints"` // whether the policy goes by estimate_s and class
	Plans          bool              `json:"plans"` // whether the policy follows plans
	Parameters     []PolicyParameter `json:"parameters"`
}

// PolicyParameter is a parameter of a policy.
type PolicyParameter struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`    // number, integer, boolean, string or numbers
	Unit    string          `json:"unit"`    // s, gpu_s or ""
	Default json.RawMessage `json:"default"` // nil where the policy computes one, as Text says
	Text    string          `json:"text"`
}

// Policies lists the policies that sessions of the server take, by name.
func (c *Client) Policies(ctx context.Context) ([]Policy, error) {
	list, err := fetch[struct {
		Policies []Policy `json:"policies"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/policies", repeatable: true})
	if err != nil {
		return nil, err
	}
	return list.Policies, nil
}
