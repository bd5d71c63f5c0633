package clusters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hare-sched/hare/internal/atomicfile"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// ErrNoCheckpoint says that the server does not have the copy of a checkpoint that an agent asks for.
var ErrNoCheckpoint = errors.New("clusters: no such copy of a checkpoint")

func copyName(x *clusterdoc.CheckpointCopy) string {
	return fmt.Sprintf("%d-%d-%s", x.Attempt, x.Round, x.SHA256)
}

// PutCheckpoint stores a piece of a checkpoint at its offset, and takes the whole in the place of the copy before it
// once the last piece is there and the hash is right. Bytes that are stored already are not stored again. The answer
// says where to go on.
func (c *Cluster) PutCheckpoint(ctx context.Context, agent string, at *clusterdoc.CheckpointChunk, body io.Reader) (
	*clusterdoc.CheckpointStored, error) {
	old, err := c.mayCopy(ctx, agent, at)
	if err != nil {
		return nil, err
	}
	piece, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	m := &c.copies.locks[len(at.Job)%16^int(at.Job[len(at.Job)-1])%16]
	m.Lock()
	defer m.Unlock()
	stored := &clusterdoc.CheckpointStored{}
	switch {
	case old != nil && *old == at.CheckpointCopy:
		return &clusterdoc.CheckpointStored{Next: at.Bytes, Complete: true}, nil
	case old != nil && at.Round <= old.Round:
		return nil, &ledger.Conflict{Code: "old_checkpoint", Detail: fmt.Sprintf("the server has the checkpoint behind "+
			"round %d: bring a later one", old.Round)}
	}
	if err = c.storePiece(ctx, at, piece, stored); err == nil && stored.Next == at.Bytes {
		err = c.takeCopy(ctx, agent, at)
		stored.Complete = err == nil
	}
	c.noteProblem(at.Job, err)
	if err != nil {
		c.copies.mu.Lock()
		delete(c.copies.parts, at.Job) // what is on the disk counts all the same
		c.copies.mu.Unlock()
		return nil, errors.Join(err, c.countCopies())
	}
	return stored, nil
}

// mayCopy says why an agent may not bring or get the checkpoint of an attempt, or returns the copy that is there.
func (c *Cluster) mayCopy(ctx context.Context, agent string, at *clusterdoc.CheckpointChunk) (
	old *clusterdoc.CheckpointCopy, err error) {
	if c.parent.cfg.MaxCheckpoints < 0 {
		return nil, &ledger.Conflict{Code: "checkpoints_off", Detail: "the server keeps no checkpoints: hare serve " +
			"--checkpoints is 0"}
	}
	if _, err := c.present(agent, at.Epoch, at.Secret); err != nil {
		return nil, err
	}
	err = c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		ok := false
		if old, ok = l.MayCopy(agent, at.Job, at.Attempt); !ok {
			return nil, ErrNoJob
		}
		return nil, nil
	}})
	return old, err
}

// storePiece writes a piece to the end of the part of a copy.
func (c *Cluster) storePiece(ctx context.Context, at *clusterdoc.CheckpointChunk, piece []byte,
	stored *clusterdoc.CheckpointStored) (err error) {
	dir := filepath.Join(c.copyDir(), at.Job)
	whole := filepath.Join(dir, copyName(&at.CheckpointCopy))
	if intact(whole, at) {
		stored.Next = at.Bytes // the server ended before it could note so
		return nil
	}
	info, err := os.Stat(whole + partSuffix)
	if err == nil && info.Size() > at.Bytes {
		return errors.Join(&ledger.Conflict{Code: "damaged_checkpoint", Detail: fmt.Sprintf("the server has %d bytes of "+
			"the checkpoint, and it is said to have %d: bring it again", info.Size(), at.Bytes)}, os.Remove(whole+partSuffix))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		have := int64(0)
		if err == nil {
			have = info.Size()
		}
		if err := c.makeRoom(ctx, at, err == nil, have); err != nil {
			return err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: %w", store.ErrStorage, err)
		}
		if err := removeOthers(dir, partSuffix, ""); err != nil {
			return fmt.Errorf("%w: %w", store.ErrStorage, err)
		}
	} else if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	} else {
		stored.Next = info.Size()
	}
	skip := stored.Next - at.Offset
	if skip < 0 || skip > int64(len(piece)) {
		return nil
	}
	piece = piece[skip:][:min(int64(len(piece))-skip, at.Bytes-stored.Next)]
	if !c.storeWithin(int64(len(piece))) {
		return c.overQuota(at)
	}
	c.copies.bytes.Add(int64(len(piece)))
	f, err := os.OpenFile(whole+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	n, err := f.Write(piece)
	stored.Next += int64(n)
	if err = errors.Join(err, f.Close()); err != nil {
		// A disk that is full is not to be filled by half a copy.
		return fmt.Errorf("%w: %w", store.ErrStorage, errors.Join(err, os.Remove(whole+partSuffix)))
	}
	c.parent.counts.copyBytes.Add(int64(n))
	return nil
}

// takeCopy makes a copy durable of which all bytes are there, notes it in the journal, and removes the one before.
func (c *Cluster) takeCopy(ctx context.Context, agent string, at *clusterdoc.CheckpointChunk) error {
	dir := filepath.Join(c.copyDir(), at.Job)
	whole := filepath.Join(dir, copyName(&at.CheckpointCopy))
	if !intact(whole, at) {
		if err := settle(whole, at.SHA256); err != nil {
			return err
		}
	}
	err := c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		if _, ok := l.MayCopy(agent, at.Job, at.Attempt); !ok {
			return nil, ErrNoJob
		}
		return &ledger.Record{Copy: &ledger.Copied{Job: at.Job, CheckpointCopy: at.CheckpointCopy}}, nil
	}})
	if err != nil {
		return err
	}
	c.copies.mu.Lock()
	delete(c.copies.parts, at.Job)
	c.copies.mu.Unlock()
	c.parent.counts.copies.Add(1)
	if err := removeOthers(dir, "", filepath.Base(whole)); err != nil {
		c.parent.cfg.Logger.Warn("an old copy of a checkpoint cannot be removed", "cluster", c.name, "job", at.Job,
			"error", err)
	}
	return c.countCopies()
}

// settle makes the part of a copy the copy, where its hash is right; else it removes the part.
func settle(whole, sum string) error {
	f, err := os.OpenFile(whole+partSuffix, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	defer f.Close()
	got, err := hashOf(f)
	if err == nil && got != sum {
		return errors.Join(&ledger.Conflict{Code: "damaged_checkpoint", Detail: "the checkpoint has arrived damaged, its " +
			"SHA-256 is " + got + ": bring it again"}, os.Remove(whole+partSuffix))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(whole+partSuffix, whole)
	}
	if err == nil {
		err = syncDirectories(filepath.Dir(whole))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrStorage, err)
	}
	return nil
}

// intact reports whether a file is the whole of a copy and has its hash.
func intact(whole string, at *clusterdoc.CheckpointChunk) bool {
	info, err := os.Stat(whole)
	if err != nil || info.Size() != at.Bytes {
		return false
	}
	f, err := os.Open(whole)
	if err != nil {
		return false
	}
	defer f.Close()
	sum, err := hashOf(f)
	return err == nil && sum == at.SHA256
}

// syncDirectories makes the names in the directory of a job durable, and those of it and of the two directories above
// it, of the cluster and of all copies.
func syncDirectories(dir string) error {
	for range 4 {
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// removeOthers removes the files of a directory that end with a suffix, all but one.
func removeOthers(dir, suffix, but string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != but && strings.HasSuffix(e.Name(), suffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// noteProblem keeps for people why a copy was not stored, and says so once.
func (c *Cluster) noteProblem(job string, err error) {
	var conflict *ledger.Conflict
	text := ""
	switch {
	case errors.Is(err, store.ErrStorage):
		text = "the disk of the server does not take it: " + err.Error()
		if errors.Is(err, syscall.ENOSPC) {
			text = "the disk of the server is full"
		}
	case errors.As(err, &conflict):
		text = conflict.Detail
	case err != nil:
		return
	}
	c.copies.mu.Lock()
	defer c.copies.mu.Unlock()
	if text == c.copies.problems[job] {
		return
	}
	delete(c.copies.problems, job)
	if text != "" {
		c.copies.problems[job] = text
		c.parent.cfg.Logger.Warn("no copy of the checkpoint of a job is kept; the job goes on", "cluster", c.name,
			"job", job, "reason", text)
	}
}

func (c *Cluster) copyProblem(job string) string {
	c.copies.mu.Lock()
	defer c.copies.mu.Unlock()
	return c.copies.problems[job]
}

// sweep forgets copies that are gone, as after a backup was restored, and then removes those of jobs that have ended.
func (c *Cluster) sweep() {
	ctx := c.parent.context
	var all []ledger.Copied
	if err := c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		all = l.Copies()
		return nil, nil
	}}); err != nil {
		return
	}
	for i := range all {
		x := &all[i]
		info, err := os.Stat(filepath.Join(c.copyDir(), x.Job, copyName(&x.CheckpointCopy)))
		switch {
		case c.parent.cfg.MaxCheckpoints < 0:
			_ = c.forgetCopy(ctx, x.Job, &x.CheckpointCopy, "hare serve --checkpoints is 0")
		case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != x.Bytes:
			_ = c.forgetCopy(ctx, x.Job, &x.CheckpointCopy, "is not there")
		}
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := c.removeCopies(ctx, keepCopies); err != nil && ctx.Err() == nil {
			c.parent.cfg.Logger.Warn("old copies of checkpoints cannot be removed", "cluster", c.name, "error", err)
		}
		select {
		case <-tick.C:
		case <-c.ended:
			return
		}
	}
}

// forgetCopy notes that a copy is lost, where it is still the one that counts.
func (c *Cluster) forgetCopy(ctx context.Context, job string, lost *clusterdoc.CheckpointCopy, why string) error {
	c.parent.cfg.Logger.Error("a copy of a checkpoint is lost: the job begins again where its nodes have none", "cluster",
		c.name, "job", job, "round", lost.Round, "reason", why)
	return c.do(ctx, &request{prepare: func(l *ledger.Ledger) (*ledger.Record, error) {
		for _, x := range l.Copies() {
			if x.Job == job && x.CheckpointCopy == *lost {
				return &ledger.Record{Copy: &ledger.Copied{Job: job}}, nil
			}
		}
		return nil, nil
	}})
}

// OpenCheckpoint opens the copy of the checkpoint for an attempt that begins with it, at an offset. A copy that is not
// the one with the hash gives ErrNoCheckpoint, and so does one that is damaged, from the first byte on.
func (c *Cluster) OpenCheckpoint(ctx context.Context, agent string, at *clusterdoc.CheckpointChunk) (io.ReadCloser,
	error) {
	now, err := c.mayCopy(ctx, agent, at)
	if err != nil {
		return nil, err
	}
	if now == nil || now.SHA256 != at.SHA256 {
		return nil, ErrNoCheckpoint
	}
	f, err := os.Open(filepath.Join(c.copyDir(), at.Job, copyName(now)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(ErrNoCheckpoint, c.forgetCopy(ctx, at.Job, now, "is not there"))
	}
	if err != nil {
		return nil, err
	}
	if at.Offset == 0 {
		sum, err := hashOf(f)
		if err == nil && sum != now.SHA256 {
			return nil, errors.Join(ErrNoCheckpoint, f.Close(), c.forgetCopy(ctx, at.Job, now, "is damaged"))
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if _, err := f.Seek(at.Offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
