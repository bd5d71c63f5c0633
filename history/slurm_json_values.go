package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// slurmNumber is a number of Slurm's JSON: plain, null, or an object with set, infinite and number,
// by version. Infinite and unset numbers are 0.
type slurmNumber int64

func (n *slurmNumber) UnmarshalJSON(text []byte) error {
	*n = 0
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || text[0] == 'n': // null
		return nil
	case text[0] == '{':
		var v struct {
			Set, Infinite *bool
			Number        json.Number
		}
		if err := json.Unmarshal(text, &v); err != nil {
			return err
		}
		if v.Set == nil && v.Infinite == nil && v.Number == "" {
			return fmt.Errorf("%.40q is not a number", text)
		}
		if v.Set == nil || !*v.Set || v.Infinite != nil && *v.Infinite || v.Number == "" {
			return nil
		}
		text = []byte(v.Number)
	case text[0] == '"':
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		if s == "" || strings.EqualFold(s, "N/A") || strings.EqualFold(s, "none") {
			return nil
		}
		text = []byte(s)
	}
	if string(text) == "18446744073709551614" || string(text) == "18446744073709551615" {
		return nil // Slurm's words for not set and infinite, in 64 bits
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(x) > hare.MaxExact {
		return fmt.Errorf("%.40q is not a number up to 2^53", text)
	}
	*n = slurmNumber(x)
	return nil
}

// taskNumber is the number of a task of an array, which may be 0, or none.
type taskNumber struct {
	number int64
	set    bool
}

func (n *taskNumber) UnmarshalJSON(text []byte) error {
	var v slurmNumber
	*n = taskNumber{}
	if err := v.UnmarshalJSON(text); err != nil {
		return err
	}
	text = bytes.TrimSpace(text)
	n.number, n.set = int64(v), text[0] != 'n' && !bytes.Equal(text, []byte(`""`))
	if text[0] == '{' {
		var o struct{ Set bool }
		_ = json.Unmarshal(text, &o)
		n.set = o.Set
	}
	return nil
}

// slurmTexts is a text, or a list of texts, by version.
type slurmTexts []string

func (s *slurmTexts) UnmarshalJSON(text []byte) error {
	*s = nil
	switch text = bytes.TrimSpace(text); text[0] {
	case 'n':
		return nil
	case '[':
		return json.Unmarshal(text, (*[]string)(s))
	case '"':
		var one string
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		*s = slurmTexts{one}
		return nil
	}
	return fmt.Errorf("%.40q is neither a text nor a list of texts", text)
}

// String joins the texts by commas.
func (s slurmTexts) String() string { return strings.Join(s, ",") }

// slurmComment is the comment of a job: a text, or an object with the texts of user and operator.
type slurmComment string

func (c *slurmComment) UnmarshalJSON(text []byte) error {
	*c = ""
	if text = bytes.TrimSpace(text); text[0] == '{' {
		var v struct{ Job *string }
		err := json.Unmarshal(text, &v)
		if v.Job != nil {
			*c = slurmComment(*v.Job)
		}
		return err
	}
	var s *string
	err := json.Unmarshal(text, &s)
	if s != nil {
		*c = slurmComment(*s)
	}
	return err
}

// slurmTres is a trackable resource of a list.
type slurmTres struct {
	Type, Name string
	Count      slurmNumber
}

// tresText writes resources in the form of sacct -P.
func tresText(list []slurmTres) string {
	var parts []string
	for _, t := range list {
		name := t.Type
		if t.Name != "" {
			name += "/" + t.Name
		}
		value := itoa(int64(t.Count))
		if name == "mem" {
			value += "M"
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ",")
}

// slurmJob holds the members of a job that sacct and squeue write. Names that both have mean the same.
type slurmJob struct {
	ID          slurmNumber  `json:"job_id"`
	Name        string       `json:"name"`
	Account     string       `json:"account"`
	Partition   string       `json:"partition"`
	QOS         string       `json:"qos"`
	Nodes       string       `json:"nodes"`
	Comment     slurmComment `json:"comment"`
	SubmitLine  string       `json:"submit_line"`
	Cluster     string       `json:"cluster"`
	Constraints string       `json:"constraints"`

	// sacct
	User  string `json:"user"`
	Array struct {
		JobID  slurmNumber `json:"job_id"`
		Task   string      `json:"task"`
		TaskID taskNumber  `json:"task_id"`
		Limits struct {
			Max struct {
				Running struct{ Tasks slurmNumber }
			}
		}
	} `json:"array"`
	Het struct {
		JobID  slurmNumber `json:"job_id"`
		Offset slurmNumber `json:"job_offset"`
	} `json:"het"`
	State struct {
		Current slurmTexts `json:"current"`
	} `json:"state"`
	Time struct {
		Submission, Eligible, Start, End, Limit, Suspended slurmNumber
	} `json:"time"`
	Tres struct {
		Allocated, Requested []slurmTres
	} `json:"tres"`
	Reservation struct {
		Name json.RawMessage
	} `json:"reservation"`

	// squeue
	UserName        string      `json:"user_name"`
	ArrayJobID      slurmNumber `json:"array_job_id"`
	ArrayTaskID     taskNumber  `json:"array_task_id"`
	ArrayTaskString string      `json:"array_task_string"`
	ArrayMaxTasks   slurmNumber `json:"array_max_tasks"`
	HetJobID        slurmNumber `json:"het_job_id"`
	HetOffset       slurmNumber `json:"het_job_offset"`
	JobState        slurmTexts  `json:"job_state"`
	SubmitTime      slurmNumber `json:"submit_time"`
	EligibleTime    slurmNumber `json:"eligible_time"`
	StartTime       slurmNumber `json:"start_time"`
	EndTime         slurmNumber `json:"end_time"`
	TimeLimit       slurmNumber `json:"time_limit"`
	NodeCount       slurmNumber `json:"node_count"`
	GresDetail      []string    `json:"gres_detail"`
	TresReq         string      `json:"tres_req_str"`
	TresAlloc       string      `json:"tres_alloc_str"`
	TresPerNode     string      `json:"tres_per_node"`
	TresPerJob      string      `json:"tres_per_job"`
	Features        string      `json:"features"`
	Dependency      string      `json:"dependency"`
	ResvName        string      `json:"resv_name"`
	TresPerTask     string      `json:"tres_per_task"`
	TresPerSocket   string      `json:"tres_per_socket"`
	SocketsPerNode  slurmNumber `json:"sockets_per_node"`
	Tasks           slurmNumber `json:"tasks"`
	TasksPerNode    slurmNumber `json:"tasks_per_node"`
	CPUsPerTres     string      `json:"cpus_per_tres"`
	MaxNodes        slurmNumber `json:"max_nodes"`
	ResizeTime      slurmNumber `json:"resize_time"`
	Shared          slurmTexts  `json:"shared"`
	Exclusive       slurmTexts  `json:"exclusive"`
	StateReason     string      `json:"state_reason"`
	Hold            bool        `json:"hold"`
	ExcludedNodes   string      `json:"excluded_nodes"`
	RequiredNodes   string      `json:"required_nodes"`
}

// slurmNode holds the members of a node of sinfo (22.05) and scontrol show node --json.
type slurmNode struct {
	Name       string
	Gres       string
	CPUs       slurmNumber
	RealMemory slurmNumber `json:"real_memory"`
	// What is for jobs of the CPUs, and what is not for jobs of the memory.
	EffectiveCPUs     slurmNumber `json:"effective_cpus"`
	SpecializedMemory slurmNumber `json:"specialized_memory"`

	Features   slurmTexts
	Partitions slurmTexts
	State      slurmTexts
	StateFlags slurmTexts `json:"state_flags"`
}

// slurmGroup holds the members of a group of nodes of sinfo --json since 23.02.
type slurmGroup struct {
	Nodes struct{ Nodes []string }
	Gres  struct{ Total string }
	CPUs  struct {
		Maximum slurmNumber
	}
	Memory struct {
		Maximum slurmNumber
	}
	Features  struct{ Total string }
	Partition struct{ Name string }
	Node      struct{ State slurmTexts }
}
