package api

import (
	"net/http"

	registry "github.com/hare-sched/hare/sim/policies"
)

// policiesJSON lists the policies of sessions.
type policiesJSON struct {
	Policies []registry.SessionInfo `json:"policies"`
} //	@name	Policies

// getPolicies lists the policies that sessions take.
//
//	@Summary		List the policies of sessions
//	@Description	Each policy says what it goes by in place of sizes, which nobody knows in a session, and which
//	@Description	parameters it takes, with units and defaults.
//	@Tags			sessions
//	@ID				listPolicies
//	@Produce		json
//	@Success		200	{object}	policiesJSON	"the policies, by name"
//	@Router			/v1/policies [get]
func (s *server) getPolicies(w http.ResponseWriter, _ *http.Request) error {
	return answerJSON(w, http.StatusOK, policiesJSON{registry.SessionInfos()})
}
