package executor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/internal/atomicfile"
)

// checkpoints are the directories that jobs find as HARE_CHECKPOINT_DIR, one a job, as long as the server has not
// said that a job has ended, and for some time after. Directories that jobs have named themselves are none of them.
// Only the goroutine of the agent uses it.
type checkpoints struct {
	*session
	busy     func() map[string]bool // the jobs that have a task here
	kept     keptCheckpoints
	removing bool          // directories are being removed
	freed    chan struct{} // has one when they are
	again    bool          // there was something to remove while others were being removed
	looks    int           // counts the calls of look
}

// keptCheckpoints is the content of keptFile.
type keptCheckpoints struct {
	// Cluster is that of the jobs: another one of the same name has other jobs with the same IDs.
	Cluster string `json:"cluster"`
	// Ended has when the agent has heard that a job has ended.
	Ended map[string]time.Time `json:"ended,omitempty"`
}

const (
	keptFile = "checkpoints.json"
	// formerPrefix is the beginning of the names of directories with the checkpoints of a cluster that was deleted.
	formerPrefix = checkpointsName + "-"
	// sweepEvery is after how many looks at the devices directories are looked at whose time may be over.
	sweepEvery = 60
	// maxAsked is how many jobs the server is asked about at once.
	maxAsked = 1000
)

// jobName is the form of the IDs of jobs. Directories of other names are somebody else's.
var jobName = regexp.MustCompile(`^j[1-9][0-9]*$`)

func newCheckpoints(s *session, busy func() map[string]bool) *checkpoints {
	return &checkpoints{session: s, busy: busy, freed: make(chan struct{}, 1)}
}

func (c *checkpoints) open() {
	text, err := os.ReadFile(filepath.Join(c.cfg.Directory, keptFile))
	if err == nil {
		err = json.Unmarshal(text, &c.kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Logger.Warn("it is not known since when jobs have ended: their checkpoints are kept from now on",
			"error", err)
		c.kept = keptCheckpoints{}
	}
	if c.kept.Ended == nil {
		c.kept.Ended = map[string]time.Time{}
	}
}

func (c *checkpoints) write() {
	text, err := json.Marshal(&c.kept)
	if err == nil {
		err = atomicfile.Write(filepath.Join(c.cfg.Directory, keptFile), 0o600, text)
	}
	if err != nil {
		c.cfg.Logger.Warn("the agent cannot note which jobs have ended", "error", err)
	}
}

// registered notes the cluster that the agent is in. The checkpoints of another one of its name are put aside: the
// jobs of this one must not find them.
func (c *checkpoints) registered(cluster string) {
	if cluster == "" || cluster == c.kept.Cluster {
		return
	}
	if was := c.kept.Cluster; was != "" {
		aside := filepath.Join(c.cfg.Directory, formerPrefix+filepath.Base(was))
		err := os.Rename(c.checkpointsDir(), aside)
		if now := time.Now(); err == nil {
			err = os.Chtimes(aside, now, now) // when its jobs have ended
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.cfg.Logger.Error("the checkpoints of a cluster that was deleted cannot be put aside", "error", err)
			return
		}
	}
	c.kept = keptCheckpoints{Cluster: cluster, Ended: map[string]time.Time{}}
	c.write()
}

// jobs are the jobs that have a directory and no task here.
func (c *checkpoints) jobs() (ids []string) {
	entries, err := os.ReadDir(c.checkpointsDir())
	if err != nil {
		return nil
	}
	busy := c.busy()
	for _, e := range entries {
		if e.IsDir() && jobName.MatchString(e.Name()) && !busy[e.Name()] {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// ask are the jobs of which the agent wants to know whether they have ended.
func (c *checkpoints) ask() []string {
	ids := slices.DeleteFunc(c.jobs(), func(id string) bool { return !c.kept.Ended[id].IsZero() })
	return ids[:min(len(ids), maxAsked)]
}

// ended notes the jobs that the server says to have ended, or not to know.
func (c *checkpoints) ended(jobs []string) {
	for _, id := range jobs {
		if c.kept.Ended[id].IsZero() {
			c.kept.Ended[id] = time.Now()
		}
	}
	if len(jobs) > 0 {
		c.write()
		c.sweep()
	}
}

// look removes what is to go by now, now and then.
func (c *checkpoints) look() {
	if c.looks++; c.again || c.looks%sweepEvery == 1 {
		c.sweep()
	}
}

// sweep removes the directories whose time is over, and those of jobs that have ended and left nothing.
func (c *checkpoints) sweep() {
	select {
	case <-c.freed:
		c.removing = false
	default:
	}
	if c.again = c.removing; c.removing {
		return
	}
	root, err := os.OpenRoot(c.cfg.Directory)
	if err != nil {
		c.cfg.Logger.Warn("checkpoints of jobs that have ended cannot be removed", "error", err)
		return
	}
	over := func(ended time.Time) bool { return time.Since(ended) >= c.cfg.KeepCheckpoints }
	var gone []string
	here := map[string]bool{}
	for _, id := range c.jobs() {
		here[id] = true
		path, ended := filepath.Join(checkpointsName, id), c.kept.Ended[id]
		if !ended.IsZero() && root.Remove(path) != nil && over(ended) { // it was not empty
			gone = append(gone, path)
		}
	}
	forgotten := false
	for id := range c.kept.Ended {
		if !here[id] {
			delete(c.kept.Ended, id)
			forgotten = true
		}
	}
	if forgotten {
		c.write()
	}
	entries, _ := os.ReadDir(c.cfg.Directory) // it was opened just before
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && strings.HasPrefix(e.Name(), formerPrefix) &&
			over(info.ModTime()) {
			gone = append(gone, e.Name())
		}
	}
	if len(gone) == 0 {
		_ = root.Close()
		return
	}
	c.removing = true
	go func() { // large files take long
		defer root.Close()
		for _, path := range gone {
			if err := removeTree(root, path); err != nil {
				c.cfg.Logger.Warn("checkpoints of a job that has ended cannot be removed", "directory", path, "error", err)
			} else {
				c.cfg.Logger.Info("checkpoints of a job that has ended are removed", "directory", path)
			}
		}
		c.freed <- struct{}{}
	}()
}

// removeTree removes a directory with all that is in it, never what lies outside of root: a job may have put a link
// there, and may put one there just now. Directories that the job has closed to its own user are opened.
func removeTree(root *os.Root, path string) error {
	err := root.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	openTree(root, path)
	return root.RemoveAll(path)
}

func openTree(root *os.Root, path string) {
	info, err := root.Lstat(path)
	if err != nil || !info.IsDir() {
		return
	}
	_ = root.Chmod(path, 0o700)
	dir, err := root.Open(path)
	if err != nil {
		return
	}
	entries, _ := dir.ReadDir(-1)
	_ = dir.Close()
	for _, e := range entries {
		if e.IsDir() {
			openTree(root, filepath.Join(path, e.Name()))
		}
	}
}
