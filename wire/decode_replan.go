package wire

import "github.com/hare-sched/hare"

// replan reads the replan object of a result. What verifiers look at is strict,
// the instance and the schedule above all; null stands for a field that is left
// out. Unknown names, and what a moved job has, are passed over.
func (d *resultReader) replan() error {
	if d.Is('n') {
		return d.Skip()
	}
	if !d.Is('{') {
		_, err := d.Want('{')
		return err
	}
	p := &hare.Replan{Stated: &hare.StatedReplan{}}
	d.res.Replan = p
	return d.Object(nil, func(name string) (bool, error) {
		if d.Is('n') {
			return true, d.Skip()
		}
		return true, d.replanField(p, name)
	})
}

func (d *resultReader) replanField(p *hare.Replan, name string) error {
	at := d.root + "/replan"
	switch name {
	case "at_s":
		p.Stated.At = true
		return d.Micros(&p.AtUs, 0)
	case "stability":
		return d.Micros(&p.StabilityMicro, 0)
	case "instance_sha256":
		return d.sha256(&p.InstanceSHA256)
	case "constant":
		p.Stated.Constant = true
		return d.amountTo(&p.Constant)
	case "whole_value":
		return d.amount(&p.Stated.WholeValue)
	case "whole_bound":
		return d.amount(&p.Stated.WholeBound)
	case "kept_value":
		return d.amount(&p.KeptValue)
	case "gain":
		return d.amount(&p.Stated.Gain)
	case "planned_gpu_s":
		return d.amountTo(&p.PlannedGPU)
	case "moved_gpu_s":
		return d.amountTo(&p.MovedGPU)
	case "forced_gpu_s":
		return d.amountTo(&p.ForcedGPU)
	case "started":
		p.Stated.Started = true
		return items(d, &p.Started, func(x *hare.StartedWork, name string) error {
			switch name {
			case "job":
				return d.String(&x.Job)
			case "rounds":
				return d.Integer(&x.Rounds, 0, hare.MaxExact)
			case "until_s":
				return d.Micros(&x.UntilUs, 0)
			}
			return d.Skip()
		})
	case "lost":
		p.Stated.Lost = true
		return items(d, &p.Lost, func(x *hare.LostWork, name string) error {
			switch name {
			case "job":
				return d.String(&x.Job)
			case "round":
				return d.Integer(&x.Round, 0, hare.MaxExact)
			case "gpu":
				return d.String(&x.GPU)
			}
			return d.Skip()
		})
	case "moved":
		return d.Array(func(int) error {
			var x hare.MovedJob
			err := d.infoObject(func(name string) error { return d.moved(&x, name) })
			p.Moved = append(p.Moved, x)
			return err
		})
	case "kept":
		return d.strings(&p.Kept)
	case "added":
		p.Stated.Added = true
		return d.strings(&p.Added)
	case "removed":
		p.Stated.Removed = true
		return d.strings(&p.Removed)
	case "gpus":
		p.Stated.Renamed = true
		return d.Object(nil, func(name string) (bool, error) {
			x := hare.RenamedGPU{Rest: name}
			err := d.String(&x.Whole)
			p.Renamed = append(p.Renamed, x)
			return true, err
		})
	case "schedule_missing":
		return d.String(&p.WholeMissing)
	case "instance":
		return d.instanceAt(at+"/instance", &p.Rest)
	case "schedule":
		s := &resultReader{Reader: d.Reader, root: at, res: &hare.Result{}}
		err := s.schedule()
		if p.Whole = s.res.Schedule; err == nil {
			err = s.indices()
		}
		return err
	}
	return d.Skip()
}

// amountTo reads an amount that is not null.
func (d *resultReader) amountTo(to *hare.Amount) error {
	var a *hare.Amount
	err := d.amount(&a)
	if a != nil {
		*to = *a
	}
	return err
}

func (d *resultReader) moved(x *hare.MovedJob, name string) error {
	switch name {
	case "job":
		return d.infoString(&x.ID)
	case "from":
		return d.place(&x.From)
	case "to":
		return d.place(&x.To)
	case "gpu_s":
		if d.Is('0') {
			return d.amountTo(&x.GPU)
		}
	case "why":
		return d.infoString(&x.Why)
	}
	return d.Skip()
}

func (d *resultReader) place(to *hare.JobPlace) error {
	return d.infoObject(func(name string) error {
		switch name {
		case "types":
			return d.infoList(func() error {
				x := ""
				err := d.infoString(&x)
				to.Types = append(to.Types, x)
				return err
			})
		case "start_s":
			return d.infoMicros(&to.StartUs)
		case "end_s":
			return d.infoMicros(&to.EndUs)
		}
		return d.Skip()
	})
}

// strings reads an array of strings.
func (d *resultReader) strings(to *[]string) error {
	return d.Array(func(int) error {
		x := ""
		err := d.String(&x)
		*to = append(*to, x)
		return err
	})
}

// items reads an array of objects.
func items[T any](d *resultReader, to *[]T, field func(x *T, name string) error) error {
	return d.Array(func(int) error {
		var x T
		err := d.Object(nil, func(name string) (bool, error) { return true, field(&x, name) })
		*to = append(*to, x)
		return err
	})
}
