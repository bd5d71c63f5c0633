package sqlite

import "context"

// Sizes implements store.SessionStore. It reads the whole tree of the log, but no
// overflow pages, since SQLite knows the length of a row without them.
func (s *Store) Sizes(ctx context.Context) (map[string]int64, error) {
	rows, err := s.read.QueryContext(ctx,
		"SELECT id, sum(length(data)) FROM log JOIN session ON num = key >> 40 GROUP BY num")
	if err != nil {
		return nil, fault(err)
	}
	defer rows.Close()
	sizes := map[string]int64{}
	for rows.Next() {
		var id string
		var n int64
		if err := rows.Scan(&id, &n); err != nil {
			return nil, fault(err)
		}
		sizes[id] = n
	}
	return sizes, fault(rows.Err())
}
