package wire

// PlanMethods lists what the option method may name, sorted: the names of package method, whose
// test compares them.
func PlanMethods() []string {
	return []string{
		"asrpt", "easy_backfill", "fifo", "gandiva", "gavel_fifo", "hare_offline", "hare_paper",
		"hgittins", "hlas", "kueue", "kueue_strict", "rolling", "sampling", "sched_allox",
		"sched_homo", "slurm", "srtf", "themis", "tiresias", "tiresias_gittins",
	}
}
