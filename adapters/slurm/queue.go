package slurm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/history"
)

// queueColumns are the columns of squeue -O that tell what is read of squeue --json, with the members
// of that document. The number of the job comes first and last, so that a record with a column too
// many or too few is seen.
var queueColumns = []struct{ column, member string }{
	{"JobID", "job_id"}, {"ArrayJobID", "array_job_id"}, {"ArrayTaskID", "array_task_id"},
	{"HetJobID", "het_job_id"}, {"HetJobOffset", "het_job_offset"}, {"Name", "name"}, {"UserName", "user_name"},
	{"Account", "account"}, {"Partition", "partition"}, {"QOS", "qos"}, {"Comment", "comment"},
	{"admin_comment", "admin_comment"}, {"Feature", "features"}, {"prefer", "prefer"}, {"Nice", "nice"},
	{"State", "job_state"}, {"Reason", "state_reason"}, {"SubmitTime", "submit_time"},
	{"EligibleTime", "eligible_time"}, {"StartTime", "start_time"}, {"EndTime", "end_time"},
	{"TimeLimit", "time_limit"}, {"NumNodes", "node_count"}, {"NumTasks", "tasks"}, {"NodeList", "nodes"},
	{"tres-per-node", "tres_per_node"}, {"tres-per-job", "tres_per_job"}, {"tres-per-task", "tres_per_task"},
	{"tres-per-socket", "tres_per_socket"},
	{"tres-alloc", "tres_alloc_str"}, {"OverSubscribe", "shared"}, {"Reservation", "resv_name"},
	{"Dependency", "dependency"}, {"ReqNodes", "required_nodes"}, {"JobID", ""},
}

// readQueue returns the queue as a document of the form of squeue --json. It asks for columns, which
// take squeue a tenth of the time of its JSON, and for the JSON only where the columns could not tell
// which GPUs a running job has, or where this squeue does not know a column.
func readQueue(ctx context.Context, commands Commands, nodes []byte) ([]byte, error) {
	if oneTypeEach(nodes) {
		mark := "~" + rand.Text()
		var format strings.Builder
		for i, c := range queueColumns {
			if i > 0 {
				format.WriteByte(',')
			}
			format.WriteString(c.column + ":" + mark)
		}
		text, err := commands.Run(ctx, nil, "env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-a", "-t", "all", "-O",
			format.String())
		if err == nil {
			if excluded, err := readExcluded(ctx, commands); err == nil {
				if document, err := queueJSON(text, mark, excluded, sharesAll(nodes)); err == nil {
					return document, nil
				}
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return commands.Run(ctx, nil, "squeue", "--json")
}

// readExcluded returns the nodes that waiting jobs must not have, by job: -O of squeue has no column for
// them, but -o has.
func readExcluded(ctx context.Context, commands Commands) (map[string]string, error) {
	text, err := commands.Run(ctx, nil, "squeue", "-h", "-a", "-t", "PENDING", "-o", "%A|%x")
	if err != nil {
		return nil, err
	}
	excluded := map[string]string{}
	for line := range strings.Lines(string(text)) {
		id, nodes, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok {
			return nil, errColumns
		}
		if nodes = strings.TrimSpace(nodes); nodes != "" && nodes != "(null)" && nodes != "N/A" {
			excluded[id] = nodes
		}
	}
	return excluded, nil
}

// oneTypeEach reports whether each node has GPUs of one type at most, so that the node of a job tells
// the type of its GPUs.
func oneTypeEach(nodes []byte) bool {
	for line := range strings.Lines(string(nodes)) {
		for _, word := range strings.Fields(line) {
			gres, ok := strings.CutPrefix(word, "Gres=")
			if !ok {
				continue
			}
			first := ""
			for _, part := range strings.Split(gres, ",") {
				fields := strings.Split(part, ":")
				if !history.CountsGPUs(fields[0]) {
					continue
				}
				if first != "" {
					return false
				}
				first = part
			}
		}
	}
	return true
}

// versionWord finds the versions of Slurm in what scontrol -o show node writes.
var versionWord = regexp.MustCompile(`(?m)\sVersion=(\d+)\.(\d+)`)

// sharesAll reports whether this is Slurm 26.05 or later, whose OverSubscribe=NO says nothing of whole nodes.
func sharesAll(nodes []byte) bool {
	for _, m := range versionWord.FindAllSubmatch(nodes, 8) {
		major, _ := strconv.Atoi(string(m[1]))
		minor, _ := strconv.Atoi(string(m[2]))
		if major > 26 || major == 26 && minor >= 5 {
			return true
		}
	}
	return false
}

// errColumns says that the columns do not tell what is needed.
var errColumns = errors.New("slurm: the columns of squeue are not as asked")

// queueJSON makes a document of the form of squeue --json from columns that end with a mark, which
// users could not know when they named their jobs. A value that cannot be read is handed on as it is, and the reader
// of the document sets it aside; where most jobs have one, the columns are not as asked.
func queueJSON(text []byte, mark string, excluded map[string]string, sharesAll bool) ([]byte, error) {
	values := strings.Split(string(text), mark)
	n := len(queueColumns)
	if strings.TrimSpace(values[len(values)-1]) != "" || (len(values)-1)%n != 0 {
		return nil, errColumns
	}
	jobs := make([]map[string]any, 0, len(values)/n)
	faulty := 0
	for at := 0; at+n < len(values); at += n {
		record := values[at : at+n]
		record[0] = strings.TrimPrefix(record[0], "\n")
		if record[0] == "" || record[0] != record[n-1] {
			return nil, errColumns
		}
		job := make(map[string]any, n)
		fault := false
		for i, c := range queueColumns[:n-1] {
			if v := record[i]; v != "" && v != "(null)" && v != "N/A" && (c.member != "shared" || !sharesAll) {
				if setMember(job, c.member, v) != nil {
					job[c.member], fault = v, true
				}
			}
		}
		if fault {
			faulty++
		}
		if nodes := excluded[record[0]]; nodes != "" {
			job["excluded_nodes"] = nodes
		}
		if err := finishJob(job); err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	if 2*faulty > len(jobs) {
		return nil, errColumns
	}
	return json.Marshal(map[string]any{"jobs": jobs})
}

// setMember sets a member of a job's object from a column.
func setMember(job map[string]any, member, v string) error {
	switch member {
	case "job_id", "array_job_id", "het_job_id", "het_job_offset", "nice", "submit_time", "eligible_time",
		"start_time", "end_time", "tasks":
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return errColumns
		}
		job[member] = n
	case "node_count": // for a waiting job perhaps a range
		least, _, _ := strings.Cut(v, "-")
		n, err := strconv.ParseInt(least, 10, 64)
		if err != nil {
			return errColumns
		}
		job[member] = n
	case "time_limit":
		minutes, err := limitMinutes(v)
		if err != nil {
			return err
		}
		job[member] = minutes
	case "array_task_id": // of an array that waits, the numbers of the tasks
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			job[member] = n
		} else {
			job["array_task_string"] = v
		}
	case "shared":
		if v == "NO" {
			job[member] = "none"
		}
	default:
		job[member] = v
	}
	return nil
}

// finishJob changes what columns write in another way than the JSON, and refuses a job that holds several nodes and
// whose columns do not tell how many GPUs it has on each.
func finishJob(job map[string]any) error {
	if job["array_job_id"] == job["job_id"] && job["array_task_id"] == nil && job["array_task_string"] == nil {
		delete(job, "array_job_id") // squeue gives a job that is not an array its own number
	}
	if job["job_state"] == "PENDING" { // squeue gives a waiting job what it asks for
		job["tres_req_str"] = job["tres_alloc_str"]
		delete(job, "tres_alloc_str")
	}
	nodes, _ := job["node_count"].(int64)
	state, _ := job["job_state"].(string)
	if history.HoldsNodes(state) && nodes > 1 && job["tres_per_node"] == nil {
		return errColumns
	}
	return nil
}

// limitMinutes reads a time limit such as 1-02:03:00 as minutes; no limit is 0.
func limitMinutes(text string) (int64, error) {
	switch text {
	case "UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit":
		return 0, nil
	}
	days, rest, found := strings.Cut(text, "-")
	if !found {
		days, rest = "0", text
	}
	seconds, err := strconv.ParseInt(days, 10, 32)
	if err != nil {
		return 0, errColumns
	}
	parts := strings.Split(rest, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, fmt.Errorf("slurm: squeue wrote the time limit %.40q", text)
	}
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	for i, unit := range []int64{24, 60, 60} {
		v, err := strconv.ParseInt(parts[i], 10, 32)
		if err != nil {
			return 0, errColumns
		}
		seconds = seconds*unit + v
	}
	return (seconds + 59) / 60, nil
}
