package verify

import (
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// directory finds the GPUs of a cluster by their names node/number.
type directory map[string]int // node name to its index in the cluster

func newDirectory(c *hare.Cluster) directory {
	d := make(directory, len(c.Nodes))
	for i := range c.Nodes {
		d[c.Nodes[i].Name] = i
	}
	return d
}

// find returns the index of the GPU's node, the number of the GPU on the node, and its
// type.
func (d directory) find(c *hare.Cluster, name string) (node, number int, kind string, ok bool) {
	slash := strings.LastIndexByte(name, '/')
	if slash < 0 {
		return 0, 0, "", false
	}
	node, ok = d[name[:slash]]
	number, err := strconv.Atoi(name[slash+1:])
	if !ok || err != nil || number < 0 || strconv.Itoa(number) != name[slash+1:] {
		return 0, 0, "", false
	}
	left := number
	for _, g := range c.Nodes[node].GPUs {
		if left < g.Count {
			return node, number, g.Type, true
		}
		left -= g.Count
	}
	return 0, 0, "", false
}
