package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/time/rate"

	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// agentClusters is how many clusters a tenant may have before its agents make no more of them.
const agentClusters = 16

// How many registrations a second are taken, and how many at once: of a key for one node, and of a tenant's other keys
// together, or of a server without keys, whose agents may all register again after a restart.
const (
	nodeRegistrations, nodeRegistrationBurst   = 1, 20
	fleetRegistrations, fleetRegistrationBurst = 100, 2000
)

// asAgent wraps a handler of what agents do: on a server with keys it is for those of role agent, of the nodes
// that they are for, and, because they can make such keys, for those of role admin. Whoever has registered shows a
// secret.
func (s *server) asAgent(f func(http.ResponseWriter,
	*http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		key, node := callerOf(r.Context()), chi.URLParam(r, "agent")
		if key != nil {
			if key.Role != access.RoleAgent && key.Role < access.RoleAdmin {
				return forbidden(access.RoleAgent)
			}
			switch may, free := key.May(node); {
			case node == "": // it registers
			case !may:
				return otherNode(key, node)
			case free:
				return &statusError{http.StatusForbidden, "other_node", "the key has no node yet: register first"}
			}
		}
		if node != "" && r.Header.Get(clusterdoc.SecretHeader) == "" {
			return clusters.ErrSecret
		}
		return f(w, r)
	}
}

// otherNode is the refusal of a key that is for other nodes.
func otherNode(key *access.Key, node string) error {
	return &statusError{http.StatusForbidden, "other_node", fmt.Sprintf("the key is for node %s and not for %.63q: make "+
		"one with hare key create --role agent --node NAME", quoted(key.Nodes), node)}
}

func quoted(patterns []string) (text string) {
	for i, p := range patterns {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%q", p)
	}
	return text
}

// registerNode registers an agent where its key is for the node, and gives a key without a node the node for good.
func (s *server) registerNode(r *http.Request, reg *clusterdoc.Registration) (*clusterdoc.Registered, error) {
	if err := ledger.CheckRegistration(reg); err != nil {
		return nil, err // before a cluster is made for it
	}
	key := callerOf(r.Context())
	if key == nil {
		return s.register(r, reg)
	}
	may, free := key.May(reg.Name)
	if free { // one at a time, so that a key does not register two nodes at once
		s.binding.Lock()
		defer s.binding.Unlock()
		now, ok := s.cfg.Keys.Key(key.ID)
		if !ok {
			return nil, access.ErrNoKey
		}
		key = &now
		may, free = key.May(reg.Name)
	}
	if !may {
		return nil, otherNode(key, reg.Name)
	}
	answer, err := s.register(r, reg)
	if err != nil || !free {
		return answer, err
	}
	err = s.change(r, func(set *access.KeySet) error { return set.Bind(key.ID, reg.Name) })
	if errors.Is(err, access.ErrNode) { // another process has changed the keys meanwhile
		return nil, &statusError{http.StatusForbidden, "other_node", "the key is for another node now"}
	}
	if err != nil {
		return nil, err
	}
	s.cfg.Logger.Info("key bound", "request_id", requestID(r.Context()), "key", key.ID, "node", reg.Name)
	return answer, nil
}

func (s *server) register(r *http.Request, reg *clusterdoc.Registration) (*clusterdoc.Registered, error) {
	c, err := s.clusterOfAgent(r)
	if err != nil {
		return nil, err
	}
	return c.Register(r.Context(), reg)
}

// clusterOfAgent is clusterOrNew for a registration. A key of role agent makes no cluster of a tenant that has many,
// because it could make them without end.
func (s *server) clusterOfAgent(r *http.Request) (*clusters.Cluster, error) {
	absent := func() bool {
		_, err := s.cluster(r)
		return errors.Is(err, clusters.ErrNoCluster)
	}
	if key := callerOf(r.Context()); key == nil || key.Role != access.RoleAgent || !absent() {
		return s.clusterOrNew(r)
	}
	s.making.Lock() // one at a time, so that each sees what the others have made
	defer s.making.Unlock()
	if absent() && s.cfg.Clusters.Count(tenantOf(r.Context())) >= agentClusters {
		return nil, &statusError{http.StatusForbidden, "no_cluster", fmt.Sprintf("there is no cluster of that name, and a "+
			"key of role agent makes none where the tenant has %d: hare cluster create makes one", agentClusters)}
	}
	return s.clusterOrNew(r)
}

// allow counts a registration; the error is *admission.QuotaError.
func (rl *registrationLimiter) allow(key *access.Key, now time.Time) error {
	of, limit, burst := "tenant ", rate.Limit(fleetRegistrations), fleetRegistrationBurst
	switch {
	case key == nil:
	case key.One():
		of, limit, burst = "key "+key.ID, nodeRegistrations, nodeRegistrationBurst
	default:
		of += key.Tenant
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	l := rl.buckets[of]
	if l == nil {
		if len(rl.buckets) >= 1024 {
			for name, l := range rl.buckets {
				if l.TokensAt(now) >= float64(l.Burst()) {
					delete(rl.buckets, name)
				}
			}
		}
		l = rate.NewLimiter(limit, burst)
		rl.buckets[of] = l
	}
	if l.AllowN(now, 1) {
		return nil
	}
	missing := 1 - l.TokensAt(now)
	return &admission.QuotaError{Code: "quota_registrations", Limit: float64(limit), What: "registrations a second",
		After: time.Duration(missing / float64(limit) * float64(time.Second))}
}
