package runner

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (u *User) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// Do calls f with what the user may do in file systems; where u is nil, with what this process may. Files that f
// makes belong to the user, and f can neither read, follow nor change what the user could not. Only the goroutine
// of f has the user's rights, and not those that f starts.
func (u *User) Do(f func() error) error {
	if u == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := u.become()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// become changes the user and groups of this thread for file systems. That of the user takes the capabilities that
// pass over permissions.
func (u *User) become() error {
	groups := append([]uint32{u.GID}, u.Groups...)
	// unix.Setgroups changes all threads.
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	if errno != 0 {
		return errno
	}
	if err := errors.Join(unix.Setfsgid(int(u.GID)), unix.Setfsuid(int(u.UID))); err != nil {
		return err
	}
	// Neither call says whether it did something; another one with no user does.
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != int(u.UID) {
		return unix.EPERM
	}
	if now, err := unix.SetfsgidRetGid(-1); err != nil || now != int(u.GID) {
		return unix.EPERM
	}
	return nil
}
