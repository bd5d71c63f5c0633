package history

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/trace"
)

// Sources are the names of what Read reads and Export writes.
var Sources = []string{"slurm", "kube", "ray", "history"}

// PublicSources are the names of what Read reads besides: public traces of what happened on a
// cluster, and the snapshots of a scheduler.
var PublicSources = []string{"swf", "helios", "acme", "pai", "kai"}

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
	l := &Log{Source: source, Report: &Report{Source: source}}
	common := &reader{Log: l, maxJobs: cmp.Or(cfg.MaxJobs, maxJobs)}
	slurm, kube, ray := &slurmReader{reader: common}, &kubeReader{reader: common}, &rayReader{reader: common}
	tables := &tableReader{reader: common}
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
		if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0xff, 0xfe}) || bytes.Equal(magic, []byte{0xfe, 0xff}) {
			return nil, &RowError{Place{File: text.Name, Line: 1}, "the text is in UTF-16: save it as UTF-8"}
		}
		lines.skipMark(in)
		switch source {
		case "slurm":
			err = slurm.readSlurm(text.Name, in, cfg)
		case "kube":
			if isZip(in) {
				err = kube.readKAI(text.Name, in, cfg)
			} else {
				err = kube.readKube(text.Name, in, cfg)
			}
		case "kai":
			err = kube.readKAI(text.Name, in, cfg)
		case "ray":
			err = ray.readRay(text.Name, in, cfg.Zone)
		case "history", "helios", "acme":
			err = tables.readCSV(text.Name, in, cfg.Zone, cfg.AnyType)
		case "swf":
			err = tables.readSWF(text.Name, in, cfg)
		case "pai":
			err = tables.readPAI(text.Name, in)
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
	if kube.kubeLog != nil {
		kube.finishKube()
	}
	if ray.rayLog != nil {
		if err := ray.finishRay(); err != nil {
			return nil, err
		}
	}
	if empty := func(f File) bool { return f.Kind != "empty text" }; len(texts) > 0 && source == "slurm" &&
		!slices.ContainsFunc(l.Report.Files, empty) {
		return nil, &RowError{Place{File: texts[0].Name, Line: 1}, "the text is empty"}
	}
	if err := slurm.oneCluster(); err != nil {
		return nil, err
	}
	if err := tables.finishTables(cfg); err != nil {
		return nil, err
	}
	slurm.typeAccelerators()
	common.index, common.texts = nil, nil // whose memory settle can use
	l.settle()
	slurm.warnUncounted()
	return l, nil
}

// finishTables makes the jobs of tables that belong together, adds the nodes of cfg, and places the jobs of which no
// text says where they ran.
func (l *tableReader) finishTables(cfg ReadConfig) error {
	if l.pai != nil {
		if err := l.finishPAI(); err != nil {
			return err
		}
	}
	if len(cfg.GPUs) > 0 {
		if slices.ContainsFunc(l.Nodes, func(n Node) bool { return len(n.GPUs) > 0 && n.Name != headerPool }) {
			return errors.New("history: nodes are given both by a text and as GPUs (--gpus): leave one out")
		}
		l.Nodes, l.index = nil, nil
		for _, g := range cfg.GPUs {
			l.node(strings.ToLower(g.Type)).addGPUs(g.Type, g.Count)
		}
	}
	l.placeUnplaced()
	return nil
}
