package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// fieldValues returns the values that fields of the documents have, by name.
func fieldValues(all []documents) map[string][]any {
	out := map[string][]any{}
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(x)) {
				if len(out[name]) < 40 {
					out[name] = append(out[name], x[name])
				}
				walk(x[name])
			}
		case []any:
			for _, y := range x {
				walk(y)
			}
		}
	}
	for i := range all {
		if i%7 == 0 {
			for _, text := range [][]byte{all[i].instance, all[i].result} {
				if x, ok := tree(text); ok {
					walk(x)
				}
			}
		}
	}
	return out
}

func tree(text []byte) (x any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return x, d.Decode(&x) == nil && !d.More()
}

// mutant changes one to three things in a document.
func mutant(r *rand.Rand, text []byte, pool map[string][]any) ([]byte, []string) {
	var done []string
	for range 1 + r.IntN(3)*r.IntN(2) {
		x, ok := tree(text)
		if !ok {
			break
		}
		root := map[string]any{"": x}
		done = append(done, change(r, root, pool))
		out, err := json.Marshal(root[""])
		if err != nil {
			break
		}
		text = out
	}
	return text, done
}

// change changes a value somewhere below root, which holds a document.
func change(r *rand.Rand, root map[string]any, pool map[string][]any) string {
	var parent any = root
	key, index := "", -1
	value := root[""]
	path := ""
	for depth := 0; ; depth++ {
		if depth > 0 && r.IntN(100) < 35 {
			break
		}
		switch x := value.(type) {
		case map[string]any:
			if len(x) == 0 {
				break
			}
			names := slices.Sorted(maps.Keys(x))
			parent, key, index = x, names[r.IntN(len(names))], -1
			value = x[key]
			path += "/" + key
			continue
		case []any:
			if len(x) == 0 {
				break
			}
			parent, index = x, r.IntN(len(x))
			value = x[index]
			path += "/" + strconv.Itoa(index)
			continue
		}
		break
	}
	set := func(to any) {
		if p, ok := parent.([]any); ok {
			p[index] = to
		} else {
			parent.(map[string]any)[key] = to
		}
	}
	what := func(format string, a ...any) string { return fmt.Sprintf(path+": "+format, a...) }
	kinds := []any{nil, true, "x", json.Number("7"), map[string]any{}, []any{}, json.Number("-1"), json.Number("1.5"),
		""}
	switch v := value.(type) {
	case json.Number:
		if r.IntN(3) > 0 {
			to := number(r, string(v))
			set(json.RawMessage(to))
			return what("%s to %.60s", v, to)
		}
	case string:
		if r.IntN(3) > 0 {
			to := word(r, v)
			set(to)
			return what("%.60q to %.60q", v, to)
		}
	case map[string]any:
		switch text, err := json.Marshal(v); {
		case err != nil || r.IntN(3) > 0:
		case r.IntN(2) == 0 && len(v) > 0:
			name, _ := json.Marshal(slices.Sorted(maps.Keys(v))[r.IntN(len(v))])
			set(json.RawMessage("{" + string(name) + ":0," + string(text[1:])))
			return what("%s twice", name)
		default:
			v["unknown"] = json.RawMessage([]string{"1", `{"a":1,"a":2}`,
				strings.Repeat("[", 505) + strings.Repeat("]", 505),
				strings.Repeat("9", 401)}[r.IntN(4)])
			return what("an unknown field")
		}
	case []any:
		switch {
		case len(v) == 0:
		case r.IntN(3) == 0:
			set(append(slices.Clone(v), v[r.IntN(len(v))]))
			return what("an element twice")
		case r.IntN(2) == 0:
			i, j := r.IntN(len(v)), r.IntN(len(v))
			v[i], v[j] = v[j], v[i]
			return what("elements %d and %d exchanged", i, j)
		}
	}
	switch r.IntN(4) {
	case 0:
		if p, ok := parent.(map[string]any); ok && key != "" {
			delete(p, key)
			return what("left out")
		}
	case 1:
		if from := pool[key]; len(from) > 0 && index < 0 {
			set(from[r.IntN(len(from))])
			return what("of another document")
		}
	}
	to := kinds[r.IntN(len(kinds))]
	set(to)
	return what("%v", to)
}

// number returns another number, or the same number in another spelling.
func number(r *rand.Rand, was string) string {
	if n, err := strconv.ParseInt(was, 10, 64); err == nil && n < 1<<60 && r.IntN(3) == 0 {
		return strconv.FormatInt(n+int64(r.IntN(3)-1), 10)
	}
	dotted := was
	if !strings.ContainsAny(was, ".eE") {
		dotted += ".0"
	}
	plain := !strings.ContainsAny(was, "eE")
	list := []string{"0", "-0", "-1", "1", "2", "9007199254740992", "9007199254740993", "9007199254.740992",
		"9007199254.740993", "0.000001", "0.0000001", "1e400", "0e999999999", "1e-999999999", "1e2"}
	if plain {
		list = append(list, was+"e0", dotted+"0", dotted+strings.Repeat("0", 12), dotted+strings.Repeat("0", 400),
			dotted+"E+00")
		if strings.Contains(was, ".") {
			list = append(list, was+"1", was[:len(was)-1]+string('0'+(was[len(was)-1]-'0'+1)%10))
		} else {
			list = append(list, was+".000001", was+"0e-1", was+"0")
		}
	}
	return list[r.IntN(len(list))]
}

// word returns another string.
func word(r *rand.Rand, was string) string {
	list := []string{"", "x", was + "x", strings.ToUpper(was), " " + was, was + "\u00e9", "j0", "n/0", "A", "relaxed",
		"gang", "optimal", strings.Repeat("0", 64)}
	if was != "" {
		list = append(list, was[1:], was[:len(was)-1])
	}
	if strings.Contains(was, ".") {
		list = append(list, "0"+was, "+"+was, was+"0", was[:len(was)-1]+"0", was[:len(was)-1]+"1", "-"+was, "5",
			"-0.000000")
	}
	return list[r.IntN(len(list))]
}
