package ledger

import (
	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Record is one line of a journal. One of its pointers is set.
type Record struct {
	AtUs     int64           `json:"at"` // microseconds since 1970 by the server's clock
	Submit   *Submit         `json:"submit,omitempty"`
	Cancel   *Cancel         `json:"cancel,omitempty"`
	Change   *Change         `json:"change,omitempty"`
	Register *Register       `json:"register,omitempty"`
	Expire   *AgentEpoch     `json:"expire,omitempty"`
	Sync     *SyncRecord     `json:"sync,omitempty"`
	Drain    *Drain          `json:"drain,omitempty"`
	Answers  []SessionAnswer `json:"answers,omitempty"`
	Copy     *Copied         `json:"copy,omitempty"`
	// Tick lets the session see that time has passed, so that it takes a plan that is ready.
	Tick bool `json:"tick,omitempty"`
	// Ordered are the parameter servers and the tasks of relaxed round jobs that were ordered by the record. Apply writes
	// them down for whoever checks the journal, and never reads them.
	Ordered []Ordered `json:"ordered,omitempty"`
}

// Ordered is a parameter server, which is task 0 of its attempt, or a task of a round.
type Ordered struct {
	Job     string `json:"job"`
	Attempt int64  `json:"attempt"`
	Task    int    `json:"task,omitempty"`
	On      string `json:"on"` // the node of a parameter server, the GPU of a task
	Round   int64  `json:"round,omitempty"`
	Of      int    `json:"of,omitempty"` // the place of the task in its round
}

// Submit says that a job was submitted. Its ID follows from the jobs before.
type Submit struct {
	Job clusterdoc.NewJob `json:"job"`
	Key string            `json:"key,omitempty"` // Idempotency-Key
	// SecretSum is the SumSecrets of the job's secret variables, by which the submission is known when it is sent again
	// after the job has ended; "" where there are none.
	SecretSum string `json:"secret_sum,omitempty"`
	// Shares says of a round job of sync relaxed that it shares GPUs with other jobs round by round. Journals that are
	// older than such jobs say relaxed of jobs that keep their GPUs until their end, which are rigid.
	Shares bool `json:"shares,omitempty"`
}

// Cancel says that somebody asked for the end of a job.
type Cancel struct {
	Job string `json:"job"`
	By  string `json:"by,omitempty"`
}

// Change says that somebody changed a job that had not ended.
type Change struct {
	Job string `json:"job"`
	By  string `json:"by,omitempty"`
	clusterdoc.JobPatch
}

// Register says that an agent took part, from here on with the next epoch.
type Register struct {
	clusterdoc.Registration
	// SecretSum is the SHA-256 of the secret of the registration, in hexadecimal digits. Registrations from before there
	// were secrets have none.
	SecretSum string `json:"secret_sha256,omitempty"`
	// Again says that Labels and Devices are those of the registration before, and left out.
	Again bool `json:"again,omitempty"`
}

// AgentEpoch names an agent that registered.
type AgentEpoch struct {
	Agent string `json:"agent"`
	Epoch int64  `json:"epoch"`
}

// SyncRecord is what is new in a sync.
type SyncRecord struct {
	AgentEpoch
	After   int64                   `json:"after"` // number of the report before the first
	Reports []clusterdoc.TaskReport `json:"reports,omitempty"`
	// Faults are the devices that are not well; nil says that nothing has changed.
	Faults *map[int]string `json:"faults,omitempty"`
}

// Drain says that an agent gets nothing new, or gets jobs again.
type Drain struct {
	Agent  string `json:"agent"`
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty"`
}

// Copied says that the server has a copy of the checkpoint of a round job; of round 0, that it has none any more.
type Copied struct {
	Job string `json:"job"`
	clusterdoc.CheckpointCopy
}

// SessionAnswer is the answer of the session to the first event that has none. Refused says why the session
// did not take the event; the number of the event is then used by the next one.
type SessionAnswer struct {
	Refused   string     `json:"refused,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
}

// Decision is a start, or, without GPUs, the end of an earlier start.
type Decision struct {
	Job   string   `json:"job"`
	Round int64    `json:"round,omitempty"`
	Task  int64    `json:"task"`
	GPUs  []string `json:"gpus,omitempty"`
}

// AnswerOf brings an answer of a session into the form of the journal.
func AnswerOf(a hare.Answer) SessionAnswer {
	var s SessionAnswer
	for i := range a.Decisions {
		d := &a.Decisions[i]
		x := Decision{Job: d.Job, Round: d.Round, Task: d.Task}
		if d.Type == hare.DecisionStart {
			x.GPUs = d.GPUs()
		}
		s.Decisions = append(s.Decisions, x)
	}
	return s
}
