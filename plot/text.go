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
	size float64 // in CSS pixels
	bold bool
}

var (
	titleFace  = typeface{19, true}
	figureFace = typeface{13, false}
	typeFace   = typeface{12.5, true}
	smallFace  = typeface{11, false}
	laneFace   = typeface{10, false}
)

// fonts are parsed once. Parsing the built-in fonts cannot fail.
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

// face returns t at scale pixels per CSS pixel. Faces are not safe for concurrent use,
// so each chart makes its own.
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

// textMeasurer measures texts at any scale.
type textMeasurer struct {
	faces map[typeface]font.Face
}

func (tm *textMeasurer) face(t typeface, scale float64) font.Face {
	key := typeface{t.size * scale, t.bold}
	if tm.faces == nil {
		tm.faces = map[typeface]font.Face{}
	}
	if tm.faces[key] == nil {
		tm.faces[key] = t.face(scale)
	}
	return tm.faces[key]
}

// width returns the width of s in CSS pixels.
func (tm *textMeasurer) width(t typeface, s string) float64 {
	return float64(font.MeasureString(tm.face(t, 1), s)) / float64(fixed.I(1))
}

// fit shortens s in the middle to at most width, or to "" if not even a few letters fit.
func (tm *textMeasurer) fit(t typeface, s string, width float64) string {
	runes := []rune(s)
	if len(runes) > 200 { // no screen shows more
		runes = append(append(runes[:100:100], '…'), runes[len(runes)-99:]...)
		s = string(runes)
	}
	if tm.width(t, s) <= width {
		return s
	}
	for n := len(runes) - 1; n >= 4; n-- {
		short := string(runes[:(n+1)/2]) + "…" + string(runes[len(runes)-n/2:])
		if tm.width(t, short) <= width {
			return short
		}
	}
	return ""
}
