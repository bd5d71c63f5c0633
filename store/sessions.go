package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// ErrStorage says that the disk is full or failing: nothing was recorded, what
// was recorded before can still be read, and the same call may succeed later.
var ErrStorage = errors.New("store: the log cannot be written")

// ErrNoSession says that there is no session of that id, or no more.
var ErrNoSession = errors.New("store: no such session")

// ErrFence says that rows do not begin where the log of their session ends.
var ErrFence = errors.New("store: the rows do not continue the log of their session")

// SessionStore keeps the logs of sessions. What Create, Append, SaveSnapshot and
// Delete did survives a crash once they return nil. Everything is found again
// as it was written or reported as *CorruptError. Create, Append, SaveSnapshot
// and Delete wrap ErrStorage where the disk refuses; the others go on working
// then. A Store is safe for concurrent use.
type SessionStore interface {
	// Create adds a session without rows.
	Create(ctx context.Context, m Meta) error
	// Sessions lists all, by time of creation, then id.
	Sessions(ctx context.Context) ([]Meta, error)
	// Sizes is the bytes of the rows of each session that has some.
	Sizes(ctx context.Context) (map[string]int64, error)
	// Delete removes a session with all its rows; ErrNoSession without one.
	Delete(ctx context.Context, id string) error
	// Append adds rows of any sessions. The rows of one session are added all or
	// none, and only where the first one begins with the event behind the last one
	// that is stored, and each with the event behind the row before: else the error
	// is ErrFence, so that two writers of a session cannot both go on. Whether rows
	// of other sessions were added when there is an error is not said.
	Append(ctx context.Context, rows []Row) error
	// Rows returns the rows in order from the one that holds event seq, or the
	// first one behind it, until they have more than about bytes, one row at least.
	Rows(ctx context.Context, id string, seq int64, bytes int) ([]Row, error)
	// SaveSnapshot keeps s, the one before it, and the one at seq 0;
	// ErrNoSession where the session is gone.
	SaveSnapshot(ctx context.Context, s Snapshot) error
	// Snapshots lists those kept, the newest first.
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	Close() error
}

// Sum is a SHA-256. One is computed for a whole row, so its price is not felt,
// and it needs no argument about which damage it would miss.
type Sum [sha256.Size]byte

// Meta is what a session was created with.
type Meta struct {
	ID      string
	Created time.Time // to the microsecond
	Config  []byte    // JSON
	Sum     Sum       // of the other fields; the first link of the chain of rows
	Last    int64     // the last event in the log; not in Sum
}

// Checksum is the checksum that m should carry.
func (m *Meta) Checksum() Sum {
	return SumOf("meta", []int64{m.Created.UnixMicro()}, []byte(m.ID), m.Config)
}

// Row is a piece of the log: the events of a session that became durable
// together, as lines of wire.AppendRecord.
type Row struct {
	Session     string
	First, Last int64 // seq
	Data        []byte
	Prev        Sum // that of the row before, at first that of the Meta
	Sum         Sum // of the other fields
}

// Checksum is the checksum that r should carry.
func (r *Row) Checksum() Sum {
	return SumOf("row", []int64{r.First, r.Last}, []byte(r.Session), r.Prev[:], r.Data)
}

// Snapshot is the state of a session behind event Seq.
type Snapshot struct {
	Session string
	Seq     int64
	AtUs    int64 // time of event Seq
	Jobs    int64 // that have not ended
	Chain   Sum   // of the row that ends with Seq; at 0 that of the Meta
	State   []byte
	Sum     Sum // of the other fields
}

// Checksum is the checksum that s should carry.
func (s *Snapshot) Checksum() Sum {
	return SumOf("snapshot", []int64{s.Seq, s.AtUs, s.Jobs}, []byte(s.Session), s.Chain[:], s.State)
}

// SumOf hashes its parts with their lengths, so that no two lists of parts
// give the same bytes.
func SumOf(kind string, numbers []int64, parts ...[]byte) Sum {
	h := sha256.New()
	head := append(make([]byte, 0, 64), kind...)
	for _, n := range numbers {
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	}
	for _, p := range parts {
		head = binary.BigEndian.AppendUint64(head, uint64(len(p)))
	}
	h.Write(head)
	for _, p := range parts {
		h.Write(p)
	}
	var sum Sum
	h.Sum(sum[:0])
	return sum
}
