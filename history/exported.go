package history

import (
	"strconv"

	"github.com/hare-sched/hare"
)

// ExpandHosts returns the names that a list of hosts in Slurm's form stands for, such as gpu-[001-003,7],login. It
// takes time in proportion to the names.
func ExpandHosts(list string) ([]string, error) { return expandHosts(list) }

// HoldsNodes reports whether a job in a state that Slurm tells, in its long form, has nodes and their GPUs.
func HoldsNodes(state string) bool {
	st, _ := slurmState(state)
	return st == Running
}

// TableColumns returns the columns of a table by its first row, as the row names them or as the tables of PAI have
// them, which have no header; form is one of Sources or PublicSources, or "" for a table that no source has.
func TableColumns(row []string) (columns []string, form string, header bool) {
	names := headerOf(row)
	if f, ok := formOf(names); ok {
		return names, f.name, true
	}
	if name, header := paiTable(row); header || name == "pai_task_table" || name == "pai_instance_table" ||
		name == "pai_job_table" || name == "pai_machine_spec" {
		return paiTables[name], "pai", header
	}
	return names, "", true
}

// Hints is what was known of a job when it was submitted: its user's estimate or limit, and a class by which jobs
// are alike.
func (j *Job) Hints() *hare.JobHints {
	h := &hare.JobHints{EstimateUs: j.EstimateUs}
	for _, s := range j.Seconds {
		if h.EstimateUs == 0 || s.Us < h.EstimateUs {
			h.EstimateUs = s.Us
		}
	}
	if h.EstimateUs == 0 {
		h.EstimateUs = j.LimitUs
	}
	h.EstimateUs = min(h.EstimateUs, hare.MaxExact)
	for _, l := range []hare.ClassLabel{{Name: "account", Value: j.Account},
		{Name: "gpus", Value: strconv.FormatInt(j.GPUs, 10)},
		{Name: "name", Value: j.Name}, {Name: "user", Value: j.User}} {
		if l.Value != "" && l.Fault() == "" {
			h.Class = append(h.Class, l)
		}
	}
	if h.EstimateUs == 0 && len(h.Class) == 0 {
		return nil
	}
	return h
}
