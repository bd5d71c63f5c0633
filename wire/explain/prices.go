package explain

import (
	"io"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// Prices are the prices of a certificate, by type and time.
type Prices struct {
	InstanceSHA256 string       `json:"instance_sha256"`
	Bound          *hare.Amount `json:"bound"`
	// Meaning says what the figures mean, and what they do not mean.
	Meaning string `json:"meaning"`
	// GridS are the boundaries of the cells, in seconds; after the last boundary all prices are 0.
	GridS []hare.Seconds `json:"grid_s"`
	Types []TypePrice    `json:"types"`
	// Sizes are prices of several GPUs that one gang holds together.
	Sizes []SizePrice `json:"sizes,omitempty"`
} //	@name	Prices

// TypePrice is one type's price of a GPU-second, in weight-seconds, by cell.
type TypePrice struct {
	Type string `json:"type"`
	// Total is Σ price · length. Where gangs have prices of their own, it is what the dearest use of one more GPU
	// costs. It is rounded up at six decimals.
	Total hare.Amount `json:"total"`
	// BoundFall is an upper limit on how far the bound can fall with one more GPU of the type that is always in
	// service, rounded up at six decimals. It is not what that GPU is worth.
	BoundFall hare.Amount `json:"bound_fall"`
	// Prices has a price for each cell.
	Prices []Nanos `json:"prices"`
} //	@name	TypePrice

// SizePrice is the price of several GPUs of a type that one gang holds together for a second.
type SizePrice struct {
	Type   string  `json:"type"`
	Tasks  int64   `json:"tasks"`
	Prices []Nanos `json:"prices"`
} //	@name	SizePrice

// Nanos is a number in units of 1e-9, written as an exact decimal.
type Nanos int64

// String returns the exact decimal.
func (na Nanos) String() string {
	s := strconv.FormatInt(int64(na), 10)
	if len(s) < 10 {
		s = strings.Repeat("0", 10-len(s)) + s
	}
	s = s[:len(s)-9] + "." + s[len(s)-9:]
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes the exact decimal.
func (na Nanos) MarshalJSON() ([]byte, error) { return []byte(na.String()), nil }

// UnmarshalJSON reads the exact decimal.
func (na *Nanos) UnmarshalJSON(text []byte) error {
	n, err := hare.ParseDecimal(string(text), 9)
	*na = Nanos(n)
	return err
}

// Float returns the nearest float64.
func (na Nanos) Float() float64 { return float64(na) / 1e9 }

// EncodeCSV writes a line for each cell and type. The column tasks is 1 for the
// price of a single GPU.
func (p *Prices) EncodeCSV(w io.Writer) error {
	b := []byte("type,tasks,from_s,to_s,price\n")
	row := func(kind string, tasks int64, prices []Nanos) {
		for g, x := range prices {
			b = append(b, csvText(kind)...)
			b = append(strconv.AppendInt(append(b, ','), tasks, 10), ',')
			from, to := hare.FormatMicros(int64(p.GridS[g])), hare.FormatMicros(int64(p.GridS[g+1]))
			b = append(b, from+","+to+","+x.String()+"\n"...)
		}
	}
	for _, t := range p.Types {
		row(t.Type, 1, t.Prices)
	}
	for _, t := range p.Sizes {
		row(t.Type, t.Tasks, t.Prices)
	}
	_, err := w.Write(b)
	return err
}

// csvText returns a field of a CSV file, quoted where RFC 4180 requires quotes.
func csvText(s string) string {
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}
