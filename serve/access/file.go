package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hare-sched/hare/internal/atomicfile"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

// Names of files in the data directory.
const (
	FileName = "keys.json"
	lockName = "keys.lock"
)

// maxBytes limits the size of the file: ten thousand keys take less than 5 MB.
const maxBytes = 16 << 20

// File is a KeyStore in one file of a data directory. Each change replaces the whole
// file, so that hare key and a running server may both change the keys.
type File struct{ dir string }

var _ KeyStore = (*File)(nil)

// FileIn returns the key file of a data directory, which need not exist yet.
func FileIn(dir string) *File { return &File{dir} }

// Path returns the path of the file.
func (f *File) Path() string { return filepath.Join(f.dir, FileName) }

// document is the form of the file. Sum is the checksum of the text of Set: a file that
// was changed by hand or by a failing disk gives nobody a role.
type document struct {
	Hare string          `json:"hare"`
	Sum  string          `json:"sha256"`
	Set  json.RawMessage `json:"set"`
}

const form = "keys/v1"

type setJSON struct {
	Keys   []keyJSON                  `json:"keys"`
	Quotas map[string]admission.Quota `json:"quotas,omitempty"`
}

type keyJSON struct {
	ID      string     `json:"id"`
	Tenant  string     `json:"tenant"`
	Role    string     `json:"role"`
	Sum     string     `json:"sha256"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Note    string     `json:"note,omitempty"`
	Nodes   []string   `json:"nodes,omitzero"` // of Key: an empty list differs from none
}

// State implements KeyStore. The file is replaced, never changed in place, so that its
// inode, size and time differ between two contents.
func (f *File) State() string {
	info, err := os.Stat(f.Path())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode(), inode(info))
}

// Read implements KeyStore. A damaged file gives *store.CorruptError.
func (f *File) Read() (*KeySet, error) {
	file, err := os.Open(f.Path())
	if errors.Is(err, fs.ErrNotExist) {
		if info, err := os.Stat(f.dir); err != nil || !info.IsDir() {
			return nil, &os.PathError{Op: "open", Path: f.dir, Err: errors.New("no such directory")}
		}
		return &KeySet{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	set, err := decode(text)
	if err != nil {
		return nil, &store.CorruptError{What: f.Path() + ": " + err.Error()}
	}
	return set, nil
}

func decode(text []byte) (*KeySet, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", maxBytes)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if d.Hare != form {
		return nil, fmt.Errorf("its form is %.20q, this program reads %q", d.Hare, form)
	}
	if sum := sha256.Sum256(d.Set); d.Sum != hex.EncodeToString(sum[:]) {
		return nil, errors.New("its checksum does not fit its content")
	}
	var s setJSON
	if err := json.Unmarshal(d.Set, &s); err != nil {
		return nil, err
	}
	set := &KeySet{Quotas: s.Quotas}
	for i, k := range s.Keys {
		role, err := ParseRole(k.Role)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		key := Key{ID: k.ID, Tenant: k.Tenant, Role: role, Created: k.Created, Expires: instant(k.Expires),
			Revoked: instant(k.Revoked), Note: k.Note, Nodes: k.Nodes}
		sum, err := hex.DecodeString(k.Sum)
		if err != nil || len(sum) != len(key.Sum) {
			return nil, fmt.Errorf("key %d: not a SHA-256", i)
		}
		copy(key.Sum[:], sum)
		set.Keys = append(set.Keys, key)
	}
	return set, set.Check()
}

func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func encode(set *KeySet) ([]byte, error) {
	s := setJSON{Keys: []keyJSON{}, Quotas: set.Quotas}
	for i := range set.Keys {
		k := &set.Keys[i]
		j := keyJSON{ID: k.ID, Tenant: k.Tenant, Role: k.Role.String(), Sum: hex.EncodeToString(k.Sum[:]),
			Created: k.Created, Note: k.Note, Nodes: k.Nodes}
		if !k.Expires.IsZero() {
			j.Expires = &k.Expires
		}
		if !k.Revoked.IsZero() {
			j.Revoked = &k.Revoked
		}
		s.Keys = append(s.Keys, j)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	// The text is not indented, because the checksum is of the text as it is.
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"hare\":%q,\"sha256\":%q,\"set\":%s}\n", form, hex.EncodeToString(sum[:]), text)
	return out.Bytes(), nil
}

// Update implements KeyStore. A damaged file is not changed.
func (f *File) Update(ctx context.Context, change func(*KeySet) error) (err error) {
	unlock, err := lock(ctx, f.dir)
	if err != nil {
		return err
	}
	defer unlock()
	set, err := f.Read()
	if err != nil {
		return err
	}
	if err := change(set); err != nil {
		return err
	}
	if err := set.Check(); err != nil {
		return err
	}
	text, err := encode(set)
	if err != nil {
		return err
	}
	err = f.replace(text)
	// A key must be revocable on a full disk.
	for (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) && store.UseReserve(f.dir) {
		err = f.replace(text)
	}
	return err
}

// replace makes the text the durable content of the file, which its owner alone may read.
func (f *File) replace(text []byte) error {
	next, err := atomicfile.Create(f.Path(), 0o600)
	if err != nil {
		return err
	}
	defer next.Discard()
	if err := giveToOwner(f.dir, next.Chown); err != nil {
		return err
	}
	if _, err := next.Write(text); err != nil {
		return err
	}
	return next.Commit()
}

// Exposed returns the mode bits by which others than the owner may read or write the
// file. 0 is as it should be.
func (f *File) Exposed() (fs.FileMode, error) {
	info, err := os.Stat(f.Path())
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm() & 0o077, nil
}
