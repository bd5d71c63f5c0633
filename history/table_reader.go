package history

// tableReader reads tables of jobs and nodes.
type tableReader struct {
	*reader
	unplaced []unplacedJob // the jobs of tables that do not say where they ran
	pai      *paiLog       // nil until a table of Alibaba's trace is read
}

// unplacedJob is a job of a table that does not say on which nodes it ran.
type unplacedJob struct {
	at      int    // in Log.Jobs
	ran     string // the GPU type on which it ran; "" where that is not known
	nowhere bool   // no row of its table says where the job ran
}

// paiLog gathers the tables of Alibaba's trace of 2020 (PAI) until all texts are read.
type paiLog struct {
	jobs  map[string]*paiJob
	order []string
	own   map[string]paiTimes // what the table of jobs says, by job
	on    map[string][]Held   // the machines of instances, by job and task
	want  map[string]string   // the GPU types that jobs asked for, by inst_id
	inst  map[string]string   // inst_id by job
}

// paiTimes are the user of a job and when it was submitted.
type paiTimes struct {
	user     string
	submitUs int64
}

// paiJob is what the tasks of a job with GPUs say together.
type paiJob struct {
	place          Place
	percent        float64 // GPUs, each 100
	cpu, memory    float64 // percent of CPUs, GB
	types          []string
	startUs, endUs int64
	statuses       []string
	tasks          []string
}
