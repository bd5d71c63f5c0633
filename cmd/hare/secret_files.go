package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// The bits of a file with a secret that it must not have. The group of a private key may read it, because the key is
// given to servers by their group: by fsGroup in Kubernetes, by ssl-cert in Debian.
const (
	openKeyFile    fs.FileMode = 0o077
	openPrivateKey fs.FileMode = 0o037
)

// openToOthers reports whether a file has one of the bits. Pipes and devices are for whoever made them, and Windows
// has no such bits.
func openToOthers(path string, bits fs.FileMode) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&bits != 0
}

// warnOfOpen says that other users can read the secret in the file of a flag.
func warnOfOpen(w io.Writer, flag, path string) {
	if openToOthers(path, openKeyFile) {
		_, _ = fmt.Fprintf(w, "hare: warning: %s %s is open to other users of this machine: chmod 600 %s\n", flag, path,
			path)
	}
}

// newSecretFile makes a file that only its owner can read. A file that is there is not replaced: it may have a secret
// that something still needs.
func newSecretFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s exists: name another file, or remove it", path)
	}
	return f, err
}

// writeSecret writes the only line of a file of newSecretFile, and makes it durable.
func writeSecret(f *os.File, text string) error {
	_, err := fmt.Fprintln(f, text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
