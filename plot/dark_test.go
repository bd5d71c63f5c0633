package plot

import (
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// luminance and contrast are defined by WCAG 2.
func luminance(c color.RGBA) float64 {
	linear := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

func contrast(a, b color.RGBA) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func colourOf(t *testing.T, text string) color.RGBA {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 16, 24)
	if err != nil || len(text) != 7 {
		t.Fatalf("%q is no colour", text)
	}
	return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255}
}

// The style sheet of reports has a rule for dark pages for every neutral colour of
// pictures, and for every colour of a job that would be hard to see on a dark
// background.
func TestPicturesOnDarkPages(t *testing.T) {
	raw, err := os.ReadFile("../plot/web/src/shared/report.css")
	if err != nil {
		t.Fatal(err)
	}
	sheet := strings.Join(strings.Fields(string(raw)), " ")
	for _, c := range []color.RGBA{white, ink, faint, ground, grid} {
		if !strings.Contains(sheet, `svg [fill="`+hex(c)+`"] { fill: var(--`) {
			t.Errorf("no rule for the neutral colour %s", hex(c))
		}
	}
	dark := color.RGBA{0x1d, 0x23, 0x2a, 255} // --ground of theme.css
	for _, c := range palette {
		if contrast(c, dark) >= 3 {
			continue
		}
		for _, part := range []string{"fill", "stroke"} {
			_, rule, ok := strings.Cut(sheet, `svg [`+part+`="`+hex(c)+`"] { `+part+`: light-dark(`+hex(c)+", ")
			if !ok {
				t.Errorf("%s of %s is too dark, and no rule lightens it", part, hex(c))
				continue
			}
			if to := colourOf(t, rule[:7]); contrast(to, dark) < 3 {
				t.Errorf("%s becomes %s, which is too dark still", hex(c), hex(to))
			}
		}
	}
}
