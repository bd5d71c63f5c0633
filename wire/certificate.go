package wire

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

var certificateTable = NewTable("Certificate", "Certificate proves the bound: anyone can recompute it.",
	append(priceFields, treeFields...)...).Check(checkCertificate)

var priceFields = []Field[certificateDoc]{
	NewField("hare", Schema{"type": "string", "enum": []string{CertificateForm}},
		func(r *Reader, v *certificateDoc) error { return r.String(&v.form) },
		func(b []byte, _ *certificateDoc) []byte { return AppendString(b, CertificateForm) }).Needed().
		About("hare names the form."),
	String("method", func(v *certificateDoc) *string { return &v.Method }).Needed().
		With("enum", []string{hare.MethodPrice, hare.MethodCriticalPath, hare.MethodMachine,
			hare.MethodBranch, hare.MethodSearch}).
		About("method of the bound. Only price and branch need the fields from grid_us on."),
	NewField("path", Schema{"type": "boolean"},
		func(r *Reader, v *certificateDoc) error { return r.Bool(&v.Path) },
		ofPrices(func(b []byte, c *hare.Certificate) []byte { return strconv.AppendBool(b, c.Path) })).
		About("path says that completions are not before the critical path."),
	String("instance_sha256", func(v *certificateDoc) *string { return &v.InstanceSHA256 }).
		Reading(func(r *Reader, v *certificateDoc) error { return r.sha256(&v.InstanceSHA256) }).
		About("instance_sha256 is over the canonical form of the instance."),
	String("objective", func(v *certificateDoc) *string { return &v.Objective }).Needed().
		With("enum", hare.Objectives()).About("objective that is bounded."),
	NewField("bound", Schema{"type": "string"}, readBound, func(b []byte, v *certificateDoc) []byte {
		if v.Bound == "" {
			return b
		}
		return AppendString(b, v.Bound)
	}).Needed().MayLack().About("bound is a decimal with six places, rounded down.").Example("790.113204"),
	NewField("grid_us", integers,
		func(r *Reader, v *certificateDoc) error { return r.column(&v.GridUs, hare.MaxExact) },
		ofPrices(func(b []byte, c *hare.Certificate) []byte { return appendColumn(b, c.GridUs) })).
		About("grid_us are the ends of the price cells, from 0."),
	NewField("prices", MapOf(integers),
		func(r *Reader, v *certificateDoc) error { return readTypePrices(r, &v.Prices) },
		ofPrices(func(b []byte, c *hare.Certificate) []byte { return appendTypePrices(b, c.Prices) })).
		About("prices by GPU type, one a cell, in 1e-9 weight-seconds per GPU-second; a type left out has price 0."),
	NewField("sizes", MapOf(MapOf(integers)),
		func(r *Reader, v *certificateDoc) (err error) {
			v.sizes, err = readSizes(r, &v.Sizes)
			return err
		},
		ofPrices(func(b []byte, c *hare.Certificate) []byte { return appendSizes(b, c.Sizes) })).
		About("sizes by GPU type and number of tasks: what gang and rigid jobs pay for so many GPUs together, one a " +
			"cell, in 1e-9 weight-seconds per second."),
	NewField("step_us", Schema{"type": "integer", "format": "int64"},
		func(r *Reader, v *certificateDoc) error { return r.Integer(&v.StepUs, 1, hare.MaxExact) },
		ofPrices(func(b []byte, c *hare.Certificate) []byte {
			if c.StepUs == 0 {
				return b
			}
			return appendInt(b, c.StepUs)
		})).
		About("step_us is the step of time at which relaxed jobs are bounded round by round; none where left out."),
	NewField("pools", ListOf(RefTo(poolTable)),
		func(r *Reader, v *certificateDoc) error {
			return r.Array(func(int) error {
				var p hare.Pool
				err := poolTable.Read(r, &poolDoc{Pool: &p})
				v.Pools = append(v.Pools, p)
				return err
			})
		},
		ofPrices(func(b []byte, c *hare.Certificate) []byte {
			if len(c.Pools) == 0 {
				return b
			}
			return appendList(b, c.Pools, func(b []byte, p hare.Pool) []byte {
				return poolTable.Append(b, &poolDoc{Pool: &p})
			})
		})).
		About("pools are further prices: of GPUs on some nodes or node by node, of CPUs, of memory, and of quotas."),
	NewField("after", MapOf(MapOf(Schema{"type": "integer", "format": "int64"})), readAfterWeights,
		ofPrices(func(b []byte, c *hare.Certificate) []byte { return appendAfterWeights(b, c.After) })).
		About("after by job and predecessor: the weight, in 1e-6, that is moved from the job to the predecessor."),
}

func checkCertificate(v *certificateDoc, _ Members, found *hare.InvalidErrors) {
	sortPrices(v.Prices, v.Sizes)
	ofPrice, ofBranch := v.Method == hare.MethodPrice, v.Method == hare.MethodBranch
	if v.sizes && !ofPrice && !ofBranch {
		found.Add("/sizes", "not_allowed", "belongs to certificates of methods price and branch")
	}
	if len(v.After) > 0 && !ofPrice {
		found.Add("/after", "not_allowed", "belongs to certificates of method price")
	}
	if len(v.Pools) > 0 && !ofPrice {
		found.Add("/pools", "not_allowed", "belongs to certificates of method price")
	}
	if len(v.PriceSets) > 0 && !ofBranch {
		found.Add("/price_sets", "not_allowed", "belongs to certificates of method branch")
	}
	if len(v.Tree) > 0 && !ofBranch {
		found.Add("/tree", "not_allowed", "belongs to certificates of method branch")
	}
	if v.form != CertificateForm {
		found.Add("/hare", "unknown_form", "must be %q", CertificateForm)
	}
}

// ofPrices makes an encoder that writes a field only for certificates of methods
// price and branch.
func ofPrices(write func([]byte, *hare.Certificate) []byte) func([]byte, *certificateDoc) []byte {
	return func(b []byte, v *certificateDoc) []byte {
		if !v.HasPrices() {
			return b
		}
		return write(b, v.Certificate)
	}
}

func (d *resultReader) certificate() error {
	isObject, c := d.Is('{'), &hare.Certificate{}
	err := certificateTable.Read(d.Reader, &certificateDoc{Certificate: c})
	if err == nil && isObject {
		d.res.Certificate = c
	}
	return err
}

// CertificateJSON returns the certificate/v1 form of a certificate, or nil where c
// is nil.
func CertificateJSON(c *hare.Certificate) json.RawMessage {
	if c == nil {
		return nil
	}
	return appendCertificate(nil, c)
}

func appendCertificate(b []byte, c *hare.Certificate) []byte {
	return certificateTable.Append(b, &certificateDoc{Certificate: c})
}

// boundText matches the only form of a bound: six decimals and no superfluous
// zeros. A bound is a string so that no reader rounds it to a floating-point
// number.
var boundText = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,40})\.[0-9]{6}$`)

func readBound(r *Reader, v *certificateDoc) error {
	before := r.Faults()
	if err := r.String(&v.Bound); err != nil || r.Faults() > before {
		return err
	}
	if !boundText.MatchString(v.Bound) || v.Bound == "-0.000000" {
		return r.Fault("bad_amount", `%q is not a bound: give a decimal with six places as a string, such as "37.614500"`,
			hare.Clip(v.Bound))
	}
	return nil
}

// readAfterWeights reads what a certificate moves of the weights of jobs to those for whose
// ends they wait: an object by job, of objects by predecessor.
func readAfterWeights(r *Reader, v *certificateDoc) error {
	err := r.Object(nil, func(job string) (bool, error) {
		return true, r.Object(nil, func(before string) (bool, error) {
			w := hare.AfterWeight{Job: job, Before: before}
			err := r.Integer(&w.Micro, 0, hare.MaxExact)
			v.After = append(v.After, w)
			return true, err
		})
	})
	slices.SortFunc(v.After, func(a, b hare.AfterWeight) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Before, b.Before))
	})
	return err
}

// appendAfterWeights appends an object {job: {predecessor: weight}}; weights must be sorted.
func appendAfterWeights(b []byte, weights []hare.AfterWeight) []byte {
	for i, w := range weights {
		switch {
		case i == 0:
			b = append(b, '{')
		case w.Job != weights[i-1].Job:
			b = append(b, `},`...)
		default:
			b = append(b, ',')
		}
		if i == 0 || w.Job != weights[i-1].Job {
			b = append(AppendString(b, w.Job), `:{`...)
		}
		b = appendInt(append(AppendString(b, w.Before), ':'), w.Micro)
	}
	if len(weights) > 0 {
		b = append(b, `}}`...)
	}
	return b
}
