package wire

import (
	"encoding/json"
	"strings"

	"github.com/hare-sched/hare"
)

// AppendLane appends the JSON form of a lane to b.
func AppendLane(b []byte, l *hare.Lane) []byte { return appendLane(b, l) }

// AppendString appends a JSON string to b.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

// AppendJobs appends jobs as in an instance.
func AppendJobs(b []byte, jobs []hare.Job) []byte { return appendJobs(b, jobs) }

// AppendNodes appends nodes as in an instance.
func AppendNodes(b []byte, nodes []hare.Node) []byte { return appendNodes(b, nodes) }

// AppendQuota appends quotas as in an instance, or nothing where there are none.
func AppendQuota(b []byte, quota []hare.Quota) []byte { return appendQuota(b, quota) }

// AppendInstance appends an instance on one line.
func AppendInstance(b []byte, inst *hare.Instance) []byte { return appendInstance(b, inst) }

// GapJSON returns the gap of a result in JSON: null without a useful bound.
func GapJSON(r *hare.Result) json.RawMessage {
	g, ok := r.Gap()
	if !ok {
		return raw("null")
	}
	text := g.FloatString(6) // exact: it is a multiple of 1e-6
	return raw(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}
