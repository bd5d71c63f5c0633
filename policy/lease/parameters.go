package lease

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParameterError says what is wrong with a parameter. Pointer is a JSON pointer into the parameters.
type ParameterError struct{ Pointer, Code, Detail string }

func (e *ParameterError) Error() string { return e.Pointer + ": " + e.Detail }

// parameter is a setting of a policy in JSON: where its value is in a Config.
type parameter struct {
	name, kind string // kind says what a value looks like
	field      func(*Config) any
}

func hadarParameters(of func(*Config) *HadarConfig) []parameter {
	return []parameter{
		{"utility", "a string", func(c *Config) any { return &of(c).Utility }},
		{"eta", "a number", func(c *Config) any { return &of(c).Eta }},
		{"beam", "a whole number", func(c *Config) any { return &of(c).Beam }},
		{"by_arrival", "true or false", func(c *Config) any { return &of(c).ByArrival }},
		{"one_type", "true or false", func(c *Config) any { return &of(c).OneType }},
		{"one_node", "true or false", func(c *Config) any { return &of(c).OneNode }},
		{"strict", "true or false", func(c *Config) any { return &of(c).Strict }},
	}
}

// parametersOf are the parameters of policies; the others have none.
var parametersOf = map[string][]parameter{
	"hadar": hadarParameters(func(c *Config) *HadarConfig { return &c.Hadar }),
	"hadare": append(hadarParameters(func(c *Config) *HadarConfig { return &c.HadarE.Hadar }),
		parameter{"copies", "a whole number", func(c *Config) any { return &c.HadarE.MaxCopies }},
		parameter{"merge_share", "a number", func(c *Config) any { return &c.HadarE.MergeShare }},
		parameter{"efficiency", "a number", func(c *Config) any { return &c.HadarE.Efficiency }}),
}

// Configure adds parameters, a JSON object, to cfg. Errors are *ParameterError.
func (info Info) Configure(cfg Config, parameters []byte) (Config, error) {
	known := parametersOf[info.Name]
	refuse := func(pointer, code, format string, a ...any) (Config, error) {
		return cfg, &ParameterError{pointer, code, fmt.Sprintf(format, a...)}
	}
	if len(known) == 0 {
		return refuse("", "not_allowed", "policy %s has no parameters", info.Name)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(parameters, &given); err != nil || given == nil {
		return refuse("", "invalid_type", "the parameters of %s are a JSON object", info.Name)
	}
	var names []string
	for _, p := range known {
		names = append(names, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		i := slices.Index(names, name)
		if i < 0 {
			return refuse(pointer, "unknown_member", "%s has no parameter %.60q; it has %s", info.Name, name,
				strings.Join(names, ", "))
		}
		value := known[i].field(&cfg)
		if string(given[name]) == "null" || json.Unmarshal(given[name], value) != nil {
			return refuse(pointer, "invalid_type", "%s of %s is %s", name, info.Name, known[i].kind)
		}
		if err := checkParameters(&cfg); err != nil {
			return refuse(pointer, "out_of_range", "%v", err)
		}
	}
	return cfg, nil
}

func checkParameters(cfg *Config) error {
	if err := cfg.Hadar.Check(); err != nil {
		return err
	}
	return cfg.HadarE.Check()
}
