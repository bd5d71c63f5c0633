package pool

import (
	"maps"
	"slices"
	"strconv"

	"github.com/hare-sched/hare/executor/worker"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// key names an attempt of a job, which is a job of its own for the workers.
type key struct {
	job     string
	attempt int64
}

func keyOf(id clusterdoc.TaskID) key { return key{id.Job, id.Attempt} }

// name is how workers and the node know the job.
func (k key) name() string { return k.job + "." + strconv.FormatInt(k.attempt, 10) }

// serverName is what a connection to the parameter server of an attempt asks for.
func (k key) serverName() string { return k.name() + ".hare.invalid" }

// jobOf is a job as workers know it.
func jobOf(k key, r *clusterdoc.RoundStart, dir string, env map[string]string) worker.Job {
	var variables []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		variables = append(variables, name+"="+env[name])
	}
	return worker.Job{ID: k.name(), Module: r.Module, Directory: dir, Tasks: r.Tasks, Seed: r.Seed,
		Environment: variables}
}
