package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// ErrStorage says that the disk is full or failing. Nothing was recorded, earlier data
// can still be read, and the same call may succeed later.
var ErrStorage = errors.New("store: the log cannot be written")

// ErrNoSession says that there is no session of that ID, or that it was deleted.
var ErrNoSession = errors.New("store: no such session")

// ErrFence says that rows do not begin where the log of their session ends.
var ErrFence = errors.New("store: the rows do not continue the log of their session")

// SessionStore keeps the logs of sessions. The effect of Create, Append, SaveSnapshot,
// SaveHistory and Delete survives a crash once they return nil. Every read returns the data as it was
// written, or *CorruptError. They wrap ErrStorage where the disk refuses;
// the other methods go on working in that case. A SessionStore is
// safe for concurrent use.
type SessionStore interface {
	// Create adds a session without rows.
	Create(ctx context.Context, m Meta) error
	// Sessions lists all sessions by time of creation, then by ID.
	Sessions(ctx context.Context) ([]Meta, error)
	// Sizes returns the bytes of the rows of each session that has rows.
	Sizes(ctx context.Context) (map[string]int64, error)
	// Delete removes a session with all its rows; ErrNoSession where there is none.
	Delete(ctx context.Context, id string) error
	// Append adds rows of any sessions. The rows of one session are added all or none, and
	// only where the first row begins with the event after the last stored one, and each
	// other row with the event after the row before. Otherwise the error is ErrFence, so
	// that of two writers of a session only one can go on. After an error, rows of other
	// sessions may or may not have been added.
	Append(ctx context.Context, rows []Row) error
	// Rows returns the rows in order, beginning with the row that holds event seq, or the
	// first row after seq. It stops once the rows have more than about bytes, after at
	// least one row.
	Rows(ctx context.Context, id string, seq int64, bytes int) ([]Row, error)
	// SaveSnapshot stores s. The store keeps s, the snapshot before s, and the one at seq
	// 0. The error is ErrNoSession where the session is deleted.
	SaveSnapshot(ctx context.Context, s Snapshot) error
	// Snapshots lists the snapshots, the newest first.
	Snapshots(ctx context.Context, id string) ([]Snapshot, error)
	// SaveHistory stores rows of the history of a session, in place of rows of the same minutes, and removes those
	// before a minute. The error is ErrNoSession where the session is deleted.
	SaveHistory(ctx context.Context, id string, rows []HistoryRow, before int64) error
	// History returns the rows from a minute on and before another one, in order.
	History(ctx context.Context, id string, from, to int64) ([]HistoryRow, error)
	Close() error
}

// Sum is a SHA-256. Its cost hardly counts, since one is computed for a whole row, and no
// damage can go unnoticed.
type Sum [sha256.Size]byte

// Meta describes a session as it was created.
type Meta struct {
	ID      string
	Created time.Time // to the microsecond
	Config  []byte    // JSON
	Sum     Sum       // checksum of the other fields but Last; the first link of the chain of rows
	Last    int64     // the last event in the log
}

// Checksum is the checksum that m should carry.
func (m *Meta) Checksum() Sum {
	return SumOf("meta", []int64{m.Created.UnixMicro()}, []byte(m.ID), m.Config)
}

// Row is a part of a log: the events of a session that became durable together, as lines
// of wire.AppendRecord.
type Row struct {
	Session     string
	First, Last int64 // numbers of the first and the last event
	Data        []byte
	Prev        Sum // checksum of the row before, or of the Meta in the first row
	Sum         Sum // of the other fields
}

// Checksum is the checksum that r should carry.
func (r *Row) Checksum() Sum {
	return SumOf("row", []int64{r.First, r.Last}, []byte(r.Session), r.Prev[:], r.Data)
}

// Snapshot is the state of a session after event Seq.
type Snapshot struct {
	Session string
	Seq     int64
	AtUs    int64 // time of event Seq
	Jobs    int64 // jobs that have not ended
	Chain   Sum   // checksum of the row that ends with Seq, or of the Meta where Seq is 0
	State   []byte
	Sum     Sum // of the other fields
}

// Checksum is the checksum that s should carry.
func (s *Snapshot) Checksum() Sum {
	return SumOf("snapshot", []int64{s.Seq, s.AtUs, s.Jobs}, []byte(s.Session), s.Chain[:], s.State)
}

// HistoryRow says what went on in the time that begins with a minute.
type HistoryRow struct {
	Minute int64 // since 1970
	Data   []byte
	Sum    Sum // of the other fields and the session
}

// Checksum is the checksum that h should carry.
func (h *HistoryRow) Checksum(session string) Sum {
	return SumOf("history", []int64{h.Minute}, []byte(session), h.Data)
}

// SumOf hashes its parts with their lengths: two different lists of parts never give the
// same bytes to hash.
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
