package plot

// chart is a picture in CSS pixels, ready to be written in any format.
type chart struct {
	ruler         *textMeasurer
	title         string
	figures, size string
	w, h          float64
	plot          rect // the rows of all groups
	groups        []group
	rows          []row
	ticks         []mark
	legend        []text
	swatches      []swatch
	brackets      []bracket
	gaps          []rect // between nodes
	bands         []band
	overdue       []overdue
	now           *rect                  // the line at now in a timeline; nil in others
	names         func(job int32) string // the names for tooltips
}

type rect struct{ x, y, w, h float64 }

// group holds the rows of one GPU type.
type group struct {
	rect
	label []text
}

// row is the row of one GPU.
type row struct {
	rect
	label  text
	away   []rect
	bars   []bar // x counts from plot.x
	labels []text
}

type mark struct {
	x     float64
	label text
}

// text is one line of text; y is its baseline.
type text struct {
	x, y float64
	s    string
	face typeface
	ink  int // 0 is dark; others are inkFaint and so on
	end  bool
	mid  bool
}

// swatch is a sample of a colour or a shade.
type swatch struct {
	rect
	job   int32
	shade shade
}

// shade says what a swatch shows.
type shade uint8

// inset returns how much of a row's height stays free at the top and the bottom.
func (r *row) inset() float64 {
	switch {
	case r.h >= 14:
		return 2
	case r.h >= 8:
		return 1
	case r.h >= 4:
		return 0.5
	}
	return 0
}

// bracket joins the rows of a node or of a rack at the left of a picture.
type bracket struct {
	x, y, h float64
	label   text
}

// band is a reservation on the rows of one node.
type band struct {
	rect
	who   string
	label text // empty where the band has no room, or another node has the label
}

// overdue are the pieces of bars after the deadlines of their jobs: a line along the bottom of
// the bar, with a hairline that parts it from the bar.
type overdue struct{ rule, hairline rect }

// Options holds the settings of a chart. Its zero value is useful.
type Options struct {
	// Title is the headline; empty means the instance's name.
	Title string
	// Width is the width in CSS pixels, 400 to 8000; zero means 1200. HTML pages fit their
	// window instead.
	Width int
	// Scale is the number of pixels of a PNG per CSS pixel, 1 to 4; zero means 2.
	Scale int
}

// Inks of texts, as indices in inks and textColours.
const (
	inkFaint    = 1
	inkWhite    = 2
	inkLate     = 3
	inkReserved = 4
)

const (
	shadeJob shade = iota
	shadeSync
	shadeSetup
	shadeRunning
	shadeOverdue
	shadeReserved
	shadeAway
)

const (
	maxRows       = 400 // in a picture
	groupGap      = 10.0
	margin        = 16.0
	plotTop       = 84.0
	axisHeight    = 26.0
	legendLine    = 19.0
	maxLegendJobs = 20 // up to so many jobs, all are named
	heaviestShown = 12 // so many of more jobs are named
	labelledRow   = 11.0
)
