package hare

import "unicode/utf8"

// BandwidthMbps returns the bandwidth between GPUs of which a level has all in one domain: that of
// the level, or of the next coarser one that has a bandwidth. Level 0 is inside one node. It
// returns 0 where nothing is said. levels must be those of the cluster. It takes O(levels).
func (c *Cluster) BandwidthMbps(levels *Levels, level int) int64 {
	for ; level < len(levels.Names); level++ {
		for _, b := range c.Bandwidths {
			if b.Level == levels.Names[level] {
				return b.Mbps
			}
		}
	}
	return 0
}

// GPUMemoryMilliGiB returns the memory of one GPU of a type in thousandths of GiB, and 0 where
// nothing is said.
func (c *Cluster) GPUMemoryMilliGiB(kind string) int64 {
	for _, t := range c.GPUTypes {
		if t.Type == kind {
			return t.MemoryMilliGiB
		}
	}
	return 0
}

// CheckHardware adds the faults of the bandwidths and the GPU types of a cluster whose topology has
// no faults. at is the pointer of the cluster.
func (es *InvalidErrors) CheckHardware(at string, c *Cluster) {
	lv := &Levels{Names: levelNames(c.Topology)}
	for i, b := range c.Bandwidths {
		p := at + "/bandwidth_gbps/" + EscapePointer(b.Level)
		if _, ok := lv.Index(b.Level); !ok || b.Level == "" {
			es.Add(p, "unknown_level", "there is no level %q: use some of %s, which are node, the labels of "+
				`"topology" of the cluster, and any`, Clip(b.Level), lv.list())
		}
		if b.Mbps < 1 || b.Mbps > MaxPerTask {
			es.Add(p, "out_of_range", "must be between 0.001 and %s; leave it out where it is not known",
				FormatMillis(MaxPerTask))
		}
		if i > 0 && c.Bandwidths[i-1].Level >= b.Level {
			es.Add(at+"/bandwidth_gbps", "unordered", "levels must be sorted by name, each once")
		}
	}
	for i, t := range c.GPUTypes {
		p := at + "/gpu_types/" + EscapePointer(t.Type)
		if t.Type == "" || !utf8.ValidString(t.Type) {
			es.typeName(p, t.Type)
		}
		if t.MemoryMilliGiB < 1 || t.MemoryMilliGiB > MaxPerTask {
			es.Add(p+"/memory_gib", "out_of_range", "must be between 0.001 and %s", FormatMillis(MaxPerTask))
		}
		if i > 0 && c.GPUTypes[i-1].Type >= t.Type {
			es.Add(at+"/gpu_types", "unordered", "types must be sorted, each once")
		}
	}
}
