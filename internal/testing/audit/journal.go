package audit

// record has those parts of a line of a journal that the checks need.
type record struct {
	At     int64 `json:"at"`
	Submit *struct {
		Shares bool `json:"shares"`
		Job    struct {
			Module      string             `json:"module"`
			Sync        string             `json:"sync"`
			Tasks       int                `json:"tasks"`
			On          map[string]float64 `json:"on"`
			Rounds      int64              `json:"rounds"`
			GPUs        int                `json:"gpus"`
			GPUsPerTask int                `json:"gpus_per_task"`
			Nodes       int                `json:"nodes"`
			Shared      string             `json:"checkpoint_directory"`
		} `json:"job"`
	} `json:"submit"`
	Cancel *struct {
		Job string `json:"job"`
	} `json:"cancel"`
	Register *struct {
		Name    string `json:"name"`
		Devices []struct {
			Fault string `json:"fault"`
		} `json:"devices"`
		Holds []taskReport `json:"holds"`
	} `json:"register"`
	Expire *agentEpoch `json:"expire"`
	Sync   *struct {
		agentEpoch
		After   int64             `json:"after"`
		Reports []taskReport      `json:"reports"`
		Faults  map[string]string `json:"faults"`
	} `json:"sync"`
	Copy *struct {
		Job     string `json:"job"`
		Attempt int64  `json:"attempt"`
		Round   int64  `json:"round"`
	} `json:"copy"`
	Answers []struct {
		Decisions []struct {
			Job  string   `json:"job"`
			Task int      `json:"task"`
			GPUs []string `json:"gpus"`
		} `json:"decisions"`
	} `json:"answers"`
	Ordered []ordered `json:"ordered"`
}

type agentEpoch struct {
	Agent string `json:"agent"`
	Epoch int64  `json:"epoch"`
}

type taskReport struct {
	Job      string `json:"job"`
	Attempt  int64  `json:"attempt"`
	Task     int    `json:"task"`
	State    string `json:"state"`
	ExitCode *int   `json:"exit_code"`
	Round    int64  `json:"round"`
	Port     int    `json:"port"`
}

type agent struct {
	epoch   int64
	lost    bool
	reports int64
	heardUs int64 // the last record that the agent caused: it was answered then or later
}

// key names a task of an attempt.
type key struct {
	job     string
	attempt int64
	task    int
}

type job struct {
	tasks     int
	succeeded int64            // the attempt all of whose tasks ended by themselves with 0; 0 means none
	disturbed bool             // since the session gave the GPUs of gpus, one of them was not well
	gpus      map[int][]string // by task, what the session gave last
	attempts  map[int64]*attempt
	rounds    int64            // of a round job; 0 for a command
	copied    bool             // each node of a round job keeps a copy of the checkpoint
	saved     map[string]int64 // by agent, the greatest round that it has said stands in the checkpoint
	copyRound int64            // of the server's copy of the checkpoint, which
	copyBy    int64            // this attempt has brought
	running   map[key]string   // tasks that were said to run and may still do so, to their agents
	sharing   *sharing         // nil but for relaxed round jobs
}

type attempt struct {
	agents map[int]string // by task, the agent that reported it
	final  map[int]bool
	good   int   // tasks that ended with 0
	round  int64 // that was reported last
}
