// Package whatif has the documents of what-ifs: the request with its one table, and the lines
// of the answer. Servers, clients and the specification share them; package whatif compares the
// scenarios of a request.
package whatif

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Request asks what would change: a base, and scenarios that differ from it.
type Request struct {
	Base      Base
	Scenarios []Scenario
	// Options are the batch's; TimeLimit covers all of it.
	Options wire.Options
	// PruneBelow, where not nil, answers a scenario from its bound alone once
	// that shows that the value cannot fall by more than this many weight-seconds.
	PruneBelow *hare.Amount
	// Ordered asks for the answers in the order of the scenarios.
	Ordered bool
	Tags    wire.Tags
}

// Base is what scenarios are compared with: an instance, to be solved or
// with its result, or the id of a solve that the server keeps.
type Base struct {
	Instance *hare.Instance
	// Text is the instance's document, which patches apply to; nil: the document that Hare
	// writes.
	Text    []byte
	Result  *hare.Result // nil: to be solved
	SolveID string
}

// Scenario is one change. Its parts apply in the order of the fields here.
type Scenario struct {
	ID             string           // empty: the scenario's place in the request
	Patch          []PatchOperation // RFC 6902, on the instance's document
	RemoveJobs     []string
	ScaleWeights   []Factor
	ScaleDurations []Factor // of compute and synchronisation times
	DropAfter      []DroppedAfter
	AddJobs        []hare.Job
	SetQuota       []hare.Quota // in place of those of the same user and types, or new
	RemoveGPUs     []RemovedGPUs
	Drain          []DrainedNode
	AddGPUs        []AddedGPUs
	AddNodes       []hare.Node
	// Options take the place of those of the batch; TimeLimit is the scenario's own alone.
	Options wire.Options

	at      string   // pointer of the scenario in its document
	single  []string // the parts that the document gives as one object, without an array
	nodesOf []int    // by node of AddNodes, if the document has copies: the place of its element
}

// PatchOperation is one operation of RFC 6902.
type PatchOperation struct {
	Op, Path, From string
	Value          json.RawMessage
}

// Factor multiplies the weight or the times of one job, or of all.
type Factor struct {
	Job   string // "" is all
	Micro int64  // in 1e-6; a factor of times is above 0
}

// DroppedAfter lets a job no longer wait for another one; After may be "": then the job
// waits for nobody.
type DroppedAfter struct{ Job, After string }

// RemovedGPUs takes Count GPUs of a node away, those of the highest index
// first. Type may be "" where the node has one type.
type RemovedGPUs struct {
	Node, Type string
	Count      int64
}

// DrainedNode ends the service of a node at AtUs.
type DrainedNode struct {
	Node string
	AtUs int64
}

// AddedGPUs is a new node, always in service. Name may be "": then it is the
// first free one of added-0, added-1 and so on.
type AddedGPUs struct {
	Type  string
	Count int64
	Name  string
}

// Decode reads the document of a request, strictly, every fault with a pointer.
func Decode(r io.Reader, lim wire.Limits) (*Request, error) {
	req := &Request{}
	if err := requestTable.Decode(wire.NewReader(r, lim), req); err != nil {
		return nil, err
	}
	return req, nil
}

// EncodeJSON writes the document that Decode reads.
func (r *Request) EncodeJSON(w io.Writer) error {
	switch b := &r.Base; {
	case b.SolveID == "" && b.Instance == nil:
		return errors.New("hare: a what-if needs an instance or the id of a solve")
	case b.Result != nil:
		if err := wire.Encodable(b.Result); err != nil {
			return err
		}
	}
	_, err := w.Write(append(requestTable.Append(nil, r), '\n'))
	return err
}
