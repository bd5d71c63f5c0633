package trace

import (
	"fmt"
	"io"
	"math"
	"path"
	"strings"
	"time"

	hare "github.com/hare-sched/hare"
)

// Source is a text to read and the name that error messages give it.
type Source struct {
	Name string
	R    io.Reader
}

// Config says how a trace becomes an instance.
type Config struct {
	// Name is the name of the instance; empty means "<format>-<trace>".
	Name string
	// GPUs is the cluster, one node for each type. Nil means the default of the format.
	GPUs []hare.TypeCount
	// Jobs limits the import to the first jobs of the trace; zero means all.
	Jobs int
	// Sync is "gang" or "rigid". Empty means gang for formats with known steps (gavel,
	// shockwave, pollux) and rigid for formats with durations only (philly, openb).
	Sync string
	// Quantum is the length of a round of merged steps on the job's fastest type; zero means
	// 60 s. Rounds of rigid philly and openb jobs are not cut.
	Quantum time.Duration
	// Releases is "trace" (the default: jobs arrive as recorded) or "zero".
	Releases string
	// Weights is "trace" (the default) or "one".
	Weights string
	// Placement selects among Gavel's throughputs: "consolidated" (the default: a job's GPUs
	// share a server) or "unconsolidated".
	Placement string
	// Shared says what happens to openb pods that ask for a part of a GPU: "skip" (the
	// default) skips them, "whole" counts a whole GPU.
	Shared string
	// Long allows traces whose jobs, one after another, would last longer than 285 years,
	// for simulations: see hare.Instance.ValidateLong.
	Long bool

	// SetAside skips rows with a value that cannot be read and says so in the report; without it such a row is an
	// error. A trace of which no row can be read is an error anyway.
	SetAside bool

	given bool // the caller chose GPUs
}

// resolve checks cfg and fills in defaults.
func (c Config) resolve(format string, trace Source, sync string, gpus string) (Config, error) {
	if c.Name == "" {
		base := strings.TrimSuffix(path.Base(trace.Name), ".csv")
		base = strings.TrimPrefix(strings.TrimPrefix(base, format+"_"), "trace_")
		c.Name = format + "-" + base
	}
	if c.Sync == "" {
		c.Sync = sync
	}
	if c.Sync != "gang" && c.Sync != "rigid" {
		return c, fmt.Errorf("trace: sync is %q; merged steps are gang or rigid (merged relaxed rounds would be "+
			"another "+
			"algorithm)", c.Sync)
	}
	if c.Quantum == 0 {
		c.Quantum = time.Minute
	}
	if c.Quantum < time.Microsecond || c.Quantum > math.MaxInt32*time.Second {
		return c, fmt.Errorf("trace: quantum is %v; it must be at least 1 µs and at most 68 years", c.Quantum)
	}
	if c.Jobs < 0 {
		return c, fmt.Errorf("trace: the number of jobs must not be negative")
	}
	for _, choice := range []struct {
		what  string
		value *string
		names [2]string
	}{
		{"releases", &c.Releases, [2]string{"trace", "zero"}},
		{"weights", &c.Weights, [2]string{"trace", "one"}},
		{"placement", &c.Placement, [2]string{"consolidated", "unconsolidated"}},
		{"shared", &c.Shared, [2]string{"skip", "whole"}},
	} {
		if *choice.value == "" {
			*choice.value = choice.names[0]
		}
		if *choice.value != choice.names[0] && *choice.value != choice.names[1] {
			return c, fmt.Errorf("trace: %s is %q; it must be %q or %q", choice.what, *choice.value, choice.names[0],
				choice.names[1])
		}
	}
	var err error
	c.given = c.GPUs != nil
	if c.GPUs == nil && gpus != "" {
		c.GPUs, err = ParseGPUs(gpus)
	}
	return c, err
}

func (c Config) syncRule() hare.Sync {
	if c.Sync == "rigid" {
		return hare.Rigid
	}
	return hare.Gang
}
