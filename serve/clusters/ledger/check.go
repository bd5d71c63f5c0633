package ledger

import (
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Limits of what a job and an agent may say.
const (
	maxArguments = 1000
	maxTextBytes = 128 << 10 // of all arguments, and of all variables
	maxDevices   = 256
	maxRetries   = 1000
	maxGraceS    = 3600
	maxSeconds   = 1e9
	maxRounds    = 1 << 40
	maxTasks     = 1 << 16 // of a round
	maxUser      = 100     // characters, as those that follow

	maxTypeBytes   = 100
	maxUUIDBytes   = 128
	maxNodeTypes   = 32  // GPU types of a node
	maxTypes       = 256 // of a cluster: the session learns each new one for every job that waits
	maxLabels      = 64
	maxLabelBytes  = 256 // of a name, and of a value
	maxVersion     = 100
	maxReasonBytes = 500
	maxCPUs        = 1 << 16
	maxMemoryGiB   = 1 << 20
)

var (
	nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

	moduleName = envName
)

// reservedVariables are those of torchrun and of CUDA, which the agent sets.
var reservedVariables = []string{"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
	"CUDA_VISIBLE_DEVICES"}

// CheckJob says what is wrong with a job by itself: hare.InvalidErrors with pointers, or nil.
func CheckJob(n *clusterdoc.NewJob) error {
	var es hare.InvalidErrors
	resolved := WithSync(*n)
	j := &resolved
	checkWork(&es, j)
	checkGPUs(&es, j)
	checkEnv(&es, j)
	if len(j.Name) > 200 || hare.Misleads(j.Name) {
		es.Add("/name", "bad_name", "must be at most 200 bytes, without characters that control a terminal or the "+
			"direction of text")
	}
	if utf8.RuneCountInString(j.User) > maxUser || hare.Misleads(j.User) {
		es.Add("/user", "bad_name", "must be at most %d characters, without those that control a terminal or the "+
			"direction of text", maxUser)
	}
	es.Tags("/labels", j.Labels)
	for _, d := range []struct{ field, path string }{{"/directory", j.Directory},
		{"/checkpoint_directory", j.CheckpointDirectory}} {
		if d.path != "" && (!strings.HasPrefix(d.path, "/") || hare.Misleads(d.path)) {
			es.Add(d.field, "bad_path", "must be an absolute path on the nodes, such as /data/run1")
		}
	}
	if j.Retries < 0 || j.Retries > maxRetries {
		es.Add("/retries", "out_of_range", "must be between 0 and %d", maxRetries)
	}
	number := func(field string, x *float64, least, most float64) {
		if x != nil && (math.IsNaN(*x) || *x < least || *x > most) {
			es.Add(field, "out_of_range", "must be between %v and %v", least, most)
		}
	}
	number("/grace_s", j.GraceS, 0, maxGraceS)
	number("/weight", j.Weight, 0, maxSeconds)
	number("/estimate_s", j.EstimateS, 1e-6, maxSeconds)
	for _, t := range slices.Sorted(maps.Keys(j.On)) {
		seconds := j.On[t]
		number("/on/"+hare.EscapePointer(t), &seconds, 0, maxSeconds)
		if !typeName(t) {
			es.Add("/on", "bad_name", typeRemedy)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Class)) {
		if hare.Misleads(name) || hare.Misleads(j.Class[name]) {
			es.Add("/class/"+hare.EscapePointer(name), "bad_value", "has a character that controls a terminal or the "+
				"direction of text")
		}
	}
	if len(es) == 0 {
		es.CheckHints("", arrival("j", j, nil).Hints)
	}
	if len(es) > 0 {
		return es
	}
	return nil
}

// checkWork checks what the job does.
func checkWork(es *hare.InvalidErrors, j *clusterdoc.NewJob) {
	switch {
	case j.Module != "":
		checkRounds(es, j)
		return
	case len(j.Command) == 0 || j.Command[0] == "":
		es.Add("/command", "missing_field", `needs the program and its arguments, such as ["python", "train.py"]`)
	case len(j.Command) > maxArguments:
		es.Add("/command", "too_many", "has %d arguments: at most %d are allowed", len(j.Command), maxArguments)
	}
	bytes := 0
	for i, arg := range j.Command {
		bytes += len(arg)
		if strings.ContainsRune(arg, 0) {
			es.Add(fmt.Sprintf("/command/%d", i), "bad_value", "has a zero byte")
		}
	}
	if bytes > maxTextBytes {
		es.Add("/command", "too_large", "has %d bytes: at most %d are allowed", bytes, maxTextBytes)
	}
	if j.Rounds != 0 || j.Tasks != 0 || j.Seed != 0 || j.Sync != "" || len(j.Config) > 0 {
		es.Add("/rounds", "not_allowed", "rounds, tasks, seed, sync and config belong to round jobs: leave them out of a "+
			"command")
	}
}

// checkRounds checks what a round job does.
func checkRounds(es *hare.InvalidErrors, j *clusterdoc.NewJob) {
	if len(j.Command) > 0 {
		es.Add("/command", "not_allowed", "a job has a command or a module, and not both")
	}
	if !moduleName.MatchString(j.Module) || len(j.Module) > 256 {
		es.Add("/module", "bad_name", "must be the name of a Python module in directory, without .py, such as line")
	}
	if j.Directory == "" {
		es.Add("/directory", "missing_field", "needs the directory on the nodes that has the module, such as /data/jobs")
	}
	if len(j.Config) > 0 {
		es.Add("/config", "not_supported", "build() has no argument in this version: give env, or write the settings into "+
			"the module")
	}
	gpus, nodes := max(1, j.GPUs), max(1, j.Nodes)
	switch {
	case j.Rounds < 1 || j.Rounds > maxRounds:
		es.Add("/rounds", "out_of_range", "must be between 1 and %d", int64(maxRounds))
	case j.Sync != SyncRelaxed && j.Sync != SyncRigid && j.Sync != SyncGang:
		es.Add("/sync", "bad_value", "must be relaxed, rigid or gang")
	case j.Sync == SyncRelaxed && j.GPUs != 0:
		es.Add("/gpus", "not_allowed", relaxedRemedy, "gpus")
	case j.Sync == SyncRelaxed && j.Nodes != 0:
		es.Add("/nodes", "not_allowed", relaxedRemedy, "nodes")
	case j.Sync == SyncRelaxed && j.GPUsPerTask != 0:
		es.Add("/gpus_per_task", "not_allowed", relaxedRemedy, "gpus_per_task")
	case j.Tasks < 0 || j.Tasks > maxTasks:
		es.Add("/tasks", "out_of_range", "must be between 1 and %d", maxTasks)
	case j.Sync == SyncGang && RoundTasks(j) != gpus:
		es.Add("/tasks", "bad_value", "a gang has one task for each of its %d GPUs: leave tasks out, or take sync rigid",
			gpus)
	case RoundTasks(j) < gpus:
		es.Add("/tasks", "bad_value", "%d tasks leave some of %d GPUs without work: ask for fewer gpus", j.Tasks, gpus)
	case j.Seed < -(1<<53) || j.Seed > 1<<53:
		es.Add("/seed", "out_of_range", "must be between -2^53 and 2^53")
	case gpus > maxDevices*nodes:
		es.Add("/gpus", "out_of_range", "a node has at most %d GPUs: spread those of the job over nodes", maxDevices)
	case j.GPUsPerTask > 0:
		es.Add("/gpus_per_task", "not_allowed", "a round job has one program a node, with all of its GPUs there: leave "+
			"gpus_per_task out")
	}
	for _, t := range slices.Sorted(maps.Keys(j.On)) {
		if all := seconds(j, t); all > maxSeconds {
			es.Add("/on/"+hare.EscapePointer(t), "out_of_range", "%v s for all rounds are more than %v", all, maxSeconds)
		}
	}
}

const relaxedRemedy = "a relaxed job shares the GPUs of the cluster round by round: leave %s out, or take sync " +
	"rigid for GPUs of its own"

// checkGPUs checks how many GPUs the job wants, and where.
func checkGPUs(es *hare.InvalidErrors, j *clusterdoc.NewJob) {
	gpus, perTask := max(1, j.GPUs), j.GPUsPerTask
	switch {
	case j.GPUs < 0 || j.GPUs > hare.MaxGPUs:
		es.Add("/gpus", "out_of_range", "must be between 1 and %d", hare.MaxGPUs)
	case j.Nodes < 0 || j.Nodes > gpus:
		es.Add("/nodes", "out_of_range", "must be between 1 and gpus (%d)", gpus)
	case j.Nodes > 0 && gpus%j.Nodes != 0:
		es.Add("/nodes", "bad_value", "%d GPUs cannot be spread equally over %d nodes", gpus, j.Nodes)
	case perTask < 0 || perTask > gpus:
		es.Add("/gpus_per_task", "out_of_range", "must be between 1 and gpus (%d)", gpus)
	case perTask > 0 && gpus%perTask != 0:
		es.Add("/gpus_per_task", "bad_value", "%d GPUs are not a multiple of %d", gpus, perTask)
	case perTask > 0 && j.Nodes > 0 && gpus/perTask != j.Nodes:
		es.Add("/gpus_per_task", "bad_value", "%d GPUs on %d nodes are %d a task: one process a node", gpus, j.Nodes,
			gpus/j.Nodes)
	}
}

// checkEnv checks the variables of a job.
func checkEnv(es *hare.InvalidErrors, j *clusterdoc.NewJob) {
	bytes := 0
	for _, of := range []struct {
		field string
		env   map[string]string
	}{{"/env", j.Env}, {"/secret_env", j.SecretEnv}} {
		for _, name := range slices.Sorted(maps.Keys(of.env)) {
			bytes += len(name) + len(of.env[name])
			at := of.field + "/" + hare.EscapePointer(name)
			_, twice := j.Env[name]
			switch {
			case !envName.MatchString(name):
				es.Add(at, "bad_name", "must be a name of letters, digits and _ that begins with no digit")
			case strings.HasPrefix(name, "HARE_") || slices.Contains(reservedVariables, name):
				es.Add(at, "not_allowed", "is set by the agent: use another name")
			case strings.ContainsRune(of.env[name], 0):
				es.Add(at, "bad_value", "has a zero byte")
			case twice && of.field != "/env":
				es.Add(at, "not_allowed", "is in env, too: leave it out there")
			}
		}
		if bytes > maxTextBytes {
			es.Add(of.field, "too_large", "variables have %d bytes: at most %d are allowed", bytes, maxTextBytes)
			return
		}
	}
}

const typeRemedy = "a GPU type has 1 to 100 bytes without characters that control a terminal or the direction of " +
	"text, such as V100"

// typeName reports whether a text may be the name of a GPU type.
func typeName(t string) bool { return t != "" && len(t) <= maxTypeBytes && !hare.Misleads(t) }

// CheckReason says what is wrong with the reason of a drain.
func CheckReason(reason string) error {
	if len(reason) > maxReasonBytes || hare.Misleads(reason) {
		return &hare.InvalidError{Pointer: "/reason", Code: "bad_value", Detail: fmt.Sprintf("must be one line of at most "+
			"%d bytes, without characters that control a terminal or the direction of text", maxReasonBytes)}
	}
	return nil
}

// CheckRegistration says what is wrong with a registration by itself.
func CheckRegistration(r *clusterdoc.Registration) error {
	var es hare.InvalidErrors
	if r.Protocol != clusterdoc.ProtocolVersion {
		es.Add("/protocol", "other_version", "the agent (hare %s) speaks protocol %d and this server %d: install the same "+
			"version of hare on both", hare.Clip(r.Version), r.Protocol, clusterdoc.ProtocolVersion)
		return es
	}
	if !nodeName.MatchString(r.Name) {
		es.Add("/name", "bad_name", `must be 1 to 63 letters, digits, ".", "_" and "-", with a letter or digit first`)
	}
	if len(r.Incarnation) < 16 || len(r.Incarnation) > 100 {
		es.Add("/incarnation", "bad_value", "must be a secret of 16 to 100 bytes")
	}
	if r.Address != "" && net.ParseIP(r.Address) == nil && !nodeName.MatchString(r.Address) {
		es.Add("/address", "bad_value", "must be an IP address or a host name")
	}
	if len(r.Devices) == 0 || len(r.Devices) > maxDevices {
		es.Add("/devices", "out_of_range", "has %d devices: an agent has 1 to %d", len(r.Devices), maxDevices)
	}
	checkNode(&es, r)
	uuids, types := map[string]bool{}, map[string]bool{}
	for i, d := range r.Devices[:min(len(r.Devices), maxDevices)] {
		at := fmt.Sprintf("/devices/%d", i)
		if !typeName(d.Type) {
			es.Add(at+"/type", "bad_name", typeRemedy)
		}
		if types[d.Type] = true; len(types) == maxNodeTypes+1 {
			es.Add(at+"/type", "too_many", "is one type too many: the GPUs of a node are of at most %d types", maxNodeTypes)
		}
		if len(d.UUID) > maxUUIDBytes || hare.Misleads(d.UUID) {
			es.Add(at+"/uuid", "bad_value", "must be at most %d bytes without control characters", maxUUIDBytes)
		}
		if d.UUID != "" && uuids[d.UUID] {
			es.Add(at+"/uuid", "duplicate_id", "GPU %s appears twice", hare.Clip(d.UUID))
		}
		uuids[d.UUID] = true
		r.Devices[i].Fault = line(d.Fault)
	}
	checkReports(&es, "/holds", r.Holds)
	if len(es) > 0 {
		return es
	}
	return nil
}

// checkNode checks what an agent says of its node apart from its devices.
func checkNode(es *hare.InvalidErrors, r *clusterdoc.Registration) {
	if len(r.Version) > maxVersion || hare.Misleads(r.Version) {
		es.Add("/version", "bad_value", "must be at most %d bytes without control characters", maxVersion)
	}
	if !(r.CPUs >= 0 && r.CPUs <= maxCPUs) {
		es.Add("/cpus", "out_of_range", "must be between 0, which is unknown, and %d", maxCPUs)
	}
	if !(r.MemoryGiB >= 0 && r.MemoryGiB <= maxMemoryGiB) {
		es.Add("/memory_gib", "out_of_range", "must be between 0, which is unknown, and %d", maxMemoryGiB)
	}
	if len(r.Labels) > maxLabels {
		es.Add("/labels", "too_many", "has %d labels: at most %d are allowed", len(r.Labels), maxLabels)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		if value := r.Labels[name]; name == "" || len(name) > maxLabelBytes || len(value) > maxLabelBytes ||
			hare.Misleads(name) || hare.Misleads(value) {
			es.Add("/labels/"+hare.EscapePointer(hare.Clip(name)), "bad_value", "a label has a name and a value of at most "+
				"%d bytes each, without characters that control a terminal or the direction of text", maxLabelBytes)
		}
	}
}

// Limits of what an agent may report.
const (
	maxReports   = 10_000
	maxLineBytes = 500
	maxJobID     = 20
)

// maxKept is how many jobs an agent may ask about at once.
const maxKept = 1000

// CheckSync says what is wrong with a sync of an agent with a number of devices: hare.InvalidErrors, or nil. Texts
// for people and durations are brought within their limits instead, because an agent could only repeat them.
func CheckSync(s *clusterdoc.Sync, devices int) error {
	var es hare.InvalidErrors
	for _, n := range []struct {
		field string
		value int64
	}{{"/reports_after", s.ReportsAfter}, {"/orders_seen", s.OrdersSeen}} {
		if n.value < 0 || n.value > 1<<53 {
			es.Add(n.field, "out_of_range", "must be between 0 and 2^53")
		}
	}
	checkReports(&es, "/reports", s.Reports)
	if n := len(s.Checkpoints); n > maxKept {
		es.Add("/checkpoints", "too_many", "has %d jobs: at most %d are allowed", n, maxKept)
	}
	for _, i := range slices.Sorted(maps.Keys(s.Faults)) {
		if i < 0 || i >= devices {
			es.Add(fmt.Sprintf("/faults/%d", i), "out_of_range", "the agent registered %d devices, numbered from 0", devices)
		}
		if s.Faults[i] = line(s.Faults[i]); s.Faults[i] == "" {
			s.Faults[i] = "the agent gives no reason"
		}
	}
	if len(es) > 0 {
		return es
	}
	return nil
}

func checkReports(es *hare.InvalidErrors, at string, reports []clusterdoc.TaskReport) {
	if len(reports) > maxReports {
		es.Add(at, "too_many", "has %d reports: at most %d are allowed", len(reports), maxReports)
		return
	}
	for i := range reports {
		r := &reports[i]
		switch r.State {
		case clusterdoc.TaskRunning, clusterdoc.TaskEnded, clusterdoc.TaskLost:
		default:
			es.Add(fmt.Sprintf("%s/%d/state", at, i), "bad_value", "must be running, ended or lost")
		}
		if len(r.Job) > maxJobID || number(r.Job) == 0 {
			es.Add(fmt.Sprintf("%s/%d/job", at, i), "bad_value", "must be the id of a job, such as j17")
		}
		if r.Round = max(0, r.Round); len(r.Apart) > maxDevices {
			r.Apart = r.Apart[:maxDevices]
		}
		r.Error, r.Signal, r.Loss = line(r.Error), line(r.Signal), line(r.Loss)
		for _, s := range []*float64{&r.RanS, &r.SyncS} {
			if *s = min(max(*s, 0), maxSeconds); math.IsNaN(*s) {
				*s = 0
			}
		}
		if r.Port < 0 || r.Port > 65535 {
			es.Add(fmt.Sprintf("%s/%d/port", at, i), "out_of_range", "must be between 0 and 65535")
		}
	}
}

// line makes a text one line of printable characters that is not too long.
func line(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD")))
	return hare.Cut(text, maxLineBytes)
}
