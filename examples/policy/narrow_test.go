package narrow_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/policytest"

	narrow "example.com/hare-policy"
)

// Hare's test kit plays hostile events to the policy, stores and restores it after
// each, and checks every decision.
func TestPolicy(t *testing.T) {
	maker := narrow.Policy.Maker.(policies.FromEvents)
	policytest.Run(t, policytest.Subject{
		Open:    func(c *hare.Cluster, _ []hare.Job) (online.Policy, error) { return maker.Open(c, nil) },
		Restore: maker.Restore,
	})
}
