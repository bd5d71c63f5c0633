package history

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
