package online

import (
	"strconv"

	"github.com/hare-sched/hare"
)

// GPUsOfNode checks a node_joined event by itself and returns it as the events gpu_joined of
// the GPUs of the node.
func GPUsOfNode(e *hare.Event) ([]hare.Event, *hare.InvalidError) {
	n := e.Node()
	if n == nil {
		return nil, Invalid("/node", "missing_field", "node_joined needs the node")
	}
	var faults hare.InvalidErrors
	if faults.CheckNode("", n, true); len(faults) > 0 {
		return nil, faults[0]
	}
	if n.Windows != nil || len(n.Busy) > 0 {
		return nil, Invalid("/node", "not_supported", "a session does not know the future: leave in_service_s and busy "+
			"out")
	}
	var all []hare.Event
	for _, g := range n.GPUs {
		if len(all)+g.Count > hare.MaxGPUs {
			return nil, Invalid("/gpus", "too_large", "a session has at most %d GPUs", hare.MaxGPUs)
		}
		for range g.Count {
			all = append(all, hare.Event{Type: hare.EventGPUJoined, GPU: n.Name + "/" + strconv.Itoa(len(all)),
				GPUType: g.Type})
		}
	}
	return all, nil
}
