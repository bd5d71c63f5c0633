package sessions

import "time"

// HelperFile is the file beside the logs of a helper's sessions that has a HelperState, and HelperForm is its form.
const (
	HelperFile = "session.json"
	HelperForm = "helper-session/v1"
)

// HelperState is what a helper beside another scheduler writes of its session after each loop, for servers that show
// it.
type HelperState struct {
	Form    string    `json:"hare"`
	Helper  string    `json:"helper"`  // slurm, kube or ray
	Log     string    `json:"log"`     // the file of the session's log, in the same directory
	Origin  time.Time `json:"origin"`  // time 0 of the session
	Written time.Time `json:"written"` // by the clock of the helper
	EveryS  float64   `json:"every_s"` // between two loops that succeed, at most
	// Seq is the last event, AtUs its time, and State the snapshot of the policy after it.
	Seq   int64                `json:"seq"`
	AtUs  int64                `json:"at_us"`
	Jobs  map[string]HelperJob `json:"jobs"`
	State []byte               `json:"state"`
}

// HelperJob is what the scheduler says of a job of the session.
type HelperJob struct {
	Name string `json:"name,omitempty"`
	User string `json:"user,omitempty"`
	// Next says that the session has started the job, and that the scheduler has not yet.
	Next bool `json:"next,omitempty"`
}

// Followed says which helper keeps a session that a server shows and nobody changes over HTTP, and since when the
// helper has said nothing.
type Followed struct {
	Helper string `json:"helper" enums:"slurm,kube,ray"`
	// At is when the helper wrote what the server shows. Until it has written something, the session has no more than
	// this description.
	At *time.Time `json:"at,omitempty" swaggertype:"string" format:"date-time"`
	// Stale says that the helper has written nothing for longer than three of its loops.
	Stale bool `json:"stale,omitempty"`
	// Fault says what keeps the server from reading what the helper writes.
	Fault string `json:"fault,omitempty"`
} //	@name	FollowedBy
