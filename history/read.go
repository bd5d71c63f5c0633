package history

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// Sources are the names of what Read reads and Export writes.
var Sources = []string{"slurm", "kube", "ray", "history"}

// PublicSources are the names of what Read reads besides: public traces of what happened on a
// cluster, and the snapshots of a scheduler.
var PublicSources = []string{"swf", "helios", "acme", "pai", "kai"}

// ReadConfig says how texts are read.
type ReadConfig struct {
	// Zone is the time zone of times that name none; nil means UTC.
	Zone *time.Location
	// TypeLabel is the label of Kubernetes' nodes that names the GPU type; "" means TypeLabels.
	TypeLabel string
	// AnyType lets jobs of a table without the column requested_type use any type, not only the one on which they ran.
	AnyType bool
	// GPUs are the GPUs of a cluster of which no text tells the nodes, one node for each type; nil means none. They are
	// for tables that do not say where jobs ran.
	GPUs []hare.TypeCount
	// ProcessorsPerGPU is how many processors of a text in the Standard Workload Format are a GPU; 0 means 1.
	ProcessorsPerGPU int64
	// MaxJobs limits the jobs of all texts; 0 means 1,000,000. The nodes of all jobs may be four times as many.
	MaxJobs int
}

// Read reads the texts of one cluster and knows each by what it holds, in any order: for slurm those of
// sacct -P, scontrol show node and reservation, sacctmgr -P show event, and the JSON of sacct, squeue,
// sinfo and scontrol; for kube objects as kubectl get -o json writes them; for ray answers of the
// dashboard. Errors about a text are *RowError. Read takes time in proportion to the texts.
func Read(source string, texts []trace.Source, cfg ReadConfig) (*Log, error) {
	if all := slices.Concat(Sources, PublicSources); !slices.Contains(all, source) {
		return nil, fmt.Errorf("history: unknown source %.60q: it must be one of %s", source, strings.Join(all, ", "))
	}
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	l := &Log{Source: source, Report: &Report{Source: source}, maxJobs: cmp.Or(cfg.MaxJobs, maxJobs)}
	for _, text := range texts {
		lines := &capped{r: text.R}
		in := bufio.NewReaderSize(lines, 1<<16)
		var err error
		if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			unzipped, zipErr := gzip.NewReader(in)
			if zipErr != nil {
				return nil, &RowError{Place{File: text.Name, Line: 1}, zipErr.Error()}
			}
			lines = &capped{r: unzipped}
			in = bufio.NewReaderSize(lines, 1<<16)
		}
		lines.skipMark(in)
		switch source {
		case "slurm":
			err = l.readSlurm(text.Name, in, cfg)
		case "kube":
			if isZip(in) {
				err = l.readKAI(text.Name, in, cfg)
			} else {
				err = l.readKube(text.Name, in, cfg)
			}
		case "kai":
			err = l.readKAI(text.Name, in, cfg)
		case "ray":
			err = l.readRay(text.Name, in, cfg.Zone)
		case "history", "helios", "acme":
			err = l.readCSV(text.Name, in, cfg.Zone, cfg.AnyType)
		case "swf":
			err = l.readSWF(text.Name, in, cfg)
		case "pai":
			err = l.readPAI(text.Name, in)
		default:
			err = fmt.Errorf("history: %s is not read by this version", source)
		}
		if at := (*jsonError)(nil); errors.As(err, &at) {
			if line := lines.line(at.offset); line > 0 {
				at.Reason += fmt.Sprintf(" (line %d)", line)
			}
			return nil, at.RowError
		}
		if err != nil {
			return nil, err
		}
	}
	if l.kube != nil {
		l.finishKube()
	}
	if l.ray != nil {
		if err := l.finishRay(); err != nil {
			return nil, err
		}
	}
	if empty := func(f File) bool { return f.Kind != "empty text" }; len(texts) > 0 && source == "slurm" &&
		!slices.ContainsFunc(l.Report.Files, empty) {
		return nil, &RowError{Place{File: texts[0].Name, Line: 1}, "the text is empty"}
	}
	if err := l.oneCluster(); err != nil {
		return nil, err
	}
	if err := l.finishTables(cfg); err != nil {
		return nil, err
	}
	l.settle()
	return l, nil
}

// capped reads a text of at most maxBytes and knows where its last lines end.
type capped struct {
	r       io.Reader
	n       int64   // bytes read
	ends    []int64 // the offsets of line ends that are kept
	dropped int     // line ends before these
}

// keptLines is how many line ends are kept at least.
const keptLines = 1 << 20

// errTooLong says that a text, unpacked, has more than maxBytes.
var errTooLong = fmt.Errorf("the text has more than %d MiB: read a shorter time, or fewer columns", maxBytes>>20)

func (c *capped) Read(p []byte) (int, error) {
	if c.n > maxBytes {
		return 0, errTooLong
	}
	n, err := c.r.Read(p)
	for at := 0; ; {
		i := bytes.IndexByte(p[at:n], '\n')
		if i < 0 {
			break
		}
		at += i + 1
		c.ends = append(c.ends, c.n+int64(at))
	}
	if extra := len(c.ends) - keptLines; extra >= keptLines {
		c.dropped += extra
		c.ends = append(c.ends[:0], c.ends[extra:]...)
	}
	c.n += int64(n)
	return n, err
}

// byteOrderMark begins texts that some programs write in UTF-8.
const byteOrderMark = "\ufeff"

// skipMark passes over the byte order mark of a text. Offsets count from behind the mark.
func (c *capped) skipMark(in *bufio.Reader) {
	if head, _ := in.Peek(len(byteOrderMark)); string(head) != byteOrderMark {
		return
	}
	n, _ := in.Discard(len(byteOrderMark))
	c.n -= int64(n)
	for i := range c.ends {
		c.ends[i] -= int64(n)
	}
}

// line returns the line, from 1, of the byte at an offset; 0 if the ends of the lines there are not kept.
func (c *capped) line(offset int64) int {
	i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > offset })
	if i == 0 && c.dropped > 0 {
		return 0
	}
	return c.dropped + i + 1
}

// addJob adds a job to the log. Jobs share texts such as names of users and nodes, and hold no line of
// the text that was read.
func (l *Log) addJob(j *Job) error {
	if len(l.Jobs) >= l.maxJobs {
		return fmt.Errorf("the texts have more than %d jobs: read a shorter time", l.maxJobs)
	}
	if l.held += len(j.On); l.held/4 > l.maxJobs {
		return fmt.Errorf("the jobs of the texts were on more than %d nodes together: read a shorter time", 4*l.maxJobs)
	}
	for _, text := range []*string{&j.Name, &j.User, &j.Account, &j.Partition, &j.QOS, &j.Reservation, &j.Type,
		&j.Features} {
		*text = l.keep(*text)
	}
	j.ID = strings.Clone(j.ID)
	for i := range j.On {
		j.On[i].Node, j.On[i].Type = l.keep(j.On[i].Node), l.keep(j.On[i].Type)
	}
	for i := range j.Seconds {
		j.Seconds[i].Type = l.keep(j.Seconds[i].Type)
	}
	for _, list := range [][]string{j.OnlyNodes, j.NotNodes, j.After} {
		for i := range list {
			list[i] = l.keep(list[i])
		}
	}
	if n := len(l.Jobs); n == cap(l.Jobs) && n > 1<<12 {
		l.Jobs = slices.Grow(l.Jobs, n) // append would copy long lists five times as often
	}
	l.Jobs = append(l.Jobs, *j)
	return nil
}

// keep returns a text that all jobs with it share.
func (l *Log) keep(text string) string {
	if text == "" {
		return ""
	}
	if l.texts == nil {
		l.texts = map[string]string{}
	}
	kept, known := l.texts[text]
	if !known {
		kept = strings.Clone(text)
		l.texts[kept] = kept
	}
	return kept
}

// readSlurm tells the kinds of texts apart by their first bytes.
func (l *Log) readSlurm(name string, in *bufio.Reader, cfg ReadConfig) error {
	head, err := in.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.skipped = 0
	head = bytes.TrimLeft(head, " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	for text := string(head); text != ""; l.skipped++ {
		var first string
		first, text, _ = strings.Cut(text, "\n")
		first = strings.ToLower(strings.TrimLeft(first, " \t\r"))
		read := l.slurmReader(first)
		if read == nil {
			continue
		}
		for range l.skipped { // what a command or a shell has written before
			if skipped, err := in.ReadString('\n'); err == nil {
				l.Report.setAside("a line before the text: it is no part of it", Place{File: name, Line: 1},
					strings.TrimSpace(skipped))
			}
		}
		return read(name, in, cfg.Zone)
	}
	if text := strings.ToLower(string(line)); len(head) == 0 || strings.HasPrefix(text, "no ") {
		l.Report.Files = append(l.Report.Files, File{Name: name, Kind: "empty text"})
		return nil
	}
	if source := sourceOf(head); source != "" && source != "slurm" {
		return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("%.40q begins none of the texts of Slurm: hare import %s "+
			"reads it", string(line), source)}
	}
	return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("%.40q begins none of the texts that Hare reads: sacct -P, "+
		"scontrol show node or reservation, sacctmgr -P show event, or the JSON of sacct, squeue, sinfo, scontrol",
		string(line))}
}

// sortJobs orders jobs by submission and ID. Jobs are large, so that their numbers are sorted and each job moves once.
func (l *Log) sortJobs() {
	compare := func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.SubmitUs, b.SubmitUs), strings.Compare(a.ID, b.ID))
	}
	order := make([]int32, len(l.Jobs)) // the job that comes to each place
	sorted := true
	for i := range order {
		order[i] = int32(i)
		sorted = sorted && (i == 0 || compare(&l.Jobs[i-1], &l.Jobs[i]) <= 0)
	}
	if sorted {
		return
	}
	slices.SortStableFunc(order, func(a, b int32) int { return compare(&l.Jobs[a], &l.Jobs[b]) })
	for i := range order {
		if order[i] == int32(i) {
			continue
		}
		first, at := l.Jobs[i], int32(i)
		for next := order[at]; next != int32(i); next = order[at] {
			l.Jobs[at], order[at] = l.Jobs[next], at
			at = next
		}
		l.Jobs[at], order[at] = first, at
	}
}

// slurmReader returns the reader of a text by its first line in lower case; nil for no such text.
func (l *Log) slurmReader(first string) func(string, *bufio.Reader, *time.Location) error {
	switch {
	case strings.HasPrefix(first, "{"):
		return func(name string, in *bufio.Reader, _ *time.Location) error { return l.readSlurmJSON(name, in) }
	case strings.HasPrefix(first, "nodename="):
		return func(name string, in *bufio.Reader, _ *time.Location) error { return l.readScontrolNodes(name, in) }
	case strings.HasPrefix(first, "reservationname="):
		return l.readScontrolReservations
	case strings.Contains(first, "nodename"):
		return l.readEvents
	case strings.Contains(first, "jobid"):
		return l.readSacct
	}
	return nil
}

// splitResized makes what a job had since it changed its size an attempt of its own, where accounting tells what it
// had before.
func (l *Log) splitResized() {
	type change struct {
		id   string
		atUs int64
	}
	changes := map[change]bool{}
	for i := range l.Jobs {
		if j := &l.Jobs[i]; j.resizes {
			changes[change{j.ID, j.EndUs}] = true
		}
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if len(changes) > 0 && changes[change{j.ID, j.SubmitUs}] { // some versions tell the time of the change as the start
			j.resizedUs = j.SubmitUs
		}
		if changes[change{j.ID, j.resizedUs}] {
			j.SubmitUs, j.EligibleUs, j.StartUs = j.resizedUs, j.resizedUs, j.resizedUs
		}
	}
}

// merge keeps one of the jobs of the same ID that were submitted at the same time, which several
// texts tell: the one that has ended, else the one that has started. What it does not tell is that of the other.
func (l *Log) merge() {
	kept := l.Jobs[:0]
	for _, j := range l.Jobs { // which are sorted, so that jobs that are told twice stand together
		if n := len(kept); n == 0 || kept[n-1].ID != j.ID || kept[n-1].SubmitUs != j.SubmitUs {
			kept = append(kept, j)
			continue
		}
		l.Report.leaveOut("is told twice: the later state counts", j.Place)
		k := &kept[len(kept)-1]
		if k.EndUs == 0 && j.EndUs > 0 || k.StartUs == 0 && j.StartUs > 0 {
			*k, j = j, *k
		}
		k.complete(&j)
	}
	clear(l.Jobs[len(kept):])
	l.Jobs = kept
}

// complete takes over what another record of the same attempt knows and this one does not.
func (j *Job) complete(o *Job) {
	if unknown := j.GPUs == 0 || j.guessed && !o.guessed; unknown && o.GPUs > 0 {
		if j.GPUs == 0 {
			j.PerTask = o.PerTask
		}
		j.GPUs, j.guessed, j.asked, j.parts, j.PartMicro = o.GPUs, o.guessed, o.asked, o.parts, o.PartMicro
		if len(o.On) > 0 {
			j.On = o.On
		} else if !j.held(j.GPUs) {
			for i := range j.On {
				j.On[i].GPUs, j.On[i].Numbers = 0, nil
			}
		}
	}
	sure := func(on []Held) bool {
		return len(on) > 0 && !slices.ContainsFunc(on, func(h Held) bool { return h.GPUs == 0 || h.Assumed })
	}
	numbered := func(on []Held) bool {
		return sure(on) && !slices.ContainsFunc(on, func(h Held) bool { return h.Numbers == nil })
	}
	var gpus int64
	for _, h := range o.On {
		gpus += h.GPUs
	}
	if len(j.On) == 0 || gpus == j.GPUs && (!sure(j.On) && sure(o.On) || !numbered(j.On) && numbered(o.On)) {
		j.On = o.On
	}
	if len(j.On) > 0 && j.StartUs == 0 && j.EndUs > 0 && o.StartUs > 0 {
		j.StartUs = o.StartUs
	}
	j.confirmed, j.suspended = j.confirmed || o.confirmed, j.suspended || o.suspended
	if !j.lined && j.GPUs == o.GPUs && (o.lined || j.PerTask == 0) {
		j.PerTask = o.PerTask
	}
	j.lined = j.lined || o.lined
	if j.stays = j.stays && o.stays; j.Type == "" && j.Types == nil {
		j.Type, j.Types = o.Type, o.Types
	}
	for _, text := range []struct{ to, from *string }{{&j.Name, &o.Name}, {&j.User, &o.User}, {&j.Account, &o.Account},
		{&j.Partition, &o.Partition}, {&j.QOS, &o.QOS}, {&j.Reservation, &o.Reservation}, {&j.Features, &o.Features}} {
		*text.to = cmp.Or(*text.to, *text.from)
	}
	for _, number := range []struct{ to, from *int64 }{{&j.EligibleUs, &o.EligibleUs}, {&j.LimitUs, &o.LimitUs},
		{&j.EstimateUs, &o.EstimateUs}, {&j.Nodes, &o.Nodes}, {&j.CPUMilli, &o.CPUMilli}, {&j.MemoryMiB, &o.MemoryMiB}} {
		*number.to = cmp.Or(*number.to, *number.from)
	}
	j.Exclusive = j.Exclusive || o.Exclusive
	for _, list := range []struct{ to, from *[]string }{{&j.OnlyNodes, &o.OnlyNodes}, {&j.NotNodes, &o.NotNodes},
		{&j.After, &o.After}} {
		if len(*list.to) == 0 {
			*list.to = *list.from
		}
	}
	if len(j.Seconds) == 0 {
		j.Seconds = o.Seconds
	}
}

// held reports whether the nodes of a job tell of so many GPUs in all.
func (j *Job) held(gpus int64) bool {
	for _, h := range j.On {
		gpus -= h.GPUs
	}
	return gpus == 0
}

// countWhole gives jobs that had whole nodes, and of which no text tells the GPUs that they had, all GPUs of these.
func (l *Log) countWhole() {
	byName := make(map[string]*Node)
	for i := range l.Nodes {
		byName[l.Nodes[i].Name] = &l.Nodes[i]
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if !j.asked || !j.Exclusive || len(j.On) == 0 || !j.parts.none() {
			continue
		}
		var on []Held
		var gpus int64
		for _, h := range j.On {
			if n := byName[h.Node]; n != nil {
				for _, g := range n.GPUs {
					on, gpus = append(on, Held{Node: h.Node, Type: g.Type, GPUs: int64(g.Count)}), gpus+int64(g.Count)
				}
			}
		}
		if gpus > j.GPUs {
			j.On, j.GPUs, j.PerTask = on, gpus, 0
		}
	}
}

// countParts turns shards and units of MPS of jobs into parts of GPUs, by how many of them a GPU of the node has.
func (l *Log) countParts() {
	each := func(n *Node, of func(parts) int64) int64 {
		var gpus int64
		for _, g := range n.GPUs {
			gpus += int64(g.Count)
		}
		return of(n.parts) / max(1, gpus)
	}
	byName := make(map[string]*Node)
	for i := range l.Nodes {
		if !l.Nodes[i].parts.none() {
			byName[l.Nodes[i].Name] = &l.Nodes[i]
		}
	}
	var without []string // the nodes whose GPUs have no parts
	for i := range l.Nodes {
		if n := &l.Nodes[i]; len(byName) > 0 && n.parts.none() && len(n.GPUs) > 0 {
			without = append(without, n.Name)
		}
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if j.parts.none() {
			continue
		}
		if len(j.NotNodes) == 0 {
			j.NotNodes = without
		} else {
			j.NotNodes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(j.NotNodes, without))))
		}
		of := func(p parts) int64 { return p.shards }
		if j.parts.shards == 0 {
			of = func(p parts) int64 { return p.mps }
		}
		var per int64
		if len(j.On) > 0 && byName[j.On[0].Node] != nil {
			per = each(byName[j.On[0].Node], of)
		}
		for k := 0; k < len(l.Nodes) && per == 0; k++ {
			per = each(&l.Nodes[k], of)
		}
		hosts := int64(max(1, len(j.On)))
		had := (of(j.parts) + hosts - 1) / hosts // on each node
		switch {
		case per == 0 || had < per:
			if j.GPUs = hosts; hosts == 1 && per > 0 {
				j.PartMicro = max(1, had*1e6/per)
			}
			l.Report.assume("has a part of a GPU (shards or MPS): the parts of one GPU are planned as one job that holds it",
				j.Place)
		default:
			j.GPUs = min(hosts*((had+per-1)/per), hare.MaxGPUs)
			l.Report.assume("has parts of GPUs (shards or MPS) that add up to whole ones: holds these", j.Place)
		}
		for k := range j.On {
			j.On[k].GPUs = j.GPUs / hosts
		}
	}
}

// settle gives attempts of a job names of their own, orders nodes and jobs, and finds the end of
// the log.
func (l *Log) settle() {
	l.index, l.texts, l.held = nil, nil, 0
	slices.SortFunc(l.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	l.splitResized()
	l.sortJobs()
	l.merge()
	l.typeAccelerators()
	l.countWhole()
	l.countParts()
	if l.accounted > 0 && l.countedGPUs == 0 && slices.ContainsFunc(l.Jobs,
		func(j Job) bool { return j.GPUs == 0 || j.guessed }) {
		l.Report.Warnings = append(l.Report.Warnings,
			"Slurm's accounting counts no GPUs, so that jobs whose scripts alone ask for "+
				"them count as jobs without: set AccountingStorageTRES=gres/gpu in slurm.conf")
	}
	type attempt struct{ at, count int }
	attempts := make(map[string]attempt, len(l.Jobs))
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if first, again := attempts[j.ID]; again {
			what := "each attempt of a job that began again is a job of its own"
			if j.resizedUs > 0 && j.StartUs == j.resizedUs {
				what = "each size of a job that changed its size is a job of its own"
			}
			if f := &l.Jobs[first.at]; f.User != j.User || f.Name != j.Name {
				what = "another job of the same number is a job of its own"
			}
			first.count++
			attempts[j.ID] = first
			j.ID += "#" + itoa(int64(first.count))
			l.Report.assume(what, j.Place)
		} else {
			attempts[j.ID] = attempt{at: i, count: 1}
		}
		if l.NowUs < max(j.EndUs, j.StartUs, j.SubmitUs) {
			l.NowUs = max(j.EndUs, j.StartUs, j.SubmitUs)
		}
	}
}
