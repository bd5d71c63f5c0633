package hare

// replan reads the replan object of a result. The instance and the schedule in
// it are strict; values of another kind than expected, and unknown names, are
// passed over.
func (d *resultReader) replan() error {
	if !d.is('{') {
		return d.skip()
	}
	p := &Replan{}
	d.res.Replan = p
	amount := func(to *Amount) error {
		var a *Amount
		if !d.is('0') {
			return d.skip()
		}
		err := d.amount(&a)
		if a != nil {
			*to = *a
		}
		return err
	}
	at := d.root + "/replan"
	return d.infoObject(func(name string) error {
		switch name {
		case "at_s":
			return d.micros(&p.AtUs, 0)
		case "stability":
			return d.micros(&p.StabilityMicro, 0)
		case "instance_sha256":
			return d.str(&p.InstanceSHA256)
		case "constant":
			return amount(&p.Constant)
		case "kept_value":
			return d.amount(&p.KeptValue)
		case "planned_gpu_s":
			return amount(&p.PlannedGPU)
		case "moved_gpu_s":
			return amount(&p.MovedGPU)
		case "forced_gpu_s":
			return amount(&p.ForcedGPU)
		case "started":
			return infoItems(d, &p.Started, func(x *StartedWork, name string) error {
				switch name {
				case "job":
					return d.infoString(&x.Job)
				case "rounds":
					return d.infoInt(&x.Rounds)
				case "until_s":
					return d.infoMicros(&x.UntilUs)
				}
				return d.skip()
			})
		case "lost":
			return infoItems(d, &p.Lost, func(x *LostWork, name string) error {
				switch name {
				case "job":
					return d.infoString(&x.Job)
				case "round":
					return d.infoInt(&x.Round)
				case "gpu":
					return d.infoString(&x.GPU)
				}
				return d.skip()
			})
		case "moved":
			return infoItems(d, &p.Moved, func(x *MovedJob, name string) error {
				switch name {
				case "job":
					return d.infoString(&x.ID)
				case "from":
					return d.place(&x.From)
				case "to":
					return d.place(&x.To)
				case "gpu_s":
					return amount(&x.GPU)
				case "why":
					return d.infoString(&x.Why)
				}
				return d.skip()
			})
		case "kept":
			return d.infoStrings(&p.Kept)
		case "added":
			return d.infoStrings(&p.Added)
		case "removed":
			return d.infoStrings(&p.Removed)
		case "gpus":
			return d.infoObject(func(name string) error {
				x := RenamedGPU{Rest: name}
				err := d.infoString(&x.Whole)
				p.Renamed = append(p.Renamed, x)
				return err
			})
		case "schedule_missing":
			return d.infoString(&p.WholeMissing)
		case "instance":
			return d.instanceAt(at+"/instance", &p.Rest)
		case "schedule":
			s := &resultReader{reader: d.reader, root: at, res: &Result{}}
			err := s.schedule()
			if p.Whole = s.res.Schedule; err == nil {
				err = s.indices()
			}
			return err
		}
		return d.skip()
	})
}

func (d *resultReader) place(to *JobPlace) error {
	return d.infoObject(func(name string) error {
		switch name {
		case "types":
			return d.infoStrings(&to.Types)
		case "start_s":
			return d.infoMicros(&to.StartUs)
		case "end_s":
			return d.infoMicros(&to.EndUs)
		}
		return d.skip()
	})
}

func (d *resultReader) infoStrings(to *[]string) error {
	return d.infoList(func() error {
		x := ""
		err := d.infoString(&x)
		*to = append(*to, x)
		return err
	})
}

// infoItems reads a list of objects.
func infoItems[T any](d *resultReader, to *[]T, field func(x *T, name string) error) error {
	return d.infoList(func() error {
		var x T
		err := d.infoObject(func(name string) error { return field(&x, name) })
		*to = append(*to, x)
		return err
	})
}
