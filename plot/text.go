package plot

import (
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// typeface is a size and weight of the Go fonts.
type typeface struct {
	size float64 // CSS pixels
	bold bool
}

var (
	titleFace  = typeface{19, true}
	figureFace = typeface{13, false}
	typeFace   = typeface{12.5, true}
	smallFace  = typeface{11, false}
	laneFace   = typeface{10, false}
)

// fonts are parsed once; parsing the built-in fonts cannot fail.
var fonts = sync.OnceValue(func() (f [2]*opentype.Font) {
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF} {
		parsed, err := opentype.Parse(ttf)
		if err != nil {
			panic(err) // unreachable: the bytes are constants
		}
		f[i] = parsed
	}
	return f
})

// face is t at scale pixels a CSS pixel. Faces are not safe for use by several
// goroutines, so each chart makes its own.
func (t typeface) face(scale float64) font.Face {
	f := fonts()[0]
	if t.bold {
		f = fonts()[1]
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: t.size * scale, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		panic(err) // unreachable: NewFace has no error to return
	}
	return face
}

// ruler measures texts, at any scale.
type ruler struct {
	faces map[typeface]font.Face
}

func (r *ruler) face(t typeface, scale float64) font.Face {
	key := typeface{t.size * scale, t.bold}
	if r.faces == nil {
		r.faces = map[typeface]font.Face{}
	}
	if r.faces[key] == nil {
		r.faces[key] = t.face(scale)
	}
	return r.faces[key]
}

// width is in CSS pixels.
func (r *ruler) width(t typeface, s string) float64 {
	return float64(font.MeasureString(r.face(t, 1), s)) / float64(fixed.I(1))
}

// fit shortens s in the middle to at most width, or to "" where not even a
// few letters fit.
func (r *ruler) fit(t typeface, s string, width float64) string {
	runes := []rune(s)
	if len(runes) > 200 { // no screen shows more
		runes = append(append(runes[:100:100], '…'), runes[len(runes)-99:]...)
		s = string(runes)
	}
	if r.width(t, s) <= width {
		return s
	}
	for n := len(runes) - 1; n >= 4; n-- {
		short := string(runes[:(n+1)/2]) + "…" + string(runes[len(runes)-n/2:])
		if r.width(t, short) <= width {
			return short
		}
	}
	return ""
}
