package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// check is one line of the report of hare doctor.
type check struct {
	name, found, remedy string
	ok                  bool
}

type doctorFlags struct {
	listen, dataDir, cert, key string
}

func doctorCommand() *cobra.Command {
	var df doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what Hare needs on this machine, and name the remedy for what is missing",
		Long: `Doctor checks the LP engine, memory, the address and the directories that hare
serve would use. In the data directory it reads and checks every solve, every
session, the keys and the copies of checkpoints, also while a server uses the directory
or the disk is full or mounted read-only. It finds commits that were acknowledged and
are missing, and files that other users can read. Each problem is printed with its
remedy. Doctor exits with 1 if it finds a problem.`,
		Example: "  hare doctor\n  hare doctor --listen 127.0.0.1:9000 --data-dir /var/lib/hare",
		Args:    exactly(0, "no arguments"),
		RunE:    func(c *cobra.Command, _ []string) error { return df.run(c.Context()) },
	}
	c.Flags().StringVar(&df.listen, "listen", "127.0.0.1:8080", "the address that serve would use")
	c.Flags().StringVar(&df.dataDir, "data-dir", os.TempDir(),
		"a directory that must be writable, and whose sessions are checked")
	c.Flags().StringVar(&df.cert, "tls-cert", "", "check that this certificate, which serve would use, is valid for two "+
		"more weeks")
	c.Flags().StringVar(&df.key, "tls-key", "", "check that this private key, which serve would use, is closed to other "+
		"users of this machine")
	_ = c.MarkFlagDirname("data-dir")
	return c
}

func (df *doctorFlags) run(ctx context.Context) error {
	checks := []check{engineCheck(ctx), memoryCheck(), dirCheck(df.dataDir), sessionsCheck(ctx, df.dataDir),
		keysCheck(df.dataDir), portCheck(df.listen), coreCheck()}
	if k, ok := checkpointsCheck(df.dataDir); ok {
		checks = append(checks, k)
	}
	if k, ok := openCheck(df.dataDir); ok {
		checks = append(checks, k)
	}
	if df.cert != "" {
		checks = append(checks, certificateCheck(df.cert, time.Now()))
	}
	if df.key != "" {
		checks = append(checks, privateKeyCheck(df.key))
	}
	bad := false
	for _, k := range checks {
		mark := "ok  "
		if !k.ok {
			mark, bad = "FAIL", true
		}
		fmt.Fprintf(stdout, "%s  %-16s %s\n", mark, k.name, k.found)
		if !k.ok {
			fmt.Fprintf(stdout, "      remedy: %s\n", k.remedy)
		}
	}
	if bad {
		return errNo
	}
	return nil
}

// engineCheck solves max x, x ≤ 3 in a worker.
func engineCheck(ctx context.Context) check {
	k := check{name: "HiGHS worker", remedy: "keep lib next to hare, as archives and make build have it, or name " +
		"the library in HARE_LIBHIGHS; " +
		"without it the Go engine alone serves price bounds"}
	pool, err := newPool()
	if err != nil {
		k.found = err.Error()
		return k
	}
	defer func() { _ = pool.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	began := time.Now()
	sol, err := pool.Solve(ctx, &lp.Problem{
		Maximize: true, Cost: []float64{1}, ColLower: []float64{0}, ColUpper: []float64{math.Inf(1)},
		RowLower: []float64{math.Inf(-1)}, RowUpper: []float64{3}, Start: []int32{0, 1}, Index: []int32{0},
		Value: []float64{1},
	})
	switch {
	case errors.Is(err, lp.ErrUnavailable):
		k.found = words.Plain(strings.TrimPrefix(pool.Stats().LastError, lp.ErrUnavailable.Error()+": "))
	case err != nil:
		k.found = err.Error()
	case math.Abs(sol.Objective-3) > 1e-6:
		k.found = fmt.Sprintf("answers %g for a problem whose optimum is 3", sol.Objective)
	default:
		k.ok, k.found = true, fmt.Sprintf("HiGHS %s, solved a test problem in %.0f ms", pool.Version(),
			float64(time.Since(began).Microseconds())/1e3)
	}
	return k
}

func memoryCheck() check {
	k := check{name: "memory limit", ok: true, remedy: "raise it with ulimit -v (kilobytes); each LP worker needs up " +
		"to 4 GiB of address space"}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &r); err != nil {
		k.found = err.Error()
		return k
	}
	if r.Cur == unix.RLIM_INFINITY || r.Cur > math.MaxInt64 {
		k.found = "no limit on address space"
		return k
	}
	k.ok = r.Cur >= 4<<30
	k.found = fmt.Sprintf("address space limited to %d MiB", r.Cur>>20)
	return k
}

// roomBytes is the least room of a disk on which a server can work for a while.
const roomBytes = 4 << 20

// diskFull reports whether the disk of a directory has no room left for this user, and how
// many bytes are free.
func diskFull(dir string) (full bool, free uint64) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return false, 0
	}
	free = fs.Bavail * uint64(fs.Bsize)
	return free < roomBytes, free
}

func dirCheck(dir string) check {
	k := check{name: "data directory", remedy: "create it and make it writable for this user: mkdir -p DIR && chown " +
		"$(id -u) DIR"}
	f, err := os.CreateTemp(dir, ".hare-doctor-*")
	switch {
	case errors.Is(err, unix.EROFS):
		k.found, k.remedy = dir+": "+unix.EROFS.Error(), "mount the disk for writing; see dmesg where the system has "+
			"mounted a failing disk read-only. hare backup "+dir+" FILE copies what is stored"
		return k
	case err == nil:
		_, err = f.Write(make([]byte, 64<<10))
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	full, free := diskFull(dir)
	switch {
	case full || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT):
		k.found, k.remedy = fmt.Sprintf("the disk of %s is full: %d KiB are free", dir, free>>10),
			"make room on the disk; until then a server answers reads and refuses the rest with 507"
	case err != nil:
		k.found = err.Error()
	default:
		k.ok, k.found = true, dir+" is writable"
	}
	return k
}

// openCheck looks for stored files that other users can read or write. ok is false where
// there are none.
func openCheck(dir string) (k check, ok bool) {
	paths := sqlite.OpenToOthers(dir)
	all := strings.Join(paths, " ")
	return check{name: "permissions", found: "other users can read or write " + all,
		remedy: "chmod go= " + all}, len(paths) > 0
}

// sessionsCheck reads and checks all stored sessions and solves, also while a server
// uses them.
func sessionsCheck(ctx context.Context, dir string) check {
	k := check{name: "sessions", remedy: "restore a backup with hare restore, or copy what can be trusted with hare " +
		"repair " + dir + " NEWDIR"}
	v, err := sqlite.OpenView(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.ok, k.found = true, "none in "+dir
		return k
	case errors.As(err, new(*store.CorruptError)):
		k.found = err.Error()
		return k
	case errors.Is(err, store.ErrStorage):
		k.found, k.remedy = err.Error(), "make room on the disk, or mount it for writing"
		return k
	case err != nil:
		k.found, k.remedy = err.Error(), "use the version of hare that it says, as a user who may read and write "+dir
		return k
	}
	defer func() { _ = v.Close() }()
	structure := v.Structure(ctx)
	damage, err := v.Check(ctx)
	if err = errors.Join(structure, damage, err); err != nil {
		k.found = strings.ReplaceAll(err.Error(), "\n", "\n                        ")
		return k
	}
	metas, err := v.Sessions(ctx)
	if err != nil {
		k.found = err.Error()
		return k
	}
	solves, err := v.Solves(ctx)
	if err != nil {
		k.found = err.Error()
		return k
	}
	k.ok, k.found = true, fmt.Sprintf("%s, %.1f MiB", contents(metas, len(solves)), float64(v.Bytes())/(1<<20))
	return k
}

// checkpointsCheck reads the copies of round jobs' checkpoints, whose names end with their hashes. ok is false where
// there are none.
func checkpointsCheck(dir string) (k check, ok bool) {
	k = check{name: "checkpoints", remedy: "remove the file: the agent of the job brings another copy; where the node " +
		"is lost, the job begins again"}
	files, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*", "*", "*"))
	if err != nil || len(files) == 0 {
		return k, false
	}
	bytes, count := int64(0), 0
	for _, path := range files {
		if strings.HasSuffix(path, ".part") {
			continue // is being brought
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a newer one has taken its place
		}
		if err != nil {
			k.found = err.Error()
			return k, true
		}
		h := sha256.New()
		n, err := io.Copy(h, f)
		_ = f.Close()
		if err == nil && !strings.HasSuffix(path, "-"+hex.EncodeToString(h.Sum(nil))) {
			err = fmt.Errorf("%s is damaged: its SHA-256 is not that of its name", path)
		}
		if err != nil {
			k.found = err.Error()
			return k, true
		}
		bytes, count = bytes+n, count+1
	}
	k.ok, k.found = true, fmt.Sprintf("%d copies of round jobs, %.1f MiB, every checksum fits", count,
		float64(bytes)/(1<<20))
	return k, true
}

func portCheck(listen string) check {
	k := check{name: "port", remedy: "stop what listens there, or choose another address with --listen"}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		k.found = err.Error()
		return k
	}
	_ = l.Close()
	k.ok, k.found = true, listen+" is free"
	return k
}

func coreCheck() check {
	return check{name: "cores", ok: true, found: fmt.Sprintf("%d, Go %s, hare %s", runtime.GOMAXPROCS(0),
		runtime.Version(), version)}
}
