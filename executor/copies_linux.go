package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/executor/rounds"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

const (
	// copyPause is how many times as long as it has worked an agent pauses before it goes on with copies of checkpoints.
	copyPause = 9
	// retryCopy is the wait after a copy that the server did not take, or did not have.
	retryCopy = time.Second
	// fullCopy is the wait after the server's disk did not take a copy, and refusedCopy after the server has said that it
	// keeps no such copy.
	fullCopy    = 10 * time.Second
	refusedCopy = time.Minute
	// maxFetches is how many times a copy is fetched that arrives damaged each time.
	maxFetches = 3
)

// exchangeAsUser calls exchange with what the user of the tasks may do: the directories are the user's.
func (s *session) exchangeAsUser(p *process) {
	_ = s.cfg.RunAs.Do(func() error { // exchange says itself what goes wrong
		s.exchange(p)
		return nil
	})
}

// exchange gets the copy of the checkpoint that a round job begins with, and then brings its checkpoints to the
// server, the newest one at a time.
func (s *session) exchange(p *process) {
	dir := programDir(p.dir)
	spec, err := rounds.ReadSpec(dir)
	if err != nil {
		return // a command, or a job whose checkpoints are not copied
	}
	ctx, stop := context.WithCancel(s.context)
	defer stop()
	go func() {
		select {
		case <-p.over:
			stop()
		case <-ctx.Done():
		}
	}()
	has := false // as many rounds as the server's copy
	if spec.Fetch != nil {
		if _, err := rounds.ReadFetched(dir); errors.Is(err, fs.ErrNotExist) {
			var f *rounds.Fetched
			f, has = s.fetch(ctx, p, &spec)
			if ctx.Err() != nil {
				return
			}
			if err := rounds.WriteFetched(dir, f); err != nil {
				s.cfg.Logger.Error("a round job cannot begin", "job", p.id.Job, "error", err)
			}
		} else if spec.Copied { // the agent has started again
			has, _ = rounds.HasRound(spec.Checkpoint, spec.Fetch.Round)
		}
	}
	if !spec.Copied {
		return
	}
	brought, problem := int64(0), ""
	if has {
		brought = spec.Fetch.Round
	}
	for wait := time.Duration(0); pause(ctx, max(wait, retryCopy)); {
		wait = 0
		if now, err := rounds.ReadProgress(dir); err != nil || now.Round <= brought || !s.ready.Load() {
			continue
		}
		round, err := s.bring(ctx, p, &spec, brought)
		var refused *client.Problem
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			brought, wait, problem = max(brought, round), s.cfg.CopyEvery, ""
			continue
		case errors.As(err, &refused) && (refused.Code == "stale_epoch" || refused.Code == "unknown_agent"):
			continue // the agent registers again
		case errors.As(err, &refused) && refused.Status >= 500:
			wait = fullCopy
		case errors.As(err, &refused):
			wait = refusedCopy
		case rounds.Damaged(err):
			wait = s.cfg.CopyEvery // the next one takes its place
		}
		if text := err.Error(); text != problem {
			problem = text
			s.cfg.Logger.Warn("the server has no copy of a checkpoint; the job goes on", "job", p.id.Job, "error", err)
		}
	}
}

// seldom calls f, and afterwards keeps all copying of this agent waiting for copyPause times as long as the call
// took.
func (s *session) seldom(ctx context.Context, f func() error) error {
	select {
	case <-s.copying:
	case <-ctx.Done():
		return ctx.Err()
	}
	begun := time.Now()
	err := f()
	time.AfterFunc(copyPause*time.Since(begun), func() { s.copying <- struct{}{} })
	return err
}

// bring brings the checkpoint of a job to the server, where it has more rounds and is not damaged, and returns its
// rounds. The file is read to its end though a newer one may take its place meanwhile.
func (s *session) bring(ctx context.Context, p *process, spec *rounds.Spec, more int64) (round int64, err error) {
	f, err := os.Open(spec.Checkpoint)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	check, err := rounds.NewCheckpointCheck(f)
	if err != nil {
		return 0, err
	}
	if round = check.Version; round <= more {
		return round, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	at := &clusterdoc.CheckpointChunk{Job: p.id.Job, CheckpointCopy: clusterdoc.CheckpointCopy{Attempt: p.id.Attempt,
		Round: round, Bytes: info.Size()}}
	h, piece := sha256.New(), make([]byte, chunkBytes)
	both := io.MultiWriter(h, check)
	for offset := int64(0); offset < at.Bytes; offset += int64(len(piece)) {
		err := s.seldom(ctx, func() error {
			n, err := f.ReadAt(piece[:min(int64(len(piece)), at.Bytes-offset)], offset)
			_, _ = both.Write(piece[:n])
			return err
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	if err := check.Err(); err != nil {
		return 0, err
	}
	at.SHA256 = hex.EncodeToString(h.Sum(nil))
	for {
		var stored *clusterdoc.CheckpointStored
		err := s.seldom(ctx, func() error {
			n, err := f.ReadAt(piece[:min(int64(len(piece)), at.Bytes-at.Offset)], at.Offset)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			now := s.term.Load()
			at.Epoch, at.Secret = now.epoch, now.secret
			stored, err = s.cfg.Server.PutCheckpoint(ctx, s.cfg.Cluster, s.cfg.Name, at, piece[:n])
			return err
		})
		if err != nil {
			return 0, err
		}
		if stored.Complete {
			return round, nil
		}
		if stored.Next < 0 || stored.Next >= at.Bytes {
			return 0, errors.New("the server does not say what it has of the checkpoint")
		}
		at.Offset = stored.Next
	}
}

// fetch gets the copy of the checkpoint that a job begins with, where the node has none that is as new, and says
// whether it has one then.
func (s *session) fetch(ctx context.Context, p *process, spec *rounds.Spec) (f *rounds.Fetched, has bool) {
	failed := func(err error) (*rounds.Fetched, bool) {
		return &rounds.Fetched{Error: fmt.Sprintf("the copy of the checkpoint after round %d cannot be kept here: %v",
			spec.Fetch.Round, err)}, false
	}
	switch has, err := rounds.HasRound(spec.Checkpoint, spec.Fetch.Round); {
	case err != nil:
		return failed(err)
	case has:
		return &rounds.Fetched{}, true
	}
	part := spec.Checkpoint + ".copy"
	lost := func(why string) (*rounds.Fetched, bool) {
		s.cfg.Logger.Warn("the server's copy of a checkpoint is not available: the job begins with what its nodes have",
			"job", p.id.Job, "round", spec.Fetch.Round, "reason", why)
		_ = os.Remove(part)
		return &rounds.Fetched{}, false
	}
	for n := 1; ; {
		err := s.download(ctx, p, spec, part)
		var refused *client.Problem
		var local *fs.PathError
		switch {
		case ctx.Err() != nil:
			return nil, false
		case err == nil:
			err := rounds.TakeCheckpoint(part, spec.Checkpoint, spec.Fetch.Round)
			if rounds.Damaged(err) {
				return lost(err.Error()) // it was damaged when it was brought
			}
			if err != nil {
				return failed(err)
			}
			s.cfg.Logger.Info("a round job goes on from the server's copy", "job", p.id.Job, "round", spec.Fetch.Round,
				"bytes", spec.Fetch.Bytes)
			return &rounds.Fetched{}, true
		case errors.Is(err, errDamaged):
			if n++; n > maxFetches {
				return lost(err.Error())
			}
		case errors.As(err, &refused) && (refused.Status == 404 || refused.Code == "checkpoints_off"):
			return lost(err.Error())
		case errors.As(err, &local):
			_ = os.Remove(part)
			return failed(err)
		}
		if !pause(ctx, retryCopy) {
			return nil, false
		}
	}
}

var errDamaged = errors.New("it arrives damaged")

// download gets what is missing of a copy, and checks its hash.
func (s *session) download(ctx context.Context, p *process, spec *rounds.Spec, part string) error {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size > spec.Fetch.Bytes {
		if size = 0; f.Truncate(0) != nil {
			return errDamaged
		}
	}
	at := &clusterdoc.CheckpointChunk{Job: p.id.Job, CheckpointCopy: clusterdoc.CheckpointCopy(*spec.Fetch),
		Offset: size}
	at.Attempt = p.id.Attempt
	for at.Offset < spec.Fetch.Bytes {
		if !s.ready.Load() {
			return errors.New("the agent has not registered")
		}
		now := s.term.Load()
		at.Epoch, at.Secret = now.epoch, now.secret
		piece, err := s.cfg.Server.GetCheckpoint(ctx, s.cfg.Cluster, s.cfg.Name, at)
		if err != nil {
			return err
		}
		if len(piece) == 0 || int64(len(piece)) > spec.Fetch.Bytes-at.Offset {
			return errors.Join(errDamaged, f.Truncate(0))
		}
		n, err := f.WriteAt(piece, at.Offset)
		if at.Offset += int64(n); err != nil {
			return err
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, at.Offset)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != spec.Fetch.SHA256 {
		return errors.Join(errDamaged, f.Truncate(0))
	}
	return nil
}
