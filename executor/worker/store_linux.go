package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// align is where the parts of a job's shared memory begin: at multiples of a cache line.
const align = 64

// MaxJobBytes is the most shared memory that a job may have.
const MaxJobBytes = 1 << 40

// segment is the shared memory of one job: two slots for the state, of which the slot of version
// v is v mod 2, and one slot for the gradient of each task. A step reads the slot of one version
// and writes the other, so that a step that is cut short leaves the committed version whole.
type segment struct {
	file                       *os.File
	memory                     []byte
	stateBytes, stateSlotBytes int64
	gradientBytes              int64
}

func aligned(n int64) int64 { return (n + align - 1) / align * align }

// newSegment makes the shared memory. It is sealed against changes of size, so that no process
// that maps it can make another fault.
func newSegment(job string, stateBytes, gradientBytes int64, tasks int) (*segment, error) {
	if stateBytes < 1 || stateBytes > MaxJobBytes/4 || gradientBytes < 1 ||
		gradientBytes > MaxJobBytes/2/int64(tasks)-align {
		return nil, fmt.Errorf("worker: job %.60q wants %d bytes of state and %d for each of %d gradients", job,
			stateBytes, gradientBytes, tasks)
	}
	size := 2*aligned(stateBytes) + int64(tasks)*aligned(gradientBytes)
	fd, err := unix.MemfdCreate("hare-job", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("worker: shared memory of job %.60q: %w", job, err)
	}
	s := &segment{file: os.NewFile(uintptr(fd), "hare-job"), stateBytes: stateBytes,
		stateSlotBytes: aligned(stateBytes), gradientBytes: gradientBytes}
	err = unix.Ftruncate(fd, size)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		s.memory, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		_ = s.file.Close()
		return nil, fmt.Errorf("worker: shared memory of job %.60q, %d bytes: %w", job, size, err)
	}
	return s, nil
}

// state returns a copy of the state with a version.
func (s *segment) state(version int64) []byte {
	at := version % 2 * s.stateSlotBytes
	return append([]byte(nil), s.memory[at:at+s.stateBytes]...)
}

// gradientAt is where the gradient of a task begins.
func (s *segment) gradientAt(task int) int64 {
	return 2*s.stateSlotBytes + int64(task)*aligned(s.gradientBytes)
}

func (s *segment) close() error {
	err := unix.Munmap(s.memory)
	if e := s.file.Close(); err == nil {
		err = e
	}
	return err
}
