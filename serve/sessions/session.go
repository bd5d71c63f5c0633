package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// Clock says who gives the time of events.
type Clock string

// The clocks.
const (
	ClockEvents Clock = "events" // the field at_s of each event
	ClockServer Clock = "server" // seconds since the session was created, stamped on arrival
)

// SessionConfig is the configuration of a new session.
type SessionConfig struct {
	Cluster hare.Cluster
	Policy  string // a name of policies.SessionNames; "" means DefaultPolicy
	// Parameters are the parameters of the policy, a JSON object; nil means the defaults.
	Parameters json.RawMessage
	Clock      Clock // "" means ClockEvents
	Tags       wire.Tags

	tenant string // the owner
}

// Info describes a session without reading its log.
type Info struct {
	ID      string
	Created time.Time
	Config  SessionConfig
	// Last is the seq of the last durable event; Last+1 is expected next.
	Last int64
	// Active says that the state of the session is in memory.
	Active bool
	// Followed says which helper keeps the session; nil means none.
	Followed *sessiondoc.Followed
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("event %d came where event %d is expected: send the events from %d on", e.Got, e.Expected,
		e.Expected)
}

// ConflictError says that an event was sent again with other content.
type ConflictError struct{ Seq int64 }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("event %d is recorded with other content: a number is used once", e.Seq)
}

// storedConfig is the stored form of a SessionConfig.
type storedConfig struct {
	// Tenant is left out where it is "", as in sessions that were made before tenants
	// existed.
	Tenant     string          `json:"tenant,omitempty"`
	Policy     string          `json:"policy"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Clock      Clock           `json:"clock"`
	Cluster    json.RawMessage `json:"cluster"`
	Tags       wire.Tags       `json:"tags,omitzero"`
}

func encodeConfig(cfg *SessionConfig) ([]byte, error) {
	return json.Marshal(storedConfig{cfg.tenant, cfg.Policy, cfg.Parameters, cfg.Clock,
		wire.AppendCluster(nil, &cfg.Cluster), cfg.Tags})
}

func decodeConfig(b []byte) (cfg SessionConfig, err error) {
	var c storedConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return cfg, err
	}
	cfg = SessionConfig{Policy: c.Policy, Parameters: c.Parameters, Clock: c.Clock, Tags: c.Tags, tenant: c.Tenant}
	if bytes.Equal(c.Cluster, wire.AppendCluster(nil, &hare.Cluster{})) {
		return cfg, nil // all GPUs join by events; as a document, such a cluster is refused
	}
	cluster, err := wire.DecodeCluster(bytes.NewReader(c.Cluster), wire.Limits{})
	if err == nil {
		cfg.Cluster = *cluster
	}
	return cfg, err
}

// SequenceError says that the number of an event is greater than the expected number.
type SequenceError struct{ Got, Expected int64 }
