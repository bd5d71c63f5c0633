package policies

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/rolling"
)

// rollingMaker makes the policy rolling for simulations and sessions.
var rollingMaker = FromEvents{
	New: func(cluster *hare.Cluster, cfg Config) (online.Durable, error) {
		return rolling.New(cluster, cfg.Rolling), nil
	},
	Session: rollingSession(rolling.Config{}),
}

// rollingSession makes the policy for sessions whose parameters may replace those of cfg.
func rollingSession(cfg rolling.Config) Session {
	return Session{
		Open: func(cluster *hare.Cluster, parameters []byte) (online.Durable, error) {
			return durable(cfg.Open(cluster, parameters))
		},
		Restore: func(snapshot []byte) (online.Durable, error) { return durable(cfg.Restore(snapshot)) },
		Check:   cfg.Check,
	}
}
