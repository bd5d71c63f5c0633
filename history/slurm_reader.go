package history

import (
	"slices"
)

// slurmReader reads texts of Slurm.
type slurmReader struct {
	*reader
	accounted, countedGPUs int // jobs that accounting tells, and of how many of them it counts GPUs
	clusters               map[string]*clusterRows
	accelerators           map[string][]string // the types that nodes have of accelerators such as hpu, by this name
	skipped                int                 // lines before the text at hand
}

// warnUncounted says that accounting counts no GPUs, where jobs may therefore count as jobs without.
func (l *slurmReader) warnUncounted() {
	if l.accounted > 0 && l.countedGPUs == 0 && slices.ContainsFunc(l.Jobs,
		func(j Job) bool { return j.GPUs == 0 || j.guessed }) {
		l.Report.Warnings = append(l.Report.Warnings,
			"Slurm's accounting counts no GPUs, so that jobs whose scripts alone ask for "+
				"them count as jobs without: set AccountingStorageTRES=gres/gpu in slurm.conf")
	}
}

// clusterRows are the rows of one cluster.
type clusterRows struct {
	rows  int
	first Place
}
