package history

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// paiTables are the tables that are read, with all their columns: the public files have no header.
var paiTables = map[string][]string{
	"pai_task_table": {"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
		"plan_gpu", "gpu_type"},
	"pai_job_table": {"job_name", "inst_id", "user", "status", "start_time", "end_time"},
	"pai_instance_table": {"job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time",
		"end_time", "machine"},
	"pai_machine_spec":    {"machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"},
	"pai_group_tag_table": {"inst_id", "user", "gpu_type_spec", "group", "workload"},
}

// paiTable tells which table a row is of: by its names, or, where the text has no header, by its fields.
func paiTable(row []string) (name string, header bool) {
	lower := headerOf(row)
	for name, columns := range paiTables {
		if slices.Equal(lower, columns) {
			return name, true
		}
	}
	number := func(i int) bool { _, err := strconv.ParseFloat(row[i], 64); return err == nil || row[i] == "" }
	switch {
	case len(row) == 10 && number(2) && number(8):
		return "pai_task_table", false
	case len(row) == 9 && number(6) && number(7):
		return "pai_instance_table", false
	case len(row) == 6 && number(4) && number(5):
		return "pai_job_table", false
	case len(row) == 5 && number(2) && number(3) && number(4):
		return "pai_machine_spec", false
	case len(row) == 5:
		return "pai_group_tag_table", false
	}
	return "", false
}

// readPAI reads one table of Alibaba's trace of 2020.
func (l *tableReader) readPAI(name string, in *bufio.Reader) error {
	if l.pai == nil {
		l.pai = &paiLog{jobs: map[string]*paiJob{}, own: map[string]paiTimes{}, on: map[string][]Held{},
			want: map[string]string{}, inst: map[string]string{}}
	}
	t := &csvTable{file: name, lines: table{file: name, in: in}}
	row, err := t.next()
	if errors.Is(err, io.EOF) {
		return &RowError{Place{File: name, Line: 1}, "the text is empty"}
	}
	if err != nil {
		return err
	}
	kind, header := paiTable(row)
	if kind == "" {
		return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("%d columns: this is none of pai_task_table, "+
			"pai_job_table, pai_instance_table, pai_machine_spec, pai_group_tag_table", len(row))}
	}
	column := map[string]int{}
	for i, c := range paiTables[kind] {
		column[c] = i
	}
	f := File{Name: name, Kind: kind}
	for ; ; row, err = t.next() {
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header {
			header = false
			continue
		}
		f.Rows++
		if len(row) != len(column) {
			l.Report.setAside("a row with another number of fields than its table has columns: it is left out", t.place(),
				strings.Join(row, ","))
			continue
		}
		r := &tableRow{table: t, column: column, row: row, report: l.Report}
		switch kind {
		case "pai_task_table":
			l.paiTask(r)
		case "pai_job_table":
			l.pai.own[l.keep(r.get("job_name"))] = paiTimes{l.keep(r.get("user")), l.paiTime(r, "start_time")}
			l.pai.inst[l.keep(r.get("job_name"))] = l.keep(r.get("inst_id"))
		case "pai_instance_table":
			l.paiInstance(r)
		case "pai_machine_spec":
			l.paiMachine(r)
		case "pai_group_tag_table":
			if spec := r.get("gpu_type_spec"); spec != "" {
				l.pai.want[l.keep(r.get("inst_id"))] = l.keep(spec)
			}
		}
		if len(l.pai.jobs) > l.maxJobs || len(l.pai.own) > 4*l.maxJobs || len(l.pai.on) > 4*l.maxJobs {
			return &RowError{t.place(), fmt.Sprintf("the texts have more than %d jobs: cut them", l.maxJobs)}
		}
	}
	l.Report.Files = append(l.Report.Files, f)
	return nil
}

// paiNumber reads a number that is not negative; what is not known is 0.
func (l *tableReader) paiNumber(r *tableRow, column string, most float64) float64 {
	text := r.get(column)
	if text == "" {
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= most) {
		r.aside(column, "counts as not told")
		return 0
	}
	return x
}

// paiTime reads seconds, a microsecond later, so that second 0 is a time; 0 if they are not known.
func (l *tableReader) paiTime(r *tableRow, column string) int64 {
	if r.get(column) == "" {
		return 0
	}
	before := r.report.Unread()
	s := l.paiNumber(r, column, maxTimeUs/1e6-1)
	if r.report.Unread() > before {
		return 0
	}
	return int64(math.Round(s*1e6)) + 1
}

// paiTask adds a task to its job.
func (l *tableReader) paiTask(r *tableRow) {
	name := l.keep(r.get("job_name"))
	if name == "" {
		r.aside("job_name", "the task is left out")
		return
	}
	instances, gpu := l.paiNumber(r, "inst_num", hare.MaxGPUs), l.paiNumber(r, "plan_gpu", 100*hare.MaxGPUs)
	if text := r.get("inst_num"); instances == 0 && strings.Trim(text, "0.") != "" {
		instances = 1 // cannot be read, as is told already
	}
	if instances*gpu == 0 {
		l.Report.leaveOut("tasks that had no GPUs", r.table.place())
		return
	}
	j := l.pai.jobs[name]
	if j == nil {
		j = &paiJob{place: r.table.place()}
		l.pai.jobs[name] = j
		l.pai.order = append(l.pai.order, name)
	}
	if gpu < 100 {
		l.Report.assume("instances with a part of a GPU: the parts of a job add up, and the sum is rounded up to GPUs",
			r.table.place())
	}
	j.percent += instances * gpu
	j.cpu += instances * l.paiNumber(r, "plan_cpu", 1e9)
	j.memory += instances * l.paiNumber(r, "plan_mem", 1e9)
	if start := l.paiTime(r, "start_time"); start > 0 && (j.startUs == 0 || start < j.startUs) {
		j.startUs = start
	}
	j.endUs = max(j.endUs, l.paiTime(r, "end_time"))
	j.statuses = append(j.statuses, l.keep(strings.ToLower(r.get("status"))))
	j.tasks = append(j.tasks, l.keep(r.get("task_name")))
	if gpuType := l.keep(r.get("gpu_type")); gpuType != "" && !slices.Contains(j.types, gpuType) {
		j.types = append(j.types, gpuType)
	}
}

// paiInstance notes on which machine an instance ran.
func (l *tableReader) paiInstance(r *tableRow) {
	key, machine := l.keep(r.get("job_name")+"\x00"+r.get("task_name")), l.keep(r.get("machine"))
	if machine == "" {
		return
	}
	on := l.pai.on[key]
	if i := slices.IndexFunc(on, func(h Held) bool { return h.Node == machine }); i >= 0 {
		on[i].GPUs++
		return
	}
	l.pai.on[key] = append(on, Held{Node: machine, GPUs: 1})
}

// paiMachine adds a machine.
func (l *tableReader) paiMachine(r *tableRow) {
	gpus := int(l.paiNumber(r, "cap_gpu", hare.MaxGPUs))
	name := r.get("machine")
	if name == "" || gpus == 0 {
		l.Report.leaveOut("machines without GPUs", r.table.place())
		return
	}
	n := l.node(l.keep(name))
	n.GPUs = nil
	n.addGPUs(l.keep(cmp.Or(r.get("gpu_type"), untyped)), gpus)
	n.CPUMilli = int64(l.paiNumber(r, "cap_cpu", 1e6) * 1000)
	n.MemoryMiB = int64(l.paiNumber(r, "cap_mem", 1e6) * 1024)
}

// finishPAI makes the jobs: all tasks with GPUs of one name are one job, from the first start to the last end. Jobs
// whose instances are told with their machines and whole GPUs ran there; the others are placed.
func (l *tableReader) finishPAI() error {
	p := l.pai
	l.pai = nil
	for _, name := range p.order {
		t := p.jobs[name]
		j := Job{ID: name, Place: t.place, GPUs: int64(math.Ceil(t.percent/100 - 1e-9)), StartUs: t.startUs, EndUs: t.endUs,
			SubmitUs: t.startUs, CPUMilli: int64(t.cpu * 10), MemoryMiB: int64(t.memory * 1024), State: paiState(t)}
		if own, told := p.own[name]; told {
			j.User = own.user
			if own.submitUs > 0 {
				j.SubmitUs = own.submitUs
			}
		} else {
			l.Report.assume("no table of jobs tells when the job was submitted: counts as submitted at its start", t.place)
		}
		if j.GPUs > hare.MaxGPUs || j.SubmitUs == 0 {
			l.Report.leaveOut("jobs without a time, or with more GPUs than a cluster may have", t.place)
			continue
		}
		if j.EndUs > 0 && j.EndUs < j.StartUs {
			j.EndUs = 0
		}
		j.EligibleUs = j.SubmitUs
		ran := ""
		if len(t.types) == 1 {
			ran = t.types[0]
		}
		j.Type = p.want[p.inst[name]]
		if len(p.want) == 0 {
			j.Type = ran
			if ran != "" {
				l.Report.assume("without pai_group_tag_table, a job may use only the GPU type that it had", t.place)
			}
		}
		j.On = p.held(name, t, ran, j.GPUs)
		j.Nodes = int64(len(j.On))
		placed := len(j.On) > 0
		if err := l.addJob(&j); err != nil {
			return &RowError{t.place, err.Error()}
		}
		if !placed && j.StartUs > 0 {
			l.unplaced = append(l.unplaced, unplacedJob{len(l.Jobs) - 1, ran, true})
		}
	}
	return nil
}

// held returns where the instances of a job with one task ran, as far as they had whole GPUs.
func (p *paiLog) held(name string, t *paiJob, ran string, gpus int64) []Held {
	if len(t.tasks) != 1 {
		return nil
	}
	on := slices.Clone(p.on[name+"\x00"+t.tasks[0]])
	instances := int64(0)
	for _, h := range on {
		instances += h.GPUs
	}
	if instances == 0 || gpus%instances != 0 || t.percent != float64(100*gpus) {
		return nil
	}
	for i := range on {
		on[i].GPUs *= gpus / instances
		on[i].Type = ran
	}
	return sorted(on)
}

// paiState is the state of a job by those of its tasks.
func paiState(t *paiJob) State {
	switch {
	case slices.Contains(t.statuses, "failed"):
		return Failed
	case t.endUs > 0:
		return Completed
	case slices.Contains(t.statuses, "running"), t.startUs > 0:
		return Running
	}
	return Pending
}
