package trace

import "strings"

// Entity is the owner of jobs. Jobs of one entity share one Entity.
type Entity struct {
	Name   string
	Weight float64 // greater than 0
	FIFO   bool    // whether its jobs run in order of arrival and not by weight
}

// entity reads the owner of a job; its columns are optional.
func (rt *RatedTrace) entity(t *table) (*Entity, error) {
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
			return nil, t.errorAt("entity_weight", "0 is not positive")
		}
	}
	switch policy := text("entity_policy"); policy {
	case "", "fairness":
	case "fifo":
		e.FIFO = true
	default:
		return nil, t.errorAt("entity_policy", "%q is neither fairness nor fifo", truncate(policy))
	}
	known := rt.entities[e.Name]
	if known == nil {
		if rt.entities == nil {
			rt.entities = map[string]*Entity{}
		}
		rt.entities[e.Name] = &e
		return &e, nil
	}
	if *known != e {
		return nil, t.errorAt("entity", "%q has another weight or policy in an earlier row", truncate(e.Name))
	}
	return known, nil
}
