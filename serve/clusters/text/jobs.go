// Package text prints managed clusters, their jobs and their agents for people.
package text

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Jobs is the table of hare jobs; left counts the jobs that it leaves out.
func Jobs(cluster *clusterdoc.Cluster, jobs []*clusterdoc.Job, left int, now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "cluster %s: %s\n", cluster.Name, inService(cluster))
	if len(jobs) > 0 {
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		columns := columnsOf(jobs, now)
		for i := range len(jobs) + 1 {
			for k, c := range columns {
				text := c.name
				if i > 0 {
					text = c.text(jobs[i-1])
				}
				if k > 0 {
					text = "\t" + text
				}
				_, _ = fmt.Fprint(w, text)
			}
			_, _ = fmt.Fprintln(w)
		}
		_ = w.Flush() // a strings.Builder takes everything
	} else if left == 0 && len(cluster.Jobs) > 0 {
		out.WriteString("no job matches\n")
	}
	if left > 0 {
		fmt.Fprintf(&out, "%s not shown: hare jobs --state, --once or --json\n", words.Count(left, "job"))
	}
	return out.String()
}

type column struct {
	name string
	text func(j *clusterdoc.Job) string
}

// columnsOf are the columns of a table of jobs. Those that only some clusters have are left out where they are empty.
func columnsOf(jobs []*clusterdoc.Job, now time.Time) []column {
	all := []column{
		{"ID", func(j *clusterdoc.Job) string { return j.ID }},
		{"NAME", func(j *clusterdoc.Job) string { return words.Plain(j.Name) }},
		{"USER", func(j *clusterdoc.Job) string { return words.Plain(j.User) }},
		{"STATE", func(j *clusterdoc.Job) string { return string(j.State) }},
		{"GPUS", func(j *clusterdoc.Job) string { return strconv.Itoa(gpusOf(j)) }},
		{"TIME", func(j *clusterdoc.Job) string { return jobTime(j, now) }},
		{"PLACE", placeOf},
		{"STARTS", func(j *clusterdoc.Job) string { return inAbout(j.ExpectedInS) }},
		{"ENDS NOT BEFORE", func(j *clusterdoc.Job) string { return notBefore(j.EarliestEndInS, now) }},
		{"WHERE AND WHY", whereAndWhy},
	}
	return slices.DeleteFunc(all, func(c column) bool {
		return slices.Contains([]string{"USER", "PLACE", "STARTS", "ENDS NOT BEFORE"}, c.name) &&
			!slices.ContainsFunc(jobs, func(j *clusterdoc.Job) bool { return c.text(j) != "" })
	})
}

func placeOf(j *clusterdoc.Job) string {
	if j.Place == 0 {
		return ""
	}
	return strconv.Itoa(j.Place)
}

// inAbout is a time from now that is expected.
func inAbout(s *float64) string {
	switch {
	case s == nil:
		return ""
	case *s < 1:
		return "now"
	}
	return "in about " + wholeUnits(*s)
}

// wholeUnits is a time in seconds, minutes, hours or days, rounded up.
func wholeUnits(s float64) string {
	switch {
	case s <= 120:
		return fmt.Sprintf("%.0f s", math.Ceil(s))
	case s <= 7200:
		return fmt.Sprintf("%.0f min", math.Ceil(s/60))
	case s <= 48*3600:
		return fmt.Sprintf("%.0f h", math.Ceil(s/3600))
	}
	return fmt.Sprintf("%.0f days", math.Ceil(min(s, 1e9)/86400))
}

// notBefore is the date of a time from now that is proved.
func notBefore(s *float64, now time.Time) string {
	if s == nil {
		return ""
	}
	return now.Add(time.Duration(min(*s, 1e9) * float64(time.Second))).UTC().Format("2006-01-02 15:04 MST")
}

// gpusOf is how many GPUs a job wants, or, of a relaxed round job, has now.
func gpusOf(j *clusterdoc.Job) int {
	if ledger.Shares(&j.NewJob) {
		return j.TasksOut
	}
	return max(1, j.GPUs)
}

// jobTime is how long a job has waited, runs or ran.
func jobTime(j *clusterdoc.Job, now time.Time) string {
	from, to := j.Submitted, now
	if j.Started != nil {
		from = *j.Started
	}
	if j.Ended != nil {
		to = *j.Ended
	}
	return briefTime(to.Sub(from))
}

// briefTime prints a duration as people say it: 12s, 3m05s, 2h07m, 3d04h.
func briefTime(d time.Duration) string {
	s := int64(max(0, d).Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// whereAndWhy says where a job runs and, in one line, what it waits for or why it failed.
func whereAndWhy(j *clusterdoc.Job) string {
	var parts []string
	if n := len(j.Attempts); n > 0 && (j.State != clusterdoc.JobWaiting) {
		parts = append(parts, places(j.Attempts[n-1]))
	}
	if j.Reason != "" && j.Reason != string(j.State) {
		parts = append(parts, words.Plain(j.Reason))
	}
	if j.Loss == "NaN" {
		parts = append(parts, fmt.Sprintf("round %d has the loss NaN", j.Round))
	}
	if tries := j.Failures + j.Lost; tries > 0 && !j.State.Final() {
		parts = append(parts, fmt.Sprintf("attempt %d", tries+1))
	}
	return strings.Join(parts, "; ")
}

// places lists nodes with the indices of their GPUs: a/0,1 b/2. The parameter server of a relaxed round job has none.
func places(at *clusterdoc.Attempt) string {
	var order []string
	gpus := map[string][]string{}
	for _, t := range at.Tasks {
		if !slices.Contains(order, t.Agent) {
			order = append(order, t.Agent)
		}
		for _, g := range t.GPUs {
			gpus[t.Agent] = append(gpus[t.Agent], words.Plain(g[strings.LastIndexByte(g, '/')+1:]))
		}
	}
	for i, name := range order {
		if order[i] = words.Plain(name); len(gpus[name]) > 0 {
			order[i] += "/" + strings.Join(gpus[name], ",")
		}
	}
	return strings.Join(order, " ")
}

// Job describes a job and its attempts.
func Job(j *clusterdoc.Job, now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "job %s (%s): %s\n", j.ID, words.Plain(j.Name), Outcome(j))
	row := func(name, format string, a ...any) {
		fmt.Fprintf(&out, "  %-13s %s\n", name, fmt.Sprintf(format, a...))
	}
	if j.Module != "" {
		row("module", "%s in %s", words.Plain(j.Module), words.Plain(j.Directory))
		row("rounds", "%s", roundsText(j))
		if text := copyText(j); text != "" {
			row("copy", "%s", text)
		}
	} else {
		row("command", "%s", commandText(j.Command))
	}
	row("wants", "%s", wants(j))
	if j.User != "" {
		row("user", "%s", words.Plain(j.User))
	}
	for _, key := range slices.Sorted(maps.Keys(j.Labels)) {
		row("label", "%s=%s", words.Plain(key), words.Plain(j.Labels[key]))
	}
	if len(j.TasksOn) > 0 {
		row("tasks", "%s", tasksOn(j))
	}
	row("submitted", "%s, %s ago", j.Submitted.Format(time.DateTime+" MST"), briefTime(now.Sub(j.Submitted)))
	if j.Started != nil {
		row("started", "%s, after %s", j.Started.Format(time.DateTime+" MST"), briefTime(j.Started.Sub(j.Submitted)))
	}
	if j.Ended != nil {
		row("ended", "%s", j.Ended.Format(time.DateTime+" MST"))
	}
	if j.Place > 0 {
		row("place", "%d of the jobs that wait", j.Place)
	}
	if j.ExpectedInS != nil {
		row("plan", "starts %s", inAbout(j.ExpectedInS))
	}
	if j.ExpectedEndInS != nil {
		row("plan", "ends %s", inAbout(j.ExpectedEndInS))
	}
	if j.EarliestEndInS != nil {
		row("", "and, if its times are right, not before %s", notBefore(j.EarliestEndInS, now))
	}
	for _, x := range j.Changes {
		row("changed", "%s%s", x.At.Format(time.DateTime+" MST"), changeText(x))
	}
	for _, at := range j.Attempts {
		row(fmt.Sprintf("attempt %d", at.Attempt), "%s", attemptText(at, now))
		for _, t := range at.Tasks {
			switch {
			case t.Round != nil && t.RoundTask != nil:
				row("  GPU", "%s: task %d of round %d, %s", words.Plain(strings.Join(t.GPUs, ",")), *t.RoundTask,
					*t.Round, t.State)
			case len(t.GPUs) == 0:
				row("  parameters", "on %s %s%s", words.Plain(t.Agent), t.State, taskEnd(t))
			default:
				row(fmt.Sprintf("  task %d", t.Task), "%s %s%s", words.Plain(strings.Join(t.GPUs, ",")), t.State, taskEnd(t))
			}
		}
	}
	return out.String()
}

// changeText says what was changed, by whom and why.
func changeText(x *clusterdoc.JobChanged) string {
	var parts []string
	if x.Hold != nil {
		parts = append(parts, map[bool]string{true: "held", false: "released"}[*x.Hold])
	}
	if x.Weight != nil {
		parts = append(parts, fmt.Sprintf("weight %v", *x.Weight))
	}
	for _, key := range slices.Sorted(maps.Keys(x.Labels)) {
		if value := x.Labels[key]; value != nil {
			parts = append(parts, "label "+words.Plain(key)+"="+words.Plain(*value))
		} else {
			parts = append(parts, "without label "+words.Plain(key))
		}
	}
	text := ": " + strings.Join(parts, ", ")
	if x.By != "" {
		text += ", by " + words.Plain(x.By)
	}
	if x.Reason != "" {
		text += ": " + words.Plain(x.Reason)
	}
	return text
}

// roundsText says how far a round job is.
func roundsText(j *clusterdoc.Job) string {
	text := fmt.Sprintf("%d of %d saved", j.Round, j.Rounds)
	if j.Loss != "" {
		text += ", the last one with loss " + words.Plain(j.Loss)
	}
	tasks, sync := ledger.RoundTasks(&j.NewJob), ledger.SyncRigid // of jobs from before there were others
	if j.Sync != "" {
		sync = j.Sync
	}
	return text + fmt.Sprintf("; %s a round, %s", words.Count(tasks, "task"), sync)
}

// copyText says what the server has of the checkpoint of a round job.
func copyText(j *clusterdoc.Job) string {
	var parts []string
	if j.CopyRound > 0 {
		parts = append(parts, fmt.Sprintf("the cluster has the checkpoint after round %d", j.CopyRound))
	}
	if j.CopyProblem != "" {
		parts = append(parts, "no newer one: "+words.Plain(j.CopyProblem))
	}
	return strings.Join(parts, "; ")
}

// tasksOn says how many tasks of a relaxed round job have ended on each GPU type.
func tasksOn(j *clusterdoc.Job) string {
	var parts []string
	for _, t := range slices.Sorted(maps.Keys(j.TasksOn)) {
		parts = append(parts, fmt.Sprintf("%d on %s", j.TasksOn[t], words.Plain(t)))
	}
	return strings.Join(parts, ", ") + " have ended"
}

// commandText is an argument vector as one would type it for a shell.
func commandText(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = arg
		switch {
		case words.Plain(arg) != arg:
			quoted[i] = strconv.Quote(arg)
		case arg == "" || strings.ContainsAny(arg, " \"'`$&|;<>()*?[]#~\\{}!"):
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// wants says what a job asks for.
func wants(j *clusterdoc.Job) string {
	relaxed := ledger.Shares(&j.NewJob)
	text := words.Count(max(1, j.GPUs), "GPU")
	if relaxed {
		text = "GPUs round by round"
	}
	if j.GPUsPerTask > 1 {
		text += fmt.Sprintf(", %d a process", j.GPUsPerTask)
	}
	if j.Nodes > 0 {
		text += ", on " + words.Count(j.Nodes, "node")
	}
	var types []string
	each := ""
	switch {
	case relaxed:
		each = " a task"
	case j.Module != "":
		each = " a round"
	}
	for t, s := range j.On {
		if s > 0 {
			t += fmt.Sprintf(" (%s%s)", words.Seconds(s), each)
		}
		types = append(types, words.Plain(t))
	}
	slices.Sort(types)
	if len(types) > 0 {
		text += ", on " + strings.Join(types, " or ")
	}
	if j.Retries > 0 {
		text += fmt.Sprintf("; retries: %d of %d used", min(j.Failures, j.Retries), j.Retries)
	}
	return text
}

func attemptText(at *clusterdoc.Attempt, now time.Time) string {
	text, end := "goes on", now
	if at.Ended != nil {
		text, end = at.Result, *at.Ended
	}
	text += ", " + briefTime(end.Sub(at.Ordered)) + ", on " + places(at)
	if at.Error != "" {
		text += ": " + words.Plain(at.Error)
	}
	return text
}

// taskEnd says how a process ended.
func taskEnd(t *clusterdoc.TaskInfo) string {
	switch {
	case t.Error != "":
		return ": " + words.Plain(t.Error)
	case t.Signal != "":
		return ": " + words.Plain(t.Signal)
	case t.ExitCode != nil:
		return fmt.Sprintf(": exit code %d", *t.ExitCode)
	}
	return ""
}

// Outcome says in a few words how a job stands or ended.
func Outcome(job *clusterdoc.Job) string {
	if job.Reason == "" || job.Reason == string(job.State) {
		return string(job.State)
	}
	return string(job.State) + ": " + words.Plain(job.Reason)
}
