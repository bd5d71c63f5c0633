package executor

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Times of the upload of outputs.
const (
	uploadEvery = 500 * time.Millisecond
	// lastUpload is how long the report of an end waits for the remainder of its outputs.
	lastUpload = 5 * time.Second
	chunkBytes = 1 << 20
)

// follow uploads the outputs of a task while it runs, and tells the agent its end once the outputs are uploaded.
func (s *session) follow(p *process) {
	defer close(p.done)
	ticker := time.NewTicker(uploadEvery)
	defer ticker.Stop()
	for over := false; !over; {
		select {
		case <-p.over:
			over = true
		case <-ticker.C:
			if s.ready.Load() {
				s.tellProgress(p)
				_ = s.upload(s.context, p)
			}
		case <-s.context.Done():
			return
		}
	}
	var end clusterdoc.TaskReport
	if p.server {
		end = *p.end
	} else {
		end = s.endOf(p)
	}
	ctx, cancel := context.WithTimeout(s.context, lastUpload)
	err := s.upload(ctx, p)
	cancel()
	select {
	case s.endings <- end:
	case <-s.context.Done():
		return
	}
	for err != nil && !p.forget.Load() { // the remainder follows the end
		select {
		case <-ticker.C:
			err = s.upload(s.context, p)
		case <-s.context.Done():
			return
		}
	}
}

// tellProgress tells the server how far a round job is, where that has changed.
func (s *session) tellProgress(p *process) {
	now, err := s.progressOf(p.dir)
	if err != nil || now.Round == 0 || now.Round == p.said.Round && now.Loss == p.said.Loss ||
		p.server { // the pool tells that of parameter servers
		return
	}
	select {
	case s.progress <- clusterdoc.TaskReport{TaskID: p.id, State: clusterdoc.TaskRunning, Round: now.Round,
		Loss: now.Loss}:
		p.said = now
	case <-s.context.Done():
	}
}

// endOf reads how a task ended whose runner has.
func (s *session) endOf(p *process) clusterdoc.TaskReport {
	r := clusterdoc.TaskReport{TaskID: p.id, State: clusterdoc.TaskEnded}
	far, _ := s.progressOf(p.dir) // a command has none
	r.Round, r.Loss = far.Round, far.Loss
	e, err := runner.ReadExit(p.dir)
	if err != nil {
		if err := runner.Clear(p.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.cfg.Logger.Error("processes of a task may be left", "job", p.id.Job, "error", err)
		}
		log, _ := os.ReadFile(filepath.Join(p.dir, "runner.log"))
		r.State, r.Error = clusterdoc.TaskLost, "the process that watches over the task was killed"
		if text := strings.TrimSpace(string(log)); text != "" {
			r.Error += ": " + text[:min(len(text), 200)]
		}
		return r
	}
	r.ExitCode, r.Signal, r.Error, r.RanS = e.ExitCode, e.Signal, e.Error, e.RanS
	if e.Error == runner.LeaseOver {
		r.State = clusterdoc.TaskLost // which is not a failure of the task
	}
	if r.Error == "" && (r.ExitCode == nil || *r.ExitCode != 0) {
		r.Error, r.Apart = far.Error, far.Apart
	}
	return r
}

// upload sends what is new in the outputs of a task.
func (s *session) upload(ctx context.Context, p *process) error {
	for i, stream := range []string{clusterdoc.StreamStdout, clusterdoc.StreamStderr} {
		f, err := os.Open(filepath.Join(p.dir, stream))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = s.uploadStream(ctx, p, i, stream, f)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) uploadStream(ctx context.Context, p *process, i int, stream string, f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() <= p.sent[i] {
		return err
	}
	if p.piece == nil {
		p.piece = make([]byte, chunkBytes)
	}
	for !p.full[i] {
		n, err := f.ReadAt(p.piece, p.sent[i])
		if n == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		now := s.term.Load()
		stored, err := s.cfg.Server.PutLog(ctx, s.cfg.Cluster, s.cfg.Name, &clusterdoc.LogChunk{Epoch: now.epoch,
			Secret: now.secret, TaskID: p.id, Stream: stream, Offset: p.sent[i]}, p.piece[:n])
		if err != nil {
			return err
		}
		if stored.Next <= p.sent[i] && !stored.Full {
			return errors.New("the server stores nothing of the output")
		}
		p.sent[i], p.full[i] = stored.Next, stored.Full
	}
	return nil
}
