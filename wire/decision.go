package wire

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// isGPUName reports whether a name has the form node/index.
func isGPUName(s string) bool {
	i := strings.IndexByte(s, '/')
	if i < 1 {
		return false
	}
	index := s[i+1:]
	if index == "" || len(index) > 7 || index != "0" && index[0] == '0' {
		return false
	}
	for i := range len(index) {
		if index[i] < '0' || index[i] > '9' {
			return false
		}
	}
	return true
}

var decisionTypeNames = []string{hare.DecisionStart.String(), hare.DecisionWithdraw.String()}

var decisionTable = NewTable("Decision", "Decision says which task starts where, or that a start is void.",
	NewField("type", Schema{"type": "string", "enum": decisionTypeNames}, readDecisionType, nil).Required("").
		About("type is start, or withdraw for a start that is void."),
	String("job", func(v *hare.Decision) *string { return &v.Job }).Required("").
		About("job is the id of the job."),
	Integer("round", func(v *hare.Decision) *int64 { return &v.Round }, 0, hare.MaxExact).Required("").
		About("round of the task, from 0."),
	Integer("task", func(v *hare.Decision) *int64 { return &v.Task }, 0, hare.MaxExact).Required("").
		About("task is the number of the task in its round, from 0."),
	String("gpu", func(v *hare.Decision) *string { return &v.GPU }).Required("").
		About("gpu is the GPU of the task, or its first one."),
	NewField("gpus", ListOf(Schema{"type": "string"}), readDecisionGPUs, nil).
		About("gpus are all GPUs of a task of several, which are on one node. Events of the task name the first one."),
	Micros("at_s", func(v *hare.Decision) *int64 { return &v.AtUs }, 0).Required("").
		About("at_s is the time of the decision since the session began."),
).Growing().Check(func(v *hare.Decision, has Members, found *hare.InvalidErrors) {
	if has.Has("job") && v.Job == "" {
		found.Add("/job", "bad_name", "must not be empty")
	}
	switch {
	case has.Has("gpu") && !isGPUName(v.GPU):
		found.Add("/gpu", "bad_name", `%q is not the name of a GPU: use node/index, such as "a/0"`, hare.Clip(v.GPU))
	case has.Has("gpu") && v.Others != "":
		checkDecisionGPUs(v, found)
	}
})

// readDecisionGPUs reads the GPUs of a task of several. Others has their whole names until
// the decision is checked.
func readDecisionGPUs(r *Reader, v *hare.Decision) error {
	var names []string
	before := len(r.faults)
	err := r.Array(func(int) error {
		var name string
		err := r.String(&name)
		if err == nil && len(r.faults) == before && !isGPUName(name) {
			err = r.Fault("bad_name", `%q is not the name of a GPU: use node/index, such as "a/0"`, hare.Clip(name))
		}
		names = append(names, name)
		return err
	})
	if len(r.faults) == before {
		v.Others = hare.OtherGPUs(strings.Join(names, ","))
	}
	return err
}

// checkDecisionGPUs turns the names of all GPUs of a task into the others.
func checkDecisionGPUs(v *hare.Decision, found *hare.InvalidErrors) {
	names := strings.Split(string(v.Others), ",")
	v.Others = ""
	node := v.GPU[:strings.IndexByte(v.GPU, '/')+1]
	switch {
	case names[0] != v.GPU || len(names) < 2:
		found.Add("/gpus", "bad_value", `must list all GPUs of a task that has several, "gpu" first`)
	case slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, node) }):
		found.Add("/gpus", "bad_value", "must be on one node")
	default:
		v.Others = hare.OthersOf(names)
	}
}

func readDecisionType(r *Reader, v *hare.Decision) error {
	text := ""
	if !r.Is('"') {
		return r.String(&text)
	}
	if err := r.String(&text); err != nil {
		return err
	}
	for _, t := range []hare.DecisionType{hare.DecisionStart, hare.DecisionWithdraw} {
		if text == t.String() {
			v.Type = t
			return nil
		}
	}
	return r.Fault("unknown_value", "type %q: must be start or withdraw", hare.Clip(text))
}

// AppendDecisions appends decisions as a JSON array.
func AppendDecisions(b []byte, ds []hare.Decision) []byte {
	b = append(b, '[')
	for i := range ds {
		if i > 0 {
			b = append(b, ',')
		}
		d := &ds[i]
		b = append(b, `{"type":"`...)
		b = append(b, d.Type.String()...)
		b = AppendString(append(b, `","job":`...), d.Job)
		b = appendInt(append(b, `,"round":`...), d.Round)
		b = appendInt(append(b, `,"task":`...), d.Task)
		b = AppendString(append(b, `,"gpu":`...), d.GPU)
		if d.Others != "" {
			b = appendList(append(b, `,"gpus":`...), d.GPUs(), AppendString)
		}
		b = hare.AppendMicros(append(b, `,"at_s":`...), d.AtUs)
		b = append(b, '}')
	}
	return append(b, ']')
}
