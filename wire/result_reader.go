package wire

import (
	"github.com/hare-sched/hare"
)

type resultReader struct {
	*Reader
	root string // pointer of the result in its document
	res  *hare.Result
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
