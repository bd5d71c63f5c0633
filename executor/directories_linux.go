package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hare-sched/hare/executor/rounds"
)

// Tasks may run as another user than the agent (Config.RunAs). What the agent reads or writes in directories that the
// user may change it does with the user's rights, so that no link there leads it elsewhere. The files by which the
// agent and a runner know each other are in directories that the user may only pass.

// ownDirectory is the directory of a task's program in that of the task, where they have two users.
const ownDirectory = "own"

// checkpointsName is the name of the directory of checkpoints in that of the agent.
const checkpointsName = "checkpoints"

// programDir is the directory of the program of a round job, which the program may change.
func programDir(dir string) string {
	own := filepath.Join(dir, ownDirectory)
	if info, err := os.Lstat(own); err == nil && info.IsDir() {
		return own
	}
	return dir
}

// checkpointsDir keeps the checkpoints of jobs that name no directory.
func (s *session) checkpointsDir() string { return filepath.Join(s.cfg.Directory, checkpointsName) }

// dirMode is that of directories that the user of tasks must pass.
func (s *session) dirMode() fs.FileMode {
	if s.cfg.RunAs != nil {
		return 0o711
	}
	return 0o700
}

// makeDir makes a directory of the agent.
func (s *session) makeDir(path string) error {
	err := os.MkdirAll(path, s.dirMode())
	if err == nil && s.cfg.RunAs != nil { // it may have been made by an agent whose tasks had its own user
		err = os.Chmod(path, s.dirMode())
	}
	return err
}

// give makes a directory for the user of tasks, in one that the user cannot change.
func (s *session) give(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	user := s.cfg.RunAs
	if at, ok := info.Sys().(*syscall.Stat_t); ok && user != nil && (at.Uid != user.UID || at.Gid != user.GID) {
		return os.Lchown(path, int(user.UID), int(user.GID))
	}
	return nil
}

// checkpointsOf makes the directory for the checkpoints of a job: the one that the job names, or its own on this node.
func (s *session) checkpointsOf(job, named string) (string, error) {
	if named != "" {
		return named, s.cfg.RunAs.Do(func() error { return os.MkdirAll(named, 0o700) })
	}
	if err := s.makeDir(s.checkpointsDir()); err != nil {
		return "", err
	}
	path := filepath.Join(s.checkpointsDir(), job)
	return path, s.give(path)
}

// checkUser says why tasks cannot run as their user.
func (s *session) checkUser() error {
	user := s.cfg.RunAs
	if user == nil {
		return nil
	}
	err := user.Do(func() error {
		_, err := os.Stat(s.tasksDir() + "/.")
		return err
	})
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("user %s cannot enter the agent's directory %s: give --directory, such as /var/lib/hare-agent",
			user.Name, s.cfg.Directory)
	}
	if err != nil {
		return fmt.Errorf("tasks cannot run as user %s: %w: start the agent as root", user.Name, err)
	}
	return nil
}

// progressOf reads how far the round job of a directory is.
func (s *session) progressOf(dir string) (far rounds.Progress, err error) {
	program := programDir(dir)
	if program == dir {
		return rounds.ReadProgress(dir)
	}
	err = s.cfg.RunAs.Do(func() (err error) {
		far, err = rounds.ReadProgress(program)
		return err
	})
	return far, err
}
