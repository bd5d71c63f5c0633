package wire

import (
	"io"
	"strconv"

	"github.com/hare-sched/hare"
)

// DecodeResult decodes a result/v1 document, as one object or as NDJSON with one
// lane a line. Schedule and certificate are decoded strictly; unknown fields of the
// result are skipped. DecodeResult takes O(size), uses no reflection, and holds
// little more than the result in memory.
func DecodeResult(r io.Reader, lim Limits) (*hare.Result, error) {
	rd := NewReader(r, lim)
	d := &resultReader{Reader: rd, res: &hare.Result{}}
	err := d.result()
	if s := d.res.Schedule; s != nil {
		for err == nil && rd.Is('{') {
			rd.prefix = "/schedule/lanes/" + strconv.Itoa(len(s.Lanes))
			err = d.lane()
		}
		rd.prefix = ""
		if err == nil {
			err = d.indices()
		}
	}
	rd.prefix = ""
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return d.res, nil
}

// DecodeCertificate decodes a certificate/v1 document.
func DecodeCertificate(r io.Reader, lim Limits) (*hare.Certificate, error) {
	rd := NewReader(r, lim)
	d := &resultReader{Reader: rd, res: &hare.Result{}}
	if err := rd.Finish(d.certificate()); err != nil {
		return nil, err
	}
	return d.res.Certificate, nil
}

type resultReader struct {
	*Reader
	root string // pointer of the result in its document
	res  *hare.Result
}

func (d *resultReader) result() error {
	return resultTable.Read(d.Reader, &resultDoc{Result: d.res, d: d})
}

// amount reads an exact value with up to twelve decimals; null means none.
func (r *Reader) amount(to **hare.Amount) error {
	if r.Is('n') {
		return r.Skip()
	}
	text, ok, err := r.Number()
	if !ok {
		return err
	}
	a, bad := hare.ParseAmount(text)
	if bad != nil {
		return r.Fault("bad_amount", "%s %v", hare.Clip(text), bad)
	}
	*to = &a
	return nil
}

// gap reads the stated gap, which may exceed every amount.
func (r *Reader) gap(to *string) error {
	if r.Is('n') {
		*to = "null"
		return r.Skip()
	}
	text, ok, err := r.Number()
	if !ok {
		return err
	}
	gap, bad := hare.TrimDecimal(text)
	if bad != nil {
		return r.Fault("bad_amount", "%s %v", hare.Clip(text), bad)
	}
	*to = gap
	return nil
}

// amountTo reads an amount that is not null.
func (r *Reader) amountTo(to *hare.Amount) error {
	var a *hare.Amount
	err := r.amount(&a)
	if a != nil {
		*to = *a
	}
	return err
}
