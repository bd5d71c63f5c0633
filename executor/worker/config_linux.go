package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/residency"
)

// Config says how a Node runs its workers.
type Config struct {
	// Python is the command of the interpreter; empty means python3.
	Python []string
	// Package is the folder in which Python finds hare_worker; empty means that it is
	// installed.
	Package string
	// Directory holds the sockets. It must belong to this user and be open to nobody else;
	// NewNode makes it where it is missing.
	Directory string
	// Devices is how many workers there are; zero means 1.
	Devices int
	// Environment is added to the environment of each worker, as NAME=value.
	Environment []string
	// DeviceEnvironment, where not nil, is added to the environment of one worker.
	DeviceEnvironment func(device int) []string
	// MemoryBytes is the memory of each device for the state of jobs, without what tasks
	// need while they compute; zero means no limit.
	MemoryBytes int64
	// Residency decides which jobs stay there; nil means residency.Hare{}.
	Residency residency.Policy
	// StartTimeout is how long a worker may take to start; zero means 60 s.
	StartTimeout time.Duration
	// Backoff is how long a device rests after its worker died twice without doing
	// anything between; the time doubles with each further death up to 30 s. Zero means 0.1 s.
	Backoff time.Duration
}

// passed are the variables of the agent's environment that workers get.
var passed = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}

// environment is that of the worker of a device. One thread does the arithmetic, unless the
// configuration says otherwise: sums by more threads have another order.
func (cfg *Config) environment(device int) []string {
	env := []string{"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "PYTHONHASHSEED=0",
		"PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if cfg.Package != "" {
		env = append(env, "PYTHONPATH="+cfg.Package)
	}
	env = append(env, cfg.Environment...)
	if cfg.DeviceEnvironment != nil {
		env = append(env, cfg.DeviceEnvironment(device)...)
	}
	return env
}

func (cfg *Config) validate() error {
	if len(cfg.Python) == 0 {
		cfg.Python = []string{"python3"}
	}
	if cfg.Devices == 0 {
		cfg.Devices = 1
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = MaxJobBytes
	}
	if cfg.Residency == nil {
		cfg.Residency = residency.Hare{}
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = time.Minute
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 100 * time.Millisecond
	}
	if cfg.Devices < 0 || cfg.Devices > 1024 {
		return &hare.InvalidError{Pointer: "/devices", Code: "out_of_range", Detail: "must be from 1 to 1024"}
	}
	if cfg.StartTimeout < 0 || cfg.Backoff < 0 {
		return &hare.InvalidError{Pointer: "/start_timeout", Code: "out_of_range", Detail: "times must not be negative"}
	}
	directory, err := filepath.Abs(cfg.Directory)
	if err != nil || cfg.Directory == "" {
		return &hare.InvalidError{Pointer: "/directory", Code: "required", Detail: "name a directory for sockets"}
	}
	cfg.Directory = directory
	return ownDirectory(directory)
}

// maxSocketPath is the length of the path of a socket directory that workers can use.
const maxSocketPath = 75

// SocketDirectory is a directory for the sockets of workers: a name in dir where that path is short enough for a
// socket, and a temporary one with a prefix otherwise. remove removes it.
func SocketDirectory(dir, name, prefix string) (path string, remove func(), err error) {
	path = filepath.Join(dir, name)
	if abs, err := filepath.Abs(path); err != nil || len(abs) > maxSocketPath {
		path, err = os.MkdirTemp("", prefix)
		return path, func() { _ = os.RemoveAll(path) }, err
	}
	return path, func() { _ = os.RemoveAll(path) }, nil
}

// ownDirectory makes a directory for this user alone, or refuses one that others may enter.
func ownDirectory(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	owner, ok := ownerOf(info)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && owner != os.Geteuid() {
		return fmt.Errorf("worker: %s must be a directory of this user that is closed to others: chmod 700 %s", path, path)
	}
	return nil
}

// ownerOf returns the user to whom a file belongs.
func ownerOf(info os.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
