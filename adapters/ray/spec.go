package ray

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// Spec is what a user wants to run.
type Spec struct {
	Entrypoint string `json:"entrypoint"` // a command line for the shell, as Ray takes it
	Name       string `json:"name,omitempty"`
	User       string `json:"user,omitempty"`
	GPUs       int64  `json:"gpus"` // on one node
	// CPUs and MemoryMiB are reserved on that node besides the GPUs; 0 reserves none.
	CPUs      float64 `json:"cpus,omitempty"`
	MemoryMiB int64   `json:"memory_mib,omitempty"`
	// On names the GPU types on which the job may run; nil means all. Seconds of 0 are not known.
	On []TypeTime `json:"on,omitempty"`
	// LimitS is the longest that the user expects the job to take; 0 means not known. Nothing ends a
	// job at its limit.
	LimitS float64 `json:"limit_s,omitempty"`
	// Retries is how often a job that lost its node, or that Ray forgot, runs again.
	Retries    int               `json:"retries,omitempty"`
	RuntimeEnv map[string]any    `json:"runtime_env,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// TypeTime is how long a job takes on a GPU type.
type TypeTime struct {
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds,omitempty"`
}

const (
	maxSeconds = 366 * 24 * 3600 // a year
	maxCPUs    = hare.MaxPerTask / 1000
)

// ParseOn reads types with times, such as V100=3600s,T4=2h30m, or types alone.
func ParseOn(text string) (on []TypeTime, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, timed := strings.Cut(strings.TrimSpace(part), "=")
		t := TypeTime{Type: name}
		if timed {
			d, err := time.ParseDuration(value)
			if seconds, plain := strconv.ParseFloat(value, 64); plain == nil && seconds < maxSeconds {
				d, err = time.Duration(seconds*float64(time.Second)), nil
			}
			if t.Seconds = d.Seconds(); err != nil || !(t.Seconds > 0) {
				return nil, fmt.Errorf("%.60q: the time on a type is a duration above 0, as in V100=3600s or T4=2h30m", part)
			}
		}
		on = append(on, t)
	}
	return on, nil
}

// InvalidError says what is wrong with a job, or with what is asked of one.
type InvalidError struct {
	Pointer string // a JSON pointer into Spec; empty where nothing of it is at fault
	Reason  string
}

func (e *InvalidError) Error() string {
	if e.Pointer == "" {
		return e.Reason
	}
	return e.Pointer + ": " + e.Reason
}

// uri is the beginning of a place from which the nodes of Ray can fetch files.
var uri = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`)

// Validate checks a specification.
func (s *Spec) Validate() error {
	bad := func(pointer, format string, args ...any) error {
		return &InvalidError{Pointer: pointer, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case strings.TrimSpace(s.Entrypoint) == "":
		return bad("/entrypoint", "is empty: give the command after --, as in -- python train.py")
	case !utf8.ValidString(s.Entrypoint + s.Name + s.User):
		return bad("", "command, name and user must be valid UTF-8: a document would have others")
	case len(s.Entrypoint) > 64<<10:
		return bad("/entrypoint", "is longer than 64 KiB")
	case s.GPUs < 1 || s.GPUs > hare.MaxGPUs:
		return bad("/gpus", "must be from 1 to %d: a job without GPUs needs no place in this queue", int64(hare.MaxGPUs))
	case !(s.CPUs >= 0 && s.CPUs <= maxCPUs) || s.CPUs > 0 && s.CPUs < 0.001:
		return bad("/cpus", "must be from 0.001 to %d, or 0 for none", maxCPUs)
	case s.MemoryMiB < 0 || s.MemoryMiB > hare.MaxPerTask:
		return bad("/memory_mib", "must be from 1 to %d, or 0 for none", int64(hare.MaxPerTask))
	case !(s.LimitS >= 0 && s.LimitS <= maxSeconds):
		return bad("/limit_s", "must be from 0 to %d", maxSeconds)
	case s.Retries < 0 || s.Retries > 100:
		return bad("/retries", "must be from 0 to 100")
	case len(s.Name) > 200 || len(s.User) > 200:
		return bad("/name", "names of jobs and users have at most 200 bytes")
	}
	for i, t := range s.On {
		pointer := fmt.Sprintf("/on/%d", i)
		switch {
		case t.Type == "" || len(t.Type) > 100:
			return bad(pointer, "the name of a GPU type has 1 to 100 bytes")
		case !(t.Seconds >= 0 && t.Seconds <= maxSeconds) || math.IsNaN(t.Seconds):
			return bad(pointer, "seconds must be from 0 to %d", maxSeconds)
		case slices.ContainsFunc(s.On[:i], func(o TypeTime) bool { return strings.EqualFold(o.Type, t.Type) }):
			return bad(pointer, "the GPU type %s is there twice", t.Type)
		}
	}
	if dir, ok := s.RuntimeEnv["working_dir"].(string); ok && !uri.MatchString(dir) {
		return bad("/runtime_env/working_dir", "%.100q is a folder of this machine, and the job starts later on another: "+
			"give a URI that the nodes can fetch, or leave working_dir out and change to a shared folder by "+
			"-- sh -c 'cd /shared/folder && …'", dir)
	}
	if v, ok := s.RuntimeEnv["env_vars"]; ok {
		if _, ok := v.(map[string]any); !ok {
			return bad("/runtime_env/env_vars", "must be an object of texts")
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return bad("", "%v", err)
	}
	if len(text) > 512<<10 {
		return bad("", "the job is longer than 512 KiB")
	}
	return nil
}

// jobID are the IDs that users may give: Ray takes them, and they are part of addresses.
var jobID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// allows reports whether a job may run on a GPU type.
func (s *Spec) allows(gpuType string) bool {
	return len(s.On) == 0 ||
		slices.ContainsFunc(s.On, func(t TypeTime) bool { return strings.EqualFold(t.Type, gpuType) })
}

// needs is what the job takes of a node.
func (s *Spec) needs() amount {
	return amount{gpus: s.GPUs, cpuMilli: int64(math.Round(s.CPUs * 1000)), memoryMiB: s.MemoryMiB}
}

// seconds returns the time on a type; 0 where it is not known.
func (s *Spec) seconds(gpuType string) float64 {
	for _, t := range s.On {
		if strings.EqualFold(t.Type, gpuType) {
			return t.Seconds
		}
	}
	return 0
}

// ShellLine joins arguments to a line that a shell takes apart again.
func ShellLine(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = a
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				strings.ContainsRune("%+,-./:=@_", r)
			return !plain
		}) {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'"'"'`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// escaped is an ID in a path.
func escaped(id string) string { return url.PathEscape(id) }

// secondsText is what hare import ray reads of the times on types.
func secondsText(s *Spec) string {
	seconds := map[string]float64{}
	for _, t := range s.On {
		if t.Seconds > 0 {
			seconds[t.Type] = t.Seconds
		}
	}
	if len(seconds) == 0 {
		return ""
	}
	text, _ := json.Marshal(seconds) // cannot fail: Validate has done it
	return string(text)
}
