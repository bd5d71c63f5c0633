package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// StoredReport is a what-if, a simulation or a plan of capacity that the server keeps.
type StoredReport struct {
	ID string `json:"id"`
	wire.Tags
	Created     time.Time         `json:"created"`
	Ended       time.Time         `json:"ended"`
	AnswerBytes int64             `json:"answer_bytes"`
	Links       map[string]string `json:"links"`
}

const capacityPath = "/v1/capacity"

func whatIfPath(id string) string     { return "/v1/what-if/" + url.PathEscape(id) }
func simulationPath(id string) string { return "/v1/simulations/" + url.PathEscape(id) }

// WhatIfs yields the what-ifs that the server keeps, as List does solves.
func (c *Client) WhatIfs(ctx context.Context, query url.Values) iter.Seq2[*StoredReport, error] {
	return c.reports(ctx, "/v1/what-if", query)
}

// Simulations yields the simulations that the server keeps, as List does solves.
func (c *Client) Simulations(ctx context.Context, query url.Values) iter.Seq2[*StoredReport, error] {
	return c.reports(ctx, "/v1/simulations", query)
}

// CapacityPlans yields the plans of capacity that the server keeps, as List does solves.
func (c *Client) CapacityPlans(ctx context.Context, query url.Values) iter.Seq2[*StoredReport, error] {
	return c.reports(ctx, capacityPath, query)
}

func (c *Client) reports(ctx context.Context, path string, query url.Values) iter.Seq2[*StoredReport, error] {
	return pages(ctx, c, path, "after", query, func(page json.RawMessage) ([]*StoredReport, string, error) {
		var p struct {
			Reports []*StoredReport `json:"reports"`
			Next    string          `json:"next"`
		}
		err := json.Unmarshal(page, &p)
		return p.Reports, p.Next, err
	})
}

// KeptWhatIf returns what a what-if that the server keeps was answered.
func (c *Client) KeptWhatIf(ctx context.Context, id string) ([]Outcome, error) {
	var text bytes.Buffer
	var all []Outcome
	if err := c.copy(ctx, whatIfPath(id), "application/x-ndjson", nil, &text); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text.Bytes()) {
		o := Outcome{Data: bytes.TrimRight(line, "\n")}
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, malformedLine(err)
		}
		all = append(all, o)
	}
	return all, nil
}

// KeptSimulation returns what a simulation that the server keeps was answered.
func (c *Client) KeptSimulation(ctx context.Context, id string) (*simulatedoc.Answer, error) {
	return fetch[simulatedoc.Answer](ctx, c, call{method: http.MethodGet, path: simulationPath(id), repeatable: true})
}

// KeptCapacity returns the report of a plan of capacity that the server keeps.
func (c *Client) KeptCapacity(ctx context.Context, id string) (*capacitydoc.Report, error) {
	return fetch[capacitydoc.Report](ctx, c, call{method: http.MethodGet, path: capacityPath + "/" + url.PathEscape(id),
		repeatable: true})
}

// DeleteWhatIf removes a what-if that the server keeps.
func (c *Client) DeleteWhatIf(ctx context.Context, id string) error {
	return c.remove(ctx, whatIfPath(id))
}

// DeleteSimulation removes a simulation that the server keeps.
func (c *Client) DeleteSimulation(ctx context.Context, id string) error {
	return c.remove(ctx, simulationPath(id))
}

// DeleteCapacity removes a plan of capacity that the server keeps.
func (c *Client) DeleteCapacity(ctx context.Context, id string) error {
	return c.remove(ctx, capacityPath+"/"+url.PathEscape(id))
}
