// Package sessions has the documents that describe online sessions. Servers, clients and the
// specification share them.
package sessions

import (
	"encoding/json"
	"time"
)

// Session is an online session.
type Session struct {
	ID string `json:"id"`
	// Name and labels are those of the request.
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Followed is there where a helper keeps the session: nothing else changes it, and it has the label helper.
	Followed   *Followed      `json:"followed,omitempty"`
	Created    time.Time      `json:"created" swaggertype:"string" format:"date-time"`
	Policy     string         `json:"policy"`
	Parameters parametersText `json:"parameters,omitempty"`
	Clock      string         `json:"clock" enums:"events,server"`
	// GPUs is the number of GPUs at the beginning of the session.
	GPUs int `json:"gpus"`
	// LastSeq is the number of the last durable event: the next event has the number after it.
	LastSeq int64 `json:"last_seq"`
	// Active says that the state of the session is in memory.
	Active bool `json:"active"`
	// Status is the state of a session that is asked for alone. Lists leave it out.
	Status statusText `json:"status,omitempty"`
	// Planning says how plans come along, where the policy makes them and the session is asked for alone.
	Planning *Planning `json:"planning,omitempty"`
} //	@name	Session

// Planning says how the plans of a session come along. Numbers count since the state of the
// session was brought into memory.
type Planning struct {
	// State is idle where the plan has seen the last change, waiting while planners make other plans,
	// ready where a plan is taken with the next event, and retrying where the last plan failed.
	State string `json:"state" enums:"idle,waiting,running,ready,retrying"`
	// Fallback is the policy that decides because there is no plan, or because the plan is too old.
	Fallback string `json:"fallback,omitempty"`
	Made     int64  `json:"made"`
	Taken    int64  `json:"taken"`
	// Refused counts plans that the policy did not take.
	Refused int64 `json:"refused"`
	// Failed counts questions to which the planner had no answer.
	Failed int64 `json:"failed"`
	// Late counts plans that took longer than the server allows.
	Late     int64 `json:"late"`
	Panicked int64 `json:"panicked"`
	// Error is the last failure, if no plan was taken since.
	Error string `json:"error,omitempty"`
} //	@name	Planning

// The JSON forms of the parameters of a policy and of online.Status.
type (
	parametersText = json.RawMessage
	statusText     = json.RawMessage
)

// Changes says what of a session has changed since the event of another number. Who reads it again has what the lists
// have. In a stream it is the data of an event changes; an event reset has seq alone, and says that everything is to
// be read.
type Changes struct {
	// Seq is the number of the last event.
	Seq int64 `json:"seq"`
	// Jobs have arrived or changed; Removed have ended. Of a job that ends by itself the session learns the end by the
	// event job_ended.
	Jobs    []string `json:"jobs,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// GPUs have joined or left; a node that left stands for its GPUs.
	GPUs []string `json:"gpus,omitempty"`
	// Reset says that everything is to be read: it is the name of the event.
	Reset bool `json:"-"`
	// Plan says that a new plan is in force.
	Plan bool `json:"plan,omitempty"`
} //	@name	SessionChanges

// List lists sessions, the oldest first.
type List struct {
	Sessions []*Session `json:"sessions"`
	// Next is what to give as after to GET /v1/sessions for the sessions that follow. It is left out at the end.
	Next string `json:"next,omitempty"`
} //	@name	SessionList
