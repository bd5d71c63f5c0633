package trace

import "strings"

// Entity is whom jobs belong to. Jobs of one entity have the same one.
type Entity struct {
	Name   string
	Weight float64 // > 0
	FIFO   bool    // its jobs go by arrival, and not by weight
}

// entity reads to whom a job belongs; the columns are optional.
func (r *Rated) entity(t *table) (*Entity, error) {
	text := func(column string) string {
		if _, ok := t.column[column]; !ok {
			return ""
		}
		return t.text(column)
	}
	e := Entity{Name: strings.Clone(text("entity")), Weight: 1}
	if e.Name == "" {
		return nil, nil
	}
	if text("entity_weight") != "" {
		var err error
		if e.Weight, err = t.float("entity_weight"); err != nil {
			return nil, err
		}
		if e.Weight == 0 {
			return nil, t.fault("entity_weight", "0 is not positive")
		}
	}
	switch policy := text("entity_policy"); policy {
	case "", "fairness":
	case "fifo":
		e.FIFO = true
	default:
		return nil, t.fault("entity_policy", "%q is neither fairness nor fifo", clip(policy))
	}
	known := r.entities[e.Name]
	if known == nil {
		if r.entities == nil {
			r.entities = map[string]*Entity{}
		}
		r.entities[e.Name] = &e
		return &e, nil
	}
	if *known != e {
		return nil, t.fault("entity", "%q has another weight or policy in an earlier row", clip(e.Name))
	}
	return known, nil
}
