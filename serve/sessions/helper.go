package sessions

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// staleLoops is after how many loops without a word a helper counts as stopped, and staleLeast is the least time.
const (
	staleLoops = 3
	staleLeast = 10 * time.Second
)

// followed is what a server knows of a session that a helper beside another scheduler keeps in a directory. The server
// takes no lock there and writes nothing.
type followed struct {
	helper, dir string
	seen        os.FileInfo // of the state that was read or tried last; used by the follower alone
	retry       time.Time   // when a state that could not be read is tried again; used by the follower alone

	mu    sync.Mutex
	actor *actor // which has the policy, and never runs; nil: nothing was read
	state sessiondoc.HelperState
	fault string // why the last state could not be read
}

// FollowedError says that a session is a helper's, which alone changes it.
type FollowedError struct{ Helper string }

func (e *FollowedError) Error() string {
	return fmt.Sprintf("the session is that of hare %s, which alone changes it: here it can be read", e.Helper)
}

// UnreadError says that nothing is known of a session that a helper keeps.
type UnreadError struct{ Fault string }

func (e *UnreadError) Error() string { return e.Fault }

// read reads the state of the session.
func (f *followed) read(ss *Sessions) (*SessionConfig, error) {
	path := filepath.Join(f.dir, sessiondoc.HelperFile)
	text, err := readRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		if _, far := os.Stat(filepath.Join(f.dir, "state.json")); far == nil {
			return nil, fmt.Errorf("%s: the session of this helper is one of the server that it names by --server", f.dir)
		}
		return nil, fmt.Errorf("%s is not there: hare %s writes it with each plan", path, f.helper)
	}
	if err != nil {
		return nil, err
	}
	d := &f.state
	if err := json.Unmarshal(text, d); err != nil || d.Form != sessiondoc.HelperForm ||
		d.Log != filepath.Base(d.Log) || d.Log == ".." {
		return nil, fmt.Errorf("%s is not the state of a helper's session that this version reads", path)
	}
	if d.Helper != f.helper {
		return nil, fmt.Errorf("%s is that of hare %.20s, not of hare %s", path, d.Helper, f.helper)
	}
	log, err := openRegular(filepath.Join(f.dir, d.Log))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	line, err := bufio.NewReader(io.LimitReader(log, maxHelperState)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s has no first line: %w", log.Name(), err)
	}
	header, err := wire.DecodeLogHeader(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", log.Name(), err)
	}
	a := &actor{atUs: d.AtUs, links: store.Chain{Last: d.Seq}, filling: newBatch(), told: d.Jobs}
	err = recovered(func() (err error) {
		a.policy, err = ss.cfg.Restore(header.Policy, d.State)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: the state of the session cannot be read: %w", path, err)
	}
	f.actor = a
	// The session began at its Origin, so that its times are those of a server's clock.
	return &SessionConfig{Cluster: header.Cluster, Policy: header.Policy, Parameters: header.Parameters,
		Clock: ClockServer, Tags: f.tags()}, nil
}

// maxHelperState limits the files of a helper that are read as a whole: a hundred times what 5,000 waiting jobs take.
const maxHelperState = 1 << 29

// openRegular opens a file for reading, and refuses what is no regular file, such as a pipe, on which it would wait.
func openRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}

// readRegular reads a regular file.
func readRegular(path string) ([]byte, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxHelperState+1))
	if err == nil && len(text) > maxHelperState {
		err = fmt.Errorf("%s has over %d bytes", path, maxHelperState)
	}
	return text, err
}

func (f *followed) tags() wire.Tags { return wire.Tags{Labels: map[string]string{"helper": f.helper}} }

// view calls show with the policy after the last state.
func (f *followed) view(show func(*actor)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.actor == nil {
		return &UnreadError{f.fault}
	}
	return recovered(func() error { show(f.actor); return nil })
}

// description describes who keeps the session; nil where no helper does.
func (f *followed) description(now time.Time) *sessiondoc.Followed {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &sessiondoc.Followed{Helper: f.helper, Fault: f.fault}
	if f.actor != nil {
		at := f.state.Written
		most := max(staleLeast, time.Duration(staleLoops*f.state.EveryS*float64(time.Second)))
		d.At, d.Stale = &at, now.Sub(at) > most
	}
	return d
}

// handedOver is why a job waits that the session has started and the scheduler of the helper has not.
func handedOver(helper string) online.Reason {
	return online.Reason{Code: online.HandedOver, Short: "the plan starts it now", Text: "The plan starts it now, and " +
		schedulers[helper] + " had not started it when the helper last looked."}
}

var schedulers = map[string]string{"slurm": "Slurm", "kube": "Kubernetes", "ray": "Ray"}
