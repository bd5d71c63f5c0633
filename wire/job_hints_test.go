package wire

import (
	"bytes"
	"strings"
	"testing"
)

// What a user says of a job survives encoding, in one order, and is no part of the
// canonical form: an instance has the hash that it had without.
func TestHintsOfAnInstance(t *testing.T) {
	text := func(hints string) string {
		return `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},` +
			`"jobs":[{"id":"j","on":{"V100":{"compute_s":1}}` + hints + `}]}`
	}
	plain, err := DecodeInstance(strings.NewReader(text("")), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	told, err := DecodeInstance(strings.NewReader(text(`,"class":{"user":"ann","name":"be\u0072t"},"estimate_s":12.5`)),
		Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if plain.Jobs[0].Hints != nil || SHA256(plain) != SHA256(told) {
		t.Errorf("%+v; hashes %s and %s", plain.Jobs[0].Hints, SHA256(plain), SHA256(told))
	}
	var out bytes.Buffer
	if err := EncodeInstance(&out, told); err != nil {
		t.Fatal(err)
	}
	if want := `,"estimate_s":12.5,"class":{"name":"bert","user":"ann"}}]}`; !strings.Contains(out.String(), want) {
		t.Errorf("%s has no %s", out.String(), want)
	}
}
