package wire

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// EncodeInstance writes the instance/v1 form, a node and a job a line.
func EncodeInstance(w io.Writer, inst *hare.Instance) error {
	b := bufio.NewWriter(w)
	line := append([]byte(nil), `{"hare":"instance/v1"`...)
	if inst.Name != "" {
		line = append(line, `,"name":`...)
		line = appendString(line, inst.Name)
	}
	line = append(line, `,"objective":`...)
	line = appendString(line, inst.Objective)
	line = append(line, ",\n \"cluster\":{\"nodes\":["...)
	for i := range inst.Cluster.Nodes {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, "\n  "...)
		line = appendNode(line, &inst.Cluster.Nodes[i])
	}
	line = append(line, "]},\n \"jobs\":["...)
	for i := range inst.Jobs {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, "\n  "...)
		line = appendJob(line, &inst.Jobs[i])
		if _, err := b.Write(line); err != nil {
			return err
		}
		line = line[:0]
	}
	line = append(line, "]}\n"...)
	if _, err := b.Write(line); err != nil {
		return err
	}
	return b.Flush()
}

func appendNode(b []byte, n *hare.Node) []byte {
	b = append(b, `{"name":`...)
	b = appendString(b, n.Name)
	b = append(b, `,"gpus":{`...)
	for i, g := range n.GPUs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, g.Type)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(g.Count), 10)
	}
	b = append(b, '}')
	if n.Windows != nil {
		b = append(b, `,"in_service_s":[`...)
		for i, w := range n.Windows {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, '[')
			b = hare.AppendMicros(b, w.StartUs)
			b = append(b, ',')
			if w.EndUs == hare.Forever {
				b = append(b, "null"...)
			} else {
				b = hare.AppendMicros(b, w.EndUs)
			}
			b = append(b, ']')
		}
		b = append(b, ']')
	}
	if len(n.Busy) > 0 {
		b = append(b, `,"busy":[`...)
		for i, x := range n.Busy {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"gpu":`...)
			b = strconv.AppendInt(b, int64(x.GPU), 10)
			b = append(b, `,"until_s":`...)
			b = hare.AppendMicros(b, x.UntilUs)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendJob(b []byte, j *hare.Job) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, j.ID)
	b = append(b, `,"weight":`...)
	b = hare.AppendMicros(b, j.WeightMicro)
	if j.ReleaseUs != 0 {
		b = append(b, `,"release_s":`...)
		b = hare.AppendMicros(b, j.ReleaseUs)
	}
	b = append(b, `,"rounds":`...)
	b = strconv.AppendInt(b, j.Rounds, 10)
	b = append(b, `,"tasks":`...)
	b = strconv.AppendInt(b, j.Tasks, 10)
	if j.Sync != hare.Relaxed {
		b = append(b, `,"sync":"`...)
		b = append(b, j.Sync.String()...)
		b = append(b, '"')
	}
	if j.Mix {
		b = append(b, `,"mix":true`...)
	}
	b = append(b, `,"on":{`...)
	for i, p := range j.On {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, p.Type)
		b = append(b, `:{"compute_s":`...)
		b = hare.AppendMicros(b, p.ComputeUs)
		if p.SyncUs != 0 {
			b = append(b, `,"sync_s":`...)
			b = hare.AppendMicros(b, p.SyncUs)
		}
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// CertificateJSON is the certificate/v1 form; nil for no certificate.
func CertificateJSON(c *hare.Certificate) json.RawMessage {
	if c == nil {
		return nil
	}
	return appendCertificate(nil, c)
}

func appendCertificate(b []byte, c *hare.Certificate) []byte {
	b = append(b, `{"hare":"certificate/v1","method":`...)
	b = appendString(b, c.Method)
	if c.Method == hare.MethodPrice {
		b = append(b, `,"path":`...)
		b = strconv.AppendBool(b, c.Path)
	}
	if c.InstanceSHA256 != "" {
		b = append(b, `,"instance_sha256":`...)
		b = appendString(b, c.InstanceSHA256)
	}
	b = append(b, `,"objective":`...)
	b = appendString(b, c.Objective)
	if c.Bound != "" {
		b = append(b, `,"bound":`...)
		b = appendString(b, c.Bound)
	}
	if c.Method == hare.MethodPrice {
		b = appendColumn(append(b, `,"grid_us":`...), c.GridUs)
		b = append(b, `,"prices":{`...)
		for i, p := range c.Prices {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, p.Type)
			b = appendColumn(append(b, ':'), p.Nanos)
		}
		b = append(b, '}')
		b = appendSizes(b, c.Sizes)
		if c.StepUs != 0 {
			b = strconv.AppendInt(append(b, `,"step_us":`...), c.StepUs, 10)
		}
	}
	return append(b, '}')
}

// appendSizes writes {type: {tasks: prices}}; sizes are sorted.
func appendSizes(b []byte, sizes []hare.SizePrices) []byte {
	for i, s := range sizes {
		switch {
		case i == 0:
			b = append(b, `,"sizes":{`...)
		case s.Type != sizes[i-1].Type:
			b = append(b, `},`...)
		default:
			b = append(b, ',')
		}
		if i == 0 || s.Type != sizes[i-1].Type {
			b = append(appendString(b, s.Type), `:{`...)
		}
		b = append(strconv.AppendInt(append(b, '"'), s.Tasks, 10), `":`...)
		b = appendColumn(b, s.Nanos)
	}
	if len(sizes) > 0 {
		b = append(b, `}}`...)
	}
	return b
}

func appendColumn[T int32 | int64](b []byte, xs []T) []byte {
	b = append(b, '[')
	for i, x := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return append(b, ']')
}

func appendLane(b []byte, l *hare.Lane) []byte {
	b = append(b, `{"gpu":`...)
	b = appendString(b, l.GPU)
	b = appendColumn(append(b, `,"job":`...), l.Job)
	for _, c := range []struct {
		name   string
		column []int64
		def    int64
	}{{"round", l.Round, 0}, {"rounds", l.Rounds, 1}, {"tasks", l.Tasks, 1}, {"period_us", l.PeriodUs, 0}} {
		if c.column == nil || !slices.ContainsFunc(c.column, func(x int64) bool { return x != c.def }) {
			continue
		}
		b = append(b, `,"`...)
		b = append(b, c.name...)
		b = appendColumn(append(b, `":`...), c.column)
	}
	b = appendColumn(append(b, `,"start_us":`...), l.StartUs)
	return append(b, '}')
}

// raw keeps numbers as they are written.
func raw(s string) json.RawMessage { return json.RawMessage(s) }

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
