package wire

// nameIndex finds the index of a name in a table by a perfect hash: the seed is
// chosen such that no two names have the same slot.
type nameIndex struct {
	names []string
	seed  uint32
	at    [256]uint8 // by slot: the index of the name plus one; 0 means that the slot is empty
}

func newNameIndex(names []string) nameIndex {
	for seed := uint32(1); ; seed += 2 {
		if x := (nameIndex{names: names, seed: seed}); x.fill() {
			return x
		}
	}
}

// fill puts every name into its slot. It returns false where two names have the
// same slot.
func (x *nameIndex) fill() bool {
	for i, name := range x.names {
		p := placeOf(name, x.seed)
		if x.at[p] != 0 {
			return false
		}
		x.at[p] = uint8(i + 1)
	}
	return true
}

func placeOf[S string | []byte](name S, seed uint32) uint8 {
	h := seed
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 0x01000193
	}
	return uint8(h >> 24)
}

// find returns the index of a name, or -1 where the table has no such name.
func (x *nameIndex) find(name []byte) int {
	i := int(x.at[placeOf(name, x.seed)]) - 1
	if i < 0 || string(name) != x.names[i] {
		return -1
	}
	return i
}
