package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// readSlurm tells the kinds of texts apart by their first bytes.
func (l *slurmReader) readSlurm(name string, in *bufio.Reader, cfg ReadConfig) error {
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
		read := l.readerOf(first)
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

// readerOf returns the reader of a text by its first line in lower case; nil for no such text.
func (l *slurmReader) readerOf(first string) func(string, *bufio.Reader, *time.Location) error {
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
