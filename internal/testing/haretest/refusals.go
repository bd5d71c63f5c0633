package haretest

// Refusal is an instance that is refused, by the rule that it breaks.
type Refusal struct {
	Name     string
	Instance string
	Pointer  string // within the instance
	Code     string
	Remedy   string // a part of the message that says what to do
}

// onNodes wraps jobs, and members of the cluster and of the instance, into an instance with two racks.
func onNodes(jobs, cluster, instance string) string {
	return `{"hare":"instance/v1","cluster":{"topology":["rack"],"nodes":[` +
		`{"name":"a","gpus":{"A":3,"B":1},"cpus":8,"memory_mib":64,"labels":{"rack":"r"}},` +
		`{"name":"b","gpus":{"A":2},"labels":{"rack":"s"},"in_service_s":[[0,9]],"busy":[{"gpu":1,"until_s":2}]}]` +
		cluster + `}` + instance + `,"jobs":[` + jobs + `]}`
}

const (
	onA    = `"on":{"A":{"compute_s":2}}`
	twoOfA = `"shapes":[{` + onA + `},{"tasks":2,"counts":2,` + onA + `}]`
)

// gang is a gang of two tasks with more fields.
func gang(fields string) string { return `{"id":"x","sync":"gang","tasks":2,` + fields + `}` }

// Refusals has an instance for each rule that docs/reference/model.md set for a field. Each is an instance/v1
// otherwise.
func Refusals() (out []Refusal) {
	add := func(name, instance, pointer, code, remedy string) {
		out = append(out, Refusal{name, instance, pointer, code, remedy})
	}
	job := func(name, job, pointer, code, remedy string) {
		add(name, onNodes(job, "", ""), "/jobs/0"+pointer, code, remedy)
	}
	x := func(fields string) string { return `{"id":"x",` + fields + `}` }
	add("a node without a label of the topology", `{"hare":"instance/v1","cluster":{"topology":["rack"],"nodes":[`+
		`{"name":"a","gpus":{"A":1}}]},"jobs":[{"id":"x",`+onA+`}]}`, "/cluster/nodes/0/labels", "missing_field", "add it")
	add("a level as a label", `{"hare":"instance/v1","cluster":{"topology":["any"],"nodes":[`+
		`{"name":"a","gpus":{"A":1}}]},"jobs":[{"id":"x",`+onA+`}]}`, "/cluster/topology/0", "not_allowed", "rename")
	add("CPUs of four decimals", `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":1},"cpus":1.0001}]},`+
		`"jobs":[{"id":"x",`+onA+`}]}`, "/cluster/nodes/0/cpus", "too_many_decimals", "round it")
	job("no GPU a task", x(`"gpus_per_task":0,`+onA), "/gpus_per_task", "out_of_range", "must be at least 1")
	job("negative CPUs", x(`"cpus_per_task":-1,`+onA), "/cpus_per_task", "out_of_range", "must be between 0")
	job("distinct nodes of relaxed jobs", x(`"distinct_nodes":true,`+onA), "/distinct_nodes", "not_allowed", "leave")
	job("within of relaxed jobs", x(`"within":"rack",`+onA), "/within", "not_allowed", "leave it out")
	job("an unknown level", gang(`"within":"zone",`+onA), "/within", "unknown_level", "use one of")
	job("times by spread of relaxed jobs", x(`"on":{"A":{"compute_s":1,"sync_s":{"node":0,"any":1}}}`), "/on/A/sync_s",
		"not_allowed", "give one number")
	job("less for coarser levels", gang(`"on":{"A":{"compute_s":1,"sync_s":{"node":2,"any":1}}}`), "/on/A/sync_s/any",
		"out_of_range", "must be at least 2")
	job("no time for within", gang(`"on":{"A":{"compute_s":1,"sync_s":{"node":2}}}`), "/on/A/sync_s", "missing_field",
		"add")
	job("a condition without values", x(`"only":{"disk":[]},`+onA), "/only/disk", "missing_field", "give")
	job("a user without name", x(`"user":[""],`+onA), "/user/0", "bad_name", "give a name")

	add("an empty reservation", onNodes(x(onA), `,"reservations":[{"from_s":3,"until_s":3}]`, ""),
		"/cluster/reservations/0/until_s", "bad_window", "must lie after")
	add("a reservation for an unknown job", onNodes(x(onA), `,"reservations":[{"until_s":3,"jobs":["z"]}]`, ""),
		"/cluster/reservations/0/jobs/0", "unknown_job", "give the id")
	add("a quota of no types", onNodes(x(onA), "", `,"quota":[{"user":"ann","gpus":1,"types":[]}]`), "/quota/0/types",
		"missing_field", "leave it out")
	add("a quota without user", onNodes(x(onA), "", `,"quota":[{"gpus":1}]`), "/quota/0", "missing_field", "user")

	job("all rounds done", x(`"progress":{"rounds_done":1},`+onA), "/progress/rounds_done", "out_of_range", "leave out")
	job("elapsed without GPUs", x(`"progress":{"elapsed_s":1},`+onA), "/progress/elapsed_s", "not_allowed",
		"name its GPUs")
	job("a relaxed job that runs", x(`"progress":{"gpus":["a/0"]},`+onA), "/progress/gpus", "not_allowed", "rounds_done")
	job("a running job that is not released", x(`"sync":"gang","release_s":1,"progress":{"gpus":["a/0"]},`+onA),
		"/progress/gpus", "not_allowed", "leave one of them out")
	add("a running job that waits", onNodes(x(`"sync":"gang","after":["y"],"progress":{"gpus":["a/0"]},`+onA)+
		`,{"id":"y",`+onA+`}`, "", ""), "/jobs/0/progress/gpus", "not_allowed", "leave out after")
	job("too few GPUs", gang(`"progress":{"gpus":["a/0"]},`+onA), "/progress/gpus", "out_of_range",
		"2 tasks of 1 GPUs hold 2")
	job("an unknown GPU", gang(`"progress":{"gpus":["a/0","c/0"]},`+onA), "/progress/gpus/1", "unknown_gpu", "e.g.")
	job("a GPU twice", gang(`"progress":{"gpus":["a/0","a/0"]},`+onA), "/progress/gpus/1", "duplicate_id", "runs on GPU")
	job("a busy GPU", gang(`"progress":{"gpus":["b/0","b/1"]},`+onA), "/progress/gpus/1", "not_allowed", "leave out busy")
	job("a type without times", x(`"sync":"gang","progress":{"gpus":["a/3"]},`+onA), "/progress/gpus", "not_allowed",
		`add it to "on"`)
	job("no whole tasks", x(`"sync":"gang","gpus_per_task":2,"progress":{"gpus":["a/0","b/0"]},`+onA), "/progress/gpus",
		"not_allowed", "not whole tasks of 2 GPUs")
	job("running apart", gang(`"within":"rack","progress":{"gpus":["a/0","b/0"]},`+onA), "/progress/gpus", "not_allowed",
		"one domain of level")
	job("running on a node that is excluded", gang(`"exclude":{"node":"a"},"progress":{"gpus":["a/0","a/1"]},`+onA),
		"/progress/gpus", "not_allowed", "only and exclude")
	job("running work that has ended", gang(`"progress":{"gpus":["a/0","a/1"],"elapsed_s":2},`+onA),
		"/progress/elapsed_s",
		"out_of_range", "count it in rounds_done")
	job("running beyond the service", `{"id":"x","sync":"rigid","rounds":5,"progress":{"gpus":["b/0"]},`+onA+`}`,
		"/progress/gpus", "not_allowed", "in service until the work ends at 10")
	job("running work without CPUs", gang(`"cpus_per_task":5,"progress":{"gpus":["a/0","a/1"]},`+onA), "/progress/gpus",
		"too_many_cpus", "holds 10 CPUs")
	job("running work without memory", gang(`"memory_mib_per_task":40,"progress":{"gpus":["a/0","a/1"]},`+onA),
		"/progress/gpus", "too_much_memory", "holds 80 MiB")

	job("an unknown predecessor", x(`"after":["y"],`+onA), "/after/0", "unknown_job", "give the id")
	job("a job after itself", x(`"after":["x"],`+onA), "/after/0", "cycle", "leave it out")
	add("a cycle", onNodes(x(`"after":["y"],`+onA)+`,{"id":"y","after":["x"],`+onA+`}`, "", ""), "/jobs/0/after", "cycle",
		`"x" waits for "y" waits for "x": remove one of these waits`)
	job("a negative lag", x(`"after":[{"job":"x","lag_s":-1}],`+onA), "/after/0/lag_s", "out_of_range",
		"must not be negative")
	job("a deadline at 0", x(`"deadline_s":0,`+onA), "/deadline_s", "out_of_range", "at least 0.000001")
	job("late_weight without deadline", x(`"late_weight":1,`+onA), "/late_weight", "not_allowed", "deadline_s")
	job("lags of more than 2^53", x(`"weight":0,"after":[{"job":"y","lag_s":9007199254.74}],`+onA)+`,{"id":"y",`+onA+`}`,
		"", "too_large", "shorten")

	job("a negative setup", x(`"on":{"A":{"compute_s":1,"switch_s":-1}}`), "/on/A/switch_s", "out_of_range",
		"must not be negative")
	job("setups of more than 2^53", x(`"rounds":2,"on":{"A":{"compute_s":1,"switch_s":9007199254}}`), "", "too_large",
		"shorten")
	job("shapes and tasks", x(`"tasks":1,`+twoOfA), "/shapes", "not_allowed", "leave")
	job("no shape", x(`"shapes":[]`), "/shapes", "missing_field", "give at least one")
	job("counts of 0", x(`"shapes":[{"counts":0,`+onA+`}]`), "/shapes/0/counts", "out_of_range", "must be at least 1")
	job("a change of shape of a rigid job", x(`"sync":"rigid","reshape_s":1,`+twoOfA), "/reshape_s", "not_allowed",
		"leave it out")
	job("a change of the only shape", x(`"sync":"gang","reshape_s":1,`+onA), "/reshape_s", "not_allowed",
		"give several shapes")
	job("running in an unknown shape", x(`"sync":"gang","progress":{"gpus":["a/0"],"shape":2},`+twoOfA),
		"/progress/shape",
		"out_of_range", "a position in the shapes")
	job("probabilities that do not add up", x(`"durations":[{"p":0.5,"factor":1}],`+onA), "/durations", "out_of_range",
		"must add up to 1")
	job("a factor twice", x(`"durations":[{"p":0.5,"factor":1},{"p":0.5,"factor":1}],`+onA), "/durations/1/factor",
		"duplicate_id", "give it once")
	return out
}

// Infeasible has an instance for each reason of a field that lets no schedule be.
func Infeasible() []Refusal {
	return []Refusal{
		{"a task wider than any node", onNodes(`{"id":"x","gpus_per_task":4,`+onA+`}`, "", ""), "/jobs/0/gpus_per_task",
			"task_too_wide", "split the task into several"},
		{"a gang wider than any rack", onNodes(`{"id":"x","sync":"gang","tasks":4,"within":"rack",`+onA+`}`, "", ""),
			"/jobs/0/tasks", "too_wide", `name a coarser level in "within"`},
		{"a gang wider than its nodes", onNodes(`{"id":"x","sync":"gang","tasks":3,"distinct_nodes":true,`+onA+`}`, "", ""),
			"/jobs/0/tasks", "too_wide", `lower "tasks"`},
		{"a quota below the width", onNodes(gang(`"user":"ann",`+onA), "", `,"quota":[{"user":"ann","gpus":1}]`), "/jobs/0",
			"quota_too_small", `raise "gpus" of the quota`},
		{"no shape that fits", onNodes(`{"id":"x","sync":"gang","shapes":[{"tasks":6,`+onA+`},{"gpus_per_task":4,`+onA+`}]}`,
			"", ""), "/jobs/0/shapes/0/tasks", "too_wide", `lower "tasks"`},
		{"no node allowed", onNodes(`{"id":"x","only":{"disk":"nvme"},`+onA+`}`, "", ""), "/jobs/0/only", "not_allowed",
			"correct the labels"},
		{"too many CPUs", onNodes(`{"id":"x","cpus_per_task":9,"only":{"node":"a"},`+onA+`}`, "", ""),
			"/jobs/0/cpus_per_task", "too_many_cpus", `lower "cpus_per_task"`},
		{"too much memory", onNodes(`{"id":"x","memory_mib_per_task":65,"only":{"node":"a"},`+onA+`}`, "", ""),
			"/jobs/0/memory_mib_per_task", "too_much_memory", `lower "memory_mib_per_task"`},
		{"reserved for others", onNodes(`{"id":"x","only":{"node":"b"},`+onA+`}`,
			`,"reservations":[{"until_s":9,"users":["ops"]}]`, ""), "/jobs/0", "reserved", "name the job or its user"},
	}
}
